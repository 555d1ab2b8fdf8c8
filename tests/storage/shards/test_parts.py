"""Statistics never exclude a row that is there; bytes that changed are noticed; row ids are translated."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import CorruptPart
from storage.shards.field_ids import FIELD_ID, NESTED, NESTED_OF_COLUMN, ROW_ID_FIELD, column_id
from storage.shards.footers import parquet_stats
from storage.shards.parts import (
    PROVISIONAL_ROW_ID,
    ROW_ID,
    Part,
    RowIdRange,
    encode_ipc,
    encode_parquet,
    file_part,
    inline_part,
    part_may_match,
    read_table,
    table_stats,
)

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "bool": (pa.bool_(), st.booleans()),
    "float": (pa.float64(), st.floats()),
    "text": (pa.string(), st.text(max_size=100) | st.text("a\U0010ffff", min_size=60, max_size=80)),
    "bytes": (pa.binary(), st.binary(max_size=100) | st.just(b"\xff" * 80)),
    "numeric": (
        pa.decimal128(38, 16),
        st.decimals(-(10**20), 10**20, places=10, allow_nan=False, allow_infinity=False),
    ),
    "date": (pa.date32(), st.dates()),
    "time": (pa.time64("us"), st.times()),
    "timestamp": (pa.timestamp("us"), st.datetimes()),
    "timestamptz": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(datetime.UTC))),
}


def satisfies(value: Any, op: str, wanted: Any) -> bool:
    """Whether PostgreSQL finds ``value op wanted`` true; NaN equals itself and is above every number."""
    if value is None:
        return False

    def key(x: Any) -> Any:
        return (1, 0) if isinstance(x, float) and math.isnan(x) else (0, x)

    left, right = key(value), key(wanted)
    return bool(
        {
            "=": left == right,
            "<>": left != right,
            "<": left < right,
            "<=": left <= right,
            ">": left > right,
            ">=": left >= right,
        }[op]
    )


@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_pruning_never_loses_a_row(kind: str, data: st.DataObject) -> None:
    arrow, strategy = VALUES[kind]
    values = data.draw(st.lists(st.none() | strategy, min_size=1, max_size=8))
    wanted = data.draw(strategy | st.sampled_from([v for v in values if v is not None] or [None]))
    table = pa.table({"c1": pa.array(values, arrow)})
    ours = inline_part("insert", table)
    footer = pq.read_metadata(pa.BufferReader(encode_parquet(table)))
    theirs = msgspec.structs.replace(ours, stats=parquet_stats(footer))
    for part in (ours, theirs):
        assert part_may_match(part, "c1", "is null") >= (None in values)
        assert part_may_match(part, "c1", "is not null") >= any(v is not None for v in values)
        assert part_may_match(part, "c2", "=", wanted)
        if wanted is None:
            assert not part_may_match(part, "c1", "=", None)
            continue
        for op in ("=", "<>", "<", "<=", ">", ">="):
            found = any(satisfies(value, op, wanted) for value in values)
            assert part_may_match(part, "c1", op, wanted) >= found, (op, wanted, part.stats)
        assert part_may_match(part, "c1", "in", [wanted]) >= (wanted in values)


@pytest.mark.parametrize(
    ("op", "value"),
    [("=", 9), ("=", 21), ("<", 10), ("<=", 9), (">", 20), (">=", 21), ("in", [1, 2]), ("is null", None)],
)
def test_pruning_excludes_what_it_can(op: str, value: Any) -> None:
    part = inline_part("insert", pa.table({"c1": [10, 15, 20]}))
    assert not part_may_match(part, "c1", op, value)


def test_decimals_compare_as_numbers() -> None:
    table = pa.table({"c1": pa.array([Decimal("9"), Decimal("10")], pa.decimal128(38, 16))})
    part = inline_part("insert", table)
    assert part_may_match(part, "c1", "=", Decimal("9.5"))
    assert not part_may_match(part, "c1", ">", Decimal("10"))
    assert not part_may_match(part, "c1", ">", 11)


def test_engine_files_with_nan_are_not_pruned_from_above() -> None:
    table = pa.table({"c1": [1.0, float("nan")]})
    stats = parquet_stats(pq.read_metadata(pa.BufferReader(encode_parquet(table))))
    part = msgspec.structs.replace(inline_part("insert", table), stats=stats)
    assert part_may_match(part, "c1", ">", 100.0)
    assert not part_may_match(part, "c1", "<", 1.0)


@pytest.mark.parametrize(
    ("stored", "damage"),
    # A flipped bit in an inline part is found by the checksum of the state that carries it.
    [("inline", "truncate"), ("inline", "empty"), ("file", "truncate"), ("file", "empty"), ("file", "flip")],
)
def test_damaged_bytes_are_noticed(stored: str, damage: str) -> None:
    table = pa.table({"c1": list(range(1000)), "c2": ["text"] * 1000})
    part, data = file_part("insert", table, "parts/x")
    if stored == "inline":
        part = inline_part("insert", table)
        assert part.inline is not None
        data = part.inline
    broken = {"truncate": data[:-10], "flip": data[:50] + bytes([data[50] ^ 1]) + data[51:], "empty": b""}[damage]
    with pytest.raises(CorruptPart):
        read_table(part, broken)
    assert read_table(part, data).num_rows == 1000


def test_row_ids_are_positions_or_stored_or_translated() -> None:
    table = pa.table({"c1": [7, 8, 9]})
    part = msgspec.structs.replace(inline_part("insert", table), first_row_id=100)
    assert read_table(part, part.inline or b"", [ROW_ID]).column(0).to_pylist() == [100, 101, 102]
    ids = [3, PROVISIONAL_ROW_ID + 1, PROVISIONAL_ROW_ID + 5]
    gone = inline_part("delete", pa.table({ROW_ID: ids, "c1": [1, 2, 3]}))
    gone = msgspec.structs.replace(
        gone, row_ids=(RowIdRange(PROVISIONAL_ROW_ID, 3, 50), RowIdRange(PROVISIONAL_ROW_ID + 3, 9, 70))
    )
    read = read_table(gone, gone.inline or b"")
    assert read.column_names == [ROW_ID, "c1"]
    assert read.column(0).to_pylist() == [3, 51, 72]


def test_parts_survive_their_encoding() -> None:
    table = pa.table({"c1": [1, None], "c2": [b"\xff\x00", b"a"], "c3": [1.5, float("inf")]})
    part = inline_part("insert", table)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(part), type=Part) == part


@pytest.mark.parametrize("name", VALUES)
@given(data=st.data())
@settings(max_examples=30)
def test_statistics_of_few_rows_are_those_of_many(name: str, data: st.DataObject) -> None:
    type_, values = VALUES[name]
    rows = data.draw(st.lists(st.none() | values, min_size=1, max_size=4))
    few, many = pa.table({"c1": pa.array(rows, type_)}), pa.table({"c1": pa.array(rows * 9, type_)})
    one, other = table_stats(few)["c1"], table_stats(many)["c1"]
    assert one.null_count == rows.count(None)
    assert (one.domain, one.min, one.max) == (other.domain, other.min, other.max)


@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_a_stream_is_what_a_writer_of_streams_makes(rows: int) -> None:
    table = pa.table({"c1": list(range(rows)), "c2": ["text"] * rows, "c3": [[1, None]] * rows})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    assert encode_ipc(table) == sink.getvalue().to_pybytes()


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_long_values_are_cut_before_they_are_compared(
    monkeypatch: pytest.MonkeyPatch, rows: int, kind: pa.DataType
) -> None:
    values = [f"{'é' if n % 2 else 'e'}{chr(97 + n % 26) * (60 + n)}ü{'x' * 2_000}" for n in range(rows)]
    table = pa.table({"c1": pa.array(values).cast(kind)})
    expected = table_stats(table)
    monkeypatch.setattr("storage.shards.parts._LONG_BYTES", 0)
    assert table_stats(table) == expected


def test_columns_have_field_ids() -> None:
    table = pa.table(
        {
            ROW_ID: pa.array([5, 6], pa.int64()),
            "c1": pa.array([1, None], pa.int16()),
            "c4": pa.array([["a"], None], pa.list_(pa.string())),
            "c7": pa.array([{"months": 1, "days": 2}, None], pa.struct([("months", pa.int32()), ("days", pa.int32())])),
        }
    )
    file = pq.ParquetFile(pa.BufferReader(encode_parquet(table)))
    assert [(column.path, field_id(file, column.path)) for column in map(file.schema.column, range(5))] == [
        (ROW_ID, ROW_ID_FIELD),
        ("c1", 1),
        ("c4.list.element", NESTED + 4 * NESTED_OF_COLUMN),
        ("c7.months", NESTED + 7 * NESTED_OF_COLUMN),
        ("c7.days", NESTED + 7 * NESTED_OF_COLUMN + 1),
    ]
    fields = {field.name: field.metadata[FIELD_ID] for field in file.schema_arrow}
    assert fields == {ROW_ID: b"2147483540", "c1": b"1", "c4": b"4", "c7": b"7"}
    assert file.read().equals(table)


def field_id(file: pq.ParquetFile, path: str) -> int:
    """The field id of the leaf at `path`."""
    name, *inside = path.split(".")
    field = file.schema_arrow.field(name)
    if inside:
        field = field.type.value_field if pa.types.is_list(field.type) else field.type.field(inside[-1])
    return int(field.metadata[FIELD_ID])


def test_an_inline_part_is_as_small_when_its_rows_come_from_a_file() -> None:
    table = pa.table({"c1": pa.array([1, 2])})
    read = pq.ParquetFile(pa.BufferReader(encode_parquet(table))).read()
    assert read.schema.field("c1").metadata
    assert encode_ipc(read) == encode_ipc(table)


@pytest.mark.parametrize("name", ["c0", "c", "d1", "c1x", "id"])
def test_what_is_no_column_of_a_table_has_no_field_id(name: str) -> None:
    table = pa.table({"c1": [1], name: [True]})
    assert column_id(name) is None
    file = pq.ParquetFile(pa.BufferReader(encode_parquet(table)))
    assert [field.metadata for field in file.schema_arrow] == [None, None]


@pytest.mark.parametrize("rows", [1, 40])
def test_the_end_of_a_day_needs_no_format_of_its_own(rows: int) -> None:
    """24:00:00 is stored as the count of its microseconds, like all times of day: in files, inline and in statistics.
    Servers that did not take it as a value yet read it as what it is, and know by the statistics where it is."""
    day = 86_400_000_000
    table = pa.table({"c1": pa.array([0, day] * rows, pa.int64()).cast(pa.time64("us"))})
    part, data = file_part("insert", table, "shard/part")
    held = pq.read_table(pa.BufferReader(data)).column("c1")
    assert held.type == pa.time64("us")
    assert {value.value for value in held} == {0, day}
    footer = parquet_stats(pq.read_metadata(pa.BufferReader(data)))
    for stats in (part.stats["c1"], inline_part("insert", table).stats["c1"], footer["c1"]):
        assert (stats.domain, stats.min, stats.max) == ("int", 0, day)
    late = datetime.time(23, 59, 59, 999999)
    assert part_may_match(part, "c1", ">", late)
    assert not part_may_match(part, "c1", "<", datetime.time(0))
