"""Who writes the files of tables anew as their layout wants them, a few at a time: nobody else is to notice."""

from __future__ import annotations

import asyncio
from functools import partial

import numpy as np
import pyarrow as pa

from storage.errors import StorageError
from storage.ids import ShardId
from storage.layouts.ordering import in_order
from storage.shards.parts import ROW_ID, Part
from storage.timestamps.csn import Csn
from storage.upkeep import compaction, rewriting
from storage.upkeep.rewriting import Group
from tests.simulation.layouts import LAYOUT
from tests.simulation.world import Server, World


async def rewrite_some(world: World, server: Server) -> None:
    """Rewrite one group of one table after the other."""
    env, randomness = server.env, world.randomness
    names = sorted(world.tables)
    while True:
        await asyncio.sleep(randomness.random() * 2)
        shard = world.tables[names[randomness.randrange(len(names))]]
        try:
            # The tables have the columns that they began with, so that no moment has to be waited for.
            after = env.reader.last_write(shard) if randomness.random() < 0.3 else Csn(0)
            most_bytes = 1 + randomness.randrange(4000)
            done = await env.maintenance.compactor.rewrite(shard, after, most_bytes, partial(_write, server, shard))
        except StorageError as error:
            world.loop.trace.add(f"rewriting {shard} came to nothing: {error}")
        else:
            world.rewritten += 0 if done is None else done.parts


async def _write(server: Server, shard: ShardId, group: Group, made: list[Part]) -> None:
    parts = server.env.parts
    gone = [
        i for part in group.deletes async for piece in parts.pieces(part, [ROW_ID]) for i in compaction.ids_of(piece)
    ]
    tables = [piece for part in group.inserts async for piece in parts.pieces(part, [ROW_ID, *part.columns])]
    rows = pa.concat_tables(tables)
    left = rows.filter(pa.array(~np.isin(compaction.ids_of(rows), gone)))
    if left.num_rows:
        made += await rewriting.encoded(parts, shard, in_order(left, LAYOUT), LAYOUT)
