"""Errors that COPY FROM finds in rows once they are decoded: the same as PostgreSQL's, with the same line."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.support.postgres import PostgresServer
from tests.support.server import TidegateServer

TABLES = """
    DROP SCHEMA IF EXISTS copied CASCADE;
    CREATE SCHEMA copied;
    SET search_path = copied;
    CREATE TABLE t (
        a int, b text NOT NULL, c date CHECK (c > '2000-01-01'), d int[] UNIQUE, e text UNIQUE NULLS NOT DISTINCT
    );
    CREATE TABLE k (k int PRIMARY KEY, p int, q int GENERATED ALWAYS AS (10 / p) STORED);
    CREATE TABLE x (a int, b text);
    CREATE UNIQUE INDEX ON x ((ARRAY[a, 7]), (coalesce(b, '')));
    CREATE TABLE j (j json);
    CREATE TABLE n (a int);
    INSERT INTO k (k, p) VALUES (100, 1);
"""
MANY = "".join([f"{n}\t1\n" for n in range(200_000)])
"""More than one block."""

CASES: dict[str, tuple[str, str]] = {
    "a NULL": ("t (a, b)", "1\tx\n2\t\\N\n"),
    "a column that is not given": ("t (a)", "1\n2\n"),
    "a check": ("t (a, b, c)", "1\tx\t2001-01-01\n1\tx\t1999-01-01\n"),
    "a check before a NULL": ("t (a, b, c)", "1\tx\t1999-01-01\n1\t\\N\t2001-01-01\n"),
    "a check in a quoted line": ("t (a, b, c) CSV", '1,"x\ny",2001-01-01\n2,"x\n\ny",1999-01-01\n'),
    "a check below a header": ("t (a, b, c) CSV HEADER", "a,b,c\n1,x,2001-01-01\n1,x,1999-01-01\n"),
    "a check in an escaped line": ("t (a, b, c)", "1\tx\\\ty\t2001-01-01\n1\tx\\ny\t1999-01-01\n"),
    "a long line": ("t (a, b, c)", f"1\t{'long ' * 100}\t1999-01-01\n"),
    "an array twice": ("t (b, d, e)", "x\t{1}\tp\nx\t{2}\tq\nx\t{1}\tr\n"),
    "NULL twice": ("t (b, e)", "x\tp\nx\t\\N\nx\tq\nx\t\\N\n"),
    "a key twice": ("k (k, p)", "1\t1\n2\t1\n1\t1\n"),
    "a key that is there": ("k (k, p)", "1\t1\n100\t1\n"),
    "a key in a later block": ("k (k, p) WHERE k <> 100", MANY + "7\t1\n"),
    "an expression twice": ("x", "1\tx\n1\ty\n1\tx\n"),
    "a number generated from one row": ("k (k, p)", "1\t0\n"),
    "a condition on one row": ("k (k, p) WHERE 10 / p > 0", "1\t0\n"),
    "a NULL behind others that are not taken": ("t (a, b) WHERE a > 1", "0\tx\n1\t\\N\n2\tx\n3\t\\N\n"),
    "rows that cannot be frozen": ("x CSV FREEZE", "1,x\n"),
    "half a document": ("j", '{}\n{"a":\n'),
    "a document that is none": ("j CSV", '{}\n"{""a"": x}"\n'),
}


def error_of(dsn: str, into: str, data: str) -> tuple[str | None, ...]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path = copied")
        table, _, options = into.partition(" CSV")
        columns, _, condition = table.partition(" WHERE ")
        form = f" CSV{options}" if " CSV" in into else ""
        where = f" WHERE {condition}" if condition else ""
        statement = f"COPY {columns} FROM STDIN{form}{where}".encode()
        with pytest.raises(psycopg.Error) as raised, connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(data)
    found: Any = raised.value.diag
    return (found.sqlstate, found.message_primary, found.message_detail, found.context, found.constraint_name)


@pytest.fixture(scope="module")
def dsns(server: TidegateServer, postgres: PostgresServer) -> tuple[str, str]:
    """Of our server and PostgreSQL, both with the tables."""
    for dsn in (server.dsn(), postgres.dsn()):
        with psycopg.connect(dsn, autocommit=True) as connection:
            for statement in filter(str.strip, TABLES.split(";")):
                connection.execute(statement.encode())
    return server.dsn(), postgres.dsn()


@pytest.mark.parametrize("name", CASES)
def test_context(dsns: tuple[str, str], name: str) -> None:
    ours, theirs = (error_of(dsn, *CASES[name]) for dsn in dsns)
    if name == "a key in a later block":
        # Rows that a condition leaves out are not counted: no line rather than a wrong one.
        assert ours[3] is None
        ours, theirs = (*ours[:3], *ours[4:]), (*theirs[:3], *theirs[4:])
    assert ours == theirs


def frozen_after(dsn: str, before: str) -> str | None:
    """The SQLSTATE of COPY FREEZE in a transaction that has begun with these statements."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path = copied")
        connection.execute("CREATE TEMPORARY TABLE tt (a int)")
        table = before.rpartition(" ")[2]
        connection.execute("BEGIN")
        for statement in filter(str.strip, before.rpartition(";")[0].split(";")):
            connection.execute(statement.encode())
        try:
            with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN WITH (FREEZE)".encode()) as copy:
                copy.write("1\n")
        except psycopg.Error as error:
            return error.sqlstate
    return None


@pytest.mark.parametrize(
    "before",
    [
        "TRUNCATE n; SAVEPOINT s; n",
        "SAVEPOINT s; TRUNCATE n; n",
        "TRUNCATE n; SAVEPOINT s; RELEASE s; n",
        "SAVEPOINT s; TRUNCATE n; RELEASE s; n",
        "SAVEPOINT s; TRUNCATE n; RELEASE s; SAVEPOINT s2; n",
        "TRUNCATE n; SAVEPOINT s; ROLLBACK TO s; n",
        "SAVEPOINT s; TRUNCATE n; ROLLBACK TO s; n",
        "SAVEPOINT s; ROLLBACK TO s; TRUNCATE n; n",
        "CREATE TABLE m (a int); SAVEPOINT s; m",
        "CREATE TEMP TABLE mt (a int); mt",
        "CREATE TEMP TABLE mt (a int); SAVEPOINT s; mt",
        "tt",
        "TRUNCATE tt; tt",
        "TRUNCATE tt; SAVEPOINT s; tt",
        "TRUNCATE n; DECLARE c CURSOR FOR SELECT 1; n",
        "TRUNCATE n; DECLARE c CURSOR FOR SELECT 1; CLOSE c; n",
    ],
)
def test_freezing(dsns: tuple[str, str], before: str) -> None:
    ours, theirs = (frozen_after(dsn, before) for dsn in dsns)
    assert ours == theirs
