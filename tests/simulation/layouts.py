"""Layouts of the clients' tables in a simulation: compaction is to keep them, and nobody else is to notice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from storage.layouts.layout import TableLayout
from storage.shards.partitions.transforms import PartitionField
from storage.shards.parts import Part, part_may_match

if TYPE_CHECKING:
    from storage.environment.environment import Environment
    from storage.ids import ShardId
    from tests.simulation.world import World

LAYOUT = TableLayout(partition=(PartitionField("c1", "bucket", 2),), sort=("c1", "c2"), target_bytes=600)
"""Not the order in which rows are written, and files of a row or two."""


def provide_layouts(world: World, env: Environment) -> None:
    """Let the clients' tables have a layout."""

    def layout_of(shard: ShardId) -> TableLayout | None:
        return LAYOUT if shard in world.tables.values() else None

    env.maintenance.compactor.layout_of = layout_of


def check_part(world: World, table: str, part: Part, rows: pa.Table) -> None:
    """What has rows of several transactions was written by compaction, and so in order; and what a part says of the
    partition that it is of, it has."""
    keys = list(zip(*(rows.column(name).to_pylist() for name in LAYOUT.sort), strict=True))
    for key, _ in keys:
        if not part_may_match(part, "c1", "=", key):
            world.problem(f"{table}: part {part.id} says that it does not have {key}, and has {keys}: {part.partition}")
    if table not in world.LISTS or part.rows < 2:
        return
    writers = {row[1]: attempt.id for attempt in world.attempts for name, row in attempt.writes if name == table}
    if len({writers.get(value) for _, value in keys}) > 1 and keys != sorted(keys):
        world.problem(f"{table}: part {part.id} of compaction is not in order: {keys}")
