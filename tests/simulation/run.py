"""One simulation from its seed: start processes, disturb them, let the faults stop, and check."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections import Counter
from dataclasses import dataclass

import pyarrow

from storage.errors import StorageError
from tests.simulation.copies import copy_some
from tests.simulation.definitions import define, follow_catalog
from tests.simulation.keyed import provide_indexes
from tests.simulation.loop import Process, SimulatedClock, SimulatedLoop, Trace, simulate, spawn
from tests.simulation.network import CALM, Conditions
from tests.simulation.old_readers import grow_old
from tests.simulation.past import look_back
from tests.simulation.prepared import end_some, prepare_some
from tests.simulation.publishing import publish_some
from tests.simulation.rewriting import rewrite_some
from tests.simulation.verify import check_final, settle_statuses
from tests.simulation.views import create_view, keep_view
from tests.simulation.workload import client, create_tables, follow
from tests.simulation.world import Plan, Server, World, limits_of, quiet_logs

pyarrow.set_cpu_count(1)
# Threads of Arrow's own only cost time here: the tables have a few rows.

DISTURBANCES = 6
RUN_LIMIT_S = 1_800.0
"""Virtual time in which the clients of a run must be done once the faults have stopped."""

DEAD_CALM = Conditions(min_delay_s=0.0005, max_delay_s=0.001)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one run ended. `problems` is empty when every invariant held."""

    seed: int
    problems: tuple[str, ...]
    committed: int
    failed: int
    in_doubt: int
    kills: int
    rewritten: int
    switches: int
    faults: int
    steps: int
    digest: str
    trace: tuple[str, ...] = ()


async def _run(world: World) -> None:
    loop, plan = world.loop, world.plan
    ready: asyncio.Future[None] = loop.create_future()

    async def first(server: Server) -> None:
        if plan.keyed:
            provide_indexes(world, server.env)
        await create_tables(world, server)
        if plan.viewed:
            await create_view(world, server)
        ready.set_result(None)
        await serve(server)

    async def serve(server: Server) -> None:
        if plan.keyed:
            provide_indexes(world, server.env)
        working = [
            *(asyncio.ensure_future(client(world, server, plan.transactions)) for _ in range(plan.clients)),
            asyncio.ensure_future(define(world, server, plan.definitions)),
            asyncio.ensure_future(prepare_some(world, server, plan.prepares)),
        ]
        if plan.copies:
            working.append(asyncio.ensure_future(copy_some(world, server, plan.copies)))
        following = [asyncio.ensure_future(follow(world, server, name)) for name in (World.LISTS[0], World.BANKS[1])]
        following.append(asyncio.ensure_future(follow_catalog(world, server)))
        if plan.old_readers:
            following.append(asyncio.ensure_future(grow_old(world, server)))
        if plan.retain_ms:
            following.append(asyncio.ensure_future(look_back(world, server)))
        if plan.viewed:
            following.append(asyncio.ensure_future(keep_view(world, server)))
        if plan.published:
            following.append(asyncio.ensure_future(publish_some(world, server)))
        if plan.laid_out:
            following.append(asyncio.ensure_future(rewrite_some(world, server)))
        if plan.prepares:
            following.append(asyncio.ensure_future(end_some(world, server)))
        leaving = asyncio.ensure_future(leave(server, working, following))
        await asyncio.wait([*working, *following, leaving], return_when=asyncio.FIRST_EXCEPTION)

    async def leave(server: Server, working: list[asyncio.Task[None]], following: list[asyncio.Task[None]]) -> None:
        """Once asked to, end as a server does that is stopped."""
        await server.leaving.wait()
        await asyncio.wait(working)
        for task in following:
            task.cancel()
        # What cannot be finished now is left to the others, as after a crash.
        with contextlib.suppress(StorageError):
            await server.env.close()
        server.process.alive = False
        loop.trace.add(f"{server.process.name} has left")

    async def depart() -> None:
        """All processes but one leave or die; after a while they come back."""
        stays = world.randomness.randrange(len(processes))
        gone = [number for number in range(len(processes)) if number != stays]
        for number in gone:
            process = processes[number][0]
            if process.name in world.servers and world.randomness.random() < 0.6:
                world.servers[process.name].leaving.set()
            else:
                world.kill(process)
        await asyncio.sleep(world.randomness.random() * 12)
        survivor = world.servers.get(processes[stays][0].name)
        if survivor is not None and not survivor.env.oracle.asks_store:
            world.switches += 1
        for number in gone:
            if processes[number][0].alive:
                world.kill(processes[number][0])
            await restart(number)

    async def restart(number: int) -> None:
        if world.upgrade is not None:
            world.upgrade.restarts(f"p{number}")
        processes[number] = await world.start(f"p{number}", serve)

    async def replace_one(number: int) -> None:
        """Stop a process as one does to bring another version, and start it again."""
        process = processes[number][0]
        if process.name in world.servers:
            world.servers[process.name].leaving.set()
            await asyncio.sleep(world.randomness.random() * 4)
        if process.alive:
            world.kill(process)
        await restart(number)

    processes: list[tuple[Process, SimulatedClock, asyncio.Task[None]]] = [await world.start("p0", first)]
    await asyncio.wait({ready, processes[0][2]}, return_when=asyncio.FIRST_COMPLETED)
    processes.extend([await world.start(f"p{number}", serve) for number in range(1, plan.processes)])
    world.network.conditions = plan.conditions
    if world.upgrade is not None:
        spawn(loop, Process("administrator"), world.upgrade.finish())
    for _ in range(DISTURBANCES * 2 if plan.upgraded else DISTURBANCES):
        await asyncio.sleep(world.randomness.random() * 4)
        victim = world.randomness.randrange(len(processes))
        process, clock, _ = processes[victim]
        if plan.departures and world.randomness.random() < plan.departures:
            await depart()
            continue
        if plan.upgraded and world.randomness.random() < 0.5:
            await replace_one(victim)
            continue
        drawn = world.randomness.random()
        if drawn < plan.crashes:
            world.kill(process)
            await restart(victim)
        elif drawn < plan.crashes + plan.pauses:
            # Sometimes longer than a lease: then the others take the process for dead, and it comes back.
            loop.pause(process)
            await asyncio.sleep(world.randomness.random() * 60)
            loop.resume(process)
        elif plan.clock_jumps and drawn < plan.crashes + plan.pauses + 0.3:
            clock.jump(world.randomness.randrange(7_200_000) - 3_600_000)
    world.network.conditions = CALM
    await _drained(world)
    for process, _, _ in processes:
        world.kill(process)
    settle_statuses(world)
    world.network.conditions = DEAD_CALM
    await check_final(world)


