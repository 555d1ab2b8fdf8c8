"""Fixtures of the tests of transactions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapter.sessions.options import ServerOptions
from adapter.sessions.server import Server
from storage.clock import SystemClock
from storage.doubles.clock import SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.environment.named_stores import StoreNames
from storage.environment.opening import open_on_stores
from tests.adapter.transactions.stalling import NobodyElse, Stalling


@pytest.fixture
async def stalling() -> AsyncIterator[tuple[Stalling, Server]]:
    """A server alone on its store, which can be held up."""
    store = Stalling()
    env = await open_on_stores(
        blob=MemoryBlob(),
        consensus=store,
        clock=SystemClock(),
        random=SeededRandomness(3),
        process="test",
        liveness=NobodyElse(),
        background=False,
    )
    options = ServerOptions(stores=StoreNames(data_dir=Path("unused")), warm_spark=False, settings={"engine": "local"})
    server = await Server.on(env, options)
    yield store, server
    store.gate.set()
    await server.close()
