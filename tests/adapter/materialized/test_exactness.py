"""Materialized views refreshed on commit are what their queries give, at every snapshot, whoever keeps them."""

from __future__ import annotations

import asyncio
import random
from decimal import Decimal

import pytest

from adapter.controllers import views
from adapter.definitions.materialized import brought
from planner.errors import SerializationFailure, SqlError
from tests.adapter.harness import Client, connect, open_server

VIEWS = {
    "filtered": "select id, g, v * 2 as double, upper(t) as upper from items where v > 3 and t is not null",
    "everything": "select * from items",
    "two_parts": "select id, v from items where g = 1 union all select id, g from items where v < 5",
    "either": "select g from items where v > 2 union select k from groups",
    "distinct_rows": "select distinct g, t from items",
    "by_group": "select g, count(*) as n, count(v) as nv, sum(v) as s, avg(v) as a, min(v) as low, max(t) as high, "
    "bool_or(v > 5) as any_high, bool_and(v > 5) as all_high from items group by g",
    "lists": "select g, array_agg(id order by id) as ids, string_agg(t, ',' order by id) as ts from items group by g",
    "filtered_groups": "select g + 1 as g1, sum(v) + count(*) as x from items where v <> 4 group by g "
    "having count(*) > 1",
    "overall": "select count(*) as n, sum(v) as s, max(v) as m from items",
    "joined": "select i.id, i.v, g.name from items i join groups g on g.k = i.g where i.v > 1",
    "joined_groups": "select g.name, count(*) as n, sum(i.v) as s from items i, groups g where g.k = i.g "
    "group by g.name",
    "sums": "select g, count(*) as n, count(v) as nv, sum(v) as s, avg(v) as a, sum(id) as ids, avg(id) as mean, "
    "count(p) as np, sum(p) as sp, avg(p) as ap from items group by g",
    "joined_sums": "select name, t, count(*) as n, sum(id) as s from items i join groups on k = g group by 1, t",
    "itself": "select a.id, b.id as other from items a join items b on a.g = b.g and a.id < b.id",
    "left_joined": "select g.k, g.name, i.id, i.v from groups g left join items i on g.k = i.g and i.v > 4",
    "right_joined": "select i.id, i.v, g.name from items i right join groups g on g.k = i.g "
    "where i.v is null or i.v > 2",
    "left_inner": "select g.name, a.id, b.id as other, n.n from groups g left join (items a join items b "
    "on a.v = b.v and a.id < b.id) on a.g = g.k left join sums n on n.g = b.g",
    "left_groups": "select g.k, count(i.id) as n, sum(i.v) as s, max(i.t) as last from groups g "
    "left join items i on i.g = g.k group by g.k",
    "sums_with_match": "select g, count(*) as n, sum(id) as s from items i "
    "where exists (select from groups where k = i.g and name like 'n%') group by g",
    "not_in_list": "select name from groups where k not in (select v from items where id < 12)",
    "in_and_not": "select i.id from items i left join groups g on g.k = i.g where i.v in (select k from groups) or "
    "not exists (select from items j join groups h on j.v = h.k where j.g = i.g and j.id <> i.id and h.name <> g.name)",
    "above_all": "select id from items where v >= all (select b.v from items b where b.g = items.g)",
    "with_most": "select k from groups where k in (select max(g) from items)",
    "with_match": "select k, name from groups where exists (select from items where g = k and v > 4)",
    "without_match": "select k from groups g where not exists (select from items i where i.g = g.k)",
    "in_list": "select id from items where g in (select k from groups where name like 'n%')",
    "ranked": "select id, row_number() over (partition by g order by v, id) as place from items",
    "best": "select id, v from items order by v desc nulls last, id limit 3",
    "above": "select name, n from by_group_named where n > 1",
    "above_joined": "select a.name, a.n, g.k from above a join groups g on g.name = a.name",
    "above_grouped": "select n, count(*) as names, sum(k) as ks, max(name) as last from above_joined group by n",
    "above_two": "select f.id, f.double, j.name from filtered f, joined j where j.id = f.id",
    "above_itself": "select a.g, b.g as other from sums a join sums b on a.n = b.n and a.g < b.g",
    "above_shown": "select name from shown where n > 1 union all select name from above",
}


async def _define(client: Client) -> None:
    await client.run("create table items (id int primary key, g int, v int, t text, p numeric(8, 2) default 1.25)")
    await client.run("create table groups (k int primary key, name text)")
    await client.run("insert into groups select n, 'n' || n from generate_series(1, 4) n")
    await client.run("insert into items select n, n % 5, n % 7, 't' || n % 3 from generate_series(1, 20) n")
    await client.run(
        "create materialized view by_group_named with (refresh = 'on commit') as "
        "select name, count(*) as n from items join groups on g = k group by name"
    )
    await client.run("create materialized view shown as select name, n from by_group_named")
    for name, query in VIEWS.items():
        await client.run(f"create materialized view {name} with (refresh = 'on commit') as {query}")


