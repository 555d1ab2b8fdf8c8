"""Parts: immutable runs of rows of one shard, their statistics, their bytes, and pruning.

A part is a Parquet file in the blob store or, when small (`INLINE_LIMIT_BYTES`), Arrow IPC bytes carried in
the state itself. Its kind says what its rows mean:

- ``insert``: the rows are in the shard from `csn` on. A row's id is ``first_row_id + position``, or what the
  hidden column ``_row_id`` says when `has_row_id_column` (files that compaction wrote).
- ``delete``: first column ``_row_id``, then the rows' old values. The rows are gone from `csn` on. One that is
  `whole` has the file of an insert part, all of whose rows it deletes (`storage.shards.whole_deletions`).

Physical columns are named ``c<attnum>``. A part lists every column it holds in `stats`, so a reader knows
without opening it which columns it lacks (added later) and which rows it cannot contain.

Statistics promise: every non-null value v of the column satisfies min <= v <= max in PostgreSQL's order of
the type (C collation; NaN above every number). An absent bound promises nothing.

`read_table` is the one way from bytes to rows; it checks length, checksum and row count and raises
`CorruptPart`.
"""

from __future__ import annotations

import datetime
import hashlib
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storage.errors import CorruptPart
from storage.shards.columns.repetitive import repetitive_columns
from storage.shards.columns.row_bytes import bytes_of_slices
from storage.shards.field_ids import with_field_ids
from storage.shards.links import Link, as_stored
from storage.shards.partitions.transforms import PartitionValue
from storage.timestamps.csn import Csn

INLINE_LIMIT_BYTES = 64 * 1024
"""Parts up to this size live in the state; larger ones are Parquet files."""

ROW_ID = "_row_id"
"""Name of the hidden row-id column."""

NO_COLUMNS = "c0"
"""Name of the column of NULLs that the rows of a table without columns are stored with; no column has attnum 0."""

PROVISIONAL_ROW_ID = 1 << 62
"""Row ids at or above are of a transaction that has not committed: unique inside it, meaningless outside."""

ANY_OF = "any of"
"""The operator of a condition that has conjunctions for its value, of which one must hold. It is on no column."""

_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_FEW_ROWS = 4
"""The statistics of so many rows are found faster value by value."""
_FEW_BYTES = 4 * 1024
_MAX_STAT_CHARS = 64
TEXTS = ("str", "bytes")
_LONG_BYTES = 1 << 20
"""A column with more bytes than that, and than a kibibyte for each row, may have texts that are long."""
_ROW_GROUP_ROWS = 1 << 17
_KEYED_ROW_GROUP_ROWS = 1 << 16
"""Rows of a row group where rows are read by key: such a reading decodes one row group."""
_KEYED_ROW_GROUP_BYTES = 16 << 20
"""And its bytes in memory, where rows are long."""

RUNS_FORMAT = 2
"""The format (`storage.durable.state`) of what names key runs. A server that does not know it would take their files
for orphans."""
_EPOCH_DATE = datetime.date(1970, 1, 1)
_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps without a zone are naive
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

Bytes: TypeAlias = bytes
"""The type, where a field of the same name hides it."""

StatValue: TypeAlias = int | float | str | None
Comparable: TypeAlias = int | float | str | bytes | Decimal


