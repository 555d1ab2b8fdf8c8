"""What must hold when a simulation is over.

- Every acknowledged transaction took effect, whole; none that failed did; one in doubt did wholly or not at all.
- Every snapshot that anybody read, at any moment, equals a plain model: the effects of the committed transactions
  up to its CSN, in CSN order. Two commits never share a CSN.
- What is prepared can be committed or rolled back, whoever has died.
- The history of the lists is strictly serializable, as the checker sees it.
- Once faults stop, everything committed gets applied and retracted, the leases of the dead end, and the blob
  store holds exactly the files that the states refer to.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter

from storage.durable.formats import OlderServers
from storage.environment.identity import COMPLETE_KEY, MARKER_KEY
from storage.ids import ShardId
from storage.shards.links import claiming_link
from storage.shards.shard_state import state_files
from storage.timestamps.csn import Csn
from storage.transactions.xids import Xid
from tests.simulation.checker import Append, Operation, ReadList, Status, Transaction, check
from tests.simulation.copies import check_copies
from tests.simulation.definitions import check_definitions
from tests.simulation.linked import check_added
from tests.simulation.loop import Process
from tests.simulation.prepared import end_all
from tests.simulation.publishing import end_publishing
from tests.simulation.versions import AUDITOR
from tests.simulation.views import check_view
from tests.simulation.workload import read_table
from tests.simulation.world import Attempt, Row, Server, World

SETTLE_S = 200.0
"""Virtual time after which nothing is left to clean up but orphans: leases (30 s), then durable holds (60 s)."""


def settle_statuses(world: World) -> None:
    """What a killed server's clients know: nothing after the commit was sent, failure before."""
    for attempt in world.attempts:
        if attempt.status == "working":
            attempt.status = "fail"
        elif attempt.status == "committing":
            attempt.status = "info"
            attempt.ended = None


def resolve(world: World, final: dict[str, list[Row]]) -> list[Attempt]:
    """The transactions that took effect, by what the final tables and the longest reads show of them."""
    present = {row[1] for table in World.LISTS for row in final[table]}
    committed: list[Attempt] = []
    for attempt in world.attempts:
        values = [row[1] for table, row in attempt.writes if table in World.LISTS]
        there = [value in present for value in values]
        if any(there) and not all(there):
            world.problem(f"T{attempt.id} ({attempt.status}) is there in part: {values}, {there}")
        match attempt.status:
            case "ok":
                if not all(there):
                    world.problem(f"T{attempt.id} was acknowledged at {attempt.csn} and is lost: {attempt.writes}")
                committed.append(attempt)
            case "fail":
                if any(there):
                    world.problem(f"T{attempt.id} failed and is there: {attempt.writes}")
            case _ if values and all(there):
                committed.append(attempt)
    return committed


def check_snapshots(world: World, committed: list[Attempt]) -> None:
    """Transaction ids are given out once, and snapshots in PostgreSQL's form name what their CSN does not hold."""
    drawn = [attempt.xid for attempt in world.attempts if attempt.xid is not None]
    if len(drawn) != len(set(drawn)):
        world.problem("a transaction id was given out twice")
    wrote = [attempt for attempt in committed if attempt.xid is not None and attempt.writes]
    for at, snapshot in world.pg_snapshots:
        for attempt in wrote:
            assert attempt.xid is not None
            assert attempt.csn is not None
            if snapshot.visible(Xid(attempt.xid)) != (attempt.csn <= at):
                world.problem(f"snapshot {snapshot} at {at} is wrong about {attempt.xid}, committed at {attempt.csn}")


async def check_outcomes(world: World, server: Server, committed: list[Attempt]) -> None:
    """What became of each transaction can be asked for once no process is left that might still run it."""
    happened = {attempt.xid for attempt in committed if attempt.writes}
    for xid in [attempt.xid for attempt in world.attempts if attempt.xid is not None]:
        status = await server.env.outcomes.status(xid)
        if status not in ("committed", "aborted") or (status == "committed") != (xid in happened):
            world.problem(f"transaction {xid} is {status}, and {'' if xid in happened else 'not '}committed")


def check_model(world: World, committed: list[Attempt]) -> None:
    """Every snapshot equals the sum of the commits up to its CSN."""
    writers = sorted((a for a in committed if a.writes or a.deletes), key=lambda a: a.csn or 0)
    for first, second in itertools.pairwise(writers):
        if first.csn == second.csn:
            world.problem(f"T{first.id} and T{second.id} both committed at {first.csn}")
    by_table: dict[str, list[Csn]] = {}
    for table, csn in world.snapshots:
        if table not in world.tables:
            continue
        by_table.setdefault(table, []).append(csn)
    for table, csns in by_table.items():
        rows: Counter[Row] = Counter()
        remaining = iter(writers)
        upcoming = next(remaining, None)
        for csn in sorted(csns):
            while upcoming is not None and upcoming.csn is not None and upcoming.csn <= csn:
                rows.subtract(row for name, row in upcoming.deletes if name == table)
                rows.update(row for name, row in upcoming.writes if name == table)
                upcoming = next(remaining, None)
            expected = +rows
            found = Counter(row for _, row in world.snapshots[(table, csn)])
            if found != expected:
                world.problem(
                    f"{table} at {csn}: too many {sorted((found - expected).items())},"
                    f" missing {sorted((expected - found).items())}"
                )


