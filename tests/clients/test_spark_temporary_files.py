"""`temp_file_limit` bounds what statements on Spark spill and shuffle."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.support.server import TidegateServer

ROWS = 400_000
TEXTS = 32 * ROWS
"""What the texts of the table take, which no codec makes less than half of: they are hexadecimal digits."""


@pytest.fixture(scope="module")
def connection(server: TidegateServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn(), autocommit=True) as opened:
        opened.execute("create schema spark_temporary_files")
        opened.execute("set search_path = spark_temporary_files")
        opened.execute("set engine = 'spark'")
        rows = f"generate_series(1, {ROWS}) g(i)"
        opened.execute(f"create table big as select i as a, md5(i::text) as b from {rows}")
        yield opened


@pytest.mark.parametrize(
    "statement",
    [
        "select count(*) from (select distinct b from big) s",
        "select a, b from big order by b",
        "create table sorted as select * from big order by b",
        "insert into big select distinct a, b from big",
    ],
)
def test_beyond_the_limit_a_statement_fails(connection: psycopg.Connection, statement: str) -> None:
    connection.execute(f"set temp_file_limit = '{TEXTS // 4 // 1024}kB'")
    with pytest.raises(psycopg.errors.ConfigurationLimitExceeded) as raised:
        connection.execute(statement)
    message = raised.value.diag.message_primary
    assert message == f"temporary file size exceeds temp_file_limit ({TEXTS // 4 // 1024}kB)"
    assert connection.execute("select count(*), max(a) from big").fetchone() == (ROWS, ROWS)


def test_below_the_limit_nothing_is_changed(connection: psycopg.Connection) -> None:
    connection.execute("set temp_file_limit = '1GB'")
    counted = "select count(*) from (select distinct b from big) s"
    assert connection.execute(counted).fetchone() == (ROWS,)
    connection.execute("reset temp_file_limit")
    assert connection.execute(counted).fetchone() == (ROWS,)
