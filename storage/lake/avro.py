"""Files of Avro: the columns of one as Arrow has them, and its rows.

Values are decoded without their logical types, and become those as Arrow arrays: so numbers that no date or time of
Python's is, and decimals of any size, are what the file says. What has no counterpart in a column of plain values
(durations, unions of several types) is a type that nobody reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Context, Decimal
from io import BytesIO
from itertools import islice
from typing import Any
from uuid import UUID

import pyarrow as pa
from msgspec import Struct

from storage.lake.troubles import FileTrouble, malformed

_MAGIC = b"Obj\x01"
_SCHEMA = "avro.schema"
_HEADER = {
    "type": "record",
    "name": "header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
    ],
}
"""What a file begins with, by Avro's specification, which says it as a schema of its own."""

_PLAIN = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(),
}  # fmt: skip

_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
    ("string", "uuid"): pa.uuid(),
}
"""By the type that holds it: a logical type. One that a file has and that is not here is its plain type, as the
specification has it; `_of_bytes` knows those in bytes."""

_UNREADABLE = pa.dense_union([pa.field(name, pa.null()) for name in ("0", "1")])
"""In place of a type whose values nobody reads."""

_MAX_DIGITS = 76
_DIGITS = Context(prec=_MAX_DIGITS)
_NAMED = ("record", "error", "enum", "fixed")
_SEVERAL = (frozenset({"int", "long"}), frozenset({"float", "double"}))
"""Unions whose values have one type, as Spark has it too: the wider one."""

_BATCH_ROWS = 1 << 14


class _File(Struct, frozen=True):
    """A file at its first block: its columns, and the `records` that it holds."""

    columns: tuple[tuple[str, pa.DataType], ...]
    records: Iterator[dict[str, Any]]


def schema_of(path: str, file: Any) -> pa.Schema:
    """The columns of the opened `file`. Raises FileTrouble (malformed)."""
    with _decoding(path):
        return pa.schema([pa.field(name, type) for name, type in _opened(file).columns])


def batches_of(path: str, file: Any, columns: Sequence[tuple[str, pa.DataType]]) -> Iterator[pa.RecordBatch]:
    """The rows of the opened `file`: the `columns`, of which it has others than NULLs where it has the column. Raises
    FileTrouble (malformed)."""
    with _decoding(path):
        found = _opened(file)
        held = dict(found.columns)
        schema = pa.schema([pa.field(name, type) for name, type in columns])
        while rows := list(islice(found.records, _BATCH_ROWS)):
            arrays = []
            for name, type in columns:
                if name in held:
                    arrays.append(_array([row[name] for row in rows], held[name]).cast(type))
                else:
                    arrays.append(pa.nulls(len(rows), type))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


@contextmanager
def _decoding(path: str) -> Iterator[None]:
    """Whatever a decoder raises of bytes that are no Avro is FileTrouble."""
    try:
        yield
    except FileTrouble:
        raise
    except Exception as error:
        raise malformed(path, error if str(error) else EOFError("its data are cut off or no Avro")) from error


def _opened(file: Any) -> _File:
    import fastavro

    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("not an Avro data file")
    file.seek(0)
    header: Any = fastavro.schemaless_reader(file, _HEADER, None)
    schema = json.loads(header["meta"][_SCHEMA])
    if not (isinstance(schema, dict) and schema.get("type") == "record"):
        raise ValueError("its rows are not records")
    columns = _columns(schema)
    header["meta"][_SCHEMA] = json.dumps(_unannotated(schema)).encode()
    start = BytesIO()
    fastavro.schemaless_writer(start, _HEADER, header)
    return _File(columns, iter(fastavro.reader(_Joined(start.getvalue(), file))))  # type: ignore[arg-type]


class _Joined:
    """Bytes, and then those of a file that are left."""

    def __init__(self, start: bytes, file: Any) -> None:
        self._start = BytesIO(start)
        self._file = file

    def read(self, length: int) -> bytes:
        """As files do."""
        return self._start.read(length) or bytes(self._file.read(length))


# ---------------------------------------------------------------- types


def _columns(schema: Any) -> tuple[tuple[str, pa.DataType], ...]:
    named: dict[str, Any] = {}
    _define(schema, "", named)
    inside = _namespace(schema, "")
    return tuple((field["name"], _type(field["type"], inside, named)) for field in schema["fields"])


def _namespace(schema: Any, around: str) -> str:
    """Where names without a dot stand inside a named type."""
    name = schema["name"]
    return str(name.rpartition(".")[0] if "." in name else schema.get("namespace", around))


def _define(schema: Any, around: str, named: dict[str, Any]) -> None:
    """Enters the types that `schema` names, by their full names."""
    if isinstance(schema, list):
        for each in schema:
            _define(each, around, named)
    elif isinstance(schema, dict):
        kind = schema["type"]
        if kind in _NAMED:
            inside = _namespace(schema, around)
            named[_full(schema["name"], inside)] = schema
            for field in schema.get("fields", ()):
                _define(field["type"], inside, named)
        else:
            for part in ("items", "values"):
                _define(schema.get(part), around, named)
            if not isinstance(kind, str):
                _define(kind, around, named)


