"""The storage layer against its peers: `make bench NAME=storage`.

Small commits per second of Tidegate (group commit, as sessions use it), Delta Lake, Iceberg and PostgreSQL, on the
same disk, one after the other; then what must stay flat or overlap: the cost of a commit with many registered shards,
of a snapshot with many open sessions, of upload and append in parallel, and the size of the txns shard under load.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pyarrow as pa

from adapter.transactions.commit_request import CommitRequest, Isolation
from adapter.transactions.group_commit import GroupCommitter
from bench.report import machine, print_json, print_table
from storage.clock import SystemClock, SystemRandomness
from storage.doubles.clock import SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.environment.environment import Environment
from storage.environment.opening import open_on_stores
from storage.ids import ShardId
from storage.stores.blob_local import LocalBlob
from storage.stores.consensus import Consensus, SeqNo, VersionedData
from storage.stores.consensus_postgres import PostgresConsensus
from storage.stores.consensus_sqlite import SqliteConsensus
from storage.stores.counting import CountingBlob, CountingConsensus
from storage.timestamps.csn import Csn
from storage.timestamps.oracle import acquired
from storage.transactions.txn import Txn
from storage.transactions.txns_shard import Committed
from storage.transactions.txns_state import TxnsMachine
from tests.simulation.loop import SimulatedClock, SimulatedLoop, simulate
from tests.simulation.world import Plan, World, quiet_logs
from tests.support.postgres import PostgresServer, start_postgres

SCHEMA = pa.schema([pa.field("c1", pa.int64()), pa.field("c2", pa.string())])
COMMITTERS = (1, 8, 64)
SHARDS = (10, 1_000, 10_000)
SESSIONS = (10, 10_000)
LATENCIES_MS = (5, 20, 100)
LARGE_ROWS = 60_000
"""Enough that the transaction's part is a file: well over the limit of inline parts."""


def one_row(number: int) -> pa.Table:
    """A table of one row."""
    return pa.table({"c1": [number], "c2": ["value"]}, schema=SCHEMA)


async def commit(env: Environment, txn: Txn) -> Csn:
    """Commit without a group."""
    while True:
        async with acquired(env.oracle, "user") as ts:
            result = await env.committer.commit(txn, ts=ts)
            if isinstance(result, Committed):
                await env.oracle.apply_write("user", ts)
                return ts
        env.oracle.observe(Csn(result.least_committable - 1))


async def new_shard(env: Environment) -> ShardId:
    """A new, empty shard."""
    shard = env.new_shard_id()
    txn = env.begin()
    txn.create_shard(shard, SCHEMA)
    await commit(env, txn)
    return shard


@asynccontextmanager
async def environment(consensus: Consensus, folder: Path) -> AsyncIterator[Environment]:
    """An environment on `consensus` with its files in `folder`."""
    blob = LocalBlob(folder)
    env = await open_on_stores(
        blob=blob, consensus=consensus, clock=SystemClock(), random=SystemRandomness(), process="bench"
    )
    try:
        yield env
    finally:
        await env.close()
        await blob.close()
        await consensus.close()


async def repeatedly(workers: int, seconds: float, work: Callable[[int], Awaitable[object]]) -> float:
    """How often per second `workers` tasks together complete `work(worker)`."""
    done = 0
    end = time.perf_counter() + seconds

    async def worker(number: int) -> None:
        nonlocal done
        while time.perf_counter() < end:
            await work(number)
            done += 1

    start = time.perf_counter()
    await asyncio.gather(*(worker(number) for number in range(workers)))
    return done / (time.perf_counter() - start)


