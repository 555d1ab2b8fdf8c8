"""Group commit and validation, against an environment in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from adapter.plans.predicates import Comparison, Conjunction
from adapter.sessions.server import Server
from adapter.settings.values import SettingValues
from adapter.transactions.commit_request import Isolation, TableRead
from adapter.transactions.group_commit import GroupCommitter
from adapter.transactions.locks.lock import Owner, Patience
from adapter.transactions.locks.lock_table import LockTable, SessionLocks
from adapter.transactions.pending import State
from adapter.transactions.transaction import Transaction
from planner.errors import SqlError
from storage.catalog.model import PUBLIC_SCHEMA_OID, CatalogUpdate, Column, Relation
from storage.clock import SystemClock
from storage.doubles.clock import SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.environment.environment import Environment
from storage.environment.opening import open_on_stores
from storage.shards.parts import ROW_ID
from tests.adapter.harness import blocked, connect
from tests.adapter.transactions.stalling import Stalling

SCHEMA = pa.schema([("c1", pa.int32())])


@pytest.fixture
async def env() -> AsyncIterator[Environment]:
    environment = await open_on_stores(
        blob=MemoryBlob(),
        consensus=MemoryConsensus(),
        clock=SystemClock(),
        random=SeededRandomness(7),
        process="test",
        validate=True,
    )
    yield environment
    await environment.close()


@pytest.fixture
async def committer(env: Environment) -> AsyncIterator[GroupCommitter]:
    group = GroupCommitter(env)
    group.start()
    yield group
    await group.close()


async def _begin(env: Environment, isolation: Isolation = Isolation.SERIALIZABLE) -> Transaction:
    transaction = Transaction(
        isolation=isolation,
        read_only=False,
        deferrable=False,
        implicit=False,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        settings_at_start=SettingValues(),
        locks=SessionLocks(LockTable(env.clock), Owner(pid=1), Patience),
    )
    await transaction.begin_statement(env)
    return transaction


async def _commit(env: Environment, committer: GroupCommitter, transaction: Transaction) -> None:
    await committer.commit(transaction.commit_request(env))
    transaction.end(State.COMMITTED)


async def _table(env: Environment, committer: GroupCommitter, *values: int) -> Relation:
    transaction = await _begin(env)
    relation = _relation(env, 20000, "t")
    transaction.change_catalog([CatalogUpdate(record=relation, diff=1)])
    txn = transaction.writable(env)
    assert relation.shard is not None
    txn.create_shard(relation.shard, SCHEMA)
    if values:
        txn.write(relation.shard, _rows(*values))
    await _commit(env, committer, transaction)
    return relation


def _relation(env: Environment, oid: int, name: str) -> Relation:
    column = Column(attnum=1, name="a", type_oid=23)
    return Relation(
        oid=oid, name=name, schema=PUBLIC_SCHEMA_OID, owner=10, kind="r", columns=(column,), shard=env.new_shard_id()
    )


def _rows(*values: int) -> Any:
    return pa.table({"c1": pa.array(values, pa.int32())})


def _read(transaction: Transaction, relation: Relation, *comparisons: Comparison) -> None:
    conjunction: Conjunction = comparisons
    assert relation.shard is not None
    assert transaction.snapshot is not None
    transaction.record_read(
        TableRead(
            relation_oid=relation.oid, shard=relation.shard, as_of=transaction.snapshot.csn, conjunctions=(conjunction,)
        )
    )


async def _count(env: Environment, relation: Relation) -> int:
    assert relation.shard is not None
    return (await env.reader.snapshot(relation.shard, await env.oracle.read_ts("user"))).rows


async def test_waiting_commits_share_one_write(env: Environment, committer: GroupCommitter) -> None:
    relation = await _table(env, committer)
    assert relation.shard is not None
    transactions = [await _begin(env) for _ in range(20)]
    for number, transaction in enumerate(transactions):
        transaction.writable(env).write(relation.shard, _rows(number))
    before = committer.groups
    await asyncio.gather(*(_commit(env, committer, transaction) for transaction in transactions))
    assert committer.groups - before <= 2
    assert await _count(env, relation) == 20


async def test_write_skew_is_refused_precisely(env: Environment, committer: GroupCommitter) -> None:
    relation = await _table(env, committer, 1, 2)
    assert relation.shard is not None
    first, second, third = [await _begin(env) for _ in range(3)]
    _read(first, relation, Comparison("c1", ">", 100))
    first.writable(env).write(relation.shard, _rows(200))
    _read(second, relation, Comparison("c1", ">", 100))
    second.writable(env).write(relation.shard, _rows(300))
    _read(third, relation, Comparison("c1", "<", 100))
    third.writable(env).write(relation.shard, _rows(400))
    results = await asyncio.gather(
        *(_commit(env, committer, transaction) for transaction in (first, second, third)), return_exceptions=True
    )
    assert results[0] is None
    assert isinstance(results[1], SqlError)
    assert results[1].sqlstate == "40001"
    assert results[2] is None
    assert await _count(env, relation) == 4


async def test_repeatable_read_allows_write_skew(env: Environment, committer: GroupCommitter) -> None:
    relation = await _table(env, committer, 1)
    assert relation.shard is not None
    first, second = [await _begin(env, Isolation.REPEATABLE_READ) for _ in range(2)]
    for transaction in (first, second):
        _read(transaction, relation)
        transaction.writable(env).write(relation.shard, _rows(5))
        await _commit(env, committer, transaction)
    assert await _count(env, relation) == 3


@pytest.mark.parametrize("isolation", list(Isolation))
async def test_the_first_to_delete_a_row_wins(
    env: Environment, committer: GroupCommitter, isolation: Isolation
) -> None:
    relation = await _table(env, committer, 1, 2, 3)
    assert relation.shard is not None
    transactions = [await _begin(env, isolation) for _ in range(3)]
    for transaction, row_id in zip(transactions, (0, 0, 1), strict=True):
        rows = pa.table({ROW_ID: pa.array([row_id], pa.int64()), "c1": pa.array([row_id + 1], pa.int32())})
        transaction.writable(env).delete(relation.shard, rows)
    await _commit(env, committer, transactions[0])
    with pytest.raises(SqlError) as caught:
        await _commit(env, committer, transactions[1])
    assert caught.value.sqlstate == "40001"
    await _commit(env, committer, transactions[2])
    assert await _count(env, relation) == 1


async def test_ddl_of_two_transactions_at_once(env: Environment, committer: GroupCommitter) -> None:
    first, second, third = [await _begin(env) for _ in range(3)]
    for transaction, oid, name in ((first, 20001, "a"), (second, 20002, "b"), (third, 20003, "a")):
        relation = _relation(env, oid, name)
        transaction.change_catalog([CatalogUpdate(record=relation, diff=1)])
        assert relation.shard is not None
        transaction.writable(env).create_shard(relation.shard, SCHEMA)
    results = await asyncio.gather(
        *(_commit(env, committer, transaction) for transaction in (first, second, third)), return_exceptions=True
    )
    assert results[:2] == [None, None]
    assert isinstance(results[2], SqlError)
    assert results[2].sqlstate == "40001"
    names = {record.name for record in env.catalog.current().all() if isinstance(record, Relation)}
    assert names == {"a", "b"}


async def test_a_table_that_came_and_went_in_a_transaction_does_not_fail_other_definitions(
    env: Environment, committer: GroupCommitter
) -> None:
    table = await _table(env, committer)
    passing, maker, writer = [await _begin(env) for _ in range(3)]
    gone, made = _relation(env, 20001, "gone"), _relation(env, 20002, "made")
    assert gone.shard is not None
    assert made.shard is not None
    assert table.shard is not None
    for diff in (1, -1):
        passing.change_catalog([CatalogUpdate(record=gone, diff=diff)])
    passing.writable(env).create_shard(gone.shard, SCHEMA)
    passing.writable(env).forget_shard(gone.shard)
    maker.change_catalog([CatalogUpdate(record=made, diff=1)])
    maker.writable(env).create_shard(made.shard, SCHEMA)
    writer.writable(env).write(table.shard, _rows(1))
    await asyncio.gather(*(_commit(env, committer, transaction) for transaction in (writer, passing, maker)))
    names = {record.name for record in env.catalog.current().all() if isinstance(record, Relation)}
    assert names == {"t", "made"}
    assert await _count(env, table) == 1


async def test_a_dropped_table_fails_who_writes_to_it(env: Environment, committer: GroupCommitter) -> None:
    relation = await _table(env, committer, 1)
    assert relation.shard is not None
    writer, dropper = await _begin(env), await _begin(env)
    writer.rely_on([relation])
    writer.writable(env).write(relation.shard, _rows(9))
    dropper.change_catalog([CatalogUpdate(record=relation, diff=-1)])
    dropper.writable(env).forget_shard(relation.shard)
    await _commit(env, committer, dropper)
    with pytest.raises(SqlError) as caught:
        await _commit(env, committer, writer)
    assert caught.value.sqlstate == "40001"


async def test_cancel_withdraws_what_still_waits(env: Environment) -> None:
    committer = GroupCommitter(env)
    transaction = await _begin(env)
    transaction.writable(env)
    task = asyncio.ensure_future(committer.commit(transaction.commit_request(env)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    committer.start()
    await committer.close()
    assert committer.groups == 0


async def test_asynchronous_commits_are_answered_before_they_are_durable(
    stalling: tuple[Stalling, Server],
) -> None:
    store, server = stalling
    client, other = await connect(server), await connect(server)
    await client.run("create table t (a int); set synchronous_commit = off")
    store.gate.clear()
    for number in range(20):
        await client.run(f"insert into t values ({number})")
    assert await other.value("select count(*) from t") == 0
    reading = asyncio.create_task(client.value("select count(*) from t"))
    await asyncio.sleep(0.05)
    assert not reading.done()
    store.gate.set()
    assert await reading == 20
    assert await other.value("select count(*) from t") == 20
    await client.run("update t set a = a + 1; delete from t where a = 1")
    for session in (client, other):
        assert await session.value("select count(*) from t where a > 1") == 19


async def test_what_was_answered_survives_failures_of_the_store(stalling: tuple[Stalling, Server]) -> None:
    store, server = stalling
    client = await connect(server)
    await client.run("create table t (a int); set synchronous_commit = off")
    store.failing = 3
    await client.run("insert into t values (1)")
    assert await client.value("select count(*) from t") == 1
    # Its answer is lost for so long that nobody knows: it is not there twice.
    store.lost_answers = 12
    await client.run("insert into t values (2)")
    assert await client.rows("select a from t order by a") == [(1,), (2,)]


async def test_conflicts_are_told_before_the_answer(stalling: tuple[Stalling, Server]) -> None:
    _, server = stalling
    client, other = await connect(server), await connect(server, shares_locks=False)
    await client.run("create table t (a int); insert into t values (1); set synchronous_commit = off")
    await client.run("begin; update t set a = a + 1")
    await other.run("update t set a = a + 10")
    assert (await client.error("commit")).sqlstate == "40001"
    assert await client.value("select a from t") == 11


async def test_nobody_is_answered_early_while_others_join(stalling: tuple[Stalling, Server]) -> None:
    store, server = stalling
    client = await connect(server)
    await client.run("create table t (a int); set synchronous_commit = off")
    store.gate.clear()
    await client.run("insert into t values (1)")
    room = asyncio.create_task(server.env.peers.make_room())
    await asyncio.sleep(0.02)
    assert not room.done()
    late = asyncio.create_task(client.run("insert into t values (2)"))
    await asyncio.sleep(0.02)
    assert not late.done()
    store.gate.set()
    await room
    await late
    assert await client.value("select count(*) from t") == 2


async def test_commits_need_not_wait_to_be_visible(stalling: tuple[Stalling, Server]) -> None:
    _, server = stalling
    client = await connect(server)
    await client.run("create table t (a int); set synchronous_visibility = off")
    for number in range(10):
        await client.run(f"insert into t values ({number})")
        assert await client.value("select count(*) from t") == number + 1


async def test_read_uncommitted_sees_what_is_decided_and_not_durable(stalling: tuple[Stalling, Server]) -> None:
    store, server = stalling
    writer, early, other, reader = [await connect(server) for _ in range(4)]
    await writer.run("create table t (a int); create table u (a int); insert into t values (1), (2), (3)")
    await early.run("set synchronous_commit = off; select txid_current()")
    await reader.run("set default_transaction_isolation = 'read uncommitted'")
    store.gate.clear()
    # This one deletes rows that it has inserted itself, and waits to be durable; the next ones are answered.
    await writer.run("begin; insert into t values (10), (11); delete from t where a in (3, 11)")
    await writer.run("insert into u values (1)")
    waiting = asyncio.create_task(writer.run("commit"))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    for number in range(20, 23):
        await early.run(f"insert into t values ({number})")
    everything = [(1,), (2,), (10,), (20,), (21,), (22,)]
    for _ in range(2):
        assert await reader.rows("select a from t order by a") == everything
        assert await reader.rows("select count(*), max(u.a) from t, u") == [(6, 1)]
    assert await other.rows("select a from t order by a") == [(1,), (2,), (3,)]
    assert not waiting.done()
    # What is written must not rest on what may never be.
    await reader.run("begin")
    await reader.run("insert into u select a from t")
    assert await reader.rows("select a from u order by a") == [(1,), (1,), (2,), (3,)]
    await reader.run("rollback")
    assert await reader.rows("select a from t for update skip locked") == [(1,), (2,)]
    locking = await blocked(reader, "select a from t for update")
    store.gate.set()
    await waiting
    assert await locking.result() == [[(1,), (2,)]]
    # A session waits until its own commits are visible.
    assert await early.value("select count(*) from t") == 6
    for session in (reader, other):
        assert await session.rows("select a from t order by a") == everything


async def test_read_uncommitted_never_sees_a_row_twice(stalling: tuple[Stalling, Server]) -> None:
    _, server = stalling
    writers = [await connect(server) for _ in range(4)]
    reader = await connect(server)
    await writers[0].run("create table t (a int, b int)")
    await writers[1].run("set synchronous_commit = off")
    await writers[2].run("set synchronous_visibility = off")
    await reader.run("set default_transaction_isolation = 'read uncommitted'")
    done = False

    async def write(number: int) -> None:
        for step in range(30):
            await writers[number].run(f"insert into t values ({number * 1000 + step}, 0), ({number * 1000 + step}, 1)")

    async def look() -> None:
        while not done:
            assert await reader.rows("select a, count(*) from t group by a having count(*) <> 2") == []
            await asyncio.sleep(0)  # A read of a small table waits for nobody; the writers are to have their turns.

    looking = asyncio.create_task(look())
    await asyncio.gather(*(write(number) for number in range(4)))
    done = True
    await looking
    assert await reader.value("select count(*) from t") == 240
