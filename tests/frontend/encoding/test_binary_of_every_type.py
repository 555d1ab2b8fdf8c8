"""The binary form of every type, of rows and of what clients send: byte by byte what a real PostgreSQL sends and takes.

The oids of the types of users are made alike.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import pytest
from psycopg.pq import ExecStatus, PGconn

from tests.support.postgres import PostgresServer
from tests.support.server import TidegateServer

SETUP = (
    "CREATE SCHEMA {schema}",
    "SET search_path = {schema}",
    "CREATE TYPE mood AS ENUM ('a', 'b')",
    "CREATE TYPE pair AS (x int, y text)",
    "CREATE EXTENSION hstore",
    "CREATE EXTENSION citext",
    "CREATE DOMAIN positive AS int CHECK (value > 0)",
    "CREATE TABLE t (a int, b numeric(10,2), c text, d date)",
    "INSERT INTO t VALUES (1, 2.50, 'x', '2020-01-01'), (NULL, NULL, NULL, NULL)",
)

VALUES = r"""
true | 1::int2 | 1::int4 | 1::int8 | 1.5::float4 | 1.5::float8 | 'nan'::float8
1.50::numeric | 12345678901234567890.123::numeric | 'nan'::numeric | 'infinity'::numeric | '-infinity'::numeric
0.000::numeric(10,3) | 1e-20::numeric | 12.34::money
'a'::"char" | ''::"char" | '\303'::"char" | 'abc'::name
'abc'::text | 'abc'::varchar | 'abc'::char(5) | '\x00ff'::bytea | 'x'::refcursor | 'x'
'{"a":1}'::json | '{"a":[1,2]}'::jsonb | '$.a'::jsonpath
date '2020-01-01' | date 'infinity' | date '0001-01-01' | time '10:11:12.5' | timetz '10:11:12.5+02'
timestamp '2020-01-01 10:00:00.123456' | timestamptz '2020-01-01 10:00+02' | timestamp '-infinity'
interval '1 year 2 mons 3 days 04:05:06.7'
uuid 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11' | macaddr '08:00:2b:01:02:03' | macaddr8 '08:00:2b:01:02:03:04:05'
inet '10.0.0.1/8' | inet '::1' | inet '10.1.2.3' | cidr '10.0.0.0/8' | cidr 'fe80::/10'
point '(1.5,-2)' | lseg '[(0,0),(1,2)]' | box '(2,2),(0,0)' | line '{1,-1,0.5}' | circle '<(1,2),3>'
path '[(0,0),(1,1),(2,0)]' | path '((0,0),(1,1))' | polygon '((0,0),(1,1),(2,0))' | point '(NaN,-Infinity)'
pg_lsn '16/B374D848' | B'101'::bit(3) | B'10101010101'::varbit
'10:20:10,15'::pg_snapshot | '10:20:'::txid_snapshot | '5'::xid8 | '5'::xid | '5'::cid | '(1,2)'::tid | '5'::oid
'pg_class'::regclass | 'int4'::regtype | 'now'::regproc | 'abs(int)'::regprocedure | '+(int,int)'::regoperator
'public'::regnamespace | 'simple'::regconfig | 'simple'::regdictionary | '"C"'::regcollation
'1 2 3'::int2vector | '1 2 3'::oidvector | 'a'::mood | 5::positive | row(1, 'a')::pair
int4range(1,5) | int8range(1,null) | numrange(1.5,2.5) | daterange('2020-01-01','2020-02-01')
tsrange('2020-01-01','2020-02-01') | tstzrange('2020-01-01','2020-02-01') | 'empty'::int4range
'{[1,3),[5,9)}'::int4multirange | '{[1.0,3.0)}'::nummultirange
'postgres=r/postgres'::aclitem
'a=>1, "b ä"=>NULL, ccc=>""'::hstore | ''::hstore | 'Ab'::citext
"""
ROWS = """
row(1,'a'::text,2.5) | row() | row(row(1,2),'x'::varchar(5)) | row(array[1,2],'{"a":1}'::jsonb)
row(date '2020-01-01', interval '1 day', true, 'a'::mood) | row(5::positive) | row(row(1,'a')::pair)
row(1::int2,2::int8,1.5::float4,'abc'::char(5)) | row(inet '1.2.3.4','10:00+01'::timetz) | row(int4range(1,3))
row(1.10, 1e3::numeric) | row(null::int, null::text) | array[row(1,'a'::text)] | coalesce(row(1,2),row(3,4))
(select row(a,c) from t where a=1) | json_each('{"a":1}') | aclexplode('{postgres=r/postgres}'::aclitem[])
"""
QUERIES = (
    "SELECT row(t.*) FROM t ORDER BY a",
    "SELECT row(a,b,c) FROM t ORDER BY a",
    "SELECT NULL::record",
    "SELECT coalesce(NULL::record, row(1, 'a'::text)), row(NULL::record), NULL::record = row(1, 2)",
    "SELECT q FROM (SELECT 1 AS x, 'q'::text AS y) q",
    "SELECT q FROM (VALUES (1, 'a'), (2, 'b')) q(x, y)",
    "SELECT array_agg(q) FROM (VALUES (1, 'a'), (2, 'b')) q(x, y)",
    "SELECT CASE WHEN a = 1 THEN row(a, c) END FROM t ORDER BY a",
    "SELECT row(a, b) FROM t UNION ALL SELECT row(3, 4.5)",
    "WITH q AS (SELECT row(a, d) r FROM t ORDER BY a) SELECT r FROM q",
    "SELECT lag(row(a, b)) OVER (ORDER BY a) FROM t",
    "SELECT information_schema._pg_expandarray(array[5, 6])",
    "SELECT relacl FROM pg_class WHERE relname = 'pg_class'",
)
STYLES = ("ISO, DMY", "SQL, DMY", "German", "Postgres, MDY")

Answer: TypeAlias = "list[list[tuple[int, bytes | None]]] | tuple[bytes | None, bytes | None]"


class Client:
    """A connection with both formats."""

    def __init__(self, dsn: str, schema: str) -> None:
        self.pq = PGconn.connect(dsn.encode())
        self.run(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        for statement in SETUP:
            self.run(statement.format(schema=schema))
        row = self.ask("SELECT unnest('{mood,pair,positive,hstore,citext}'::regtype[])::oid")
        assert isinstance(row, list)
        self.own = {value: b"<%d>" % place for place, ((_, value),) in enumerate(row) if value is not None}

    def run(self, statement: str) -> None:
        result = self.pq.exec_(statement.encode())
        assert result.status in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK), result.error_message

    def ask(
        self,
        statement: str,
        params: Sequence[bytes | None] = (),
        oids: Sequence[int] = (),
        *,
        param_format: int = 1,
        format_code: int = 1,
    ) -> Answer:
        formats = [param_format] * len(params)
        result = self.pq.exec_params(statement.encode(), list(params), list(oids), formats, format_code)
        if result.status != ExecStatus.TUPLES_OK:
            return result.error_field(ord("C")), result.error_field(ord("M"))
        return [
            [(result.ftype(column), result.get_value(row, column)) for column in range(result.nfields)]
            for row in range(result.ntuples)
        ]

    def alike(self, answer: Answer) -> object:
        """The answer without oids of one's own types."""
        if isinstance(answer, tuple):
            return answer
        pattern = re.compile(b"|".join(map(re.escape, self.own)))

        def masked(value: bytes | None) -> bytes | None:
            return value and pattern.sub(lambda found: self.own[found[0]], value)

        return [[(oid if oid < 16384 else "user", masked(value)) for oid, value in row] for row in answer]


