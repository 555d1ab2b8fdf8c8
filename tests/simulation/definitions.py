"""What clients of a simulation do to the catalog: create tables with a row in them, drop them, read the catalog.

Each statement takes the catalog at the catalog timeline's read timestamp, and commits its updates together with the
data in one transaction. Whoever reads the catalog at one CSN must find the same.
"""

from __future__ import annotations

import asyncio

from storage.catalog.model import PUBLIC_SCHEMA_OID, CatalogRecord, CatalogSnapshot, CatalogUpdate, Column, Relation
from storage.errors import AsOfNotReadable, CatalogConflict, Determinate, EnvironmentFenced, Indeterminate, UnknownShard
from storage.timestamps.csn import Csn
from storage.timestamps.oracle import acquired
from storage.transactions.txn import Txn
from storage.transactions.txns_shard import Committed
from tests.simulation.workload import SCHEMA, read_table, table_of
from tests.simulation.world import Definition, Row, Server, World

TRIES = 4


async def read_catalog(world: World, server: Server) -> CatalogSnapshot:
    """The catalog as every later statement must see it at least. Every two reads at one CSN must agree."""
    ts = await server.env.oracle.read_ts("catalog")
    catalog = await server.env.catalog.snapshot_at(ts)
    found = tuple(sorted(repr(record) for record in catalog.all()))
    before = world.catalogs.setdefault(ts, found)
    if before != found:
        missing, extra = set(before) - set(found), set(found) - set(before)
        world.problem(f"the catalog at {ts} is not one: {server.process.name} misses {missing} and has {extra}")
    return catalog


async def commit(server: Server, txn: Txn) -> Csn | None:
    """Commit; None when somebody was always faster."""
    env = server.env
    for _ in range(TRIES):
        async with acquired(env.oracle, "user") as ts:
            result = await env.committer.commit(txn, ts=ts)
            if isinstance(result, Committed):
                await env.oracle.apply_write("user", ts)
                return ts
        env.oracle.observe(Csn(result.least_committable - 1))
    return None


async def create(world: World, server: Server) -> None:
    """CREATE TABLE AS with one row."""
    catalog = await read_catalog(world, server)
    env = server.env
    row: Row = (0, world.unique())
    definition = Definition(name=f"d{row[1]}", shard=env.new_shard_id(), row=row)
    world.definitions.append(definition)
    record = Relation(
        oid=catalog.next_oid,
        name=definition.name,
        schema=PUBLIC_SCHEMA_OID,
        owner=10,
        kind="r",
        columns=(Column(attnum=1, name="a", type_oid=20), Column(attnum=2, name="b", type_oid=20)),
        shard=definition.shard,
    )
    txn = env.begin()
    txn.create_shard(definition.shard, SCHEMA)
    txn.write(definition.shard, table_of([row]))
    txn.update_catalog([CatalogUpdate(record=record, diff=1)], expected=catalog.csn)
    definition.created = "committing"
    definition.created = await _outcome(server, txn)


async def drop(world: World, server: Server) -> None:
    """DROP TABLE of some table that is there."""
    catalog = await read_catalog(world, server)
    known = {definition.name: definition for definition in world.definitions}
    there = sorted(
        (record for record in catalog.all() if isinstance(record, Relation) and record.name in known),
        key=lambda record: record.name,
    )
    if not there:
        return
    record = there[world.randomness.randrange(len(there))]
    definition = known[record.name]
    txn = server.env.begin()
    txn.forget_shard(definition.shard)
    txn.update_catalog([CatalogUpdate(record=record, diff=-1)], expected=catalog.csn)
    number = len(definition.drops)
    definition.drops.append("committing")
    definition.drops[number] = await _outcome(server, txn)


async def _outcome(server: Server, txn: Txn) -> str:
    try:
        return "fail" if await commit(server, txn) is None else "ok"
    except (CatalogConflict, UnknownShard, Determinate):
        return "fail"
    except (Indeterminate, EnvironmentFenced):
        return "info"


async def define(world: World, server: Server, statements: int) -> None:
    """One session of definitions."""
    for _ in range(statements):
        if server.leaving.is_set():
            return
        await asyncio.sleep(world.randomness.random() * 2)
        try:
            if world.randomness.random() < 0.6:
                await create(world, server)
            else:
                await drop(world, server)
        except (Determinate, AsOfNotReadable, EnvironmentFenced) as error:
            world.loop.trace.add(f"definition failed before it began: {error}")


async def follow_catalog(world: World, server: Server) -> None:
    """Subscribe to the catalog for as long as the process lives, often late: the sum of what comes is the catalog."""
    found: dict[int, CatalogRecord] = {}
    async for delta in server.env.catalog.subscribe_at(server.env.catalog.current().csn):
        for update in delta.updates:
            if update.diff == 1:
                found[update.record.oid] = update.record
            elif found.pop(update.record.oid, None) is None:
                world.problem(f"the catalog's stream took {update.record.oid} away, which it had not brought")
        records = tuple(sorted(map(repr, found.values())))
        if world.catalogs.setdefault(delta.csn, records) != records:
            world.problem(f"the catalog's stream does not sum to the catalog at {delta.csn}")
        if world.randomness.random() < 0.3:
            await asyncio.sleep(world.randomness.random() * 20)


async def check_definitions(world: World, server: Server) -> None:
    """In the end: what was created and not dropped is there with its row; the rest is in no state."""
    catalog = await read_catalog(world, server)
    env = server.env
    names = {record.name for record in catalog.all() if isinstance(record, Relation)}
    at = await env.oracle.read_ts("user")
    for definition in world.definitions:
        there = definition.name in names
        what = f"table {definition.name} (created: {definition.created}, dropped: {definition.drops})"
        if definition.created == "ok" and set(definition.drops) <= {"fail"} and not there:
            world.problem(f"{what} is lost")
        if there and (definition.created == "fail" or "ok" in definition.drops):
            world.problem(f"{what} is there")
        if there:
            world.tables[definition.name] = definition.shard
            rows = [row for _, row in await read_table(world, server, definition.name, at)]
            del world.tables[definition.name]
            if rows != [definition.row]:
                world.problem(f"{what} holds {rows} instead of {definition.row}")
        elif definition.shard in env.cache.state.registered:
            world.problem(f"{what} is not in the catalog, and its shard is registered")
