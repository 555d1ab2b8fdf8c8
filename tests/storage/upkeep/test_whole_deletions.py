"""A file that two parts share, its rows and their deletion, goes when neither is left, and not before."""

from __future__ import annotations

import pytest

from storage.doubles.clock import ManualClock
from storage.environment.environment import Environment
from storage.ids import ShardId
from storage.shards.parts import Part, table_stats
from storage.shards.whole_deletions import deletion_of, surely_matches
from tests.storage.environments import Stores, commit, create, deletion, insert, read, rows
from tests.storage.upkeep.test_maintenance import part_files, settle


async def write_file(env: Environment, shard: ShardId, first: int, count: int) -> Part:
    """A file with so many rows, and its part."""
    txn = env.begin()
    txn.write(shard, rows(*[(n, str(n)) for n in range(first, first + count)]))
    await txn.spill(force=True)
    await commit(env, txn)
    return (await env.reader.snapshot(shard, await env.oracle.read_ts("user"))).inserts[-1]


async def delete_whole(env: Environment, shard: ShardId, part: Part) -> None:
    txn = env.begin()
    txn.delete_whole(shard, part)
    await commit(env, txn)


async def test_nothing_is_stored_and_nothing_read() -> None:
    clock = ManualClock()
    stores = Stores(clock=clock)
    env = await stores.open()
    shard = await create(env)
    part = await write_file(env, shard, 0, 1000)
    await write_file(env, shard, 1000, 10)
    before = await env.oracle.read_ts("user")
    files = await part_files(stores, shard)
    await delete_whole(env, shard, part)
    assert await part_files(stores, shard) == files
    assert set(await read(env, shard)) == set(range(1000, 1010))
    assert len(await read(env, shard, before)) == 1010
    changes = await env.reader.changes(shard, before, await env.oracle.read_ts("user"))
    gone = await env.reader.read_part(changes.deletes[0])
    assert gone.column_names == ["_row_id", "c1", "c2"]
    assert gone.to_pylist()[7] == {"_row_id": 7, "c1": 7, "c2": "7"}
    await settle(env, clock, shard)
    assert len(await part_files(stores, shard)) == 1
    assert set(await read(env, shard)) == set(range(1000, 1010))


async def test_what_is_rewritten_before_it_is_deleted() -> None:
    """The file of a part that compaction has replaced is kept for who is about to delete its rows, and after that for
    who follows the changes."""
    clock = ManualClock()
    stores = Stores(clock=clock)
    env = await stores.open()
    shard = await create(env)
    part = await write_file(env, shard, 0, 5)
    for number in range(20):
        await write_file(env, shard, 100 + 5 * number, 5)
    await env.applier.apply_all()
    for _ in range(2):
        clock.advance(3_000)
        await env.txns_shard.advance_to_now(env.oracle)
        await env.leases.keep_alive()
    at = await env.oracle.read_ts("user")
    async with await env.leases.hold([shard], at):
        assert await env.maintenance.compactor.compact(shard)
        handle = await env.handles.open(shard)
        assert part.key in handle.state.garbage
        for _ in range(3):
            await env.maintenance.garbage.collect()
        assert part.key in await part_files(stores, shard)
        await delete_whole(env, shard, part)
    await env.applier.apply_all()
    assert part.key not in handle.state.garbage
    for _ in range(3):
        await env.maintenance.garbage.collect()
    assert part.key in await part_files(stores, shard)
    assert [row[0] for row in (await read(env, shard)).values()] == list(range(100, 200))
    now = await env.oracle.read_ts("user")
    gone = await env.reader.read_part((await env.reader.changes(shard, at, now)).deletes[0])
    assert gone.column("c1").to_pylist() == [0, 1, 2, 3, 4]
    txn = env.begin()
    txn.delete(shard, deletion(*[(n, 95 + n, str(95 + n)) for n in range(5, 45)]))
    await commit(env, txn)
    await settle(env, clock, shard)
    assert part.key not in await part_files(stores, shard)
    assert [row[0] for row in (await read(env, shard)).values()] == list(range(140, 200))


async def test_the_state_survives_a_restart() -> None:
    clock = ManualClock()
    stores = Stores(clock=clock, retain_ms=60_000)
    env = await stores.open()
    shard = await create(env)
    part = await write_file(env, shard, 0, 100)
    before = await env.oracle.read_ts("user")
    await delete_whole(env, shard, part)
    await insert(env, shard, (7, "new"))
    await settle(env, clock, shard)
    await (await env.handles.open(shard)).durable.roll_up()
    await env.close()
    env = await stores.open("another")
    assert list((await read(env, shard)).values()) == [(7, "new")]
    assert len(await read(env, shard, before)) == 100
    await env.close()


def test_only_files_of_rows_that_are_there() -> None:
    part = Part(kind="insert", rows=1, bytes=1, stats={}, key="parts/s/a.parquet", id=3)
    assert deletion_of(part).whole
    for wrong in (
        Part(kind="delete", rows=1, bytes=1, stats={}, key="parts/s/a.parquet", id=3),
        Part(kind="insert", rows=1, bytes=1, stats={}, inline=b"x", id=3),
        Part(kind="insert", rows=1, bytes=1, stats={}, key="parts/s/a.parquet"),
    ):
        with pytest.raises(ValueError, match="as a whole"):
            deletion_of(wrong)


def test_what_is_sure() -> None:
    part = Part(kind="insert", rows=3, bytes=1, stats=table_stats(rows((1, "b"), (5, "c"), (9, "d"))))
    nulls = Part(kind="insert", rows=2, bytes=1, stats=table_stats(rows((1, None), (5, "c"))))
    for column, op, value, expected in (
        ("c1", "<", 10, True), ("c1", "<", 9, False), ("c1", "<=", 9, True), ("c1", ">", 0, True),
        ("c1", ">", 1, False),
        ("c1", ">=", 1, True), ("c1", "<>", 0, True), ("c1", "<>", 5, False), ("c1", "=", 5, False),
        ("c1", "in", (1, 5, 9), False), ("c1", "is not null", None, True), ("c1", "is null", None, False),
        ("c2", ">=", "b", True), ("c2", ">", "b", False), ("c2", "<", "e", True), ("c2", "<", None, False),
        ("c3", "is null", None, False), ("c2", "like", "b%", False),
    ):  # fmt: skip
        assert surely_matches(part, [(column, op, value)]) is expected, (column, op, value)
        assert not surely_matches(nulls, [("c2", op, value)]), (op, value)
    one = Part(kind="insert", rows=2, bytes=1, stats=table_stats(rows((4, None), (4, None))))
    assert surely_matches(one, [("c1", "=", 4), ("c2", "is null", None), ("c1", "in", (3, 4))])