# NOTE: those without `gc` are never part of a circle. Large tables have many of them, which come and go with a look.
class ColumnStats(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What is known of one column of a part.

    `domain` says how `min` and `max` are to be read: ``int`` (also bool, date as days, time and timestamp as
    microseconds), ``float``, ``str``, ``bytes`` (one character per byte), ``decimal`` (text of the number) or
    ``none``.
    """

    domain: str = "none"
    min: StatValue = None
    max: StatValue = None
    null_count: int | None = None


class RowIdRange(msgspec.Struct, frozen=True, array_like=True):
    """Provisional ids [provisional, provisional + rows) became [actual, actual + rows) at append."""

    provisional: int
    rows: int
    actual: int


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One part. Fields that are assigned when it is appended to its shard: id, csn, first_row_id, schema_version.

    Until then `first_row_id` of an insert part is provisional, and `scope` tells apart the transactions of one
    commit, each of which numbers its provisional ids from the same start.
    `row_ids` of a delete part translates the provisional ids of rows that its own transaction inserted; a part
    that has it must be read through `read_table`, not by an engine from its file.

    `runs` has its key runs, by the oid of the index. One that is missing is made when it is needed. `readable_from`:
    reads at earlier CSNs need the parts that a compaction made this one of (`storage.shards.history`). 0 for what a
    commit wrote. `link`: its file is one of others (`storage.shards.links`). `partition`: what the layout of then
    partitioned by, where all rows of the file have it in common. `laid_out`: the layout it was rewritten by
    (`storage.upkeep.rewriting`); a server that does not know that forgets it.
    """

    kind: str
    rows: int
    bytes: int
    stats: dict[str, ColumnStats]
    key: str | None = None
    inline: Bytes | None = None
    checksum: str = ""
    fingerprint: str = ""
    scope: int = 0
    has_row_id_column: bool = False
    id: int = -1
    csn: Csn = Csn(0)
    first_row_id: int = -1
    schema_version: int = -1
    row_ids: tuple[RowIdRange, ...] = ()
    runs: dict[int, RunRef] = {}
    readable_from: Csn = Csn(0)
    link: Link | None = None
    partition: tuple[PartitionValue, ...] = ()
    whole: bool = False
    laid_out: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """The keys of the files that the part consists of: its rows, unless they are inline, and its key runs."""
        runs = tuple([run.key for run in self.runs.values()])
        return runs if self.key is None else (self.key, *runs)

    @property
    def columns(self) -> tuple[str, ...]:
        """The physical columns that the part holds, without ``_row_id``."""
        return tuple(name for name in self.stats if name != ROW_ID)

    @property
    def row_id_bounds(self) -> tuple[int, int]:
        """Smallest and largest row id in the part (inclusive)."""
        if (self.kind == "insert" or self.whole) and not self.has_row_id_column:
            return self.first_row_id, self.first_row_id + self.rows - 1
        stats = self.stats[ROW_ID]
        if not isinstance(stats.min, int) or not isinstance(stats.max, int):
            return 0, PROVISIONAL_ROW_ID - 1
        if not self.row_ids or stats.max < PROVISIONAL_ROW_ID:
            return stats.min, stats.max
        # The ids given at append are above all that the shard had before, so they are above the others in the part.
        low = min(run.actual for run in self.row_ids)
        high = max(run.actual + run.rows - 1 for run in self.row_ids)
        return min(low, stats.min), high


class RunRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key run of a part: the file `key` beside it, in the form of `storage.shards.indexes.runs`.

    `fingerprint` is that of the index's definition, `checksum` that of the run's head, `low` and `high` bound its
    prefixes. `filter`: the filter of its hashes, when that is small.
    """

    key: str
    bytes: int
    fingerprint: str
    checksum: str
    low: int = 0
    high: int = 0
    filter: Bytes | None = None


class UploadedPart(msgspec.Struct, frozen=True, kw_only=True):
    """A Parquet file that somebody else (an engine) wrote under a key from `PartStore.new_key`.

    `rows` and `bytes` are checked where given, a `checksum` is taken as given; statistics come from the file's footer.
    Who gives all of that and the `footer` (`footers.footer_of`) has said everything: nothing is read, and the commit
    promises the file instead of waiting until it is known to be there (`storage.transactions.parallel_commit`).
    """

    key: str
    rows: int | None = None
    bytes: int | None = None
    checksum: str = ""
    footer: Bytes = b""


class Layout(msgspec.Struct, frozen=True):
    """What parts of one schema have in common: its message in an Arrow stream, its fingerprint, and for each column its
    name, the domain of its bounds, and whether it is temporal."""

    message: bytes
    fingerprint: str
    columns: tuple[tuple[str, str, bool], ...]


@lru_cache(maxsize=1024)
def layout_of(schema: pa.Schema) -> Layout:
    """What parts with the columns of `schema` have in common."""
    return Layout(
        pa.schema([field.remove_metadata() for field in schema]).serialize().to_pybytes(),
        fingerprint(schema),
        tuple([(field.name, domain_of(field.type), pa.types.is_temporal(field.type)) for field in schema]),
    )


def fingerprint(schema: pa.Schema) -> str:
    """A short hash of the names and types of `schema`'s columns, without ``_row_id``."""
    text = "\n".join(f"{field.name} {field.type}" for field in schema if field.name != ROW_ID)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def checksum(data: bytes) -> str:
    """The checksum recorded for a part's bytes."""
    digest = PartDigest()
    digest.add(data)
    return digest.checksum


class PartDigest:
    """The checksum of a part whose bytes come in pieces."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, data: bytes) -> None:
        """Take in the next bytes."""
        self._hash.update(data)

    @property
    def checksum(self) -> str:
        """The checksum of what was taken in."""
        return self._hash.hexdigest()


def arrow_bytes(rows: pa.Table | pa.RecordBatch) -> int:
    """How much memory `rows` take, as budgets count it: their buffers where these are small, and else their slices."""
    whole = int(rows.get_total_buffer_size())
    return whole if whole <= _FEW_BYTES else bytes_of_slices(rows)


def written_table(rows: pa.Table | pa.RecordBatch) -> pa.Table:
    """Rows as they are stored. Those of a table without columns get one of NULLs: neither Arrow's streams nor Parquet
    count rows without columns."""
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    return table if table.num_columns else pa.table({NO_COLUMNS: pa.nulls(table.num_rows, pa.bool_())})


def encode_ipc(table: pa.Table) -> bytes:
    """`table` as one Arrow IPC stream. Its types are physical ones, of which none has dictionaries."""
    # A writer of streams gives the same bytes, and takes three times as long for a row.
    batches = [batch.serialize().to_pybytes() for batch in table.combine_chunks().to_batches()]
    return b"".join([layout_of(table.schema).message, *batches, _END_OF_STREAM])


def encode_parquet(table: pa.Table, *, keyed: bool = False) -> bytes:
    """`table` as one Parquet file, readable by Spark and DuckDB. `keyed`: rows of it will be read by key."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_arrays(table.columns, schema=with_field_ids(table.schema)),
        sink,
        compression="zstd",
        row_group_size=_keyed_rows(table) if keyed else _ROW_GROUP_ROWS,
        store_schema=True,
        use_dictionary=repetitive_columns(table),
        # For engines that verify pages by themselves.
        write_page_checksum=True,
    )
    return bytes(sink.getvalue().to_pybytes())


