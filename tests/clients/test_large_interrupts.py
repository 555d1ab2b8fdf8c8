"""A cancel request and statement_timeout reach large statements, whatever they are busy with."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import psutil
import psycopg
import pytest

from bench.large.cases import CASES, TABLES, Case
from tests.support.server import TidegateServer

SOON_S = 0.05
"""After so long a statement is interrupted: most are being sent, parsed or planned then."""

PATIENCE_S = 8.0
"""Of the server's processor time: more than hundreds of small statements take, and less than those that do
not notice it. The time that passes says more of what else the machine does."""

CHOSEN = [case for case in CASES if not case.after and "GB" not in case.name and "100 MB" not in case.name]


@pytest.fixture(scope="module")
def tables(server: TidegateServer) -> Iterator[TidegateServer]:
    """The server with what the statements read."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA large")
        connection.execute("ALTER ROLE postgres SET search_path = large")
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        for statement in TABLES:
            connection.execute(statement.encode())
    yield server
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("ALTER ROLE postgres RESET search_path")
        connection.execute("DROP SCHEMA IF EXISTS large CASCADE")


def _run(case: Case, connection: psycopg.Connection[Any], server: TidegateServer) -> tuple[str | None, float]:
    """The SQLSTATE of its error, and the seconds of processor time that it took of the server."""
    assert server.process is not None
    process = psutil.Process(server.process.pid)
    began = sum(process.cpu_times()[:2])
    state = None
    try:
        case.run(connection)
    except psycopg.Error as error:
        state = error.sqlstate or "connection lost"
    return state, sum(process.cpu_times()[:2]) - began


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.name)
def test_large_statements_can_be_interrupted(tables: TidegateServer, case: Case) -> None:
    """Each is interrupted, or was done before; the session goes on."""
    for how in ("timeout", "cancel"):
        with psycopg.connect(tables.dsn(), autocommit=True) as connection:
            for statement in case.before:
                # It may be there from the time before, or from another case.
                with contextlib.suppress(psycopg.errors.DuplicateTable):
                    connection.execute(statement.encode())
            if how == "timeout":
                connection.execute(f"SET statement_timeout = '{SOON_S * 1000:.0f}ms'".encode())
                state, seconds = _run(case, connection, tables)
                connection.execute("RESET statement_timeout")
            else:
                timer = threading.Timer(SOON_S, connection.cancel)
                timer.start()
                state, seconds = _run(case, connection, tables)
                timer.join()
            # What nobody interrupts in time is done, or refused for its size or for what an earlier one has left.
            assert state is None or state == "57014" or state[:2] in ("42", "53", "54")
            assert seconds < PATIENCE_S
            # A cancel request that came too late may meet this one.
            for attempt in range(2):
                try:
                    assert connection.execute("SELECT 1").fetchone() == (1,)
                    break
                except psycopg.errors.QueryCanceled:
                    assert attempt == 0


def test_what_they_have_left_is_dropped_at_once(tables: TidegateServer) -> None:
    """Hundreds of views over views and a thousand constraints: the watch of the loop sees what their DROP takes."""
    with psycopg.connect(tables.dsn(), autocommit=True) as connection:
        columns = ", ".join(f"CHECK (k <> {number})" for number in range(1000))
        connection.execute(f"CREATE TABLE base (k int, {columns})".encode())
        for number in range(300):
            below = "base" if number == 0 else f"over{number - 1}"
            connection.execute(f"CREATE VIEW over{number} AS SELECT k FROM {below}".encode())
        connection.execute("DROP SCHEMA large CASCADE")
        assert connection.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'over%'").fetchone() == (0,)