def check_history(world: World) -> None:
    """The lists' history has no anomaly, real time included."""
    history = []
    for attempt in world.attempts:
        operations: list[Operation] = []
        for kind, table, key, value in attempt.operations:
            slot = f"{table}/{key}"
            if kind == "append":
                assert isinstance(value, int)
                operations.append(Append(slot, value))
            else:
                assert isinstance(value, tuple)
                operations.append(ReadList(slot, value))
        if operations:
            status: Status = "ok" if attempt.status == "ok" else "info" if attempt.status == "info" else "fail"
            ended = None if status == "info" else attempt.ended
            history.append(
                Transaction(
                    id=attempt.id, operations=tuple(operations), status=status, began=attempt.began, ended=ended
                )
            )
    for anomaly in check(history):
        world.problem(str(anomaly))


async def referenced_blobs(server: Server) -> tuple[set[str], dict[str, int]]:
    """Every part that a state refers to, and for each state the sequence number of its oldest rollup in use."""
    env = server.env
    parts: set[str] = set()
    rollups = {env.cache.durable.key: int(env.cache.durable.oldest_rollup_seqno)}
    for shard in sorted({*env.cache.state.registered, *env.cache.state.forgotten}):
        handle = await env.handles.open(ShardId(shard))
        await handle.refresh()
        parts.update(state_files(handle.state))
        if shard in env.cache.state.forgotten:
            # What it has replaced goes with it.
            parts.update(handle.state.garbage)
        rollups[handle.durable.key] = int(handle.durable.oldest_rollup_seqno)
        if handle.durable.rollup_key is not None:
            parts.add(handle.durable.rollup_key)
    if env.cache.durable.rollup_key is not None:
        parts.add(env.cache.durable.rollup_key)
    return parts, rollups


def in_use(key: str, needed: set[str], rollups: dict[str, int]) -> bool:
    """Whether a state leads to the blob `key`, or it marks the store. The rollup before the newest may be in use."""
    if key in needed or claiming_link(key) in needed or key in (MARKER_KEY, COMPLETE_KEY):
        return True
    owner, _, name = key.removeprefix("rollups/").rpartition("/")
    return key.startswith("rollups/") and owner in rollups and int(name.partition("-")[0]) >= rollups[owner]


async def check_final(world: World) -> None:
    """Open the environment once more, without faults, and check everything."""
    process = Process(AUDITOR)
    done: asyncio.Future[None] = world.loop.create_future()

    async def audit(server: Server) -> None:
        try:
            await _audit(world, server)
        except BaseException as error:
            done.set_exception(error)
            raise
        done.set_result(None)

    process, _, task = await world.start(AUDITOR, audit)
    await asyncio.wait({done, task}, return_when=asyncio.FIRST_COMPLETED)
    await task
    process.alive = False


async def _audit(world: World, server: Server) -> None:
    env = server.env
    await env.oracle.read_ts("user")
    await end_all(world, server)
    at = await env.oracle.read_ts("user")
    final: dict[str, list[Row]] = {}
    async with await env.leases.hold(list(world.tables.values()), at):
        for table in world.tables:
            final[table] = [row for _, row in await read_table(world, server, table, at)]
    committed = resolve(world, final)
    check_snapshots(world, committed)
    check_model(world, committed)
    await check_definitions(world, server)
    await check_copies(world, server)
    await check_view(world, server, committed)
    check_history(world)
    balance = sum(row[1] for table in World.BANKS for row in final[table])
    if balance != World.ACCOUNTS * World.OPENING_BALANCE:
        world.problem(f"the bank holds {balance} in the end")
    await end_publishing(world, server)
    await asyncio.sleep(SETTLE_S)
    await check_outcomes(world, server, committed)
    # Everything has been applied meanwhile, whoever committed it; commits go on being possible, and carry retractions.
    await env.leases.keep_alive()
    state = env.cache.state
    if state.pending:
        world.problem(f"the txns shard still holds {dict(state.pending)}")
    strangers = [name for name in state.leases if name != env.process]
    if strangers:
        world.problem(f"dead processes still have leases: {strangers}")
    if world.upgrade is not None:
        try:
            await world.upgrade.finish_once()
        except OlderServers as error:
            world.problem(f"the upgrade cannot be finished: {error}")
    await env.maintenance.orphans.collect()
    needed, rollups = await referenced_blobs(server)
    present = {entry.key async for entry in world.blob.list()}
    check_added(world, present)
    if needed - present:
        world.problem(f"live blobs are gone: {sorted(needed - present)}")
    garbage = {key for key in present if not in_use(key, needed, rollups)}
    if garbage:
        waiting = sorted(key for shard in env.handles.all_opened() for key in shard.state.garbage)
        world.problem(f"dead blobs are kept: {sorted(garbage)}; awaiting collection: {waiting}")
    for table in world.tables:
        again = [row for _, row in await read_table(world, server, table, await env.oracle.read_ts("user"))]
        if sorted(again) != sorted(final[table]):
            world.problem(f"{table} changed after the end: {final[table]} became {again}")
