"""What the clients of a simulation do: serializable transactions over lists and accounts.

- *Lists*: a row (key, value) appends value to the list of key. Transactions read some lists and append to some.
- *Bank*: each account is one row (account, balance), spread over two tables. A transfer deletes two rows and
  inserts two; the sum over both tables never changes. Some are made by two transactions that commit as one, of which
  the second goes on from the rows of the first.

A transaction reads at one CSN under a hold, buffers its writes, and commits with validation: everything it read is
checked for changes since its CSN, and the commit's compare-and-set makes sure that nothing came after the check.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

import msgspec
import pyarrow as pa

from storage.durable.formats import FormatNotYet
from storage.environment.environment import Environment
from storage.errors import (
    AsOfNotReadable,
    Determinate,
    EnvironmentFenced,
    HoldExpired,
    Indeterminate,
    NewerFormat,
    StorageError,
    UnknownShard,
)
from storage.shards.parts import ROW_ID
from storage.shards.shard import ShardChanges, ShardSnapshot
from storage.shards.whole_deletions import WHOLE_FORMAT
from storage.timestamps.csn import Csn
from storage.timestamps.oracle import acquired
from storage.transactions.rows_ahead import MAX_PLACES, row_ahead
from storage.transactions.txn import Txn
from storage.transactions.txns_shard import Committed, Phase
from tests.simulation.engine_files import engine_file
from tests.simulation.keyed import check_keys
from tests.simulation.layouts import LAYOUT, check_part
from tests.simulation.linked import add_file
from tests.simulation.whole_parts import parts_of_rows
from tests.simulation.world import Attempt, Row, Server, World

SCHEMA = pa.schema([pa.field("c1", pa.int64()), pa.field("c2", pa.int64())])
COMMIT_TRIES = 6
FOLLOWED = 0.4
"""Share of the transfers that two transactions make which commit as one: the second changes the first's rows."""

KEYED_READS = 0.3
"""Share of the reads of a table with indexes that are checked by key."""


LINKED = 0.3
"""Share of the transactions that append files of others, where there are such files."""


WHOLE = 0.8
"""Share of the files that are deleted as they are, where all of their rows are deleted."""


class Conflict(Exception):
    """Somebody changed what the transaction read."""


def table_of(rows: list[Row]) -> pa.Table:
    """`rows` as Arrow."""
    return pa.table({"c1": [row[0] for row in rows], "c2": [row[1] for row in rows]}, schema=SCHEMA)


def deletion_of(rows: list[tuple[int, Row]]) -> pa.Table:
    """The deletion of `rows`, given with their row ids."""
    ids = pa.array([row_id for row_id, _ in rows], pa.int64())
    return table_of([row for _, row in rows]).add_column(0, pa.field(ROW_ID, pa.int64()), ids)


async def read_table(world: World, server: Server, table: str, as_of: Csn) -> list[tuple[int, Row]]:
    """The rows of `table` at `as_of` by row id. Every two reads of one table and CSN must agree."""
    env = server.env
    snapshot = await env.reader.snapshot(world.tables[table], as_of)
    live: dict[int, Row] = {}
    for part in snapshot.inserts:
        data = await env.reader.read_part(part, [ROW_ID, "c1", "c2"])
        for row_id, key, value in zip(*(data.column(n).to_pylist() for n in range(3)), strict=True):
            if row_id in live:
                world.problem(f"{table} at {as_of}: row id {row_id} twice")
            live[row_id] = (key, value)
        if world.plan.laid_out:
            check_part(world, table, part, data)
    deleted: set[int] = set()
    for part in snapshot.deletes:
        deleted.update((await env.reader.read_part(part, [ROW_ID])).column(0).to_pylist())
    rows = tuple(sorted((row_id, row) for row_id, row in live.items() if row_id not in deleted))
    if snapshot.rows != len(rows):
        world.problem(f"{table} at {as_of}: snapshot counts {snapshot.rows} rows and has {len(rows)}")
    before = world.snapshots.setdefault((table, as_of), rows)
    if before != rows:
        world.problem(f"{table} at {as_of} is not immutable: {before} was read, now {rows}")
    if world.plan.keyed and world.randomness.random() < KEYED_READS:
        await check_keys(world, env, table, snapshot, rows)
    return list(rows)


