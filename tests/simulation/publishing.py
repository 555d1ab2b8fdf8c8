"""Processes that publish the tables as Iceberg tables, and readers that know nothing of ours but what is published.

Whatever is published, by whichever process and whatever became of it, can be read: every snapshot that a table's
metadata lists has exactly the rows that were read at its CSN, and no file that it leads to is gone. Tables that are
published together are of one moment.
"""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent, read_manifest_list
from pyiceberg.table.snapshots import Snapshot

from storage.errors import StorageError
from storage.lake.snapshots.memory_files import MemoryFiles, MemoryInput
from storage.publishing.columns import PublishableTable, PublishedColumn
from storage.publishing.metadata import parsed
from storage.publishing.publisher import OvertakenPublication, Publisher
from storage.publishing.record import Publications, publications
from storage.timestamps.csn import Csn
from tests.simulation.layouts import LAYOUT
from tests.simulation.linked import NAMES
from tests.simulation.workload import read_table
from tests.simulation.world import Row, Server, World

DATABASE = 5
FIRST_RELATION = 16384
KEEP_MS = 20_000
"""How long a snapshot that is not the newest is listed."""

LONGEST_PAUSE_S = 8.0
SCHEME = "memory:/"


def _tables(world: World) -> list[PublishableTable]:
    columns = tuple(PublishedColumn(attnum=n, name=f"column {n}", type=pa.int64()) for n in (1, 2))
    return [
        PublishableTable(
            relation=FIRST_RELATION + number, namespace="s", name=name, shard=world.tables[name], columns=columns,
            keep_ms=KEEP_MS, layout=LAYOUT if world.plan.laid_out else None,
        )
        for number, name in enumerate((*World.LISTS, *World.BANKS))
    ]  # fmt: skip


def _publisher(world: World, server: Server) -> Publisher:
    env = server.env
    return Publisher(
        environment=env.id,
        process=env.process,
        blob=env.blob,
        location=lambda key: f"{SCHEME}{key}",
        consensus=env.consensus,
        clock=env.clock,
        random=env.random,
        reader=env.reader,
        parts=env.parts,
        leases=env.leases,
        is_alive=lambda process: process in env.cache.state.leases and not env.leases.is_dead(process),
    )


async def publish_some(world: World, server: Server) -> None:
    """Publish, and look at what is published, for as long as the process lives."""
    env, publisher = server.env, _publisher(world, server)
    while True:
        await asyncio.sleep(world.randomness.random() * LONGEST_PAUSE_S)
        try:
            csn = await env.oracle.read_ts("user")
            async with await env.leases.hold(list(world.tables.values()), csn):
                for name in (*World.LISTS, *World.BANKS):
                    await read_table(world, server, name, csn)
                await publisher.publish(DATABASE, _tables(world), csn)
        except (StorageError, OvertakenPublication) as error:
            world.loop.trace.add(f"nothing was published: {error}")
        await check_published(world)


async def _shown(world: World, server: Server | None = None) -> Publications:
    """What is published, as the store itself has it: nothing else happens meanwhile."""
    clock = server.clock if server is not None else next(iter(world.servers.values())).clock
    return await publications(world.consensus, clock, DATABASE).read() or Publications()


async def check_published(world: World) -> None:
    """Read all that is published, all at one moment."""
    published = await _shown(world)
    moments = set()
    for table in published.tables:
        metadata = parsed(await _blob(world, f"{SCHEME}{table.metadata}"))
        listed = [snapshot.snapshot_id for snapshot in metadata.snapshots]
        if listed != [snapshot.csn for snapshot in table.snapshots]:
            world.problem(f"{table.name}: {listed} are listed, but {table.snapshots} are known")
        moments.add(listed[-1] <= published.csn)
        for snapshot in metadata.snapshots:
            rows = await _rows(world, snapshot)
            expected = world.snapshots.get((table.name, Csn(snapshot.snapshot_id)))
            if expected is None:
                world.problem(f"{table.name} was published at {snapshot.snapshot_id}, where nobody has read it")
            elif sorted(rows) != sorted(row for _, row in expected):
                world.problem(f"{table.name} at {snapshot.snapshot_id} was published as {rows}, but is {expected}")
        # The newest rows are those of the moment that all tables share.
        whole = world.snapshots.get((table.name, published.csn))
        newest = world.snapshots.get((table.name, Csn(listed[-1])))
        if whole != newest:
            world.problem(f"{table.name} is shown as of {listed[-1]}, which is not how it was at {published.csn}")
    if False in moments:
        world.problem("a table is shown as of a later moment than all")


async def _blob(world: World, location: str) -> bytes:
    added = world.added.get(location.removeprefix("file://"))
    data = await world.blob.get(location.removeprefix(SCHEME)) if added is None else added.data
    if data is None:
        world.problem(f"{location} is gone, and what is published leads to it")
        raise LookupError(location)
    return data


async def _rows(world: World, snapshot: Snapshot) -> list[Row]:
    """The rows of a snapshot, as a reader of Iceberg finds them."""
    listing = await _blob(world, snapshot.manifest_list)
    data: dict[str, tuple[int, tuple[int, str]]] = {}
    deletes: list[tuple[str, int, tuple[int, str]]] = []
    for manifest in read_manifest_list(MemoryInput(snapshot.manifest_list, listing)):
        files = MemoryFiles({manifest.manifest_path: await _blob(world, manifest.manifest_path)})
        for entry in manifest.fetch_manifest_entry(files):
            file, sequence = entry.data_file, entry.sequence_number
            assert sequence is not None
            place = manifest.partition_spec_id, repr(file.partition)
            if file.content is DataFileContent.DATA:
                data[file.file_path] = sequence, place
            else:
                deletes.append((file.file_path, sequence, place))
    gone: dict[str, set[int]] = {}
    for path, sequence, place in deletes:
        table = pq.read_table(pa.BufferReader(await _blob(world, path)))
        for target, position in zip(*(table.column(name).to_pylist() for name in ("file_path", "pos")), strict=True):
            known, where = data.get(target, (sequence + 1, place))
            # Deletes of another partition are none of this file's.
            if sequence >= known and where == place:
                gone.setdefault(target, set()).add(position)
    rows: list[Row] = []
    for path in data:
        names = NAMES.values() if path.startswith("file:") else NAMES.keys()
        table = pq.read_table(pa.BufferReader(await _blob(world, path)), columns=list(names))
        table = table.rename_columns(list(NAMES))
        stored = zip(table.column("c1").to_pylist(), table.column("c2").to_pylist(), strict=True)
        rows += [row for position, row in enumerate(stored) if position not in gone.get(path, ())]
    return rows


async def end_publishing(world: World, server: Server) -> None:
    """Look at what is published once more, then end it: nothing of it may stay."""
    if not world.plan.published:
        return
    await check_published(world)
    publisher, tables = _publisher(world, server), _tables(world)
    csn = await server.env.oracle.read_ts("user")
    for name in (*World.LISTS, *World.BANKS):
        await read_table(world, server, name, csn)
    await publisher.publish(DATABASE, tables, csn)
    await check_published(world)
    await publisher.publish(DATABASE, [], csn, gone=frozenset(table.relation for table in tables))
