"""CREATE, ALTER and DROP DATABASE."""

from __future__ import annotations

import pytest

from adapter.definitions.databases import changes
from adapter.sessions.server import Server
from planner.errors import SqlError
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from tests.adapter.harness import Client, connect, open_server

TEMPLATE = """
    create type mood as enum ('sad', 'ok');
    create table parent (a int primary key, m mood, l mood[] default '{ok}');
    create table child (id serial, p int references parent on delete cascade,
                        low text generated always as (lower('X')) stored);
    create index on child (p) where p > 0;
    create view seen as select a, m from parent where a > 1;
    comment on table parent is 'of all';
    comment on column child.p is 'whose';
    insert into parent (a, m) select g, 'ok' from generate_series(1, 3) g;
    insert into child (p) select g from generate_series(1, 3) g;
    alter table parent add column late int default 7
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database in use is refused at once."""
    monkeypatch.setattr(changes, "PATIENCE_S", 0.0)


async def each(client: Client, *statements: str) -> None:
    """Each by itself: a string of several is a block, in which databases cannot be made."""
    for statement in statements:
        await client.run(statement)


async def refused(server: Server, database: str, user: str = "postgres") -> SqlError:
    with pytest.raises(SqlError) as raised:
        await connect(server, database=database, user=user)
    assert raised.value.fatal
    return raised.value


async def test_each_database_has_objects_of_its_own(server: Server, client: Client) -> None:
    await client.run("create table t (a int); insert into t values (1)")
    await client.run("create database other")
    other = await connect(server, database="other")
    assert await other.value("select current_database()") == "other"
    assert (await other.error("select * from t")).sqlstate == "42P01"
    await other.run("create table t (b text); insert into t values ('x'); create schema s; create table s.u ()")
    assert await other.rows("select * from t") == [("x",)]
    assert await client.rows("select * from t") == [(1,)]
    assert (await client.error("select * from s.u")).sqlstate == "42P01"
    assert (await client.error("select * from other.public.t")).sqlstate == "0A000"
    own = "select relname from pg_class where relnamespace = 'public'::regnamespace"
    assert await client.rows(own) == await other.rows(own) == [("t",)]
    assert await other.rows(
        "select catalog_name, schema_name from information_schema.schemata where schema_name = 's'"
    ) == [("other", "s")]


async def test_roles_and_databases_are_shared(server: Server, client: Client) -> None:
    await client.run("create database other")
    other = await connect(server, database="other")
    await other.run("create role r; comment on database other is 'the other'")
    assert await client.value("select count(*) from pg_roles where rolname = 'r'") == 1
    described = "select shobj_description(oid, 'pg_database') from pg_database where datname = 'other'"
    assert await client.value(described) == "the other"
    await client.run("alter database other set work_mem = '7MB'")
    assert await (await connect(server, database="other")).value("show work_mem") == "7MB"
    assert await (await connect(server)).value("show work_mem") != "7MB"


async def test_large_objects_of_other_databases_keep_a_role(server: Server, client: Client) -> None:
    for made in ("role r", "database other"):
        await client.run(f"create {made}")
    other = await connect(server, database="other")
    await other.run(
        "select lo_create(77), lo_create(78), lo_create(79); create table t (i int); alter table t owner to r"
    )
    await other.run("alter large object 77 owner to r; grant select on large object 78 to r")
    await client.run("select lo_create(99); alter large object 99 owner to r")
    here, there = await client.error("drop role r"), await other.error("drop role r")
    assert (here.sqlstate, here.detail) == ("2BP01", "owner of large object 99\n3 objects in database other")
    assert (there.detail or "").splitlines()[-1] == "1 object in database postgres"
    await other.run("drop owned by r")
    await client.run("drop owned by r; drop role r")