class ClientTransaction:
    """A serializable transaction in the making."""

    def __init__(self, world: World, server: Server, attempt: Attempt, as_of: Csn) -> None:
        self.world = world
        self.server = server
        self.attempt = attempt
        self.as_of = as_of
        self.txn: Txn = server.env.begin()
        if world.plan.laid_out:
            for shard in world.tables.values():
                self.txn.lay_out(shard, LAYOUT.partition)
        # All or none: of a file and of rows in memory nobody says which comes first.
        self.linked = world.plan.linked and world.randomness.random() < LINKED
        self._read: dict[str, set[int]] = {}
        self._own: dict[tuple[str, int], list[int]] = {}
        self._written_by_engine: bool | None = None

    async def read_list(self, table: str, key: int) -> None:
        """Read one list."""
        self._read.setdefault(table, set()).add(key)
        rows = await read_table(self.world, self.server, table, self.as_of)
        values = tuple([row[1] for _, row in rows if row[0] == key] + self._own.get((table, key), []))
        self.attempt.operations.append(("read", table, key, values))

    def _by_engine(self, value: int) -> bool:
        """Whether an engine writes the rows that the transaction appends: all of them or none, since those of files
        come before others."""
        if self._written_by_engine is None:
            self._written_by_engine = self.world.plan.spills and value % 4 == 0
        return self._written_by_engine

    async def append(self, table: str, key: int) -> None:
        """Append a new value to one list."""
        value = self.world.unique()
        shard, rows = self.world.tables[table], table_of([(key, value)])
        if self.linked:
            await self.txn.write_part(shard, await add_file(self.world, self.server.env, shard, rows))
        elif self._by_engine(value):
            await self.txn.write_part(shard, await engine_file(self.server.env, shard, rows))
        else:
            self.txn.write(shard, rows)
        self._own.setdefault((table, key), []).append(value)
        self.attempt.writes.append((table, (key, value)))
        self.attempt.operations.append(("append", table, key, value))
        if self.world.plan.spills and self.world.randomness.random() < 0.3:
            await self.txn.spill(force=True)

    async def read_bank(self) -> dict[int, tuple[str, int, Row]]:
        """All accounts: (table, row id, row) by account. Their sum must be what it always was."""
        found: dict[int, tuple[str, int, Row]] = {}
        for table in World.BANKS:
            self._read.setdefault(table, set()).update(range(World.ACCOUNTS))
            for row_id, row in await read_table(self.world, self.server, table, self.as_of):
                if row[0] in found:
                    self.world.problem(f"account {row[0]} exists twice at {self.as_of}")
                found[row[0]] = (table, row_id, row)
        total = sum(row[1] for _, _, row in found.values())
        if total != World.ACCOUNTS * World.OPENING_BALANCE or len(found) != World.ACCOUNTS:
            self.world.problem(f"the bank holds {total} in {len(found)} accounts at {self.as_of}")
        return found

    async def transfer(self) -> None:
        """Move money between two accounts."""
        accounts = await self.read_bank()
        if len(accounts) < 2:
            return
        chosen = sorted(accounts)
        source = chosen.pop(self.world.randomness.randrange(len(chosen)))
        target = chosen[self.world.randomness.randrange(len(chosen))]
        amount = 1 + self.world.randomness.randrange(20)
        follower = self.server.env.begin() if self.world.randomness.random() < FOLLOWED else None
        if follower is not None:
            self.txn.place = 1 + self.world.randomness.randrange(MAX_PLACES)
        gone = await self._delete_wholly([accounts[source], accounts[target]])
        for account, change in ((source, -amount), (target, amount)):
            table, row_id, row = accounts[account]
            shard = self.world.tables[table]
            new: Row = (account, row[1] + change)
            if (table, row_id) not in gone:
                self.txn.delete(shard, deletion_of([(row_id, row)]))
            if follower is None and self._by_engine(change):
                await self.txn.write_part(shard, await engine_file(self.server.env, shard, table_of([new])))
            elif follower is None:
                self.txn.write(shard, table_of([new]))
            else:
                # What is there between the two, nobody must ever see.
                between: Row = (account, row[1] + 1_000)
                first = self.txn.write(shard, table_of([between]))
                follower.delete(shard, deletion_of([(row_ahead(self.txn.place, first), between)]))
                follower.write(shard, table_of([new]))
            self.attempt.deletes.append((table, row))
            self.attempt.writes.append((table, new))
        # Balances repeat; this unique value tells whether a transfer in doubt took place.
        journal: Row = (World.JOURNAL_KEY, self.world.unique())
        self.txn.write(self.world.tables[World.LISTS[0]], table_of([journal]))
        self.attempt.writes.append((World.LISTS[0], journal))
        if follower is not None:
            self.txn.merge(follower)

    async def _delete_wholly(self, rows: list[tuple[str, int, Row]]) -> set[tuple[str, int]]:
        """Delete the files that have some of `rows` and nothing else, as they are. Returns which rows these are."""
        gone: set[tuple[str, int]] = set()
        if self.world.plan.upgraded and not await self.server.env.formats.allows(WHOLE_FORMAT):
            return gone
        for table in sorted({table for table, _, _ in rows}):
            shard, ids = self.world.tables[table], [row_id for other, row_id, _ in rows if other == table]
            for part, found in await parts_of_rows(self.server.env, shard, self.as_of, ids):
                if self.world.randomness.random() < WHOLE:
                    self.txn.delete_whole(shard, part)
                    gone.update((table, row_id) for row_id in found)
        return gone

    def lists_read(self) -> set[tuple[str, int]]:
        """The lists that it has read, and what else it has read, by table and key."""
        return {(table, key) for table, keys in self._read.items() for key in keys}

    def lists_written(self) -> set[tuple[str, int]]:
        """The lists that it appends to, and what else it writes, by table and key."""
        return {(table, row[0]) for table, row in (*self.attempt.writes, *self.attempt.deletes)}

    async def commit(self, *, prepare: tuple[str, bytes] | None = None) -> None:
        """Validate and commit, or `prepare` under a name and with a note. Raises Conflict; other errors as storage
        does."""
        env = self.server.env
        if self.txn.is_empty:
            self.attempt.csn = self.as_of
            return
        shards = sorted({self.world.tables[table] for table in self._read} | set(self.txn.shards))
        for _ in range(COMMIT_TRIES):
            validated = env.cache.upper
            await self._validate(validated)
            known = env.cache.state.prepares
            if in_the_way(env, self.lists_read(), self.lists_written(), prepares=prepare is not None):
                raise Conflict
            async with acquired(env.oracle, "user") as ts:
                self.attempt.csn = ts
                self.attempt.status = "committing"
                phase = Phase(prepare=prepare, known=known)
                result = await env.committer.commit(self.txn, ts=ts, validated=validated, shards=shards, phase=phase)
                if isinstance(result, Committed):
                    if prepare is None:
                        # What is prepared may have been committed meanwhile, at another CSN.
                        self.attempt.csn = result.ts
                    await env.oracle.apply_write("user", ts)
                    return
            self.attempt.status = "working"
            env.oracle.observe(Csn(result.least_committable - 1))
        raise Conflict

    async def _validate(self, upper: Csn) -> None:
        """Raise Conflict when a row that the transaction's reads depend on was written in (as_of, upper)."""
        if upper - 1 <= self.as_of:
            return
        for table, keys in self._read.items():
            changes = await self.server.env.reader.changes(self.world.tables[table], self.as_of, Csn(upper - 1))
            for part in (*changes.inserts, *changes.deletes):
                changed = (await self.server.env.reader.read_part(part, ["c1"])).column("c1").to_pylist()
                if not keys.isdisjoint(changed):
                    raise Conflict


