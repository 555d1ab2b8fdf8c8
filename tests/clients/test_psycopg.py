"""psycopg 3 against a real server process: parameters, transactions, cursors, COPY, pipelines, cancel, timeouts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from ipaddress import IPv4Address

import psycopg
import pytest
from psycopg import errors

from tests.support.server import TidegateServer


@pytest.fixture
def connection(server: TidegateServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn(), autocommit=True) as opened:
        opened.execute("DROP SCHEMA IF EXISTS psycopg CASCADE")
        opened.execute("CREATE SCHEMA psycopg")
        opened.execute("SET search_path = psycopg")
        yield opened


def test_parameters_and_results(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE t (a int, b text, n numeric(10,2))")
    cursor = connection.cursor()
    cursor.execute("INSERT INTO t VALUES (%s, %s, %s) RETURNING a, n", (1, "x", Decimal("1.5")))
    assert cursor.fetchall() == [(1, Decimal("1.50"))]
    assert cursor.statusmessage == "INSERT 0 1"
    cursor.executemany("INSERT INTO t (a, b) VALUES (%s, %s)", [(n, str(n)) for n in range(2, 20)])
    assert cursor.rowcount == 18
    for number in range(8):
        row = cursor.execute("SELECT a + %s FROM t WHERE b = %s", (number, "7"), prepare=True).fetchone()
        assert row == (7 + number,)
    assert cursor.execute("UPDATE t SET b = %s WHERE a < %s", ("u", 4)).rowcount == 3


@pytest.mark.parametrize("name", ["pg_class", "pg_catalog.pg_class", "1259"])
def test_a_parameter_that_names_an_object(connection: psycopg.Connection, name: str) -> None:
    assert connection.execute("SELECT CAST(%s AS regclass)", (name,)).fetchall() == [("pg_class",)]
    found = connection.execute("SELECT relname FROM pg_class WHERE oid = %s::regclass", (name,)).fetchall()
    assert found == [("pg_class",)]
    with pytest.raises(errors.UndefinedTable, match='relation "nope" does not exist'):
        connection.execute("SELECT %s::regclass", ("nope",))


def test_rows_as_values(connection: psycopg.Connection) -> None:
    assert connection.execute("SELECT ROW(1, 'x y')::text").fetchall() == [('(1,"x y")',)]
    assert connection.cursor(binary=True).execute("SELECT ROW(1, 'x y'::text)").fetchall() == [((1, "x y"),)]
    with pytest.raises(errors.FeatureNotSupported, match="binary output of rows"):
        connection.cursor(binary=True).execute("SELECT ROW('pg_class'::regclass)")
    assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_nested_transactions(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE t (a int)")
    with connection.transaction():
        connection.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(errors.DivisionByZero), connection.transaction():
            connection.execute("INSERT INTO t VALUES (2 / 0)")
    assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]


def test_server_side_cursors(connection: psycopg.Connection) -> None:
    with connection.transaction(), connection.cursor("named") as cursor:
        cursor.itersize = 7
        cursor.execute("SELECT g FROM generate_series(1, %s) g", (50,))
        assert [row[0] for row in cursor] == list(range(1, 51))
    with connection.cursor("kept", withhold=True, scrollable=True) as cursor:
        cursor.execute("SELECT g FROM generate_series(1, 10) g")
        assert cursor.fetchmany(4)[-1] == (4,)
        cursor.scroll(-2)
        assert cursor.fetchone() == (3,)
    assert list(connection.cursor().stream("SELECT g FROM generate_series(1, 3) g")) == [(1,), (2,), (3,)]


def test_copy_both_ways(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE t (a int, b text DEFAULT 'd', c int)")
    with connection.cursor().copy("COPY t (a, c) FROM STDIN") as copy:
        for number in range(5000):
            copy.write_row((number, None if number % 2 else number))
    assert connection.execute("SELECT count(*), count(c), min(b) FROM t").fetchone() == (5000, 2500, "d")
    with connection.cursor().copy("COPY (SELECT a FROM t WHERE a < 10 ORDER BY a) TO STDOUT") as copy:
        assert [row[0] for row in copy.rows()] == [str(number) for number in range(10)]
    copying = connection.cursor().copy("COPY t (a) FROM STDIN")
    with pytest.raises(errors.InvalidTextRepresentation), copying as copy:
        copy.write("1\nx\n")
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (5000,)


def test_pipelines(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE t (a int)")
    with connection.pipeline():
        one = connection.execute("SELECT 1")
        connection.execute("INSERT INTO t VALUES (5)")
        count = connection.execute("SELECT count(*) FROM t")
        assert (one.fetchone(), count.fetchone()) == ((1,), (1,))


@pytest.mark.parametrize(
    "text",
    ["SELECT pg_sleep(60)", "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 1000000) b"],
)
def test_cancel(connection: psycopg.Connection, text: str) -> None:
    timer = threading.Timer(0.3, connection.cancel)
    timer.start()
    with pytest.raises(errors.QueryCanceled, match="canceling statement due to user request"):
        connection.execute(text)
    timer.join()
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_timeouts(connection: psycopg.Connection) -> None:
    connection.execute("SET statement_timeout = 100")
    with pytest.raises(errors.QueryCanceled, match="canceling statement due to statement timeout"):
        connection.execute("SELECT pg_sleep(60)")
    connection.execute("SET statement_timeout = 0")
    connection.execute("SET idle_in_transaction_session_timeout = 50")
    connection.execute("BEGIN")
    time.sleep(0.5)
    with pytest.raises(errors.IdleInTransactionSessionTimeout):
        connection.execute("SELECT 1")


@pytest.mark.parametrize("text", ["SELECT pg_sleep(60)", "BEGIN; SET transaction_timeout = 50; SELECT pg_sleep(60)"])
def test_a_transaction_that_takes_too_long_ends_its_session(server: TidegateServer, text: str) -> None:
    connection = psycopg.connect(server.dsn(), autocommit=True)
    connection.execute("SET transaction_timeout = 1000")
    connection.execute("SELECT 1; SELECT pg_sleep(0.05)")
    with pytest.raises(errors.TransactionTimeout, match="terminating connection due to transaction timeout"):
        connection.execute(text.encode())
    connection.close()


def test_contended_updates_are_all_counted(connection: psycopg.Connection, server: TidegateServer) -> None:
    connection.execute("CREATE TABLE counter (n int)")
    connection.execute("INSERT INTO counter VALUES (0)")

    def work() -> None:
        with psycopg.connect(server.dsn(), autocommit=True) as mine:
            for _ in range(10):
                mine.execute("UPDATE psycopg.counter SET n = n + 1")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert connection.execute("SELECT n FROM counter").fetchone() == (40,)


def test_sessions_end_each_other(connection: psycopg.Connection, server: TidegateServer) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as other:
        pid = other.info.backend_pid
        assert connection.execute("SELECT pg_terminate_backend(%s)", (pid,)).fetchone() == (True,)
        with pytest.raises(errors.AdminShutdown):
            other.execute("SELECT 1")


def test_the_ends_of_a_connection_are_shown(connection: psycopg.Connection, server: TidegateServer) -> None:
    row = connection.execute(
        "SELECT client_addr, client_port > 0, inet_client_addr(), inet_server_addr(), inet_server_port()"
        " FROM pg_stat_activity WHERE pid = pg_backend_pid()"
    ).fetchone()
    here = IPv4Address("127.0.0.1")
    assert row == (here, True, here, here, server.port)
