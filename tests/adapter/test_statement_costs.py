"""What statements cost in store operations: counted, so that it holds exactly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from adapter.server_state import ServerState
from storage.blob_memory import MemoryBlob
from storage.consensus_memory import MemoryConsensus
from storage.counting import CountingBlob, CountingConsensus
from tests.adapter.harness import connect, open_state


class Counted:
    """A state whose stores count."""

    def __init__(self, *, shared: bool) -> None:
        self.shared = shared
        self.blob = CountingBlob(MemoryBlob())
        self.consensus = CountingConsensus(MemoryConsensus())
        self.state: ServerState

    @contextmanager
    def costs(self, *, writes: int, oracle: int = 0) -> Iterator[None]:
        """Holds the block to so many consensus writes, to so many reads for timestamps if they are shared with other
        processes and none otherwise, and to no blob operation."""
        consensus, blob = self.consensus.counts.copy(), self.blob.counts.copy()
        yield
        spent = self.consensus.counts - consensus
        assert spent.writes == writes
        assert spent.total - spent.writes == (oracle if self.shared else 0)
        assert (self.blob.counts - blob).total == 0


@pytest.fixture(params=[False, True], ids=["alone", "shared"])
async def counted(request: pytest.FixtureRequest) -> AsyncIterator[Counted]:
    stores = Counted(shared=request.param)
    consensus, blob = stores.consensus, stores.blob
    async with open_state(blob=blob, consensus=consensus, background=False, shared=stores.shared) as state:
        stores.state = state
        yield stores


async def test_selects_write_nothing(counted: Counted) -> None:
    client = await connect(counted.state)
    await client.run("create table t (a int); insert into t values (1), (2)")
    await client.rows("select * from t")
    for text in ("select 1", "select sum(a) from t", "select * from t where a = 2", "select count(*) from pg_class"):
        with counted.costs(writes=0, oracle=1):
            await client.rows(text)


async def test_selects_of_one_moment_share_their_timestamp(counted: Counted) -> None:
    clients = [await connect(counted.state) for _ in range(16)]
    await clients[0].run("create table t (a int); insert into t values (1), (2)")
    before = counted.consensus.counts.copy()
    await asyncio.gather(*(client.rows("select sum(a) from t") for client in clients))
    assert (counted.consensus.counts - before).total <= 2


async def test_an_insert_writes_once(counted: Counted) -> None:
    client = await connect(counted.state)
    await client.run("create table t (a int, b text default 'x')")
    for _ in range(2):
        with counted.costs(writes=1):
            await client.run("insert into t values (1)")


async def test_a_change_of_rows_writes_once(counted: Counted) -> None:
    client = await connect(counted.state)
    await client.run("create table t (a int); insert into t values (1), (2)")
    for text in ("update t set a = a + 10", "insert into t select a from t", "delete from t where a = 11"):
        with counted.costs(writes=1, oracle=1):
            await client.run(text)


async def test_a_transaction_over_many_tables_writes_once(counted: Counted) -> None:
    client = await connect(counted.state)
    for number in range(5):
        await client.run(f"create table t{number} (a int)")
    inserts = "; ".join(f"insert into t{number} values (1)" for number in range(5))
    with counted.costs(writes=1):
        await client.run(f"begin; {inserts}; commit")


async def test_ddl_writes_once(counted: Counted) -> None:
    client = await connect(counted.state)
    for text in ("create table t as select 1 as a", "create table u (id serial primary key)", "drop table t"):
        with counted.costs(writes=1, oracle=1):
            await client.run(text)


async def test_groups_share_one_write(counted: Counted) -> None:
    clients = [await connect(counted.state) for _ in range(16)]
    await clients[0].run("create table t (a int)")
    before = counted.state.committer.groups
    await asyncio.gather(*(client.run(f"insert into t values ({n})") for n, client in enumerate(clients)))
    assert counted.state.committer.groups - before < 16
    assert await clients[0].value("select count(*) from t") == 16
