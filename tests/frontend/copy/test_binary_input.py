"""Binary COPY input: rows that are found at once, and lengths and precisions of columns, as PostgreSQL has them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import psycopg
from hypothesis import given
from hypothesis import strategies as st

from adapter.results import ColumnDescription
from frontend.copy.binary_input import CopyBinaryInput
from frontend.copy.binary_rows import rows_at_once
from frontend.copy.output import BINARY_SIGNATURE
from planner.errors import SqlError
from planner.types import types as t
from planner.types.types import column_type, numeric_typmod
from planner.values.text_values import format_text
from tests.support.postgres import PostgresServer

HEADER = BINARY_SIGNATURE + bytes(8)
END = b"\xff\xff"


def row(*fields: bytes | None) -> bytes:
    return struct.pack(">h", len(fields)) + b"".join(
        struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field for field in fields
    )


def read(data: bytes, columns: int) -> tuple[list[list[bytes | None]], int]:
    """The rows that are found at once, and the place behind them."""
    found = rows_at_once(data, 0, columns)
    pairs = zip(found.starts.tolist(), found.lengths.tolist(), strict=True)
    rows = [
        [None if size < 0 else data[at : at + size] for at, size in zip(starts, lengths, strict=True)]
        for starts, lengths in pairs
    ]
    return rows, found.end


# Fields that look like beginnings of rows, and of rows of zeros.
FIELD = st.none() | st.sampled_from([b"", b"\0\1", b"\0\2\0\0\0\0\0\0\0\0", b"\0\3" * 9, bytes(16), b"\xff\xff"])


@given(st.integers(1, 3).flatmap(lambda n: st.lists(st.tuples(*[FIELD] * n), max_size=20)), st.binary(max_size=12))
def test_rows_are_those_that_were_written(rows: list[tuple[bytes | None, ...]], rest: bytes) -> None:
    columns = len(rows[0]) if rows else 1
    data = b"".join(row(*fields) for fields in rows)
    found, end = read(data, columns)
    # A few rows may be left to who looks at one field after the other; none is wrong.
    assert found == [list(fields) for fields in rows[: len(found)]]
    assert data[end:] == b"".join(row(*fields) for fields in rows[len(found) :])
    found, end = read(data + rest, columns)
    assert (data + rest)[:end] == b"".join(row(*fields) for fields in found)


def test_rows_of_many_columns_are_found_at_once() -> None:
    fields = [struct.pack(">q", 0x000A_0000_0004_000A), None, b"\0\n" * 7, *[b"x"] * 7]
    data = row(*fields) * 5_000
    assert rows_at_once(data + END, 0, 10).count == 5_000
    assert rows_at_once(data[:-1], 0, 10).count == 4_999
    assert rows_at_once(row(*fields[:9]) + data, 0, 10).count == 0


def numeric(weight: int, sign: int, scale: int, *digits: int) -> bytes:
    return struct.pack(f">HhHH{len(digits)}H", len(digits), weight, sign, scale, *digits)


def bits(text: str) -> bytes:
    return struct.pack(">i", len(text)) + bytes([int(text.ljust(8, "0"), 2)])


VARCHAR, CHARACTER = ("varchar(3)", column_type(t.VARCHAR, 7)), ("char(4)", column_type(t.BPCHAR, 8))
NUMERIC = ("numeric(5,2)", column_type(t.NUMERIC, numeric_typmod(5, 2)))
LONG_NUMERIC = ("numeric(20,4)", column_type(t.NUMERIC, numeric_typmod(20, 4)))
TIMESTAMP = ("timestamp(0)", column_type(t.TIMESTAMP, 0))
BIT, VARBIT = ("bit(3)", column_type(t.BIT, 3)), ("varbit(3)", column_type(t.VARBIT, 3))
TIME = ("time(0)", column_type(t.TIME, 0))

CASES: list[tuple[tuple[str, Any], Sequence[bytes | None]]] = [
    (VARCHAR, [b"abc", None, "äöü".encode(), b""]),
    (VARCHAR, [b"ab", b"abc    ", b"a"]),
    (VARCHAR, [b"abc", b"abcd"]),
    (CHARACTER, [b"ab", None, "äö".encode(), b"", b"abcd"]),
    (CHARACTER, [b"ab       ", b"a"]),
    (CHARACTER, [b"abcde"]),
    (NUMERIC, [numeric(0, 0, 2, 1, 2300), numeric(0, 0x4000, 2, 999, 9900), None, numeric(0, 0, 0)]),
    (NUMERIC, [numeric(-1, 0, 2, 100), numeric(0, 0, 0, 7), numeric(-1, 0x4000, 2, 9900)]),
    (NUMERIC, [numeric(0, 0, 3, 1, 2350)]),
    (NUMERIC, [numeric(0, 0, 3, 1, 2345)]),
    (NUMERIC, [numeric(0, 0, 2, 1, 2345)]),
    (NUMERIC, [numeric(0, 0, 0, 1000)]),
    (NUMERIC, [numeric(0, 0, 3, 999, 9950)]),
    (NUMERIC, [numeric(1, 0, 0, 1)]),
    (LONG_NUMERIC, [numeric(3, 0, 4, 1234, 5678, 9012, 3456, 7890), numeric(2, 0x4000, 4, 99, 9999, 9999, 1)]),
    (LONG_NUMERIC, [numeric(2, 0, 0, 12, 0, 1), numeric(-2, 0, 8, 1)]),
    (TIMESTAMP, [struct.pack(">q", 1_500_000), struct.pack(">q", -1_500_000)]),
    (TIME, [struct.pack(">q", 1_600_000)]),
    (BIT, [bits("101"), None]),
    (BIT, [bits("1011")]),
    (VARBIT, [bits("1011")]),
    (VARBIT, [bits("10")]),
]


def ours(kind: Any, values: Sequence[bytes | None]) -> object:
    source = CopyBinaryInput("b", (ColumnDescription(name="v", type=kind),))
    source.add(HEADER + b"".join(row(value) for value in values) + END)
    try:
        found = [value for batch in source.take(final=True) for value in batch.column(0).to_pylist()]
    except SqlError as error:
        return error.sqlstate, error.message, error.where
    return [None if value is None else format_text(value, kind) for value in found]


def theirs(client: psycopg.Connection[Any], name: str, values: Sequence[bytes | None]) -> object:
    client.execute(f"create temp table b (v {name})")
    try:
        with client.cursor().copy("copy b from stdin (format binary)") as copy:
            copy.write(HEADER + b"".join(row(value) for value in values) + END)
        return [text for (text,) in client.execute("select v::text from b order by ctid")]
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary, error.diag.context
    finally:
        client.execute("drop table b")


def test_lengths_and_precisions_are_enforced_as_postgres_does(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.dsn(), autocommit=True) as client:
        for (name, kind), values in CASES:
            expected = theirs(client, name, values)
            if kind.oid == t.BPCHAR and isinstance(expected, list):
                # Its text has no padding.
                expected = [None if text is None else text.ljust(4) for text in expected]
            assert ours(kind, values) == expected, (name, values)
