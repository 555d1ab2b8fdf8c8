"""Iceberg's partition transforms (table specification, "Partition Transforms" and "32-bit Hash Requirements").

A `PartitionField` is a transform of one column; the *keys* of rows are what it makes of their values: rows with equal
keys are of one partition. NULL has the key NULL.

| transform | of | key |
| --- | --- | --- |
| identity | anything but floats | the value |
| year, month, day, hour | date (not hour), timestamp | years, months, days, hours since 1970 |
| truncate | numbers, text, bytea | the number rounded down to a multiple of the width; the first characters or bytes |
| bucket | numbers, text, bytea, dates and times | hash of the value, modulo the width |
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from storage.shards.partitions.murmur import Bytes, hashes_of_rows, hashes_of_slices

Ints: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

DAY_US = 86_400_000_000
HOUR_US = 3_600_000_000

LONG_DIGITS = 18
"""So many digits fit into 64 bits."""


class PartitionField(Struct, frozen=True, array_like=True):
    """One transform of the physical column `column`; `width` is what bucket and truncate are given."""

    column: str
    transform: str
    width: int = 0


def is_supported(transform: str, type: pa.DataType) -> bool:
    """Whether `transform` is defined for what is stored as `type`."""
    types = pa.types
    is_number = types.is_signed_integer(type) or types.is_decimal128(type)
    is_text = types.is_string(type) or types.is_binary(type)
    is_moment = types.is_timestamp(type) and type.unit == "us"
    match transform:
        case "identity":
            is_time = types.is_time64(type) and type.unit == "us"
            return bool(is_number or is_text or is_moment or is_time or types.is_date32(type) or types.is_boolean(type))
        case "year" | "month" | "day":
            return bool(types.is_date32(type) or is_moment)
        case "hour":
            return bool(is_moment)
        case "truncate":
            return bool(is_number or is_text)
        case "bucket":
            is_time = types.is_time64(type) and type.unit == "us"
            return bool(is_number or is_text or is_moment or is_time or types.is_date32(type))
    return False


def keys_of(field: PartitionField, values: pa.Array) -> pa.Array:
    """The keys of `values`. Takes CPU time."""
    match field.transform:
        case "identity":
            return values
        case "truncate":
            return _truncated(values, field.width)
        case "bucket":
            hashed = _hashed(values)
            # The specification leaves the sign out, not the remainder's.
            return _with_nulls(((hashed & np.uint32(0x7FFFFFFF)) % np.uint32(field.width)).astype(np.int32), values)
        case _:
            return _with_nulls(_periods(field.transform, values).astype(np.int32), values)


def key_of(field: PartitionField, value: Any, type: pa.DataType) -> Any:
    """The key of one value of a column that is stored as `type`, as Python has it. Raises what Arrow raises for a value
    that the column cannot have."""
    return keys_of(field, pa.array([value], type))[0].as_py()


def _with_nulls(keys: np.ndarray[Any, Any], values: pa.Array) -> pa.Array:
    return pa.array(keys, mask=np.asarray(values.is_null()) if values.null_count else None)


def _numbers(values: pa.Array) -> Ints:
    """Whole numbers, dates and times as they are stored, 0 for NULL."""
    width = values.type.bit_width
    stored = values if pa.types.is_integer(values.type) else values.view(pa.int32() if width == 32 else pa.int64())
    found: Ints = np.asarray(pc.fill_null(stored, 0)).astype(np.int64)
    return found


def _periods(transform: str, values: pa.Array) -> Ints:
    numbers = _numbers(values)
    if transform == "hour":
        return numbers // HOUR_US
    days = numbers if pa.types.is_date32(values.type) else numbers // DAY_US
    if transform == "day":
        return days
    unit = "datetime64[M]" if transform == "month" else "datetime64[Y]"
    found: Ints = days.astype("datetime64[D]").astype(unit).astype(np.int64)
    return found


def _truncated(values: pa.Array, width: int) -> pa.Array:
    type = values.type
    if pa.types.is_string(type):
        return pc.utf8_slice_codeunits(values, 0, width)
    if pa.types.is_binary(type):
        return pc.binary_slice(values, 0, width)
    if pa.types.is_decimal(type):
        return _truncated_decimals(values, width)
    numbers = _numbers(values)
    return _with_nulls(numbers - numbers % width, values)


def _truncated_decimals(values: pa.Array, width: int) -> pa.Array:
    """Their unscaled values are rounded down. One more digit may be needed for it."""
    type = values.type
    found: list[Decimal | None] = []
    for value in values.to_pylist():
        if value is None:
            found.append(None)
        else:
            unscaled = _unscaled(value, type.scale)
            found.append(Decimal(f"{unscaled - unscaled % width}E-{type.scale}"))
    return pa.array(found, pa.decimal128(min(type.precision + 1, 38), type.scale))


def _unscaled(value: Decimal, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number: int = int("".join(map(str, digits))) * 10 ** (exponent + scale)
    return -number if sign else number


def _hashed(values: pa.Array) -> np.ndarray[Any, np.dtype[np.uint32]]:
    type = values.type
    if pa.types.is_decimal(type):
        return _hashed_decimals(values)
    if pa.types.is_string(type) or pa.types.is_binary(type):
        _, offsets, data = values.buffers()
        at = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
        held: Bytes = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        return hashes_of_slices(held, at[:-1], at[1:] - at[:-1])
    return hashes_of_rows(np.ascontiguousarray(_numbers(values)).astype("<i8").view(np.uint8).reshape(-1, 8))


def _hashed_decimals(values: pa.Array) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Of the unscaled value's least number of bytes, big-endian, in two's complement."""
    type = values.type
    if type.precision > LONG_DIGITS:
        encoded = [_big_endian(0 if value is None else _unscaled(value, type.scale)) for value in values.to_pylist()]
        lengths = np.array([len(each) for each in encoded], np.int64)
        starts = np.cumsum(lengths) - lengths
        return hashes_of_slices(np.frombuffer(b"".join(encoded), np.uint8), starts, lengths)
    held = np.frombuffer(values.buffers()[1], np.int64)[2 * values.offset : 2 * (values.offset + len(values)) : 2]
    numbers = np.where(np.asarray(values.is_null()), 0, held)
    rows = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)
    lengths = np.ones(len(numbers), np.int64)
    for size in range(1, 8):
        limit = 1 << (8 * size - 1)
        lengths[(numbers < -limit) | (numbers >= limit)] = size + 1
    return hashes_of_slices(rows.reshape(-1), np.arange(len(numbers)) * 8 + 8 - lengths, lengths)


