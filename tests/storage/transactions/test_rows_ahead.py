"""Transactions that change rows of others which have not committed yet."""

from __future__ import annotations

import pyarrow as pa
import pytest

from storage.environment.environment import Environment
from storage.ids import ShardId
from storage.shards.parts import PROVISIONAL_ROW_ID, ROW_ID
from storage.timestamps.csn import Csn
from storage.transactions.rows_ahead import MAX_PLACES, place_of, row_ahead
from storage.transactions.txn import Txn
from tests.storage.environments import Stores, commit, create, deletion, read, rows


def test_a_name_says_whose_row_it_is() -> None:
    for place in (1, 2, MAX_PLACES):
        for number in (0, 1, 10**12):
            name = row_ahead(place, PROVISIONAL_ROW_ID + number)
            assert place_of(name) == (place, PROVISIONAL_ROW_ID + number)
            assert pa.scalar(name, pa.int64()).as_py() == name


async def start(*values: tuple[int, str | None]) -> tuple[Environment, ShardId]:
    env = await Stores().open()
    return env, await create(env, *values)


async def values_of(env: Environment, shard: ShardId) -> list[tuple[int, str]]:
    """The rows, ascending."""
    return sorted((await read(env, shard)).values())


def change(txn: Txn, shard: ShardId, old: tuple[int, int, str | None], new: str) -> int:
    """Replace the row `old` (with its id first) by one with the value `new`; the new one's provisional id."""
    txn.delete(shard, deletion(old))
    return txn.write(shard, rows((old[1], new)))


async def test_a_queue_of_changes_leaves_one_row() -> None:
    env, shard = await start((1, "a"), (2, "b"))
    whole = env.begin()
    name, value = 0, "a"
    for place in range(1, 9):
        txn = env.begin()
        txn.place = place
        first = change(txn, shard, (name, 1, value), f"v{place}")
        txn.write(shard, rows((10 + place, "own")))
        name, value = row_ahead(place, first), f"v{place}"
        whole.merge(txn)
    committed = await commit(env, whole)
    assert await values_of(env, shard) == sorted([(1, "v8"), (2, "b"), *((10 + place, "own") for place in range(1, 9))])
    changes = await env.reader.changes(shard, Csn(committed.ts - 1), committed.ts)
    assert [part.rows for part in changes.deletes] == [1]
    assert [part.rows for part in changes.inserts] == [9]
    await env.close()


async def test_where_the_rows_of_each_went() -> None:
    env, shard = await start((1, "a"))
    one, two, whole = env.begin(), env.begin(), env.begin()
    one.place, two.place = 7, 3
    kept = one.write(shard, rows((5, "kept"), (6, "changed"), (7, "kept too")))
    first = change(two, shard, (row_ahead(7, kept + 1), 6, "changed"), "later")
    whole.merge(one)
    whole.merge(two)
    committed = await commit(env, whole)
    parts = (await env.reader.changes(shard, Csn(committed.ts - 1), committed.ts)).inserts
    at: dict[str, int] = {}
    for part in parts:
        table = await env.reader.read_part(part, [ROW_ID, "c2"])
        at.update(zip(table.column("c2").to_pylist(), table.column(ROW_ID).to_pylist(), strict=True))
    ids = pa.array([kept, kept + 2]).to_numpy()
    assert whole.committed_row_ids(one, shard, ids, parts).tolist() == [at["kept"], at["kept too"]]
    assert whole.committed_row_ids(two, shard, pa.array([first]).to_numpy(), parts).tolist() == [at["later"]]
    with pytest.raises(ValueError, match="not committed"):
        whole.committed_row_ids(one, shard, pa.array([kept + 1]).to_numpy(), parts)
    await env.close()


async def test_rows_of_one_who_has_committed_before() -> None:
    env, shard = await start((1, "a"))
    one, two = env.begin(), env.begin()
    one.place = 1
    first = change(one, shard, (0, 1, "a"), "b")
    change(two, shard, (row_ahead(1, first), 1, "b"), "c")
    await commit(env, one)
    two.settle(shard, {row_ahead(1, first): 1})
    await commit(env, two)
    assert await values_of(env, shard) == [(1, "c")]
    await env.close()


async def test_what_was_worked_out_from_is_not_there() -> None:
    env, shard = await start((1, "a"))
    for names in ((PROVISIONAL_ROW_ID,), (PROVISIONAL_ROW_ID + 5,)):
        one, whole = env.begin(), env.begin()
        one.place = 1
        one.write(shard, rows((2, "x")))
        for name in names:
            two = env.begin()
            two.delete(shard, deletion((row_ahead(2 if name == names[0] else 1, name), 2, "x")))
            whole.merge(two)
        whole.merge(one)
        with pytest.raises(ValueError, match="not part of the commit"):
            await commit(env, whole)
    one, whole = env.begin(), env.begin()
    one.place = 1
    first = one.write(shard, rows((2, "x")))
    whole.merge(one)
    for _ in range(2):
        two = env.begin()
        two.delete(shard, deletion((row_ahead(1, first), 2, "x")))
        whole.merge(two)
    with pytest.raises(ValueError, match="twice"):
        await commit(env, whole)
    assert await values_of(env, shard) == [(1, "a")]
    await env.close()
