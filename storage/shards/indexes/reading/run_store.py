"""The key runs of Parquet parts, at hand in this process: mapped, and made from the part where nobody has made one.

Every part has a run of every index, made when it is first asked for: tables made before their indexes work at once,
and no part is ever skipped. A run that this process makes goes to a file in its scratch folder, which is mapped and
unlinked; without one it stays in memory. The runs used last are kept, up to a number of bytes. Belongs to the event
loop; work on whole columns happens in threads.
"""

from __future__ import annotations

import asyncio
import mmap
import tempfile
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from storage.bounded_map import BoundedMap
from storage.shards.indexes import runs
from storage.shards.indexes.definition import IndexDefinition
from storage.shards.indexes.reading.row_groups import RowGroups, conform
from storage.shards.indexes.runs import KeyRun
from storage.shards.part_store import PartStore
from storage.shards.parts import Part

KEPT_BYTES = 4 * 1024**3
"""Bytes of runs kept mapped: 24 for a row of an index that finds and orders keys."""

MEMORY_BYTES = 256 * 1024**2
"""The same where there is no scratch folder."""

RunName: TypeAlias = tuple[str | bytes, str]
"""A part's file (or bytes), and the fingerprint of the definition."""


class RunStore:
    """See the module."""

    def __init__(self, parts: PartStore, rows: RowGroups) -> None:
        self._parts = parts
        self._rows = rows
        self._scratch: Path | None = None
        self._runs: BoundedMap[RunName, KeyRun] = BoundedMap(max_bytes=MEMORY_BYTES)
        self._loading: dict[RunName, asyncio.Task[KeyRun]] = {}
        self.made = 0
        """Runs that were made from their parts so far."""

    def use_scratch(self, folder: Path) -> None:
        """Keep runs in files in `folder`, which exists, from now on."""
        self._scratch = folder
        self._runs.max_bytes = KEPT_BYTES

    def get(self, part: Part, definition: IndexDefinition) -> KeyRun | None:
        """The run of `part`, when it is at hand."""
        name = _name(part, definition)
        found = self._runs.get(name)
        if found is not None:
            self._runs.touch(name)
        return found

    async def load(self, part: Part, definition: IndexDefinition) -> KeyRun:
        """The run of `part`. Raises MissingBlob and CorruptPart, when the part cannot be read."""
        found = self.get(part, definition)
        if found is not None:
            return found
        name = _name(part, definition)
        task = self._loading.get(name)
        if task is None:
            task = self._loading[name] = asyncio.ensure_future(self._make(part, definition))
            task.add_done_callback(lambda _: self._loading.pop(name, None))
        return await asyncio.shield(task)

    async def _make(self, part: Part, definition: IndexDefinition) -> KeyRun:
        rows = await self.inputs(part, definition)
        run = await asyncio.to_thread(_build, definition, rows, runs.part_tag(part), self._scratch)
        self.made += 1
        self._runs.put(_name(part, definition), run, run.nbytes)
        return run

    async def inputs(self, part: Part, definition: IndexDefinition) -> pa.Table:
        """The stored columns of `part` that the keys of `definition` follow from, read for this and not kept."""
        wanted = definition.inputs
        stored = [column.name for column in wanted if column.name in part.stats]
        if part.inline is not None:
            table = await self._parts.read(part, stored, keep=False)
        else:
            layout = await self._rows.load_layout(part)
            pieces = [
                await self._parts.row_group(part, layout.metadata, number, stored)
                for number in range(layout.metadata.num_row_groups)
            ]
            table = pa.concat_tables(pieces)
        held = {name: table.column(name) for name in stored}
        return pa.table({column.name: conform(column, held.get(column.name), part.rows) for column in wanted})


def _name(part: Part, definition: IndexDefinition) -> RunName:
    source = part.key if part.inline is None else part.inline
    assert source is not None
    return source, definition.fingerprint


def _build(definition: IndexDefinition, rows: pa.Table, tag: bytes, folder: Path | None) -> KeyRun:
    """Runs in a thread."""
    data: bytes | memoryview = runs.build(definition, rows, tag)
    if folder is not None:
        data = mapped(folder, data)
    return runs.decode(definition, tag, data, "a key run", trusted=True)


def mapped(folder: Path, data: bytes | memoryview) -> memoryview:
    """`data` in a file in `folder` that has no name any more, mapped."""
    with tempfile.TemporaryFile(dir=folder, prefix="run-") as file:
        file.write(data)
        file.flush()
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
