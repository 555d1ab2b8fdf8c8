"""Consensus in a PostgreSQL database: for many server processes on many machines.

Two tables in a schema of the environment's own: ``head(key, seqno)``, whose row a compare-and-set updates, and
``diff(key, seqno, data)``, to which the same statement adds the diff. PostgreSQL evaluates the update's condition
again after waiting for a concurrent one, so exactly one of two contenders finds its expected head.

SUBTLE: a condition over ``diff`` alone would not do. While an insert of number n + 1 runs on an older snapshot,
others may add n + 1 and n + 2 and truncate up to n + 2; the insert would then find no conflict and succeed.

Other processes learn that a key moved by NOTIFY, sent after the commit and off the caller's path (inside it, it
would serialize all commits of the database cluster). A lost notification costs a poll interval.

Errors: what the server answered with an error did not happen; a connection lost in the middle of a write is
indeterminate. The database must run with its default fsync and `synchronous_commit`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import asyncpg

from storage.clock import Clock, SystemClock
from storage.errors import (
    Determinate,
    ForeignEnvironment,
    Indeterminate,
    NewerFormat,
    StorageClosed,
    StorageError,
    StoreFull,
    StoreTimeout,
    StoreUnavailable,
    store_closed,
)
from storage.stores.consensus import NO_SEQNO, SeqNo, VersionedData, check_key, check_set, check_truncate
from storage.stores.watchers import Watchers

FORMAT_VERSION = 1
MAX_CONNECTIONS = 16
"""Per server process; PostgreSQL's default limit is 100 for all of them."""

COMMAND_TIMEOUT_S = 30.0
POLL_INTERVAL_S = 0.5
"""How late a watcher notices a move whose notification was lost."""

RECONNECT_DELAY_S = 0.2
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,50}")
_T = TypeVar("_T")

