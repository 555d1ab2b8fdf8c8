"""A view that is brought to an earlier moment than the statement's snapshot has the rows of that moment."""

from __future__ import annotations

import pytest

from adapter.controllers import views
from adapter.definitions.materialized import increments
from storage.timestamps.csn import Csn
from tests.adapter.harness import connect, open_server

VIEWS = {
    "low": "select g, count(*) as n, sum(v) as s from items group by g",
    "ranked": "select id, row_number() over (partition by g order by v, id) as place from items",
    "above": "select l.g, l.n, i.id from low l join items i on i.g = l.g",
    "above_ranked": "select g, rank() over (order by s, g) as place from low",
    "above_two": "select r.id, r.place, a.n from ranked r join above a on a.id = r.id",
}


@pytest.mark.parametrize("by_changes", [True, False])
@pytest.mark.parametrize("below_first", [True, False])
async def test_views_are_brought_to_an_earlier_moment(
    monkeypatch: pytest.MonkeyPatch, *, by_changes: bool, below_first: bool
) -> None:
    monkeypatch.setattr(views, "keeper_of", lambda oid, living: None)
    if not by_changes:
        monkeypatch.setattr(increments, "is_reproducible", lambda query: False)
    async with open_server(retain_ms=600_000) as server:
        client, writer = await connect(server), await connect(server)
        await client.run("create table items (id int primary key, g int, v int)")
        await client.run("insert into items select n, n % 5, n % 7 from generate_series(1, 40) n")
        for name, query in VIEWS.items():
            await client.run(f"create materialized view {name} with (refresh = 'on commit') as {query}")
        moments: list[Csn] = []
        for number in range(3):
            await writer.run(f"insert into items values ({100 + number}, 1, 5), ({200 + number}, 2, 1)")
            await writer.run(f"update items set v = v + 1, g = g + 1 where id < {number * 3}")
            moments.append(await client.value("select tidegate.current_csn()"))
            await writer.run(f"delete from items where id = {number + 10}")
            client.session.state.refreshed_to = moments[-1]
            for name in VIEWS if below_first else reversed(VIEWS):
                await client.run(f"refresh materialized view {name}")
        rows = await client.rows("select distinct frontier, is_exact from tidegate.materialized_views")
        assert rows == [(moments[-1], False)]
        found = dict(await client.rows("select viewname, method from tidegate.materialized_views"))
        if below_first:
            follows = {"low", "above", "above_two"} if by_changes else set()
            assert {name for name, method in found.items() if method == "incremental"} == follows
        for name in VIEWS:
            await client.run(f"alter materialized view {name} set (refresh = manual)")
        for name, query in VIEWS.items():
            then = await client.rows(f"{query} as of {moments[-1]}")
            assert sorted(await client.rows(f"select * from {name}")) == sorted(then), name


async def test_a_view_is_not_brought_back() -> None:
    async with open_server(retain_ms=600_000) as server:
        client = await connect(server)
        await client.run("create table items (id int); create materialized view kept as select id from items")
        early = await client.value("select tidegate.current_csn()")
        await client.run("insert into items values (1); refresh materialized view kept")
        await client.run("alter materialized view kept set (refresh = 'on commit'); insert into items values (2)")
        client.session.state.refreshed_to = early
        await client.run("refresh materialized view kept")
        assert await client.value("select frontier from tidegate.materialized_views") > early
        assert await client.value("select is_exact from tidegate.materialized_views")


async def test_views_are_read_as_they_were_over_tables_that_are_gone_since(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "keeper_of", lambda oid, living: None)
    async with open_server(retain_ms=600_000) as server:
        client = await connect(server)
        await client.run("create table items (id int); create table other (id int)")
        await client.run("create materialized view low with (refresh = 'on commit') as select id from items")
        await client.run(
            "create materialized view above with (refresh = 'on commit') as select id from low union all table other"
        )
        await client.run("insert into items values (1); insert into other values (2)")
        then = await client.value("select tidegate.current_csn()")
        await client.run("truncate items; drop materialized view above; drop table other")
        assert await client.rows(f"select id from above order by id as of {then}") == [(1,), (2,)]
        assert await client.rows("select id from low") == []
        await client.run(f"drop table items cascade; set tidegate.as_of = {then}")
        assert await client.rows("select id from above order by id") == [(1,), (2,)]
        assert await client.rows("select viewname, is_exact from tidegate.materialized_views order by 1") == [
            ("above", False),
            ("low", False),
        ]
