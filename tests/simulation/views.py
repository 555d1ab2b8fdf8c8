"""A materialized view that all processes keep, as the controllers of the storeys above do, with their own means.

The view counts how many accounts of a table have which balance. Each process runs a controller that follows the
catalog, learns there that the view exists, and brings it forward now and then, by what has changed since its frontier
where that is told still. It fails now and then for no reason, and begins again from the catalog. Which process brings
it forward is chosen by name (`keeper_of`), but now and then another does it as well, as while they do not agree who is
alive.

What is seen of the view is compared in the end: at every CSN its rows are what the table gave at the frontier that its
journal names there; and what the table gives at that CSN itself, where the view was taken for exact.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from adapter.controllers.views import keeper_of
from adapter.execution.controllers import Controller, follow
from adapter.materialized import journal
from adapter.materialized.freshness import has_changed
from adapter.materialized.journal import JOURNAL_SCHEMA, Refresh, last_refresh, write_refresh
from storage.catalog.model import PUBLIC_SCHEMA_OID, CatalogUpdate, Column, Relation
from storage.catalog.store import CatalogDelta
from storage.errors import AsOfNotReadable, StorageError
from storage.ids import ShardId
from storage.shards.parts import ROW_ID
from storage.timestamps.csn import Csn
from storage.timestamps.oracle import acquired
from storage.transactions.txns_shard import Committed
from tests.simulation.definitions import commit, read_catalog
from tests.simulation.workload import SCHEMA, deletion_of, read_table, table_of
from tests.simulation.world import Attempt, Row, Server, World

SOURCE = World.BANKS[0]
NAME = "balances"
TRIES = 6
FAILURES = 0.1
"""How often a controller fails."""

BESIDE = 0.2
"""How often a process brings the view forward that is not chosen for it."""

CAUGHT_UP_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What somebody saw of the view at `csn`, and whether it was taken for what the table gives there."""

    csn: Csn
    frontier: Csn
    rows: Counter[Row]
    exact: bool


@dataclass(slots=True)
class View:
    """The view's shards, and what was seen of it."""

    shard: ShardId
    journal: ShardId
    looks: list[Look] = field(default_factory=list)
    incremental: int = 0
    restarts: int = 0


def result_of(rows: Iterable[Row]) -> Counter[Row]:
    """What the view's query gives over the rows of its table, each row once."""
    return Counter(dict.fromkeys(Counter(row[1] for row in rows).items(), 1))


async def create_view(world: World, server: Server) -> None:
    """CREATE MATERIALIZED VIEW, without rows; repeated until it is known to have worked."""
    journal._kept.clear()
    while world.view is None:
        env = server.env
        made = View(shard=env.new_shard_id(), journal=env.new_shard_id())
        try:
            catalog = await read_catalog(world, server)
            record = Relation(
                oid=catalog.next_oid,
                name=NAME,
                schema=PUBLIC_SCHEMA_OID,
                owner=10,
                kind="m",
                columns=(Column(attnum=1, name="a", type_oid=20), Column(attnum=2, name="b", type_oid=20)),
                shard=made.shard,
            )
            txn = env.begin()
            txn.create_shard(made.shard, SCHEMA)
            txn.create_shard(made.journal, JOURNAL_SCHEMA)
            txn.update_catalog([CatalogUpdate(record=record, diff=1)], expected=catalog.csn)
            if await commit(server, txn) is not None:
                world.view = made
        except StorageError:
            await asyncio.sleep(0.1)


async def _stored(server: Server, shard: ShardId, at: Csn) -> dict[int, Row]:
    """The stored rows at `at`, by row id."""
    env, rows = server.env, dict[int, Row]()
    snapshot = await env.reader.snapshot(shard, at)
    for part in snapshot.inserts:
        data = await env.reader.read_part(part, [ROW_ID, "c1", "c2"])
        for row_id, key, value in zip(*(data.column(n).to_pylist() for n in range(3)), strict=True):
            rows[row_id] = (key, value)
    for part in snapshot.deletes:
        for row_id in (await env.reader.read_part(part, [ROW_ID])).column(0).to_pylist():
            rows.pop(row_id, None)
    return rows


async def _wanted(world: World, server: Server, view: View, before: Refresh | None, at: Csn) -> Counter[Row]:
    """The rows that the view has to have at `at`."""
    env, source = server.env, world.tables[SOURCE]
    if before is not None:
        try:
            changes = await env.reader.changes(source, before.frontier, at)
        except AsOfNotReadable:
            pass
        else:
            counts = Counter(dict((await _stored(server, view.shard, at)).values()))
            for parts, sign in ((changes.inserts, 1), (changes.deletes, -1)):
                for part in parts:
                    for balance in (await env.reader.read_part(part, ["c2"])).column("c2").to_pylist():
                        counts[balance] += sign
            view.incremental += 1
            return Counter({(balance, accounts): 1 for balance, accounts in counts.items() if accounts})
    return result_of(row for _, row in await read_table(world, server, SOURCE, at))