def _keyed_rows(table: pa.Table) -> int:
    """How many rows of `table` go into a row group where rows are read by key."""
    fit = _KEYED_ROW_GROUP_BYTES * int(table.num_rows) // max(arrow_bytes(table), 1)
    return min(max(fit, 1), _KEYED_ROW_GROUP_ROWS)


def inline_part(kind: str, table: pa.Table) -> Part:
    """A part that carries `table` itself. The caller keeps to `INLINE_LIMIT_BYTES`."""
    data = encode_ipc(table)
    return Part(
        kind=kind,
        rows=table.num_rows,
        bytes=len(data),
        stats=table_stats(table),
        inline=data,
        fingerprint=layout_of(table.schema).fingerprint,
    )


def file_part(kind: str, table: pa.Table, key: str, *, keyed: bool = False) -> tuple[Part, bytes]:
    """A Parquet part for `table` under `key`, and the bytes to upload. `keyed`: rows of it will be read by key."""
    data = encode_parquet(table, keyed=keyed)
    part = Part(
        kind=kind,
        rows=table.num_rows,
        bytes=len(data),
        stats=table_stats(table),
        key=key,
        checksum=checksum(data),
        fingerprint=fingerprint(table.schema),
    )
    return part, data


def table_stats(table: pa.Table) -> dict[str, ColumnStats]:
    """Statistics of every column of `table`."""
    found: dict[str, ColumnStats] = {}
    few = table.num_rows <= _FEW_ROWS
    for place, (name, domain, is_temporal) in enumerate(layout_of(table.schema).columns):
        column = table.column(place)
        found[name] = _stats_of_few(column, domain, is_temporal) if few else _column_stats(column)
    return found


