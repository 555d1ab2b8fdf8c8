"""Reading and writing parts: encoding off the event loop, upload, footers, and a cache of decoded rows.

Keys are ``parts/<shard>/<process>-<random>.parquet``, and ``.keys`` for key runs; the process in the name tells
garbage collection whose uncommitted file it is. What an engine writes in many tasks has more words between the random
one and the end, ``<process>-<random>.<...>.parquet``. `in_flight` has the keys of this process that no durable
state need refer to yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence, Set
from typing import Protocol, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from storage.bounded_map import BoundedMap
from storage.cache_memory import aging, share, watched
from storage.clock import Clock, Randomness
from storage.errors import (
    CorruptPart,
    Determinate,
    Indeterminate,
    PartPrevented,
    StorageClosed,
    StorageError,
    StoreFull,
    missing_blob,
    missing_part,
    not_stored,
    part_not_stored,
)
from storage.ids import ShardId, random_text
from storage.shards.columns.row_group_bytes import row_group
from storage.shards.footers import metadata_of, parquet_stats
from storage.shards.links import as_stored
from storage.shards.partitions.transforms import PartitionField, PartitionValue, common_values
from storage.shards.parts import (
    INLINE_LIMIT_BYTES,
    ROW_ID,
    Part,
    PartDigest,
    RowIdRange,
    RunRef,
    UploadedPart,
    arrow_bytes,
    called,
    default_columns,
    file_part,
    fingerprint,
    inline_part,
    read_table,
    stored_names,
    with_row_ids,
)
from storage.shards.writes import PromisedPart, ShardWrites
from storage.stores.blob import Blob, ByteRange

CACHE_BYTES = share(4)
"""Bytes of decoded parts kept in memory."""

ENTRY_BYTES = 4096
"""About what an entry of the cache takes besides the Arrow data: Arrow's objects, and an inline part's bytes, which are
part of its key. For parts of single rows that is almost all."""

THREAD_BYTES = 256 * 1024
"""Parts above this are decoded in a thread; smaller ones take less time than the switch."""

THREAD_DECODED_BYTES = 4 * 1024 * 1024
"""So are those of which more than this is made: a large value may be a small file."""

TOMBSTONE = b"tidegate tombstone\n"
"""What stands at the key of a part that has been prevented. Shorter than any Parquet file."""

UPLOAD_DELAYS_S = (0.01, 0.05, 0.2, 0.5, 1.0)
"""Pauses between attempts of one upload; then it has failed."""

FOOTER_GUESS_BYTES = 32 * 1024

MAX_VERIFIED = 100_000
"""Files that are remembered as verified."""

CHECKED_AT_ONCE = 64
"""Files of others that are looked up at the same time."""

VERIFIED_BYTES = 8 * 1024 * 1024
"""How much of a file is read at once to verify its checksum."""

Partition: TypeAlias = tuple[PartitionField, ...]

Slot: TypeAlias = tuple[str | bytes, int, tuple[RowIdRange, ...], tuple[str, ...] | None]
"""What a decoded table in the cache came from: its source, its row ids, its columns."""


def parts_prefix(shard: ShardId | None = None) -> str:
    """The prefix of every part's key, or of those of `shard`."""
    return "parts/" if shard is None else f"parts/{shard}/"


def owner_of(key: str) -> ShardId:
    """The shard that the file `key` was written for. Others may refer to it too
    (`storage.upkeep.shared_files`)."""
    return ShardId(key.split("/", 2)[1])


class RunMaker(Protocol):
    """Makes the key runs of one index."""

    @property
    def index(self) -> int:
        """The oid of the index."""
        ...

    def make(self, part: Part, rows: pa.Table, key: str) -> tuple[RunRef, bytes]:
        """The run of `part`, whose stored rows are `rows`, to be stored as `key`. Runs in a thread."""
        ...


