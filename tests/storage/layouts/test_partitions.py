"""Rows are divided by partition, and parts say which they are of."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa
import pytest

from storage.doubles.clock import ManualClock
from storage.environment.environment import Environment
from storage.ids import ShardId
from storage.layouts import ordering
from storage.layouts.definition import BadLayout, Term, partition_terms, partition_text, renamed
from storage.layouts.layout import TableLayout
from storage.layouts.ordering import laid_out
from storage.shards.partitions.transforms import PartitionField, common_values, keys_of
from storage.shards.parts import Part, part_may_match
from storage.shards.shard import ShardSnapshot
from tests.storage.environments import SCHEMA, Stores, commit, create, deletion, read

BY_BUCKET = PartitionField("c1", "bucket", 4)
CHANCE = random.Random(3)


def some_rows(count: int, low: int = 0) -> pa.Table:
    ids = list(range(low, low + count))
    CHANCE.shuffle(ids)
    return pa.table({"c1": ids, "c2": [CHANCE.randbytes(12).hex() for _ in ids]}, SCHEMA)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("id", (Term("identity", "id"),)),
        (" Day( Ts ),bucket(16,id) ", (Term("day", "ts"), Term("bucket", "id", 16))),
        ('truncate(3, "A, b"), identity(c)', (Term("truncate", "A, b", 3), Term("identity", "c"))),
    ],
)
def test_transforms_are_read_and_written(text: str, terms: tuple[Term, ...]) -> None:
    assert partition_terms(text) == terms
    assert partition_terms(partition_text(terms)) == terms


@pytest.mark.parametrize(
    "text",
    [
        "", "a,", "week(a)", "day(a", "day a", "day()", "bucket(a)", "bucket(0, a)", "bucket(-1, a)", "day(3, a)",
        "a, a", "bucket(9999999, a)", "truncate(a, 3)", "day(ts))",
    ],
)  # fmt: skip
def test_other_texts_are_no_transforms(text: str) -> None:
    with pytest.raises(BadLayout):
        partition_terms(text)


def test_columns_are_renamed() -> None:
    options = ("partition_by=day(ts), bucket(4, id)", "sort_by=ts, x")
    assert renamed(options, "ts", "At") == ('partition_by=day("At"), bucket(4, id)', 'sort_by="At", x')


@pytest.mark.parametrize("sort", [(), ("c2",)])
def test_each_partition_has_pieces_of_its_own(sort: tuple[str, ...]) -> None:
    rows = some_rows(40_000)
    pieces = laid_out(rows, TableLayout(partition=(BY_BUCKET,), sort=sort, target_bytes=60_000))
    assert len(pieces) >= 8
    for piece in pieces:
        assert common_values((BY_BUCKET,), piece) is not None
        values = piece.column("c2").to_pylist()
        assert not sort or values == sorted(values)
    found = sorted(value for piece in pieces for value in piece.column("c1").to_pylist())
    assert found == list(range(40_000))


def test_partitions_of_few_rows_are_together() -> None:
    rows = some_rows(40_000)
    few = rows.set_column(0, "c1", pa.array([0] * 39_990 + list(range(100, 110)), pa.int64()))
    pieces = laid_out(few, TableLayout(partition=(PartitionField("c1", "identity"),), sort=("c2",)))
    assert [piece.num_rows for piece in pieces] == [39_990, 10]
    assert len(laid_out(rows.slice(0, 50), TableLayout(partition=(BY_BUCKET,)))) == 1


async def written(env: Environment, shard: ShardId, rows: pa.Table, layout: TableLayout | None) -> None:
    """Commit `rows`, laid out if a layout is given, in any order if not."""
    txn = env.begin()
    if layout is not None:
        txn.lay_out(shard, layout.partition)
    for piece in [rows] if layout is None else laid_out(rows, layout):
        txn.end_run(shard)
        txn.write(shard, piece)
    await commit(env, txn)


async def settled(env: Environment, clock: ManualClock, shard: ShardId) -> ShardSnapshot:
    """What there is once history has passed and nothing is left to compact."""
    await env.applier.apply_all()
    for _ in range(3):
        clock.advance(3_000)
        await env.txns_shard.advance_to_now(env.oracle)
        await env.leases.keep_alive()
        if env.maintenance.compactor.is_due(shard):
            await env.maintenance.compactor.compact(shard)
    return await env.reader.snapshot(shard, await env.oracle.read_ts("user"))


async def check_labels(env: Environment, parts: Sequence[Part]) -> None:
    for part in parts:
        rows = await env.reader.read_part(part, ["c1"])
        for known in part.partition:
            keys = keys_of(known.field, rows.column("c1").combine_chunks())
            assert set(keys.to_pylist()) == {known.key}


async def test_written_parts_say_their_partition_and_compaction_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "LEAST_PARTITION_BYTES", 66_000)
    clock = ManualClock()
    env = await Stores(clock=clock).open()
    layout = TableLayout(partition=(BY_BUCKET,), sort=("c2",))
    env.maintenance.compactor.layout_of = lambda shard: layout
    shard = await create(env)
    for number in range(18):
        await written(env, shard, some_rows(9_000, number * 9_000), layout)
    before = await read(env, shard)
    snapshot = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    assert len(snapshot.inserts) == 4 * 18
    assert all(part.partition for part in snapshot.inserts)
    snapshot = await settled(env, clock, shard)
    assert len(snapshot.inserts) == 4
    assert all(part.partition for part in snapshot.inserts)
    await check_labels(env, snapshot.inserts)
    assert await read(env, shard) == before
    # A key is in the parts of one partition.
    for value in (5, 77, 50_000):
        assert sum(part_may_match(part, "c1", "=", value) for part in snapshot.inserts) <= 1
        assert sum(part_may_match(part, "c1", "in", [value, None]) for part in snapshot.inserts) <= 1
    row_id = next(iter(before))
    txn = env.begin()
    txn.delete(shard, deletion((row_id, *before[row_id])))
    await commit(env, txn)
    del before[row_id]
    await settled(env, clock, shard)
    assert await read(env, shard) == before


@pytest.mark.parametrize("count", [1, 20])
async def test_compaction_divides_what_was_written_otherwise(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "LEAST_PARTITION_BYTES", 1000)
    clock = ManualClock()
    env = await Stores(clock=clock).open()
    layout = TableLayout(partition=(BY_BUCKET,), target_bytes=300_000)
    env.maintenance.compactor.layout_of = lambda shard: layout
    shard = await create(env)
    for number in range(count):
        await written(env, shard, some_rows(40_000 // count, number * 40_000), None)
    before = await read(env, shard)
    snapshot = await settled(env, clock, shard)
    assert len(snapshot.inserts) >= 4
    assert sum(not part.partition for part in snapshot.inserts) <= (0 if count == 1 else 4)
    await check_labels(env, snapshot.inserts)
    assert await read(env, shard) == before
    assert await env.maintenance.compactor.compact(shard) == 0

    # Another layout: what is there is divided anew, and what cannot be stays.
    layout = TableLayout(partition=(PartitionField("c1", "truncate", 10_000),), target_bytes=100_000)
    snapshot = await settled(env, clock, shard)
    await env.maintenance.compactor.compact(shard)
    assert await read(env, shard) == before
    await check_labels(env, snapshot.inserts)
    assert await env.maintenance.compactor.compact(shard) == 0
