"""Fixtures of the adapter's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from adapter.sessions.server import Server
from tests.adapter.harness import Client, connect, open_server
from tests.support.loop_stalls import watched

LONGEST_STALL = 2.0
"""Seconds of processor time that one step of a test may take from the loop, on a machine that may be three times slower
at one hour than at another. Loading what is first needed takes most."""


@pytest.fixture(autouse=True)
def loop_watch(request: pytest.FixtureRequest) -> Iterator[None]:
    """The event loop must be free for others; `stalls` marks a test that says why it is not: ``stalls(seconds)``."""
    marker = request.node.get_closest_marker("stalls")
    with watched() as longest:
        yield
    limit = LONGEST_STALL if marker is None else marker.args[0]
    assert longest.seconds <= limit, f"the event loop was held up for {longest.seconds:.3f} s by {longest.what}"


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