_LOST = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What a connection raises that broke: on its own, or because it broke in the middle of something."""

_FAILURES = (*_LOST, asyncpg.PostgresError, TimeoutError)

_CONNECTION_LOST = ("08000", "08003", "08006", "40003", "57P01", "57P02", "57P03", "57014")
"""SQLSTATEs after which a write may have happened: lost connections, shutdown, cancel, unknown completion."""


class PostgresConsensus:
    """`Consensus` in the schema `schema` of the database `dsn`. Make one with `open`."""

    is_low = False
    """See `Consensus.is_low`: its disk is the database's business."""

    def __init__(self, dsn: str, schema: str, clock: Clock) -> None:
        if _SCHEMA.fullmatch(schema) is None:
            raise ValueError(f"not a plain schema name: {schema!r}")
        self._dsn = dsn
        self._where = _place(dsn)
        self._schema = schema
        self._clock = clock
        self._pool: Any = None
        self._closed = False
        self._watchers = Watchers()
        self._listener: asyncio.Task[None] | None = None
        self._moved: dict[str, SeqNo] = {}
        self._notifier: asyncio.Task[None] | None = None

    @staticmethod
    async def open(dsn: str, schema: str = "tidegate", *, clock: Clock | None = None) -> PostgresConsensus:
        """Connect to `dsn`, and make the tables where they are missing.

        Raises StoreUnavailable, NewerFormat when a newer version made the tables, ForeignEnvironment when the
        schema holds something else.
        """
        consensus = PostgresConsensus(dsn, schema, clock or SystemClock())
        try:
            consensus._pool = await asyncpg.create_pool(
                dsn,
                min_size=0,
                max_size=MAX_CONNECTIONS,
                command_timeout=COMMAND_TIMEOUT_S,
                # Nothing here changes a connection's state, and the default is a round trip after each operation.
                reset=_leave_as_is,
                server_settings={"application_name": "tidegate", "synchronous_commit": "on"},
            )
        except _FAILURES as error:
            raise StoreUnavailable(
                f"could not connect to the consensus store {consensus._where}: {_cause(error)}"
            ) from error
        try:
            await consensus._prepare()
        except BaseException:
            await consensus._pool.close()
            raise
        return consensus

    async def head(self, key: str) -> VersionedData | None:
        """See `Consensus.head`."""
        check_key(key)
        row = await self._read(
            lambda connection: connection.fetchrow(
                f"SELECT seqno, data FROM {self._schema}.diff WHERE key = $1 ORDER BY seqno DESC LIMIT 1", key
            )
        )
        return None if row is None else VersionedData(seqno=SeqNo(row[0]), data=row[1])

    async def compare_and_set(self, key: str, expected_seqno: SeqNo | None, new: VersionedData) -> bool:
        """See `Consensus.compare_and_set`."""
        check_set(key, expected_seqno, new)
        if expected_seqno is None:
            moved = f"INSERT INTO {self._schema}.head VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING 1"
            arguments: tuple[object, ...] = (key, new.seqno, new.data)
        else:
            moved = f"UPDATE {self._schema}.head SET seqno = $2 WHERE key = $1 AND seqno = $4 RETURNING 1"
            arguments = (key, new.seqno, new.data, expected_seqno)
        statement = f"WITH moved AS ({moved}) INSERT INTO {self._schema}.diff SELECT $1, $2, $3 FROM moved RETURNING 1"
        stored = await self._write(lambda connection: connection.fetchval(statement, *arguments))
        if stored is None:
            return False
        self._watchers.moved(key, new.seqno)
        self._announce(key, new.seqno)
        return True

    async def scan(self, key: str, from_seqno: SeqNo, limit: int | None = None) -> list[VersionedData]:
        """See `Consensus.scan`."""
        check_key(key)
        rows = await self._read(
            lambda connection: connection.fetch(
                f"SELECT seqno, data FROM {self._schema}.diff WHERE key = $1 AND seqno >= $2 ORDER BY seqno LIMIT $3",
                key,
                from_seqno,
                limit,
            )
        )
        return [VersionedData(seqno=SeqNo(seqno), data=data) for seqno, data in rows]

    async def truncate(self, key: str, seqno: SeqNo) -> int:
        """See `Consensus.truncate`."""
        check_key(key)
        head, removed = await self._write(
            lambda connection: connection.fetchrow(
                f"WITH h AS (SELECT seqno FROM {self._schema}.head WHERE key = $1), gone AS"
                f" (DELETE FROM {self._schema}.diff d USING h WHERE d.key = $1 AND d.seqno < $2 AND $2 <= h.seqno"
                " RETURNING 1) SELECT (SELECT seqno FROM h), (SELECT count(*) FROM gone)",
                key,
                seqno,
            )
        )
        check_truncate(key, seqno, head)
        return int(removed)

    async def list_keys(self) -> list[str]:
        """See `Consensus.list_keys`."""
        rows = await self._read(
            lambda connection: connection.fetch(f"SELECT key FROM {self._schema}.head ORDER BY key")
        )
        return [row[0] for row in rows]

    async def watch(self, key: str, seqno: SeqNo) -> None:
        """See `Consensus.watch`."""
        check_key(key)
        if self._closed:
            raise store_closed("consensus")
        if self._watchers.has_moved(key, seqno):
            return
        # NOTE: the listener looks after somebody has registered; otherwise a move in between would be missed.
        if self._listener is None or self._listener.done():
            self._listener = asyncio.get_running_loop().create_task(self._listen())
        await self._watchers.wait(key, seqno)

    async def close(self) -> None:
        """See `Consensus.close`; watchers get `StorageClosed`."""
        if self._closed:
            return
        self._closed = True
        for task in (self._listener, self._notifier):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])
        self._watchers.fail(StorageClosed("the consensus store was closed"))
        await self._pool.close()

    # Talking to the server

    async def _read(self, work: Callable[[Any], Awaitable[_T]]) -> _T:
        return await self._ask(work, writes=False)

    async def _write(self, work: Callable[[Any], Awaitable[_T]]) -> _T:
        return await self._ask(work, writes=True)

    async def _ask(self, work: Callable[[Any], Awaitable[_T]], *, writes: bool) -> _T:
        if self._closed:
            raise store_closed("consensus")
        try:
            connection = await self._pool.acquire(timeout=COMMAND_TIMEOUT_S)
        except _FAILURES as error:
            raise StoreUnavailable(
                f"could not connect to the consensus store {self._where}: {_cause(error)}"
            ) from error
        try:
            return await work(connection)
        except TimeoutError as error:
            kind: type[StorageError] = StoreTimeout if writes else StoreUnavailable
            raise kind(f"the consensus store did not answer within {COMMAND_TIMEOUT_S:g} seconds") from error
        except asyncpg.PostgresError as error:
            raise _server_error(error, writes=writes) from error
        except _LOST as error:
            kind = Indeterminate if writes else StoreUnavailable
            raise kind(f"lost the connection to the consensus store: {_cause(error)}") from error
        finally:
            # A connection that broke is the pool's to drop; releasing it must not hide what happened.
            with contextlib.suppress(*_FAILURES):
                await self._pool.release(connection)

    async def _prepare(self) -> None:
        async def work(connection: Any) -> int | None:
            async with connection.transaction():
                # Several servers may start at once; CREATE ... IF NOT EXISTS alone would race.
                await connection.execute("SELECT pg_advisory_xact_lock(hashtext($1))", f"tidegate {self._schema}")
                await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
                tables = {
                    row[0]
                    for row in await connection.fetch(
                        "SELECT tablename FROM pg_tables WHERE schemaname = $1", self._schema
                    )
                }
                if not tables:
                    await connection.execute(_TABLES.format(schema=self._schema, format=FORMAT_VERSION))
                elif not {"head", "diff", "environment"} <= tables:
                    return None
                found: int = await connection.fetchval(f"SELECT format FROM {self._schema}.environment")
                return found

        version = await self._ask(work, writes=False)
        if version is None:
            raise ForeignEnvironment(
                f"schema {self._schema} of the consensus database holds tables of something else; name another"
            )
        if version > FORMAT_VERSION:
            raise NewerFormat(
                f"schema {self._schema} of the consensus database has format {version}, and this version knows"
                f" up to {FORMAT_VERSION}; upgrade the server"
            )

    # Watching

    def _channel(self) -> str:
        return f"tidegate_{self._schema}"

    def _announce(self, key: str, seqno: SeqNo) -> None:
        """Tell the other processes that `key` has moved; what gathers meanwhile goes with the next message."""
        self._moved[key] = max(seqno, self._moved.get(key, NO_SEQNO))
        if self._notifier is None or self._notifier.done():
            self._notifier = asyncio.get_running_loop().create_task(self._notify())

    async def _notify(self) -> None:
        while self._moved and not self._closed:
            moved, self._moved = self._moved, {}
            messages = [f"{seqno} {key}" for key, seqno in moved.items()]
            # A watcher that is not told finds out by polling.
            with contextlib.suppress(Determinate, Indeterminate):
                await self._write(
                    lambda connection, messages=messages: connection.execute(  # type: ignore[misc]
                        "SELECT pg_notify($1, message) FROM unnest($2::text[]) message", self._channel(), messages
                    )
                )

    def _on_notify(self, _connection: object, _pid: int, _channel: str, message: str) -> None:
        seqno, _, key = message.partition(" ")
        self._watchers.moved(key, SeqNo(int(seqno)))

    async def _listen(self) -> None:
        """Wake watchers of keys that other processes move; ends when nobody watches."""
        while self._watchers:
            try:
                connection = await asyncpg.connect(self._dsn, command_timeout=COMMAND_TIMEOUT_S)
            except _FAILURES:
                await self._clock.sleep(RECONNECT_DELAY_S)
                continue
            try:
                await connection.add_listener(self._channel(), self._on_notify)
                # Whatever moved before the listener was there has not been announced to it.
                await self._poll()
                while self._watchers and not connection.is_closed():
                    await self._clock.sleep(POLL_INTERVAL_S)
                    await self._poll()
            except _FAILURES:
                await self._clock.sleep(RECONNECT_DELAY_S)
            finally:
                connection.terminate()

    async def _poll(self) -> None:
        # A store that cannot be asked now is asked again in an interval.
        with contextlib.suppress(Determinate, Indeterminate):
            for key, head in (await self._heads(self._watchers.keys)).items():
                self._watchers.moved(key, head)

    async def _heads(self, keys: list[str]) -> dict[str, SeqNo]:
        rows = await self._read(
            lambda connection: connection.fetch(f"SELECT key, seqno FROM {self._schema}.head WHERE key = ANY($1)", keys)
        )
        return {key: SeqNo(seqno) for key, seqno in rows}


