"""Long texts and bytes become arrays in pieces, and are what they were."""

from __future__ import annotations

import pytest

from adapter.plans.computed.constant_rows import LONG_VALUE, array_of
from planner.types import types as t
from planner.types.types import SqlType


@pytest.mark.parametrize(
    ("oid", "values"),
    [
        (t.TEXT, ["é" * LONG_VALUE + "x", None, "", "abc"]),
        (t.VARCHAR, ["a" * (LONG_VALUE + 1)]),
        (t.TEXT, [None, "\U0001f600" * (LONG_VALUE + 1), None]),
        (t.BYTEA, [b"\0\xff" * LONG_VALUE, None, b"", b"x"]),
    ],
)
def test_long_values_are_what_they_were(oid: int, values: list[str | bytes | None]) -> None:
    array = array_of(SqlType(oid), values)
    array.validate(full=True)
    assert array.to_pylist() == values