def domain_of(type_: pa.DataType) -> str:
    """How the bounds of values of this type are to be read (`ColumnStats`)."""
    types = pa.types
    if types.is_integer(type_) or types.is_boolean(type_) or types.is_date(type_):
        return "int"
    if types.is_timestamp(type_) or types.is_time(type_):
        return "int" if type_.unit == "us" else "none"
    if types.is_floating(type_):
        return "float"
    if types.is_decimal(type_):
        return "decimal"
    if types.is_string(type_) or types.is_large_string(type_):
        return "str"
    if types.is_binary(type_) or types.is_large_binary(type_):
        return "bytes"
    return "none"


def _column_stats(column: pa.ChunkedArray) -> ColumnStats:
    nulls = column.null_count
    domain = domain_of(column.type)
    if domain == "none" or nulls == len(column):
        return ColumnStats(domain=domain, null_count=nulls)
    if domain in TEXTS and column.get_total_buffer_size() > max(_LONG_BYTES, 1024 * len(column)):
        column = _shortened(column, domain)
    bounds = pc.min_max(column)
    if pa.types.is_temporal(column.type):
        # Python has no date for the infinite ones.
        return bounds_of(domain, bounds["min"].value, bounds["max"].value, nulls)
    low, high = stat_value(bounds["min"].as_py()), stat_value(bounds["max"].as_py())
    if domain == "float" and bool(pc.any(pc.is_nan(column)).as_py()):
        high = None
    return bounds_of(domain, low, high, nulls)


def _stats_of_few(column: pa.ChunkedArray, domain: str, is_temporal: bool) -> ColumnStats:
    """`_column_stats` of a column with few rows."""
    nulls = column.null_count
    if domain == "none" or nulls == len(column):
        return ColumnStats(domain=domain, null_count=nulls)
    if domain in TEXTS and column.get_total_buffer_size() > _LONG_BYTES:
        column = _shortened(column, domain)
    held = [scalar.value for scalar in column] if is_temporal else column.to_pylist()
    values: list[Any] = [value for value in held if value is not None]
    if domain == "int":
        return ColumnStats(domain=domain, min=int(min(values)), max=int(max(values)), null_count=nulls)
    numbers = [value for value in values if value == value]
    # NaN is above all numbers.
    high = None if len(numbers) < len(values) else max(numbers)
    return bounds_of(domain, min(numbers, default=None), high, nulls)


def _shortened(column: pa.ChunkedArray, domain: str) -> pa.ChunkedArray:
    """`column` with long texts as long as it takes to tell the bounds: what is longer need not become Python's."""
    slice_of = pc.utf8_slice_codeunits if domain == "str" else pc.binary_slice
    return slice_of(column, 0, _MAX_STAT_CHARS + 1)


def bounds_of(domain: str, low: Comparable | None, high: Comparable | None, nulls: int | None) -> ColumnStats:
    """The statistics of values between these two."""
    return ColumnStats(domain=domain, min=_stored_bound(low, False), max=_stored_bound(high, True), null_count=nulls)