def _big_endian(number: int) -> bytes:
    size = ((number if number >= 0 else ~number).bit_length() + 8) // 8
    return number.to_bytes(size, "big", signed=True)


# ---------------------------------------------------------------- what a part says


class PartitionValue(Struct, frozen=True, array_like=True):
    """All rows of a part have this key of `field`. `type` is that of the column in the part; the key is written as
    bounds are (`storage.shards.parts.ColumnStats`), bytes with a character for each."""

    field: PartitionField
    type: str
    key: int | str | None

    def may_be_of(self, values: tuple[Any, ...]) -> bool:
        """False only when no row of the part has one of `values` in the column. NULLs among them are no values."""
        if self.key is None:
            return False
        keys = self.keys_of(values)
        return keys is None or self.key in keys

    def keys_of(self, values: tuple[Any, ...]) -> frozenset[int | str | None] | None:
        """The keys of `values` as parts have them; None when they cannot be told."""
        return _stored_keys(self.field, self.type, values)

    def is_of(self, value: Any) -> bool:
        """True only when every row of the part has `value`, which is not NULL, in the column."""
        if self.field.transform != "identity" or self.key is None or value is None:
            return False
        # SUBTLE: the column may have another type by now, of which a value is rounded to that of the part.
        is_same = _is_value_of(self.type, value)
        return is_same and _stored_keys(self.field, self.type, (value,)) == frozenset((self.key,))


