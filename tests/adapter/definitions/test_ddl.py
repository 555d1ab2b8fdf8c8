"""DDL: definitions and their dependencies, with PostgreSQL's errors and notices."""

from __future__ import annotations

from decimal import Decimal

import pytest

from storage.catalog.model import Relation
from storage.doubles.memory_blob import MemoryBlob
from storage.stores.counting import CountingBlob
from tests.adapter.harness import Client, connect, open_server


async def test_views_follow_what_they_read(client: Client) -> None:
    await client.run("create table a (id int, x text); create table b (id int)")
    await client.run("insert into a values (1, 'q'); insert into b values (1)")
    await client.run("create view va as select * from a; create view vb as select va.id, x from va join b using (id)")
    await client.run("alter table a add column y int default 3; alter table a rename x to xx")
    assert await client.rows("select * from va") == [(1, "q")]
    await client.run("alter table a rename to aa; alter table aa rename xx to xxx; alter table aa drop column y")
    assert await client.rows("select * from vb") == [(1, "q")]
    await client.run("create schema s; alter table aa set schema s; alter schema s rename to t")
    assert await client.rows("select x from va") == [("q",)]
    error = await client.error("alter table t.aa drop column xxx")
    assert (error.sqlstate, error.message) == (
        "2BP01",
        "cannot drop column xxx of table t.aa because other objects depend on it",
    )
    assert error.detail == "view va depends on column xxx of table t.aa\nview vb depends on view va"
    assert error.hint == "Use DROP ... CASCADE to drop the dependent objects too."
    await client.run("alter table t.aa drop column xxx cascade")
    assert client.notices() == ["NOTICE: drop cascades to 2 other objects"]
    assert (await client.error("select * from vb")).sqlstate == "42P01"


async def test_drop_of_a_type_lists_views_over_views(client: Client) -> None:
    await client.run("create domain d as int; create table t (a d); create view v as select a from t")
    await client.run("create materialized view w as select a from v; create index on w (a)")
    await client.run("create view x as select count(*) from w")
    error = await client.error("drop domain d")
    assert error.detail == (
        "column a of table t depends on type d\nview v depends on column a of table t\n"
        "materialized view w depends on view v\nview x depends on materialized view w"
    )
    await client.run("drop domain d cascade")
    assert client.notices() == ["NOTICE: drop cascades to 4 other objects"]
    assert (await client.error("select * from w")).sqlstate == "42P01"


async def test_drop_lists_what_depends(client: Client) -> None:
    await client.run("create table t (a int); create view v as select a from t; create view w as select a from v")
    error = await client.error("drop table t")
    assert error.message == "cannot drop table t because other objects depend on it"
    assert error.detail == "view v depends on table t\nview w depends on view v"
    await client.run("drop view w, v")
    await client.run("drop table t; drop table if exists t")
    assert client.notices() == ['NOTICE: table "t" does not exist, skipping']
    await client.run("create schema s; create table s.t (a int)")
    error = await client.error("drop schema s")
    assert error.detail == "table s.t depends on schema s"
    await client.run("drop schema s cascade")
    assert client.notices() == ["NOTICE: drop cascades to table s.t"]
    await client.run("create extension hstore; create table t (h hstore, i hstore); create index on t using gist (h)")
    error = await client.error("drop extension hstore")
    assert error.detail == "column i of table t depends on type hstore\ncolumn h of table t depends on type hstore"
    await client.run("create extension pg_trgm; create table u (a text); create index on u using gin (a gin_trgm_ops)")
    error = await client.error("drop extension pg_trgm")
    assert error.detail == "index u_a_idx depends on operator class gin_trgm_ops for access method gin"


async def test_added_columns(client: Client) -> None:
    await client.run("create table t (a int); insert into t values (1), (2)")
    await client.run("alter table t add b int default 7, add c text, add d date default '2020-02-03'")
    await client.run("insert into t (a) values (3)")
    await client.run("alter table t alter b set default 8")
    await client.run("insert into t (a) values (4)")
    rows = await client.rows("select a, b, c, d::text from t order by a")
    assert rows == [(1, 7, None, "2020-02-03"), (2, 7, None, "2020-02-03"), (3, 7, None, "2020-02-03"),
                    (4, 8, None, "2020-02-03")]  # fmt: skip
    await client.run("update t set b = b + 1 where a = 1; alter table t drop column b; alter table t add b text")
    assert await client.rows("select a, b from t where a < 3 order by a") == [(1, None), (2, None)]
    error = await client.error("alter table t add e int not null")
    assert (error.sqlstate, error.message) == ("23502", 'column "e" of relation "t" contains null values')


