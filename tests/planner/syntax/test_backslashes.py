"""Strings with backslashes as escapes: what they become, and where errors are shown."""

from __future__ import annotations

import pytest

from planner.errors import FeatureNotSupported, SqlSyntaxError
from planner.syntax.backslashes import conforming


@pytest.mark.parametrize(
    ("given", "text", "warnings"),
    [
        (r"select 'a\nb', 'c'", r"select E'a\nb', 'c'", ["escape"]),
        (r"select 'a\'b'||'\\'", r"select E'a\'b'||E'\\'", [r"\'", r"\\"]),
        (r"select e'a\n', E'\'', b'1', x'f'", r"select e'a\n', E'\'', b'1', x'f'", []),
        (r"select n'a\n'", r"select pg_catalog.bpchar E'a\n'", ["escape"]),
        ("select 'a'\n -- '\\n'\n '\\n', '\\t'", "select E'a'\n -- '\\n'\n '\\n', E'\\t'", ["escape", "escape"]),
        (r'select "a\n\", $$\'$$, $q$\$q $q$', r'select "a\n\", $$\'$$, $q$\$q $q$', []),
        (r"/* '\n /* '\n */ '\n */ select a$b$'\n'", r"/* '\n /* '\n */ '\n */ select a$b$ E'\n'", ["escape"]),
        (r"select nameE'\n'", r"select nameE E'\n'", ["escape"]),
        (r"select 'open \'", r"select E'open \'", [r"\'"]),
        ("select $1, 'plain'", "select $1, 'plain'", []),
    ],
)
def test_strings(given: str, text: str, warnings: list[str]) -> None:
    found = conforming(given)
    assert found.text == text
    assert found.fault is None
    assert [warning.message for warning in found.warnings] == [
        f"nonstandard use of {what} in a string literal" for what in warnings
    ]


def test_positions_are_those_of_what_was_sent() -> None:
    given = r"select '\n', n'\t', nope, '\\', nope"
    found = conforming(given)
    for place in (given.index("nope"), given.rindex("nope"), 0, given.index("'")):
        shown = found.text.index("nope") if place == given.index("nope") else place
        shown = found.text.rindex("nope") if place == given.rindex("nope") else shown
        assert found.pointed(SqlSyntaxError("x", position=shown + 1)).position == place + 1


def test_an_error_at_a_string_shows_it_as_it_was_sent() -> None:
    found = conforming(r"select 'a\'")
    error = found.pointed(SqlSyntaxError("unterminated quoted string at or near \"E'a\\'\"", position=8))
    assert (error.message, error.position) == ("unterminated quoted string at or near \"'a\\'\"", 8)


def test_strings_with_unicode_escapes_are_refused() -> None:
    found = conforming(r"select '\n', U&'x'")
    assert isinstance(found.fault, FeatureNotSupported)
    assert (found.fault.position, len(found.warnings)) == (14, 1)
