"""postgres_fdw and dblink of a PostgreSQL 15 that has Tidegate, or another database of its own, as foreign server."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from tests.clients_basic.client import Check, Client, Place
from tests.support.postgres import start_postgres
from tests.support.server import ROOT

_TABLES = """
    CREATE SCHEMA far;
    CREATE TABLE far.t (a int PRIMARY KEY, b text NOT NULL DEFAULT 'dd', n numeric(10,2), d date, arr text[]);
    INSERT INTO far.t VALUES (1, 'one', 1.25, '2020-01-01', '{a,b}'), (2, 'two', 2.5, NULL, NULL);
    CREATE TABLE far.u (x serial, a int REFERENCES far.t);
    INSERT INTO far.u (a) VALUES (1), (2);
    CREATE VIEW far.v AS SELECT a FROM far.t;
"""
_BY_FDW = (
    "SELECT attname, atttypid::regtype FROM pg_attribute WHERE attrelid = 'near.t'::regclass AND attnum > 0",
    "SELECT * FROM near.t ORDER BY a",
    "INSERT INTO near.t VALUES (10, 'ten', 1.5, '2021-02-03', ARRAY['x', 'y']) RETURNING a, b",
    "UPDATE near.t SET b = b || '!' WHERE a > 1 RETURNING a, b",
    "DELETE FROM near.t WHERE a = 10 RETURNING a",
    "SELECT count(*), sum(n), max(d) FROM near.t",
    "SELECT t.a, u.x FROM near.t t JOIN near.u u ON t.a = u.a ORDER BY 1",
    "ANALYZE near.t",
    "BEGIN",
    "SAVEPOINT s",
    "INSERT INTO near.t VALUES (1)",
    "ROLLBACK TO s",
    "SELECT count(*) FROM near.t",
    "COMMIT",
    "TRUNCATE near.u",
    "SELECT count(*) FROM near.u",
    "INSERT INTO near.v VALUES (1)",
)
_BY_DBLINK = (
    "SELECT * FROM dblink('{dsn}', 'SELECT a, b FROM far.t ORDER BY a') AS x(a int, b text)",
    "SELECT dblink_exec('{dsn}', 'UPDATE far.t SET n = 7 WHERE a = 1')",
    "SELECT dblink_connect('c', '{dsn}')",
    "SELECT dblink_open('c', 'cur', 'SELECT a FROM far.t ORDER BY a')",
    "SELECT * FROM dblink_fetch('c', 'cur', 2) AS x(a int)",
    "SELECT dblink_close('c', 'cur')",
    "SELECT * FROM dblink('c', 'SELECT 1 / 0') AS x(a int)",
    "SELECT dblink_send_query('c', 'SELECT 1 AS q')",
    "SELECT * FROM dblink_get_result('c') AS x(q int)",
    "SELECT dblink_disconnect('c')",
)


def _answers(connection: psycopg.Connection, statement: str) -> list[str]:
    try:
        cursor = connection.execute(statement.encode())
    except psycopg.Error as error:
        return [f"{error.sqlstate} {error.diag.message_primary} {error.diag.message_detail}"]
    return [str(row) for row in cursor.fetchall()] if cursor.description else [str(cursor.statusmessage)]


def _session(place: Place, setup: str, statements: Sequence[str]) -> list[str]:
    with start_postgres() as near, psycopg.connect(near.dsn(), autocommit=True) as connection:
        connection.execute(setup.encode())
        return [line for statement in statements for line in _answers(connection, statement)]


def _by_fdw(place: Place) -> Sequence[str]:
    place.execute(_TABLES)
    setup = f"""
        CREATE EXTENSION postgres_fdw;
        CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw
            OPTIONS (host '{place.host}', port '{place.port}', dbname '{place.database}');
        CREATE USER MAPPING FOR postgres SERVER far OPTIONS (user 'postgres', password_required 'false');
        CREATE SCHEMA near;
        IMPORT FOREIGN SCHEMA far FROM SERVER far INTO near;
    """
    return _session(place, setup, _BY_FDW)


def _by_dblink(place: Place) -> Sequence[str]:
    statements = [statement.format(dsn=place.dsn()) for statement in _BY_DBLINK]
    return _session(place, "CREATE EXTENSION dblink", statements)


CLIENT = Client(
    name="postgres_fdw",
    version="15",
    install=lambda: ROOT,
    checks=(
        Check("IMPORT FOREIGN SCHEMA, reads, writes, joins, savepoints, TRUNCATE, errors", _by_fdw),
        Check("dblink: queries, commands, cursors, errors", _by_dblink),
    ),
)
