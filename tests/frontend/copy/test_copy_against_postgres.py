"""COPY in and out, checked by a real PostgreSQL: same rows, same bytes, same errors in the same place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapter.results import ColumnDescription, CopyFormat
from frontend.copy.output import CopyOutput
from frontend.copy.text_input import CopyInput
from frontend.encoding.encoders import column_encoder
from frontend.encoding.settings import FormatSettings
from planner.errors import SqlError
from planner.types import types as t
from planner.types.types import NumericShape, SqlType
from tests.support.postgres import PostgresServer

INT4, TEXT = SqlType(t.INT4), SqlType(t.TEXT)
LAYOUTS: dict[str, list[tuple[str, str, SqlType]]] = {
    "one": [("a", "text", TEXT)],
    "two": [("a", "int4", INT4), ("b", "text", TEXT)],
    "three": [("a", "text", TEXT), ("b", "varchar(3)", SqlType(t.VARCHAR, 7)), ("c", "text", TEXT)],
}
FORMATS = {
    "text": CopyFormat(),
    "text with bars": CopyFormat(delimiter="|", null="x"),
    "text with header": CopyFormat(header=True),
    "csv": CopyFormat(format="csv", delimiter=",", null=""),
    "csv with escape": CopyFormat(format="csv", delimiter=";", null="NA", escape="\\"),
    "csv with apostrophes": CopyFormat(format="csv", delimiter=",", null="x", quote="'", escape="'"),
    "csv with header match": CopyFormat(format="csv", delimiter=",", null="", header=True, header_match=True),
    "csv forced": CopyFormat(format="csv", delimiter=",", null="", force_null=(0,), force_not_null=(0,)),
}
TOKENS = st.sampled_from(
    [b"1", b"22", b"ab", b"x", b"NA", b" ", "é".encode(), b"\xff", b"\t", b",", b";", b"|", b'"', b'""', b"'", b"\\",
     b"\\N", b"\\t", b"\\x41", b"\\101", b"\\.", b"\n", b"\n", b"\n", b"\r", b"\r\n", b"a,b\n", b"1\tx\n", b"1,x\n"]
)  # fmt: skip


def sql_options(format: CopyFormat, columns: list[tuple[str, str, SqlType]]) -> str:
    def quoted(text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    options = [f"format {format.format}", f"delimiter {quoted(format.delimiter)}", f"null {quoted(format.null)}"]
    if format.header_match:
        options.append("header match")
    elif format.header:
        options.append("header")
    if format.format == "csv":
        options += [f"quote {quoted(format.quote)}", f"escape {quoted(format.escape)}"]
        for name in ("force_null", "force_not_null", "force_quote"):
            names = ", ".join(columns[index][0] for index in getattr(format, name))
            if names:
                options.append(f"{name} ({names})")
    return ", ".join(options)


@pytest.fixture(scope="module")
def client(postgres: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        for name, columns in LAYOUTS.items():
            connection.execute(f"create temp table {name} ({', '.join(f'{c} {kind}' for c, kind, _ in columns)})")
        yield connection


Outcome = tuple[str, Any]


def by_postgres(client: psycopg.Connection[Any], table: str, format: CopyFormat, data: bytes) -> Outcome:
    columns = LAYOUTS[table]
    client.execute(f"truncate {table}")
    try:
        with client.cursor().copy(f"copy {table} from stdin ({sql_options(format, columns)})") as copy:
            copy.write(data)
    except psycopg.Error as error:
        return "error", (error.sqlstate, error.diag.message_primary, error.diag.context, error.diag.message_hint)
    names = ", ".join(f"{name}::text" for name, _, _ in columns)
    return "rows", [list(row) for row in client.execute(f"select {names} from {table} order by ctid")]


def by_us(table: str, format: CopyFormat, data: bytes, cuts: list[int], block_bytes: int) -> Outcome:
    columns = LAYOUTS[table]
    described = tuple(ColumnDescription(name=name, type=kind) for name, _, kind in columns)
    source = CopyInput(table, described, format, {}, block_bytes=block_bytes)
    batches = []
    try:
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            source.add(data[start:end])
            if source.block_ready:
                batches += source.take()
        batches += source.take(final=True)
    except SqlError as error:
        return "error", (error.sqlstate, error.message, error.where, error.hint)
    rows: list[list[str | None]] = []
    for batch in batches:
        texts = [
            column_encoder(kind, column.type, 0, FormatSettings())(column).as_nullable().to_pylist()
            for (_, _, kind), column in zip(columns, batch.columns, strict=True)
        ]
        rows += [[None if value is None else value.decode() for value in row] for row in zip(*texts, strict=True)]
    return "rows", rows


@pytest.mark.parametrize("table", LAYOUTS)
@pytest.mark.parametrize("name", FORMATS)
def test_copy_in(client: psycopg.Connection[Any], table: str, name: str) -> None:
    format = FORMATS[name]

    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.lists(TOKENS, max_size=14).map(b"".join), st.data())
    def check(data: bytes, draw: st.DataObject) -> None:
        cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=4)))
        expected = by_postgres(client, table, format, data)
        assert by_us(table, format, data, cuts, 1) == expected
        assert by_us(table, format, data, [], 1 << 20) == expected

    check()


@pytest.mark.parametrize("name", ["text", "csv", "csv with escape"])
def test_plain_blocks_of_many_rows(client: psycopg.Connection[Any], name: str) -> None:
    format = FORMATS[name]
    delimiter = format.delimiter
    fields = {
        "text": ["1", "\\N", "a b", "", "tab\\t", "é"],
        "csv": ["1", '"x,y"', '"a ""q"" b"', '""', "", '"two\nlines"'],
        "csv with escape": ["1", "NA", "plain", "", "é", "'"],
    }[name]
    lines = [delimiter.join((str(i), fields[i % 6])) for i in range(3000)]
    data = ("\n".join(lines) + "\n").encode()
    cuts = list(range(700, len(data), 700))
    for block_bytes in (1, 5_000, 1 << 20):
        assert by_us("two", format, data, cuts, block_bytes) == by_postgres(client, "two", format, data)


@pytest.mark.parametrize(
    "data",
    [
        b"1\tx\r\n2\ty\r\n3\t\\N\r\n",
        b"1\tx\n2\ty",
        b"1\tx\n\\.\n3\ty\n",
        b"1\tx\n2\ty\\.\n3\n",
        b"1\tx\nbad\ty\n",
        b"1\tx\n2\n",
        b"1\tx\n2\ty\tz\n",
        b"1\tx\n99999999999\ty\n",
        b"1\t" + b"long" * 50 + b"\nbad\t" + b"x" * 300 + b"\n",
        b"1\tx\n" + b"y" * 300 + b"\tx\n",
        b"1\ta\\\nb\n",
        b"1\ta\\\tb\n",
        b" 7 \tx\n",
        b"0x1F\tx\n",
        b"+5\tx\n",
        b"1\tx\n2\t\xe2\x28\n",
        b"1\tx\n2\t\\xff\n",
        b"\n",
        b"",
    ],
)
def test_text_lines(client: psycopg.Connection[Any], data: bytes) -> None:
    expected = by_postgres(client, "two", FORMATS["text"], data)
    for block_bytes in (1, 1 << 20):
        assert by_us("two", FORMATS["text"], data, [], block_bytes) == expected


# ---------------------------------------------------------------- out

STRINGS = st.text(st.sampled_from("ab,;|\t\n\r\"'\\\b\f\v. éNA"), max_size=6) | st.sampled_from(
    ["\\.", "", "NA", "\\N"]
)
OUTPUTS = {
    "text": CopyFormat(),
    "text with header": CopyFormat(header=True, delimiter="|", null="NA"),
    "csv": CopyFormat(format="csv", delimiter=",", null=""),
    "csv with everything": CopyFormat(
        format="csv", delimiter=";", null="NA", quote="'", escape="\\", header=True, force_quote=(0,)
    ),
}


@pytest.mark.parametrize("table", ["one", "two"])
@pytest.mark.parametrize("name", OUTPUTS)
def test_copy_out(client: psycopg.Connection[Any], table: str, name: str) -> None:
    format = OUTPUTS[name]
    columns = LAYOUTS[table]
    described = tuple(ColumnDescription(name=column, type=kind) for column, _, kind in columns)

    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.tuples(st.none() | st.integers(-9, 9), st.none() | STRINGS), min_size=1, max_size=8))
    def check(values: list[tuple[int | None, str | None]]) -> None:
        texts = pa.array([text for _, text in values], pa.string())
        arrays = [texts] if table == "one" else [pa.array([number for number, _ in values], pa.int32()), texts]
        batch = pa.record_batch(arrays, names=[f"c{i}" for i in range(len(arrays))])
        client.execute(f"truncate {table}")
        binary = CopyOutput(described, CopyFormat(format="binary"), FormatSettings())
        with client.cursor().copy(f"copy {table} from stdin (format binary)") as copy:
            for piece in messages(bytes(binary.rows(batch, True)) + binary.finish(any_rows=True)):
                copy.write(piece)
        with client.cursor().copy(f"copy {table} to stdout ({sql_options(format, columns)})") as copy:
            expected = [bytes(piece) for piece in copy]
        output = CopyOutput(described, format, FormatSettings())
        assert messages(output.start() + bytes(output.rows(batch, True))) == expected

    check()


def messages(stream: bytes) -> list[bytes]:
    """The bodies of CopyData messages."""
    found = []
    while stream:
        assert stream[:1] == b"d"
        length = int.from_bytes(stream[1:5], "big")
        found.append(stream[5 : 1 + length])
        stream = stream[1 + length :]
    return found


def test_typed_columns(client: psycopg.Connection[Any]) -> None:
    """Every type with a fast path, in plain and in odd spellings."""
    kinds = [
        ("int2", SqlType(t.INT2), ["1", "-7", " 3", "+4", "007"]),
        ("int8", SqlType(t.INT8), ["9223372036854775807", "-0", "12 "]),
        ("float8", SqlType(t.FLOAT8), ["1.5", "-2e10", "0", "1e-300", "NaN", "Infinity", " 7", "-0"]),
        ("float4", SqlType(t.FLOAT4), ["1.1", "3e38", "16777217"]),
        ("numeric(8,2)", SqlType(t.NUMERIC, t.numeric_typmod(8, 2), NumericShape(8, 2)), ["1", "2.345", "-0.005"]),
        ("bpchar(4)", SqlType(t.BPCHAR, 8), ["ab", "é", "abcd", "abc     "]),
        ("varchar(3)", SqlType(t.VARCHAR, 7), ["abc", "ab ", "abc   "]),
        ("date", SqlType(t.DATE), ["2024-02-29", "20240101", "Jan 5 2020", "infinity"]),
        ("time", SqlType(t.TIME), ["12:30", "23:59:59.999999"]),
        ("timestamp", SqlType(t.TIMESTAMP), ["2024-01-01 00:00:00", "2024-01-01 00:00:00.5", "2024-01-01", "epoch"]),
        ("timestamptz", SqlType(t.TIMESTAMPTZ), ["2024-01-01 00:00:00.25+00", "2024-01-01 02:00+02"]),
        ("bool", SqlType(t.BOOL), ["t", "false", "yes", "0"]),
        ("uuid", SqlType(t.UUID), ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "{a0eebc999c0b4ef8bb6d6bb9bd380a11}"]),
        ("bytea", SqlType(t.BYTEA), ["\\\\x00ff", "abc"]),
        ("interval", SqlType(t.INTERVAL), ["1 day 2 hours", "P1Y"]),
        ("int4[]", SqlType(1007), ["{1,NULL,3}", "{}"]),
        ("jsonb", SqlType(t.JSONB), ['{"b":1, "a":2}']),
    ]  # fmt: skip
    for declared, kind, texts in kinds:
        client.execute(f"create temp table typed (v {declared})")
        for lines in ([*texts, "\\N"], [texts[0]]):
            data = ("\n".join(lines) + "\n").encode()
            client.execute("truncate typed")
            with client.cursor().copy("copy typed from stdin") as copy:
                copy.write(data)
            expected = [row[0] for row in client.execute("select v::text from typed order by ctid")]
            source = CopyInput("typed", (ColumnDescription(name="v", type=kind),), CopyFormat(), {})
            source.add(data)
            (column,) = pa.Table.from_batches(source.take(final=True)).combine_chunks().columns
            array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            encoded = column_encoder(kind, array.type, 0, FormatSettings())(array).as_nullable().to_pylist()
            found = [None if value is None else value.decode() for value in encoded]
            if kind.oid == t.BOOL:
                found = [None if value is None else {"t": "true", "f": "false"}.get(value, value) for value in found]
            if kind.oid == t.BOOL:
                found = [None if value is None else {"t": "true", "f": "false"}.get(value, value) for value in found]
            if kind.oid == t.BPCHAR:
                found = [None if value is None else value.rstrip(" ") for value in found]
            assert found == expected, declared
        client.execute("drop table typed")
