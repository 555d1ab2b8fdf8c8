"""Clients of a simulation that copy tables without copying files, copy the copies, and drop them.

A copy is a new shard whose first parts are files of the shard it was made from (`storage.reading.copies`). Whatever
happens to the others, a copy that was committed has the rows that its source had, as long as it is there.
"""

from __future__ import annotations

import asyncio

from storage.errors import AsOfNotReadable, Determinate, EnvironmentFenced, HoldExpired, Indeterminate, UnknownShard
from storage.ids import ShardId
from storage.reading.copies import copy_rows
from storage.shards.parts import ROW_ID
from storage.timestamps.csn import Csn
from tests.simulation.definitions import commit
from tests.simulation.workload import SCHEMA
from tests.simulation.world import Copy, Row, Server, World

_LOST = (AsOfNotReadable, Determinate, EnvironmentFenced, HoldExpired, UnknownShard)


async def copy_some(world: World, server: Server, statements: int) -> None:
    """One session that makes copies, looks at them, and drops them."""
    randomness = world.randomness
    for _ in range(statements):
        if server.leaving.is_set():
            return
        await asyncio.sleep(randomness.random() * 3)
        there = [copy for copy in world.copies if copy.made == "ok" and not copy.dropped]
        try:
            drawn = randomness.random()
            if there and drawn < 0.3:
                await _drop(server, there[randomness.randrange(len(there))])
            elif there and drawn < 0.5:
                await _look(world, server, there[randomness.randrange(len(there))])
            else:
                names = (*World.LISTS, *World.BANKS)
                sources = [*(world.tables[name] for name in names), *(copy.shard for copy in there)]
                await _copy(world, server, sources[randomness.randrange(len(sources))])
        except (*_LOST, Indeterminate) as error:
            world.loop.trace.add(f"a copy came to nothing: {error}")


async def _copy(world: World, server: Server, source: ShardId) -> None:
    env = server.env
    as_of = await env.oracle.read_ts("user")
    async with await env.leases.hold((source,), as_of):
        snapshot = await env.reader.snapshot(source, as_of)
        rows = await _rows(server, source, as_of)
        copy = Copy(shard=env.new_shard_id(), rows=rows)
        txn = env.begin()
        txn.create_shard(copy.shard, SCHEMA)
        await copy_rows(env.reader, env.sharing, txn, snapshot, copy.shard)
        if world.randomness.random() < 0.2:
            txn.abandon()
            return
        world.copies.append(copy)
        copy.made = "info"
        try:
            copy.made = "fail" if await commit(server, txn) is None else "ok"
        except (Determinate, UnknownShard):
            copy.made = "fail"


async def _drop(server: Server, copy: Copy) -> None:
    copy.dropped = "info"
    txn = server.env.begin()
    txn.forget_shard(copy.shard)
    try:
        copy.dropped = "" if await commit(server, txn) is None else "ok"
    except (Determinate, UnknownShard):
        copy.dropped = ""


async def _look(world: World, server: Server, copy: Copy) -> None:
    at = await server.env.oracle.read_ts("user")
    try:
        async with await server.env.leases.hold((copy.shard,), at):
            rows = await _rows(server, copy.shard, at)
    except _LOST:
        # It may be dropped meanwhile, or this process may have been taken for dead.
        return
    if rows != copy.rows:
        world.problem(f"copy {copy.shard} has {rows} instead of {copy.rows}")


async def _rows(server: Server, shard: ShardId, at: Csn) -> list[Row]:
    env = server.env
    snapshot = await env.reader.snapshot(shard, at)
    deleted: set[int] = set()
    for part in snapshot.deletes:
        deleted.update((await env.reader.read_part(part, [ROW_ID])).column(0).to_pylist())
    rows: list[Row] = []
    for part in snapshot.inserts:
        data = await env.reader.read_part(part, [ROW_ID, "c1", "c2"])
        found = zip(*(data.column(n).to_pylist() for n in range(3)), strict=True)
        rows += [(key, value) for row_id, key, value in found if row_id not in deleted]
    return sorted(rows)


async def check_copies(world: World, server: Server) -> None:
    """In the end: what was made and not dropped has its rows, and what was dropped is not there."""
    env = server.env
    at = await env.oracle.read_ts("user")
    for copy in world.copies:
        there = copy.shard in env.cache.state.registered
        what = f"copy {copy.shard} (made: {copy.made}, dropped: {copy.dropped})"
        if copy.made == "ok" and not copy.dropped and not there:
            world.problem(f"{what} is lost")
        if there and (copy.made == "fail" or copy.dropped == "ok"):
            world.problem(f"{what} is there")
        if there and await _rows(server, copy.shard, at) != copy.rows:
            world.problem(f"{what} has not the rows {copy.rows}")