def _change(choice: random.Random) -> str:
    key, group = choice.randrange(30), choice.choice(["null", "1", "2", "3", "4", "5"])
    value = choice.choice(["null", *map(str, range(9))])
    return choice.choice([
        f"insert into items values ({key}, {group}, {value}, 't{key % 3}') on conflict (id) do update set v = {value}",
        f"insert into items select n, {group}, n % 9, null from generate_series({key}, {key + 3}) n "
        "on conflict do nothing",
        f"update items set v = {value} where id between {key} and {key + 2}",
        f"update items set p = {value} * 0.75 where id between {key} and {key + 5}",
        f"update items set g = {group}, t = 'moved' where id = {key}",
        f"delete from items where id = {key}",
        f"delete from items where v = {value}",
        f"insert into groups values ({key % 7}, 'n{key}') on conflict (k) do update set name = 'x{key}'",
        f"delete from groups where k = {key % 7}",
        "refresh materialized view shown",
        f"begin; insert into items values ({100 + key}, 1, 1, 'a') on conflict do nothing; "
        f"delete from items where id = {100 + key}; commit",
    ])  # fmt: skip


def _shown(row: tuple[object, ...]) -> str:
    """A row as a client gets it: numbers with all their digits, in whatever form they come."""
    return repr([str(value) if isinstance(value, Decimal) else value for value in row])


async def _check(client: Client, *, only: set[str] | None = None) -> int:
    """Each view against its query at one snapshot. Returns how many were read from their stored rows."""
    await client.run("begin isolation level repeatable read")
    exact = {
        name
        for (name,) in await client.rows(
            "select viewname from tidegate.materialized_views where is_exact and refresh = 'on commit'"
        )
    }
    for name, query in VIEWS.items():
        if only is None or name in only:
            stored = sorted(map(_shown, await client.rows(f"select * from {name}")))
            assert stored == sorted(map(_shown, await client.rows(query))), (name, name in exact)
    await client.run("commit")
    return len(exact)


async def _until_exact(client: Client) -> None:
    for _ in range(600):
        if not await client.rows(
            "select 1 from tidegate.materialized_views where not is_exact and refresh <> 'manual'"
        ):
            return
        await asyncio.sleep(0.05)
    stale = await client.rows(
        "select viewname, method from tidegate.materialized_views where not is_exact and refresh <> 'manual'"
    )
    raise AssertionError(f"not refreshed: {stale}")


@pytest.mark.parametrize("seed", [1, 2])
async def test_views_are_what_their_queries_give(seed: int) -> None:
    choice = random.Random(seed)
    async with open_server() as server:
        client = await connect(server)
        await _define(client)
        assert await _check(client) == len(VIEWS) + 1
        for _ in range(5):
            for _ in range(choice.randrange(1, 5)):
                await client.run(_change(choice))
                await _check(client, only={choice.choice(list(VIEWS)), choice.choice(list(VIEWS))})
            await _until_exact(client)
            assert await _check(client) == len(VIEWS) + 1


BY_CHANGES = {
    "filtered", "everything", "two_parts", "distinct_rows", "by_group", "filtered_groups", "joined", "joined_groups",
    "lists", "itself", "by_group_named", "sums", "joined_sums", "above", "above_joined", "above_grouped", "above_two",
    "above_itself", "above_shown", "left_joined", "right_joined", "left_inner", "left_groups", "sums_with_match",
    "not_in_list", "in_and_not", "above_all", "with_match", "without_match", "in_list",
}  # fmt: skip
"""The views whose change follows from the change of the tables."""


async def test_small_changes_are_worked_out_from_what_has_changed() -> None:
    async with open_server(retain_ms=600_000) as server:
        client = await connect(server)
        await _define(client)
        await client.run("insert into items values (50, 1, 5, 'new')")
        await _until_exact(client)
        await _check(client)
        methods = dict(await client.rows("select viewname, method from tidegate.materialized_views"))
        assert {name for name, method in methods.items() if method == "incremental"} == BY_CHANGES
        changed = dict(await client.rows("select viewname, changed_rows from tidegate.materialized_views"))
        assert changed["everything"] == 1
        assert changed["by_group"] == 2
        assert changed["above"] == 2


