"""Several processes on one data directory: they join, conflict, die and are replaced."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from random import Random

import pytest

from storage.catalog.model import CatalogUpdate, Schema
from storage.environment.local_environment import open_local_environment
from storage.errors import DataDirectoryInUse
from storage.timestamps.csn import Csn
from storage.transactions.txns_shard import UpperMismatch
from tests.storage.environments import SCHEMA, commit, create, insert, read, rows
from tests.storage.peer_writer import UNITS, shards_of

ROUNDS = int(os.environ.get("TIDEGATE_CRASH_ROUNDS", "4"))


async def test_a_second_process_joins_and_both_see_each_other(tmp_path: Path) -> None:
    one = await open_local_environment(tmp_path, peers=True, process="one")
    shard = await create(one, (1, "a"))
    assert [env.leases.sole for env in (one,)] == [True]
    two = await open_local_environment(tmp_path, peers=True, process="two")
    assert [env.leases.sole for env in (one, two)] == [False, False]
    for number in range(10):
        writer, reader = (one, two) if number % 2 else (two, one)
        await insert(writer, shard, (number, "b"))
        assert len(await read(reader, shard)) == number + 2
    txn = two.begin()
    record = Schema(oid=two.catalog.current().next_oid, name="s", owner=10)
    txn.update_catalog([CatalogUpdate(record=record, diff=1)])
    await commit(two, txn)
    await one.oracle.read_ts("catalog")
    assert one.catalog.current().schema("s") is not None
    await one.close()
    await insert(two, shard, (99, "c"))
    await two.close()
    three = await open_local_environment(tmp_path, peers=True, process="three")
    assert three.leases.sole
    assert len(await read(three, shard)) == 12
    await three.close()


async def test_a_process_that_is_left_alone_takes_timestamps_by_itself_again(tmp_path: Path) -> None:
    one = await open_local_environment(tmp_path, peers=True, process="one")
    shard = await create(one, (0, "a"))
    written = 1
    for round_ in range(3):
        other = await open_local_environment(tmp_path, peers=True, process=f"other{round_}")
        assert not one.leases.sole
        for writer in (one, other, one):
            await insert(writer, shard, (written, "b"))
            written += 1
            assert len(await read(other, shard)) == written
        # While it leaves, and until this process has noticed, nothing is lost or goes back.
        leaving = asyncio.create_task(other.close())
        newest = Csn(0)
        while not (leaving.done() and one.peers.alone and one.oracle.inner is not one.peers.shared_oracle):
            await insert(one, shard, (written, "c"))
            written += 1
            read_ts = await one.oracle.read_ts("user")
            assert read_ts > newest
            newest = read_ts
            assert len(await read(one, shard, read_ts)) == written
        trips = one.peers.shared_oracle.round_trips
        for _ in range(5):
            await insert(one, shard, (written, "d"))
            written += 1
            assert len(await read(one, shard)) == written
        assert one.peers.shared_oracle.round_trips == trips
    await one.close()
    again = await open_local_environment(tmp_path, peers=True, process="again")
    assert again.leases.sole
    assert len(await read(again, shard)) == written
    await again.close()


async def test_first_committer_wins_across_processes(tmp_path: Path) -> None:
    one = await open_local_environment(tmp_path, peers=True, process="one")
    two = await open_local_environment(tmp_path, peers=True, process="two")
    shard = await create(one, (1, "a"))
    read_ts = await two.oracle.read_ts("user")
    for env in (one, two):
        txn = env.begin()
        txn.write(shard, rows((2, env.process)))
        ts = await env.oracle.write_ts("user")
        result = await env.committer.commit(txn, ts=ts, validated=Csn(read_ts + 1))
        assert isinstance(result, UpperMismatch) is (env is two)
    await one.close()
    await two.close()


async def test_peers_and_a_server_that_is_alone_exclude_each_other(tmp_path: Path) -> None:
    alone = await open_local_environment(tmp_path)
    with pytest.raises(DataDirectoryInUse):
        await open_local_environment(tmp_path, peers=True)
    await alone.close()
    peer = await open_local_environment(tmp_path, peers=True)
    with pytest.raises(DataDirectoryInUse):
        await open_local_environment(tmp_path)
    await peer.close()


async def start(directory: Path, name: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.storage.peer_writer",
        str(directory),
        name,
        stdout=asyncio.subprocess.PIPE,
    )


async def acknowledged(process: asyncio.subprocess.Process, count: int) -> int:
    """Wait for `count` acknowledgements; the number of the last."""
    last = 0
    for _ in range(count):
        assert process.stdout is not None
        line = await process.stdout.readline()
        assert line, "the writer died by itself"
        last = int(line.split()[1])
    return last


async def test_killed_peers_lose_and_tear_nothing(tmp_path: Path) -> None:
    env = await open_local_environment(tmp_path, peers=True, process="checker")
    txn = env.begin()
    shards = [env.new_shard_id(), env.new_shard_id()]
    for shard in shards:
        txn.create_shard(shard, SCHEMA)
    txn.write(shards[0], rows(*[(unit, "0") for unit in range(UNITS)]))
    await commit(env, txn)
    assert shards_of(env) == sorted(shards)
    seed = int.from_bytes(os.urandom(4))
    chance = Random(seed)
    moves = 0
    for round_ in range(ROUNDS):
        writers = [await start(tmp_path, f"w{round_}.{n}") for n in range(2)]
        counts = await asyncio.gather(*(acknowledged(w, chance.randrange(1, 30)) for w in writers))
        least, most = moves, moves
        for writer, count in zip(writers, counts, strict=True):
            writer.kill()
            assert writer.stdout is not None
            rest = (await writer.stdout.read()).splitlines()
            await writer.wait()
            done = int(rest[-1].split()[1]) if rest and len(rest[-1].split()) == 2 else count
            least, most = least + done, most + done + 1
        read_ts = await env.oracle.read_ts("user")
        found = [value for shard in shards for value in (await read(env, shard, read_ts)).values()]
        assert sorted(unit for unit, _ in found) == list(range(UNITS)), f"seed {seed}"
        moves = sum(int(count) for _, count in found)
        assert least <= moves <= most, f"seed {seed}"
    await env.close()