@lru_cache(maxsize=256)
def _stored_keys(field: PartitionField, type_name: str, values: tuple[Any, ...]) -> frozenset[int | str | None] | None:
    """The keys of `values`, once for all parts of a query; None when they cannot be told."""
    type = _TYPES.get(type_name) or decimal_type(type_name)
    if type is None:
        return None
    try:
        keys = keys_of(field, pa.array([value for value in values if value is not None], type))
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None  # Of another type than the column, perhaps.
    return frozenset([stored_key(key) for key in keys.to_pylist()])


@lru_cache(maxsize=256, typed=True)
def _is_value_of(type_name: str, value: Any) -> bool:
    """Whether a column of the type can have the value as it is."""
    type = _TYPES.get(type_name) or decimal_type(type_name)
    if type is None:
        return False
    try:
        return bool(pa.scalar(value, type).as_py() == value)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return False


_TYPES: Mapping[str, pa.DataType] = {
    str(type): type
    for type in (
        pa.bool_(), pa.int16(), pa.int32(), pa.int64(), pa.string(), pa.binary(), pa.date32(), pa.time64("us"),
        pa.timestamp("us"), pa.timestamp("us", tz="UTC"),
    )
}  # fmt: skip


def decimal_type(text: str) -> pa.DataType | None:
    """The type that Arrow calls ``decimal128(8, 2)``."""
    if not text.startswith("decimal128("):
        return None
    precision, _, scale = text.removeprefix("decimal128(").removesuffix(")").partition(",")
    return pa.decimal128(int(precision), int(scale))


_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps without a zone are naive


def stored_key(key: Any) -> int | str | None:
    """A key as parts have it."""
    if key is None or isinstance(key, str):
        return key
    if isinstance(key, bytes):
        return key.decode("latin-1")
    if isinstance(key, Decimal):
        return str(key)
    if isinstance(key, datetime.datetime):
        delta = key.replace(tzinfo=None) - _EPOCH
        return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    if isinstance(key, datetime.date):
        return (key - _EPOCH.date()).days
    if isinstance(key, datetime.time):
        return ((key.hour * 60 + key.minute) * 60 + key.second) * 1_000_000 + key.microsecond
    return int(key)


def are_defined(fields: tuple[PartitionField, ...], schema: pa.Schema) -> bool:
    """Whether rows with these columns have all of `fields`."""
    return all(
        field.column in schema.names and is_supported(field.transform, schema.field(field.column).type)
        for field in fields
    )


FEW_ROWS = 256


def common_values(fields: tuple[PartitionField, ...], rows: pa.Table) -> tuple[PartitionValue, ...] | None:
    """What all of `rows` have in common; None when they are not of one partition, or lack a column of it."""
    if not rows.num_rows or not are_defined(fields, rows.schema):
        return None
    if rows.num_rows > FEW_ROWS and common_values(fields, rows.slice(0, FEW_ROWS)) is None:
        return None
    found: list[PartitionValue] = []
    for field in fields:
        column = rows.column(field.column)
        keys: dict[int | str | None, None] = {}
        for chunk in column.chunks:
            if not len(chunk):
                continue
            unique = pc.unique(keys_of(field, chunk))
            if len(unique) > 1:
                return None
            keys[_stored(unique)] = None
        if len(keys) != 1:
            return None
        (key,) = keys
        found.append(PartitionValue(field, str(column.type), key))
    return tuple(found)


def _stored(unique: pa.Array) -> int | str | None:
    if pa.types.is_temporal(unique.type):
        # Python has no date for the infinite ones.
        value: int | None = unique[0].value
        return value
    return stored_key(unique[0].as_py())
