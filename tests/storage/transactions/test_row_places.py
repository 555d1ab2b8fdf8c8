"""The ids that new rows get, told from the provisional ones, whatever the commit puts together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from storage.environment.environment import Environment
from storage.ids import ShardId
from storage.shards.parts import PROVISIONAL_ROW_ID
from storage.timestamps.csn import Csn
from storage.transactions.row_places import Run, committed_ids
from storage.transactions.txn import Txn
from tests.storage.environments import Stores, commit, create, deletion, read, rows


async def _values(env: Environment, shard: ShardId, csn: Csn, merged: Txn, member: Txn, ids: list[int]) -> list[int]:
    """The rows that `ids` of `member` have become, found by their new ids."""
    snapshot = await env.reader.snapshot(shard, csn)
    parts = [part for part in snapshot.inserts if part.csn == csn]
    actual = merged.committed_row_ids(member, shard, np.array(ids, np.int64), parts)
    contents = await read(env, shard)
    return [contents[int(row_id)][0] for row_id in actual]


def _ids(first: int, count: int) -> list[int]:
    return list(range(first, first + count))


async def test_members_of_a_group() -> None:
    env = await Stores().open()
    shard, other = await create(env, (-1, "x"), (-2, "x")), await create(env)
    members = [env.begin() for _ in range(4)]
    firsts = [[member.write(shard, rows((n * 100, "a"), (n * 100 + 1, "a")))] for n, member in enumerate(members)]
    members[1].write(other, rows((5, "b")))
    for n, member in enumerate(members):
        if n != 2:
            firsts[n].append(member.write(shard, rows((n * 100 + 2, "c"))))
    members[3].delete(shard, deletion((0, -1, "x")))
    merged = env.begin()
    for member in members:
        merged.merge(member)
    csn = (await commit(env, merged)).ts
    for n, (member, (first, *_)) in enumerate(zip(members, firsts, strict=True)):
        count = 2 if n == 2 else 3
        assert await _values(env, shard, csn, merged, member, _ids(first, count)) == _ids(n * 100, count)
    assert await _values(env, shard, csn, merged, members[0], [1, firsts[0][0]]) == [-2, 0]


async def test_rows_deleted_by_their_own_transaction_and_spilled_ones() -> None:
    env = await Stores().open()
    shard = await create(env)
    txn = env.begin()
    first = txn.write(shard, rows(*[(n, "x") for n in range(10)]))
    await txn.spill(force=True)
    second = txn.write(shard, rows((10, "y")))
    savepoint = txn.savepoint()
    txn.write(shard, rows((99, "gone")))
    txn.rollback_to(savepoint)
    third = txn.write(shard, rows((11, "z"), (12, "z")))
    txn.delete(shard, deletion((first + 3, 3, "x")))
    csn = (await commit(env, txn)).ts
    assert await _values(env, shard, csn, txn, txn, [first + 9, second, third + 1]) == [9, 10, 12]
    snapshot = await env.reader.snapshot(shard, csn)
    with pytest.raises(ValueError, match="parts were committed"):
        txn.committed_row_ids(txn, shard, np.array([first], np.int64), snapshot.inserts[:1])


def test_rows_that_were_not_committed_are_noticed() -> None:
    ids = np.array([PROVISIONAL_ROW_ID + 5], np.int64)
    with pytest.raises(ValueError, match="were not committed"):
        committed_ids(ids, 0, [], [])
    with pytest.raises(ValueError, match="0 parts were committed, 1 were sealed"):
        committed_ids(ids, 0, [[Run(0, PROVISIONAL_ROW_ID, 9)]], [])
    assert pa.array(committed_ids(np.array([7], np.int64), 0, [], [])).to_pylist() == [7]
