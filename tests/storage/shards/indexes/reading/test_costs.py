"""What a reading by key costs, counted: files opened, row groups decoded, rows looked at."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from storage.shards.indexes.reading import lookups, part_views
from storage.shards.indexes.reading.ranges import Bound, KeyRange
from storage.shards.parts import ROW_ID
from tests.storage.environments import SCHEMA, Stores, commit, create, insert
from tests.storage.shards.indexes.reading.tables import BY_C1, COLUMNS, answer, write_file

ROWS = 1_000_000
FILES = 4


async def test_a_point_read_of_a_million_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("storage.shards.parts._ROW_GROUP_ROWS", 1 << 16)
    stores = Stores()
    env = await stores.open()
    shard = await create(env)
    keys = np.random.default_rng(1).permutation(ROWS)
    table = pa.table({"c1": keys, "c2": pa.array(keys).cast(pa.string())}, schema=SCHEMA)
    for number in range(FILES):
        await write_file(env, shard, table.slice(number * ROWS // FILES, ROWS // FILES))
    await insert(env, shard, (ROWS, "small"))
    parts = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    reader = env.keys
    reader.use_scratch(tmp_path)
    rows, runs = reader.sources.rows, reader.sources.runs

    # The first reading makes the runs, each from the key columns of its part.
    assert reader.lookup_now(parts, BY_C1, [(5,)], COLUMNS) is None
    found = await reader.lookup(parts, BY_C1, [(5,)], COLUMNS)
    assert answer(found)[0][1] == (5, "5")
    assert (runs.made, rows.loaded) == (FILES, 1)

    # Cold: one row group, by one range of one file, and nothing else.
    position = int(np.flatnonzero(keys == 77)[0])
    assert position // (1 << 16) != int(np.flatnonzero(keys == 5)[0]) // (1 << 16)
    before = stores.blob.counts.copy()
    found = await reader.lookup(parts, BY_C1, [(77,)], COLUMNS)
    assert answer(found)[0][1] == (77, "77")
    cost = stores.blob.counts - before
    assert cost.total == cost["get"] == 1
    assert (runs.made, rows.loaded) == (FILES, 2)

    # Hot, absent, or in a small part: nothing at all, and no waiting.
    before = stores.blob.counts.copy()
    for key, there in ((77, 1), (5, 1), (ROWS, 1), (-1, 0), (ROWS + 1, 0)):
        at_once = reader.lookup_now(parts, BY_C1, [(key,)], COLUMNS)
        assert at_once is not None
        assert len(at_once.row_ids) == there
    # A reader of nothing but ids needs no more than the runs and the keys of what it finds.
    absent = reader.lookup_columns_now(parts, BY_C1, [pa.array(np.arange(2 * ROWS, 2 * ROWS + 8_000))], ())
    assert absent is not None
    assert (stores.blob.counts - before).total == 0

    # The last rows in order: as many row groups as rows at most.
    between = KeyRange(low=Bound((ROWS - 3,)))
    last = await reader.range(parts, BY_C1, between, COLUMNS, descending=True, limit=3)
    assert [row[0] for _, row in answer(last)] == [ROWS, ROWS - 1, ROWS - 2]
    assert rows.loaded <= 2 + 3
    # Scratch files have no names: nothing is left, however the process ends.
    assert os.listdir(tmp_path) == []
    await env.close()


async def test_several_that_wait_for_one_file_read_it_once() -> None:
    stores = Stores()
    env = await stores.open()
    shard = await create(env)
    await write_file(env, shard, pa.table({"c1": range(1000), "c2": ["x"] * 1000}, schema=SCHEMA))
    parts = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    reader = env.keys
    readings = [asyncio.ensure_future(reader.lookup(parts, BY_C1, [(n,)], COLUMNS)) for n in range(20)]
    await asyncio.sleep(0)
    readings[0].cancel()
    found = await asyncio.gather(*readings[1:])
    assert [answer(one)[0][1][0] for one in found] == list(range(1, 20))
    assert (reader.sources.runs.made, reader.sources.rows.loaded) == (1, 1)
    await env.close()


async def test_a_row_that_is_changed_again_and_again_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look-up passes over versions that are gone, but for those who read at an older snapshot."""
    env = await Stores().open()
    shard = await create(env, (1, "0"), (2, "still"))
    looked_at = 0
    plain_key = part_views.plain_key

    def counted(*arguments: Any) -> Any:
        nonlocal looked_at
        looked_at += 1
        return plain_key(*arguments)

    monkeypatch.setattr(lookups, "plain_key", counted)
    snapshots = []
    for number in range(1, 200):
        parts = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
        found = await env.keys.lookup(parts, BY_C1, [(1,)], COLUMNS)
        assert [row for _, row in answer(found)] == [(1, str(number - 1))]
        snapshots.append(parts)
        txn = env.begin()
        txn.delete(shard, pa.table({ROW_ID: found.row_ids, "c1": [1], "c2": [str(number - 1)]}))
        txn.write(shard, pa.table({"c1": [1], "c2": [str(number)]}, schema=SCHEMA))
        await commit(env, txn)
    assert looked_at < 3 * 199
    for number in (0, 1, 77, 198):
        for keys in ([(1,)], [(n,) for n in range(20)]):
            found = await env.keys.lookup(snapshots[number], BY_C1, keys, COLUMNS)
            rows = [row for _, row in answer(found)]
            assert rows == [(1, str(number)), (2, "still")][: len(keys)]
    changes = await env.reader.changes(shard, snapshots[70].as_of, snapshots[77].as_of)
    found = await env.keys.lookup(changes, BY_C1, [(1,)], COLUMNS)
    assert [row for _, row in answer(found)] == [(1, "77")]
    await env.close()
