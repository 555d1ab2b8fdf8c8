"""One of several processes on one directory; made to be killed.

Run as ``python -m tests.storage.peer_writer DIRECTORY NAME``. Moves units between the rows of two accounts shards: each
transaction deletes one row from one shard and inserts it, with its count of moves raised, into the other. Prints
``NAME n`` when transaction n is acknowledged. Conflicts are found by validation, and repeated.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from random import Random

import pyarrow as pa

from storage.environment.environment import Environment
from storage.environment.local_environment import open_local_environment
from storage.ids import ShardId
from storage.shards.parts import ROW_ID
from storage.timestamps.csn import Csn
from storage.transactions.txns_shard import Committed
from tests.storage.environments import read, rows

UNITS = 20


def shards_of(env: Environment) -> list[ShardId]:
    """The two shards of the test."""
    return sorted(shard for shard in env.cache.state.registered if "catalog" not in shard)


async def move(env: Environment, chance: Random) -> bool:
    """Move one unit; False when somebody else came in between."""
    read_ts = await env.oracle.read_ts("user")
    shards = shards_of(env)
    contents = [await read(env, shard, read_ts) for shard in shards]
    source = chance.choice([n for n in (0, 1) if contents[n]])
    row_id, (unit, moves) = chance.choice(sorted(contents[source].items()))
    txn = env.begin()
    old = rows((unit, moves)).add_column(0, pa.field(ROW_ID, pa.int64()), pa.array([row_id], pa.int64()))
    txn.delete(shards[source], old)
    txn.write(shards[1 - source], rows((unit, str(int(moves) + 1))))
    ts = await env.oracle.write_ts("user")
    result = await env.committer.commit(txn, ts=ts, validated=Csn(read_ts + 1))
    if not isinstance(result, Committed):
        env.oracle.abandon_write("user", ts)
        env.oracle.observe(Csn(result.least_committable - 1))
        return False
    await env.oracle.apply_write("user", ts)
    return True


async def main(directory: Path, name: str) -> None:
    """Move units until killed."""
    env = await open_local_environment(directory, peers=True, process=name)
    chance = Random(name)
    number = 0
    while True:
        if await move(env, chance):
            number += 1
            sys.stdout.write(f"{name} {number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
