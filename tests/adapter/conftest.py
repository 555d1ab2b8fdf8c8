"""Fixtures of the adapter's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from adapter.sessions.server import Server
from tests.adapter.harness import Client, connect, open_server


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server over stores in memory."""
    async with open_server() as opened:
        yield opened


@pytest.fixture
async def client(server: Server) -> Client:
    """A session."""
    return await connect(server)


@pytest.fixture
def another(server: Server) -> Callable[[], Awaitable[Client]]:
    """Makes further sessions."""

    async def make() -> Client:
        return await connect(server)

    return make


@pytest.fixture
def stranger(server: Server) -> Callable[[], Awaitable[Client]]:
    """Makes further sessions that share no locks with others: as if they were another server's."""

    async def make() -> Client:
        return await connect(server, shares_locks=False)

    return make
