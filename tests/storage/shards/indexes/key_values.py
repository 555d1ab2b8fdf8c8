"""Values of every type that can be a key, and the order that PostgreSQL gives them, for the tests of indexes."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from storage.shards.indexes.definition import KeyColumn, StoredColumn

INTERVAL = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("micros", pa.int64())])

_TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
_NEAR = st.text("ab\U0010ffff", min_size=6, max_size=10)

TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "bool": (pa.bool_(), st.booleans()),
    "int2": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "int4": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int8": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)),
    "float4": (pa.float32(), st.floats(width=32) | st.sampled_from([0.0, -0.0, math.nan])),
    "float8": (pa.float64(), st.floats() | st.sampled_from([0.0, -0.0, math.nan]) | st.integers(-9, 9).map(float)),
    "numeric": (
        pa.decimal128(38, 16),
        st.decimals(-(10**21), 10**21, places=16, allow_nan=False, allow_infinity=False)
        | st.decimals(-2, 2, places=1, allow_nan=False, allow_infinity=False),
    ),
    "numeric_whole": (pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    "text": (pa.string(), _TEXTS | _NEAR | st.text("é", min_size=120, max_size=140)),
    "large_text": (pa.large_string(), _TEXTS | _NEAR),
    "char": (pa.string(), st.text("a \x01", max_size=4)),
    "bytea": (pa.binary(), st.binary(max_size=12) | st.binary(min_size=250, max_size=260)),
    "date": (pa.date32(), st.dates()),
    "time": (pa.time64("us"), st.times()),
    "timestamp": (pa.timestamp("us"), st.datetimes()),
    "timestamptz": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(datetime.UTC))),
    "uuid": (pa.string(), st.uuids().map(str)),
    "interval": (
        INTERVAL,
        st.fixed_dictionaries(
            {
                "months": st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1),
                "days": st.integers(-90, 90) | st.integers(-(2**31), 2**31 - 1),
                "micros": st.sampled_from([0, 86_400_000_000, -86_400_000_000]) | st.integers(-(2**63), 2**63 - 1),
            }
        ),
    ),
}


def key_column(kind: str, name: str = "c1", *, descending: bool = False, nulls_first: bool = False) -> KeyColumn:
    """A key column of a type in `TYPES`."""
    source = StoredColumn(name=name, type=TYPES[kind][0])
    return KeyColumn(source=source, descending=descending, nulls_first=nulls_first, padded=kind == "char")


def comparable(kind: str, value: Any) -> Any:
    """Something that Python compares as PostgreSQL compares `value`."""
    if kind.startswith("float"):
        return (1, 0.0) if math.isnan(value) else (0, value)
    if kind == "interval":
        return ((value["months"] * 30 + value["days"]) * 86_400_000_000) + value["micros"]
    if kind == "char":
        return value.rstrip(" ").encode()
    return value.encode() if isinstance(value, str) else value


def compare(kinds: Sequence[str], columns: Sequence[KeyColumn], one: Sequence[Any], other: Sequence[Any]) -> int:
    """Below 0, 0 or above 0 as the key `one` comes before `other`, with it, or after it."""
    for kind, column, a, b in zip(kinds, columns, one, other, strict=False):
        if a is None or b is None:
            if (a is None) != (b is None):
                return -1 if (a is None) == column.nulls_first else 1
            continue
        left, right = comparable(kind, a), comparable(kind, b)
        if left != right:
            return -1 if (left < right) != column.descending else 1
    return 0


def in_order(kinds: Sequence[str], columns: Sequence[KeyColumn], keys: Sequence[Sequence[Any]]) -> list[int]:
    """The positions of `keys` in their order; equal ones by position."""

    def compared(a: int, b: int) -> int:
        return compare(kinds, columns, keys[a], keys[b])

    return sorted(range(len(keys)), key=cmp_to_key(compared))
