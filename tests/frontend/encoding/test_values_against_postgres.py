"""Every type's text and binary form, checked by a real PostgreSQL in both directions.

Our binary array goes to PostgreSQL as a parameter and comes back as text, which must be our text; our text array goes
in and comes back in binary, which must be our binary.
"""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapter.plans.computed.constant_rows import array_of
from adapter.system_catalogs.functions.reg_columns import REG_VALUE
from frontend.decoding.binary import parse_binary
from frontend.encoding.encoders import column_encoder
from frontend.encoding.settings import format_settings
from planner.ir.nodes import Interval
from planner.ir.physical import array_type
from planner.types import types as t
from planner.types.ranges import range_or_multirange
from planner.types.types import NumericShape, SqlType
from planner.values import range_bounds as rb
from planner.values.range_codecs import codec_of, plain_value
from planner.values.range_sets import normalized
from planner.values.text_values import format_text
from tests.support.postgres import PostgresServer

MICROS_LIMIT = 10**15
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
NAIVE = st.datetimes(min_value=dt.datetime(1, 1, 3), max_value=dt.datetime(9999, 12, 29))  # noqa: DTZ001
NUMERIC = SqlType(t.NUMERIC, -1, NumericShape(38, 16, False))
SCALED = SqlType(t.NUMERIC, t.numeric_typmod(12, 3), NumericShape(12, 3))

INT4RANGE, NUMRANGE, TSTZRANGE, DATERANGE, INT4MULTIRANGE = (SqlType(oid) for oid in (3904, 3906, 3910, 3912, 4451))
BITS = st.text("01", max_size=20)


@st.composite
def ranges(draw: st.DrawFn, kind: SqlType, bounds: st.SearchStrategy[Any]) -> object:
    """A value of a range type."""
    of = range_or_multirange(kind.oid)
    assert of is not None
    low, high = draw(st.none() | bounds), draw(st.none() | bounds)
    if low is not None and high is not None and low > high:
        low, high = high, low
    plain = [plain_value(value, of.subtype) for value in (low, high)]
    return rb.encode_range(rb.bounds_of(of, *plain, lower_inc=draw(st.booleans()), upper_inc=draw(st.booleans())))


@st.composite
def multiranges(draw: st.DrawFn) -> object:
    """A value of int4multirange."""
    of = range_or_multirange(INT4MULTIRANGE.oid)
    assert of is not None
    codec = codec_of(of)
    parts = draw(st.lists(ranges(INT4RANGE, st.integers(-30, 30)), max_size=4))
    return rb.encode_multirange(normalized(codec, [bounds for data in parts for bounds in rb.decode(codec, data)]))  # type: ignore[arg-type]


CASES: dict[str, tuple[SqlType, st.SearchStrategy[Any]]] = {
    "bool": (SqlType(t.BOOL), st.booleans()),
    "int2": (SqlType(t.INT2), st.integers(-(2**15), 2**15 - 1)),
    "int4": (SqlType(t.INT4), st.integers(-(2**31), 2**31 - 1)),
    "int8": (SqlType(t.INT8), st.integers(-(2**63), 2**63 - 1)),
    "oid": (SqlType(t.OID), st.integers(0, 2**32 - 1)),
    "float8": (SqlType(t.FLOAT8), st.floats() | st.sampled_from([1e14, 1e15, 1e-4, 1e-5, 9.999999999999999e14, -0.0])),
    "float4": (SqlType(t.FLOAT4), st.floats(width=32) | st.sampled_from([1e6, 999999.0, 1e5, 1.5e-5])),
    "numeric(12,3)": (SCALED, st.decimals(-999999999, 999999999, places=3)),
    "numeric": (
        NUMERIC,
        st.decimals(-(10**20), 10**20, places=16) | st.sampled_from([Decimal("1e-16"), Decimal("0"), Decimal("10000")]),
    ),
    "text": (SqlType(t.TEXT), TEXT),
    "varchar": (SqlType(t.VARCHAR), TEXT),
    "name": (SqlType(t.NAME), st.text("ab_ \"{}',\\", max_size=20)),
    "bytea": (SqlType(t.BYTEA), st.binary(max_size=9)),
    "date": (SqlType(t.DATE), st.dates() | st.sampled_from(["infinity", "-infinity"])),
    "time": (SqlType(t.TIME), st.times()),
    "timestamp": (SqlType(t.TIMESTAMP), NAIVE | st.sampled_from(["infinity", "-infinity"])),
    "timestamptz": (SqlType(t.TIMESTAMPTZ), NAIVE.map(lambda value: value.replace(tzinfo=dt.UTC))),
    "interval": (
        SqlType(t.INTERVAL),
        st.builds(
            Interval,
            st.integers(-30, 30) | st.integers(-(2**31) + 1, 2**31 - 1),
            st.integers(-2, 2) | st.integers(-(2**31) + 1, 2**31 - 1),
            st.integers(-(10**11), 10**11) | st.sampled_from([0, 1, -1, 999999, 1_000_000, -60_000_000]),
        ),
    ),
    "uuid": (SqlType(t.UUID), st.uuids().map(str)),
    "jsonb": (SqlType(t.JSONB), st.sampled_from(['{"a": [1, 2], "b": null}', '"x,y"', "[]", "1.50"])),
    "bit": (SqlType(t.BIT), BITS),
    "varbit": (SqlType(t.VARBIT), BITS),
    "int4range": (INT4RANGE, ranges(INT4RANGE, st.integers(-(2**31), 2**31 - 2))),
    "numrange": (NUMRANGE, ranges(NUMRANGE, st.decimals(-(10**9), 10**9, allow_nan=False, places=3))),
    "daterange": (DATERANGE, ranges(DATERANGE, st.dates(max_value=dt.date(9999, 12, 30)))),
    "tstzrange": (TSTZRANGE, ranges(TSTZRANGE, NAIVE.map(lambda value: value.replace(tzinfo=dt.UTC)))),
    "int4multirange": (INT4MULTIRANGE, multiranges()),
    "json": (SqlType(t.JSON), st.sampled_from(['{"a":1}', "[ ]", '"\\\\"'])),
}

