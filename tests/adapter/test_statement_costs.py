"""What statements cost in store operations: counted, so that it holds exactly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from adapter.server_state import ServerState
from storage.blob_memory import MemoryBlob
from storage.consensus_memory import MemoryConsensus
from storage.counting import CountingBlob, CountingConsensus
from tests.adapter.harness import connect, open_state


class Counted:
    """A state whose stores count."""

    def __init__(self) -> None:
        self.blob = CountingBlob(MemoryBlob())
        self.consensus = CountingConsensus(MemoryConsensus())
        self.state: ServerState


@pytest.fixture
async def counted() -> AsyncIterator[Counted]:
    stores = Counted()
    async with open_state(blob=stores.blob, consensus=stores.consensus, background=False) as state:
        stores.state = state
        yield stores


async def test_selects_write_nothing(counted: Counted) -> None:
    client = await connect(counted.state)
    await client.run("create table t (a int); insert into t values (1), (2)")
    await client.rows("select * from t")
    before = counted.consensus.counts.copy()
    for text in ("select 1", "select sum(a) from t", "select * from t where a = 2", "select count(*) from pg_class"):
        await client.rows(text)
    assert (counted.consensus.counts - before).total == 0


async def test_an_insert_writes_once(counted: Counted) -> None:
    client = await connect(counted.state)
    await client.run("create table t (a int)")
    consensus, blob = counted.consensus.counts.copy(), counted.blob.counts.copy()
    await client.run("insert into t values (1)")
    assert (counted.consensus.counts - consensus).writes == 1
    assert (counted.blob.counts - blob).total == 0


async def test_a_transaction_over_many_tables_writes_once(counted: Counted) -> None:
    client = await connect(counted.state)
    for number in range(5):
        await client.run(f"create table t{number} (a int)")
    before = counted.consensus.counts.copy()
    inserts = "; ".join(f"insert into t{number} values (1)" for number in range(5))
    await client.run(f"begin; {inserts}; commit")
    assert (counted.consensus.counts - before).writes == 1


async def test_ddl_writes_once(counted: Counted) -> None:
    client = await connect(counted.state)
    before = counted.consensus.counts.copy()
    await client.run("create table t as select 1 as a")
    assert (counted.consensus.counts - before).writes == 1


async def test_groups_share_one_write(counted: Counted) -> None:
    clients = [await connect(counted.state) for _ in range(16)]
    await clients[0].run("create table t (a int)")
    before = counted.state.committer.groups
    await asyncio.gather(*(client.run(f"insert into t values ({n})") for n, client in enumerate(clients)))
    assert counted.state.committer.groups - before < 16
    assert await clients[0].value("select count(*) from t") == 16
