"""Ranges and multiranges as text and in binary, once per distinct value.

Binary, as range_send and multirange_send have it: flags, then each finite bound's length and bytes; a multirange is the
number of its ranges, then each one's length and bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import pack
from typing import Any

import pyarrow as pa

from frontend.encoding import held_as_text
from frontend.encoding.columns import ArrowArray, ColumnEncoder, encoded_values, map_distinct
from frontend.encoding.numbers import numeric_sent
from frontend.encoding.settings import FormatSettings
from planner.types import types
from planner.types.ranges import range_or_multirange
from planner.types.types import SqlType
from planner.values import range_bounds as rb
from planner.values.datetimes.calendar_days import DATE_INFINITY, TIMESTAMP_INFINITY
from planner.values.range_codecs import codec_of
from planner.values.text_values import format_text

EMPTY, LOWER_INCLUSIVE, UPPER_INCLUSIVE, LOWER_INFINITE, UPPER_INFINITE = 1, 2, 4, 8, 16
"""Flags of the binary form."""

_DAYS_TO_2000 = 10_957


def range_text_encoder(sql_type: SqlType, settings: FormatSettings) -> ColumnEncoder:
    """A range or multirange type as text."""
    named = {"DateStyle": f"{settings.date_style}, {settings.date_order}", "TimeZone": settings.time_zone}

    def shown(data: bytes) -> bytes:
        return format_text(data, sql_type, named).encode()

    return _each(shown)


def range_binary_encoder(sql_type: SqlType) -> ColumnEncoder:
    """A range or multirange type in binary."""
    range_type = range_or_multirange(sql_type.oid)
    assert range_type is not None
    codec, sent = codec_of(range_type), _sent(range_type.subtype)
    several = sql_type.oid != range_type.oid

    def one(bounds: rb.Bounds) -> bytes:
        lower, upper = bounds
        flags = LOWER_INCLUSIVE * rb.is_inclusive(codec, lower) | UPPER_INCLUSIVE * rb.is_inclusive(codec, upper)
        flags |= LOWER_INFINITE * (lower[0] != 1) | UPPER_INFINITE * (upper[0] != 1)
        values = [sent(rb.value_of(codec, bound)) for bound in bounds if bound[0] == 1]
        return bytes([flags]) + b"".join(map(_sized, values))

    def encoded(data: bytes) -> bytes:
        ranges = [one(bounds) for bounds in rb.decode(codec, data)]
        if several:
            return pack(">i", len(ranges)) + b"".join(map(_sized, ranges))
        return ranges[0] if ranges else bytes([EMPTY])

    return _each(encoded)


def _each(function: Callable[[bytes], bytes]) -> ColumnEncoder:
    def encode(array: ArrowArray) -> Any:
        return encoded_values(map_distinct(array, function))

    return encode


def _sized(data: bytes) -> bytes:
    return pack(">i", len(data)) + data


def _date(days: int) -> bytes:
    if abs(days) == DATE_INFINITY:
        return pack(">i", days if days > 0 else days - 1)
    return pack(">i", days - _DAYS_TO_2000)


def _timestamp(micros: int) -> bytes:
    if abs(micros) == TIMESTAMP_INFINITY:
        return pack(">q", micros if micros > 0 else micros - 1)
    return pack(">q", micros - _DAYS_TO_2000 * 86_400_000_000)


_SENT: Mapping[int, Callable[[Any], bytes]] = {
    types.INT4: lambda value: pack(">i", value),
    types.INT8: lambda value: pack(">q", value),
    types.DATE: _date,
    types.TIMESTAMP: _timestamp,
    types.TIMESTAMPTZ: _timestamp,
    types.NUMERIC: numeric_sent,
    types.INT2: lambda value: pack(">h", value),
    types.FLOAT4: lambda value: pack(">f", value),
    types.FLOAT8: lambda value: pack(">d", value),
    types.BOOL: lambda value: bytes([value]),
    types.TIME: lambda value: pack(">q", value),
    types.TEXT: str.encode,
    types.VARCHAR: str.encode,
    types.BYTEA: bytes,
    types.UUID: lambda value: bytes.fromhex(value.replace("-", "")),
}
"""The binary form of a subtype's value, as `planner.values.range_codecs` gives it; `held_as_text` has the others."""


def _sent(subtype: int) -> Callable[[Any], bytes]:
    found = _SENT.get(subtype)
    if found is not None:
        return found
    encoder = held_as_text.BINARY[subtype]
    return lambda value: bytes(encoder(pa.array([value])).as_values()[0].as_py())
