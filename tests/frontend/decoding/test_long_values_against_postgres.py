"""Values so long that they go beside an engine's text, and arrays that go as one: the same results as PostgreSQL's."""

from __future__ import annotations

import math
from typing import Any

import psycopg
import pytest

from tests.support.postgres import PostgresServer
from tests.support.server import TidegateServer

LONG = 'it\'s a "long" täxt \\ with $1 and ; in it\n' * 40_000
BYTES = bytes(range(256)) * 6_000
INTEGERS = [number * 7 - 9_000 for number in range(3_000)]
FLOATS = [number / 7 for number in range(2_000)] + [math.inf, -math.inf, math.nan, -0.0, 5e-324, 1.7976931348623157e308]
TEXTS = [f'it\'s [{number}], "x" \\ ü' for number in range(2_000)] + ["", " ", "NULL", "null", "{}"]

CASES: dict[str, tuple[str, list[Any]]] = {
    "a text": ("SELECT length($1::text), md5($1), left($1, 60), right($1::varchar, 30)", [LONG]),
    "a text twice": ("SELECT $1::text = $1, length($1 || $2::text), strpos($1, $2)", [LONG, LONG + "x"]),
    "a text for each row": ("SELECT n, length($1::text || n) FROM generate_series(1, 3) n ORDER BY 1", [LONG]),
    "a text in a condition": ("SELECT count(*) FROM long_values WHERE v = $1 OR length(v) = length($1)", [LONG]),
    "a text in a group": ("SELECT length($1::text || v), count(*) FROM long_values GROUP BY 1 ORDER BY 1", [LONG]),
    "a text in an expression": (
        "SELECT length(CASE WHEN n > 1 THEN $1::text ELSE upper($1) END), substr($1, n, 3) "
        "FROM generate_series(1, 2) n ORDER BY n",
        [LONG],
    ),
    "a pattern": ("SELECT length(regexp_replace($1::text, $2::text, 'y', 'g')), $1 LIKE '%;%'", [LONG, "[tä]"]),
    "a document": ("SELECT length(($1::jsonb)->>'a'), ($1::json)->'b'", ['{"a": "' + "x" * 1_500_000 + '", "b": 1}']),
    "bytes": ("SELECT octet_length($1::bytea), md5($1), get_byte($1, 255), substring($1 from 300 for 4)", [BYTES]),
    "bytes twice": ("SELECT $1::bytea = $2, octet_length($1 || $2)", [BYTES, BYTES + b"x"]),
    "integers": ("SELECT count(*), sum(x), min(x) FROM unnest($1::int[]) x", [INTEGERS]),
    "integers with NULL": ("SELECT count(*), count(x), max(x) FROM unnest($1::int8[]) x", [[None, *INTEGERS, 1 << 62]]),
    "small integers": ("SELECT count(*), sum(x) FROM unnest($1::int2[]) x WHERE x > 5", [INTEGERS]),
    "among integers": ("SELECT count(*) FROM generate_series(1, 500) n WHERE n = ANY ($1::int[])", [INTEGERS]),
    "positions": ("SELECT array_position($1::int[], 5), ($1::int[])[7], cardinality($1::int[])", [INTEGERS]),
    "floats": ("SELECT x, count(*) FROM unnest($1::float8[]) x GROUP BY x ORDER BY x DESC LIMIT 8", [FLOATS]),
    "texts": ("SELECT x FROM unnest($1::text[]) WITH ORDINALITY u (x, n) ORDER BY n DESC LIMIT 9", [TEXTS]),
    "texts with NULL": ("SELECT count(*), count(x), max(length(x)) FROM unnest($1::text[]) x", [[*TEXTS, None]]),
    "texts with separators": ("SELECT count(*), max(x) FROM unnest($1::varchar[]) x", [["\x01", *TEXTS, "a\x01b"]]),
    "another lower bound": ("SELECT array_lower($1::int[], 1)", ["[5:1505]={" + "7," * 1_500 + "7}"]),
    "several arrays": (
        "SELECT count(*), sum(a), max(b) FROM unnest($1::int[], $2::text[]) u (a, b)",
        [INTEGERS, TEXTS],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def dsns(server: TidegateServer, postgres: PostgresServer) -> tuple[str, str]:
    """Of our server and PostgreSQL, both with a table of long values."""
    for dsn in (server.dsn(), postgres.dsn()):
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS long_values")
            connection.execute("CREATE TABLE long_values (id int, v text)")
            connection.execute("INSERT INTO long_values VALUES (1, $1), (2, 'short')".replace("$1", "%s"), [LONG])
    return server.dsn(), postgres.dsn()


def outcome(dsn: str, statement: str, values: list[Any], *, binary: bool) -> str:
    with psycopg.connect(dsn, autocommit=True) as connection, psycopg.RawCursor(connection) as cursor:
        try:
            return repr(cursor.execute(statement.encode(), values, binary=binary).fetchall())
        except psycopg.Error as error:
            return str(error.sqlstate)


@pytest.mark.parametrize("name", CASES)
def test_long_values(dsns: tuple[str, str], name: str) -> None:
    ours, theirs = dsns
    expected = outcome(theirs, *CASES[name], binary=False)
    for binary in (False, True):
        assert outcome(ours, *CASES[name], binary=binary) == expected
