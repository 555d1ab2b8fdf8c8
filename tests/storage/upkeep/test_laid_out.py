"""Compaction keeps the layout of a shard: order, sizes, row ids."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from storage.catalog.model import CatalogSnapshot, CatalogUpdate, Column, Relation, Schema
from storage.doubles.clock import ManualClock
from storage.environment.environment import Environment
from storage.ids import ShardId
from storage.layouts.layout import TableLayout
from storage.layouts.shards import ShardLayouts
from storage.shards.shard import ShardSnapshot
from storage.timestamps.csn import Csn
from storage.upkeep import compaction
from tests.storage.environments import Stores, commit, create, deletion, insert, read


async def settled(env: Environment, clock: ManualClock, shard: ShardId) -> ShardSnapshot:
    """What there is once history has passed and nothing is left to compact."""
    await env.applier.apply_all()
    for _ in range(3):
        clock.advance(3_000)
        await env.txns_shard.advance_to_now(env.oracle)
        await env.leases.keep_alive()
        assert await env.maintenance.compactor.compact(shard) < 1000
    return await env.reader.snapshot(shard, await env.oracle.read_ts("user"))


async def keys_by_part(env: Environment, snapshot: ShardSnapshot) -> list[list[str]]:
    return [(await env.reader.read_part(part, ["c2"])).column("c2").to_pylist() for part in snapshot.inserts]


async def test_merged_rows_are_in_order_and_keep_their_ids() -> None:
    clock = ManualClock()
    env = await Stores(clock=clock).open()
    env.maintenance.compactor.layout_of = lambda shard: TableLayout(sort=("c2",))
    shard = await create(env)
    values = [f"{number:03}" for number in range(100)]
    random.Random(5).shuffle(values)
    for number, value in enumerate(values):
        await insert(env, shard, (number, value))
    before = await read(env, shard)
    snapshot = await settled(env, clock, shard)
    assert await keys_by_part(env, snapshot) == [sorted(values)]
    assert snapshot.inserts[0].has_row_id_column
    assert await read(env, shard) == before

    txn = env.begin()
    gone = sorted(before)[10:60]
    txn.delete(shard, deletion(*[(row_id, *before[row_id]) for row_id in gone]))
    await commit(env, txn)
    snapshot = await settled(env, clock, shard)
    assert not snapshot.deletes
    (keys,) = await keys_by_part(env, snapshot)
    assert keys == sorted(keys)
    assert await read(env, shard) == {row_id: row for row_id, row in before.items() if row_id not in gone}


async def test_rows_that_came_in_order_need_no_ids() -> None:
    clock = ManualClock()
    env = await Stores(clock=clock).open()
    env.maintenance.compactor.layout_of = lambda shard: TableLayout(sort=("c9", "c2"))
    shard = await create(env)
    for number in range(100):
        await insert(env, shard, (number, f"{number:03}"))
    snapshot = await settled(env, clock, shard)
    assert [part.has_row_id_column for part in snapshot.inserts] == [False]


async def test_files_have_the_size_that_is_wished() -> None:
    clock = ManualClock()
    env = await Stores(clock=clock).open()
    target = 200_000
    env.maintenance.compactor.layout_of = lambda shard: TableLayout(sort=("c2",), target_bytes=target)
    shard = await create(env)
    generator = random.Random(7)
    for _ in range(32):
        await insert(env, shard, *[(g, generator.randbytes(20).hex()) for g in range(2_000)])
    before = await read(env, shard)
    snapshot = await settled(env, clock, shard)
    sizes = [part.bytes for part in snapshot.inserts]
    assert all(target / 2 < size < 2 * target for size in sizes)
    keys = await keys_by_part(env, snapshot)
    assert all(each == sorted(each) for each in keys)
    assert await read(env, shard) == before
    # Nothing is rewritten again and again.
    assert await env.maintenance.compactor.compact(shard) == 0


@pytest.mark.parametrize("layout", [None, TableLayout(sort=("c2",), target_bytes=1)])
def test_a_part_that_is_large_enough_stays(layout: TableLayout | None) -> None:
    pieces = compaction._pieces([pa.table({"_row_id": [1, 2, 3], "c2": ["b", "a", "c"]})], layout, most=2)
    assert [piece.rows.num_rows for piece in pieces] == [3]
    assert [piece.first_row_id for piece in pieces] == ([1] if layout is None else [None])


def test_ids_follow_from_places_only_if_all_do() -> None:
    def first(*ids: int) -> int | None:
        return compaction.consecutive_from(compaction.ids_of(pa.table({"_row_id": pa.array(ids, pa.int64())})))

    assert first(4, 5, 6) == 4
    assert first(4) == 4
    assert first(0, 2, 1, 3) is None
    assert first(4, 6) is None


def test_the_catalog_says_the_layout() -> None:
    class Definitions:
        """A catalog that moves on."""

        def __init__(self) -> None:
            self.snapshot = CatalogSnapshot.empty()

        def current(self) -> CatalogSnapshot:
            """See `storage.layouts.shards.Definitions`."""
            return self.snapshot

    definitions, shard = Definitions(), ShardId("s1")
    layouts = ShardLayouts(definitions)
    assert layouts.of(shard) is None
    column = Column(attnum=1, name="ts", type_oid=1114)
    relation = Relation(
        oid=20_000, name="t", schema=2200, owner=10, kind="r", shard=shard, columns=(column,), options=("sort_by=ts",)
    )
    schema = Schema(oid=2200, name="public", owner=10, database=1)
    updates = [CatalogUpdate(schema, 1), CatalogUpdate(relation, 1)]
    definitions.snapshot = definitions.snapshot.apply(updates, Csn(5))
    assert layouts.of(shard) == TableLayout(sort=("c1",))
