"""Transactions in two phases: a client of one process prepares them, whichever process comes by ends them.

A prepared transaction has read some lists and appends to some. Its note names them, and who validates a commit holds it
against the notes, as the storeys above the storage do: nobody may append to a list that a prepared transaction has
read, and two of them that are prepared at once must fit both ways. So what is prepared can always be committed, however
many processes have died meanwhile; what cannot is a broken invariant. The name decides whether it is committed or
rolled back.
"""

from __future__ import annotations

import asyncio

import msgspec

from storage.errors import (
    AsOfNotReadable,
    Determinate,
    EnvironmentFenced,
    HoldExpired,
    Indeterminate,
    NotPrepared,
    UnknownShard,
)
from storage.timestamps.csn import Csn
from storage.timestamps.oracle import acquired
from storage.transactions.txns_shard import Committed, Phase
from storage.transactions.txns_state import Prepared
from tests.simulation.workload import COMMIT_TRIES, ClientTransaction, Conflict
from tests.simulation.world import Attempt, Server, World

ROLLED_BACK = 3
"""One in so many is."""


async def prepare(world: World, server: Server) -> None:
    """One client transaction, as far as PREPARE TRANSACTION."""
    attempt = Attempt(id=len(world.attempts), began=world.now())
    world.attempts.append(attempt)
    env, randomness = server.env, world.randomness
    gid = f"g{attempt.id}"
    try:
        as_of = await env.oracle.read_ts("user")
        async with await env.leases.hold(list(world.tables.values()), as_of):
            client = ClientTransaction(world, server, attempt, as_of)
            attempt.xid = client.txn.xid = await env.xids.draw()
            for _ in range(1 + randomness.randrange(2)):
                await client.read_list(World.LISTS[randomness.randrange(2)], randomness.randrange(3))
            for _ in range(1 + randomness.randrange(2)):
                await client.append(World.LISTS[randomness.randrange(2)], randomness.randrange(3))
            note = msgspec.msgpack.encode((sorted(client.lists_read()), sorted(client.lists_written())))
            world.prepared[gid] = attempt
            await client.commit(prepare=(gid, note))
    except (Conflict, AsOfNotReadable, HoldExpired):
        attempt.status = "fail"
    except Indeterminate:
        attempt.status = "info" if attempt.status == "committing" else "fail"
    except (Determinate, EnvironmentFenced) as error:
        attempt.status = "info" if isinstance(error, EnvironmentFenced) and attempt.status == "committing" else "fail"
    if attempt.status in ("fail", "info"):
        attempt.ended = world.now()
        if attempt.xid is not None:
            env.xids.ended(attempt.xid, in_doubt=attempt.status == "info")
    world.loop.trace.add(f"client T{attempt.id} prepared {gid}: {attempt.status} {attempt.operations}")


async def prepare_some(world: World, server: Server, transactions: int) -> None:
    """One session of transactions in two phases."""
    for _ in range(transactions):
        if server.leaving.is_set():
            return
        await asyncio.sleep(world.randomness.random() * 3)
        await prepare(world, server)


async def end_some(world: World, server: Server) -> None:
    """End what is prepared, whoever has prepared it, for as long as the process lives."""
    env = server.env
    seen: set[str] = set()
    while True:
        await asyncio.sleep(world.randomness.random() * 6)
        prepared = env.cache.state.prepared
        for gid in sorted(seen.difference(prepared)):
            xid = world.prepared[gid].xid
            assert xid is not None
            env.xids.ended(xid)
        seen = set(prepared)
        if prepared:
            names = sorted(prepared)
            record = prepared[names[world.randomness.randrange(len(names))]]
            try:
                await end(world, server, record)
            except (Determinate, Indeterminate, EnvironmentFenced) as error:
                world.loop.trace.add(f"{server.process.name} could not end {record.gid}: {error}")


async def end(world: World, server: Server, record: Prepared) -> None:
    """COMMIT or ROLLBACK PREPARED. Raises as the stores do; what was prepared does not fail."""
    env, attempt = server.env, world.prepared[record.gid]
    try:
        if attempt.id % ROLLED_BACK == 0:
            await env.txns_shard.forget_prepared(record.gid)
            attempt.status = "fail"
        else:
            await _commit(world, server, record, attempt)
    except NotPrepared:
        return  # Another process was faster.
    except Indeterminate:
        if attempt.status == "committing":
            attempt.status = "info"
        raise
    attempt.ended = world.now()
    world.loop.trace.add(f"{server.process.name} ended {record.gid}: {attempt.status} at {attempt.csn}")


async def _commit(world: World, server: Server, record: Prepared, attempt: Attempt) -> None:
    env = server.env
    for _ in range(COMMIT_TRIES):
        async with acquired(env.oracle, "user") as ts:
            try:
                result = await env.committer.commit(env.prepared_txn(record), ts=ts, phase=Phase(ends=record.gid))
            except UnknownShard as error:
                world.problem(f"{record.gid} was prepared and cannot be committed: {error}")
                raise
            if isinstance(result, Committed):
                attempt.csn, attempt.status = result.ts, "ok"
                await env.oracle.apply_write("user", ts)
                return
        env.oracle.observe(Csn(result.least_committable - 1))


async def end_all(world: World, server: Server) -> None:
    """In the end, without faults: all that is prepared can be ended, and what was in doubt is told."""
    for record in list(server.env.cache.state.prepared.values()):
        await end(world, server, record)
    left = server.env.cache.state.prepared
    if left:
        world.problem(f"prepared transactions could not be ended: {sorted(left)}")
    for attempt in world.prepared.values():
        if attempt.status == "info" and attempt.xid is not None:
            attempt.csn = server.env.outcomes.committed_at(attempt.xid)
