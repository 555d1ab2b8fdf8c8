"""Readings by key find what a look at all rows finds: whatever the parts, their order, deletions and collisions."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from storage.doubles.clock import ManualClock
from storage.environment.environment import Environment
from storage.ids import ShardId
from storage.shards.indexes.definition import IndexDefinition
from storage.shards.indexes.reading.ranges import Bound, KeyRange
from tests.storage.environments import Stores, commit, create, deletion, insert, rows
from tests.storage.shards.indexes.reading.tables import (
    BY_BOTH,
    BY_C1,
    BY_ORDER,
    COLUMNS,
    answer,
    in_range,
    looked_up,
    plain_rows,
    write_file,
)

INDEXES = (BY_C1, BY_BOTH, BY_ORDER)
TEXTS = (None, "", "a", "ab", "abcdefgh", "abcdefghi", "abcdefghj", "z" * 20)


def some_rows(chance: random.Random, count: int) -> list[tuple[int, str | None]]:
    return [(chance.randrange(40) - 5, chance.choice(TEXTS)) for _ in range(count)]


async def some_change(chance: random.Random, env: Environment, clock: ManualClock, shard: ShardId) -> None:
    """One change of the table: a small part, a file, a deletion, a compaction."""
    what = chance.choice(["insert", "insert", "many", "file", "delete", "delete", "compact"])
    if what == "insert":
        await insert(env, shard, *some_rows(chance, chance.randrange(1, 4)))
    elif what == "many":
        await insert(env, shard, *some_rows(chance, chance.randrange(9, 30)))
    elif what == "file":
        await write_file(env, shard, rows(*some_rows(chance, chance.randrange(1, 60))))
    elif what == "compact":
        await env.applier.apply_all()
        clock.advance(3_000)
        await env.txns_shard.advance_to_now(env.oracle)
        await env.leases.keep_alive()
        # What it replaces is not collected here: older snapshots go on.
        await env.maintenance.compactor.compact(shard)
        if chance.random() < 0.5 and env.maintenance.indexer.is_due(shard):
            await env.maintenance.indexer.index(shard)
    else:
        await delete_some(chance, env, shard)


async def delete_some(chance: random.Random, env: Environment, shard: ShardId) -> None:
    live = await plain_rows(env, await env.reader.snapshot(shard, await env.oracle.read_ts("user")))
    gone = chance.sample(sorted(live), min(len(live), chance.choice([1, 2, 20])))
    if gone:
        txn = env.begin()
        txn.delete(shard, deletion(*[(row_id, *live[row_id]) for row_id in gone]))
        await commit(env, txn)


def some_range(chance: random.Random, index: IndexDefinition) -> KeyRange:
    """A range over the first columns of `index`, of any shape that it can have."""
    values: list[Any] = [[*range(-6, 36, 3), None]] if index is BY_C1 else [list(TEXTS), [*range(-6, 36, 3), None]]
    width = chance.randrange(len(values) + 1)
    bounds: list[Bound | None] = []
    # Columns of different directions have no common bound.
    most = 1 if index is BY_BOTH else len(values) - width
    for _ in range(2):
        columns = values[width : width + chance.randrange(most + 1)]
        bound = Bound(tuple(chance.choice(column) for column in columns), chance.random() < 0.5)
        bounds.append(bound if bound.values else None)
    return KeyRange(equal=tuple(chance.choice(column) for column in values[:width]), low=bounds[0], high=bounds[1])


@pytest.mark.parametrize("seed", range(12))
async def test_every_reading_finds_what_is_there(seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr("storage.shards.parts._ROW_GROUP_ROWS", 16)
    monkeypatch.setattr("storage.shards.indexes.levels.MAX_RECENT", 8)
    monkeypatch.setattr("storage.shards.indexes.reading.small_parts.MIN_DEAD_ROWS", 20)
    monkeypatch.setattr("storage.shards.indexes.reading.ranges.MORE_ROWS", 4)
    monkeypatch.setattr("storage.upkeep.compaction.MERGE_FACTOR", 4)
    clock = ManualClock()
    env = await Stores(seed, clock).open()
    reader = env.keys
    if seed % 2:
        reader.use_scratch(tmp_path)
    if seed % 3:
        # Files of a few rows, with durable runs of some of the indexes.
        monkeypatch.setattr("storage.shards.part_store.INLINE_LIMIT_BYTES", 600)
        monkeypatch.setattr("storage.transactions.txn.INLINE_LIMIT_BYTES", 600)
        monkeypatch.setattr("storage.shards.parts._KEYED_ROW_GROUP_ROWS", 8)
        reader.provide(lambda shard: INDEXES[: seed % 3])
    shard = await create(env, *some_rows(chance, 5))
    kept = []
    for _ in range(40):
        await some_change(chance, env, clock, shard)
        kept.append(await env.reader.snapshot(shard, await env.oracle.read_ts("user")))
        # An old snapshot now and then: what is known of small parts serves all of them.
        parts = kept[-1] if chance.random() < 0.7 else chance.choice(kept[-3:])
        txn = env.begin()
        if chance.random() < 0.5:
            txn.write(shard, rows(*some_rows(chance, chance.choice([1, 12]))))
            txn.delete(shard, deletion(*[(i, *row) for i, row in list((await plain_rows(env, parts)).items())[:2]]))
        local = txn.local_parts(shard)
        truth = await plain_rows(env, parts, local)
        for index in INDEXES:
            # Some keys one by one, many by columns.
            wanted: list[tuple[Any, ...]]
            wanted = [(c1,) if index is BY_C1 else (c2, c1) for c1, c2 in some_rows(chance, chance.choice([1, 3, 30]))]
            wanted += [(None,) if index is BY_C1 else (None, 3)]
            match = chance.random() < 0.5
            found = await reader.lookup(parts, index, wanted, COLUMNS, local=local, nulls_match=match)
            expected = looked_up(index, truth, wanted, match)
            assert [(n, *row) for n, row in zip(found.keys.tolist(), answer(found), strict=True)] == expected
            again = reader.lookup_now(parts, index, wanted, (), local=local, nulls_match=match)
            assert again is not None
            assert again.row_ids.tolist() == found.row_ids.tolist()
            assert again.rows.num_rows == len(expected)
            taken = await reader.first_taken(parts, index, columns_of(index, wanted), local=local, nulls_match=match)
            assert taken == first_taken(index, truth, wanted, match)
            keys, descending = some_range(chance, index), chance.random() < 0.5
            limit = chance.choice([None, None, 0, 1, 5, 40])
            ordered = in_range(index, truth, keys, descending)
            between = await reader.range(parts, index, keys, COLUMNS, descending=descending, limit=limit, local=local)
            assert answer(between) == ordered[:limit], (index.id, keys, descending, limit)
            at_most = reader.count_now(parts, index, keys, local=local)
            assert at_most is not None
            assert at_most >= len(ordered)
    await env.close()


def columns_of(index: IndexDefinition, keys: list[tuple[Any, ...]]) -> list[pa.Array]:
    types = [pa.int64()] if index is BY_C1 else [pa.string(), pa.int64()]
    return [pa.array([key[n] for key in keys], type_) for n, type_ in enumerate(types)]


def first_taken(index: IndexDefinition, truth: Any, wanted: list[tuple[Any, ...]], match: bool) -> int | None:
    found = [entry[0] for entry in looked_up(index, truth, wanted, match)]
    for number, key in enumerate(wanted):
        if key in wanted[:number] and (match or None not in key):
            found.append(number)
    return min(found, default=None)


async def test_keys_that_collide_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """With hashes of two bits nothing else changes."""
    import storage.shards.indexes.reading.lookups as lookups
    import storage.shards.indexes.reading.part_views as part_views
    from storage.shards.indexes import keys, runs, scalar_keys

    for module in (lookups, part_views, runs):
        monkeypatch.setattr(module, "hashes", lambda values: keys.hashes(values) & np.uint64(3))
    for module in (lookups, part_views):
        monkeypatch.setattr(module, "hash_of", lambda columns, key: scalar_keys.hash_of(columns, key) & 3)
    env = await Stores().open()
    shard = await create(env, *[(n, "x") for n in range(30)])
    await write_file(env, shard, rows(*[(n, "y") for n in range(20, 60)]))
    reader = env.keys
    parts = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    for wanted in ([(25,)], [(n,) for n in range(70)]):
        found = await reader.lookup(parts, BY_C1, wanted, COLUMNS)
        assert [(n, *row) for n, row in zip(found.keys.tolist(), answer(found), strict=True)] == looked_up(
            BY_C1, await plain_rows(env, parts), wanted, False
        )
    for keys_, taken in (([60, 61], None), ([*range(60, 90), 59], 30), ([*range(60, 90), 70, 61], 30)):
        assert await reader.first_taken(parts, BY_C1, [pa.array(keys_)]) == taken
    await env.close()


async def test_the_id_of_a_part_is_no_name_for_it() -> None:
    """A reader gives ids to parts that are not applied yet; a compaction that is applied first takes them."""
    env = await Stores().open()
    shard = await create(env, (1, "a"))
    await insert(env, shard, (2, "b"))
    ahead = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    first, second = ahead.inserts
    compacted = msgspec.structs.replace(first, id=second.id, first_row_id=7)
    moved = msgspec.structs.replace(second, id=second.id + 1)
    after = msgspec.structs.replace(ahead, inserts=(compacted, moved))
    for parts in (ahead, after, ahead):
        for keys in ([(1,), (2,)], [(n,) for n in range(20)]):
            found = await env.keys.lookup(parts, BY_C1, keys, COLUMNS)
            assert [row for _, row in answer(found)] == [(1, "a"), (2, "b")]
            assert found.row_ids.tolist() == [parts.inserts[0].first_row_id, 1]
    await env.close()
