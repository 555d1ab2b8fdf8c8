"""Indexes in a simulation: durable key runs on every table of the clients, and readings by key beside the plain ones.

What is found by key has to be what a look at all rows finds. A key run that cannot be used is a broken invariant: its
file is written before the commit that names it, and kept for as long as somebody may read the part.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from storage.environment.environment import Environment
from storage.ids import ShardId
from storage.shards.indexes.definition import Computed, IndexDefinition, KeyColumn, StoredColumn
from storage.shards.indexes.reading.ranges import Bound, KeyRange
from storage.shards.shard import ShardSnapshot
from tests.simulation.world import Row, World

C1 = StoredColumn(name="c1", type=pa.int64())
C2 = StoredColumn(name="c2", type=pa.int64())
BY_KEY = IndexDefinition(id=1, columns=(KeyColumn(source=C1),))
BY_VALUE = IndexDefinition(id=2, columns=(KeyColumn(source=C2, descending=True), KeyColumn(source=C1)), hashed=False)
BY_SUM = IndexDefinition(
    id=3,
    columns=(
        KeyColumn(
            source=Computed(
                text="c1 + c2",
                type=pa.int64(),
                inputs=(C1, C2),
                evaluate=lambda rows: pc.add(rows.column("c1"), rows.column("c2")),
                quick=True,
            )
        ),
    ),
    predicate=Computed(
        text="c2 even",
        type=pa.bool_(),
        inputs=(C2,),
        evaluate=lambda rows: pc.equal(pc.bit_wise_and(rows.column("c2"), 1), 0),
        quick=True,
    ),
    unique=True,
)
"""Over an expression, and partial."""

INDEXES = (BY_KEY, BY_VALUE, BY_SUM)


def provide_indexes(world: World, env: Environment) -> None:
    """Let the files of the clients' tables have key runs."""

    def definitions_of(shard: ShardId) -> Sequence[IndexDefinition]:
        return INDEXES if shard in world.tables.values() else ()

    env.keys.provide(definitions_of)


async def check_keys(
    world: World, env: Environment, table: str, snapshot: ShardSnapshot, rows: Sequence[tuple[int, Row]]
) -> None:
    """Compare what is found by key with `rows`, all that there are, by row id."""
    keys = sorted({row[0] for _, row in rows} | {-1, World.JOURNAL_KEY})
    looked_up = await env.keys.lookup(snapshot, BY_KEY, [(key,) for key in keys], (C1, C2))
    found = list(zip(looked_up.row_ids.tolist(), _rows(looked_up.rows), strict=True))
    expected = sorted(rows, key=lambda item: (item[1][0], item[0]))
    if found != expected:
        world.problem(f"{table} at {snapshot.as_of}: by key {found} is found, {expected} is there")
    low = KeyRange(low=Bound((2,)))
    between = await env.keys.range(snapshot, BY_VALUE, low, (C1, C2), limit=5)
    first = sorted((item for item in rows if item[1][1] >= 2), key=lambda item: (-item[1][1], item[1][0], item[0]))[:5]
    if list(zip(between.row_ids.tolist(), _rows(between.rows), strict=True)) != first:
        world.problem(f"{table} at {snapshot.as_of}: in order of keys {between.rows.to_pylist()} is found, not {first}")
    sums = sorted({row[0] + row[1] for _, row in rows} | {-1})
    summed = await env.keys.lookup(snapshot, BY_SUM, [(total,) for total in sums], (C1, C2))
    even = sorted((item for item in rows if item[1][1] % 2 == 0), key=lambda item: (sum(item[1]), item[0]))
    if list(zip(summed.row_ids.tolist(), _rows(summed.rows), strict=True)) != even:
        world.problem(f"{table} at {snapshot.as_of}: by sum {summed.rows.to_pylist()} is found, {even} is there")
    if env.keys.sources.runs.refused:
        # Whoever was deposed may find anything gone, and learns it here.
        await env.leases.renew()
        world.problem(f"{table} at {snapshot.as_of}: {env.keys.sources.runs.refused} key runs cannot be used")


def _rows(batch: pa.RecordBatch) -> list[Row]:
    return list(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))
