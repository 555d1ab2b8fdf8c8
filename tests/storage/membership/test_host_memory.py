"""Processes of one host that tell each other in shared memory how far they have come, and ask the store for nothing."""

from __future__ import annotations

import asyncio
import mmap
from pathlib import Path

import pytest

from storage.environment.environment import Environment
from storage.environment.local_environment import open_local_environment
from storage.host_memory import HostMemory
from storage.transactions.oracle_head import FollowingHead
from tests.storage.environments import create, insert, read


async def open_worker(folder: Path, memory: mmap.mmap, number: int, count: int = 3) -> Environment:
    host = HostMemory(memory, number, count, "memory")
    return await open_local_environment(folder, peers=True, process=f"worker{number}", host=host)


def trips(*envs: Environment) -> int:
    return sum(env.peers.shared_oracle.round_trips for env in envs)


def ask_nobody(*envs: Environment) -> bool:
    return all(env.leases.sole for env in envs)


async def test_workers_see_each_others_commits_and_reads_ask_the_store_only_after_one(tmp_path: Path) -> None:
    memory = HostMemory.make()
    one = await open_worker(tmp_path, memory, 0)
    two = await open_worker(tmp_path, memory, 1)
    shard = await create(one, (0, "a"))
    assert one.leases.sole
    assert two.leases.sole
    assert not one.peers.alone
    for number in range(1, 20):
        writer, reader = (one, two) if number % 2 else (two, one)
        await insert(writer, shard, (number, "b"))
        before = trips(one, two)
        assert len(await read(reader, shard)) == number + 1
        assert trips(one, two) - before <= 1
        assert len(await read(reader, shard)) == number + 1
        assert len(await read(writer, shard)) == number + 1
        assert trips(one, two) - before <= 1, "nobody has committed since"
    await two.close()
    await one.close()


async def test_a_commit_that_was_seen_is_seen_by_all_though_its_process_died_before_telling(tmp_path: Path) -> None:
    memory = HostMemory.make()
    one, two, three = [await open_worker(tmp_path, memory, number) for number in range(3)]
    shard = await create(one, (0, "a"))
    assert len(await read(two, shard)) == len(await read(three, shard)) == 1
    for env in (two, three):
        for task in env.background.tasks:
            if task.get_name() == "storage-follow":
                task.cancel()
    one.cache.on_seen = None  # It is killed between its compare-and-set and telling.
    await insert(one, shard, (1, "b"))
    assert len(await read(three, shard)) == 1, "not answered yet: it may be missed, or seen"
    await two.cache.durable.refresh()
    assert len(await read(two, shard)) == 2
    assert len(await read(three, shard)) == 2, "what one reader has seen every later one sees"
    for env in (three, two, one):
        await env.close()


async def test_the_test_above_fails_when_readers_do_not_tell(tmp_path: Path) -> None:
    memory = HostMemory.make()
    one, two, three = [await open_worker(tmp_path, memory, number) for number in range(3)]
    shard = await create(one, (0, "a"))
    assert len(await read(two, shard)) == len(await read(three, shard)) == 1
    for env in (two, three):
        for task in env.background.tasks:
            if task.get_name() == "storage-follow":
                task.cancel()
    one.cache.on_seen = two.cache.on_seen = None
    await insert(one, shard, (1, "b"))
    await two.cache.durable.refresh()
    assert len(await read(two, shard)) == 2
    assert len(await read(three, shard)) == 1
    for env in (three, two, one):
        await env.close()


async def test_a_stranger_is_made_room_for_and_its_commits_are_seen(tmp_path: Path) -> None:
    memory = HostMemory.make()
    one, two = [await open_worker(tmp_path, memory, number) for number in range(2)]
    shard = await create(one, (0, "a"))
    stranger = await open_local_environment(tmp_path, peers=True, process="stranger")
    assert not any(env.leases.sole for env in (one, two, stranger))
    written = 1
    for round_ in range(12):
        for writer in (stranger, one, two):
            await insert(writer, shard, (written, f"{round_}"))
            written += 1
            for reader in (one, two, stranger):
                assert len(await read(reader, shard)) == written
    # A worker joins while a stranger is there, too.
    three = await open_worker(tmp_path, memory, 2)
    assert not three.leases.sole
    await insert(stranger, shard, (written, "x"))
    assert len(await read(three, shard)) == written + 1
    await stranger.close()
    for _ in range(1000):
        if ask_nobody(one, two, three):
            break
        await asyncio.sleep(0.01)
    await insert(three, shard, (written + 1, "y"))
    assert len(await read(one, shard)) == written + 2
    before = trips(one, two, three)
    assert len(await read(one, shard)) == len(await read(three, shard)) == written + 2
    assert trips(one, two, three) == before
    for env in (three, two, one):
        await env.close()


async def test_workers_join_a_server_that_was_alone(tmp_path: Path) -> None:
    alone = await open_local_environment(tmp_path, peers=True, process="alone")
    shard = await create(alone, (0, "a"))
    assert ask_nobody(alone)
    memory = HostMemory.make()
    one, two = [await open_worker(tmp_path, memory, number) for number in range(2)]
    assert not ask_nobody(alone)
    for number, writer in enumerate((one, alone, two, alone, one), 1):
        await insert(writer, shard, (number, "b"))
        for reader in (alone, one, two):
            assert len(await read(reader, shard)) == number + 1
    for env in (alone, two, one):
        await env.close()


async def test_definitions_are_as_new_as_the_timestamp(tmp_path: Path) -> None:
    memory = HostMemory.make()
    one, two = [await open_worker(tmp_path, memory, number) for number in range(2)]
    await create(one, (0, "a"))
    as_of = await two.oracle.read_ts("catalog")
    assert two.catalog.current().csn >= as_of
    assert await one.oracle.read_ts("catalog") == as_of
    for env in (two, one):
        await env.close()


def test_a_number_is_never_made_smaller_by_who_comes_later() -> None:
    memory = HostMemory.make()
    first = HostMemory(memory, 1, 2, "memory")
    first.heads.raise_own(7)
    again = HostMemory(memory, 1, 2, "memory")
    again.heads.raise_own(3)
    other = HostMemory(memory, 0, 2, "memory")
    assert (again.heads.own, other.heads.own, other.heads.highest()) == (7, 0, 7)
    other.sessions.own = 4
    again.sessions.own = 5
    assert first.sessions.total() == 9
    assert first.sessions.of_all() == [4, 5]


@pytest.mark.parametrize("newest", [None, 0])
async def test_a_head_that_is_not_told_asks(tmp_path: Path, newest: int | None) -> None:
    memory = HostMemory.make()
    one = await open_worker(tmp_path, memory, 0)
    head = FollowingHead(one.cache, one.catalog, lambda: newest)
    assert head.is_told is (newest is not None)
    assert head.is_current is (newest is not None)
    await one.close()