def _full(name: str, around: str) -> str:
    return name if "." in name or not around else f"{around}.{name}"


def _type(schema: Any, around: str, named: dict[str, Any]) -> pa.DataType:
    if isinstance(schema, str):
        if schema in _PLAIN:
            return _PLAIN[schema]
        full = _full(schema, around)
        if named[full] is None:
            return _UNREADABLE
        # A name of a type stands where that is: names in it are looked up from there.
        return _type(named[full], full.rpartition(".")[0], named)
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        if len(kinds) == 1:
            return _type(kinds[0], around, named)
        if not kinds:
            return pa.null()
        if all(isinstance(each, str) for each in kinds) and frozenset(kinds) in _SEVERAL:
            return pa.int64() if "long" in kinds else pa.float64()
        return _UNREADABLE
    kind = schema["type"]
    if not isinstance(kind, str):
        return _type(kind, around, named)
    logical = schema.get("logicalType")
    if kind in ("bytes", "fixed"):
        return _of_bytes(schema, logical)
    if kind == "enum":
        return pa.string()
    if kind == "array":
        return pa.list_(_type(schema["items"], around, named))
    if kind == "map":
        return pa.map_(pa.string(), _type(schema["values"], around, named))
    if kind in _NAMED:
        inside = _namespace(schema, around)
        full = _full(schema["name"], inside)
        if named.get(full) is None:
            return _UNREADABLE  # A record with values of its own type in it.
        # Inside it the name stands for nothing.
        within = {**named, full: None}
        return pa.struct([pa.field(field["name"], _type(field["type"], inside, within)) for field in schema["fields"]])
    return _LOGICAL.get((kind, logical)) or _type(kind, around, named)


def _of_bytes(schema: Any, logical: str | None) -> pa.DataType:
    size = schema.get("size")
    if logical == "decimal":
        digits, scale = schema.get("precision"), schema.get("scale", 0)
        if isinstance(digits, int) and isinstance(scale, int) and 0 <= scale <= digits <= _MAX_DIGITS:
            return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)
    if logical == "uuid" and size == 16:
        return pa.uuid()
    return pa.month_day_nano_interval() if logical == "duration" and size == 12 else pa.binary()


def _unannotated(schema: Any) -> Any:
    """`schema` without logical types, whose values are then those of the types that hold them."""
    if isinstance(schema, list):
        return [_unannotated(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    bare = {key: value for key, value in schema.items() if key != "logicalType"}
    for part in ("type", "items", "values"):
        if part in bare:
            bare[part] = _unannotated(bare[part])
    if isinstance(bare.get("fields"), list):
        # A default says nothing of what a file holds, and may not be one of the bare type.
        plain = [{key: value for key, value in field.items() if key != "default"} for field in bare["fields"]]
        bare["fields"] = [{**field, "type": _unannotated(field["type"])} for field in plain]
    return bare


# ---------------------------------------------------------------- values


def _array(values: list[Any], type: pa.DataType) -> pa.Array:
    """What was decoded as values of `type`."""
    if pa.types.is_list(type):
        return _lists(values, _array([item for value in values for item in value or ()], type.value_type))
    if pa.types.is_map(type):
        entries = [None if value is None else list(value.items()) for value in values]
        keys = [key for entry in entries for key, _ in entry or ()]
        held = _array([item for entry in entries for _, item in entry or ()], type.item_type)
        return _lists(entries, pa.StructArray.from_arrays([pa.array(keys, pa.string()), held], ["key", "value"]))
    if pa.types.is_struct(type):
        fields = [
            _array([None if value is None else value[field.name] for value in values], field.type) for field in type
        ]
        return pa.StructArray.from_arrays(
            fields, fields=[pa.field(field.name, held.type) for field, held in zip(type, fields, strict=True)],
            mask=pa.array([value is None for value in values], pa.bool_()),
        )  # fmt: skip
    if pa.types.is_decimal(type):
        return pa.array([None if value is None else _decimal(value, type) for value in values], type)
    if isinstance(type, pa.UuidType):
        storage = [None if value is None else _uuid(value) for value in values]
        return pa.ExtensionArray.from_storage(type, pa.array(storage, pa.binary(16)))
    if pa.types.is_temporal(type):
        return pa.array(values, pa.int32() if type.bit_width == 32 else pa.int64()).view(type)
    return pa.array(values, type)


def _lists(values: list[Any], items: pa.Array) -> pa.Array:
    """Lists as long as `values` are, of the `items` of all."""
    places: list[int | None] = []
    end = 0
    for value in values:
        places.append(None if value is None else end)
        end += len(value or ())
    return pa.ListArray.from_arrays(pa.array([*places, end], pa.int32()), items)


def _decimal(value: bytes, type: pa.DataType) -> Any:
    number = int.from_bytes(value, "big", signed=True)
    if abs(number) >= 10**type.precision:
        raise ValueError(f"the decimal {number} has more than {type.precision} digits")
    return Decimal(number).scaleb(-type.scale, _DIGITS)


def _uuid(value: str | bytes) -> bytes:
    return UUID(value).bytes if isinstance(value, str) else value
