"""Translation between dialects: known answers, and what is refused rather than handed on."""

from __future__ import annotations

import contextlib
import logging

import pytest

from planner.errors import (
    FeatureNotSupported,
    InvalidParameterValue,
    ProgramLimitExceeded,
    SqlError,
    SqlSyntaxError,
    StatementTooComplex,
)
from planner.syntax.dialects.names import MAX_CHARS
from planner.syntax.dialects.transpiling import transpile

TO_POSTGRES = [
    (
        "spark",
        "SELECT date_add(d, 1), nvl(a, b), `x y` FROM t",
        "SELECT CAST(CAST(d AS TIMESTAMP) AS DATE) + INTERVAL '1 DAY', COALESCE(a, b), \"x y\" FROM t",
    ),
    ("duckdb", "SELECT a // b, strftime(d, '%Y-%m') FROM t", "SELECT DIV(a, b), TO_CHAR(d, 'YYYY-MM') FROM t"),
    ("mysql", "SELECT `a`, IFNULL(b, 1) FROM t LIMIT 5, 10", 'SELECT "a", COALESCE(b, 1) FROM t LIMIT 10 OFFSET 5'),
    (
        "snowflake",
        "SELECT a::string, IFF(x > 1, 'a', 'b') FROM t",
        "SELECT CAST(a AS TEXT), CASE WHEN x > 1 THEN 'a' ELSE 'b' END FROM t",
    ),
    (
        "snowflake",
        "SELECT a FROM t QUALIFY row_number() OVER (ORDER BY b) = 1",
        "SELECT a FROM (SELECT a, ROW_NUMBER() OVER (ORDER BY b) AS _w FROM t) AS _t WHERE _w = 1",
    ),
    (
        "bigquery",
        "SELECT CAST(x AS INT64) FROM `p.d.t` WHERE DATE_DIFF(a, b, DAY) > 1",
        'SELECT CAST(x AS BIGINT) FROM "p"."d"."t" WHERE (CAST(a AS DATE) - CAST(b AS DATE)) > 1',
    ),
    ("trino", "SELECT element_at(m, 1), CAST(a AS VARCHAR) FROM t", "SELECT m[1], CAST(a AS VARCHAR) FROM t"),
    (
        "tsql",
        "SELECT TOP 5 [a b], GETDATE(), ISNULL(x, 0) FROM t",
        'SELECT "a b", CURRENT_TIMESTAMP, COALESCE(x, 0) FROM t LIMIT 5',
    ),
]

FROM_POSTGRES = [
    (
        "spark",
        "select now(), x::int2, a not in (1, 2) from t",
        "SELECT CURRENT_TIMESTAMP(), CAST(x AS SMALLINT), NOT a IN (1, 2) FROM t",
    ),
    ("duckdb", "select a ~ '^x' from t", "SELECT REGEXP_MATCHES(a, '^x') FROM t"),
    ("mysql", "select a || 'b', \"c d\" from t limit 3", "SELECT CONCAT(a, 'b'), `c d` FROM t LIMIT 3"),
    ("snowflake", "select a::text from t order by a", "SELECT CAST(a AS VARCHAR) FROM t ORDER BY a"),
    ("bigquery", "select cast(a as bigint) from s.t", "SELECT CAST(a AS INT64) FROM s.t"),
    (
        "trino",
        "select a::text, b::timestamptz from t",
        "SELECT CAST(a AS VARCHAR), CAST(b AS TIMESTAMP WITH TIME ZONE) FROM t",
    ),
    (
        "tsql",
        "select a from t order by a limit 3",
        "SELECT TOP 3 a FROM t ORDER BY CASE WHEN a IS NULL THEN 1 ELSE 0 END, a",
    ),
]


@pytest.mark.parametrize(("dialect", "text", "expected"), TO_POSTGRES)
def test_into_postgres(dialect: str, text: str, expected: str) -> None:
    assert transpile(text, dialect, "postgres") == expected


@pytest.mark.parametrize(("dialect", "text", "expected"), FROM_POSTGRES)
def test_out_of_postgres(dialect: str, text: str, expected: str) -> None:
    assert transpile(text, "postgres", dialect) == expected


def test_between_two_others() -> None:
    assert transpile("SELECT IFNULL(`a`, 1) FROM t", "mysql", "tsql") == "SELECT COALESCE([a], 1) FROM t"


