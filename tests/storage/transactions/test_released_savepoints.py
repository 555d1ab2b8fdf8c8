"""Savepoints that are forgotten: what was written since stays, as if they had never been."""

from __future__ import annotations

import pyarrow as pa
import pytest

from storage.environment.environment import Environment
from storage.ids import ShardId
from storage.shards.parts import PROVISIONAL_ROW_ID, ROW_ID
from storage.transactions.txn import Txn
from tests.storage.environments import Stores

SHARD, OTHER = ShardId("t" + "a" * 26), ShardId("t" + "b" * 26)


def rows(*values: int) -> pa.Table:
    return pa.table({"c1": pa.array(values, pa.int64())})


def deletion(row_id: int, value: int) -> pa.Table:
    return pa.table({ROW_ID: pa.array([row_id], pa.int64()), "c1": pa.array([value], pa.int64())})


async def content(txn: Txn, shard: ShardId, env: Environment) -> list[tuple[int, int]]:
    """Row ids and values, of what is there."""
    found: dict[int, int] = {}
    gone: set[int] = set()
    for part in txn.local_parts(shard):
        table = await env.reader.read_part(part, [ROW_ID, "c1"])
        ids = table.column(0).to_pylist()
        if part.kind == "delete":
            gone.update(ids)
        else:
            found.update(zip(ids, table.column(1).to_pylist(), strict=True))
    return sorted((row_id - PROVISIONAL_ROW_ID, value) for row_id, value in found.items() if row_id not in gone)


async def test_what_was_written_since_stays() -> None:
    env = await Stores().open()
    txn = env.begin()
    txn.write(SHARD, rows(1, 2))
    for number in range(3, 30):
        savepoint = txn.savepoint()
        assert txn.write(SHARD, rows(number)) == PROVISIONAL_ROW_ID + number - 1
        if number == 10:
            txn.delete(SHARD, deletion(PROVISIONAL_ROW_ID, 1))
            txn.write(OTHER, rows(7))
        txn.release(savepoint)
        assert len(await content(txn, SHARD, env)) == number - (number >= 10)
    assert await content(txn, SHARD, env) == [(number - 1, number) for number in range(2, 30)]
    assert await content(txn, OTHER, env) == [(0, 7)]
    # One run: as many parts as if there had been no savepoint.
    assert len([part for part in txn.local_parts(SHARD) if part.kind == "insert"]) < 8
    with pytest.raises(ValueError, match="does not exist"):
        txn.rollback_to(savepoint)


async def test_after_one_was_gone_back_to() -> None:
    env = await Stores().open()
    txn = env.begin()
    txn.write(SHARD, rows(1))
    savepoint = txn.savepoint()
    txn.write(SHARD, rows(2))
    txn.rollback_to(savepoint)
    txn.write(SHARD, rows(3))
    txn.release(savepoint)
    inner = txn.savepoint()
    txn.write(SHARD, rows(4))
    await txn.spill(force=True)
    txn.release(inner)
    assert await content(txn, SHARD, env) == [(0, 1), (1, 3), (2, 4)]


async def test_rows_of_a_shard_can_be_forgotten() -> None:
    env = await Stores().open()
    txn = env.begin()
    txn.write(SHARD, rows(1, 2))
    txn.write(OTHER, rows(9))
    await txn.spill(force=True)
    txn.savepoint()
    txn.write(SHARD, rows(3))
    txn.discard_rows(SHARD)
    assert await content(txn, SHARD, env) == []
    assert txn.write(SHARD, rows(4)) == PROVISIONAL_ROW_ID + 3
    assert await content(txn, SHARD, env) == [(3, 4)]
    assert await content(txn, OTHER, env) == [(0, 9)]
