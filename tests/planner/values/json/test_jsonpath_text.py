"""jsonpath is read and printed as PostgreSQL does."""

from __future__ import annotations

import pytest

from planner.errors import SqlError
from planner.values.json.jsonpath_text import parse_jsonpath, show_jsonpath


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("$", "$"),
        ("LAX $.a", '$."a"'),
        ("strict $ . a [ 1 , 2 to last ]", 'strict $."a"[1,2 to last]'),
        ("$.**{2 to 2}.a", '$.**{2}."a"'),
        ("1 + 2 * 3 == $x || true == $.b && !($ > 1)", '(1 + 2 * 3 == $"x" || true == $."b" && !($ > 1))'),
        ("-1.50", "-1.50"),
        ("-$.a", '(-$."a")'),
        ("(1).type()", "(1).type()"),
        ("$ ? (@ like_regex \"a\" flag \"mi\")", '$?(@ like_regex "a" flag "im")'),
        ("$.is.to /* c */ .\\u0061", '$."is"."to"."a"'),
    ],
)  # fmt: skip
def test_texts(text: str, shown: str) -> None:
    path = parse_jsonpath(text)
    assert show_jsonpath(path) == shown
    assert parse_jsonpath(shown) == path


@pytest.mark.parametrize(
    ("text", "sqlstate", "message"),
    [
        (" ", "22P02", 'invalid input syntax for type jsonpath: " "'),
        ("$.", "42601", "syntax error at end of jsonpath input"),
        ("$ == ", "42601", "syntax error at end of jsonpath input"),
        ("$ $", "42601", 'syntax error at or near "$" of jsonpath input'),
        ("1a", "42601", 'trailing junk after numeric literal at or near "1a" of jsonpath input'),
        ('"a', "42601", "unexpected end of quoted string at end of jsonpath input"),
        ("$ ? (1)", "42601", 'syntax error at or near ")" of jsonpath input'),
        ("@", "42601", "@ is not allowed in root expressions"),
        ("last", "42601", "LAST is allowed only in array subscripts"),
        ('"\\uD800"', "22P02", "invalid input syntax for type jsonpath"),
    ],
)
def test_mistakes(text: str, sqlstate: str, message: str) -> None:
    with pytest.raises(SqlError) as error:
        parse_jsonpath(text)
    assert (error.value.sqlstate, error.value.message) == (sqlstate, message)
