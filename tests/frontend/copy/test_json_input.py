"""COPY FROM in JSON format: values by name, and what is wrong with a line."""

from __future__ import annotations

from typing import Any

import pytest

from adapter.results import ColumnDescription, CopyFormat
from frontend.copy.json_input import CopyJsonInput
from planner.errors import SqlError
from planner.types import types as t
from planner.types.types import SqlType

COLUMNS = (
    ColumnDescription(name="n", type=SqlType(t.NUMERIC)),
    ColumnDescription(name="v", type=SqlType(t.TEXT)),
    ColumnDescription(name="j", type=SqlType(t.JSONB)),
    ColumnDescription(name="tags", type=SqlType(1009)),
)


def _decoded(*pieces: bytes, named: bool = False) -> list[tuple[Any, ...]]:
    source = CopyJsonInput("t", COLUMNS, CopyFormat(format="json", columns_named=named), {})
    batches = []
    for piece in pieces:
        source.add(piece)
        batches += source.take()
    batches += source.take(final=True)
    return [row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]


def test_values_are_found_by_name_in_any_pieces() -> None:
    line = '{"v": "a\\tb\\\\\\n", "n": 1.23456789012345678901, "j": {"k": [1.0, null, "x"]}'
    line += ', "tags": ["p,q", null, "\\""]}\n'
    expected = ("1.23456789012345678901", "a\tb\\\n", '{"k": [1.0, null, "x"]}', ["p,q", None, '"'])
    data = (line + '{}\n{"v": null, "j": null}').encode()
    assert _decoded(*(data[at : at + 7] for at in range(0, len(data), 7))) == [expected, (None,) * 4, (None,) * 4]


def test_keys_that_are_no_columns_are_left_when_columns_are_named() -> None:
    assert _decoded(b'{"v": "a", "more": 1}', named=True) == [(None, "a", None, None)]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"v": ', "Expecting value"),
        (b"[1]", "A line is a JSON object"),
        (b"", "An empty line"),
        (b'{"n": NaN}', "NaN is not JSON"),
        (b'{"v": "\xff"}', "codec can't decode"),
        (b'{"v": "\\ud800"}', "half of a surrogate pair"),
        (b'{"more": 1}', 'Table "t" takes no column "more"'),
    ],
)
def test_what_is_wrong_with_a_line_is_said(line: bytes, said: str) -> None:
    with pytest.raises(SqlError) as raised:
        _decoded(b'{"v": "a"}\n' + line + b"\n")
    assert (raised.value.sqlstate, said in str(raised.value.detail)) == ("22P04", True)
    assert str(raised.value.where).startswith("COPY t, line 2")