def _stored_bound(value: Comparable | None, upper: bool) -> StatValue:
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, str):
        return _string_bound(value) if upper else value[:_MAX_STAT_CHARS]
    if isinstance(value, bytes):
        short = _bytes_bound(value) if upper else value[:_MAX_STAT_CHARS]
        return None if short is None else short.decode("latin-1")
    return value


def _string_bound(value: str) -> str | None:
    """The shortest-enough string that is not below any string starting as `value` does."""
    if len(value) <= _MAX_STAT_CHARS:
        return value
    for end in range(_MAX_STAT_CHARS, 0, -1):
        code = ord(value[end - 1]) + 1
        if 0xD800 <= code <= 0xDFFF:
            code = 0xE000
        if code <= 0x10FFFF:
            return value[: end - 1] + chr(code)
    return None


def _bytes_bound(value: bytes) -> bytes | None:
    if len(value) <= _MAX_STAT_CHARS:
        return value
    for end in range(_MAX_STAT_CHARS, 0, -1):
        if value[end - 1] < 0xFF:
            return value[: end - 1] + bytes([value[end - 1] + 1])
    return None


def stat_value(value: Any) -> Comparable | None:
    """A Python value in the form that statistics compare; None when it has none (or is NULL)."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (int, float, str, bytes, Decimal)):
        return value
    if isinstance(value, datetime.datetime):
        delta = value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)
        return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    if isinstance(value, datetime.date):
        return (value - _EPOCH_DATE).days
    if isinstance(value, datetime.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return None


def comparable_bound(stats: ColumnStats, value: StatValue) -> Comparable | None:
    """The bound `value` of a column with `stats` as the values of that column compare."""
    if stats.domain == "int":
        return value
    if value is not None and stats.domain == "decimal":
        return Decimal(str(value))
    if isinstance(value, str) and stats.domain == "bytes":
        return value.encode("latin-1")
    return value


def part_may_match(part: Part, column: str, op: str, value: Any = None) -> bool:
    """False only when no row of `part` satisfies ``column op value`` (three-valued: NULL is not satisfied).

    `op`: ``=``, ``<>``, ``<``, ``<=``, ``>``, ``>=``, ``in`` (value: a sequence), ``is null``,
    ``is not null``. Values are Python's (int, float, Decimal, str, bytes, bool, date, time, datetime), of the
    column's type. A column that the part lacks, or a value it cannot compare, may match.
    """
    stats = part.stats.get(column)
    if stats is None:
        return True
    if op == "is null":
        return stats.null_count is None or stats.null_count > 0
    if stats.null_count is not None and stats.null_count == part.rows:
        return False
    if op == "is not null":
        return True
    if part.partition and value is not None and op in ("=", "in"):
        values = (value,) if op == "=" else tuple(value)
        if not all(known.may_be_of(values) for known in part.partition if known.field.column == column):
            return False
    if op == "in":
        return any(_bounds_may_match(stats, "=", item) for item in value)
    return _bounds_may_match(stats, op, value)


def may_match(part: Part, needed: Sequence[Sequence[Any]]) -> bool:
    """False only when no row of `part` meets one of `needed` (`storage.shards.pruning.Needed`)."""
    for conjunction in needed:
        for condition in conjunction:
            if condition.op == ANY_OF:
                if not may_match(part, condition.value):
                    break
            elif not part_may_match(part, condition.column, condition.op, condition.value):
                break
        else:
            return True
    return False


def _bounds_may_match(stats: ColumnStats, op: str, value: Any) -> bool:
    if value is None:
        return False
    wanted = stat_value(value)
    if wanted is None or stats.domain == "none":
        return True
    try:
        return _may_match(comparable_bound(stats, stats.min), comparable_bound(stats, stats.max), op, wanted)
    except TypeError:
        return True


def _may_match(low: Any, high: Any, op: str, wanted: Any) -> bool:
    if isinstance(wanted, float) and math.isnan(wanted):
        # NaN equals itself and is above every number; only an open upper bound can hold it.
        return op in ("<", "<=", "<>") or high is None
    below = high is not None and high < wanted
    above = low is not None and low > wanted
    if op == "=":
        return not below and not above
    if op == "<>":
        return not (low is not None and low == wanted and high is not None and high == wanted)
    if op == "<":
        return low is None or bool(low < wanted)
    if op == "<=":
        return not above
    if op == ">":
        return high is None or bool(high > wanted)
    if op == ">=":
        return not below
    return True


def read_table(part: Part, data: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of `part`, whose bytes are `data`, as one Arrow table.

    `columns` names the physical columns wanted, ``_row_id`` among them or not; those that the part lacks are
    left out. None: every physical column, and ``_row_id`` first where the part is a delete part. Raises
    `CorruptPart` when the bytes are not what the state recorded.
    """
    if len(data) != part.bytes:
        raise CorruptPart(f"{called(part)} has {len(data)} bytes, expected {part.bytes}")
    if part.checksum and checksum(data) != part.checksum:
        raise CorruptPart(f"{called(part)} does not match its checksum")
    wanted = default_columns(part) if columns is None else list(columns)
    stored = [name for name in wanted if name in part.stats]
    try:
        if part.inline is not None:
            table = pa.ipc.open_stream(pa.BufferReader(data)).read_all()
            table = table.select(stored)
        else:
            # The dataset reader behind `pq.read_table` costs eight times as much for a small file.
            file, link = pq.ParquetFile(pa.BufferReader(data)), part.link
            table = file.read(columns=stored_names(part, stored), use_threads=False)
            table = table if link is None else as_stored(link, table, stored)
    except (pa.ArrowException, OSError) as error:
        raise CorruptPart(f"{called(part)} cannot be decoded: {error}") from error
    if stored and table.num_rows != part.rows:
        raise CorruptPart(f"{called(part)} has {table.num_rows} rows, expected {part.rows}")
    return with_row_ids(part, table, wanted)


