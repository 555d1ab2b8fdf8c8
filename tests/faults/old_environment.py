"""An environment as an earlier version left it: what was written to it, and how it was packed.

    python -m tests.faults.old_environment COMMAND ARCHIVE

runs the `serve` of COMMAND (for example "python -m frontend.command.main", run in the folder of that version's code)
over a new data directory, writes `FIRST` and `AGAIN` to it, waits after each until that has been applied, compacted
and collected, writes `LAST`, ends the server with SIGKILL at that moment, and packs the directory. So the archive has
files and inline parts, deletes over both, rollups, parts that compaction wrote, a dropped table, writes that are
committed and not applied, and a transaction that was committed by its files alone (its record is still staged).

`FIRST`, `LAST` and `QUERIES` are PostgreSQL's SQL: whoever wants to know what the environment has to hold runs them in
PostgreSQL.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

import psycopg

from tests.support.postgres import free_port

START_TIMEOUT_S = 120.0
SETTLE_S = 25.0
"""Long enough for two keep-alives, after which what was written before may be compacted, and files removed."""

SMALL_COMMITS = 160
"""Enough for a rollup of the txns shard, and for a compaction of the table that they write to."""

FIRST = (
    "CREATE SCHEMA sales",
    "CREATE ROLE clerk LOGIN PASSWORD 'secret'",
    "CREATE ROLE auditor NOLOGIN",
    "ALTER ROLE clerk SET datestyle = 'German'",
    "ALTER DATABASE postgres SET extra_float_digits = 0",
    # Inline parts of every kind of value.
    "CREATE TABLE kinds (b boolean, i2 smallint, i4 integer, i8 bigint, n numeric(20, 4), f4 real, f8 double precision,"
    " t text, v varchar(20), c char(5), y bytea, d date, tm time, ts timestamp, tz timestamptz, iv interval, u uuid,"
    " j json, jb jsonb, a integer[], ta text[])",
    "INSERT INTO kinds VALUES (true, -1, 2, 3000000000, 1234.5678, 1.5, 2.25, 'Grüße', 'v', 'c', '\\x00ff',"
    " '2024-02-29', '23:59:59.5', '1999-12-31 23:59:59', '2024-06-01 12:00:00+02', '1 year 2 mons 3 days 04:05:06',"
    " 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{\"k\":  1}', '{\"k\":  1}', '{1,NULL,3}', '{a,\"b c\"}')",
    "INSERT INTO kinds (t) VALUES (NULL), ('')",
    "INSERT INTO kinds (f8, d, ts) VALUES ('NaN', '0001-01-01', '9999-12-31 23:59:59')",
    # Files, and deletes that are inline and files.
    "CREATE TABLE sales.orders (id bigint NOT NULL PRIMARY KEY, customer text NOT NULL, amount numeric(12, 2),"
    " day date)",
    "INSERT INTO sales.orders SELECT n, 'customer ' || n % 97, (n % 1000) / 4.0, date '2024-01-01' + (n % 366)::int"
    " FROM generate_series(1, 20000) AS n",
    "DELETE FROM sales.orders WHERE id % 1000 = 7",
    "DELETE FROM sales.orders WHERE id > 2000 AND id % 3 = 0",
    "UPDATE sales.orders SET amount = amount + 1 WHERE customer = 'customer 5'",
    # Several versions of a schema: parts from before a column, a renamed and a dropped one.
    "CREATE TABLE grown (a integer NOT NULL, gone text, b text)",
    "INSERT INTO grown VALUES (1, 'x', 'one'), (2, 'y', 'two')",
    "ALTER TABLE grown ADD COLUMN c integer DEFAULT 42",
    "INSERT INTO grown VALUES (3, 'z', 'three', 3)",
    "ALTER TABLE grown DROP COLUMN gone",
    "ALTER TABLE grown RENAME COLUMN b TO name",
    "INSERT INTO grown VALUES (4, 'four', NULL)",
    "COMMENT ON TABLE grown IS 'it has grown'",
    "COMMENT ON COLUMN grown.c IS 'added later'",
    # Sequences, and a default that draws from one.
    "CREATE SEQUENCE numbers START 100 INCREMENT 5",
    "SELECT nextval('numbers'), nextval('numbers')",
    "CREATE SEQUENCE placed",
    "SELECT setval('placed', 4711, true)",
    "CREATE TABLE counted (id serial PRIMARY KEY, what text NOT NULL)",
    "INSERT INTO counted (what) VALUES ('first'), ('second')",
    # Views over tables and over views.
    "CREATE VIEW sales.by_day AS SELECT day, count(*) AS orders, sum(amount) AS amount FROM sales.orders GROUP BY day",
    "CREATE VIEW busy AS SELECT day, orders FROM sales.by_day WHERE orders > 30",
    "CREATE TABLE dropped (a integer)",
    "INSERT INTO dropped SELECT n FROM generate_series(1, 100) AS n",
    "DROP TABLE dropped",
    "CREATE TABLE small (n integer NOT NULL, squared bigint)",
    *(f"INSERT INTO small VALUES ({n}, {n * n})" for n in range(SMALL_COMMITS)),
    "DELETE FROM small WHERE n % 10 = 3",
)
"""Written, and then left alone for `SETTLE_S`."""

AGAIN = (
    "INSERT INTO small VALUES (500, 0)",
    "DELETE FROM sales.orders WHERE id = 1",
)
"""The same: what a table consisted of is compacted once it is written to again."""

LAST = (
    "INSERT INTO small VALUES (1000, -1), (1001, -2)",
    "DELETE FROM small WHERE n IN (0, 1000)",
    "UPDATE grown SET c = 5 WHERE a = 1",
    "CREATE TABLE young (k integer NOT NULL, v text)",
    "INSERT INTO young SELECT n, 'v' || n FROM generate_series(1, 50) AS n",
    "DELETE FROM sales.orders WHERE id BETWEEN 15000 AND 15099",
    "INSERT INTO counted (what) VALUES ('third')",
    "CREATE VIEW last_view AS SELECT k FROM young WHERE k > 40",
    # The last one: too large to go inline, and killed before its record is made explicit.
    "INSERT INTO sales.orders SELECT n, 'late', 0.25, date '2025-01-01' FROM generate_series(30001, 42000) AS n",
)
"""Written just before the end."""

QUERIES = (
    "SELECT * FROM kinds ORDER BY i4, t, n",
    "SELECT id, customer, amount, day FROM sales.orders ORDER BY id",
    "SELECT count(*), sum(id), sum(amount), min(day), max(day), count(DISTINCT customer) FROM sales.orders",
    "SELECT customer, count(*) FROM sales.orders WHERE day >= '2024-12-01' GROUP BY customer ORDER BY customer",
    "SELECT a, name, c FROM grown ORDER BY a",
    "SELECT n, squared FROM small ORDER BY n",
    "SELECT id, what FROM counted ORDER BY id",
    "SELECT k, v FROM young ORDER BY k",
    "SELECT day, orders, amount FROM sales.by_day ORDER BY day",
    "SELECT day, orders FROM busy ORDER BY day",
    "SELECT k FROM last_view ORDER BY k",
    "SELECT n.nspname, c.relname, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname IN ('public', 'sales') ORDER BY 1, 2",
    "SELECT table_schema, table_name, column_name, data_type, is_nullable, column_default IS NULL"
    " FROM information_schema.columns WHERE table_schema IN ('public', 'sales') ORDER BY 1, 2, ordinal_position",
    "SELECT obj_description('grown'::regclass), col_description('grown'::regclass, 4)",
    "SELECT rolname, rolcanlogin FROM pg_roles WHERE rolname IN ('clerk', 'auditor', 'postgres') ORDER BY 1",
    "SHOW extra_float_digits",
)
"""What the environment is asked for."""


def write(dsn: str, statements: tuple[str, ...]) -> None:
    """Runs `statements`, each in a transaction of its own."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def answers(dsn: str) -> dict[str, list[tuple[str | None, ...]]]:
    """The rows of each query, as text."""
    found: dict[str, list[tuple[str | None, ...]]] = {}
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET timezone = 'UTC'")
        for query in QUERIES:
            result = connection.execute(query.encode()).pgresult
            assert result is not None
            found[query] = [
                tuple(
                    None if value is None else value.decode()
                    for value in (result.get_value(row, column) for column in range(result.nfields))
                )
                for row in range(result.ntuples)
            ]
    return found


def make(command: list[str], archive: Path) -> None:
    """Writes and packs; see the module."""
    with tempfile.TemporaryDirectory() as folder:
        data_dir, port = Path(folder) / "environment", free_port()
        arguments = ["serve", "--data-dir", str(data_dir), "--listen", f"127.0.0.1:{port}", "--spark-start", "lazy"]
        server = subprocess.Popen([*command, *arguments])
        try:
            dsn = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
            _wait_for(dsn)
            write(dsn, FIRST)
            time.sleep(SETTLE_S)
            write(dsn, AGAIN)
            time.sleep(SETTLE_S)
            write(dsn, LAST)
        finally:
            os.kill(server.pid, signal.SIGKILL)
            server.wait()
        with tarfile.open(archive, "w:xz") as packed:
            for path in sorted(data_dir.rglob("*")):
                packed.add(path, path.relative_to(data_dir), recursive=False, filter=_nobody)


def _nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """`entry` without the name of whoever packed it."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _wait_for(dsn: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            psycopg.connect(dsn).close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command")
    parser.add_argument("archive", type=Path)
    given = parser.parse_args()
    make(shlex.split(given.command), given.archive)
