"""Every client_encoding that PostgreSQL converts: text in, text out, COPY and errors are byte by byte PostgreSQL's."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeAlias

import pytest
from psycopg.pq import ExecStatus, PGconn

from planner.catalog_data.content import encodings
from planner.catalog_data.encodings import UTF8, encoded, is_convertible
from planner.errors import UntranslatableCharacter
from tests.support.postgres import PostgresServer
from tests.support.server import TidegateServer

SAMPLES = "aé€ßÜЖλאعไ漢字あア가나中文龍˘ş™\\|~¥‾½"
NAMES = sorted(name for name in encodings().values() if name != "SQL_ASCII")
CONVERTED = [name for name in NAMES if is_convertible(name)]

Answer: TypeAlias = "tuple[bytes | None, ...] | list[bytes | None]"


class Client:
    """A connection whose statements and answers are bytes."""

    def __init__(self, dsn: str) -> None:
        self.pq = PGconn.connect(dsn.encode())

    def ask(self, statement: bytes, *params: bytes, format_code: int = 0) -> Answer:
        if params:
            codes = [format_code] * len(params)
            result = self.pq.exec_params(statement, list(params), [25] * len(params), codes, format_code)
        else:
            result = self.pq.exec_(statement)
        if result.status == ExecStatus.FATAL_ERROR:
            return result.error_field(ord("C")), result.error_field(ord("M")), result.error_field(ord("W"))
        if result.status == ExecStatus.COPY_OUT:
            return self.copied()
        names = [result.fname(column) for column in range(result.nfields)]
        rows = [result.get_value(row, column) for row in range(result.ntuples) for column in range(result.nfields)]
        return [result.command_status, *names, *rows]

    def copied(self) -> list[bytes | None]:
        found: list[bytes | None] = []
        while True:
            size, data = self.pq.get_copy_data(0)
            if size < 0:
                break
            found.append(bytes(data))
        result = self.pq.get_result()
        assert result is not None
        if result.status == ExecStatus.FATAL_ERROR:
            return [*found, result.error_field(ord("C")), result.error_field(ord("M"))]
        self.pq.get_result()
        return found

    def copy_in(self, statement: bytes, *pieces: bytes) -> Answer:
        result = self.pq.exec_(statement)
        assert result.status == ExecStatus.COPY_IN, result.error_message
        for piece in pieces:
            self.pq.put_copy_data(piece)
        self.pq.put_copy_end()
        ended = self.pq.get_result()
        assert ended is not None
        self.pq.get_result()
        if ended.status == ExecStatus.FATAL_ERROR:
            return ended.error_field(ord("C")), ended.error_field(ord("M")), ended.error_field(ord("W"))
        return [ended.command_status]


@pytest.fixture(scope="module")
def both(server: TidegateServer, postgres: PostgresServer) -> Iterator[tuple[Client, Client]]:
    clients = Client(server.dsn()), Client(postgres.dsn())
    for client in clients:
        for statement in (b"DROP SCHEMA IF EXISTS encodings CASCADE", b"CREATE SCHEMA encodings",
                          b"SET search_path = encodings", b"CREATE TABLE t (n int, c text)"):  # fmt: skip
            client.ask(statement)
    yield clients
    for client in clients:
        client.ask(b"RESET client_encoding")
        client.ask(b"DROP SCHEMA encodings CASCADE")
        client.pq.finish()


def same(both: tuple[Client, Client], statement: bytes, *params: bytes, format_code: int = 0) -> Answer:
    ours, theirs = (client.ask(statement, *params, format_code=format_code) for client in both)
    assert ours == theirs
    return ours


def representable(name: str) -> str:
    kept = []
    for character in SAMPLES:
        with suppress(UntranslatableCharacter):
            encoded(character, name)
            kept.append(character)
    return "".join(kept)


@pytest.mark.parametrize("name", [*NAMES, "latin1", "iso-8859-1", "'utf-8'", "unicode", "mskanji", "nope", "win", ""])
def test_settings(both: tuple[Client, Client], name: str) -> None:
    quoted = name.strip("'")
    same(both, f"SET client_encoding = '{quoted}'".encode())
    same(both, b"SHOW client_encoding")
    same(both, b"SELECT pg_client_encoding()")
    for client in both:
        client.ask(b"RESET client_encoding")


@pytest.mark.parametrize("name", CONVERTED)
def test_text_in_and_out(both: tuple[Client, Client], name: str) -> None:
    text = encoded(representable(name), name)
    try:
        same(both, f"SET client_encoding = '{name}'".encode())
        same(both, b"SELECT $1 AS c, array[$1], row($1)::text", text)
        same(both, b"SELECT $1 AS c, array[$1]", text, format_code=1)
        if name != UTF8:
            same(both, b"SELECT U&'\\+01F600' AS c")  # An emoji: only the encodings of all of Unicode have it.
        plain = encoded("".join(one for one in representable(name) if one not in "\\|~"), name)
        if b"\\" not in plain:
            same(both, b"SELECT '" + plain + b"' AS \"" + plain + b'"')
            same(both, b'SELECT "' + plain + b'"')
    finally:
        for client in both:
            client.ask(b"RESET client_encoding")


@pytest.mark.parametrize("name", CONVERTED)
def test_copy(both: tuple[Client, Client], name: str) -> None:
    text = encoded("".join(one for one in representable(name) if one not in "\\|~"), name)
    chosen = random.Random(name)
    data = b"".join(b"%d\t%s\n" % (number, text) for number in range(20))
    places = sorted(chosen.sample(range(1, len(data)), 5))
    pieces = [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]
    bad = [b"1\tx\n2\t", bytes(chosen.choices(range(0x80, 0x100), k=3)), b"\n3\tx\n"]
    option = f" (ENCODING '{name}')".encode()
    answers = []
    for client in both:
        found = [client.ask(b"TRUNCATE t"), client.copy_in(b"COPY t FROM STDIN" + option, *pieces)]
        found.append(client.ask(b"SELECT count(*), min(c), max(c) FROM t"))
        found.append(client.ask(b"COPY (SELECT * FROM t ORDER BY n) TO STDOUT" + option))
        found.append(client.ask(b"COPY t TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE *, ENCODING '%s')" % name.encode()))
        found.append(client.ask(b"COPY (SELECT c FROM t) TO STDOUT (FORMAT binary, ENCODING '%s')" % name.encode()))
        found.append(client.copy_in(b"COPY t FROM STDIN" + option, *bad))
        answers.append(found)
    assert answers[0] == answers[1]


@pytest.mark.parametrize("name", CONVERTED)
def test_bytes_that_are_no_text(both: tuple[Client, Client], name: str) -> None:
    chosen = random.Random(name)
    try:
        same(both, f"SET client_encoding = '{name}'".encode())
        for _ in range(60):
            data = b"x" + bytes(chosen.choices(range(0x80, 0x100), k=chosen.randint(1, 4))) + b"y"
            same(both, b"SELECT $1", data)
    finally:
        for client in both:
            client.ask(b"RESET client_encoding")


def test_the_encoding_of_a_new_connection(server: TidegateServer, postgres: PostgresServer) -> None:
    for dsn in (server.dsn(), postgres.dsn()):
        opened = PGconn.connect(f"{dsn} client_encoding=latin1".encode())
        assert opened.parameter_status(b"client_encoding") == b"LATIN1"
        assert opened.exec_(b"SELECT '\xe9', length('\xe9')").get_value(0, 0) == b"\xe9"
        opened.exec_(b'LISTEN "\xe9"')
        opened.exec_(b"NOTIFY \"\xe9\", '\xe8'")
        notice = opened.notifies()
        assert notice is not None
        assert (notice.relname, notice.extra) == (b"\xe9", b"\xe8")
        opened.finish()


@pytest.mark.parametrize("name", ["nope", "MULE_INTERNAL"])
def test_names_that_copy_does_not_take(both: tuple[Client, Client], name: str) -> None:
    ours, theirs = (client.ask(f"COPY (SELECT 1) TO STDOUT (ENCODING '{name}')".encode()) for client in both)
    # PostgreSQL may have begun to copy by then.
    assert [part for part in ours if part][:2] == [part for part in theirs if part][-2:][:2]
