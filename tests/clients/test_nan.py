"""NaN in columns of numeric(p, s), which decimals cannot hold: in the protocol's forms, and among sessions.

What statements make of them is in sqllogictest/suites/nan_numerics.slt.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from tests.support.server import TidegateServer

Client = psycopg.Connection[tuple[Any, ...]]

NAN = Decimal("NaN")


@pytest.fixture
def client(server: TidegateServer) -> Iterator[Client]:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS nan CASCADE")
        connection.execute("CREATE TABLE nan (id int PRIMARY KEY, x numeric(10,2), y numeric(10,2))")
        connection.execute("INSERT INTO nan VALUES (1, 1.5, 1)")
        yield connection


def rows(client: Client) -> list[tuple[Any, ...]]:
    """The rows as texts: a NaN equals no other in Python."""
    return client.execute("SELECT id, x::text, y::text FROM nan ORDER BY id").fetchall()


@pytest.mark.parametrize("form", ["%s", "%b", "%t"])
def test_parameters_and_results_in_each_form(client: Client, form: str) -> None:
    client.execute(f"INSERT INTO nan VALUES (2, {form}, 2)", (NAN,))
    for number in (3, 4, 5):
        client.execute("INSERT INTO nan VALUES (%s, %s, 3.456)", (number, NAN), prepare=True)
    assert rows(client)[1:] == [(2, "NaN", "2.00"), *[(number, "NaN", "3.46") for number in (3, 4, 5)]]
    for binary in (False, True):
        found = client.execute(f"SELECT x, y, {form}::numeric(5,1) FROM nan ORDER BY id", (NAN,), binary=binary)
        assert [[str(value) for value in row] for row in found.fetchall()] == [
            ["1.50", "1.00", "NaN"], ["NaN", "2.00", "NaN"], *[["NaN", "3.46", "NaN"]] * 3,
        ]  # fmt: skip


@pytest.mark.parametrize("binary", [False, True])
def test_copy_goes_on_behind_a_nan(client: Client, binary: bool) -> None:
    text = f"COPY nan FROM STDIN (FORMAT {'binary' if binary else 'text'})"
    with client.cursor() as cursor, cursor.copy(text) as copy:
        copy.set_types(["int4", "numeric", "numeric"])
        for number in range(2, 60_002):
            copy.write_row((number, NAN if number == 30_000 else Decimal(number), Decimal("1.25")))
    found = client.execute("SELECT count(*), count(*) FILTER (WHERE x = 'NaN'), sum(y)::text, max(id) FROM nan")
    assert found.fetchall() == [(60_001, 1, "75001.00", 60_001)]
    with (
        pytest.raises(psycopg.errors.UniqueViolation, match="nan_pkey"),
        client.cursor() as cursor,
        cursor.copy("COPY nan FROM STDIN") as copy,
    ):
        copy.write(b"70000\tNaN\tNaN\n30000\t1\t1\n")


def test_block_keeps_what_was_written_before_and_rollback_takes_all(client: Client) -> None:
    with client.transaction():
        client.execute("INSERT INTO nan VALUES (2, 2.5, 2)")
        client.execute("SAVEPOINT s")
        client.execute("INSERT INTO nan VALUES (3, 'NaN', 3)")
        client.execute("ROLLBACK TO s")
        client.execute("INSERT INTO nan SELECT 4, t::text::numeric, 4 FROM (VALUES ('NaN')) v(t)")
        client.execute("UPDATE nan SET y = 'NaN' WHERE id = 2")
        assert rows(client) == [(1, "1.50", "1.00"), (2, "2.50", "NaN"), (4, "NaN", "4.00")]
    assert rows(client) == [(1, "1.50", "1.00"), (2, "2.50", "NaN"), (4, "NaN", "4.00")]
    client.execute("BEGIN; INSERT INTO nan VALUES (5, 'NaN', 'NaN'); ROLLBACK")
    assert rows(client) == [(1, "1.50", "1.00"), (2, "2.50", "NaN"), (4, "NaN", "4.00")]


def test_rows_of_before_a_nan_are_what_they_were(server: TidegateServer, client: Client) -> None:
    with psycopg.connect(server.dsn()) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        before = rows(reader)
        client.execute("INSERT INTO nan VALUES (2, 'NaN', 2)")
        assert rows(reader) == before
    assert client.execute("SELECT x::text FROM nan WHERE x > 1 ORDER BY x").fetchall() == [("1.50",), ("NaN",)]


def test_prepared_statement_of_another_session(server: TidegateServer, client: Client) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as other:
        for number in (10, 11):
            other.execute("INSERT INTO nan VALUES (%s, %s, %s)", (number, Decimal(number), Decimal(1)), prepare=True)
            other.execute("SELECT x FROM nan WHERE id = %s", (number,), prepare=True)
        client.execute("INSERT INTO nan VALUES (2, 'NaN', 2)")
        other.execute("INSERT INTO nan VALUES (%s, %s, %s)", (12, Decimal("1.239"), Decimal(1)), prepare=True)
        found = other.execute("SELECT x FROM nan WHERE id = %s", (12,), prepare=True).fetchall()
        assert found == [(Decimal("1.24"),)]
        assert str(other.execute("SELECT x FROM nan WHERE id = %s", (2,), prepare=True).fetchall()[0][0]) == "NaN"


def test_many_sessions_insert_the_first_nan_at_once(server: TidegateServer, client: Client) -> None:
    begin = threading.Barrier(4)

    def insert(first: int) -> None:
        with psycopg.connect(server.dsn(), autocommit=True) as own:
            begin.wait()
            for number in range(first, first + 10):
                own.execute("INSERT INTO nan VALUES (%s, %s, 1)", (number, NAN if number % 2 else number))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(insert, (100, 200, 300, 400)))
    found = client.execute("SELECT count(*), count(*) FILTER (WHERE x = 'NaN') FROM nan").fetchall()
    assert found == [(41, 20)]


def test_published_table_has_none(client: Client) -> None:
    client.execute("CREATE TABLE IF NOT EXISTS nan_published (x numeric(10,2)) WITH (iceberg)")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="NaN") as caught:
        client.execute("INSERT INTO nan_published VALUES ('NaN')")
    assert "Iceberg" in (caught.value.diag.message_detail or "")
    client.execute("DROP TABLE nan_published")


def test_query_of_many_rows(client: Client) -> None:
    text = "SELECT (CASE WHEN g = 90000 THEN 'NaN'::float8 ELSE g END)::numeric(10,2) FROM generate_series(1, 100000) g"
    found = [value for (value,) in client.execute(text)]
    assert len(found) == 100_000
    assert sum(value.is_nan() for value in found) == 1
