"""What Spark is given to do wherever it runs, with the answers of PostgreSQL; and what is left in the blob store."""

from __future__ import annotations

import re

import psycopg

from storage.stores.object_place import ObjectFiles, ObjectPlace
from tests.support.postgres import start_postgres

ROWS = 20_000

STATEMENTS = (
    "CREATE TABLE t AS SELECT g AS n, 'x' || g AS text, g * 1.5 AS v, timestamp '2020-01-01' + g * interval '1 minute'"
    f" AS ts, ARRAY[g, NULL] AS a FROM generate_series(1, {ROWS}) g",
    "CREATE TABLE names (id int, name text)",
    "INSERT INTO names SELECT n, 'name ' || n FROM generate_series(0, 9) n",
    "UPDATE t SET text = 'y' WHERE n <= 9000",
    f"INSERT INTO t SELECT n + {ROWS}, text, v, ts, a FROM t",
    "DELETE FROM t WHERE n % 3 = 0",
)

QUERIES = (
    "SELECT name, count(*), sum(v), max(ts), count(a[2]), count(*) FILTER (WHERE text = 'y') FROM t JOIN names"
    " ON id = n % 10 GROUP BY name ORDER BY name",
    # By a function in Python; and of a size that nobody knows before, so it is written by executors and read back.
    "SELECT a.n, b.* FROM t a, t b WHERE a.n <= 2 AND b.text ~ '^x1\\d*9$' ORDER BY a.n, b.n",
)


def answers_as_postgres(dsn: str, *more: str) -> None:
    """Carries out the statements and queries at `dsn` and in a PostgreSQL, and then `more`, each a query: asserts that
    the answers are the same."""
    with (
        start_postgres() as oracle,
        psycopg.connect(oracle.dsn(), autocommit=True) as theirs,
        psycopg.connect(dsn, autocommit=True) as ours,
    ):
        for statement in STATEMENTS:
            assert ours.execute(statement).statusmessage == theirs.execute(statement).statusmessage, statement
        for query in (*QUERIES, *more):
            assert ours.execute(query).fetchall() == theirs.execute(query).fetchall(), query


def blob_options(place: ObjectPlace) -> list[str]:
    """The arguments of a server whose blob store is at `place`."""
    return [
        "--blob",
        place.root,
        *(part for pair in place.options.items() for part in ("--blob-option", "=".join(pair))),
    ]


def parts(files: ObjectFiles) -> set[str]:
    """The objects that hold rows."""
    return {key for key in files.list("parts/") if key.endswith(".parquet")}


def written_by_tasks(files: ObjectFiles) -> list[str]:
    """Those of them that tasks have written."""
    return [key for key in parts(files) if re.search(r"-\w+(\.\d+){4}\.parquet$", key)]