def test_several_statements_and_their_comments() -> None:
    text = "select 1; -- between\nselect 2 /* behind */; "
    assert transpile(text, "duckdb", "spark") == "SELECT 1;\n/* between */\nSELECT 2 /* behind */"
    assert transpile("", "spark", "mysql") == ""


def test_names_of_dialects_are_case_insensitive() -> None:
    assert transpile("select 1", " Spark ", "MYSQL") == "SELECT 1"


@pytest.mark.parametrize("name", ["klingon", "", "mysql, normalization_strategy = lowercase", "tidegate"])
def test_an_unknown_dialect(name: str) -> None:
    for source, target in ((name, "spark"), ("spark", name)):
        with pytest.raises(InvalidParameterValue) as raised:
            transpile("select 1", source, target)
        assert raised.value.message == f'unknown dialect: "{name}"'
        assert "snowflake, solr, spark, " in (raised.value.hint or "")


BROKEN = [
    (
        "spark",
        "SELECT a\nFRM t WHERE",
        'syntax error at or near "t"',
        "Line 2, column 5 of the text. Invalid expression / Unexpected token.",
    ),
    ("bigquery", "select 1 +", 'syntax error at or near "+"', "Line 1, column 10 of the text."),
    ("duckdb", "select (1", 'syntax error at or near "1"', "Line 1, column 9 of the text. Expecting )."),
    ("mysql", "SELECT 'abc", "syntax error", "Missing ' from 1:7."),
    ("tsql", "foo bar", 'syntax error at or near "foo"', "An expression is no statement."),
    ("postgres", "select 'ä',\n  from from", 'syntax error at or near "from"', "Line 2, column 3 of the text."),
    ("postgres", "select 1 +", "syntax error at end of input", "Line 1, column 11 of the text."),
]


@pytest.mark.parametrize(("dialect", "text", "message", "detail"), BROKEN)
def test_a_broken_text_says_where(dialect: str, text: str, message: str, detail: str) -> None:
    with pytest.raises(SqlSyntaxError) as raised:
        transpile(text, dialect, "trino")
    assert (raised.value.message, raised.value.detail, raised.value.position) == (message, detail, None)


REFUSED = [
    # What sqlglot does not know it would hand on as it is.
    ("spark", "postgres", "VACUUM t", "VACUUM statements cannot be translated"),
    (
        "spark",
        "postgres",
        "SELECT * FROM a LATERAL VIEW explode(x) t AS y",
        "the spark statement cannot be written as postgres",
    ),
    # What it knows the target to lack.
    (
        "postgres",
        "tsql",
        "select a from t, lateral unnest(b) with ordinality",
        "the statement cannot be written as tsql",
    ),
    # What it reads as something else than PostgreSQL.
    ("postgres", "spark", "copy t to stdout csv header", "the statement cannot be translated"),
    ("postgres", "spark", "savepoint a", "SAVEPOINT statements cannot be translated"),
]


@pytest.mark.parametrize(("source", "target", "text", "message"), REFUSED)
def test_what_would_be_wrong_is_refused(source: str, target: str, text: str, message: str) -> None:
    with pytest.raises(FeatureNotSupported) as raised:
        transpile(text, source, target)
    assert raised.value.message == message


@pytest.mark.parametrize("source", ["spark", "postgres"])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 3000 + "1" + ")" * 3000,
        "SELECT " + "+".join(["1"] * 20_000),
        "SELECT " + "f(" * 1500 + "1" + ")" * 1500,
        " UNION ".join(["SELECT 1"] * 3000),
    ],
    ids=["parentheses", "sum", "calls", "union"],
)
def test_a_text_that_nests_deep_is_translated_or_refused(source: str, text: str) -> None:
    with contextlib.suppress(StatementTooComplex):
        assert transpile(text, source, "duckdb").startswith("SELECT")


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(ProgramLimitExceeded) as raised:
        transpile(" " * (MAX_CHARS + 1), "spark", "duckdb")
    assert raised.value.sqlstate == "54000"


def test_nothing_is_written_to_the_log(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(SqlError):
        transpile("VACUUM t", "spark", "duckdb")
    assert caplog.records == []
    assert capsys.readouterr().err == ""
