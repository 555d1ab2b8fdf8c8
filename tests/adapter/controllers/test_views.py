"""Servers keep views fresh: each change gets into a view once, whoever brings it there."""

from __future__ import annotations

import asyncio
import random

from adapter.controllers.views import keeper_of
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from tests.adapter.harness import Client, connect, open_server

VIEWS = {
    "copied": "select id, v from items where v <> 3",
    "grouped": "select v, count(*) as n, sum(id) as s from items group by v",
    "joined": "select a.id, b.id as other from items a join items b on a.v = b.v and a.id < b.id",
    "above": "select g.v, g.s, i.id from grouped g join items i on i.v = g.v where g.n > 3",
    "above_twice": "select v, count(*) as n, sum(id) as s from above group by v",
}


async def _until_exact(client: Client) -> None:
    for _ in range(600):
        if not await client.rows("select 1 from tidegate.materialized_views where not is_exact"):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the views are not refreshed")


async def test_two_servers_bring_each_change_into_a_view_once() -> None:
    blob, consensus, choice = MemoryBlob(), MemoryConsensus(), random.Random(7)
    async with (
        open_server(blob=blob, consensus=consensus, shared=True) as one,
        open_server(blob=blob, consensus=consensus, shared=True) as two,
    ):
        clients = [await connect(one), await connect(two)]
        await clients[0].run("create table items (id int, v int)")
        await clients[0].run("insert into items select n, n % 5 from generate_series(1, 50) n")
        for name, query in VIEWS.items():
            await clients[0].run(f"create materialized view {name} with (refresh = 'on commit') as {query}")
        for number in range(12):
            client = clients[number % 2]
            await client.run(f"insert into items values ({100 + number}, {choice.randrange(5)})")
            await client.run(f"delete from items where id = {choice.randrange(1, 50)}")
            if number % 4 == 0:
                await clients[1 - number % 2].run("refresh materialized view copied")
            await asyncio.sleep(choice.random() / 5)
        await _until_exact(clients[0])
        for client in clients:
            for name, query in VIEWS.items():
                rows = await client.rows(f"select * from {name}")
                assert sorted(rows) == sorted(await client.rows(query)), name


async def test_a_view_is_refreshed_every_so_often() -> None:
    async with open_server() as server:
        client = await connect(server)
        await client.run("create table items (id int)")
        await client.run("create materialized view now_and_then with (refresh = 'every 200 ms') as select * from items")
        await client.run("insert into items values (1)")
        for _ in range(200):
            if await client.rows("select * from now_and_then") == [(1,)]:
                break
            await asyncio.sleep(0.05)
        assert await client.rows("select * from now_and_then") == [(1,)]
        await client.run("alter materialized view now_and_then set (refresh = manual)")
        await client.run("insert into items values (2)")
        await asyncio.sleep(0.6)
        assert await client.rows("select * from now_and_then") == [(1,)]


async def test_a_view_as_of_a_moment_is_what_its_query_gave_then() -> None:
    async with open_server(retain_ms=3_600_000) as server:
        client = await connect(server)
        await client.run("create table items (id int, v int)")
        await client.run(
            "create materialized view totals with (refresh = 'on commit') as select sum(v) as s from items"
        )
        moments = []
        for number in range(1, 6):
            await client.run(f"insert into items values ({number}, {number})")
            moments.append((await client.value("select tidegate.current_csn()"), number * (number + 1) // 2))
            await asyncio.sleep(0.15)
        for csn, total in moments:
            assert await client.value(f"select s from totals as of {csn}") == total
            await client.run(f"set tidegate.as_of = '{csn}'")
            assert await client.value("select s from totals") == total
            await client.run("reset tidegate.as_of")


def test_views_stay_with_their_keepers_when_another_process_ends() -> None:
    processes = ["a", "b", "c"]
    before = {oid: keeper_of(oid, processes) for oid in range(16384, 16484)}
    after = {oid: keeper_of(oid, ["a", "c"]) for oid in before}
    assert set(before.values()) == set(processes)
    assert all(after[oid] == keeper for oid, keeper in before.items() if keeper != "b")
    assert keeper_of(1, []) is None


async def test_a_refresh_sees_what_the_owner_of_the_view_may_see() -> None:
    async with open_server() as server:
        client = await connect(server)
        await client.run("create role keeper; create table secret (id int); insert into secret values (1), (2), (3)")
        await client.run("grant select on secret to keeper; grant create on schema public to keeper")
        await client.run("set role keeper")
        await client.run("create materialized view seen as select id from secret")
        await client.run("create materialized view seen_now with (refresh = 'on commit') as select id from secret")
        await client.run("reset role")
        await client.run("create policy few on secret using (id < 3); alter table secret enable row level security")
        await client.run("refresh materialized view seen")
        assert await client.rows("select id from seen order by id") == [(1,), (2,)]
        assert await client.rows("select id from seen_now order by id") == [(1,), (2,)]
        await client.run("insert into secret values (0)")
        assert await client.rows("select id from seen_now order by id") == [(0,), (1,), (2,)]
        await client.run("revoke select on secret from keeper")
        assert (await client.error("refresh materialized view seen")).sqlstate == "42501"
