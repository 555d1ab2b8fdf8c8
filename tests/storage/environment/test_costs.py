"""What one statement may cost: operations of the two primitives, counted exactly, on each store.

The counts are those of the client's path. Background work (apply, keep-alive, maintenance) is switched off, and
has its own counts.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from storage.clock import SystemClock
from storage.doubles.clock import SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.environment.environment import Environment
from storage.environment.opening import open_on_stores
from storage.stores.blob_local import LocalBlob
from storage.stores.consensus import Consensus
from storage.stores.consensus_postgres import PostgresConsensus
from storage.stores.consensus_sqlite import SqliteConsensus
from storage.stores.counting import CountingBlob, CountingConsensus
from storage.timestamps.shared import TxnsOracle
from storage.transactions.txns_shard import Committed
from tests.storage.environments import SCHEMA, commit, create, deletion, insert, read, rows
from tests.storage.store_servers import postgres_url
from tests.support.postgres import PostgresServer

T = TypeVar("T")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def env(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Environment]:
    """An environment on counted stores. On PostgreSQL it is shared, and timestamps come from the txns shard."""
    async with contextlib.AsyncExitStack() as stack:
        consensus: Consensus = MemoryConsensus()
        blob = CountingBlob(MemoryBlob())
        if request.param == "sqlite":
            consensus = await SqliteConsensus.open(tmp_path / "consensus.sqlite")
            (tmp_path / "blob").mkdir()
            blob = CountingBlob(LocalBlob(tmp_path / "blob"))
        if request.param == "postgres":
            server: PostgresServer = request.getfixturevalue("postgres")
            schema = f"costs_{os.getpid()}_{next(SCHEMAS)}"
            consensus = await PostgresConsensus.open(postgres_url(server), schema)
        stack.push_async_callback(consensus.close)
        yield await open_on_stores(
            blob=blob,
            consensus=CountingConsensus(consensus),
            clock=SystemClock(),
            random=SeededRandomness(1),
            process="test",
            shared=request.param == "postgres",
            background=False,
        )


async def cost(env: Environment, work: Callable[[], Awaitable[T]]) -> tuple[dict[str, int], dict[str, int], T]:
    """Run `work`; the calls to consensus and to the blob store that it made."""
    assert isinstance(env.consensus, CountingConsensus)
    assert isinstance(env.blob, CountingBlob)
    consensus, blob = env.consensus.counts.copy(), env.blob.counts.copy()
    result = await work()
    return dict((env.consensus.counts - consensus).calls), dict((env.blob.counts - blob).calls), result


ONE_WRITE = {"compare_and_set": 1}
SCHEMAS = itertools.count()


def timestamps(env: Environment, reads: int) -> dict[str, int]:
    """The consensus reads that `reads` read timestamps cost: none for a process that is alone."""
    return {"scan": reads} if isinstance(env.oracle.inner, TxnsOracle) else {}


async def test_insert_of_one_row(env: Environment) -> None:
    shard = await create(env)
    consensus, blob, _ = await cost(env, lambda: insert(env, shard, (1, "a")))
    assert (consensus, blob) == (ONE_WRITE, {})


async def test_transaction_over_many_shards(env: Environment) -> None:
    shards = [await create(env, (0, "old")) for _ in range(7)]
    txn = env.begin()
    for shard in shards:
        txn.write(shard, rows((1, "a")))
        txn.delete(shard, deletion((0, 0, "old")))
    consensus, blob, _ = await cost(env, lambda: commit(env, txn))
    assert (consensus, blob) == (ONE_WRITE, {})


async def test_select_of_inline_rows(env: Environment) -> None:
    shard = await create(env, (1, "a"))
    await insert(env, shard, (2, "b"))

    async def select() -> object:
        at = await env.oracle.read_ts("user")
        async with await env.leases.hold([shard], at):
            return await read(env, shard, at)

    for applied in (False, True):
        if applied:
            await env.applier.apply_all()
        consensus, blob, found = await cost(env, select)
        assert found == {0: (1, "a"), 1: (2, "b")}
        assert (consensus, blob) == (timestamps(env, 1), {})


async def test_select_reads_each_part_once_and_lists_nothing(env: Environment) -> None:
    shard = await create(env)
    for _ in range(3):
        txn = env.begin()
        txn.write(shard, rows(*[(n, "x" * 100) for n in range(1000)]))
        await txn.spill(force=True)
        await commit(env, txn)
    consensus, blob, found = await cost(env, lambda: read(env, shard))
    assert len(found) == 3000
    assert (consensus, blob) == (timestamps(env, 1), {"get": 3})
    consensus, blob, _ = await cost(env, lambda: read(env, shard))
    assert (consensus, blob) == (timestamps(env, 1), {})


async def test_spilled_transaction(env: Environment) -> None:
    shard = await create(env)
    txn = env.begin()
    txn.write(shard, rows(*[(n, "x" * 100) for n in range(2000)]))

    async def spill_and_commit() -> object:
        await txn.spill(force=True)
        return await commit(env, txn)

    consensus, blob, _ = await cost(env, spill_and_commit)
    assert (consensus, blob) == (ONE_WRITE, {"put_if_absent": 1})


async def test_ddl(env: Environment) -> None:
    shard = env.new_shard_id()
    txn = env.begin()
    txn.create_shard(shard, SCHEMA)
    consensus, blob, _ = await cost(env, lambda: commit(env, txn))
    assert (consensus, blob) == (ONE_WRITE, {})


async def test_a_failed_attempt_and_its_repetition_write_no_data(env: Environment) -> None:
    shard = await create(env)
    low = await env.oracle.write_ts("user")
    txn = env.begin()
    txn.write(shard, rows((1, "a")))
    sealed = await txn.seal()

    async def twice() -> object:
        await env.txns_shard.advance(type(low)(low + 1))
        first = await env.committer.commit(txn, ts=low)
        assert not isinstance(first, Committed)
        return await env.committer.commit(txn, ts=first.least_committable)

    consensus, blob, _ = await cost(env, twice)
    assert (consensus, blob) == ({"compare_and_set": 2}, {})
    assert await txn.seal() is sealed


async def test_idle_costs_one_write_per_keep_alive_whatever_exists(env: Environment) -> None:
    for _ in range(20):
        await create(env, (1, "a"))
    await env.applier.apply_all()
    await env.leases.keep_alive()
    consensus, blob, _ = await cost(env, env.leases.keep_alive)
    assert (consensus, blob) == (ONE_WRITE, {})


async def test_apply_is_one_write_per_shard_however_many_commits(env: Environment) -> None:
    shards = [await create(env) for _ in range(3)]
    await env.applier.apply_all()
    for number in range(10):
        for shard in shards:
            await insert(env, shard, (number, "a"))
    consensus, blob, _ = await cost(env, env.txns_shard.apply)
    assert (consensus, blob) == ({"compare_and_set": 3}, {})


async def test_the_bytes_of_a_commit_do_not_depend_on_the_number_of_shards(env: Environment) -> None:
    assert isinstance(env.consensus, CountingConsensus)
    written = []
    for _ in range(2):
        shard = await create(env)
        await env.applier.apply_all()
        await env.leases.keep_alive()
        before = env.consensus.counts.copy()
        await insert(env, shard, (1, "a"))
        written.append((env.consensus.counts - before).bytes_written)
        txn = env.begin()
        for _ in range(500):
            txn.create_shard(env.new_shard_id(), SCHEMA)
        await commit(env, txn)
        await env.applier.apply_all()
        await env.leases.keep_alive()
    assert abs(written[1] - written[0]) < 32