async def commit_rates(consensus: Consensus, folder: Path, seconds: float) -> dict[int, float]:
    """Single-row commits per second by number of committers, through group commit."""
    async with environment(consensus, folder) as env:
        shard = await new_shard(env)
        committer = GroupCommitter(env)
        committer.start()

        async def insert(number: int) -> None:
            snapshot = await env.oracle.read_ts("user")
            txn = env.begin()
            txn.write(shard, one_row(number))
            await committer.commit(
                CommitRequest(
                    txn=txn,
                    isolation=Isolation.READ_COMMITTED,
                    snapshot=snapshot,
                    reads=(),
                    catalog_updates=(),
                    catalog_reads={},
                )
            )

        await repeatedly(1, 0.5, insert)
        rates = {workers: await repeatedly(workers, seconds, insert) for workers in COMMITTERS}
        await committer.close()
        return rates


async def postgres_rates(server: PostgresServer, seconds: float) -> dict[int, float]:
    """One-row INSERTs per second of PostgreSQL by number of connections."""
    url = f"postgresql://postgres@{server.host}:{server.port}/postgres"
    rates = {}
    pool = await asyncpg.create_pool(url, min_size=max(COMMITTERS), max_size=max(COMMITTERS))
    await pool.execute("CREATE TABLE bench_rows (a bigint, b text)")
    for workers in COMMITTERS:

        async def insert(number: int) -> None:
            await pool.execute("INSERT INTO bench_rows VALUES ($1, 'value')", number)

        rates[workers] = await repeatedly(workers, seconds, insert)
    await pool.close()
    return rates


def delta_rate(folder: Path, seconds: float) -> float:
    """One-row appends per second of Delta Lake, which takes one writer at a time."""
    from deltalake import DeltaTable, write_deltalake

    write_deltalake(str(folder), one_row(0))
    table = DeltaTable(str(folder))
    return _rate(seconds, lambda number: write_deltalake(table, one_row(number), mode="append"))


def iceberg_rate(folder: Path, seconds: float) -> float:
    """One-row appends per second of Iceberg with its SQLite catalog."""
    from pyiceberg.catalog.sql import SqlCatalog

    folder.mkdir(parents=True)
    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("bench")
    table = catalog.create_table("bench.rows", schema=SCHEMA)
    return _rate(seconds, lambda number: table.append(one_row(number)))


def _rate(seconds: float, work: Callable[[int], object]) -> float:
    done = 0
    start = time.perf_counter()
    while time.perf_counter() - start < seconds or done < 3:
        work(done)
        done += 1
    return done / (time.perf_counter() - start)


async def shard_costs(folder: Path, commits: int) -> dict[int, tuple[float, int]]:
    """By number of registered shards: median seconds and consensus writes of a commit to one of them."""
    found = {}
    for number in SHARDS:
        consensus = CountingConsensus(await SqliteConsensus.open(folder / f"shards{number}.sqlite"))
        async with environment(consensus, folder / f"shards{number}") as env:
            txn = env.begin()
            shards = [env.new_shard_id() for _ in range(number)]
            for shard in shards:
                txn.create_shard(shard, SCHEMA)
            await commit(env, txn)
            await env.applier.apply_all()
            await env.leases.keep_alive()
            times = []
            before = consensus.counts.copy()
            for turn in range(commits):
                txn = env.begin()
                txn.write(shards[0], one_row(turn))
                start = time.perf_counter()
                await commit(env, txn)
                times.append(time.perf_counter() - start)
            # The background's own writes (apply, keep-alive) are amortized over the commits.
            writes = (consensus.counts - before)["compare_and_set"]
            found[number] = (statistics.median(times), round(writes / commits))
    return found


class SlowBlob(CountingBlob):
    """A blob store in memory whose writes take `delay_s`."""

    delay_s = 0.0

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """See `Blob.put_if_absent`."""
        await asyncio.sleep(self.delay_s)
        return await super().put_if_absent(key, data)


class SlowConsensus(CountingConsensus):
    """A consensus store in memory whose writes take `delay_s`."""

    delay_s = 0.0

    async def compare_and_set(self, key: str, expected_seqno: SeqNo | None, new: VersionedData) -> bool:
        """See `Consensus.compare_and_set`."""
        await asyncio.sleep(self.delay_s)
        return await super().compare_and_set(key, expected_seqno, new)