STYLES = [
    {"TimeZone": "UTC"},
    {"TimeZone": "America/New_York", "IntervalStyle": "iso_8601"},
    {"TimeZone": "Asia/Kolkata", "IntervalStyle": "sql_standard", "DateStyle": "SQL, DMY", "bytea_output": "escape"},
    {"TimeZone": "Australia/Lord_Howe", "IntervalStyle": "postgres_verbose", "DateStyle": "Postgres, MDY"},
    {"TimeZone": "<+03>-03", "DateStyle": "German, DMY", "extra_float_digits": "0"},
]


@pytest.fixture(scope="module")
def client(postgres: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        yield connection


def encode(kind: SqlType, array: Any, code: int, style: dict[str, str]) -> list[bytes | None]:
    encoded = column_encoder(kind, array.type, code, format_settings(style))(array)
    return encoded.as_nullable().to_pylist()  # type: ignore[no-any-return]


def ask(
    client: psycopg.Connection[Any], value: bytes, oid: int, *, binary_in: bool, binary_out: bool
) -> list[bytes | None]:
    result = client.pgconn.exec_params(
        b"select x from unnest($1) with ordinality as u(x, o) order by o",
        [value],
        [oid],
        [1 if binary_in else 0],
        1 if binary_out else 0,
    )
    assert result.status == psycopg.pq.ExecStatus.TUPLES_OK, result.error_message
    return [result.get_value(row, 0) for row in range(result.ntuples)]


def bits(values: list[bytes | None], kind: SqlType) -> list[Any]:
    """Binary values, with all NaNs alike (their payload does not survive text)."""
    if kind.oid not in (t.FLOAT4, t.FLOAT8):
        return list(values)
    layout = ">f" if kind.oid == t.FLOAT4 else ">d"
    return [
        "NaN" if v is not None and struct.unpack(layout, v)[0] != struct.unpack(layout, v)[0] else v for v in values
    ]


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style["TimeZone"])
@pytest.mark.parametrize("name", CASES)
def test_both_directions(client: psycopg.Connection[Any], name: str, style: dict[str, str]) -> None:
    kind, strategy = CASES[name]
    for setting, value in {
        "DateStyle": "ISO",
        "IntervalStyle": "postgres",
        "bytea_output": "hex",
        "extra_float_digits": "1",
        **style,
    }.items():
        client.execute(f"set {setting} = '{value}'")
    array_kind = array_type(kind)

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(st.lists(st.none() | strategy, min_size=1, max_size=30))
    def check(values: list[Any]) -> None:
        array = array_of(kind, values)
        lists = pa.ListArray.from_arrays(pa.array([0, len(array)], pa.int32()), array)
        text, binary = encode(kind, array, 0, style), encode(kind, array, 1, style)
        (text_array,), (binary_array,) = encode(array_kind, lists, 0, style), encode(array_kind, lists, 1, style)
        assert text_array is not None
        assert binary_array is not None
        assert ask(client, binary_array, array_kind.oid, binary_in=True, binary_out=False) == text
        assert ask(client, binary_array, array_kind.oid, binary_in=True, binary_out=True) == binary
        if style.get("extra_float_digits") != "0" and style.get("DateStyle") in (None, "ISO"):
            back = ask(client, text_array, array_kind.oid, binary_in=False, binary_out=True)
            assert bits(back, kind) == bits(binary, kind)
        sliced = array.slice(len(array) // 2)
        assert encode(kind, sliced, 0, style) == text[len(array) // 2 :]
        assert encode(kind, sliced, 1, style) == binary[len(array) // 2 :]

    check()


@pytest.mark.parametrize("name", CASES)
def test_binary_input_inverts_binary_output(name: str) -> None:
    kind, strategy = CASES[name]

    @settings(max_examples=50, deadline=None, derandomize=True)
    @given(strategy)
    def check(value: Any) -> None:
        (encoded,) = encode(kind, array_of(kind, [value]), 1, {})
        assert encoded is not None
        back = parse_binary(encoded, kind)
        assert array_of(kind, [back]).equals(array_of(kind, [value])) or value != value

    check()


@pytest.mark.parametrize("name", CASES)
def test_text_agrees_with_the_value_by_value_form(name: str) -> None:
    kind, strategy = CASES[name]

    @settings(max_examples=50, deadline=None, derandomize=True)
    @given(strategy)
    def check(value: Any) -> None:
        (encoded,) = encode(kind, array_of(kind, [value]), 0, {})
        assert encoded is not None
        expected = format_text(value, kind)
        if kind.oid in (t.FLOAT4, t.FLOAT8):
            assert encoded.decode() == expected or abs(value) >= 2**24
        elif kind.oid == t.NUMERIC:
            assert Decimal(encoded.decode()) == Decimal(expected)
        else:
            assert encoded.decode() == expected

    check()


def test_rare_instants(client: psycopg.Connection[Any]) -> None:
    client.execute("set DateStyle = 'ISO'; set TimeZone = 'America/New_York'; set IntervalStyle = 'postgres'")
    micros = [
        -62135596800_000000, -99999999999_000001, 253402300800_000000, 9223372036854_000000, 2540000000_000000,
        2556000000_000000, 4102444800_000001, -2717650800_000000, 0, 1710054000_000000,
    ]  # fmt: skip
    for kind, arrow in (
        (SqlType(t.TIMESTAMPTZ), pa.timestamp("us", "UTC")),
        (SqlType(t.TIMESTAMP), pa.timestamp("us")),
    ):
        array = pa.array(micros, pa.int64()).view(arrow)
        lists = pa.ListArray.from_arrays(pa.array([0, len(array)], pa.int32()), array)
        (binary_array,) = encode(array_type(kind), lists, 1, {})
        assert binary_array is not None
        text = encode(kind, array, 0, {"TimeZone": "America/New_York"})
        assert ask(client, binary_array, array_type(kind).oid, binary_in=True, binary_out=False) == text


def test_multidimensional_arrays(client: psycopg.Connection[Any]) -> None:
    array = pa.array([[[1, 2, None], [4, 5, 6]], [], None, [[7], [8]]], pa.list_(pa.list_(pa.int32())))
    kind = SqlType(1007)
    text, binary = encode(kind, array, 0, {}), encode(kind, array, 1, {})
    assert text == [b"{{1,2,NULL},{4,5,6}}", b"{}", None, b"{{7},{8}}"]
    for given_text, given_binary in zip(text, binary, strict=True):
        result = client.pgconn.exec_params(b"select $1::int4[]", [given_binary], [1007], [1], 0)
        assert result.get_value(0, 0) == given_text
        result = client.pgconn.exec_params(b"select $1::int4[]", [given_text], [1007], [0], 1)
        assert result.get_value(0, 0) == given_binary


def test_uuid_of_sixteen_bytes() -> None:
    value = uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
    array = pa.array([value.bytes, None], pa.binary(16))
    assert encode(SqlType(t.UUID), array, 0, {}) == [str(value).encode(), None]
    assert encode(SqlType(t.UUID), array, 1, {}) == [value.bytes, None]


def test_oid_aliases_carry_their_names() -> None:
    array = pa.array([{"oid": 1259, "name": "pg_class"}, None, {"oid": 23, "name": "weird name"}], REG_VALUE)
    kind = SqlType(t.REGCLASS)
    assert encode(kind, array, 0, {}) == [b"pg_class", None, b"weird name"]
    assert encode(kind, array, 1, {}) == [(1259).to_bytes(4, "big"), None, (23).to_bytes(4, "big")]
    lists = pa.ListArray.from_arrays(pa.array([0, 3], pa.int32()), array)
    assert encode(SqlType(2210), lists, 0, {}) == [b'{pg_class,NULL,"weird name"}']