def stored_names(part: Part, columns: Sequence[str]) -> list[str]:
    """The names that `columns` have in the file of `part`."""
    return list(columns) if part.link is None else [part.link.names[name] for name in columns]


def default_columns(part: Part) -> list[str]:
    """What `read_table` returns when asked for nothing special."""
    return ([ROW_ID] if part.kind == "delete" else []) + list(part.columns)


def called(part: Part) -> str:
    """What a message calls `part`: its key, or the file of others that it is."""
    return (
        f"part {part.key or part.id}" if part.link is None else f'file "{part.link.path}", which was added to a table,'
    )


def with_row_ids(part: Part, table: pa.Table, wanted: list[str]) -> pa.Table:
    """`table`, which has the stored ones of the columns `wanted`, with ``_row_id`` if that is one of them."""
    if ROW_ID not in wanted:
        return table
    if ROW_ID in table.column_names:
        if not part.row_ids:
            return table
        ids = translate_row_ids(table.column(ROW_ID), part.row_ids)
        return table.set_column(table.column_names.index(ROW_ID), ROW_ID, ids)
    ids = pa.arange(part.first_row_id, part.first_row_id + part.rows)
    # A table looks for a column's name among all of them.
    stored = dict(zip(table.column_names, table.columns, strict=True))
    return pa.table(
        {name: ids if name == ROW_ID else stored[name] for name in wanted if name == ROW_ID or name in stored}
    )


def translate_row_ids(ids: pa.ChunkedArray, ranges: Iterable[RowIdRange]) -> pa.Array:
    """`ids` with every provisional one replaced by the actual id it got at append."""
    values = ids.combine_chunks().to_numpy(zero_copy_only=False).copy()
    for run in ranges:
        hit = (values >= run.provisional) & (values < run.provisional + run.rows)
        values[hit] += run.actual - run.provisional
    return pa.array(values, pa.int64())
