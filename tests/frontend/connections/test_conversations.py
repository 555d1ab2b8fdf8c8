"""Whole conversations, held with Tidegate and with a real PostgreSQL: the replies must be the same, message by message.

Object identifiers are made alike; the file, line and routine of errors are left out.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pytest

from tests.frontend import raw_client as raw
from tests.frontend.raw_client import (
    COPY_DONE,
    FLUSH,
    SYNC,
    RawClient,
    Reply,
    bind,
    close,
    copy_data,
    copy_fail,
    describe,
    execute,
    parse,
    query,
)
from tests.support.postgres import PostgresServer
from tests.support.server import TidegateServer

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
ROW = b"\0\2\0\0\0\4\0\0\0\7\0\0\0\1z\xff\xff"

Step = tuple[list[bytes], int]
"""Messages to send at once, and how many ReadyForQuery to await."""


def q(text: str) -> Step:
    return [query(text)], 1


def ext(*messages: bytes) -> Step:
    return [*messages, SYNC], 1


def call(oid: int, values: Sequence[bytes | None], formats: Sequence[int] = (), result_format: int = 0) -> Step:
    return [raw.function_call(oid, values, formats, result_format)], 1


CONVERSATIONS: dict[str, list[Step]] = {
    "empty queries": [q(""), q(" ; "), q(";;select 1;;"), q("-- only a comment")],
    "an error rolls the whole string back": [
        q("insert into conv values (1); select nope; insert into conv values (2)"),
        q("select count(*) from conv"),
    ],
    "what a block that fails has set": [
        *map(q, ("begin", "set application_name = 'a'", "savepoint s", "set application_name = 'b'", "select nope")),
        *map(q, ("rollback to s", "set local datestyle = 'German'", "select nope", "rollback to s")),
        call(952, [b"4000000000", b"262144"]),
        q("rollback"),
    ],
    "commit inside a string": [
        q("insert into conv values (1); commit; insert into conv values (2); select nope"),
        q("select i from conv"),
    ],
    "begin inside a string": [
        q("insert into conv values (1); begin; insert into conv values (2); select nope; select 9"),
        q("select 1"),
        q("commit"),
        q("select count(*) from conv"),
    ],
    "the string is parsed before anything runs": [q("insert into conv values (7); selct 1"), q("select i from conv")],
    "positions count characters of the whole string": [q("select 'é', 1; select nope from conv")],
    "misplaced transaction commands": [
        q("savepoint a"), q("select 1; savepoint a"), q("rollback"), q("commit"), q("begin; begin"), q("rollback"),
    ],
    "a failed block": [
        q("begin"), q("select nope"), q("select 1"), q("savepoint x"), q("show all"), q("selct"), q("commit"),
    ],
    "savepoints": [
        q("begin; savepoint s; select nope"), q("rollback to s"), q("select 1"), q("release s"), q("release s"),
        q("rollback"),
    ],
    "chained transactions": [
        q("begin isolation level repeatable read"), q("commit and chain"), q("show transaction_isolation"),
        q("rollback and chain"), q("rollback"), q("start transaction read only; insert into conv values (1)"), q("end"),
    ],
    "settings are reported once": [
        q("set application_name = 'a'; set application_name = 'b'; set datestyle = 'German'; select 1"),
        q("begin; set application_name = 'tx'; set timezone = 'Asia/Tokyo'"),
        q("rollback"),
        q("begin; set local timezone = 'Asia/Tokyo'; select 1"),
        q("commit"),
        q("reset application_name; reset datestyle"),
        q("select set_config('application_name', 'viafn', false)"),
        q("set nope = 1"), q("show nope"), q("set my.custom = 1; show my.custom"),
        q("set timezone = 'Nowhere/Bad'"), q("set datestyle = 'bogus'"), q("set server_version = '1'"),
    ],
    "describe and execute": [
        ext(
            parse("s1", "select $1::int4 as a, $2 as b, $3 + 1 as c where $4 = 1"), describe("S", "s1"),
            bind("", "s1", [b"1", b"x", b"2", b"1"]), describe("P"), execute(),
        ),
        ext(close("S", "s1"), close("S", "nonexistent"), close("P", "nonexistent")),
    ],
    "reads by a key": [
        q(
            "create table keyed (id int primary key, n int8, f float8, b bool, label text, at date);"
            " insert into keyed select g, g * 10, g / 4.0, g % 2 = 0, 'l' || g, date '2024-02-28' + g"
            " from generate_series(1, 50) g; insert into keyed (id) values (99)"
        ),
        *[
            step
            for _ in range(3)
            for step in (
                q("select * from keyed where id = 7"), q("select label from keyed where id = 99"),
                q("select id from keyed where id = 1000"), q("select id from keyed where id between 3 and 5"),
                q("select 1 / (id - 7) from keyed where id = 7"),
            )
        ],
        ext(parse("key", "select id, n, f, b, label, at from keyed where id = $1")),
        *[
            step
            for _ in range(3)
            for step in (
                ext(bind("", "key", [b"7"]), execute()),
                ext(bind("", "key", [b"7"]), describe("P"), execute()),
                ext(bind("", "key", [b"\0\0\0\7"], [1], [1]), describe("P"), execute()),
                ext(bind("", "key", [b"99"], [0], [1, 1, 0, 1, 0, 1]), execute()),
                ext(bind("", "key", [None]), execute()),
                ext(bind("", "key", [b"7"]), execute("", 1)),
                ext(bind("p", "key", [b"7"]), execute("p")),
                ext(bind("", "key", [b"7"]), execute(), bind("", "key", [b"8"]), execute()),
                ext(bind("", "key", [b"x"]), execute()),
                ext(bind("", "key", [b"7", b"8"]), execute()),
                ext(bind("", "key", [b"\0\7"], [1]), describe("P"), execute()),
                ext(bind("", "key", [b"7"], [0], [1, 0]), execute()),
                ext(bind("", "nokey", [b"7"]), describe("P"), execute()),
            )
        ],
        q("begin"), ext(bind("", "key", [b"7"]), describe("P"), execute()), q("rollback"),
        q("alter table keyed rename column label to title"),
        ext(bind("", "key", [b"7"]), describe("P"), execute()),
        q("drop table keyed"),
        ext(bind("", "key", [b"7"]), describe("P"), execute()),
    ],
    "inferred parameter types": [
        ext(parse("", text), describe("S"))
        for text in (
            "select * from conv where i = $1 limit $2 offset $3", "select $1", "select $1 || $2", "values ($1), (2)",
            "select coalesce($1, 1), $2 = any($3::int[]), $4 in (1, 2)", "select case when $1 then $2 else 1.5 end",
            "select $2::text", "insert into conv values ($1)",
        )
    ],
    "an error skips to sync": [
        (
            [
                parse("", "selct"), bind(), describe("P"), execute(), query("select 1"), parse("", "select 2"), bind(),
                execute(), SYNC, query("select 3"),
            ],
            2,
        )
    ],
    "a pipeline is one transaction": [
        ext(
            parse("", "insert into conv values (1)"), bind(), execute(), parse("", "select nope"), bind(), execute(),
            parse("", "insert into conv values (3)"), bind(), execute(),
        ),
        q("select count(*) from conv"),
    ],
    "two syncs are two transactions": [
        (
            [
                parse("", "insert into conv values (1)"), bind(), execute(), SYNC, parse("", "select nope"), SYNC,
                parse("", "insert into conv values (3)"), bind(), execute(), SYNC,
            ],
            3,
        ),
        q("select count(*) from conv"),
    ],
    "begin and commit inside a pipeline": [
        ext(
            parse("", "begin"), bind(), execute(), parse("", "insert into conv values (1)"), bind(), execute(),
            parse("", "commit"), bind(), execute(), parse("", "select nope"), bind(), execute(),
        ),
        q("select count(*) from conv"),
    ],
    "portals suspend, and die with their transaction": [
        ext(
            parse("", "select * from generate_series(1, 5) g"), bind("p"), execute("p", 2), execute("p", 2),
            execute("p", 2), execute("p", 2),
        ),
        ext(execute("p", 1)),
        ext(bind("p"), execute("p", 2)),
        ext(execute("p", 2)),
        q("begin"),
        ext(parse("q", "select * from generate_series(1, 5) g"), bind("p", "q"), execute("p", 2)),
        ext(execute("p", 2)),
        ext(bind("p", "q")),
        q("rollback"),
        ext(execute("p", 2)),
        ext(bind("", "q"), execute()),
    ],
    "unnamed statement and portal": [
        ext(parse("", "select 42")), ext(bind(), execute()), q("select 1"), ext(bind(), execute()),
        ext(parse("", "select 43"), bind()), ext(execute()),
    ],
    "duplicates, multiple and empty statements": [
        ext(parse("d", "select 1"), parse("d", "select 2")), ext(parse("", "select 1; select 2")),
        ext(parse("", ""), describe("S"), bind(), describe("P"), execute()),
        ext(parse("", "-- nothing"), bind(), execute()),
    ],
    "executing a finished portal": [
        ext(parse("", "select 1"), bind(), execute(), execute()),
        ext(parse("", "insert into conv values (1)"), bind(), execute(), execute()),
        ext(
            parse("", "insert into conv select g from generate_series(1, 4) g returning i"), bind(), execute("", 1),
            execute("", 1), execute(),
        ),
        q("select count(*) from conv"),
    ],
    "bind errors": [
        ext(parse("b2", "select $1::int, $2::text"), bind("", "b2", [b"1"])),
        *[
            ext(bind("", "b2", values, formats, results))
            for values, formats, results in (
                ([b"1", b"2"], [0, 0, 0], []), ([b"x", b"2"], [], []), ([b"\0\1", b"2"], [1, 0], []),
                ([b"1", b"2"], [], [0, 0, 0]), ([b"1", b"2"], [7], []), ([b"1", b"\xff\xfe"], [], []),
                ([b"1", b"a\0b"], [], []),
            )
        ],
        ext(bind("", "b2", [None, None]), execute()),
        ext(bind("", "nostmt")), ext(execute("noportal")), ext(describe("S", "nostmt")), ext(describe("P", "noportal")),
        ext(raw.message("D", b"Zx\0")),
    ],
    "result formats": [
        ext(
            parse("f", "select 1::int4, 'x'::text, 1.5::float8, true, null::int, 1.50::numeric, date '2024-01-02'"),
            bind("", "f", [], [], [1]), describe("P"), execute(),
        ),
        ext(bind("", "f", [], [], [0, 1, 1, 1, 1, 0, 1]), describe("P"), execute()),
        ext(describe("S", "f")),
    ],
    "prepared statements of a block": [
        ext(parse("go", "begin"), parse("rr", "begin isolation level repeatable read")), ext(parse("end", "commit")),
        ext(parse("in", "insert into conv values ($1)")), ext(parse("up", "update conv set i = i + 1 where i = $1")),
        ext(parse("back", "delete from conv where i = $1 returning i, $1::int4 as gone")),
        ext(parse("see", "select i, 1 / (i - 9) as n from conv where i < $1 order by i")),
        ext(parse("off", "rollback")), ext(parse("sp", "savepoint a")), ext(parse("to", "rollback to a")),
        ext(bind("", "go"), execute()), ext(bind("", "go"), describe("P"), execute()),
        ext(bind("", "in", [b"1"]), execute()), ext(bind("", "up", [b"1"]), describe("P"), execute()),
        ext(bind("", "see", [b"5"]), execute()), ext(bind("", "see", [b"5"], [], [1]), describe("P"), execute()),
        ext(bind("", "sp"), execute()), ext(bind("", "in", [b"9"]), execute()),
        ext(bind("", "see", [b"10"]), describe("P"), execute()), ext(bind("", "see", [b"10"]), execute()),
        ext(bind("", "to"), execute()), ext(bind("", "back", [b"2"]), describe("P"), execute()),
        ext(bind("", "back", [b"2"]), execute()), ext(bind("", "in", [b"x"]), execute()),
        ext(bind("", "end"), execute()), ext(bind("", "end"), execute()), ext(bind("", "off"), execute()),
        ext(bind("", "rr"), execute()), ext(bind("", "in", [b"3"]), execute()), ext(bind("", "in"), execute()),
        ext(bind("", "off"), describe("P"), execute()), ext(bind("", "go"), execute()),
        ext(bind("p", "see", [b"5"]), execute("p", 1)), ext(bind("", "see", [b"5"]), execute()), ext(execute("p")),
        ext(bind("", "in", [b"4"]), execute()), ext(execute()), ext(bind("", "end"), execute()),
        ext(bind("", "go"), execute()), ext(bind("", "see", [b"5", b"6"]), execute()), ext(bind("", "end"), execute()),
    ],
    "in an aborted transaction": [
        q("begin"),
        ext(parse("k", "select 1 as a"), parse("ins", "insert into conv values (1)")),
        q("select nope"),
        ext(parse("", "select 1")), ext(bind("", "k")), ext(describe("S", "k")), ext(describe("S", "ins")),
        ext(close("S", "k")),
        ext(parse("", "rollback"), bind(), describe("P"), execute()),
    ],
    "a plan must not change its result": [
        ext(parse("cp", "select * from conv"), describe("S", "cp")), q("alter table conv add b text"),
        ext(bind("", "cp"), execute()), ext(describe("S", "cp")), q("begin"), ext(bind("", "cp"), execute()),
        q("rollback"),
    ],
    "prepared statements have one name space": [
        q("prepare sp(int) as select $1 + 1"), ext(describe("S", "sp"), bind("", "sp", [b"4"]), execute()),
        ext(parse("pp", "select $1::text")), q("execute pp('hi')"), q("deallocate pp"), ext(bind("", "pp", [b"1"])),
        q("deallocate nope"), q("deallocate all"), q("execute sp"),
    ],
    "cursors": [
        q("declare c cursor for select 1"),
        q("begin; declare c scroll cursor for select g from generate_series(1, 5) g"),
        q("fetch c"), q("fetch 2 from c"), q("fetch backward 1 from c"),
        q("fetch prior from c; fetch first in c; fetch last in c; fetch absolute 2 from c; fetch 0 from c"),
        q("move all in c"),
        ext(describe("P", "c"), execute("c", 2)), q("close c"), q("fetch c"), q("rollback"),
        q("declare h cursor with hold for select g from generate_series(1, 3) g"), q("fetch 2 from h"),
        q("begin; fetch 1 from h; rollback"), q("fetch all from h"), q("close all"), q("close h"),
        q("begin; declare nb no scroll cursor for select 1; fetch backward 1 from nb"), q("rollback"),
    ],
    "copy in": [
        (
            [query("copy pairs from stdin"), copy_data(b"1\tx\n2\t\\N\n"), copy_data(b"3\ta"),
             copy_data(b"b\\tc\n"), COPY_DONE], 1,
        ),
        ([query("copy pairs from stdin"), copy_data(b"4\ty\n\\.\n5\tignored?\n"), COPY_DONE], 1),
        ([query("copy pairs from stdin"), copy_data(b"bad\tx\n"), copy_data(b"6\tz\n"), COPY_DONE], 1),
        ([query("copy pairs from stdin"), copy_data(b"1\n"), COPY_DONE], 1),
        ([query("copy pairs from stdin"), copy_data(b"1\ta\tb\n"), COPY_DONE], 1),
        ([query("copy pairs from stdin"), copy_fail("client says no")], 1),
        ([query("copy pairs from stdin"), FLUSH, SYNC, copy_data(b"7\tf\n"), COPY_DONE], 1),
        q("select * from pairs order by a"),
        ([query("copy pairs from stdin; select 5"), copy_data(b"8\tq\n"), COPY_DONE], 1),
        (
            [query("copy pairs from stdin; copy pairs from stdin"), copy_data(b"9\tq\n"), COPY_DONE,
             copy_data(b"10\tq\n"), COPY_DONE], 1,
        ),
        ([query("begin; copy pairs from stdin"), copy_fail("x")], 1),
        q("rollback"),
        ([copy_data(b"stray\n"), COPY_DONE, query("select count(*) from pairs")], 1),
        ([query("copy pairs from stdin"), query("select 1")], 1),
    ],
    "copy in binary": [
        ([query("copy pairs from stdin binary"), copy_data(HEADER + ROW), COPY_DONE], 1),
        q("select * from pairs"),
        ([query("copy pairs from stdin binary"), copy_data(b"XXCOPY\n\xff\r\n\0" + bytes(8)), COPY_DONE], 1),
        ([query("copy pairs from stdin binary"), copy_data(HEADER + b"\0\1\xff\xff\xff\xff"), COPY_DONE], 1),
        ([query("copy pairs from stdin binary"), copy_data(HEADER), COPY_DONE], 1),
    ],
    "copy out": [
        q("insert into pairs values (1, 'x,y'), (2, null), (3, E'q\"r\\n')"),
        q("copy pairs to stdout"), q("copy pairs to stdout (format csv, header, force_quote *)"),
        q("copy pairs to stdout binary"), q("copy (select 1 as x, null::text as y) to stdout; select 1"),
        ext(parse("", "copy pairs(b) to stdout"), bind(), describe("P"), execute()),
        q("copy nope to stdout"), q("copy pairs(zz) to stdout"), q("copy pairs from stdin (format xml)"),
        q("copy pairs from stdin (nope 1)"),
    ],
    "declared parameters that nothing uses": [
        ext(parse("a", "select 1", (23, 25)), describe("S", "a"), bind("", "a", [b"1", b"x"]), execute()),
        ext(parse("b", "set application_name = 'x'", (23,)), describe("S", "b"), bind("", "b", [b"1"]), execute()),
        ext(parse("c", "begin", (25,)), bind("", "c", [None]), execute()), ext(bind("", "c")), q("rollback"),
        ext(parse("", "", (23,)), describe("S"), bind("", "", [b"1"]), execute()), ext(parse("", "listen x", (0,))),
        ext(parse("", "truncate conv", (23, 0))),
    ],
    "what is checked first in a Bind": [
        ext(bind("", "nope", [b"1"], result_formats=(3,))), ext(parse("s", "select $1::int")),
        ext(bind("", "s", [], result_formats=(3,))), ext(bind("", "s", [b"1"], (2,), (3,))),
        ext(bind("", "s", [b"x"], (), (3,))),
    ],
    "parameters without values": [
        q("select $2, $1"), q("insert into pairs values ($1, $2), ($3, $4)"),
    ],
    "schemas that do not exist": [
        q(text)
        for text in (
            "select 1::nosuch.t", "select cast(1 as nosuch.t[])", "select 'é', null::postgres.nosuch.t(3)",
            "select 1::other.nosuch.t", "select 1::a.b.c.d", "select 1::public.t", "select nosuch.t '1'",
            "select nosuch.f(1)", "select other.pg_catalog.abs(1)", "select a.b.c.d()", "select * from nosuch.f()",
            "select 1 operator(nosuch.+) 2", "select 1 operator(other.pg_catalog.+) 2", "select * from nosuch.t",
            "select 'a' collate nosuch.c", "select 1 collate nosuch.c", "select 'a' collate other.nosuch.c",
            "create table a (x int, y nosuch.t(2) not null)", "create table a (x \"No such\".t)",
            "create table a (x text collate nosuch.c)", "create table a (x text collate nosuchc)",
            "create table a (x int collate \"C\")", "create table a (like nosuch.t)", "create table a (like nosuch)",
            "create table nosuch.a (x int)", "create table nosuch.a as select 1", "create view nosuch.a as select 1",
            "create table a as select 1::nosuch.t", "create view a as select 1::nosuch.t", "create sequence nosuch.s",
            "create sequence s as nosuch.t", "create index on nosuch.t (x)", "prepare p(nosuch.t) as select $1",
            "alter table conv add column y nosuch.t", "alter table conv alter column i type nosuch.t",
            "alter table conv alter column i type varchar(0)", "alter table conv alter column i type text collate nope",
            "alter table nosuch.t add column y int", "alter table if exists nosuch.t add column y int",
            "alter view nosuch.v rename to w", "alter sequence if exists nosuch.s restart",
            "comment on table nosuch.t is 'x'", "comment on column nosuch.t.a is 'x'", "truncate nosuch.t",
            "copy nosuch.t to stdout", "insert into nosuch.t values (1)", "update conv set i = 1::nosuch.t",
            "drop table nosuch.t", "drop index nosuch.i", "drop type if exists nosuch.t, public.t",
            "select 'nosuch.t'::regtype, 1", "select 'nosuch.t'::regclass", "select 'nosuch.f'::regproc",
            "select 'abs(nosuch.t)'::regprocedure", "select 'nosuch.+'::regoper", "select 'nosuch.c'::regcollation",
            "select 'nosuch.+(int,int)'::regoperator", "select nextval('nosuch.s')",
            "select x::regtype from (values ('nosuch.t'), ('public.t')) v(x)",
            "select x::regcollation from (values ('nosuch.c')) v(x)",
            "select x::regoperator from (values ('nosuch.+(int,int)')) v(x)",
            "select to_regtype('nosuch.t'), to_regclass('nosuch.t'), to_regproc('nosuch.f')",
        )
    ],
    "errors in defaults": [
        q(text)
        for text in (
            "create table a (x int default 'abc')", "select 'é'; create table a (x int, y date default '2024-13-01')",
            "create table a (x int default nosuch(1))", "create table a (x int default 1 + true)",
            "create table a (x int default 1 + y)", "create table a (x int default x)",
            "create table a (x int default 1 + (select 1))", "create table a (x int default sum(1))",
            "create table a (x int default row_number() over ())", "create table a (x int default true)",
            "create table a (x int default generate_series(1, 2))", "create table a (x int default 1::nosuch.t)",
            "create table a (x int default coalesce(1, 'b'))", "create table a (x int default $1)",
            "create table a (x int default 9999999999 collate nosuch)",
            "alter table conv alter column i set default 'abc'", "alter table conv alter column i set default i + 1",
            "alter table conv add column y int default 'abc'", "alter table conv add column y int default i + 1",
            "alter table conv add column y int default 1 + (select 1)",
        )
    ],
    "several actions of one ALTER TABLE": [
        q(text)
        for text in (
            "insert into pairs values (1, '10'), (2, '20')",
            "alter table pairs add column c int, drop column c", "alter table pairs add column b int, drop column b",
            "select * from pairs order by a", "alter table pairs alter column d set default 5, add column d int",
            "alter table pairs add column e int, alter column e type text",
            "alter table pairs add column e int, alter column e drop default",
            "alter table pairs alter column a set not null, alter column a drop not null",
            "select attname, attnotnull from pg_attribute where attrelid = 'pairs'::regclass and attnum > 0",
            "alter table pairs alter column a type text, drop column a",
            "alter table pairs alter column a type int8, alter column a type text",
            "alter table pairs alter column a set default 'x', alter column a type text",
            "alter table pairs alter column a type int using b, drop column zz", "alter table pairs add column c int",
            "alter table pairs alter column a type int, drop column zz", "insert into pairs values ('3', 4, 5, 6)",
            "alter table pairs alter column a drop default, alter column a type int using a::int + 1",
            "alter table pairs alter column a type text using 'b' || c, alter column c type bigint using a",
            "select a, c, d from pairs order by c",
            "alter table pairs alter column c type text using c || a, drop column a", "select * from pairs order by c",
            "alter table pairs alter column c type varchar(2)", "alter table pairs alter column c type varchar(5)",
            "alter table pairs alter column d set not null, alter column zz set default 1",
            "alter table pairs alter column d set not null, drop column d",
            "alter table pairs add column f int not null", "alter table pairs add column f int not null default 7",
            "alter table pairs owner to nosuch, drop column zz", "alter table pairs add unique (zz)",
            "alter table pairs alter column b type text, alter column b set default 'bb', drop column if exists zz",
            "insert into pairs(c) values ('new')", "select * from pairs order by c",
        )
    ],
    "USING of ALTER COLUMN TYPE": [
        q(text)
        for text in (
            "insert into pairs values (1, '10'), (2, '20')", "alter table pairs alter column b type int",
            "alter table pairs alter column b type varchar(4), alter column b set default 'abc'",
            "alter table pairs alter column b type int using b", "alter table pairs alter column a type date using 1",
            "alter table pairs alter b type varchar(3) using 'é', alter column a type int using nope",
            "alter table pairs alter column a type int using 'x'",
            "alter table pairs alter column a type int using sum(a)",
            "alter table pairs alter column a type int using (select 1)",
            "alter table pairs alter column a type int using generate_series(1, 2)",
            "alter table pairs alter column a type int using 1 + true",
            "alter table pairs alter column a type record", "alter table pairs alter column a type nosuch",
            "alter table pairs alter column b drop default, alter column b type int using b::int * a",
            "select * from pairs order by a",
        )
    ],
    "function calls": [
        call(177, [b"2", b"40"]), call(177, [b"\0\0\0\2", b"\0\0\0\x28"], [1], 1),
        call(177, [b"2", b"\0\0\0\3"], [0, 1]), call(177, [None, b"1"]), call(177, [None, b"1"], [], 7),
        call(177, [b"2", b"40"], [], 7), call(177, [b"x", b"1"]), call(177, [b"2", b"40"], [7]), call(177, [b"1"]),
        call(177, [b"1", b"2"], [0, 0, 0]), call(177, [b"\0", b"1"], [1, 0]), call(177, [b"\0\0\0\1\0", b"1"], [1, 0]),
        call(177, [b"2147483647", b"1"]), call(154, [b"1", b"0"]), call(1258, ["é".encode(), b"b"]),
        call(1258, [b"\xff", b""]), call(1258, [b"a\0b", b""]), call(1258, [b"a", b""], [1, 0], 1), call(1397, [b"-5"]),
        call(1140, [b"2024-01-02", b"3"]), call(1140, [b"2024-01-02", b"3"], [], 1), call(720, [b"\1\2\3"], [1]),
        call(3062, [b"abc"]), call(1622, [b"ab", b"3"], [], 1), call(395, [b"{a,NULL,b}", b","]), call(481, [b"7"]),
        call(378, [b"{1}", b"2"]), call(3058, [b"a"]), call(1067, [b"1", b"2"]), call(2108, [b"1"]), call(3100, []),
        call(0, []), call(4000000000, []), call(2626, [b"0"]), call(2626, [b"0"], [], 1), call(2077, [b"my.unset"]),
        call(2078, [b"application_name", b"called", b"f"]), q("show application_name"),
        ([raw.message("F", b"\0\0\0\1")], 1), ([raw.message("F", b"\0\0")], 1),
        ([raw.message("F", b"\0\0\0\xb1\0\0\0\2\xff\xff\xff\xfe\0\0")], 1),
        ([raw.message("F", b"\0\0\5\x75\0\0\0\1\0\0\0\x011\0\0\0")], 1),
        ([raw.function_call(3062, [b"ab"]), raw.function_call(3062, [b"cd"])], 2),
        q("create sequence calls; begin"), call(1574, [b"calls"]), call(154, [b"1", b"0"]), call(3062, [b"ab"]),
        call(0, []), q("rollback"), call(1574, [b"calls"]), call(1574, [b"nosuch"]), q("drop sequence calls"),
        ext(parse("", "select $1::int + 1", (23,))), call(3062, [b"ab"]), ext(bind("", "", [b"4"]), execute()),
        ([parse("", "insert into conv values (1)"), bind(), execute(), raw.function_call(3062, [b"ab"]), SYNC], 2),
        q("select count(*) from conv"),
        ([parse("", "insert into conv values (1)"), bind(), execute(), raw.function_call(0), SYNC], 2),
        q("select count(*) from conv"),
        ([parse("", "selct"), raw.function_call(3062, [b"ab"]), SYNC, raw.function_call(3062, [b"cd"])], 2),
    ],
    "command tags": [
        q("create table tags(a int, b text)"), q("insert into tags values (1, 'a'), (2, 'b')"),
        q("update tags set b = 'c'"),
        q("delete from tags where a = 2"), q("create table tags2 as select * from tags"), q("select 1 where false"),
        q("values (1), (2)"), q("table tags"), q("show datestyle"), q("create view tv as select 1 as x; drop view tv"),
        q("alter table tags add c int; truncate tags; comment on table tags is 'x'"),
        q("insert into tags values (5) returning a, b"), q("create table if not exists tags(a int)"),
        q("drop table if exists nope_t"), q("drop table tags, tags2"), q("begin; start transaction"), q("end"),
    ],
}  # fmt: skip


def shown(reply: Reply) -> Any:
    """A reply as it is compared."""
    if reply.code in "EN":
        return reply.code, {key: value for key, value in reply.fields.items() if key not in "FLR"}
    if reply.code == "T":
        return reply.code, columns(reply.body)
    return reply.code, reply.body


def columns(body: bytes) -> list[tuple[Any, ...]]:
    found = []
    position = 2
    for _ in range(struct.unpack_from(">H", body)[0]):
        end = body.index(0, position)
        table, *rest = struct.unpack_from(">IhIhih", body, end + 1)
        found.append((body[position:end].decode(), table != 0, *rest))
        position = end + 19
    return found


async def hold(port: int, steps: list[Step]) -> list[list[Any]]:
    """The replies to each step. Tables `conv` and `pairs` are new."""
    client = await RawClient.connect(port, database="postgres", options="-c timezone=UTC")
    await client.ask(
        query("drop table if exists conv, pairs; create table conv(i int); create table pairs(a int, b text)")
    )
    replies = []
    for messages, count in steps:
        replies.append([shown(reply) for reply in await client.ask(*messages, count=count)])
    await client.close()
    return replies


@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_conversation(server: TidegateServer, postgres: PostgresServer, name: str) -> None:
    if postgres.major != 15:
        pytest.skip("PostgreSQL 15 is the measure")
    ours = await hold(server.port, CONVERSATIONS[name])
    theirs = await hold(postgres.port, CONVERSATIONS[name])
    for (messages, _), our, their in zip(CONVERSATIONS[name], ours, theirs, strict=True):
        assert our == their, messages
