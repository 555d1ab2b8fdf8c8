"""The key runs of Parquet parts, at hand in this process: read, or made from the part where nobody has made one.

Every part has a run of every index, at the latest when it is first asked for: tables made before their indexes work at
once, and no part is ever skipped. A run goes to a file in the process's scratch folder, which is mapped and unlinked;
without one it stays in memory. The runs used last are kept, up to a number of bytes. Belongs to the event loop; work
on whole columns happens in threads.
"""

from __future__ import annotations

import asyncio
import mmap
import tempfile
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import structlog

from storage.bounded_map import BoundedMap
from storage.cache_memory import aging, share
from storage.errors import CorruptData, NewerFormat
from storage.shards.indexes import filters, runs
from storage.shards.indexes.definition import IndexDefinition
from storage.shards.indexes.durable_runs import conformed, durable_run, head_of, open_run
from storage.shards.indexes.reading.row_groups import RowGroups
from storage.shards.indexes.runs import KeyRun, RunHead
from storage.shards.part_store import PartStore
from storage.shards.parts import Part, RunRef

log = structlog.get_logger(__name__)

KEPT_BYTES = 4 * 1024**3
"""Bytes of runs kept mapped: 24 for a row of an index that finds and orders keys."""

MEMORY_BYTES = 256 * 1024**2
"""The same where there is no scratch folder."""

HEAD_BYTES = share(16)
"""Bytes of filters kept of runs that are not at hand."""

RunName: TypeAlias = tuple[str | bytes, str]
"""A part's file (or bytes), and the fingerprint of the definition."""


class RunStore:
    """See the module. With `validate`, a run that was read is compared with what the part says."""

    def __init__(self, parts: PartStore, rows: RowGroups, *, validate: bool = False) -> None:
        self._parts = parts
        self._rows = rows
        self._validate = validate
        self._scratch: Path | None = None
        self._runs: BoundedMap[RunName, KeyRun] = BoundedMap(max_bytes=MEMORY_BYTES)
        self._heads: BoundedMap[str, RunHead] = aging(BoundedMap(max_bytes=HEAD_BYTES))
        self._loading: dict[RunName, asyncio.Task[KeyRun]] = {}
        self.made = 0
        """Runs that were made from their parts so far."""
        self.read = 0
        """Runs that were read whole so far."""
        self.refused = 0
        """Runs that were damaged or missing so far."""

    def use_scratch(self, folder: Path) -> None:
        """Keep runs in files in `folder`, which exists, from now on."""
        self._scratch = folder
        self._runs.max_bytes = KEPT_BYTES

    def mapped(self) -> list[mmap.mmap]:
        """The files that are mapped."""
        views = [run.data for _, run in self._runs.items() if isinstance(run.data, memoryview)]
        return [view.obj for view in views if isinstance(view.obj, mmap.mmap)]

    def get(self, part: Part, definition: IndexDefinition) -> KeyRun | None:
        """The run of `part`, when it is at hand."""
        name = _name(part, definition)
        found = self._runs.get(name)
        if found is not None:
            self._runs.touch(name)
        return found

    def head(self, ref: RunRef) -> RunHead | None:
        """The head of a stored run, when it is at hand."""
        return self._heads.get(ref.key)

    async def load_head(self, part: Part, ref: RunRef) -> RunHead | None:
        """The head of a stored run; None when that cannot be used."""
        try:
            data = await self._parts.read_file(ref.key, runs.HEAD_BYTES + filters.filter_bytes(part.rows))
            head = head_of(part, ref, data)
        except (CorruptData, NewerFormat) as error:
            self._refuse(ref, error)
            return None
        self._heads.put(ref.key, head, len(head.filter) + runs.HEAD_BYTES)
        return head

    async def load(self, part: Part, definition: IndexDefinition) -> KeyRun:
        """The run of `part`. Raises MissingBlob and CorruptPart, when the part cannot be read."""
        found = self.get(part, definition)
        if found is not None:
            return found
        name = _name(part, definition)
        task = self._loading.get(name)
        if task is None:
            task = self._loading[name] = asyncio.ensure_future(self._load(part, definition))
            task.add_done_callback(lambda _: self._loading.pop(name, None))
        return await asyncio.shield(task)

    async def _load(self, part: Part, definition: IndexDefinition) -> KeyRun:
        ref = durable_run(part, definition)
        run = None if ref is None else await self._read(part, definition, ref)
        if run is None:
            return await self.make(part, definition)
        self._runs.put(_name(part, definition), run, len(run.data))
        return run

    async def make(self, part: Part, definition: IndexDefinition) -> KeyRun:
        """The run of `part`, made from it whatever is stored. Raises MissingBlob and CorruptPart, when the part cannot
        be read."""
        rows = await self.inputs(part, definition)
        run = await asyncio.to_thread(_made, definition, rows, runs.part_tag(part), self._scratch)
        self.made += 1
        self._runs.put(_name(part, definition), run, len(run.data))
        return run

    async def _read(self, part: Part, definition: IndexDefinition, ref: RunRef) -> KeyRun | None:
        """The stored run; None when that cannot be used."""
        try:
            data = await self._parts.read_file(ref.key)
            run = await asyncio.to_thread(_opened, part, ref, data, self._scratch)
        except (CorruptData, NewerFormat) as error:
            self._refuse(ref, error)
            return None
        self.read += 1
        if self._validate:
            again = runs.build(definition, await self.inputs(part, definition), runs.part_tag(part))
            assert again == bytes(run.data), f"key run {ref.key} is not what its part says"
        return run

    def _refuse(self, ref: RunRef, error: Exception) -> None:
        self.refused += 1
        log.warning("a key run cannot be used, and is made anew", key=ref.key, error=str(error))

    async def inputs(self, part: Part, definition: IndexDefinition) -> pa.Table:
        """The columns of `part` that the keys of `definition` follow from, read for this and not kept."""
        stored = [column.name for column in definition.inputs if column.name in part.stats]
        if part.inline is not None:
            table = await self._parts.read(part, stored, keep=False)
        elif stored:
            layout = await self._rows.load_layout(part)
            pieces = [
                await self._parts.row_group(part, layout.metadata, number, stored)
                for number in range(layout.metadata.num_row_groups)
            ]
            table = pa.concat_tables(pieces)
        if not stored:
            # A table without columns has no rows.
            table = pa.table({"": pa.nulls(part.rows)})
        return conformed(definition, table)


def _name(part: Part, definition: IndexDefinition) -> RunName:
    source = part.key if part.inline is None else part.inline
    assert source is not None
    return source, definition.fingerprint


def _made(definition: IndexDefinition, rows: pa.Table, tag: bytes, folder: Path | None) -> KeyRun:
    """Runs in a thread."""
    data = _kept(folder, runs.build(definition, rows, tag))
    return runs.decode(definition.fingerprint, tag, data, "a key run", trusted=True)


def _opened(part: Part, ref: RunRef, data: bytes, folder: Path | None) -> KeyRun:
    """Runs in a thread."""
    return open_run(part, ref, _kept(folder, data))


def _kept(folder: Path | None, data: bytes) -> bytes | memoryview:
    """`data`, mapped from a file in `folder` that has no name any more."""
    if folder is None or not data:
        return data
    with tempfile.TemporaryFile(dir=folder, prefix="run-") as file:
        file.write(data)
        file.flush()
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