class PartStore:
    """See the module's contract."""

    def __init__(self, blob: Blob, clock: Clock, random: Randomness, process: str) -> None:
        self._blob = blob
        self._clock = clock
        self._uploads: dict[str, asyncio.Task[StorageError | None]] = {}
        self._random = random
        self._process = process
        self.in_flight: set[str] = set()
        self.changes = 0
        """How often a key entered `in_flight` or left it."""
        self._cache: BoundedMap[Slot, pa.Table] = watched("parts", aging(BoundedMap(max_bytes=CACHE_BYTES)))
        self._verified: BoundedMap[str, bool] = BoundedMap(max_entries=MAX_VERIFIED)
        self.run_makers: Callable[[ShardId], Sequence[RunMaker]] = lambda shard: ()
        """For each index of a shard, what makes the key runs of its new files."""

    def new_key(self, shard: ShardId, kind: str = "parquet") -> str:
        """A key that nobody has used, protected until its part is committed or discarded."""
        key = f"{parts_prefix(shard)}{self._process}-{random_text(self._random)}.{kind}"
        self.in_flight.add(key)
        self.changes += 1
        return key

    def take_over(self, keys: Iterable[str]) -> None:
        """Protect these files of an engine until their parts are committed or discarded."""
        self.in_flight.update(keys)
        self.changes += 1

    def is_protected(self, key: str, in_flight: Set[str]) -> bool:
        """Whether `key` is among the keys `in_flight`, or begins as one of them does whose tasks still write."""
        folder, _, name = key.rpartition("/")
        return key in in_flight or f"{folder}/{name.partition('.')[0]}.parquet" in in_flight

    async def encode(self, kind: str, shard: ShardId, table: pa.Table, partition: Partition = ()) -> Part:
        """An inline part when `table` is small, else an uploaded one."""
        if arrow_bytes(table) <= 2 * INLINE_LIMIT_BYTES:
            part = inline_part(kind, table)
            if part.bytes <= INLINE_LIMIT_BYTES:
                return msgspec.structs.replace(part, partition=_common(partition, table)) if partition else part
        return await self.upload(kind, shard, table, partition)

    async def upload(self, kind: str, shard: ShardId, table: pa.Table, partition: Partition = ()) -> Part:
        """Encode `table` as Parquet, with its key runs, and store it durably under a new key. `partition`: what its
        rows may have in common, which the part then says."""
        part, files = await self._encoded(kind, shard, table, partition)
        for file, data in files:
            failure = await self._put_once(file.key, data)
            if isinstance(failure, Determinate):
                raise failure
            if failure is not None:
                # Whether the file is there does not matter: nothing refers to it.
                raise part_not_stored(failure) from failure
        return part

    async def prepare(self, kind: str, shard: ShardId, table: pa.Table, partition: Partition = ()) -> Part:
        """As `upload`, without waiting for what it stores."""
        part, files = await self._encoded(kind, shard, table, partition)
        for file, data in files:
            self._uploads[file.key] = asyncio.get_running_loop().create_task(self._put_once(file.key, data))
        return part

    async def _encoded(
        self, kind: str, shard: ShardId, table: pa.Table, partition: Partition
    ) -> tuple[Part, list[tuple[PromisedPart, bytes]]]:
        """A part for `table`, and the files to store for it: its rows, and the runs of its shard's indexes."""
        key = self.new_key(shard)
        makers = self.run_makers(shard) if kind == "insert" else ()
        keys = [self.new_key(shard, "keys") for _ in makers]
        part, data, made = await asyncio.to_thread(_encoded_with_runs, kind, table, key, makers, keys, partition)
        files = [(PromisedPart(key, part.bytes, part.checksum), data)]
        files += [(PromisedPart(run.key, run.bytes, run.checksum), bytes_) for run, bytes_ in made]
        return part, files

    async def add_file(self, key: str, data: bytes) -> None:
        """Store a file that belongs to a part which is stored already, under a key from `new_key`."""
        failure = await self._put_once(key, data)
        if failure is not None:
            raise not_stored(f"{key} could not be stored", failure) from failure

    async def read_file(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """The file `key` that belongs to a part, or what there is of `length` bytes from `start` on. Raises
        MissingBlob."""
        data = await self._blob.get(key, None if length is None else ByteRange(start=start, length=length))
        if data is None:
            raise missing_blob(key)
        return data

    def unfinished(self, parts: Iterable[Part]) -> tuple[PromisedPart, ...]:
        """The files of `parts` whose upload by this process is not known to have succeeded."""
        return tuple([file for part in parts for file in _files(part) if self._is_under_way(file.key)])

    def _is_under_way(self, key: str) -> bool:
        task = self._uploads.get(key)
        return task is not None and not (task.done() and task.result() is None)

    async def finished(self, keys: Iterable[str]) -> StorageError | None:
        """Wait for the uploads of `keys`; the first failure, or None when all are stored durably."""
        for key in keys:
            task = self._uploads.get(key)
            if task is not None:
                failure = await asyncio.shield(task)
                if failure is not None:
                    return failure
        return None

    async def _put_once(self, key: str, data: bytes) -> StorageError | None:
        """Store `data` unless the key is taken, in spite of a store that fails now and then.

        Returns what went wrong: `Determinate` when the part is certainly not there (nobody else would write it),
        `PartPrevented` when it never can be, `Indeterminate` when that has to be found out.
        """
        failure: StorageError | None = None
        doubt: Indeterminate | None = None
        for delay in (*UPLOAD_DELAYS_S, None):
            try:
                if await self._blob.put_if_absent(key, data):
                    return None
                # Taken: by an earlier attempt of ours, or by somebody who prevents it.
                if await self._blob.size(key) == len(data):
                    return None
                return PartPrevented(f"part {key} was prevented: another process aborted its transaction")
            except Indeterminate as error:
                failure = doubt = error
            except Determinate as error:
                failure = error
                if isinstance(error, StorageClosed | StoreFull):
                    break
            if delay is not None:
                await self._clock.sleep(delay)
        return doubt or failure

    async def _arrived(self, key: str, size: int) -> StorageError | None:
        """Make durable what an engine says it has written, in spite of a store that fails now and then. Returns what
        went wrong, as `_put_once` does: a file that could not be asked for may be there."""
        failure: StorageError | None = None
        for delay in (*UPLOAD_DELAYS_S, None):
            try:
                found = await self._blob.make_durable(key)
            except (Determinate, Indeterminate) as error:
                failure = error
            else:
                if found is None:
                    return Determinate(f"a part that an engine has written is gone: {key}")
                if found != size:
                    return PartPrevented(f"part {key} was prevented: another process aborted its transaction")
                return None
            if delay is not None:
                await self._clock.sleep(delay)
        return Indeterminate(f"nobody can tell whether {key} is stored: {failure}")

    async def describe(self, kind: str, uploaded: UploadedPart, partition: Partition = ()) -> Part:
        """The part for the Parquet file `uploaded`, from its footer. `partition` as for `upload`: the columns of it are
        read. When everything is said of the file, nothing else is asked of the store before the commit.

        Raises MissingBlob when it is not there, CorruptPart when it is no Parquet file or not as announced.
        """
        self.in_flight.add(uploaded.key)
        self.changes += 1
        if uploaded.footer and uploaded.checksum and uploaded.bytes is not None:
            part, metadata = _described(kind, uploaded, uploaded.bytes)
            if uploaded.key not in self._uploads:
                arriving = self._arrived(uploaded.key, uploaded.bytes)
                self._uploads[uploaded.key] = asyncio.get_running_loop().create_task(arriving)
            if not partition:
                return part
            return msgspec.structs.replace(part, partition=await self._common_values(part, metadata, partition))
        # Makes the engine's file durable, before anything refers to it.
        size = await self._blob.make_durable(uploaded.key)
        if size is None:
            raise missing_blob(uploaded.key)
        if uploaded.bytes is not None and uploaded.bytes != size:
            raise CorruptPart(f"{uploaded.key} has {size} bytes, announced were {uploaded.bytes}")
        metadata = await self.footer(uploaded.key, size)
        if uploaded.rows is not None and uploaded.rows != metadata.num_rows:
            raise CorruptPart(f"{uploaded.key} has {metadata.num_rows} rows, announced were {uploaded.rows}")
        part = Part(
            kind=kind,
            rows=metadata.num_rows,
            bytes=size,
            stats=parquet_stats(metadata),
            key=uploaded.key,
            checksum=uploaded.checksum or await self._checksum(uploaded.key, size),
            fingerprint=fingerprint(metadata.schema.to_arrow_schema()),
        )
        if not partition:
            return part
        return msgspec.structs.replace(part, partition=await self._common_values(part, metadata, partition))

    async def _common_values(
        self, part: Part, metadata: pq.FileMetaData, partition: Partition
    ) -> tuple[PartitionValue, ...]:
        names = list(dict.fromkeys([field.column for field in partition]))
        common: tuple[PartitionValue, ...] | None = None
        for number in range(metadata.num_row_groups):
            rows = await self.row_group(part, metadata, number, [name for name in names if name in part.stats])
            found = await asyncio.to_thread(common_values, partition, rows)
            if found is None or (common is not None and found != common):
                return ()
            common = found
        return common or ()

    async def _checksum(self, key: str, size: int) -> str:
        """The checksum of a file that an engine has just written: of all of it, read once more. Where the store is no
        folder the file is still here as a copy (`storage.stores.blob_files`)."""
        digest = PartDigest()
        for start in range(0, size, VERIFIED_BYTES):
            length = min(VERIFIED_BYTES, size - start)
            data = await self._blob.get(key, ByteRange(start=start, length=length)) or b""
            await asyncio.to_thread(digest.add, data)
        return digest.checksum

    async def verify(self, parts: Iterable[Part]) -> None:
        """Check the files of `parts` against their checksums, each once: for who reads them without `read`.

        Raises MissingBlob and CorruptPart.
        """
        parts = list(parts)
        await self.check_links(parts)
        for part in parts:
            if part.key is not None and self._verified.get(part.key) is None:
                await self._verify(part)
                self._verified.put(part.key, True)

    async def check_links(self, parts: Iterable[Part]) -> None:
        """Raise FileTrouble unless the files of others among `parts` are there as they were."""
        keys = [part.key for part in parts if part.link is not None and part.key is not None]
        for start in range(0, len(keys), CHECKED_AT_ONCE):
            await asyncio.gather(*(self._blob.size(key) for key in keys[start : start + CHECKED_AT_ONCE]))

    async def footer(self, key: str, size: int) -> pq.FileMetaData:
        """The footer of the Parquet file `key` of `size` bytes."""
        length = min(size, FOOTER_GUESS_BYTES)
        tail = await self._blob.get(key, ByteRange(start=size - length, length=length)) or b""
        if len(tail) != length or length < 12 or tail[-4:] != b"PAR1":
            raise CorruptPart(f"{key} is not a whole Parquet file")
        needed = int.from_bytes(tail[-8:-4], "little") + 8
        if needed > size - 4:
            raise CorruptPart(f"{key} has an impossible Parquet footer")
        if needed > length:
            tail = await self._blob.get(key, ByteRange(start=size - needed, length=needed)) or b""
        try:
            return await asyncio.to_thread(metadata_of, tail[-needed:])
        except (pa.ArrowException, OSError) as error:
            raise CorruptPart(f"the Parquet footer of {key} cannot be decoded: {error}") from error

    def other_owners(self, writes: Iterable[ShardWrites]) -> frozenset[str]:
        """The other processes that wrote files of `writes`, which are not committed yet; not those of files that other
        shards have too."""
        found: set[str] = set()
        for write in writes:
            keys = [file.key for part in write.parts if not part.whole for file in _files(part)]
            if keys:
                own = parts_prefix(write.shard)
                found.update([key.rsplit("/", 1)[-1].rpartition("-")[0] for key in keys if key.startswith(own)])
        return frozenset(found - {self._process})

    def discard(self, parts: Sequence[Part]) -> None:
        """These parts will not be committed."""
        self.committed(parts)

    def committed(self, parts: Iterable[Part]) -> None:
        """These parts are referred to by durable state now."""
        self.release([file.key for part in parts for file in _files(part)])

    def release(self, keys: Iterable[str]) -> None:
        """These files are referred to by durable state now, or will never be."""
        for key in keys:
            self.in_flight.discard(key)
            self.changes += 1
            self._uploads.pop(key, None)

    async def read(self, part: Part, columns: Sequence[str] | None = None, *, keep: bool = True) -> pa.Table:
        """The rows of `part`, with ``_row_id`` when asked; see `storage.shards.parts.read_table`. Cached, but not with
        `keep` False. Raises MissingBlob or CorruptPart when the stored bytes are not what the state recorded."""
        if part.whole:
            # The file is an insert part's too, which means something else by all columns.
            columns = default_columns(part) if columns is None else columns
            if list(columns) == [ROW_ID] and not part.has_row_id_column:
                return pa.table({ROW_ID: pa.arange(part.first_row_id, part.first_row_id + part.rows)})
        # NOTE: row ids are assigned at append; one file or inline part may be seen before and after.
        source = part.key if part.inline is None else part.inline
        assert source is not None
        slot = (source, part.first_row_id, part.row_ids, None if columns is None else tuple(columns))
        cached = self._cache.get(slot)
        if cached is not None:
            self._cache.touch(slot)
            self._cache.hits += 1
            return cached
        self._cache.misses += 1
        if part.inline is not None:
            data = part.inline
        else:
            assert part.key is not None
            found = await self._blob.get(part.key)
            if found is None:
                raise missing_part(part.key)
            data = found
        if part.bytes > THREAD_BYTES or _decoded_bytes(part, data) > THREAD_DECODED_BYTES:
            table = await asyncio.to_thread(read_table, part, data, columns)
        else:
            table = read_table(part, data, columns)
        if keep:
            self._remember(slot, table)
        return table

    async def pieces(self, part: Part, columns: Sequence[str]) -> AsyncIterator[pa.Table]:
        """The rows of `part` a row group at a time, with ``_row_id`` when asked: for parts that are large.

        Raises as `read` does; the checksum of a file is verified before its first row is given out.
        """
        if part.inline is not None:
            yield await self.read(part, columns, keep=False)
            return
        assert part.key is not None
        await self._verify(part)
        metadata = await self.footer(part.key, part.bytes)
        stored = [name for name in columns if name in part.stats]
        first = part.first_row_id
        for number in range(metadata.num_row_groups):
            table = await self.row_group(part, metadata, number, stored)
            rows = metadata.row_group(number).num_rows
            piece = msgspec.structs.replace(part, first_row_id=first, rows=rows)
            yield with_row_ids(piece, table, list(columns))
            first += rows

    async def row_group(self, part: Part, metadata: pq.FileMetaData, number: int, columns: Sequence[str]) -> pa.Table:
        """The stored `columns` of one row group of a file whose footer is `metadata`: nothing else is read.

        Raises MissingBlob and CorruptPart. What is verified are the checksums of the pages, where the file has them:
        the parts that are written here do.
        """
        group = metadata.row_group(number)
        names = stored_names(part, columns)
        wanted = set(names)
        chunks = [group.column(n) for n in range(group.num_columns)]
        chunks = [chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] in wanted] or chunks[:1]
        starts = [min(c.data_page_offset, c.dictionary_page_offset or c.data_page_offset) for c in chunks]
        ends = [start + c.total_compressed_size for start, c in zip(starts, chunks, strict=True)]
        data = await self._range(part, min(starts), max(ends))
        try:
            table = await asyncio.to_thread(row_group, metadata, number, names, min(starts), data)
            return table if part.link is None else as_stored(part.link, table, columns)
        except (pa.ArrowException, OSError) as error:
            raise CorruptPart(f"{called(part)} cannot be decoded: {error}") from error

    async def _range(self, part: Part, start: int, end: int) -> bytes:
        assert part.key is not None
        data = await self._blob.get(part.key, ByteRange(start=start, length=end - start))
        if data is None:
            raise missing_part(part.key)
        if len(data) != end - start:
            raise CorruptPart(f"{called(part)} is truncated")
        return data

    async def _verify(self, part: Part) -> None:
        """Check length and checksum of a file without holding it in memory."""
        assert part.key is not None
        size = await self._blob.size(part.key)
        if size is None:
            raise missing_part(part.key)
        if size != part.bytes:
            raise CorruptPart(f"{called(part)} has {size} bytes, expected {part.bytes}")
        if not part.checksum:
            return
        digest = PartDigest()
        for start in range(0, part.bytes, VERIFIED_BYTES):
            data = await self._range(part, start, min(start + VERIFIED_BYTES, part.bytes))
            await asyncio.to_thread(digest.add, data)
        if digest.checksum != part.checksum:
            raise CorruptPart(f"{called(part)} does not match its checksum")

    def _remember(self, slot: Slot, table: pa.Table) -> None:
        size = arrow_bytes(table) + ENTRY_BYTES
        if size <= CACHE_BYTES // 4:
            self._cache.put(slot, table, size)