def in_the_way(
    env: Environment, read: Collection[tuple[str, int]], written: Collection[tuple[str, int]], *, prepares: bool
) -> bool:
    """Whether a prepared transaction (`tests.simulation.prepared`) keeps one that has read and written these lists from
    committing, or preparing."""
    for record in env.cache.state.prepared.values():
        theirs = msgspec.msgpack.decode(record.note, type=tuple[list[tuple[str, int]], list[tuple[str, int]]])
        if not set(theirs[0]).isdisjoint(written) or (prepares and not set(theirs[1]).isdisjoint(read)):
            return True
    return False


async def transact(world: World, server: Server, body: Callable[[ClientTransaction], Awaitable[None]]) -> Attempt:
    """Run one client transaction and record what its client knows of it."""
    attempt = Attempt(id=len(world.attempts), began=world.now())
    world.attempts.append(attempt)
    env = server.env
    try:
        as_of = await env.oracle.read_ts("user")
        async with await env.leases.hold(list(world.tables.values()), as_of):
            client = ClientTransaction(world, server, attempt, as_of)
            if world.plan.xids and world.randomness.random() < world.plan.xids:
                attempt.xid = client.txn.xid = await env.xids.draw()
                if world.randomness.random() < world.plan.xids:
                    world.pg_snapshots.append((as_of, await env.outcomes.current_snapshot(as_of)))
            await body(client)
            await client.commit()
    except (Conflict, AsOfNotReadable, HoldExpired):
        attempt.status = "fail"
    except Indeterminate:
        attempt.status = "info" if attempt.status == "committing" else "fail"
    except (Determinate, EnvironmentFenced, NewerFormat) as error:
        # Nothing happened if the commit itself says so; afterwards the transaction is durable all the same.
        attempt.status = "fail" if isinstance(error, Determinate) or attempt.status != "committing" else "info"
        if isinstance(error, FormatNotYet):
            world.problem(f"T{attempt.id} was allowed what it is refused: {error}")
    else:
        attempt.status = "ok"
    if attempt.xid is not None:
        env.xids.ended(attempt.xid, in_doubt=attempt.status == "info")
    attempt.ended = world.now()
    world.loop.trace.add(f"client T{attempt.id} {attempt.status} at {attempt.csn} {attempt.operations}")
    return attempt


