"""The schema `tidegate`: each relation and each column says what it tells."""

from __future__ import annotations

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
