"""The schema `tidegate`: each relation and each column says what it tells."""

from __future__ import annotations

import pytest

from planner.types.own_relations import OWN_RELATIONS
from tests.adapter.harness import connect, open_server


async def test_each_relation_and_each_column_has_a_comment() -> None:
    async with open_server() as server:
        client = await connect(server)
        for name, own in OWN_RELATIONS.items():
            assert await client.value(f"select 'tidegate.{name}'::regclass::oid") == own.oid
            assert await client.value(f"select {own.oid}::regclass::text") == f"tidegate.{name}"
            assert await client.value(f"select obj_description('tidegate.{name}'::regclass, 'pg_class')") == own.comment
            for number, column in enumerate(own.columns.values(), 1):
                shown = await client.value(f"select col_description('tidegate.{name}'::regclass, {number})")
                assert shown == column.comment
                assert shown
            assert len({column.comment for column in own.columns.values()}) > len(own.columns) / 2
            assert await client.value(f"select col_description({own.oid}, {len(own.columns) + 1})") is None
            # It can be read, too, with the columns that it says.
            await client.rows(f"select {', '.join(own.columns)} from tidegate.{name}")
        listed = await client.rows("select relation, name, type, comment from tidegate.columns where position > 0")
        assert len(listed) == sum(len(own.columns) for own in OWN_RELATIONS.values())
        assert ("oracle", "csn", "bigint", OWN_RELATIONS["oracle"].columns["csn"].comment) in listed
        error = await client.error("select 'tidegate.nothing'::regclass")
        assert (error.sqlstate, error.message) == ("42P01", 'relation "tidegate.nothing" does not exist')
        assert await client.value("select to_regclass('tidegate.' || 'nothing')") is None
        assert await client.value("select to_regclass('tidegate.' || 'shards')::oid") == OWN_RELATIONS["shards"].oid


async def test_the_schema_is_in_the_system_catalogs() -> None:
    """psql and tools that show what there is find it; dumps leave out what the extension of every database has."""
    async with open_server() as server:
        client = await connect(server)
        schema = "'tidegate'::regnamespace"
        found = await client.rows(f"select relname, relkind, oid from pg_class where relnamespace = {schema}")
        assert {(name, "v", own.oid) for name, own in OWN_RELATIONS.items()} == set(found)
        columns = await client.rows(
            "select table_name, column_name from information_schema.columns where table_schema = 'tidegate'"
        )
        assert set(columns) == {(name, column) for name, own in OWN_RELATIONS.items() for column in own.columns}
        described = await client.value(
            f"select count(*) from pg_class c join pg_attribute a on a.attrelid = c.oid join pg_description d on"
            f" (d.objoid, d.classoid, d.objsubid) = (c.oid, 'pg_class'::regclass, a.attnum)"
            f" where relnamespace = {schema}"
        )
        assert described == len(columns)
        routines = await client.rows(
            "select p.proname, p.prokind, pg_get_function_arguments(p.oid) from pg_proc p"
            f" where pronamespace = {schema} and proname in ('as_of', 'transpile', 'publish', 'lineage')"
        )
        assert set(routines) == {
            ("as_of", "f", 'table_name text, moment "any"'),
            ("transpile", "f", "statement text, from_dialect text, to_dialect text"),
            ("publish", "p", "IN table_name text"),
            ("lineage", "f", "view regclass"),
        }
        assert await client.value("select 'tidegate.transpile'::regproc::text") == "tidegate.transpile"
        outside = await client.rows(
            "select o.oid from (select oid from pg_namespace where nspname = 'tidegate' union all"
            f" select oid from pg_class where relnamespace = {schema} union all"
            f" select oid from pg_proc where pronamespace = {schema}) o where not exists"
            " (select 1 from pg_depend d where d.objid = o.oid and d.deptype = 'e')"
        )
        assert outside == []
        changed = await client.rows(
            "select relname from pg_class c left join pg_init_privs i on i.objoid = c.oid"
            f" where relnamespace = {schema} and initprivs is distinct from relacl"
        )
        assert changed == []
        assert await client.value("select pg_table_is_visible('tidegate.shards'::regclass)") is False
        await client.run("set search_path = tidegate, public")
        assert await client.value("select pg_table_is_visible('tidegate.shards'::regclass)") is True
        assert await client.value("select 'tidegate.shards'::regclass::text") == "shards"


@pytest.mark.parametrize(
    ("statement", "sqlstate", "message"),
    [
        ("create schema tidegate", "42P06", 'schema "tidegate" already exists'),
        ("alter schema s rename to tidegate", "42P06", 'schema "tidegate" already exists'),
        ("drop schema tidegate cascade", "2BP01", "cannot drop schema tidegate because it is required by the database"),
        ("alter schema tidegate rename to x", "42501", "permission denied for schema tidegate"),
        ("alter schema tidegate owner to joe", "42501", "permission denied for schema tidegate"),
        ("alter schema tidegate set (retain_history = '1 day')", "42501", "permission denied for schema tidegate"),
        ("comment on schema tidegate is 'x'", "42501", "permission denied for schema tidegate"),
        ("create table tidegate.t (a int)", "42501", 'permission denied to create "tidegate.t"'),
        ("alter table t set schema tidegate", "42501", "permission denied for schema tidegate"),
        ("alter type e set schema tidegate", "42501", "permission denied for schema tidegate"),
        ("alter function f() set schema tidegate", "42501", "permission denied for schema tidegate"),
        ("alter table t set schema pg_catalog", "42501", "permission denied for schema pg_catalog"),
        ("drop view tidegate.sessions", "42501", 'permission denied: "sessions" is a system catalog'),
        ("alter view tidegate.sessions rename to s", "42501", 'permission denied: "sessions" is a system catalog'),
        ("drop function tidegate.transpile(text, text, text)", "42501", "permission denied for schema tidegate"),
        ("drop procedure tidegate.publish", "42501", "permission denied for schema tidegate"),
        ("select * from tidegate.nothing", "42P01", 'relation "tidegate.nothing" does not exist'),
    ],
)
async def test_nobody_changes_the_schema(statement: str, sqlstate: str, message: str) -> None:
    async with open_server() as server:
        client = await connect(server)
        for made in ("schema s", "role joe", "table t (a int)", "type e as enum ('a')"):
            await client.run(f"create {made}")
        await client.run("create function f() returns int language sql as 'select 1'")
        error = await client.error(statement)
        assert error.sqlstate == sqlstate
        assert error.message.startswith(message)


async def test_what_tells_of_the_server_is_for_monitors_unless_it_is_granted() -> None:
    async with open_server() as server:
        client = await connect(server)
        asked = "select has_table_privilege('joe', 'tidegate.servers', 'select')"
        await client.run("create role joe")
        assert await client.value(asked) is False
        await client.run("set role joe")
        error = await client.error("select * from tidegate.servers")
        assert (error.sqlstate, error.message) == ("42501", "permission denied for view servers")
        await client.run("reset role")
        await client.run("grant select on tidegate.servers to joe")
        assert await client.value(asked) is True
        await client.run("set role joe")
        assert await client.value("select count(*) from tidegate.servers") == 1
        await client.run("reset role")
        await client.run("revoke select on tidegate.servers from joe")
        await client.run("grant pg_read_all_stats to joe")
        assert await client.value(asked) is True
