"""A process that commits to a local environment for ever and reports what was acknowledged; made to be killed.

Run as ``python -m tests.storage.crash_writer DIRECTORY``. For each transaction n it writes row n to two shards (every
tenth time it deletes row n - 5 from both, every 25th it uploads a large part), and prints ``n`` once acknowledged.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pyarrow as pa

from storage.environment.environment import Environment
from storage.environment.local_environment import open_local_environment
from storage.ids import ShardId
from storage.shards.parts import ROW_ID
from tests.storage.environments import SCHEMA, commit, read, rows


async def find_shards(env: Environment) -> list[ShardId]:
    """The two shards, created in one commit on the first run."""
    found = sorted(s for s in env.cache.state.registered if "catalog" not in s)
    if not found:
        found = sorted(env.new_shard_id() for _ in range(2))
        txn = env.begin()
        for shard in found:
            txn.create_shard(shard, SCHEMA)
        await commit(env, txn)
    return found


async def main(directory: Path) -> None:
    """Commit until killed."""
    env = await open_local_environment(directory)
    shards = await find_shards(env)
    contents = await read(env, shards[0])
    number = max((value[0] for value in contents.values()), default=-1) + 1
    while True:
        txn = env.begin()
        for shard in shards:
            txn.write(shard, rows((number, f"row {number}")))
            if number % 25 == 24:
                txn.write(shard, rows(*[(number, "x" * 500) for _ in range(400)]))
            if number % 10 == 9:
                live = await read(env, shard)
                gone = [(i, v) for i, v in live.items() if v[0] == number - 5]
                ids = pa.array([i for i, _ in gone], pa.int64())
                table = rows(*[v for _, v in gone])
                txn.delete(shard, table.add_column(0, pa.field(ROW_ID, pa.int64()), ids))
        await commit(env, txn)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        number += 1


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