async def test_each_database_has_privileges_of_its_own_on_what_is_built_in(server: Server, client: Client) -> None:
    acl = "select proacl from pg_proc where oid = 'pg_sleep(double precision)'::regprocedure"
    await client.run("create database other")
    await client.run("create role r")
    other = await connect(server, database="other")
    await client.run("grant execute on function pg_sleep(double precision) to r")
    assert await other.value(acl) is None
    await other.run("revoke execute on function pg_sleep(double precision) from public")
    assert await client.value(acl) == ["=X/postgres", "postgres=X/postgres", "r=X/postgres"]
    assert await other.value(acl) == ["postgres=X/postgres"]
    await client.run("create database copy template postgres")
    copy = await connect(server, database="copy")
    assert await copy.value(acl) == ["=X/postgres", "postgres=X/postgres", "r=X/postgres"]
    await copy.run("revoke execute on function pg_sleep(double precision) from r")
    await other.run("grant execute on function pg_sleep(double precision) to public")
    assert await copy.value(acl) == ["=X/postgres", "postgres=X/postgres"]
    assert await client.value(acl) == ["=X/postgres", "postgres=X/postgres", "r=X/postgres"]
    # What all share has one set of privileges.
    await client.run("grant connect on database copy to r; grant set on parameter work_mem to r")
    assert await other.value("select has_database_privilege('r', 'copy', 'connect')") is True
    await other.run("revoke connect on database copy from r; revoke set on parameter work_mem from r")
    shared = "select (select datacl from pg_database where datname = 'copy'), (select count(*) from pg_parameter_acl)"
    assert await client.rows(shared) == await other.rows(shared)
    await copy.session.close()
    await client.run("drop database copy")
    assert await other.value(acl) == ["postgres=X/postgres", "=X/postgres"]


async def test_a_template_is_copied_with_its_rows(server: Server, client: Client) -> None:
    await client.run(TEMPLATE)
    await client.run("create database copy template postgres")
    copy = await connect(server, database="copy")
    for query in (
        "select a, m, l, late from parent order by a",
        "select * from child order by id",
        "select * from seen order by a",
        "select conname, contype, convalidated from pg_constraint where conrelid <> 0 order by conname",
        "select indexdef from pg_indexes where schemaname = 'public' order by 1",
        "select obj_description('parent'::regclass), col_description('child'::regclass, 2)",
        "select pg_get_expr(adbin, adrelid) from pg_attrdef order by 1",
        "select nspname, nspacl, obj_description(oid) from pg_namespace where nspname = 'public'",
    ):
        assert await copy.rows(query) == await client.rows(query), query
    # What is made in the copy goes on where the template stood, and stays there.
    assert await copy.rows("insert into child (p) values (1) returning id, low") == [(4, "x")]
    assert (await copy.error("insert into child (p) values (99)")).sqlstate == "23503"
    assert (await copy.error("insert into parent (a) values (1)")).sqlstate == "23505"
    await copy.run("delete from parent where a = 1; alter type mood rename value 'ok' to 'fine'")
    assert await copy.value("select count(*) from child") == 2
    assert await copy.rows("select distinct m::text from parent") == [("fine",)]
    assert await client.value("select count(*) from child") == 3
    assert await client.rows("select distinct m::text from parent") == [("ok",)]
    assert await client.rows("insert into child (p) values (1) returning id") == [(4,)]


async def test_template1_is_the_default(server: Server, client: Client) -> None:
    template = await connect(server, database="template1")
    await template.run("create table everywhere (a int)")
    await template.session.close()
    await each(client, "create database d", "create database e template template0")
    assert await (await connect(server, database="d")).rows("select * from everywhere") == []
    assert (await (await connect(server, database="e")).error("select * from everywhere")).sqlstate == "42P01"


async def test_nothing_of_a_dropped_database_stays(server: Server, client: Client) -> None:
    await client.run("create database d")
    session = await connect(server, database="d")
    await session.run(TEMPLATE)
    await session.session.close()
    before = set(server.env.catalog.current().records)
    await client.run("alter database d set work_mem = '7MB'; comment on database d is 'x'")
    await client.run("drop database d")
    after = server.env.catalog.current()
    assert set(after.records) < before
    assert all(oid < 16384 for oid in after.records)
    assert (await refused(server, database="d")).sqlstate == "3D000"


async def test_a_database_in_use_stays(server: Server, client: Client) -> None:
    await client.run("create database d")
    first = await connect(server, database="d")
    for statement, message in (
        ("drop database d", 'database "d" is being accessed by other users'),
        ("alter database d rename to e", 'database "d" is being accessed by other users'),
        ("create database e template d", 'source database "d" is being accessed by other users'),
    ):
        error = await client.error(statement)
        assert (error.sqlstate, error.message) == ("55006", message)
        assert error.detail == "There is 1 other session using the database."
    await connect(server, database="d")
    error = await client.error("drop database d")
    assert error.detail == "There are 2 other sessions using the database."
    await client.error("drop database d with (force)")
    assert first.terminated


