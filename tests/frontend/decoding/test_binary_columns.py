"""Columns of binary values are what their values are, one by one, or are left to that."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest

from frontend.decoding.binary import parse_binary
from frontend.decoding.binary_columns import NotPlain, parse_binary_column
from frontend.decoding.text import values_to_array
from planner.types import types
from planner.types.types import SqlType


def laid_out(values: Sequence[bytes | None]) -> tuple[bytes, list[int], list[int]]:
    data, starts, lengths = b"\1\2", [], []
    for value in values:
        starts.append(len(data))
        lengths.append(-1 if value is None else len(value))
        data += b"" if value is None else value
        data += b"\xff"
    return data, starts, lengths


def packed(layout: str, *values: object) -> list[bytes | None]:
    return [None if value is None else struct.pack(layout, value) for value in values]


PLAIN = [
    (types.BOOL, [b"\0", b"\1", None, b"\7"]),
    (types.INT2, packed(">h", -(2**15), 2**15 - 1, None, 0)),
    (types.INT4, packed(">i", -(2**31), 2**31 - 1, None, 7)),
    (types.INT8, packed(">q", -(2**63), 2**63 - 1, None, 7)),
    (types.FLOAT4, packed(">f", -0.0, 1.5, float("inf"), None)),
    (types.FLOAT8, packed(">d", -0.0, 0.1, float("-inf"), None, float("nan"))),
    (types.DATE, packed(">i", 0, -730_119, 2_921_939, None, -1)),
    (types.TIMESTAMP, packed(">q", 0, -1, None, 252_455_615_999_999_999, -63_082_281_600_000_000)),
    (types.TIMESTAMPTZ, packed(">q", 0, -1, None, 123_456_789_012_345)),
    (types.TEXT, [b"", None, "grüße 日本 🙂".encode(), b"x" * 1000]),
    (types.VARCHAR, [b"a", b"", None]),
    (types.BYTEA, [b"", b"\0\xff", None]),
    (types.TEXT, [None, None]),
    (types.INT4, []),
]


@pytest.mark.parametrize(("oid", "values"), PLAIN)
def test_columns_are_their_values(oid: int, values: Sequence[bytes | None]) -> None:
    data, starts, lengths = laid_out(values)
    type_ = SqlType(oid)
    found = parse_binary_column(
        np.frombuffer(data, np.uint8), np.array(starts, np.int64), np.array(lengths, np.int64), type_
    )
    found.validate(full=True)
    expected = values_to_array([None if value is None else parse_binary(value, type_) for value in values], type_)
    assert found.type == expected.type
    assert repr(found.to_pylist()) == repr(expected.to_pylist())


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (SqlType(types.INT4), [b"\0\0\0"]),
        (SqlType(types.DATE), packed(">i", 2**31 - 1)),
        (SqlType(types.DATE), packed(">i", -730_120)),
        (SqlType(types.TIMESTAMP), packed(">q", -(2**63))),
        (SqlType(types.TIMESTAMP, 3), packed(">q", 1)),
        (SqlType(types.TEXT), [b"a\0b"]),
        (SqlType(types.TEXT), [b"\xff"]),
        (SqlType(types.TEXT), ["é".encode()[:1], "é".encode()[1:]]),
        (SqlType(types.VARCHAR, 7), [b"abcd"]),
        (SqlType(types.NUMERIC), [b"\0\0\0\0\0\0\0\0"]),
    ],
)
def test_everything_else_is_left(type_: SqlType, values: Sequence[bytes | None]) -> None:
    data, starts, lengths = laid_out(values)
    with pytest.raises(NotPlain):
        parse_binary_column(
            np.frombuffer(data, np.uint8), np.array(starts, np.int64), np.array(lengths, np.int64), type_
        )