@pytest.fixture(scope="module")
def both(server: TidegateServer, postgres: PostgresServer) -> Iterator[tuple[Client, Client]]:
    clients = Client(server.dsn(), "binaries"), Client(postgres.dsn(), "binaries")
    yield clients
    for client in clients:
        client.run("DROP SCHEMA binaries CASCADE")
        client.pq.finish()


def values_of(text: str) -> list[str]:
    return [value.strip() for line in text.strip().splitlines() for value in line.split(" | ")]


@pytest.mark.parametrize("value", values_of(VALUES))
def test_values_alone_in_arrays_and_back(both: tuple[Client, Client], value: str) -> None:
    ours, theirs = both
    answer = theirs.ask(f"SELECT {value}")
    assert ours.alike(ours.ask(f"SELECT {value}")) == theirs.alike(answer)
    if isinstance(answer, tuple):
        return
    (((oid, sent),),) = answer
    if "vector" not in value:
        # Of arrays the element's oid is a part: an array over a type of a user is told by its text.
        code = 0 if oid >= 16384 else 1
        in_array = f"SELECT array[{value}, NULL]"
        assert ours.alike(ours.ask(in_array, format_code=code)) == theirs.alike(theirs.ask(in_array, format_code=code))
    if oid < 16384:
        back = "SELECT $1, $1::text"
        assert ours.ask(back, [sent], [oid]) == theirs.ask(back, [sent], [oid])


@pytest.mark.parametrize("statement", [*(f"SELECT {value}" for value in values_of(ROWS)), *QUERIES])
def test_rows(both: tuple[Client, Client], statement: str) -> None:
    ours, theirs = both
    assert ours.alike(ours.ask(statement)) == theirs.alike(theirs.ask(statement))