def _decoded_bytes(part: Part, data: bytes) -> int:
    """About how much of memory the rows of `part`, whose bytes are `data`, take; 0 when the bytes are damaged."""
    if part.inline is not None:
        return part.bytes
    try:
        metadata = pq.read_metadata(pa.BufferReader(data))
    except (pa.ArrowException, OSError):
        return 0
    return sum([metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)])


def _common(partition: Partition, table: pa.Table) -> tuple[PartitionValue, ...]:
    return common_values(partition, table) or ()


def _encoded_with_runs(
    kind: str, table: pa.Table, key: str, makers: Sequence[RunMaker], keys: Sequence[str], partition: Partition
) -> tuple[Part, bytes, list[tuple[RunRef, bytes]]]:
    """Runs in a thread."""
    part, data = file_part(kind, table, key, keyed=bool(makers))
    if partition:
        part = msgspec.structs.replace(part, partition=_common(partition, table))
    made = [maker.make(part, table, run_key) for maker, run_key in zip(makers, keys, strict=True)]
    runs = {maker.index: run for maker, (run, _) in zip(makers, made, strict=True)}
    return msgspec.structs.replace(part, runs=runs), data, made


def _described(kind: str, uploaded: UploadedPart, size: int) -> tuple[Part, pq.FileMetaData]:
    """The part for a file of which everything is said, and its metadata. Raises CorruptPart."""
    try:
        metadata = metadata_of(uploaded.footer)
        schema = metadata.schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as error:
        raise CorruptPart(f"the Parquet footer of {uploaded.key} cannot be decoded: {error}") from error
    if uploaded.rows is not None and uploaded.rows != metadata.num_rows:
        raise CorruptPart(f"{uploaded.key} has {metadata.num_rows} rows, announced were {uploaded.rows}")
    part = Part(
        kind=kind,
        rows=metadata.num_rows,
        bytes=size,
        stats=parquet_stats(metadata),
        key=uploaded.key,
        checksum=uploaded.checksum,
        fingerprint=fingerprint(schema),
    )
    return part, metadata


def _files(part: Part) -> list[PromisedPart]:
    """What `Part.files` names."""
    found = [PromisedPart(run.key, run.bytes, run.checksum) for run in part.runs.values()]
    return found if part.key is None else [PromisedPart(part.key, part.bytes, part.checksum), *found]
