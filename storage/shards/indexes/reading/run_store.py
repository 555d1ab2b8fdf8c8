"""The key runs of Parquet parts, at hand in this process: read, or made from the part where nobody has made one.

Every part has a run of every index, at the latest when it is first asked for: tables made before their indexes work at
once, and no part is ever skipped. A run goes to a file in the process's scratch folder, which is mapped and unlinked;
without one it stays in memory. The runs used last are kept, up to a number of bytes. Belongs to the event loop; work
on whole columns happens in threads.

Of a run that is not at hand, what is asked for a few keys are head and directory, once, and the pages that may have
them. A run of which more than a small part has been read that way, or would have to be, is read whole.
"""

from __future__ import annotations

import asyncio
import mmap
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import structlog
from msgspec import Struct

from storage.bounded_map import BoundedMap
from storage.cache_memory import aging, share, watched
from storage.errors import CorruptData, NewerFormat
from storage.shards.indexes import filters, runs
from storage.shards.indexes.definition import IndexDefinition
from storage.shards.indexes.durable_runs import conformed, durable_run, head_of, open_run
from storage.shards.indexes.reading.row_groups import RowGroups
from storage.shards.indexes.runs import KeyRun, RunHead, Section
from storage.shards.part_store import PartStore
from storage.shards.parts import Part, RunRef

log = structlog.get_logger(__name__)

KEPT_BYTES = 4 * 1024**3
"""Bytes of runs kept mapped: 24 for a row of an index that finds and orders keys."""

MEMORY_BYTES = 256 * 1024**2
"""The same where there is no scratch folder."""

HEAD_BYTES = share(32)
"""Bytes of heads, directories and filters kept of runs that are not at hand."""

PAGES_BYTES = share(32)
"""Bytes of pages kept of such runs."""

FIRST_BYTES = 64 * 1024
"""A filter that ends within so many bytes is read with its head."""

WHOLE_SHARE = 16
"""A run is read whole once this part of its pages (one of so many) was read one by one."""

PageName: TypeAlias = tuple[str, bool, int]
"""The file of a run, whether the page is by hash, and its number."""

RunName: TypeAlias = tuple[str | bytes, str]
"""A part's file (or bytes), and the fingerprint of the definition."""


class StoredHead(Struct):
    """The head of a stored run, its filter if that has been read, and how many pages were read since."""

    head: RunHead
    filter: bytes | None
    read: int = 0


