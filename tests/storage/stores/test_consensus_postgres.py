"""What the PostgreSQL consensus promises beyond the common contract, against a real PostgreSQL."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from storage.doubles.clock import ManualClock
from storage.errors import ForeignEnvironment, Indeterminate, NewerFormat, StorageClosed, StorageError, StoreUnavailable
from storage.stores.consensus import SeqNo, VersionedData
from storage.stores.consensus_postgres import FORMAT_VERSION, PostgresConsensus
from tests.storage.store_servers import postgres_url
from tests.support.postgres import PostgresServer, free_port

_schemas = itertools.count(1)


def diff(seqno: int, data: bytes = b"x") -> VersionedData:
    return VersionedData(seqno=SeqNo(seqno), data=data)


@pytest.fixture
def schema() -> str:
    return f"consensus_{next(_schemas)}"


@asynccontextmanager
async def admin(postgres: PostgresServer) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres_url(postgres))
    try:
        yield connection
    finally:
        await connection.close()


async def until_true(connection: asyncpg.Connection, query: str, argument: str) -> None:
    """Ask until `query` gives something true: PostgreSQL's activity offers nothing to wait on."""
    while not await connection.fetchval(query, argument):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_a_move_is_announced_without_polling(postgres: PostgresServer, schema: str) -> None:
    # The watcher's clock stands still, so its polls never come due.
    writer = await PostgresConsensus.open(postgres_url(postgres), schema)
    watcher = await PostgresConsensus.open(postgres_url(postgres), schema, clock=ManualClock())
    watching = asyncio.create_task(watcher.watch("k", SeqNo(0)))
    async with admin(postgres) as connection:
        await until_true(
            connection,
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND query LIKE $1",
            f"%{schema}%",
        )
    assert await writer.compare_and_set("k", None, diff(1))
    await watching
    await writer.close()
    await watcher.close()


async def test_a_lost_connection_in_a_write_is_indeterminate(postgres: PostgresServer, schema: str) -> None:
    store = await PostgresConsensus.open(postgres_url(postgres), schema)
    assert await store.compare_and_set("k", None, diff(1))
    async with admin(postgres) as connection, connection.transaction():
        await connection.execute(f"LOCK TABLE {schema}.head IN ACCESS EXCLUSIVE MODE")
        writing = asyncio.create_task(store.compare_and_set("k", SeqNo(1), diff(2)))
        async with admin(postgres) as other:
            await until_true(
                other,
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE wait_event_type = 'Lock' AND query LIKE $1",
                f"%UPDATE {schema}.head%",
            )
        with pytest.raises(Indeterminate):
            await writing
    assert await store.head("k") == diff(1)
    assert await store.compare_and_set("k", SeqNo(1), diff(2)) is True
    await store.close()


async def test_a_stale_contender_loses_even_when_its_number_was_truncated(
    postgres: PostgresServer, schema: str
) -> None:
    """A compare-and-set that began long ago must not take the place of a diff that has come and gone."""
    slow = await PostgresConsensus.open(postgres_url(postgres), schema)
    fast = await PostgresConsensus.open(postgres_url(postgres), schema)
    assert await fast.compare_and_set("k", None, diff(1))
    async with admin(postgres) as connection, connection.transaction():
        # Hold the head's row, so that the slow statement has its snapshot and waits.
        await connection.execute(f"SELECT * FROM {schema}.head WHERE key = 'k' FOR UPDATE")
        writing = asyncio.create_task(slow.compare_and_set("k", SeqNo(1), diff(2, b"stale")))
        async with admin(postgres) as other:
            await until_true(
                other,
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1",
                f"%UPDATE {schema}.head%",
            )
        await connection.execute(f"UPDATE {schema}.head SET seqno = 3 WHERE key = 'k'")
        await connection.execute(f"INSERT INTO {schema}.diff VALUES ('k', 3, 'new')")
        await connection.execute(f"DELETE FROM {schema}.diff WHERE key = 'k' AND seqno < 3")
    assert await writing is False
    assert await fast.scan("k", SeqNo(0)) == [diff(3, b"new")]
    await slow.close()
    await fast.close()


async def test_many_servers_may_start_at_once(postgres: PostgresServer, schema: str) -> None:
    stores = await asyncio.gather(*(PostgresConsensus.open(postgres_url(postgres), schema) for _ in range(5)))
    assert sum(await asyncio.gather(*(store.compare_and_set("k", None, diff(1)) for store in stores))) == 1
    for store in stores:
        await store.close()


async def test_a_newer_format_is_refused(postgres: PostgresServer, schema: str) -> None:
    await (await PostgresConsensus.open(postgres_url(postgres), schema)).close()
    async with admin(postgres) as connection:
        await connection.execute(f"UPDATE {schema}.environment SET format = {FORMAT_VERSION + 1}")
    with pytest.raises(NewerFormat, match="upgrade the server"):
        await PostgresConsensus.open(postgres_url(postgres), schema)


async def test_a_schema_of_something_else_is_refused(postgres: PostgresServer, schema: str) -> None:
    async with admin(postgres) as connection:
        await connection.execute(f"CREATE SCHEMA {schema} CREATE TABLE customers (id int)")
    with pytest.raises(ForeignEnvironment, match="something else"):
        await PostgresConsensus.open(postgres_url(postgres), schema)


async def test_a_server_that_is_down_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable, match="could not connect"):
        await PostgresConsensus.open(f"postgresql://postgres@127.0.0.1:{free_port()}/postgres")


async def test_a_refused_write_is_determinate(postgres: PostgresServer, schema: str) -> None:
    store = await PostgresConsensus.open(postgres_url(postgres), schema)
    async with admin(postgres) as connection:
        await connection.execute(f"ALTER TABLE {schema}.diff ADD CONSTRAINT none CHECK (false)")
    with pytest.raises(StoreUnavailable, match="refused"):
        await store.compare_and_set("k", None, diff(1))
    assert await store.head("k") is None
    assert await store.list_keys() == []
    await store.close()


async def test_closing_ends_watches(postgres: PostgresServer, schema: str) -> None:
    store = await PostgresConsensus.open(postgres_url(postgres), schema)
    watching = asyncio.create_task(store.watch("k", SeqNo(0)))
    await asyncio.sleep(0.1)
    await store.close()
    with pytest.raises(StorageClosed):
        await watching
    with pytest.raises(StorageError):
        await store.head("k")


def test_the_schema_name_is_plain() -> None:
    with pytest.raises(ValueError, match="plain schema name"):
        PostgresConsensus("", "a; DROP SCHEMA b", ManualClock())