async def parallel_costs(turns: int) -> dict[int, tuple[float, float]]:
    """By latency in milliseconds of both stores: median seconds of a large commit, parallel and sequential."""
    found = {}
    rows = pa.table({"c1": range(LARGE_ROWS), "c2": [str(n) for n in range(LARGE_ROWS)]}, schema=SCHEMA)
    for latency_ms in LATENCIES_MS:
        blob, consensus = SlowBlob(MemoryBlob()), SlowConsensus(MemoryConsensus())
        env = await open_on_stores(
            blob=blob,
            consensus=consensus,
            clock=SystemClock(),
            random=SeededRandomness(1),
            process="bench",
            background=False,
        )
        shard = await new_shard(env)
        blob.delay_s = consensus.delay_s = latency_ms / 1000
        times: dict[str, list[float]] = {"parallel": [], "sequential": []}
        for _ in range(turns):
            for kind, samples in times.items():
                txn = env.begin()
                txn.write(shard, rows)
                sealed = await txn.seal()
                keys = [part.key for item in sealed.shards for part in item.parts if part.key is not None]
                # The upload has begun; from here on it runs beside the append, or before it.
                start = time.perf_counter()
                if kind == "sequential":
                    await env.parts.finished(keys)
                await commit(env, txn)
                samples.append(time.perf_counter() - start)
        found[latency_ms] = (statistics.median(times["parallel"]), statistics.median(times["sequential"]))
        blob.delay_s = consensus.delay_s = 0.0
        await env.close()
    return found


async def session_costs(turns: int) -> dict[int, float]:
    """By number of open sessions, each with a transaction and a hold: median seconds to take a snapshot."""
    found = {}
    for sessions in SESSIONS:
        env = await open_on_stores(
            blob=MemoryBlob(),
            consensus=MemoryConsensus(),
            clock=SystemClock(),
            random=SeededRandomness(1),
            process="bench",
            background=False,
        )
        shard = await new_shard(env)
        at = await env.oracle.read_ts("user")
        holds = [await env.leases.hold([shard], at) for _ in range(sessions)]
        times = []
        for _ in range(turns):
            start = time.perf_counter()
            as_of = await env.oracle.read_ts("user")
            hold = await env.leases.hold([shard], as_of)
            await env.reader.snapshot(shard, as_of)
            times.append(time.perf_counter() - start)
            hold.release()
        found[sessions] = statistics.median(times)
        for hold in holds:
            hold.release()
        await env.close()
    return found


def txns_sizes(virtual_minutes: int) -> list[int]:
    """Bytes of the txns shard's state after each sixth of `virtual_minutes` of steady load (virtual time)."""
    sizes: list[int] = []

    async def main(loop: SimulatedLoop) -> None:
        world = World(loop, Plan(seed=1, processes=1))
        env = await open_on_stores(
            blob=world.blob,
            consensus=world.consensus,
            clock=SimulatedClock(loop),
            random=SeededRandomness(1),
            process="bench",
        )
        shards = [await new_shard(env) for _ in range(4)]
        number = 0
        for _ in range(6):
            end = loop.time() + virtual_minutes * 10
            while loop.time() < end:
                txn = env.begin()
                txn.write(shards[number % len(shards)], one_row(number))
                await commit(env, txn)
                number += 1
                await asyncio.sleep(1.0)
            sizes.append(len(TxnsMachine().encode_state(env.cache.state)))

    with quiet_logs():
        simulate(1, main)
    return sizes


