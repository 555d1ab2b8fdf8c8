"""Files of Avro as Arrow has them: every type, and files that are none."""

from __future__ import annotations

import contextlib
import datetime
import uuid
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from storage.lake.avro import batches_of, schema_of
from storage.lake.troubles import FileTrouble

UTC = datetime.UTC
LOCAL = datetime.datetime.fromisoformat("2020-01-01 00:00:00.000007")
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


def logical(type: str, logical_name: str, /, **more: Any) -> dict[str, Any]:
    """A logical type."""
    return {"type": type, "logicalType": logical_name, **more}


CASES: list[tuple[Any, Any, pa.DataType, Any]] = [
    ("boolean", True, pa.bool_(), True),
    ("int", -5, pa.int32(), -5),
    ("long", 2**62, pa.int64(), 2**62),
    ("float", 1.5, pa.float32(), 1.5),
    ("double", -0.1, pa.float64(), -0.1),
    ("bytes", b"\0x", pa.binary(), b"\0x"),
    ("string", "h\u00e9", pa.string(), "h\u00e9"),
    (["null", "string"], None, pa.string(), None),
    (["string", "null"], "a", pa.string(), "a"),
    (["int", "long", "null"], 2**40, pa.int64(), 2**40),
    (["float", "double"], 0.25, pa.float64(), 0.25),
    ("null", None, pa.null(), None),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", pa.string(), "B"),
    ({"type": "fixed", "name": "F", "size": 2}, b"ab", pa.binary(), b"ab"),
    ({"type": "array", "items": ["null", "long"]}, [1, None], pa.list_(pa.int64()), [1, None]),
    ({"type": "array", "items": logical("int", "date")}, [datetime.date(1, 1, 1)], pa.list_(pa.date32()),
     [datetime.date(1, 1, 1)]),
    (["null", logical("int", "date")], datetime.date(1500, 3, 1), pa.date32(), datetime.date(1500, 3, 1)),
    (logical("int", "time-millis"), datetime.time(23, 59, 59, 999000), pa.time32("ms"),
     datetime.time(23, 59, 59, 999000)),
    (logical("long", "time-micros"), datetime.time(0, 0, 0, 1), pa.time64("us"), datetime.time(0, 0, 0, 1)),
    (logical("long", "timestamp-millis"), datetime.datetime(1969, 12, 31, 23, 59, 59, 1000, UTC),
     pa.timestamp("ms", "UTC"), datetime.datetime(1969, 12, 31, 23, 59, 59, 1000, UTC)),
    (logical("long", "timestamp-micros"), datetime.datetime(2020, 1, 1, tzinfo=UTC), pa.timestamp("us", "UTC"),
     datetime.datetime(2020, 1, 1, tzinfo=UTC)),
    (logical("long", "local-timestamp-micros"), LOCAL, pa.timestamp("us"),
     LOCAL),
    (logical("bytes", "decimal", precision=5, scale=2), Decimal("-123.45"), pa.decimal128(5, 2), Decimal("-123.45")),
    (logical("fixed", "decimal", precision=38, scale=0, name="D", size=17), Decimal(10**38 - 1),
     pa.decimal128(38, 0), Decimal(10**38 - 1)),
    (logical("string", "uuid"), ID, pa.uuid(), ID),
    (logical("string", "nobody-knows"), "x", pa.string(), "x"),
]  # fmt: skip


def write(path: Path, fields: Sequence[tuple[str, Any]], rows: list[dict[str, Any]], codec: str = "null") -> None:
    """A file of Avro."""
    schema: Any = {
        "type": "record", "name": "Row", "namespace": "a.b",
        "fields": [{"name": name, "type": type} for name, type in fields],
    }  # fmt: skip
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows, codec=codec)


def read(path: Path, columns: Sequence[tuple[str, pa.DataType]]) -> list[dict[str, Any]]:
    """The rows of a file."""
    with path.open("rb") as file:
        return [row for batch in batches_of(str(path), file, columns) for row in batch.to_pylist()]


@pytest.mark.parametrize(("type", "value", "arrow", "wanted"), CASES, ids=[str(case[0]) for case in CASES])
def test_types(tmp_path: Path, type: Any, value: Any, arrow: pa.DataType, wanted: Any) -> None:
    path = tmp_path / "x.avro"
    write(path, [("c", type)], [{"c": value}])
    with path.open("rb") as file:
        assert schema_of(str(path), file) == pa.schema([pa.field("c", arrow)])
    assert read(path, [("c", arrow)]) == [{"c": wanted}]


def test_types_are_named_once_and_used_again(tmp_path: Path) -> None:
    path = tmp_path / "x.avro"
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "e", "type": {
        "type": "enum", "name": "E", "symbols": ["A"]}}]}  # fmt: skip
    write(path, [("r", inner), ("e", ["null", "E"]), ("again", "a.b.E")], [{"r": {"e": "A"}, "e": None, "again": "A"}])
    assert read(path, [("e", pa.string()), ("again", pa.string())]) == [{"e": None, "again": "A"}]


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_codecs_and_columns_that_a_file_lacks(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "x.avro"
    write(path, [("a", "int")], [{"a": number} for number in range(40_000)], codec)
    found = read(path, [("none", pa.string()), ("a", pa.int64())])
    assert found == [{"none": None, "a": number} for number in range(40_000)]


@pytest.mark.parametrize(
    "type",
    [
        {"type": "map", "values": "int"},
        {"type": "record", "name": "R", "fields": []},
        ["int", "string"],
        logical("fixed", "duration", name="D", size=12),
    ],
)
def test_what_no_column_holds_has_a_type_that_nobody_reads(tmp_path: Path, type: Any) -> None:
    path = tmp_path / "x.avro"
    write(path, [("c", type)], [])
    with path.open("rb") as file:
        (found,) = schema_of(str(path), file).types
    assert pa.types.is_nested(found) or pa.types.is_interval(found)


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "x.avro"
    write(path, [("a", "string")], [{"a": "x" * 100}] * 1000, "deflate")
    whole = path.read_bytes()
    for content in (b"", b"Obj", b"Obj\x01", b"Obk\x01" + whole[4:], whole[:50], whole[:-7], whole[:-40]):
        path.write_bytes(content)
        with pytest.raises(FileTrouble, match=r"could not read file .*x\.avro"):
            read(path, [("a", pa.string())])
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with contextlib.suppress(FileTrouble):
            read(path, [("a", pa.string())])
    write(path, [("c", logical("bytes", "decimal", precision=3))], [{"c": Decimal(999)}])
    path.write_bytes(path.read_bytes().replace(b'"precision": 3', b'"precision": 2'))
    with pytest.raises(FileTrouble, match="more than 2 digits"):
        read(path, [("c", pa.decimal128(2, 0))])
