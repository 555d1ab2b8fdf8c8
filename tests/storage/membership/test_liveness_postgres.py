"""Liveness by advisory locks, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import asyncpg
import pytest

from storage.clock import SystemClock
from storage.membership import liveness_postgres
from storage.membership.liveness_postgres import PostgresLiveness
from tests.storage.store_servers import postgres_url
from tests.support.postgres import PostgresServer, start_postgres


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL."""
    with start_postgres() as started:
        yield started


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter pauses."""
    monkeypatch.setattr(liveness_postgres, "GRACE_LOOKS", 20)
    monkeypatch.setattr(liveness_postgres, "LOOK_INTERVAL_S", 0.05)
    monkeypatch.setattr(liveness_postgres, "RECONNECT_S", 0.02)


async def until_dead(watcher: PostgresLiveness, process: str) -> None:
    """Returns once `watcher` takes `process` for dead."""
    for _ in range(1500):
        if watcher.is_dead(process):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{process} is not known as dead")


async def test_the_dead_are_told_from_the_living(server: PostgresServer) -> None:
    one, two, three = (PostgresLiveness(postgres_url(server), "s", SystemClock()) for _ in range(3))
    for name, liveness in (("one", one), ("two", two), ("three", three)):
        liveness.announce(name)
    await until_dead(one, "never was")
    assert not one.is_dead("two")
    await two.close()
    await until_dead(one, "two")
    assert not one.is_dead("three")
    for liveness in (one, three):
        await liveness.close()


async def test_a_lost_connection_is_not_a_death(server: PostgresServer) -> None:
    one, two = (PostgresLiveness(postgres_url(server), "s", SystemClock()) for _ in range(2))
    one.announce("one")
    two.announce("two")
    connection = await asyncpg.connect(postgres_url(server))
    for _ in range(5):
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
        )
        for _ in range(20):
            assert not one.is_dead("two")
            await asyncio.sleep(0.02)
    await connection.close()
    for liveness in (one, two):
        await liveness.close()
