"""Text of arrays: what array_in reads and array_out writes."""

from __future__ import annotations

import pytest

from planner.errors import SqlError
from planner.ir.array_value import ArrayValue
from planner.types.types import SqlType
from planner.values.text_values import format_text, parse_text

INT_ARRAY = SqlType(1007)
TEXT_ARRAY = SqlType(1009)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", ()),
        (" { 1 , null , 3 } ", (1, None, 3)),
        ("[1:2]={4,5}", (4, 5)),
        ("[0:1]={4,5}", ArrayValue((4, 5), (1, 2, 0))),
        ("{{1,2,3},{4,5,6}}", ArrayValue((1, 2, 3, 4, 5, 6), (2, 2, 3, 1, 1))),
        ("[-1:0][2:2]={{1},{2}}", ArrayValue((1, 2), (2, 2, 1, -1, 2))),
    ],
)
def test_numbers(text: str, value: object) -> None:
    assert parse_text(text, INT_ARRAY) == value
    shown = format_text(value, INT_ARRAY)
    assert parse_text(shown, INT_ARRAY) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{a b , "c , d" ,"",NULL,"NULL"}', ("a b", "c , d", "", None, "NULL")),
        ('{{a\\,b,"x\\"y"},{z\\ ,"\\\\"}}', ArrayValue(("a,b", 'x"y', "z ", "\\"), (2, 2, 2, 1, 1))),
    ],
)
def test_texts(text: str, value: object) -> None:
    assert parse_text(text, TEXT_ARRAY) == value
    assert parse_text(format_text(value, TEXT_ARRAY), TEXT_ARRAY) == value


@pytest.mark.parametrize(
    ("text", "sqlstate", "detail"),
    [
        ("1", "22P02", 'Array value must start with "{" or dimension information.'),
        ("{1", "22P02", "Unexpected end of input."),
        ("{1}}", "22P02", "Junk after closing right brace."),
        ("{{1},{2,3}}", "22P02", "Multidimensional arrays must have sub-arrays with matching dimensions."),
        ("[1:3]={1,2}", "22P02", "Specified array dimensions do not match array contents."),
        ("[1:2]", "22P02", 'Missing "=" after array dimensions.'),
        ("[2:1]={1}", "2202E", None),
        ("{{{{{{{1}}}}}}}", "54000", None),
    ],
)
def test_malformed(text: str, sqlstate: str, detail: str | None) -> None:
    with pytest.raises(SqlError) as raised:
        parse_text(text, INT_ARRAY)
    assert (raised.value.sqlstate, raised.value.detail) == (sqlstate, detail)