async def test_not_null(client: Client) -> None:
    await client.run("create table t (a int not null, b text)")
    error = await client.error("insert into t values (1, 'x'), (null, 'yy')")
    assert error.sqlstate == "23502"
    assert error.message == 'null value in column "a" of relation "t" violates not-null constraint'
    assert error.detail == "Failing row contains (null, yy)."
    assert (error.schema, error.table, error.column) == ("public", "t", "a")
    await client.run("insert into t values (1, null)")
    assert (await client.error("update t set a = null")).sqlstate == "23502"
    assert (await client.error("insert into t select null, 'q'")).sqlstate == "23502"
    assert (await client.error("alter table t alter b set not null")).sqlstate == "23502"
    await client.run("alter table t alter a drop not null; insert into t values (null, null)")


async def test_types_are_rewritten(client: Client) -> None:
    await client.run("create table t (a int, b text); insert into t values (1, '10'), (2, '20')")
    await client.run("alter table t alter a type bigint, alter b type int using b::int + 1")
    assert await client.rows("select a, b from t order by a") == [(1, 11), (2, 21)]
    await client.run("insert into t values (3000000000, 5)")
    assert await client.value("select max(a) from t") == 3000000000
    assert (await client.error("alter table t alter a type int")).sqlstate == "22003"


async def test_columns_are_widened_without_rewriting() -> None:
    blob = CountingBlob(MemoryBlob())
    async with open_server(blob=blob) as server:
        await widen_columns(await connect(server), blob)


async def widen_columns(client: Client, blob: CountingBlob) -> None:
    await client.run(
        "create table t (a smallint default 7, b int, c real, d varchar(3), e numeric(6, 2), k int);"
        "insert into t values (1, 2, 0.1, 'abc', 1.50, 1), (-32768, null, 'NaN', null, -9999.99, 2)"
    )
    # Rows in a file, and rows that are not.
    await client.run("insert into t select 3, g, g, 'x', g / 100.0, g + 2 from generate_series(1, 5000) g")
    await client.run("alter table t add f int default 5")
    env = client.session.state.services.env
    shard = next(r.shard for r in env.catalog.current().all() if isinstance(r, Relation) and r.name == "t")
    written = blob.counts.copy()
    await client.run(
        "alter table t alter a type int, alter b type bigint, alter c type double precision, alter d type text,"
        " alter e type numeric(12, 2), alter f type bigint"
    )
    assert next(r.shard for r in env.catalog.current().all() if isinstance(r, Relation) and r.name == "t") == shard
    assert (blob.counts - written)["put_if_absent"] == 0
    assert await client.rows("select a, b, c, d, e, f from t where k = 1") == [
        (1, 2, 0.10000000149011612, "abc", Decimal("1.50"), 5)
    ]
    await client.run(
        "insert into t (b, c, d, e, k, f) values (3000000000, 0.1, 'longer than three', 1234567890.12, 0, 6000000000)"
    )
    assert await client.rows("select a, b, c, d, e, f from t where k = 0") == [
        (7, 3000000000, 0.1, "longer than three", Decimal("1234567890.12"), 6000000000)
    ]
    # Old and new rows together, pruned by statistics of either, and changed.
    assert await client.rows("select count(*), max(b), max(e), sum(f) from t") == [
        (5003, 3000000000, Decimal("1234567890.12"), 5002 * 5 + 6000000000)
    ]
    assert await client.value("select count(*) from t where b > 4998") == 3
    assert await client.value("select count(*) from t where c = 'NaN'") == 1
    await client.run("update t set b = b + 3000000000 where k = 1; delete from t where k between 3 and 4")
    assert await client.rows("select k, b from t where b > 2500000000 order by k") == [(0, 3000000000), (1, 3000000002)]
    assert await client.value("select count(*) from t") == 5001
    # Narrower ones, and rows of the open transaction, are rewritten.
    assert (await client.error("alter table t alter b type int")).sqlstate == "22003"
    await client.run("begin; insert into t (k) values (9999); alter table t alter k type bigint; commit")
    assert await client.value("select max(k) from t") == 9999


