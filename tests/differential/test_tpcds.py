"""The 99 queries of TPC-DS at a small scale: on the local engine all, on Spark those of some kinds.

`make tpcds` runs all on both, at larger scales. Spark's own texts (`SET dialect = 'spark'`) are held against DuckDB,
which has Spark's meaning of quotients and averages, and is told its order of NULLs.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.pq import ExecStatus

from bench.tpcds.answers import Answer, ask, difference, with_total_order
from bench.tpcds.load import PYTHON, generated, load, queries, spark_queries
from bench.tpcds.packaged import __file__ as packaged
from bench.tpcds.packaged import plain
from tests.support.postgres import PostgresServer
from tests.support.server import TidegateServer

SCALE_FACTOR = 0.01
ON_SPARK = (32, 51, 77)
"""Correlation, windows over a full join, ROLLUP over a union of outer joins."""


@pytest.fixture(scope="module")
def data() -> Path:
    """Data and texts."""
    return generated(SCALE_FACTOR)


@pytest.fixture(scope="module")
def connections(
    server: TidegateServer, postgres: PostgresServer, data: Path
) -> Iterator[tuple[psycopg.Connection[Any], psycopg.Connection[Any]]]:
    """A session here and one on PostgreSQL, with the tables."""
    with ExitStack() as stack:
        both = []
        for dsn in (server.dsn(), postgres.dsn()):
            connection = stack.enter_context(psycopg.connect(dsn, autocommit=True))
            connection.execute("DROP SCHEMA IF EXISTS tpcds CASCADE")
            connection.execute("CREATE SCHEMA tpcds")
            connection.execute("SET search_path = tpcds")
            stack.callback(connection.execute, "DROP SCHEMA tpcds CASCADE")
            load(connection, data)
            both.append(connection)
        yield both[0], both[1]


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_answers_are_postgresqls(
    connections: tuple[psycopg.Connection[Any], psycopg.Connection[Any]], data: Path, engine: str
) -> None:
    """Names, types, rows and their order."""
    ours, theirs = connections
    ours.execute(f"SET engine = {engine}".encode())
    found = {}
    for number, text in queries(data):
        if engine == "local" or number in ON_SPARK:
            problem = difference(text, (ours, ask(ours, text)), (theirs, ask(theirs, text)))
            if problem:
                found[number] = problem
    ours.execute("RESET engine")
    assert found == {}


def test_being_out_of_time_is_no_answer(connections: tuple[psycopg.Connection[Any], psycopg.Connection[Any]]) -> None:
    both = [(connection, Answer(seconds=1, error="57014: out of time", sqlstate="57014")) for connection in connections]
    assert difference("", both[0], both[1]) == "57014: out of time"


OLD_NAMES = {"c_last_review_date,": "c_last_review_date_sk,", "c_last_review_date\n": "c_last_review_date_sk\n"}
"""Columns that Spark's texts call by the name that the specification's first version had."""

NOT_COMPARED = {"q90": "a quotient by zero at this scale: an error with ANSI's arithmetic, NULL in DuckDB"}


def _alike(mine: Any, other: Any) -> bool:
    """Whether two values are equal but for a text's padding and a number's last digits."""
    if isinstance(mine, str) and isinstance(other, str):
        return mine.rstrip() == other.rstrip()
    if mine is None or other is None or isinstance(mine, str) or isinstance(other, str):
        return bool(mine == other)
    return abs(float(mine) - float(other)) <= 1e-9 * max(1, abs(float(mine)), abs(float(other)))


def test_sparks_texts(connections: tuple[psycopg.Connection[Any], psycopg.Connection[Any]], data: Path) -> None:
    """All of Spark's texts as they are, with all columns behind the keys of ORDER BY."""
    ours, _ = connections
    texts = {}
    for name, text in spark_queries(data):
        for old, new in OLD_NAMES.items():
            text = text.replace(old, new)
        texts[name] = text
    assert len(texts) > 99
    ours.execute("SET engine = local")
    ours.execute("SET dialect = 'spark'")
    found, total = {}, {}
    for name, text in texts.items():
        prepared = ours.pgconn.prepare(b"", text.encode())
        if prepared.status != ExecStatus.COMMAND_OK:
            found[name] = prepared.error_message.decode()
        elif name not in NOT_COMPARED:
            total[name] = with_total_order(text, ours.pgconn.describe_prepared(b"").nfields)
    asked = {name: re.sub(r"\breturns\b", '"returns"', text.replace("`", '"')) for name, text in total.items()}
    command = [str(PYTHON), packaged, str(data), "--answer"]
    output = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=True)
    for name, rows in json.loads(output.stdout).items():
        answer = ask(ours, total[name])
        given = [[plain(value) for value in row] for row in answer.rows]
        if answer.error or isinstance(rows, str):
            found[name] = answer.error or f"DuckDB: {rows}"
        elif len(given) != len(rows):
            found[name] = f"{len(given)} rows, not {len(rows)}"
        else:
            for row, right in zip(given, rows, strict=True):
                if not all(map(_alike, row, right)):
                    found[name] = f"{row}, not {right}"
                    break
    ours.execute("RESET engine")
    ours.execute("RESET dialect")
    assert found == {}
