"""A server that has been up for a moment loads no code while a statement waits: its timers stand still then."""

from __future__ import annotations

import subprocess
import sys

FIRST_STATEMENT = """
import asyncio, sys
from tests.adapter.harness import connect, open_server

async def main():
    async with open_server() as server:
        server.engines.warm(spark=False)
        await server.engines._warming
        client = await connect(server)
        loaded = set(sys.modules)
        await client.rows("SELECT count(*) FROM generate_series(1, 1000) g(x) WHERE md5(x::text) LIKE '%a%'")
        print(*[name for name in sys.modules if name not in loaded])

asyncio.run(main())
"""


def test_the_first_statement_loads_no_engine_and_no_functions() -> None:
    run = subprocess.run([sys.executable, "-c", FIRST_STATEMENT], capture_output=True, text=True, check=True)
    loaded = run.stdout.split()
    assert not [name for name in loaded if name.startswith(("adapter.engines.", "planner."))], loaded