async def client(world: World, server: Server, transactions: int) -> None:
    """One session: some transactions of random shape."""
    randomness = world.randomness
    for _ in range(transactions):
        if server.leaving.is_set():
            return
        # Rests and bursts, so that transactions collide.
        await asyncio.sleep(randomness.random() * (2.0 if randomness.random() < 0.3 else 0.02))

        async def body(transaction: ClientTransaction) -> None:
            if randomness.random() < 0.4:
                if randomness.random() < 0.3:
                    await transaction.read_bank()
                else:
                    await transaction.transfer()
                return
            for _ in range(1 + randomness.randrange(3)):
                table = World.LISTS[randomness.randrange(len(World.LISTS))]
                key = randomness.randrange(3)
                if randomness.random() < 0.5:
                    await transaction.read_list(table, key)
                else:
                    await transaction.append(table, key)

        await transact(world, server, body)


async def create_tables(world: World, server: Server) -> None:
    """Make the tables and open the accounts, in one transaction each; repeated until it is known to have worked."""
    env = server.env
    for table in (*World.LISTS, *World.BANKS):
        shard = env.new_shard_id()
        rows: list[Row] = []
        if table in World.BANKS:
            half = World.BANKS.index(table)
            rows = [(account, World.OPENING_BALANCE) for account in range(World.ACCOUNTS) if account % 2 == half]
        while True:
            txn = env.begin()
            txn.create_shard(shard, SCHEMA)
            if rows:
                txn.write(shard, table_of(rows))
            try:
                async with acquired(env.oracle, "user") as ts:
                    result = await env.committer.commit(txn, ts=ts)
                    if isinstance(result, Committed):
                        await env.oracle.apply_write("user", ts)
            except (StorageError, ValueError):
                await asyncio.sleep(0.1)
                shard = env.new_shard_id()
                continue
            if isinstance(result, Committed):
                break
        attempt = Attempt(id=len(world.attempts), began=world.now(), status="ok", csn=ts, ended=world.now())
        attempt.writes = [(table, row) for row in rows]
        world.attempts.append(attempt)
        world.tables[table] = shard


async def follow(world: World, server: Server, table: str) -> None:
    """Subscribe to a table for as long as the process lives: the sum of what comes is every snapshot."""
    env = server.env
    while True:
        try:
            as_of = await env.oracle.read_ts("user")
            await _follow_once(world, server, table, as_of)
        except UnknownShard as error:
            world.problem(f"subscription to {table}: {error}")
            return
        except StorageError as error:
            world.loop.trace.add(f"subscription to {table} begins again: {error}")
            await asyncio.sleep(0.2)


async def _follow_once(world: World, server: Server, table: str, as_of: Csn) -> None:
    env = server.env
    rows: dict[int, Row] = {}
    async for event in env.subscribe(world.tables[table], as_of):
        if isinstance(event, ShardSnapshot):
            rows = dict(await read_table(world, server, table, as_of))
        elif isinstance(event, ShardChanges):
            for part in event.inserts:
                data = await env.reader.read_part(part, [ROW_ID, "c1", "c2"])
                for row_id, key, value in zip(*(data.column(n).to_pylist() for n in range(3)), strict=True):
                    if row_id in rows:
                        world.problem(f"subscription to {table} delivered row {row_id} twice")
                    rows[row_id] = (key, value)
            for part in event.deletes:
                for row_id in (await env.reader.read_part(part, [ROW_ID])).column(0).to_pylist():
                    if rows.pop(row_id, None) is None:
                        world.problem(f"subscription to {table} deleted row {row_id}, which it had not delivered")
        else:
            found = tuple(sorted(rows.items()))
            before = world.snapshots.setdefault((table, event.csn), found)
            if before != found:
                world.problem(f"{table} at {event.csn}: a snapshot was {before}, the subscription sums to {found}")
