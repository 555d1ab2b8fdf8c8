"""Two servers on one environment: each sees at once what the other has acknowledged, and nothing is done twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from adapter.sessions.options import ServerOptions
from adapter.sessions.server import Server
from adapter.transactions.pending import State
from planner.errors import SqlError
from storage.environment.named_stores import StoreNames
from tests.adapter.harness import Client, connect

ROUNDS = 20


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[list[Server]]:
    """Two servers on one data directory."""
    options = ServerOptions(
        stores=StoreNames(data_dir=tmp_path / "data"), warm_spark=False, settings={"engine": "local"}
    )
    async with AsyncExitStack() as stack:
        opened = []
        for _ in range(2):
            server = await Server.open(options)
            stack.push_async_callback(server.close)
            opened.append(server)
        yield opened


@pytest.fixture
async def clients(servers: list[Server]) -> list[Client]:
    """A session on each."""
    return [await connect(server) for server in servers]


async def test_rows_and_definitions_are_seen_at_once(clients: list[Client]) -> None:
    for number in range(ROUNDS):
        here, there = clients[number % 2], clients[1 - number % 2]
        await here.run(f"create table t{number} (a int)")
        await there.run(f"insert into t{number} values (1)")
        await here.run(f"alter table t{number} add column b text default 'x'")
        assert await there.rows(f"select * from t{number}") == [(1, "x")]
        await there.run(f"update t{number} set a = 2; alter table t{number} drop column b")
        assert await here.rows(f"select * from t{number}") == [(2,)]
        await here.run(f"drop table t{number}")
        assert (await there.error(f"insert into t{number} values (1)")).sqlstate == "42P01"


async def test_statements_prepared_before_a_definition_follow_it(clients: list[Client]) -> None:
    here, there = clients
    await here.run("create table t (a int); insert into t values (1)")
    await there.session.prepare("s", "select * from t", ())
    await here.run("alter table t add column b int default 7")
    # The client was told of one column; PostgreSQL's error makes drivers prepare again.
    error = None
    try:
        await there.session.bind("", "s", (), ())
        async for _ in (await there.session.execute_portal("", sync_follows=True)).batches:  # type: ignore[union-attr]
            pass
    except SqlError as caught:
        error = caught
    assert error is not None
    assert error.sqlstate == "0A000"
    await there.session.sync()
    await there.session.prepare("s2", "select * from t", ())
    described = await there.session.describe_statement("s2")
    assert [column.name for column in described.columns or ()] == ["a", "b"]


async def test_counters_are_right(servers: list[Server]) -> None:
    clients = [await connect(server) for server in servers for _ in range(4)]
    await clients[0].run("create table c (id int, n int); insert into c values (1, 0), (2, 0)")

    async def count(client: Client, row: int) -> None:
        for _ in range(ROUNDS):
            await client.run(f"update c set n = n + 1 where id = {row}")

    await asyncio.gather(*(count(client, 1 + number % 2) for number, client in enumerate(clients)))
    assert await clients[-1].rows("select n from c order by id") == [(4 * ROUNDS,), (4 * ROUNDS,)]


async def test_a_transaction_that_read_what_the_other_server_changed_fails(clients: list[Client]) -> None:
    here, there = clients
    await here.run("create table t (a int); insert into t values (1)")
    await here.run("begin")
    await here.run("insert into t select max(a) + 1 from t")
    await there.run("insert into t values (5)")
    assert (await here.error("commit")).sqlstate == "40001"
    assert sorted(await there.rows("select a from t")) == [(1,), (5,)]


async def test_an_insert_before_a_read_sees_the_newest(clients: list[Client]) -> None:
    here, there = clients
    await here.run("create table t (a int); create table u (a int)")
    for number in range(ROUNDS):
        await there.run(f"insert into t values ({number})")
        await here.run("begin; insert into u values (0)")
        assert await here.value("select count(*) from t") == number + 1
        await here.run("commit")


async def test_definitions_race_without_losing_any(servers: list[Server]) -> None:
    clients = [await connect(server) for server in servers for _ in range(2)]

    async def define(client: Client, name: str) -> None:
        for number in range(5):
            await client.run(f"create table {name}_{number} (id serial, a int)")
            await client.run(f"insert into {name}_{number} (a) values (1), (2)")

    await asyncio.gather(*(define(client, f"w{n}") for n, client in enumerate(clients)))
    for client in clients:
        assert await client.value("select count(*) from pg_class where relname ~ '^w._.$'") == 20
    oids = [row[0] for row in await clients[0].rows("select oid from pg_class where relkind in ('r', 'S')")]
    assert len(oids) == len(set(oids))
    ids = await clients[0].rows("select id from w0_0 order by id")
    assert ids == [(1,), (2,)]


async def test_open_transactions_on_both_never_share_an_oid(clients: list[Client]) -> None:
    for number, client in enumerate(clients):
        await client.run(f"begin; create table s{number} (id serial)")
        await client.run(f"insert into s{number} default values")
    for client in clients:
        await client.run("commit")
    assert await clients[0].rows("select * from s0, s1") == [(1, 1)]
    assert await clients[1].value("select count(distinct oid) from pg_class where relname ~ '^s[01]'") == 4


async def test_sequences_give_no_number_twice(servers: list[Server]) -> None:
    clients = [await connect(server) for server in servers for _ in range(2)]
    await clients[0].run("create sequence s")

    async def draw(client: Client) -> list[int]:
        return [await client.value("select nextval('s')") for _ in range(50)]

    drawn = [number for numbers in await asyncio.gather(*map(draw, clients)) for number in numbers]
    assert len(set(drawn)) == 200


async def test_not_null_holds_against_inserts_on_the_other_server(servers: list[Server]) -> None:
    here, there = [await connect(server) for server in servers]
    for number in range(ROUNDS):
        await here.run(f"create table n{number} (a int)")
        results = await asyncio.gather(
            here.run(f"alter table n{number} alter column a set not null"),
            there.run(f"insert into n{number} values (null)"),
            return_exceptions=True,
        )
        not_null = await here.value(f"select attnotnull from pg_attribute where attrelid = 'n{number}'::regclass "
                                    "and attname = 'a'")  # fmt: skip
        nulls = await there.value(f"select count(*) from n{number} where a is null")
        assert not (not_null and nulls), results
        assert [isinstance(result, SqlError) for result in results].count(True) == 1


async def test_the_outcome_of_a_transaction_can_be_asked_for_elsewhere(clients: list[Client]) -> None:
    here, there = clients
    await here.run("create table t (a int)")
    await here.run("begin; insert into t values (1)")
    first = await here.value("select txid_current()")
    assert await here.value("select txid_current()") == first
    assert await here.value(f"select txid_status({first})") == "in progress"
    assert await there.value(f"select txid_status({first})") == "in progress"
    await here.run("commit")
    await here.run("begin; insert into t values (2)")
    second = int(await here.value("select pg_current_xact_id()"))
    await here.run("rollback")
    assert second > first
    for client in clients:
        assert await client.value(f"select txid_status({first})") == "committed"
    assert await here.value(f"select pg_xact_status('{second}')") == "aborted"
    # As long as the server lives, others cannot know that it has given the transaction up.
    assert await there.value(f"select txid_status({second})") == "in progress"
    assert (await here.error("select txid_status(1000000000)")).sqlstate == "22023"
    assert await here.rows("select txid_status(0), txid_status(1), txid_status(2)") == [
        (None, "committed", "committed")
    ]


async def test_a_server_that_is_left_alone_goes_on(servers: list[Server]) -> None:
    here, there = [await connect(server) for server in servers]
    await here.run("create table t (a int); insert into t values (1)")
    xid = await there.value("select txid_current()")
    await servers[1].close()
    await here.run("insert into t values (2)")
    assert await here.value("select sum(a) from t") == 3
    assert await here.value(f"select txid_status({xid})") == "aborted"


async def test_definitions_worked_out_from_an_old_catalog_are_right(
    servers: list[Server], clients: list[Client]
) -> None:
    here, there = clients
    await here.run("create table t (a int not null); create table gone (a int)")
    assert await there.value("select count(*) from t") == 0
    # From here on the second server learns what the first one did only when it asks, or when a write is refused.
    for task in servers[1].env.background.tasks:
        if task.get_name() in ("storage-follow", "storage-catalog"):
            task.cancel()
    await here.run("create table u (a int)")
    assert (await there.error("create table u (a int)")).sqlstate == "42P07"
    await here.run("create table v (a int)")
    assert await there.tag("drop table if exists v") == "DROP TABLE"
    assert there.notices() == []
    await here.run("drop table gone")
    assert await there.tag("create table if not exists gone (b int)") == "CREATE TABLE"
    assert there.notices() == []
    await here.run("create view w as select a from t")
    error = await there.error("alter table t alter column a type bigint")
    assert (error.sqlstate, error.message) == ("0A000", "cannot alter type of a column used by a view or rule")
    await here.run("drop view w; alter table t alter column a drop not null")
    await there.run("insert into t values (null)")
    await here.run("insert into t values (7)")
    assert await there.tag("create table x as select a from t") == "SELECT 2"
    await here.run("alter table t rename column a to b")
    assert await there.tag("alter table t rename column b to c") == "ALTER TABLE"
    await there.session.prepare("s", "alter table t add column d int", ())
    await here.run("alter table t add column d int")
    await there.session.bind("", "s", (), ())
    with pytest.raises(SqlError, match='column "d" of relation "t" already exists'):
        await there.session.execute_portal("", sync_follows=True)
    await there.session.sync()
    assert await here.rows("select c, d from t order by c") == [(7, None), (None, None)]


async def test_definitions_in_blocks_and_scripts_see_the_newest_catalog(clients: list[Client]) -> None:
    here, there = clients
    for number in range(ROUNDS):
        await here.run(f"create table t{number} (a int)")
        await there.run(f"begin; alter table t{number} add column b int; insert into t{number} values (1, 2); commit")
        await here.run(f"insert into t{number} values (3, 4); drop table if exists nothing; drop table t{number}")
        assert await there.tag(f"create table t{number} (c int)") == "CREATE TABLE"


async def test_snapshots_name_the_transactions_of_both_servers(clients: list[Client]) -> None:
    here, there = clients
    await here.run("create table log (xid xid8, a int)")
    await here.run("begin")
    mine = await here.value("select pg_current_xact_id()")
    await here.run(f"insert into log values ('{mine}', 1)")
    await there.run("begin isolation level read committed")
    theirs = await there.value("select pg_current_xact_id()")
    assert int(theirs) > int(mine)
    before = await there.value("select pg_current_snapshot()")
    assert (await there.rows(f"select pg_snapshot_xip('{before}'::pg_snapshot)")) == [(mine,), (theirs,)]
    await here.run("commit")
    after = await there.value("select pg_current_snapshot()")
    assert await there.value(f"select pg_visible_in_snapshot('{mine}', '{after}')") is True
    assert await there.value(f"select pg_visible_in_snapshot('{mine}', '{before}')") is False
    assert await there.value("select txid_visible_in_snapshot(txid_current(), txid_current_snapshot())") is False
    moment = await there.value(f"select pg_xact_commit_timestamp('{mine}'::xid)")
    assert moment is not None
    assert await there.value(f"select pg_xact_commit_timestamp('{theirs}'::xid)") is None
    # Only what the snapshot before does not hold is new: how a reader follows a table without missing any.
    new = f"select a from log where not pg_visible_in_snapshot(xid, '{before}')"
    assert await there.rows(f"{new} and pg_visible_in_snapshot(xid, pg_current_snapshot())") == [(1,)]
    await there.run("rollback")


async def test_a_repeatable_snapshot_stays_the_same(clients: list[Client]) -> None:
    here, there = clients
    await here.run("create table t (a int)")
    await there.run("begin isolation level repeatable read")
    first = await there.value("select pg_current_snapshot()")
    for _ in range(3):
        await here.run("begin; select txid_current(); insert into t values (1); commit")
    assert await there.value("select pg_current_snapshot()") == first
    await there.run("commit")
    assert await there.value("select pg_current_snapshot()") != first


async def test_inserts_of_a_block_stay_together(clients: list[Client]) -> None:
    here, there = clients
    await here.run("create table t (a int not null)")
    await there.value("select count(*) from t")
    await there.run("begin")
    for number in range(50):
        await there.run(f"insert into t values ({number})")
    transaction = there.session.state.transaction
    assert transaction is not None
    assert transaction.txn is not None
    assert transaction.state is State.PROVISIONAL
    (shard,) = transaction.txn.shards
    assert len(transaction.txn.local_parts(shard)) == 1
    await there.run("commit")
    assert await here.value("select count(*) from t") == 50


async def test_a_snapshot_is_exported_to_the_other_server(clients: list[Client]) -> None:
    here, there = clients
    await here.run("create table t (a int); insert into t values (1)")
    await here.run("begin isolation level repeatable read")
    name = await here.value("select pg_export_snapshot()")
    await there.run("insert into t values (2); create table u (a int)")
    await there.run(f"begin isolation level repeatable read; set transaction snapshot '{name}'")
    assert await there.rows("select a from t") == [(1,)]
    assert (await there.error("select * from u")).sqlstate == "42P01"
    await there.run("rollback")
    assert await there.value("select count(*) from t") == 2
    await here.run("commit")


async def test_a_snapshot_of_nobody_is_not_imported(clients: list[Client]) -> None:
    here, _ = clients
    for name in ("x", "7FFFFFFF-00000000-1", "00000000-00000001-1"):
        await here.run("begin isolation level repeatable read")
        error = await here.error(f"set transaction snapshot '{name}'")
        assert (error.sqlstate, error.message) == ("22023", f'invalid snapshot identifier: "{name}"')
        await here.run("rollback")
    await here.run("begin isolation level read committed")
    assert (await here.error("set transaction snapshot '00000000-00000001-1'")).sqlstate == "0A000"
    await here.run("rollback; begin; savepoint s")
    assert (await here.error("select pg_export_snapshot()")).sqlstate == "25001"
    await here.run("rollback")


async def test_a_snapshot_stays_importable_while_nothing_happens(clients: list[Client]) -> None:
    """The servers' own writes, by which they stay alive and forget what is applied, take nothing of it away."""
    here, there = clients
    await here.run("create table t (a int); insert into t values (1)")
    await here.run("begin isolation level repeatable read")
    name = await here.value("select pg_export_snapshot()")
    env = here.session.state.services.env
    transaction = here.session.state.transaction
    assert transaction is not None
    assert transaction.snapshot is not None
    until = asyncio.get_running_loop().time() + 10
    while env.cache.state.since <= transaction.snapshot.csn:
        assert asyncio.get_running_loop().time() < until
        await asyncio.sleep(0.05)
    await there.run(f"begin isolation level repeatable read; set transaction snapshot '{name}'")
    assert await there.rows("select a from t") == [(1,)]
    await there.run("rollback")
    await here.run("commit")


