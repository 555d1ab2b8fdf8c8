"""Fixtures of the adapter's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from adapter.sessions.server import ServerState
from tests.adapter.harness import Client, connect, open_state


@pytest.fixture
async def state() -> AsyncIterator[ServerState]:
    """A server state over stores in memory."""
    async with open_state() as opened:
        yield opened


@pytest.fixture
async def client(state: ServerState) -> Client:
    """A session."""
    return await connect(state)


@pytest.fixture
def another(state: ServerState) -> Callable[[], Awaitable[Client]]:
    """Makes further sessions."""

    async def make() -> Client:
        return await connect(state)

    return make