@pytest.mark.parametrize(
    ("statement", "sqlstate"),
    [
        ("create database postgres", "42P04"),
        ("create database d template nowhere", "3D000"),
        ("create database d encoding 'LATIN1'", "0A000"),
        ("create database d owner nobody", "42704"),
        ("create database d connection limit -2", "22023"),
        ("create database d tablespace t", "42704"),
        ("create database d strategy magic", "22023"),
        ("create database d is_template maybe", "42601"),
        ("create database d encoding utf8 encoding utf8", "42601"),
        ("create database d locale_provider icu", "0A000"),
        ("create database d colour red", "42601"),
        ("begin; create database d", "25001"),
        ("drop database nowhere", "3D000"),
        ("drop database postgres", "55006"),
        ("drop database template1", "42809"),
        ("begin; drop database template1", "25001"),
        ("alter database postgres rename to p", "0A000"),
        ("alter database postgres allow_connections false", "22023"),
        ("alter database nowhere is_template true", "3D000"),
        ("alter database template1 rename to postgres", "42P04"),
    ],
)
async def test_what_is_refused_changes_nothing(server: Server, client: Client, statement: str, sqlstate: str) -> None:
    before = server.env.catalog.current().records
    assert (await client.error(statement)).sqlstate == sqlstate
    assert server.env.catalog.current().records == before


async def test_who_may(server: Server, client: Client) -> None:
    await each(client, "create role joe login", "create role ann login createdb", "create database bar")
    joe, ann = await connect(server, user="joe"), await connect(server, user="ann")
    for session, statement, message in (
        (joe, "create database q", "permission denied to create database"),
        (joe, "drop database bar", "must be owner of database bar"),
        (joe, "alter database bar is_template true", "must be owner of database bar"),
        (ann, "create database q template bar", 'permission denied to copy database "bar"'),
        (ann, "create database q owner joe", 'must be member of role "joe"'),
    ):
        error = await session.error(statement)
        assert (error.sqlstate, error.message) == ("42501", message)
    await each(ann, "create database q", "create database r template q", "drop database r", "drop database q")


async def test_who_may_connect(server: Server, client: Client) -> None:
    await each(client, "create role joe login", "create database d connection limit 1")
    await connect(server, user="joe", database="d")
    assert (await refused(server, user="joe", database="d")).sqlstate == "53300"
    await connect(server, database="d")
    await client.run("alter database d with allow_connections false")
    assert (await refused(server, database="d")).sqlstate == "55000"
    assert (await refused(server, database="template0")).sqlstate == "55000"


async def test_notifications_stay_in_their_database(server: Server, client: Client) -> None:
    await client.run("create database d")
    here, there = await connect(server, database="d"), await connect(server, database="d")
    for session in (client, there):
        await session.run("listen c")
    await here.run("notify c, 'x'")
    assert [text for _, _, text in there.notified] == ["x"]
    assert client.notified == []


async def test_advisory_locks_are_those_of_a_database(server: Server, client: Client) -> None:
    await each(client, "create database d", "select pg_advisory_lock(7)")
    assert await (await connect(server, database="d")).value("select pg_try_advisory_lock(7)") is True
    assert await (await connect(server)).value("select pg_try_advisory_lock(7)") is False


async def test_sessions_of_another_server_hear_that_their_database_is_gone() -> None:
    blob, consensus = MemoryBlob(), MemoryConsensus()
    async with (
        open_server(blob=blob, consensus=consensus, shared=True) as one,
        open_server(blob=blob, consensus=consensus, shared=True) as two,
    ):
        here = await connect(one)
        await here.run("create database d")
        there = await connect(two, database="d")
        await there.run("create table t (a int)")
        await here.run("drop database d")
        error = await there.error("select * from t")
        assert (error.sqlstate, error.fatal) == ("3D000", True)


async def test_sizes(server: Server, client: Client) -> None:
    await client.run("create database d")
    assert await client.value("select pg_database_size('d')") == 0
    await (await connect(server, database="d")).run("create table t as select g from generate_series(1, 1000) g")
    assert await client.value("select pg_database_size('d')") > 0
    assert await client.value("select pg_database_size(99999)") is None