async def test_truncate(client: Client) -> None:
    await client.run("create table t (a int); insert into t values (1)")
    await client.run("begin; truncate t; insert into t values (2)")
    assert await client.rows("select a from t") == [(2,)]
    await client.run("rollback")
    assert await client.rows("select a from t") == [(1,)]
    await client.run("truncate t; insert into t values (3)")
    assert await client.rows("select a from t") == [(3,)]


async def test_a_new_table_is_changed_and_emptied_in_its_transaction(client: Client) -> None:
    await client.run("begin; create table t (a int); insert into t values (1), (2); delete from t where a = 1")
    await client.run("update t set a = 3; commit")
    assert await client.rows("select a from t") == [(3,)]
    await client.run("begin; truncate t; insert into t values (7), (8); delete from t where a = 7; truncate t")
    await client.run("insert into t values (9); update t set a = 10; commit")
    assert await client.rows("select a from t") == [(10,)]


async def test_create_table_as(client: Client) -> None:
    assert await client.tag("create table t as select g as a, g * 2 as b from generate_series(1, 5) g") == "SELECT 5"
    assert await client.tag("create table u (x) as select a from t with no data") == "CREATE TABLE AS"
    assert await client.tag("select a into w from t where a > 3") == "SELECT 2"
    assert await client.rows("select * from u") == []
    assert await client.rows("select a from w order by a") == [(4,), (5,)]
    assert await client.tag("create table if not exists t as select 1") == "CREATE TABLE AS"
    assert client.notices() == ['NOTICE: relation "t" already exists, skipping']


async def test_sequences(client: Client) -> None:
    await client.run("create table t (id serial, a text); insert into t (a) values ('x'), ('y')")
    await client.run("insert into t (a) select 'z' from generate_series(1, 3)")
    assert [row[0] for row in await client.rows("select id from t order by id")] == [1, 2, 3, 4, 5]
    assert await client.value("select lastval()") == 5
    await client.run("begin; insert into t (a) values ('gone'); rollback; insert into t (a) values ('next')")
    assert await client.value("select max(id) from t") == 7
    await client.run("create sequence s increment 5 minvalue 1 maxvalue 11; select nextval('s'), nextval('s')")
    assert await client.value("select nextval('s')") == 11
    assert (await client.error("select nextval('s')")).sqlstate == "2200H"
    await client.run("drop table t")
    assert (await client.error("select nextval('t_id_seq')")).sqlstate == "42P01"


@pytest.mark.parametrize(
    ("text", "sqlstate", "message"),
    [
        ("create table t (a int)", "42P07", 'relation "t" already exists'),
        ("create table nope.x (a int)", "3F000", 'schema "nope" does not exist'),
        ("create table x (a int, a int)", "42701", 'column "a" specified more than once'),
        ("create schema pg_x", "42939", 'unacceptable schema name "pg_x"'),
        ("drop view t", "42809", '"t" is not a view'),
        ("drop table pg_class", "42501", 'permission denied: "pg_class" is a system catalog'),
        ("alter table t add a int", "42701", 'column "a" of relation "t" already exists'),
        ("alter table t rename a to b", "42701", 'column "b" of relation "t" already exists'),
        ("alter table t drop nope", "42703", 'column "nope" of relation "t" does not exist'),
        ("alter table nope add a int", "42P01", 'relation "nope" does not exist'),
        ("create table x (a int default b)", "0A000", "cannot use column reference in DEFAULT expression"),
        ("truncate v", "42809", '"v" is not a table'),
        ("grant usage on t to public", "0LP01", "invalid privilege type USAGE for table"),
        ("comment on column t.nope is 'x'", "42703", 'column "nope" of relation "t" does not exist'),
    ],
)
async def test_refusals(client: Client, text: str, sqlstate: str, message: str) -> None:
    await client.run("create table t (a int, b int); create view v as select a from t")
    error = await client.error(text)
    assert (error.sqlstate, error.message) == (sqlstate, message)


async def test_roles(client: Client) -> None:
    await client.run("create role bob login password 'secret'; comment on role bob is 'x'")
    assert await client.value("select rolcanlogin from pg_roles where rolname = 'bob'") is True
    assert (await client.error("create user bob")).message == 'role "bob" already exists'
    await client.run("drop role bob")
