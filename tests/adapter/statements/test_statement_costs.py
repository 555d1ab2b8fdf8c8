"""What statements cost in store operations: counted, so that it holds exactly, on each store, alone and beside another
server of the environment."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from adapter.results import Command
from adapter.sessions.options import ServerOptions
from adapter.sessions.server import Server
from planner.ir.nodes import Literal
from planner.types import types as t
from planner.types.types import SqlType
from storage.clock import SystemClock
from storage.doubles.clock import SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.doubles.unreliable import NO_FAULTS, Faults, UnreliableBlob, UnreliableConsensus
from storage.environment.environment import Environment
from storage.environment.local_environment import ProcessFiles
from storage.environment.named_stores import StoreNames
from storage.environment.opening import open_on_stores
from storage.stores.blob import Blob
from storage.stores.blob_local import LocalBlob
from storage.stores.consensus import Consensus
from storage.stores.consensus_postgres import PostgresConsensus
from storage.stores.consensus_sqlite import SqliteConsensus
from storage.stores.counting import CountingBlob, CountingConsensus
from tests.adapter.harness import Client, connect
from tests.storage.store_servers import postgres_url
from tests.support.postgres import PostgresServer

SCHEMAS = itertools.count()
OPERATION_S = 0.1
"""What each operation of a slow store takes."""

_T = TypeVar("_T")


class Slow(Faults):
    """Makes each operation of both stores take `delay_s`, and notes when each was under way."""

    def __init__(self) -> None:
        super().__init__(rates=NO_FAULTS, randomness=SeededRandomness(1), clock=SystemClock())
        self.delay_s = 0.0
        self.spans: list[tuple[float, float]] = []

    async def call(self, what: str, operation: Callable[[], Awaitable[_T]], *, writes: bool) -> _T:
        start = time.monotonic()
        await asyncio.sleep(self.delay_s / 2)
        try:
            return await operation()
        finally:
            await asyncio.sleep(self.delay_s / 2)
            self.spans.append((start, time.monotonic()))

    async def waited(self, work: Awaitable[object]) -> int:
        """How many operations `work` waits for one after the other: of those at one time only one counts."""
        self.delay_s = OPERATION_S
        self.spans.clear()
        await work
        self.delay_s = 0.0
        operations = 0
        over = 0.0
        for start, end in sorted(self.spans):
            if start >= over:
                operations, over = operations + 1, end
            else:
                over = min(over, end)
        return operations


class Counted:
    """A server whose stores count. `peer` is another one on the same stores, where there is one.

    Background work is switched off on both: it has counts of its own.
    """

    def __init__(self, blob: Blob, consensus: Consensus, *, asks: bool) -> None:
        self.asks = asks
        self.slow = Slow()
        self.blob = CountingBlob(UnreliableBlob(blob, self.slow))
        self.consensus = CountingConsensus(UnreliableConsensus(consensus, self.slow))
        self.server: Server
        self.peer: Server | None = None

    @contextmanager
    def costs(self, *, writes: int, oracle: int = 0) -> Iterator[None]:
        """Holds the block to so many consensus writes, to so many reads for timestamps if they are shared with other
        processes and none otherwise, and to no blob operation."""
        consensus, blob = self.consensus.counts.copy(), self.blob.counts.copy()
        yield
        spent = self.consensus.counts - consensus
        assert dict(spent.calls) == ({"compare_and_set": writes} if writes else {}) | (
            {"scan": oracle} if self.asks and oracle else {}
        )
        assert (self.blob.counts - blob).total == 0


async def serve(env: Environment, blob_root: Path | None) -> Server:
    options = ServerOptions(
        stores=StoreNames(data_dir=Path("unused")),
        warm_spark=False,
        settings={"engine": "local"},
        pruning_audit=1.0,
    )
    return await Server.on(env, options, blob_root=blob_root)


CASES = ["memory", "memory shared", "sqlite", "sqlite with a peer", "postgres", "postgres with a peer"]


@pytest.fixture(params=CASES)
async def counted(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Counted]:
    store, _, way = request.param.partition(" ")
    async with AsyncExitStack() as stack:
        number = itertools.count(1)
        schema = f"statement_costs_{os.getpid()}_{next(SCHEMAS)}"
        blob_root = None if store == "memory" else tmp_path / "blob"
        memory_blob, memory = MemoryBlob(), MemoryConsensus()
        if blob_root is not None:
            blob_root.mkdir()

        async def stores() -> Counted:
            consensus: Consensus = memory
            if store == "sqlite":
                consensus = await SqliteConsensus.open(tmp_path / "consensus.sqlite")
            elif store == "postgres":
                server: PostgresServer = request.getfixturevalue("postgres")
                consensus = await PostgresConsensus.open(postgres_url(server), schema)
            stack.push_async_callback(consensus.close)
            blob = memory_blob if blob_root is None else LocalBlob(blob_root)
            return Counted(blob, consensus, asks=store == "postgres" or bool(way))

        async def open_on(counted: Counted) -> Server:
            files = None
            if store == "sqlite":
                files = ProcessFiles(tmp_path / "servers")
                stack.callback(files.close)
            env = await open_on_stores(
                blob=counted.blob,
                consensus=counted.consensus,
                clock=SystemClock(),
                random=SeededRandomness(next(number)),
                process="test",
                background=False,
                shared=store == "postgres" or way == "shared",
                liveness=files,
            )
            server = await serve(env, blob_root)
            stack.push_async_callback(server.close)
            return server

        counted = await stores()
        counted.server = await open_on(counted)
        if way == "with a peer":
            joining = asyncio.ensure_future(open_on(await stores()))
            while not joining.done():
                # What the background does: it makes room for who wants to join.
                await counted.server.env.cache.durable.refresh()
                await counted.server.env.peers.react()
                await asyncio.sleep(0.01)
            counted.peer = joining.result()
            await counted.server.env.cache.durable.refresh()
        yield counted


async def prepared(client: Client, sql: str) -> Client:
    """`client`, after a definition or two."""
    await client.run(sql)
    return client


async def test_selects_write_nothing(counted: Counted) -> None:
    client = await prepared(await connect(counted.server), "create table t (a int); insert into t values (1), (2)")
    await client.rows("select * from t")
    for text in ("select 1", "select sum(a) from t", "select * from t where a = 2", "select count(*) from pg_class"):
        with counted.costs(writes=0, oracle=1):
            await client.rows(text)


async def test_a_select_reads_the_parts_it_needs_and_lists_nothing(counted: Counted) -> None:
    client = await prepared(await connect(counted.server), "create table t (a int, b text)")
    for start in (1, 2001, 4001):
        rows = f"select g, repeat('x', 100) from generate_series({start}, {start + 1999}) g"
        await client.run(f"insert into t {rows}")
    await counted.server.env.applier.apply_all()
    blob, consensus = counted.blob.counts.copy(), counted.consensus.counts.copy()
    assert await client.value("select count(b) from t where a between 2100 and 2200") == 101
    spent = (counted.blob.counts - blob).calls
    assert set(spent) <= {"get"}
    # The audit of what was left out looks into the two other parts (always on in tests).
    assert spent["get"] <= 3
    assert (counted.consensus.counts - consensus).writes == 0


async def test_selects_of_one_moment_share_their_timestamp(counted: Counted) -> None:
    clients = [await connect(counted.server) for _ in range(16)]
    await clients[0].run("create table t (a int); insert into t values (1), (2)")
    before = counted.consensus.counts.copy()
    await asyncio.gather(*(client.rows("select sum(a) from t") for client in clients))
    spent = counted.consensus.counts - before
    assert spent.writes == 0
    assert spent.total <= (2 if counted.asks else 0)


async def test_an_insert_writes_once(counted: Counted) -> None:
    client = await prepared(await connect(counted.server), "create table t (a int, b text default 'x')")
    for text in ("insert into t values (1)", "insert into t values (1), (2) returning a", "insert into t select 1"):
        with counted.costs(writes=1):
            await client.run(text)


async def test_a_prepared_insert_writes_once(counted: Counted) -> None:
    client = await prepared(await connect(counted.server), "create table t (a int, b text)")
    session = client.session
    for _ in range(2):
        with counted.costs(writes=1):
            await session.prepare("", "insert into t values ($1, $2)", (t.INT4, t.TEXT))
            params = (Literal(value=1, type=SqlType(t.INT4)), Literal(value="x", type=SqlType(t.TEXT)))
            await session.bind("", "", params, ())
            assert await session.execute_portal("", sync_follows=True) == Command(tag="INSERT 0 1")
            await session.sync()


async def test_a_change_of_rows_writes_once(counted: Counted) -> None:
    client = await prepared(await connect(counted.server), "create table t (a int); insert into t values (1), (2)")
    for text in ("update t set a = a + 10", "insert into t select a from t", "delete from t where a = 11"):
        with counted.costs(writes=1, oracle=1):
            await client.run(text)


async def test_a_transaction_over_many_tables_writes_once(counted: Counted) -> None:
    client = await connect(counted.server)
    for number in range(5):
        await client.run(f"create table t{number} (a int)")
    inserts = "; ".join(f"insert into t{number} values (1)" for number in range(5))
    with counted.costs(writes=1):
        await client.run(f"begin; {inserts}; commit")


async def test_a_transaction_with_spilled_parts_writes_once_beside_its_uploads(counted: Counted) -> None:
    client = await prepared(await connect(counted.server), "create table t (a int, b text)")
    consensus, blob = counted.consensus.counts.copy(), counted.blob.counts.copy()
    await client.run("insert into t select g, repeat('x', 100) from generate_series(1, 5000) g")
    assert dict((counted.blob.counts - blob).calls) == {"put_if_absent": 1}
    spent = dict((counted.consensus.counts - consensus).calls)
    assert spent == {"compare_and_set": 1} | ({"scan": 1} if "scan" in spent else {})
    # generate_series is run by an engine: as a read, with a timestamp. The commit itself asks for nothing.
    await client.run("begin")
    await client.run("insert into t select g, repeat('x', 100) from generate_series(1, 5000) g")
    consensus = counted.consensus.counts.copy()
    await client.run("commit")
    assert dict((counted.consensus.counts - consensus).calls) == {"compare_and_set": 1}


DEFINITIONS = (
    "create table u (id serial primary key, a int)",
    "create table if not exists v (a int)",
    "alter table u add column b text default 'x'",
    "alter table u alter column a type bigint",
    "create view w as select a from u",
    "alter table u rename column b to c",
    "comment on table u is 'x'",
    "create schema s",
    "create sequence q",
    "truncate v",
    "drop view w",
    "drop table u, v",
    "create table x as select 1 as a",
)


async def test_ddl_writes_once_and_asks_nothing(counted: Counted) -> None:
    client = await connect(counted.server)
    for text in DEFINITIONS:
        with counted.costs(writes=1):
            await client.run(text)


async def test_prepared_ddl_writes_once_and_asks_nothing(counted: Counted) -> None:
    session = (await connect(counted.server)).session
    for text in ("create table u (a int)", "alter table u add column b int", "drop table u"):
        with counted.costs(writes=1):
            await session.prepare("", text, ())
            await session.bind("", "", (), ())
            await session.execute_portal("", sync_follows=True)
            await session.sync()


async def test_ddl_that_reads_rows_asks_for_its_snapshot(counted: Counted) -> None:
    client = await prepared(await connect(counted.server), "create table t (a int, b text); insert into t values (1)")
    for text in ("create table u as select * from t", "alter table t alter column a type text", "truncate t"):
        with counted.costs(writes=1, oracle=0 if text == "truncate t" else 1):
            await client.run(text)


async def test_ddl_that_does_nothing_makes_sure_of_that(counted: Counted) -> None:
    client = await prepared(await connect(counted.server), "create table t (a int)")
    for text in ("create table if not exists t (a int)", "drop table if exists nothing"):
        with counted.costs(writes=0, oracle=1):
            await client.run(text)
        assert len(client.notices()) == 1
    with counted.costs(writes=0, oracle=1):
        assert (await client.error("create table t (a int)")).sqlstate == "42P07"


async def test_temporary_objects_cost_nothing(counted: Counted) -> None:
    client = await prepared(await connect(counted.server), "create table t (a int); insert into t values (1), (2)")
    for text in (
        "create temp table own (id serial primary key, a int check (a > 0), unique (a))",
        "insert into own (a) values (1), (2)",
        "insert into own (a) select a + 10 from t",
        "insert into own (a) values (2), (3) on conflict (a) do update set a = own.a + 100",
        "update own set a = a + 1000 where a = 1",
        "delete from own where a = 1001",
        "select * from own join t on own.a > t.a",
        "create index on own (a, id)",
        "alter table own add column b text default 'x'",
        "begin; insert into own (a) values (7); savepoint s; truncate own; rollback to s; commit",
        "create temp view seen as select a from own",
        "create temp table copied on commit drop as select * from seen",
        "create temp sequence numbers; select nextval('numbers')",
        "drop table own cascade",
        "discard temp",
    ):
        before, files = counted.consensus.counts.copy(), counted.blob.counts.copy()
        await client.run(text)
        spent = counted.consensus.counts - before
        assert spent.writes == 0, text
        # Statements may have asked for the newest snapshot of what they read besides.
        assert set(spent.calls) <= ({"scan"} if counted.asks else set()), text
        assert (counted.blob.counts - files).total == 0, text


async def test_what_is_temporary_goes_along_with_one_write(counted: Counted) -> None:
    client = await prepared(await connect(counted.server), "create table t (a int)")
    for text in (
        "begin; create temp table own (a int); insert into own values (5); insert into t values (1); commit",
        "begin; insert into own values (6); insert into t values (2); commit",
    ):
        before = counted.consensus.counts.copy()
        await client.run(text)
        assert (counted.consensus.counts - before).writes == 1
    assert await client.rows("select a from own order by a") == [(5,), (6,)]


async def test_begin_and_settings_ask_nothing(counted: Counted) -> None:
    client = await connect(counted.server)
    with counted.costs(writes=0):
        await client.run("begin; set local timezone = 'UTC'; show timezone; commit")
    with counted.costs(writes=0):
        await client.session.prepare("", "begin", ())
        await client.session.prepare("", "set timezone = 'UTC'", ())


async def test_with_stores_of_100_ms_a_statement_waits_for_one_operation(counted: Counted) -> None:
    client = await prepared(await connect(counted.server), "create table t (a int, b text); create table u (a int)")
    waited, read = counted.slow.waited, int(counted.asks)
    await client.rows("select * from t")
    assert await waited(client.run("insert into t values (1, 'x')")) == 1
    assert await waited(client.rows("select a from t")) == read
    assert await waited(client.run("update t set b = 'y'")) == 1 + read
    assert await waited(client.run("begin; insert into t values (2, 'x'); insert into u values (1); commit")) == 1
    assert await waited(client.run("create table v (a int)")) == 1
    await client.run("begin")
    await client.run("insert into t select g, repeat('x', 100) from generate_series(1, 5000) g")
    counts = counted.blob.counts.copy()
    assert await waited(client.run("commit")) == 1
    assert dict((counted.blob.counts - counts).calls) == {"put_if_absent": 1}
    clients = [client, *[await connect(counted.server) for _ in range(7)]]
    inserting = asyncio.gather(*(each.run("insert into u values (1)") for each in clients))
    # Who comes while the first is written shares the next write.
    assert await waited(inserting) <= 2


async def test_groups_share_one_write(counted: Counted) -> None:
    clients = [await connect(counted.server) for _ in range(16)]
    await clients[0].run("create table t (a int)")
    groups, before = counted.server.services.committer.groups, counted.consensus.counts.copy()
    await asyncio.gather(*(client.run(f"insert into t values ({n})") for n, client in enumerate(clients)))
    groups = counted.server.services.committer.groups - groups
    assert groups < 16
    assert dict((counted.consensus.counts - before).calls) == {"compare_and_set": groups}
    assert await clients[0].value("select count(*) from t") == 16


@pytest.mark.parametrize("counted", [case for case in CASES if "peer" in case], indirect=True)
async def test_what_the_peer_did_costs_one_more_look(counted: Counted) -> None:
    assert counted.peer is not None
    here, there = await connect(counted.server), await connect(counted.peer)
    await there.run("create table t (a int); insert into t values (1)")
    # Nothing tells this server (its background is off): its write is refused, it looks, and writes again.
    before = counted.consensus.counts.copy()
    await here.run("create table u (a int)")
    spent = (counted.consensus.counts - before).calls
    assert spent["compare_and_set"] == 2
    assert await here.value("select count(*) from t") == 1
    assert await there.value("select count(*) from u") == 0
