"""Statements that wait for one row go on from each other's decided results, and nobody hears of what is not durable."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from adapter.sessions.server import Server
from adapter.transactions import decided_rows, group_commit
from adapter.transactions.commit_request import CommitRequest
from adapter.transactions.group_commit import GroupCommitter
from adapter.transactions.pending import State
from planner.errors import SqlError
from storage.catalog.model import PUBLIC_SCHEMA_OID
from storage.timestamps.csn import Csn
from storage.transactions import txn
from storage.transactions.rows_ahead import FIRST_AHEAD
from tests.adapter.harness import Client, connect
from tests.adapter.transactions.stalling import Stalling
from tests.simulation.checker import Append, Operation, ReadList, Status, Transaction, check

CLIENTS = 12
LEVELS = ("read committed", "repeatable read", "serializable")

Stalled = tuple[Stalling, Server]


async def clients_of(server: Server, level: str, count: int = CLIENTS) -> list[Client]:
    """Sessions, and a table `t` of a hot row and others."""
    clients = [await connect(server, default_transaction_isolation=level) for _ in range(count)]
    await clients[0].run("create table t (id int primary key, n int check (n < 100), other int default 0)")
    await clients[0].run("insert into t values (1, 0), (2, 0), (3, 50)")
    return clients


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.001)


def committing(clients: list[Client]) -> int:
    """How many of their transactions are decided and not over."""
    transactions = [client.session.state.transaction for client in clients]
    return sum([transaction is not None and transaction.state is State.COMMITTING for transaction in transactions])


def decided(server: Server) -> int:
    """How many transactions others have followed, or may."""
    return len(server.services.row_versions.decided._at)


async def queue_up(stalled: Stalled, clients: list[Client], text: str) -> list[asyncio.Task[Any]]:
    """Have all `clients` run `text` while the store is held up; returns when all of them are decided."""
    store, _ = stalled
    store.gate.clear()
    tasks = [asyncio.create_task(client.run(text)) for client in clients]
    await until(lambda: committing(clients) == len(clients))
    return tasks


@pytest.mark.parametrize("level", LEVELS)
async def test_a_queue_of_a_hot_row_is_one_group(stalling: Stalled, level: str) -> None:
    store, server = stalling
    clients = await clients_of(server, level)
    before = server.services.committer.groups
    tasks = await queue_up(stalling, clients, "update t set n = n + 1 where id = 1")
    store.gate.set()
    assert await asyncio.gather(*tasks) == [["UPDATE 1"]] * CLIENTS
    assert await clients[0].rows("select * from t order by id") == [(1, CLIENTS, 0), (2, 0, 0), (3, 50, 0)]
    # Perhaps the first goes when it comes; all others go together.
    groups = server.services.committer.groups - before
    assert groups <= 2
    assert decided(server) == 0
    # Of thirteen versions of the row two or three were ever written.
    relation = server.env.catalog.current().relation(PUBLIC_SCHEMA_OID, "t")
    assert relation is not None
    assert relation.shard is not None
    snapshot = await server.env.reader.snapshot(relation.shard, await server.env.oracle.read_ts("user"))
    assert sum(part.rows for part in snapshot.inserts) == 3 + groups
    await clients[0].run("update t set n = n + 1 where id = 1")
    assert await clients[1].value("select n from t where id = 1") == CLIENTS + 1


@pytest.mark.parametrize("level", LEVELS)
async def test_nobody_hears_of_what_is_not_durable(stalling: Stalled, level: str) -> None:
    store, server = stalling
    clients = await clients_of(server, level)
    tasks = await queue_up(stalling, clients[:6], "update t set n = n + 1 where id = 1")
    reader, failing, passing, returning, block = clients[6:11]
    assert await reader.value("select n from t where id = 1") == 0
    refused = asyncio.create_task(failing.error("update t set n = n + 94 where id = 1"))
    others: list[asyncio.Task[list[Any]]] = [
        asyncio.create_task(passing.run("update t set n = -1 where id = 1 and n = 0")),
        asyncio.create_task(returning.rows("update t set other = 1 where id = 1 returning n")),
        asyncio.create_task(block.run("begin isolation level read committed; update t set other = 2 where id = 1")),
    ]
    await asyncio.sleep(0.1)
    assert not any(task.done() for task in (*tasks, refused, *others))
    store.gate.set()
    await asyncio.gather(*tasks)
    # 6 + 94 does not pass the check, and 6 is not 0.
    assert (await refused).sqlstate == "23514"
    assert await others[0] == ["UPDATE 0"]
    assert await others[1] == [(6,)]
    assert await others[2] == ["BEGIN", "UPDATE 1"]
    await block.run("rollback")
    assert await reader.rows("select n, other from t where id = 1") == [(6, 1)]


@pytest.mark.parametrize("level", LEVELS)
async def test_followers_of_what_is_lost_run_again(stalling: Stalled, level: str) -> None:
    store, server = stalling
    clients = await clients_of(server, level)
    # The first goes alone, and what it is told, the others must not count on.
    tasks = await queue_up(stalling, clients[:1], "update t set n = n + 50 where id = 1")
    await asyncio.sleep(0.02)
    tasks += await queue_up(stalling, clients[1:], "update t set n = n + 1 where id = 1")
    store.failing = 1
    store.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [result.sqlstate for result in results if isinstance(result, SqlError)] == ["53100"]
    assert isinstance(results[0], SqlError)
    assert await clients[0].value("select n from t where id = 1") == CLIENTS - 1
    assert decided(server) == 0


async def test_a_follower_of_one_who_gives_up_runs_again(stalling: Stalled) -> None:
    store, server = stalling
    clients = await clients_of(server, "serializable")
    first, second, third = clients[:3]
    store.gate.clear()
    # A write of another row, so that the others wait in the queue.
    ahead = asyncio.create_task(first.run("update t set n = n + 1 where id = 2"))
    await until(lambda: committing(clients) == 1)
    gives_up = asyncio.create_task(second.run("update t set n = 90 where id = 1"))
    await until(lambda: committing(clients) == 2)
    follower = asyncio.create_task(third.run("update t set n = n + 1 where id = 1"))
    await until(lambda: committing(clients) == 3)
    gives_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gives_up
    store.gate.set()
    await asyncio.gather(ahead, follower)
    assert await first.rows("select id, n from t order by id") == [(1, 1), (2, 1), (3, 50)]


async def test_a_strangers_change_refuses_the_queue(stalling: Stalled) -> None:
    """Nobody was ahead in the locks; the commit alone judges."""
    _, server = stalling
    clients = await clients_of(server, "serializable", 6)
    strangers = [await connect(server, shares_locks=False) for _ in range(3)]

    async def work(client: Client) -> None:
        for _ in range(10):
            await client.run("update t set n = n + 1 where id = 1")

    await asyncio.gather(*(work(client) for client in (*clients, *strangers)))
    assert await clients[0].value("select n from t where id = 1") == 90


async def blocks_queue_up(stalled: Stalled, clients: list[Client], text: str) -> list[asyncio.Task[Any]]:
    """Have all `clients` run `text` in a block each while the store is held up; returns when all blocks are decided."""
    store, _ = stalled
    store.gate.clear()
    tasks = []
    for number, client in enumerate(clients, 1):
        assert await client.run("begin isolation level read committed") == ["BEGIN"]
        assert await client.run(text) == ["UPDATE 1"]
        tasks.append(asyncio.create_task(client.run("commit")))
        await until(lambda number=number: committing(clients) == number)  # type: ignore[misc]
    return tasks


async def test_blocks_follow_blocks(stalling: Stalled) -> None:
    store, server = stalling
    clients = await clients_of(server, "serializable")
    before = server.services.committer.groups
    tasks = await blocks_queue_up(stalling, clients, "update t set n = n + 1 where id = 1")
    assert not any(task.done() for task in tasks)
    store.gate.set()
    assert await asyncio.gather(*tasks) == [["COMMIT"]] * CLIENTS
    assert await clients[0].rows("select * from t order by id") == [(1, CLIENTS, 0), (2, 0, 0), (3, 50, 0)]
    assert server.services.committer.groups - before <= 2
    assert decided(server) == 0


async def test_a_block_shows_nothing_that_is_not_durable(stalling: Stalled) -> None:
    """What a block does after it has followed waits, unless it reads nothing, and sees each row once."""
    store, server = stalling
    clients = await clients_of(server, "serializable")
    await clients[0].run("create table log (n int)")
    tasks = await blocks_queue_up(stalling, clients[:3], "update t set n = n + 1 where id = 1")
    last = clients[3]
    await last.run("begin isolation level read committed; update t set n = n + 1 where id = 1; savepoint s")
    assert await last.run("insert into log values (1)") == ["INSERT 0 1"]
    reading = asyncio.create_task(last.rows("select id, n from t where n < 50 order by id"))
    returning = asyncio.create_task(clients[4].rows("update t set n = n + 1 where id = 1 returning n"))
    nothing = asyncio.create_task(clients[5].run("begin isolation level read committed"))
    await asyncio.sleep(0.1)
    assert not any(task.done() for task in (*tasks, reading, returning))
    assert await nothing == ["BEGIN"]
    store.gate.set()
    assert await reading == [(1, 4), (2, 0)]
    await last.run("update t set n = n + 1 where id = 1")
    await last.run("rollback to s; update t set other = 7 where id = 1")
    assert await last.rows("select id, n, other from t where n < 50 order by id") == [(1, 4, 7), (2, 0, 0)]
    await last.run("commit")
    assert await returning == [(5,)]
    assert await last.rows("select id, n, other from t order by id") == [(1, 5, 7), (2, 0, 0), (3, 50, 0)]
    assert await last.rows("select * from log") == []
    assert decided(server) == 0


async def test_blocks_that_follow_what_is_lost_fail(stalling: Stalled) -> None:
    """Whoever has followed a block that the store refused is told so, by COMMIT or by what it reads."""
    store, server = stalling
    clients = await clients_of(server, "serializable")
    # The first goes alone, and what it is told, the others must not count on.
    tasks = await blocks_queue_up(stalling, clients[:1], "update t set n = n + 50 where id = 1")
    await asyncio.sleep(0.02)
    tasks += await blocks_queue_up(stalling, clients[1:4], "update t set n = n + 1 where id = 1")
    reader, changeless, again = clients[4:7]
    update = "begin isolation level read committed; update t set n = n + 1 where id = 1"
    await reader.run(update)
    reading = asyncio.create_task(reader.error("select n from t where id = 1"))
    assert committing(clients) == 4
    alone = asyncio.create_task(again.run("update t set n = n + 1 where id = 1"))
    store.failing = 1
    store.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [result.sqlstate for result in results if isinstance(result, SqlError)] == ["53100"] + ["40001"] * 3
    assert (await reading).sqlstate == "40001"
    await reader.run("rollback")
    assert await alone == ["UPDATE 1"]
    await changeless.run(update)
    assert await changeless.run("commit") == ["COMMIT"]
    assert await clients[0].value("select n from t where id = 1") == 2
    assert decided(server) == 0


async def test_a_block_that_changes_nothing_waits_for_what_it_has_seen(stalling: Stalled) -> None:
    store, server = stalling
    clients = await clients_of(server, "serializable", 4)
    tasks = await blocks_queue_up(stalling, clients[:1], "update t set n = n + 1 where id = 1")
    await clients[1].run("begin isolation level read committed")
    assert await clients[1].run("update t set n = -1 where id = 1 and n = 0") == ["UPDATE 0"]
    ending = asyncio.create_task(clients[1].run("commit"))
    await asyncio.sleep(0.05)
    assert not ending.done()
    store.gate.set()
    await asyncio.gather(*tasks, ending)


async def test_a_block_that_was_followed_cannot_be_withdrawn(stalling: Stalled) -> None:
    store, server = stalling
    clients = await clients_of(server, "serializable", 4)
    store.gate.clear()
    ahead = asyncio.create_task(clients[0].run("update t set n = n + 1 where id = 2"))
    await until(lambda: committing(clients) == 1)
    await clients[1].run("begin isolation level read committed; update t set n = n + 1 where id = 1")
    first = asyncio.create_task(clients[1].run("commit"))
    await until(lambda: committing(clients) == 2)
    await clients[2].run("begin isolation level read committed; update t set n = n + 1 where id = 1")
    first.cancel()
    await asyncio.sleep(0.02)
    assert not first.done()
    store.gate.set()
    assert await clients[2].run("commit") == ["COMMIT"]
    await asyncio.gather(ahead, first, return_exceptions=True)
    assert await clients[0].value("select n from t where id = 1") == 2


@pytest.mark.parametrize("level", LEVELS)
async def test_deletes_and_returning_follow(stalling: Stalled, level: str) -> None:
    store, server = stalling
    clients = await clients_of(server, level)
    tasks = await queue_up(stalling, clients[:3], "update t set n = n + 1 where id = 1 returning n")
    deleting = asyncio.create_task(clients[3].rows("delete from t where id = 1 returning n"))
    await until(lambda: committing(clients) == 4)
    late = [asyncio.create_task(client.run("update t set n = n + 1 where id = 1")) for client in clients[4:6]]
    late.append(asyncio.create_task(clients[6].run("delete from t where id = 1")))
    await asyncio.sleep(0.05)
    assert not any(task.done() for task in (*tasks, deleting, *late))
    store.gate.set()
    assert sorted([result[0][0] for result in await asyncio.gather(*tasks)]) == [(1,), (2,), (3,)]
    assert await deleting == [(3,)]
    assert await asyncio.gather(*late) == [["UPDATE 0"], ["UPDATE 0"], ["DELETE 0"]]
    assert await clients[0].rows("select id from t order by id") == [(2,), (3,)]
    assert decided(server) == 0


async def test_what_is_more_than_a_row_waits(stalling: Stalled) -> None:
    store, server = stalling
    clients = await clients_of(server, "serializable", 4)
    await clients[0].run("create table child (id int references t)")
    tasks = await queue_up(stalling, clients[:1], "update t set n = n + 1 where id = 1")
    moving = asyncio.create_task(clients[1].run("update t set id = 11, n = n + 1 where id = 1"))
    deleting = asyncio.create_task(clients[2].run("delete from t where id = 11"))
    await asyncio.sleep(0.05)
    assert committing(clients) == 1
    store.gate.set()
    await asyncio.gather(*tasks, moving, deleting)
    left = await clients[3].rows("select id, n from t where id in (1, 11)")
    assert left in ([(11, 2)], [])


UPSERT = "insert into t values (1, 1) on conflict (id) do update set n = t.n + excluded.n"


@pytest.mark.parametrize("level", LEVELS)
async def test_upserts_of_a_hot_key_are_one_group(stalling: Stalled, level: str) -> None:
    store, server = stalling
    clients = await clients_of(server, level)
    before = server.services.committer.groups
    tasks = await queue_up(stalling, clients[:6], UPSERT + " returning n")
    tasks += await queue_up(stalling, clients[6:], "update t set n = n + 1 where id = 1 returning n")
    nothing = await connect(server, default_transaction_isolation=level)
    assert await nothing.run("insert into t values (1, 1) on conflict do nothing") == ["INSERT 0 0"]
    passing = asyncio.create_task(nothing.run(UPSERT + " where t.n = 0"))
    await asyncio.sleep(0.05)
    assert not any(task.done() for task in (*tasks, passing))
    store.gate.set()
    told = [result[0][0] for result in await asyncio.gather(*tasks)]
    assert sorted(told) == [(n,) for n in range(1, CLIENTS + 1)]
    assert await passing == ["INSERT 0 0"]
    assert await clients[0].rows("select * from t order by id") == [(1, CLIENTS, 0), (2, 0, 0), (3, 50, 0)]
    assert server.services.committer.groups - before <= 2
    assert decided(server) == 0


@pytest.mark.parametrize("level", LEVELS)
async def test_upserts_that_follow_what_is_lost_run_again(stalling: Stalled, level: str) -> None:
    store, server = stalling
    clients = await clients_of(server, level)
    tasks = await queue_up(stalling, clients[:1], "update t set n = n + 50 where id = 1")
    await asyncio.sleep(0.02)
    tasks += await queue_up(stalling, clients[1:], UPSERT)
    store.failing = 1
    store.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [result.sqlstate for result in results if isinstance(result, SqlError)] == ["53100"]
    assert await clients[0].value("select n from t where id = 1") == CLIENTS - 1
    assert decided(server) == 0


async def test_an_upsert_does_not_follow_to_another_key(stalling: Stalled) -> None:
    """Whose row is about to go, or to get another key, and who changes the key itself, waits for what is durable."""
    store, server = stalling
    clients = await clients_of(server, "serializable")
    tasks = await queue_up(stalling, clients[:1], "update t set id = 11 where id = 1")
    tasks.append(asyncio.create_task(clients[1].run(UPSERT)))
    tasks += await queue_up(stalling, clients[2:3], "update t set n = 7 where id = 2")
    moving = "insert into t values (2, 1) on conflict (id) do update set id = 12, n = t.n + 1"
    tasks.append(asyncio.create_task(clients[3].run(moving)))
    tasks += await queue_up(stalling, clients[4:5], "delete from t where id = 3")
    tasks.append(asyncio.create_task(clients[5].run(UPSERT.replace("(1, 1)", "(3, 4)"))))
    await asyncio.sleep(0.05)
    assert not any(task.done() for task in tasks)
    store.gate.set()
    await asyncio.gather(*tasks)
    found = await clients[0].rows("select id, n from t order by id")
    assert found == [(1, 1), (3, 4), (11, 0), (12, 8)]
    assert decided(server) == 0


READING_BESIDE = (
    "with u as (update t set n = n + 1 where id = 1 returning n) select u.n - t.n from u, t where t.id = 1",
    f"with u as ({UPSERT} returning n) select u.n - t.n from u, t where t.id = 1",
    "insert into t select id, n + 1 from t where id = 1 on conflict (id) do update set n = excluded.n returning 1",
)


@pytest.mark.parametrize("text", READING_BESIDE)
async def test_who_reads_the_row_besides_sees_one_version(stalling: Stalled, text: str) -> None:
    store, server = stalling
    clients = await clients_of(server, "serializable", 4)
    tasks = await queue_up(stalling, clients[:1], "update t set n = n + 1 where id = 1")
    asking = [asyncio.create_task(client.rows(text)) for client in clients[1:]]
    await asyncio.sleep(0.05)
    store.gate.set()
    await asyncio.gather(*tasks)
    assert await asyncio.gather(*asking) == [[(1,)]] * 3
    assert await clients[0].value("select n from t where id = 1") == 4


async def test_upserts_of_blocks_follow(stalling: Stalled) -> None:
    store, server = stalling
    clients = await clients_of(server, "serializable")
    store.gate.clear()
    tasks = []
    for number, client in enumerate(clients, 1):
        await client.run("begin isolation level read committed")
        assert await client.run(UPSERT) == ["INSERT 0 1"]
        tasks.append(asyncio.create_task(client.run("commit")))
        await until(lambda number=number: committing(clients) == number)  # type: ignore[misc]
    assert not any(task.done() for task in tasks)
    store.gate.set()
    assert await asyncio.gather(*tasks) == [["COMMIT"]] * CLIENTS
    assert await clients[0].value("select n from t where id = 1") == CLIENTS
    assert decided(server) == 0


async def run_history(stalled: Stalled, seed: int, *, rounds: int = 8) -> list[str]:
    """What the history checker finds in the lists of clients of which many change one row, while the store is slow, is
    full now and then, and loses answers."""
    store, server = stalled
    chance = random.Random(seed)
    setup = await connect(server)
    await setup.run("create table lists (id int primary key, items text not null)")
    await setup.run("insert into lists values (0, ''), (1, '')")
    history: list[Transaction] = []
    real: Any = store.compare_and_set

    async def troubled(*arguments: Any) -> Any:
        await asyncio.sleep(chance.random() * 0.004)
        trouble = chance.random()
        store.failing, store.lost_answers = int(trouble < 0.08), int(0.08 <= trouble < 0.12)
        return await real(*arguments)

    async def items_of(client: Client, key: int) -> tuple[int, ...]:
        rows = await client.rows(f"select items from lists where id = {key}")
        return tuple(int(item) for (items,) in rows for item in items.split(",")[:-1])

    def append(key: int, value: int) -> str:
        if chance.random() < 0.4:
            return (
                f"insert into lists values ({key}, '{value},')"
                " on conflict (id) do update set items = lists.items || excluded.items"
            )
        return f"update lists set items = items || '{value},' where id = {key}"

    async def work(number: int) -> None:
        level = chance.choice(("serializable", "serializable", "read committed"))
        client = await connect(server, default_transaction_isolation=level)
        for turn in range(rounds):
            key, value = int(chance.random() < 0.2), 1_000 * (number + 1) + turn
            kind, began = chance.choice(("read", "alone", "alone", "block", "block", "both")), time.monotonic()
            keys = (0, 1) if kind == "both" else (key,)
            operations: list[Operation] = [Append(key, value) for key in keys]
            status: Status = "ok"
            try:
                if kind == "read":
                    operations = [ReadList(key, await items_of(client, key))]
                elif kind == "alone":
                    await client.run(append(key, value))
                else:
                    await client.run("begin isolation level read committed")
                    for key in keys:
                        await client.run(append(key, value))
                    await client.run("commit")
            except SqlError as error:
                if client.status != "I":
                    await client.run("rollback")
                if kind == "read":
                    continue
                status = "info" if error.sqlstate == "40003" else "fail"
            note(operations, status, began, None if status == "info" else time.monotonic())

    def note(operations: Sequence[Operation], status: Status, began: float, ended: float | None) -> None:
        history.append(
            Transaction(id=len(history), operations=tuple(operations), status=status, began=began, ended=ended)
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "compare_and_set", troubled)
        await asyncio.gather(*(work(number) for number in range(CLIENTS)))
        store.failing = store.lost_answers = 0
    began = time.monotonic()
    last = [ReadList(key, await items_of(setup, key)) for key in (0, 1)]
    note(last, "ok", began, time.monotonic())
    return [str(anomaly) for anomaly in check(history)]


@pytest.mark.parametrize("seed", range(2))
async def test_histories_are_strictly_serializable(stalling: Stalled, seed: int) -> None:
    assert await run_history(stalling, seed) == []


def answers_followers_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower is answered when it is decided."""
    real = GroupCommitter.commit

    async def commit(self: GroupCommitter, request: CommitRequest) -> Csn:
        if not request.follows:
            return await real(self, request)
        waiting = await self._enqueue(request)
        waiting.done.add_done_callback(lambda done: done.exception())
        return request.snapshot

    monkeypatch.setattr(GroupCommitter, "commit", commit)


def follows_what_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower is committed whatever has become of those whom it has followed."""
    real = decided_rows.DecidedRows.row

    def row(self: Any, shard: Any, name: int, followed: Any) -> Any:
        found = real(self, shard, name, followed)
        followed.clear()
        return found

    def settled(request: CommitRequest, accepted: Any) -> CommitRequest:
        return request

    monkeypatch.setattr(decided_rows.DecidedRows, "row", row)
    monkeypatch.setattr(group_commit, "followed", settled)
    monkeypatch.setattr(txn, "netted", without_names)


def without_names(inserts: Any, deletes: Any, places: Any) -> Any:
    """Deletions of rows that are not there are left out."""
    kept = [(scope, table) for scope, table in deletes if table.column(0).to_pylist()[0] < FIRST_AHEAD]
    return inserts, kept


@pytest.mark.stalls(10.0)  # What a mistake makes of the loop does not matter.
@pytest.mark.parametrize("mistake", [answers_followers_early, follows_what_is_lost])
async def test_mistakes_are_found(
    stalling: Stalled, mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    assert await run_history(stalling, 1)