async def _drained(world: World) -> None:
    """Wait until no client transaction has been open for longer than a client ever rests."""
    deadline = world.loop.time() + RUN_LIMIT_S
    quiet_since, seen = world.loop.time(), -1
    while world.loop.time() - quiet_since < 10.0:
        await asyncio.sleep(1.0)
        if len(world.attempts) != seen:
            quiet_since, seen = world.loop.time(), len(world.attempts)
        if world.loop.time() > deadline:
            raise TimeoutError("the clients are not done although the faults have stopped")


def run(seed: int, *, keep_lines: int = 0, plan: Plan | None = None) -> Outcome:
    """Run the simulation of `seed`. An exception that escapes is a problem too."""
    drawn = plan or Plan.draw(seed)
    trace = Trace(keep_lines)
    worlds: list[World] = []

    async def main(loop: SimulatedLoop) -> None:
        worlds.append(World(loop, drawn))
        await _run(worlds[0])

    problems: list[str] = []
    with quiet_logs(), limits_of(drawn):
        try:
            simulate(seed, main, trace=trace)
        except Exception as error:  # noqa: BLE001 - whatever escapes from a run is its result
            frames = traceback.extract_tb(error.__traceback__)[-6:]
            where = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))
            problems.append(f"{type(error).__name__}: {error} ({where})")
    world = worlds[0]
    statuses = Counter(attempt.status for attempt in world.attempts)
    return Outcome(
        seed=seed,
        problems=(*world.problems, *problems),
        committed=statuses["ok"],
        failed=statuses["fail"],
        in_doubt=statuses["info"],
        kills=world.kills,
        rewritten=world.rewritten,
        switches=world.switches,
        faults=world.network.faults,
        steps=trace.events,
        digest=trace.digest,
        trace=tuple(trace.lines),
    )