async def _leave_as_is(connection: object) -> None:
    """Give a connection back to the pool without resetting it."""


_TABLES = """
CREATE TABLE {schema}.environment (format integer NOT NULL);
INSERT INTO {schema}.environment VALUES ({format});
CREATE TABLE {schema}.head (key text COLLATE "C" PRIMARY KEY, seqno bigint NOT NULL) WITH (fillfactor = 50);
CREATE TABLE {schema}.diff (
    key text COLLATE "C" NOT NULL, seqno bigint NOT NULL, data bytea NOT NULL, PRIMARY KEY (key, seqno)
);
"""


def _place(dsn: str) -> str:
    """Where `dsn` leads, for people: without what is secret in it."""
    parts = urlsplit(dsn)
    return (parts.netloc.rpartition("@")[2] or "on this host") + parts.path


def _cause(error: BaseException) -> str:
    """What went wrong, also where the exception does not say."""
    if isinstance(error, TimeoutError):
        return "it does not answer; look whether PostgreSQL runs there and can be reached"
    if isinstance(error, ConnectionRefusedError):
        return f"{error}; look whether PostgreSQL runs there"
    return str(error) or type(error).__name__


def _server_error(error: asyncpg.PostgresError, *, writes: bool) -> StorageError:
    state = error.sqlstate or ""
    if writes and (state in _CONNECTION_LOST or state.startswith("08")):
        return Indeterminate(f"the consensus store was interrupted: {error}")
    if state in ("53100", "53200"):
        return StoreFull(f"the consensus store refused a write: {error}")
    return StoreUnavailable(f"the consensus store refused: {error}")
