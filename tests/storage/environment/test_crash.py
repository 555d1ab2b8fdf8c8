"""kill -9 of a real process under load: everything acknowledged is there afterwards, whole, once."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

import pytest

from storage.environment.local_environment import open_local_environment
from storage.errors import DataDirectoryInUse
from tests.storage.crash_writer import find_shards
from tests.storage.environments import read

ROUNDS = int(os.environ.get("TIDEGATE_CRASH_ROUNDS", "4"))


async def run_and_kill(directory: Path, commits: int) -> list[int]:
    """Let a writer commit about `commits` transactions, kill it, and return those it acknowledged."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.storage.crash_writer", str(directory), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    acknowledged = []
    for _ in range(commits):
        line = await process.stdout.readline()
        assert line, "the writer died by itself"
        acknowledged.append(int(line))
    process.kill()
    acknowledged.extend(int(line) for line in (await process.stdout.read()).splitlines())
    await process.wait()
    return acknowledged


async def check(directory: Path, last: int) -> int:
    """Open the environment and check it against what a writer does. Returns the last transaction found."""
    env = await open_local_environment(directory)
    try:
        shards = await find_shards(env)
        contents = [sorted(v[0] for v in (await read(env, shard)).values()) for shard in shards]
        assert contents[0] == contents[1], "a transaction was torn"
        newest = max(contents[0], default=-1)
        assert newest >= last, "an acknowledged commit was lost"
        expected = []
        for number in range(newest + 1):
            # Row n goes with transaction n + 5 where that ends in 9, that is where n ends in 4.
            gone = number % 10 == 4 and number + 5 <= newest
            expected += [] if gone else [number] * (401 if number % 25 == 24 else 1)
        assert contents[0] == expected
        return newest
    finally:
        await env.close()


async def test_acknowledged_commits_survive_kill_9(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    seed = int.from_bytes(os.urandom(4))
    chance = random.Random(seed)
    last = -1
    for round_ in range(ROUNDS):
        acknowledged = await run_and_kill(directory, chance.randrange(1, 120))
        assert acknowledged[0] == last + 1, f"seed {seed}"
        found = await check(directory, acknowledged[-1])
        assert found <= acknowledged[-1] + 1, f"seed {seed}, round {round_}"
        last = found


async def test_a_second_server_is_refused_with_the_directory_named(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    env = await open_local_environment(directory)
    with pytest.raises(DataDirectoryInUse, match=str(directory)):
        await open_local_environment(directory)
    await env.close()
    again = await open_local_environment(directory)
    await again.close()
