"""Rows as text: PostgreSQL's answers for record_in and record_out."""

from __future__ import annotations

import pytest

from planner.errors import InvalidTextRepresentation
from planner.values.record_text import record_items, record_text


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("(a,b)", ["a", "b"]),
        ("(,)", [None, None]),
        ('("",)', ["", None]),
        (' ( a,"b c") ', [" a", "b c"]),
        (r'("a ""b"" \\ c",\,)', [r'a "b" \ c', ","]),
        ('(a"b,c"d,)', ["ab,cd", None]),
    ],
)
def test_items(text: str, items: list[str | None]) -> None:
    assert list(record_items(text, 2)) == items


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("a,b", "Missing left parenthesis."),
        ("(a)", "Too few columns."),
        ("(a,b,c)", "Too many columns."),
        ("(a,b", "Unexpected end of input."),
        ('(a,"b)', "Unexpected end of input."),
        ("(a,b) c", "Junk after right parenthesis."),
    ],
)
def test_faults(text: str, detail: str) -> None:
    with pytest.raises(InvalidTextRepresentation) as raised:
        list(record_items(text, 2))
    assert (raised.value.message, raised.value.detail) == (f'malformed record literal: "{text}"', detail)


@pytest.mark.parametrize("items", [["a", None], ["", "a b"], ['q"\\', "(x)"], ["a,b", "\n"]])
def test_there_and_back(items: list[str | None]) -> None:
    assert list(record_items(record_text(items), 2)) == items


def test_what_is_quoted() -> None:
    assert record_text(["a", None, "", 'b "c"', "\\"]) == '(a,,"","b ""c""","\\\\")'
