"""Group commit and validation, against an environment in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from adapter.group_commit import GroupCommitter
from adapter.predicates import Comparison, Conjunction
from adapter.transactions import Isolation, TableRead, Transaction
from adapter.variables import SettingValues
from planner.errors import SqlError
from storage.blob_memory import MemoryBlob
from storage.catalog_model import PUBLIC_SCHEMA_OID, CatalogUpdate, Column, Relation
from storage.clock import SeededRandomness, SystemClock
from storage.consensus_memory import MemoryConsensus
from storage.environment import Environment
from storage.parts import ROW_ID

SCHEMA = pa.schema([("c1", pa.int32())])


@pytest.fixture
async def env() -> AsyncIterator[Environment]:
    environment = await Environment.open(
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
    )
    await transaction.begin_statement(env)
    return transaction


async def _commit(env: Environment, committer: GroupCommitter, transaction: Transaction) -> None:
    await committer.commit(transaction.commit_request(env))
    transaction.end()


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
            relation_oid=relation.oid, shard=relation.shard, as_of=transaction.snapshot, conjunctions=(conjunction,)
        )
    )


async def _count(env: Environment, relation: Relation) -> int:
    assert relation.shard is not None
    return (await env.snapshot(relation.shard, await env.oracle.read_ts("user"))).rows


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