@pytest.mark.parametrize("style", STYLES)
def test_rows_do_not_depend_on_how_texts_look(both: tuple[Client, Client], style: str) -> None:
    statement = (
        "SELECT row(date '2020-02-03', timestamp '2020-02-03 04:05:06.7', timestamptz '2020-02-03 04:05:06+03',"
        " interval '-1 year 2 days 03:04:05', array[date '2020-03-04'], tstzrange('2020-01-02', '2020-02-03'),"
        " '2020-02-04' <@ daterange('2020-01-02', '2020-02-03'))"
    )
    answers = []
    for client in both:
        for setting in (f"datestyle = '{style}'", "timezone = 'Europe/Berlin'", "intervalstyle = sql_standard"):
            client.run(f"SET {setting}")
        answers.append((client.ask(statement), client.ask(statement, format_code=0)))
        for name in ("datestyle", "timezone", "intervalstyle"):
            client.run(f"RESET {name}")
    assert answers[0] == answers[1]


NETWORKS = (
    b"", b"\x02", b"\x05\x09\x00\x04\n\x00\x00\x01", b"\x02\x29\x00\x04\n\x00\x00\x01",
    b"\x02\x09\x00\x05\n\x00\x00\x01", b"\x02\x09\x00\x04\n\x00\x00", b"\x02\x09\x00\x04\n\x00\x00\x01\x01",
    b"\x02\x09\x01\x04\n\x00\x00\x01", b"\x03\x80\x01\x10" + bytes(15) + b"\x01",
)  # fmt: skip


@pytest.mark.parametrize("sent", NETWORKS)
def test_networks_that_clients_send(both: tuple[Client, Client], sent: bytes) -> None:
    ours, theirs = both
    for oid in (869, 650):
        assert ours.ask("SELECT $1", [sent], [oid]) == theirs.ask("SELECT $1", [sent], [oid])


@pytest.mark.parametrize(("digits", "weight", "scale"), [(1, 1200, 0), (1500, 1499, 0), (1, -1300, 6000), (0, 0, 0)])
def test_long_numerics_that_clients_send(both: tuple[Client, Client], digits: int, weight: int, scale: int) -> None:
    sent = struct.pack(f">HhHH{digits}H", digits, weight, 0x4000, scale, *[12] * digits)
    ours, theirs = both
    assert ours.ask("SELECT $1, $1::text", [sent], [1700]) == theirs.ask("SELECT $1, $1::text", [sent], [1700])


@pytest.mark.parametrize(
    "sent", [b'{"b": 1, "a":2, "b": 3}', b'"\\u00e0\\u20ac"', b" 1.50 ", b"{", b'"\\u0000"', b"", b"\xff"]
)
def test_json_that_clients_send(both: tuple[Client, Client], sent: bytes) -> None:
    ours, theirs = both
    for oid, version in ((114, b""), (3802, b"\1")):
        args = [version + sent], [oid]
        assert ours.ask("SELECT $1, $1::text", *args) == theirs.ask("SELECT $1, $1::text", *args)


# "char", tid, xid8, macaddr, pg_lsn, int2vector, oidvector, record, aclitem
@pytest.mark.parametrize("oid", [18, 27, 5069, 829, 3220, 22, 30, 2249, 1033])
@pytest.mark.parametrize("sent", [b"", bytes(3), bytes(30), b"\1" * 12])
def test_nonsense_that_clients_send(both: tuple[Client, Client], oid: int, sent: bytes) -> None:
    ours, theirs = both
    assert ours.ask("SELECT $1", [sent], [oid]) == theirs.ask("SELECT $1", [sent], [oid])


@pytest.mark.parametrize("statement", ["SELECT abs($1, $2)", "SELECT * FROM abs($1, $2) AS result"])
@pytest.mark.parametrize("given", [b"", None])
def test_parameters_of_type_void_are_left_out_of_calls(
    both: tuple[Client, Client], statement: str, given: bytes | None
) -> None:
    answers = [client.ask(statement, [b"-5", given], [23, 2278], param_format=0) for client in both]
    assert answers[0] == answers[1] == [[(23, b"\0\0\0\5")]]


@pytest.mark.parametrize("code", [2, -1])
def test_formats_that_do_not_exist_fail_where_rows_are_sent(both: tuple[Client, Client], code: int) -> None:
    for client in both:
        assert client.ask("SELECT 1, 2", format_code=code) == (b"22023", b"unsupported format code: %d" % code)
        assert client.ask("SELECT 1 WHERE false", format_code=code) == []