async def test_notifications_reach_the_other_server_in_order(clients: list[Client]) -> None:
    here, there = clients
    await there.run("listen news; listen other")
    await here.run("listen shared")
    await there.run("listen shared")
    for number in range(20):
        await here.run(f"begin; notify news, '{number}'; notify nobody, 'x'; notify news, 'again'; commit")
    await here.run("begin; notify news, 'lost'; rollback")
    await here.run("notify other")
    got = there.notified
    for _ in range(1000):
        if len(got) == 41:
            break
        await asyncio.sleep(0.01)
    assert {pid for pid, _, _ in got} == {here.session.backend_pid}
    assert [payload for _, channel, payload in got if channel == "news"][::2] == [str(number) for number in range(20)]
    assert got[-1][1:] == ("other", "")
    for number in range(10):
        await (here, there)[number % 2].run(f"notify shared, '{number}'")
    for _ in range(1000):
        # As the connection does after each statement: what comes while one runs waits for its end.
        await there.session.deliver_notifications()
        await here.session.deliver_notifications()
        if len(got) == 51 and len(here.notified) == 10:
            break
        await asyncio.sleep(0.01)
    assert [payload for _, _, payload in here.notified] == [str(number) for number in range(10)]
    assert [payload for _, _, payload in got[41:]] == [str(number) for number in range(10)]


async def test_a_server_that_is_alone_writes_no_notifications_down(tmp_path: Path) -> None:
    options = ServerOptions(stores=StoreNames(data_dir=tmp_path / "data"), warm_spark=False, settings={})
    server = await Server.open(options)
    try:
        client = await connect(server)
        await client.run("listen news; notify news, 'x'")
        assert await server.env.consensus.head("notifications") is None
    finally:
        await server.close()