async def bring_forward(world: World, server: Server, view: View) -> None:
    """REFRESH: the rows and the journal's row in one transaction, which is given up when somebody else was faster."""
    env, source = server.env, world.tables[SOURCE]
    at = await env.oracle.read_ts("user")
    async with await env.leases.hold((source, view.shard, view.journal), at):
        before = await last_refresh(env, view.journal, at)
        if before is not None and not await _may_have_changed(server, source, before.frontier, at):
            return
        stored = await _stored(server, view.shard, at)
        wanted = await _wanted(world, server, view, before, at)
        txn = env.begin()
        gone = [(row_id, row) for row_id, row in stored.items() if row not in wanted]
        come = sorted((wanted - Counter(stored.values())).elements())
        if gone:
            txn.delete(view.shard, deletion_of(gone))
        if come:
            txn.write(view.shard, table_of(come))
        done = Refresh(
            frontier=at, at_us=0, cost_ms=0.0, changes=len(gone) + len(come), how="incremental", inputs="definition"
        )
        write_refresh(txn, view.journal, done, before)
        for _ in range(TRIES):
            validated = env.cache.upper
            if await has_changed(env, view.journal, at, Csn(validated - 1)):
                return
            async with acquired(env.oracle, "user") as ts:
                result = await env.committer.commit(txn, ts=ts, validated=validated, shards=sorted(txn.shards))
                if isinstance(result, Committed):
                    await env.oracle.apply_write("user", ts)
                    return
            env.oracle.observe(Csn(result.least_committable - 1))


async def _may_have_changed(server: Server, shard: ShardId, after: Csn, until: Csn) -> bool:
    try:
        return await has_changed(server.env, shard, after, until)
    except AsOfNotReadable:
        return True


async def look(world: World, server: Server, view: View) -> None:
    """SELECT from the view."""
    env, source = server.env, world.tables[SOURCE]
    at = await env.oracle.read_ts("user")
    async with await env.leases.hold((source, view.shard, view.journal), at):
        found = await last_refresh(env, view.journal, at)
        rows = Counter((await _stored(server, view.shard, at)).values())
        if found is None:
            if rows:
                world.problem(f"the view has {rows} at {at}, and was not refreshed yet")
            return
        exact = not await _may_have_changed(server, source, found.frontier, at)
        view.looks.append(Look(csn=at, frontier=found.frontier, rows=rows, exact=exact))


class _Keeper:
    """The controller of one process."""

    def __init__(self, world: World, server: Server, view: View) -> None:
        self.world, self.server, self.view = world, server, view
        self.controller = Controller("views", server.env.clock)
        self.oid: int | None = None

    def take(self, delta: CatalogDelta, first: bool) -> None:
        """See `follow`."""
        if first:
            self.oid = None
        for update in delta.updates:
            if isinstance(update.record, Relation) and update.record.shard == self.view.shard:
                self.oid = update.record.oid if update.diff == 1 else None

    async def keep(self) -> None:
        """Bring the view forward when it is this process's, for ever; or fail."""
        env, randomness = self.server.env, self.world.randomness
        while True:
            await asyncio.sleep(randomness.random() * 2)
            if randomness.random() < FAILURES:
                self.view.restarts += 1
                raise RuntimeError("a failure that nobody has foreseen")
            if self.oid is None:
                continue
            living = [name for name in env.cache.state.leases if name == env.process or not env.leases.is_dead(name)]
            if keeper_of(self.oid, living) != env.process and randomness.random() >= BESIDE:
                continue
            try:
                await bring_forward(self.world, self.server, self.view)
            except StorageError as error:
                self.controller.failed(error)
                self.world.loop.trace.add(f"the view was not brought forward: {error}")

    def start(self) -> None:
        """Begin."""
        self.controller.start(partial(follow, self.controller, self.server.env.catalog, self.take), self.keep)


async def keep_view(world: World, server: Server) -> None:
    """Keep the view and look at it, for as long as the process lives."""
    view, randomness = world.view, world.randomness
    assert view is not None
    keeper = _Keeper(world, server, view)
    keeper.start()
    try:
        while True:
            await asyncio.sleep(randomness.random() * 3)
            try:
                await look(world, server, view)
            except StorageError as error:
                world.loop.trace.add(f"the view could not be read: {error}")
    finally:
        await keeper.controller.stop()


async def check_view(world: World, server: Server, committed: list[Attempt]) -> None:
    """In the end: a controller that begins now learns of the view, and the view is what its query gives. So was all
    that was seen of it."""
    view = world.view
    if view is None:
        return
    keeper = _Keeper(world, server, view)
    keeper.controller.start(partial(follow, keeper.controller, server.env.catalog, keeper.take))
    try:
        await asyncio.wait_for(keeper.controller.caught_up(server.env.catalog.current().csn), CAUGHT_UP_S)
    except TimeoutError:
        world.problem("a controller does not catch up with the catalog")
    await keeper.controller.stop()
    if keeper.oid is None:
        world.problem("a controller has not learned of the view")
    await bring_forward(world, server, view)
    await look(world, server, view)
    if not view.looks or not view.looks[-1].exact:
        world.problem("the view is not exact although it was brought forward")
    writers = sorted((a for a in committed if a.writes or a.deletes), key=lambda a: a.csn or 0)
    for seen in view.looks:
        for csn, what in ((seen.frontier, "frontier"), *(((seen.csn, "exact"),) if seen.exact else ())):
            expected = result_of(_rows_at(writers, csn))
            if seen.rows != expected:
                more, less = seen.rows - expected, expected - seen.rows
                world.problem(f"the view ({what} {csn}) is not what its query gives, at {seen.csn}: {more=}, {less=}")


def _rows_at(writers: list[Attempt], csn: Csn) -> Iterable[Row]:
    rows: Counter[Row] = Counter()
    for attempt in writers:
        if attempt.csn is not None and attempt.csn <= csn:
            rows.subtract(row for table, row in attempt.deletes if table == SOURCE)
            rows.update(row for table, row in attempt.writes if table == SOURCE)
    return (+rows).elements()