async def measure(folder: Path, seconds: float, turns: int) -> dict[str, Any]:
    """Everything that needs an event loop."""
    found: dict[str, Any] = {}
    sqlite = await SqliteConsensus.open(folder / "rates.sqlite")
    found["sqlite"] = await commit_rates(sqlite, folder / "rates", seconds)
    with start_postgres(settings=("fsync=on", "max_connections=200"), newest=True) as server:
        url = f"postgresql://postgres@{server.host}:{server.port}/postgres"
        found["postgres consensus"] = await commit_rates(
            await PostgresConsensus.open(url), folder / "rates_postgres", seconds
        )
        found["PostgreSQL"] = await postgres_rates(server, seconds)
        found["postgres version"] = server.major
    found["shards"] = await shard_costs(folder, turns)
    found["parallel"] = await parallel_costs(max(5, turns // 10))
    found["sessions"] = await session_costs(turns)
    return found


def main() -> None:
    """Measure, print the tables and the closing line."""
    parser = argparse.ArgumentParser(prog="make bench NAME=storage", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each rate is measured")
    parser.add_argument("--turns", type=int, default=100, help="how often each latency is measured")
    parser.add_argument("--minutes", type=int, default=60, help="virtual minutes of load on the txns shard")
    options = parser.parse_args()
    print(machine())
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-", dir=Path.cwd()))
    try:
        found = asyncio.run(measure(folder, options.seconds, options.turns))
        delta = delta_rate(folder / "delta", options.seconds)
        iceberg = iceberg_rate(folder / "iceberg", options.seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sizes = txns_sizes(options.minutes)
    report(found, delta, iceberg, sizes)


def report(found: dict[str, Any], delta: float, iceberg: float, sizes: list[int]) -> None:
    """Print what was measured."""
    tidegate: dict[int, float] = found["sqlite"]
    postgres: dict[int, float] = found["PostgreSQL"]
    names = {
        "Tidegate on SQLite": tidegate,
        "Tidegate on PostgreSQL": found["postgres consensus"],
        f"PostgreSQL {found['postgres version']}": postgres,
    }
    rows = [["small commits per second", *(f"{n} committers" for n in COMMITTERS)]]
    rows += [[name, *(f"{rates[n]:,.0f}" for n in COMMITTERS)] for name, rates in names.items()]
    rows += [["Delta Lake", f"{delta:,.1f}", "-", "-"], ["Iceberg", f"{iceberg:,.1f}", "-", "-"]]
    print_table(rows)
    print()
    shards: dict[int, tuple[float, int]] = found["shards"]
    shard_rows = [[f"{n:,}", f"{s * 1000:.2f} ms", f"{w}"] for n, (s, w) in shards.items()]
    print_table([["registered shards", "one commit", "consensus writes"], *shard_rows])
    print()
    parallel: dict[int, tuple[float, float]] = found["parallel"]
    rows = [["store latency", "parallel", "sequential", "share"]]
    for n, (p, s) in parallel.items():
        rows.append([f"{n} ms", f"{p * 1000:.1f} ms", f"{s * 1000:.1f} ms", f"{p / s:.2f}"])
    print_table(rows)
    print()
    sessions: dict[int, float] = found["sessions"]
    print_table([["open sessions", "one snapshot"], *([f"{n:,}", f"{s * 1e6:.0f} us"] for n, s in sessions.items())])
    print(f"\ntxns shard over the load: {', '.join(f'{size:,}' for size in sizes)} bytes")
    most = max(COMMITTERS)
    ratios = {
        "commits_vs_delta": tidegate[most] / delta,
        "commits_vs_iceberg": tidegate[most] / iceberg,
        "commits_vs_postgres": tidegate[most] / postgres[most],
        "shards_10_vs_10000": shards[SHARDS[0]][0] / shards[SHARDS[-1]][0],
        "sessions_10_vs_10000": sessions[SESSIONS[0]] / sessions[SESSIONS[-1]],
    }
    ratios |= {f"parallel_vs_sequential_{n}ms": sequential / p for n, (p, sequential) in parallel.items()}
    counts = {f"sqlite_{n}": round(rate) for n, rate in tidegate.items()}
    counts |= {f"postgres_consensus_{n}": round(rate) for n, rate in found["postgres consensus"].items()}
    counts |= {"txns_shard_first_bytes": sizes[0], "txns_shard_last_bytes": sizes[-1]}
    print_json("storage", ratios, counts)


if __name__ == "__main__":
    main()
