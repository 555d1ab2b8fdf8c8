"""Binary arrays: numbers are read all at once, and what is no plain array of them as it always was."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from frontend.decoding.binary import parse_binary
from frontend.decoding.held_as_text import LeftoverData
from planner.errors import ProtocolViolation
from planner.types import types
from planner.types.types import SqlType

LAYOUTS = [
    (1005, types.INT2, ">h", [0, 1, -1, 32767, -32768]),
    (1007, types.INT4, ">i", [0, 1, -1, 2**31 - 1, -(2**31)]),
    (1016, types.INT8, ">q", [0, 1, -1, 2**63 - 1, -(2**63)]),
    (1021, types.FLOAT4, ">f", [0.0, 1.5, float("inf"), -2.25]),
    (1022, types.FLOAT8, ">d", [0.0, 0.1, float("-inf"), 1e300]),
]


def message(element: int, items: Sequence[bytes | None]) -> bytes:
    body = b"".join(struct.pack(">i", -1) if item is None else struct.pack(">i", len(item)) + item for item in items)
    return struct.pack(">iiI", 1, int(None in items), element) + struct.pack(">ii", len(items), 1) + body


@pytest.mark.parametrize(("array", "element", "layout", "values"), LAYOUTS)
def test_numbers(array: int, element: int, layout: str, values: list[float]) -> None:
    items = [struct.pack(layout, value) for value in values]
    found = parse_binary(message(element, items), SqlType(array))
    assert isinstance(found, tuple)
    assert found == tuple(values)
    assert [type(value) for value in found] == [type(value) for value in values]
    assert parse_binary(message(element, [*items, None]), SqlType(array)) == (*values, None)
    assert parse_binary(message(element, [None]), SqlType(array)) == (None,)


@pytest.mark.parametrize(("array", "element", "layout", "values"), LAYOUTS)
def test_what_is_too_short_or_too_long(array: int, element: int, layout: str, values: list[float]) -> None:
    items = [struct.pack(layout, value) for value in values]
    whole = message(element, items)
    with pytest.raises(ProtocolViolation):
        parse_binary(whole[:-1], SqlType(array))
    with pytest.raises(LeftoverData):
        parse_binary(whole + b"x", SqlType(array))
    with pytest.raises(ProtocolViolation):
        parse_binary(message(element, [*items[:-1], items[-1][:-1]]), SqlType(array))
