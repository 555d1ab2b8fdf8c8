"""Layout of statements: lines, comments, and that it stays the same statement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.errors import FeatureNotSupported, ProgramLimitExceeded, SqlError, SqlSyntaxError, StatementTooComplex
from planner.syntax import formatting
from planner.syntax.formatting import formatted
from planner.syntax.parse import parse_tree
from planner.syntax.sameness import same

RECORDED = Path(__file__).parents[2] / "data" / "client_queries"

LAID_OUT = [
    (
        "select a, b as x, (select max(c) from u where u.a = t.a) from t left join v using (id) where a > 1 and "
        "b not in (1, 2) group by 1 order by a desc nulls last limit 10",
        """\
SELECT
    a, b AS x,
    (
        SELECT max(c)
        FROM u
        WHERE u.a = t.a
    )
FROM
    t
    LEFT JOIN v USING (id)
WHERE
    a > 1
    AND b NOT IN (1, 2)
GROUP BY 1
ORDER BY a DESC NULLS LAST
LIMIT 10""",
    ),
    ("insert into t values (1, 'ä')", "INSERT INTO t\nVALUES (1, 'ä')"),
    ("select 1;select 2;", "SELECT 1;\n\nSELECT 2;"),
    ("-- head\nselect 1", "-- head\nSELECT 1"),
    ("select 1; -- end", "SELECT 1;\n\n-- end"),
    ("  /* nothing */ ", "/* nothing */"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "expected"), LAID_OUT)
def test_the_layout(text: str, expected: str) -> None:
    assert formatted(text) == expected
    assert formatted(expected) == expected


def test_a_comment_does_not_swallow_a_semicolon() -> None:
    printed = formatted("select 1 -- behind\n; select 2")
    assert printed == "SELECT 1\n-- behind\n;\n\nSELECT 2"


def test_what_clients_send_stays_the_same() -> None:
    texts = {
        json.loads(line)["sql"] for path in RECORDED.glob("*.jsonl") for line in path.read_text().split("\n") if line
    }
    refused = []
    for text in texts:
        try:
            printed = formatted(text)
        except SqlError as error:
            refused.append((error.sqlstate, text))
        else:
            assert same(parse_tree(printed), parse_tree(text))
    assert len(texts) > 100
    assert {sqlstate for sqlstate, _ in refused} <= {"42601", "0A000"}
    assert len(refused) <= 2


def test_a_statement_that_the_printer_changes_is_refused() -> None:
    with pytest.raises(FeatureNotSupported):
        formatted("copy t from stdin with (freeze on)")


def test_a_broken_text_says_where() -> None:
    with pytest.raises(SqlSyntaxError) as raised:
        formatted("select 1;\nselect from from")
    assert raised.value.message == 'syntax error at or near "from"'
    assert (raised.value.detail, raised.value.position) == ("Line 2, column 13 of the text.", None)


@pytest.mark.parametrize(
    "text",
    [
        "select " + "+".join(["1"] * 14_000),
        "select " + "+".join(["1"] * 20_000),
        " union ".join(["select 1"] * 5_000),
        "select " + "f(" * 1_500 + "1" + ")" * 1_500,
    ],
    ids=["sum", "longer sum", "union", "calls"],
)
def test_a_text_that_nests_too_deep_is_refused(text: str) -> None:
    with pytest.raises(StatementTooComplex):
        formatted(text)


def test_a_long_list_is_not_deep() -> None:
    assert formatted("select " + ", ".join(["1"] * 5_000)).count("1") == 5_000


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(ProgramLimitExceeded):
        formatted("-" * (formatting.MAX_CHARS + 1))