class RunStore:
    """See the module. With `validate`, a run that was read is compared with what the part says."""

    def __init__(self, parts: PartStore, rows: RowGroups, *, validate: bool = False) -> None:
        self._parts = parts
        self._rows = rows
        self._validate = validate
        self._scratch: Path | None = None
        self._runs: BoundedMap[RunName, KeyRun] = watched("key_runs", BoundedMap(max_bytes=MEMORY_BYTES))
        self._heads: BoundedMap[str, StoredHead] = watched("run_heads", aging(BoundedMap(max_bytes=HEAD_BYTES)))
        self._pages: BoundedMap[PageName, Section] = watched("run_pages", aging(BoundedMap(max_bytes=PAGES_BYTES)))
        self._loading: dict[RunName, asyncio.Task[KeyRun]] = {}
        self.made = 0
        """Runs that were made from their parts so far."""
        self.read = 0
        """Runs that were read so far, whole or some of their pages."""
        self.pages_read = 0
        """Pages that were read one by one so far."""
        self.refused = 0
        """Runs that were damaged or missing so far."""

    def use_scratch(self, folder: Path) -> None:
        """Keep runs in files in `folder`, which exists, from now on."""
        self._scratch = folder
        self._runs.max_bytes = KEPT_BYTES

    def mapped(self) -> list[mmap.mmap]:
        """The files that are mapped."""
        return [run.mapped for _, run in self._runs.items() if run.mapped is not None]

    def get(self, part: Part, definition: IndexDefinition) -> KeyRun | None:
        """The run of `part`, when it is at hand."""
        name = _name(part, definition)
        found = self._runs.get(name)
        if found is not None:
            self._runs.touch(name)
            self._runs.hits += 1
        return found

    def head(self, ref: RunRef) -> StoredHead | None:
        """The head of a stored run, when it is at hand."""
        found = self._heads.get(ref.key)
        self._heads.hits += found is not None
        return found

    async def load_head(self, part: Part, definition: IndexDefinition, ref: RunRef) -> StoredHead | None:
        """The head of a stored run; None when that cannot be used."""
        first = runs.first_bytes(definition, part.rows)
        with_filter = first + filters.filter_bytes(part.rows)
        try:
            data = await self._parts.read_file(ref.key, 0, with_filter if with_filter <= FIRST_BYTES else first)
            head = head_of(part, ref, data)
            whole = head.filter_start + head.filter_bytes <= len(data)
            filter_ = runs.read_filter(head, data, f"key run {ref.key}") if whole else None
        except (CorruptData, NewerFormat) as error:
            self._refuse(ref, error)
            return None
        return self._keep_head(ref, StoredHead(head, filter_))

    async def load_filter(self, ref: RunRef, held: StoredHead) -> StoredHead | None:
        """As `load_head`, with the filter, whose head is `held`."""
        head = held.head
        try:
            data = await self._parts.read_file(ref.key, 0, head.filter_start + head.filter_bytes)
            filter_ = runs.read_filter(head, data, f"key run {ref.key}")
        except (CorruptData, NewerFormat) as error:
            self._refuse(ref, error)
            return None
        return self._keep_head(ref, StoredHead(head, filter_, held.read))

    def _keep_head(self, ref: RunRef, held: StoredHead) -> StoredHead:
        size = held.head.filter_start + (0 if held.filter is None else len(held.filter))
        self._heads.put(ref.key, held, size)
        self._heads.misses += 1
        return held

    def is_worth_whole(self, held: StoredHead, pages: int) -> bool:
        """Whether a run is to be read whole where so many more of its pages are needed."""
        every = sum([len(own.firsts) for own in (held.head.by_hash, held.head.by_order) if own is not None])
        return (held.read + pages - 1) * WHOLE_SHARE > every

    def pages(self, ref: RunRef, by_hash: bool, numbers: Sequence[int]) -> dict[int, Section]:
        """Those of the pages that are at hand."""
        found = {}
        for number in numbers:
            name = ref.key, by_hash, number
            page = self._pages.get(name)
            if page is not None:
                self._pages.touch(name)
                found[number] = page
        self._pages.hits += len(found)
        return found

    async def load_pages(
        self, part: Part, definition: IndexDefinition, ref: RunRef, by_hash: bool, numbers: Sequence[int]
    ) -> dict[int, Section] | None:
        """Pages of a stored run whose head is at hand, neighbours by one reading; None when they cannot be used."""
        held = self._heads.get(ref.key)
        pages = None if held is None else held.head.by_hash if by_hash else held.head.by_order
        if held is None or pages is None:
            return None
        found: dict[int, Section] = {}
        try:
            for first, stop in _neighbours(numbers):
                start, (last, length) = pages.place_of(first)[0], pages.place_of(stop - 1)
                data = memoryview(await self._parts.read_file(ref.key, start, last + length - start))
                for number in range(first, stop):
                    at, length = pages.place_of(number)
                    # A page of its own memory, so that none keeps its neighbours.
                    page = bytes(data[at - start : at - start + length])
                    found[number] = pages.page(number, page, f"key run {ref.key}")
        except (CorruptData, NewerFormat) as error:
            self._refuse(ref, error)
            return None
        for number, section in found.items():
            self._pages.put((ref.key, by_hash, number), section, runs.PAGE_BYTES)
        self.read += not held.read
        held.read += len(found)
        self.pages_read += len(found)
        self._pages.misses += len(found)
        if self._validate:
            again = runs.decode(
                definition.fingerprint,
                runs.part_tag(part),
                runs.build(definition, await self.inputs(part, definition), runs.part_tag(part)),
                "the run made again",
            )
            assert again.head.checksum == held.head.checksum, f"key run {ref.key} is not what its part says"
        return found

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
        self._runs.put(_name(part, definition), run, run.nbytes)
        return run

    async def make(self, part: Part, definition: IndexDefinition) -> KeyRun:
        """The run of `part`, made from it whatever is stored. Raises MissingBlob and CorruptPart, when the part cannot
        be read."""
        rows = await self.inputs(part, definition)
        run = await asyncio.to_thread(_made, definition, rows, runs.part_tag(part), self._scratch)
        self.made += 1
        self._runs.put(_name(part, definition), run, run.nbytes)
        return run

    async def _read(self, part: Part, definition: IndexDefinition, ref: RunRef) -> KeyRun | None:
        """The stored run; None when that cannot be used."""
        try:
            data = await self._parts.read_file(ref.key)
            run = await asyncio.to_thread(_opened, part, ref, data, self._scratch)
        except (CorruptData, NewerFormat) as error:
            self._refuse(ref, error)
            return None
        held = self._heads.get(ref.key)
        self.read += held is None or not held.read
        if self._validate:
            again = runs.build(definition, await self.inputs(part, definition), runs.part_tag(part))
            assert again == data, f"key run {ref.key} is not what its part says"
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


def _neighbours(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ascending `numbers` as ranges: the first, and the one after the last."""
    first = previous = numbers[0]
    for number in numbers[1:]:
        if number != previous + 1:
            yield first, previous + 1
            first = number
        previous = number
    yield first, previous + 1


def _made(definition: IndexDefinition, rows: pa.Table, tag: bytes, folder: Path | None) -> KeyRun:
    """Runs in a thread."""
    data = runs.build(definition, rows, tag)
    return _kept(folder, runs.decode(definition.fingerprint, tag, data, "a key run"))


def _opened(part: Part, ref: RunRef, data: bytes, folder: Path | None) -> KeyRun:
    """Runs in a thread."""
    return _kept(folder, open_run(part, ref, data))


def _kept(folder: Path | None, run: KeyRun) -> KeyRun:
    """`run`, mapped from a file in `folder` that has no name any more."""
    if folder is None:
        return run

    def write(data: bytes) -> mmap.mmap:
        with tempfile.TemporaryFile(dir=folder, prefix="run-") as file:
            file.write(data)
            file.flush()
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    return runs.in_file(run, write)
