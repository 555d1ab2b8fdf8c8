"""Giving files the key runs that they lack: those older than their index, and those that an engine wrote.

Any process may do it at any time; whoever comes second finds it done. Nobody waits for it: a reading makes what it
needs itself. A crash leaves uploads that nothing refers to, for `storage.upkeep.orphans`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Container, Iterable, Sequence

from storage.durable.state import Abandon
from storage.ids import ShardId
from storage.shards.indexes.definition import IndexDefinition
from storage.shards.indexes.durable_runs import durable_run, run_ref
from storage.shards.indexes.reading.reader import KeyReader
from storage.shards.indexes.runs import encode, part_tag
from storage.shards.packed_parts import PartMap
from storage.shards.part_store import PartStore
from storage.shards.parts import Part, RunRef
from storage.shards.shard import DataShard
from storage.shards.shard_state import SetRuns, ShardDiff, ShardState
from storage.transactions.shard_handles import ShardHandles


class Indexer:
    """The making of key runs in the background, as far as one process sees to it."""

    def __init__(self, *, handles: ShardHandles, parts: PartStore, keys: KeyReader) -> None:
        self._handles = handles
        self._parts = parts
        self._keys = keys

    def is_due(self, shard: ShardId) -> bool:
        """Whether a file of `shard` lacks a run, or has one that no index needs."""
        handle = self._handles.opened(shard)
        if handle is None or not self._keys.provided:
            return False
        definitions = self._keys.definitions_of(shard)
        return any(_is_due(part, definitions) for part in _candidates(handle.state, definitions))

    def changed(self) -> Collection[ShardId]:
        """The shards whose indexes are not what they were when this was last called: to be indexed, whether anything
        was written to them or not."""
        return self._keys.changed()

    async def index(self, shard: ShardId, definitions: Sequence[IndexDefinition] | None = None) -> int:
        """Make the runs that files of `shard` lack. Returns how many parts have others now. With `definitions`: for
        these indexes, which are to be those of the shard once a transaction has committed; if it does not, what was
        made goes again.

        Raises MissingBlob and CorruptPart when a part cannot be read.
        """
        handle = await self._handles.open(shard)
        if definitions is None:
            definitions = self._keys.definitions_of(shard)
        changed = 0
        for part in [part for part in _candidates(handle.state, definitions) if _is_due(part, definitions)]:
            changed += await self._index(handle, part, definitions)
        return changed

    async def rebuild(self, shard: ShardId, indexes: Container[int]) -> int:
        """Make the runs of `indexes` (by oid) anew from the files of `shard`, also where there are some. Returns how
        many parts have others now. Raises as `index`."""
        handle = await self._handles.open(shard)
        definitions = self._keys.definitions_of(shard)
        anew = frozenset(definition.id for definition in definitions if definition.id in indexes)
        changed = 0
        for part in [part for part in handle.state.parts.values() if _is_file(part)]:
            changed += await self._index(handle, part, definitions, anew)
        return changed

    async def _index(
        self,
        handle: DataShard,
        part: Part,
        definitions: Sequence[IndexDefinition],
        anew: frozenset[int] = frozenset(),
    ) -> bool:
        epoch = handle.state.epoch
        runs: dict[int, RunRef] = {}
        new: list[str] = []

        def propose(state: ShardState) -> ShardDiff | Abandon[None]:
            # NOTE: in another epoch the others may have taken this process for dead, and its new files for orphans.
            if state.dropped or state.epoch != epoch or state.parts.get(part.id) != part:
                return Abandon(None)
            return ShardDiff((SetRuns(part=part.id, runs=runs),))

        try:
            for definition in definitions:
                ref = None if definition.id in anew else durable_run(part, definition)
                if ref is None:
                    source = self._keys.sources.runs
                    run = await (source.make if definition.id in anew else source.load)(part, definition)
                    key = self._parts.new_key(handle.shard, "keys")
                    new.append(key)
                    data = await asyncio.to_thread(encode, definition, run, part_tag(part))
                    await self._parts.add_file(key, data)
                    ref = run_ref(definition, part, data, key)
                runs[definition.id] = ref
            return runs != part.runs and await handle.update(propose)
        finally:
            # Named by the state now, or by nothing for ever.
            self._parts.release(new)


def _is_file(part: Part) -> bool:
    return part.key is not None and part.kind == "insert"


def _candidates(state: ShardState, definitions: Sequence[IndexDefinition]) -> Iterable[Part]:
    """The parts among which are those that lack a run, or have one that no index needs."""
    if not isinstance(state.parts, PartMap):
        return state.parts.values()
    needed = _needed(definitions)
    return state.parts.among(lambda block: block.held != needed)


def _needed(definitions: Sequence[IndexDefinition]) -> dict[int, str]:
    return {definition.id: definition.fingerprint for definition in definitions}


def _is_due(part: Part, definitions: Sequence[IndexDefinition]) -> bool:
    if not _is_file(part):
        return False
    held = {index: run.fingerprint for index, run in part.runs.items()}
    return held != _needed(definitions)