async def test_views_are_read_with_what_has_changed_since(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brought, "MIN_ROWS", 0)
    monkeypatch.setattr(views, "keeper_of", lambda oid, living: None)
    choice = random.Random(3)
    async with open_server() as server:
        client = await connect(server)
        await _define(client)
        await client.run("insert into groups values (9, 'n9'); insert into items values (90, 1, 5, 'new')")
        found = set()
        for name in VIEWS:
            lines = [line for (line,) in await client.rows(f"explain select * from {name}")]
            if any(line.endswith("and what has changed since") for line in lines):
                found.add(name)
        above = {name for name in VIEWS if name.startswith("above")} - {"above_all"} | {"left_inner"}
        assert found == BY_CHANGES - above - {"by_group_named"}
        await client.run("create unique index on by_group (g)")
        await client.run("prepare q as select n from by_group where g = 1")
        for _ in range(4):
            await _check(client)
            assert await client.rows("execute q") == await client.rows("select count(*) from items where g = 1")
            await client.run("begin")
            await client.run("declare c cursor for select * from joined")
            assert len(await client.rows("fetch all from c")) == await client.value("select count(*) from joined")
            await client.run("commit")
            await client.run(_change(choice))


ANSWERED = {
    "select i.g as grp, sum(v), sum(p) from items i group by i.g": "sums",
    "select g, sum(p) / count(p) from items where g in (1, 2) group by g having count(*) > 2 order by 1": "sums",
    "select x.n from (select g, count(*) as n from items where g > 1 group by g) x join groups on k = x.g": "by_group",
    "select count(*), min(upper(t)) from items j where t is not null and j.v > 3 and id <> 4 group by g": "filtered",
    "select v * 2, id from items where v > 3 and t is not null order by id desc limit 2": "filtered",
    "select name from (select name, k from groups where k in (select max(g) from items)) x": None,
    "select k from groups where k in (select max(g) from items)": "with_most",
    "select 1 from items": None,
    "select max(v) + 1 from items where v is not null": None,
    "select max(v) + count(*) as x from items having sum(v) > 0": "overall",
    "select g, sum(v) from items where v > 2 group by g": None,
    "select g, sum(v) from items group by g, v": None,
    "select id, v from items where v > 3": None,
    "select g, stddev(v) from items group by g": None,
    "select a.id, b.id from items a join items b on a.g = b.g and a.id < b.id where a.id = 3": "itself",
}  # fmt: skip
"""Queries, and the view that answers each."""


async def test_queries_are_answered_by_views_where_the_session_wants_it() -> None:
    async with open_server() as server:
        client, other = await connect(server), await connect(server)
        await _define(client)
        await client.run("drop materialized view everything; drop materialized view joined_sums")
        found = {}
        for query in ANSWERED:
            expected = sorted(map(_shown, await client.rows(query)))
            await client.run("set use_materialized_views = on")
            lines = [line for (line,) in await client.rows(f"explain {query}")]
            read = [line.split()[2].rstrip(":") for line in lines if line.startswith("Materialized view")]
            found[query] = read[0] if read else None
            for _ in range(2):
                assert sorted(map(_shown, await client.rows(query))) == expected
                await client.run("insert into items values (77, 1, 8, 'new') on conflict (id) do update set g = 1")
                expected = sorted(map(_shown, await other.rows(query)))
            await client.run("set use_materialized_views = off")
        assert found == ANSWERED
        await client.run("create role reader; grant select on sums to reader; set use_materialized_views = on")
        await client.run("set role reader")
        assert (await client.error("select g, sum(v) from items group by g")).sqlstate == "42501"


async def test_a_transaction_sees_its_own_changes_in_views() -> None:
    async with open_server() as server:
        client, other = await connect(server), await connect(server)
        await _define(client)
        await client.run("begin")
        await client.run("delete from items where g = 1")
        assert await client.rows("select * from by_group where g = 1") == []
        assert await other.rows("select * from by_group where g = 1") != []
        await client.run("truncate groups")
        assert await client.value("select count(*) from joined") == 0
        await client.run("rollback")
        assert await client.rows("select * from by_group where g = 1") != []


async def test_a_serializable_transaction_relies_on_the_tables_behind_a_view() -> None:
    async with open_server() as server:
        client, other = await connect(server), await connect(server)
        await _define(client)
        await client.run("begin isolation level serializable")
        (n,) = await client.rows("select n from overall")
        await other.run("insert into items values (500, 1, 1, 'late')")
        error: SqlError | None = None
        try:
            await client.run(f"insert into items values (600, {n[0]}, 1, 'counted'); commit")
        except SqlError as failure:
            error = failure
        assert isinstance(error, SerializationFailure)


async def test_a_row_that_came_and_went_does_not_keep_a_view_from_being_refreshed() -> None:
    async with open_server() as server:
        client = await connect(server)
        await client.run("create table items (id int, v int); insert into items values (1, 5)")
        await client.run(
            "create materialized view shares with (refresh = 'on commit') as select id, 100 / v as share from items"
        )
        await client.run("insert into items values (2, 0)")
        await client.run("delete from items where v = 0")
        await client.run("insert into items values (3, 4)")
        await _until_exact(client)
        assert sorted(await client.rows("select * from shares")) == [(1, 20), (3, 25)]
        assert await client.rows("select method from tidegate.materialized_views") == [("recomputed",)]
