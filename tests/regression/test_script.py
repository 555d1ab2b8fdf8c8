"""Files are read as psql reads them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.regression.script import Command, Script, Statement, expand, truth, words


def _read(text: str, variables: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """(SQL, what ends it) of statements, (name, arguments) of commands."""
    script = Script(text, truth)
    found = []
    for item in script:
        if isinstance(item, Statement):
            found.append((expand(item.template, variables or {}).strip(), item.command))
        else:
            found.append((item.name, item.arguments))
    return found


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("select 1; select 2;", ["select 1", "select 2"]),
        ("select ';', \";\", $x$;$x$, e'\\';' -- ;\n, 1;", ["select ';', \";\", $x$;$x$, e'\\';' -- ;\n, 1"]),
        ("select /* ; /* ; */ ; */ 1;", ["select /* ; /* ; */ ; */ 1"]),
        (
            "create rule r as on insert to t do (select 1; select 2);",
            ["create rule r as on insert to t do (select 1; select 2)"],
        ),
        (
            "create function f() returns int begin atomic select case 1 when 1 then 2 end; end; select 1;",
            ["create function f() returns int begin atomic select case 1 when 1 then 2 end; end", "select 1"],
        ),
        ("begin; select 1; end;", ["begin", "select 1", "end"]),
        ("select 1\\; select 2;", ["select 1; select 2"]),
        ("select '1'::int;", ["select '1'::int"]),
        ("select 1", ["select 1"]),
    ],
)
def test_ends_of_statements(text: str, statements: list[str]) -> None:
    assert _read(text) == [(statement, ";") for statement in statements]


def test_backslash_escapes_when_strings_are_not_standard() -> None:
    script = Script("select 'a\\';b'; select 2;", truth)
    script.standard_strings = False
    assert [expand(item.template, {}) for item in script if isinstance(item, Statement)] == [
        "select 'a\\';b'",
        "select 2",
    ]


def test_variables() -> None:
    values = {"x": "it's", "n": "7"}
    assert _read("""select :n, :'x', :"x", :{?n}, :{?m}, :m, a[1:n], ':n';""", values) == [
        ("""select 7, 'it''s', "it's", TRUE, FALSE, :m, a[1:n], ':n'""".replace("[1:n]", "[17]"), ";")
    ]


def test_commands_end_statements() -> None:
    assert _read("select 1 as a \\gset p_\nselect 2 \\gexec\n\\d t\nselect 3 \\r\nselect 4;") == [
        ("select 1 as a", "gset"),
        ("select 2", "gexec"),
        ("d", "t"),
        ("select 4", ";"),
    ]


def test_branches() -> None:
    text = "\\if true\nselect 1;\n\\if false\nselect 2;\n\\elif true\nselect 3;\n\\else\nselect 4;\n\\endif\n"
    text += "\\else\nselect 5;\n\\endif\nselect \\if false \\\\ (6 \\else \\\\ 7 \\endif \\\\ ;"
    assert _read(text) == [("select 1", ";"), ("select 3", ";"), ("select  7", ";")]


def test_lines_of_copy() -> None:
    script = Script("copy t from stdin;\n1\t;\n\\N\n\\.\nselect 1;", truth)
    items = iter(script)
    next(items)
    assert script.copy_lines() == "1\t;\n\\N\n"
    assert [expand(item.template, {}).strip() for item in items if isinstance(item, Statement)] == ["select 1"]


def test_line_numbers_and_commands() -> None:
    script = Script("-- head\n\nselect 1;\n\\set a 'b c' :d\n", truth)
    assert [(type(item), item.line) for item in script] == [(Statement, 3), (Command, 4)]


def test_words() -> None:
    assert words("a 'b''\\n' :v'/x' \"q\"", {"v": "1"}) == ["a", "b\n", "1/x", '"q"']
