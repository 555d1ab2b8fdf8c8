"""Upkeep of processes that share memory: one does it for all, another one once that has ended or stands still."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.environment import background
from storage.environment.environment import Environment
from storage.environment.local_environment import open_local_environment
from storage.host_memory import HostMemory
from storage.ids import ShardId
from tests.storage.environments import create, insert, read


class Upkeep:
    """What processes have done of it, by their names."""

    def __init__(self) -> None:
        self.rounds: Counter[str] = Counter()
        """Removals of garbage, with which a round ends."""
        self.compacted: Counter[str] = Counter()
        self.swapped: Counter[str] = Counter()
        """Parts that compactions have replaced."""

    def watch(self, env: Environment, name: str) -> None:
        """Count what `env` does as `name`."""
        compact, collect = env.maintenance.compactor.compact, env.maintenance.garbage.collect

        async def compact_shard(shard: ShardId) -> int:
            self.compacted[name] += 1
            swapped = await compact(shard)
            self.swapped[name] += swapped
            return swapped

        async def collect_garbage() -> int:
            self.rounds[name] += 1
            return await collect()

        env.maintenance.compactor.compact = compact_shard  # type: ignore[method-assign]
        env.maintenance.garbage.collect = collect_garbage  # type: ignore[method-assign]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds follow each other fast."""
    monkeypatch.setattr(background, "MAINTENANCE_S", 0.05)
    monkeypatch.setattr(background, "KEEP_ALIVE_S", 0.3)
    monkeypatch.setattr(background, "BEAT_S", 0.05)
    # No process seems to stand still because a busy machine runs something else.
    monkeypatch.setattr("storage.host_memory.SILENT_MS", 600_000)


async def pair(folder: Path, upkeep: Upkeep) -> tuple[Environment, Environment]:
    memory = HostMemory.make()
    envs = []
    for number in range(2):
        host = HostMemory(memory, number, 2, "memory")
        env = await open_local_environment(folder, peers=True, process=f"worker{number}", host=host)
        upkeep.watch(env, f"worker{number}")
        envs.append(env)
    return envs[0], envs[1]


async def write_until(done: Callable[[], object], shard: ShardId, *envs: Environment) -> int:
    """Write rows, with the processes in turn, until it is done. Returns how many."""
    for number in range(2000):
        if done():
            return number
        await insert(envs[number % len(envs)], shard, (number + 1, "b"))
        await asyncio.sleep(0.02)
    raise AssertionError("it does not come to that")


@pytest.mark.usefixtures("quick")
async def test_one_process_maintains_what_all_write(tmp_path: Path) -> None:
    upkeep = Upkeep()
    one, two = await pair(tmp_path, upkeep)
    shard = await create(one, (0, "a"))
    await write_until(lambda: upkeep.swapped["worker0"], shard, two)
    upkeep.swapped.clear()
    await write_until(lambda: upkeep.swapped["worker0"], shard, one, two)
    assert upkeep.compacted["worker1"] == upkeep.rounds["worker1"] == 0
    assert upkeep.rounds["worker0"]
    await two.close()
    await one.close()


@pytest.mark.usefixtures("quick")
async def test_without_shared_memory_each_process_maintains(tmp_path: Path) -> None:
    upkeep = Upkeep()
    envs = [await open_local_environment(tmp_path, peers=True, process=f"server{number}") for number in range(2)]
    for number, env in enumerate(envs):
        upkeep.watch(env, f"server{number}")
    shard = await create(envs[0], (0, "a"))
    await write_until(lambda: upkeep.rounds["server0"] and upkeep.rounds["server1"], shard, *envs)
    for env in envs:
        await env.close()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("stands_still", [True, False])
async def test_the_next_process_takes_over_from_one_that_has_ended_or_stands_still(
    stands_still: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upkeep = Upkeep()
    one, two = await pair(tmp_path, upkeep)
    shard = await create(one, (0, "a"))
    written = await write_until(lambda: upkeep.rounds["worker0"] > 3, shard, two)
    if stands_still:
        tasks = [task for task in one.background.tasks if task.get_name() != "storage-keep-alive"]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        monkeypatch.setattr("storage.host_memory.SILENT_MS", 1000)
    else:
        await one.close()
    upkeep.swapped.clear()
    written += await write_until(lambda: upkeep.swapped["worker1"], shard, two)
    assert upkeep.swapped["worker0"] == 0
    assert len(await read(two, shard)) == written + 1
    await two.close()
    await one.close()
