"""Sessions without sockets: a server over stores in memory, and short ways to run statements."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adapter.results import Command, CopyIn, CopyOut, Empty, Rows, StartupParameters, StatementResult
from adapter.sessions.options import ServerOptions
from adapter.sessions.server import Server
from adapter.sessions.session import Session
from adapter.transactions.locks.lock_table import LockTable
from frontend.copy.codec import FileCodec
from planner.errors import SqlError
from storage.clock import SystemClock
from storage.doubles.clock import SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.environment.named_stores import StoreNames
from storage.environment.opening import open_on_stores
from storage.stores.blob import Blob
from storage.stores.consensus import Consensus


@dataclass(slots=True)
class Client:
    """One session, with what it was told out of band."""

    session: Session
    notified: list[tuple[int, str, str]] = field(default_factory=list)
    terminated: list[SqlError] = field(default_factory=list)

    async def run(self, text: str) -> list[Any]:
        """The results of a query string: a tag, or a list of row tuples, for each statement."""
        stream: Any = self.session.execute_simple(text)
        async with aclosing(stream) as results:
            return [await _consume(result) async for result in results]

    async def rows(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of one query."""
        (result,) = await self.run(text)
        assert isinstance(result, list)
        return result

    async def value(self, text: str) -> Any:
        """The single value of one query."""
        ((value,),) = await self.rows(text)
        return value

    async def tag(self, text: str) -> str:
        """The tag of one statement without rows."""
        (result,) = await self.run(text)
        assert isinstance(result, str)
        return result

    async def error(self, text: str) -> SqlError:
        """The error that a query string ends in."""
        try:
            results = await self.run(text)
        except SqlError as error:
            return error
        raise AssertionError(f"no error, but {results}")

    def notices(self) -> list[str]:
        """Notices since last asked, as `severity: message`."""
        return [f"{notice.severity}: {notice.message}" for notice in self.session.take_notices()]

    @property
    def status(self) -> str:
        """I, T or E."""
        return self.session.transaction_status


class Waiting:
    """A statement that is under way in a session."""

    def __init__(self, client: Client, text: str) -> None:
        self.client = client
        self._task = asyncio.ensure_future(client.run(text))

    async def is_blocked(self) -> bool:
        """Whether it waits for a lock, once it does or is over."""
        owner = self.client.session.state.locks.owner
        while owner.waiting is None and not self._task.done():  # noqa: ASYNC110 - nobody tells that somebody waits
            await asyncio.sleep(0.001)
        return owner.waiting is not None

    async def is_over(self, within_s: float) -> bool:
        """Whether it has ended by then."""
        await asyncio.wait([self._task], timeout=within_s)
        return self._task.done()

    async def result(self) -> list[Any]:
        """Its results, within a time that no lock should need."""
        return await asyncio.wait_for(self._task, 10)

    async def error(self) -> SqlError:
        """The error that it ends in."""
        try:
            results = await self.result()
        except SqlError as error:
            return error
        raise AssertionError(f"no error, but {results}")


async def blocked(client: Client, text: str) -> Waiting:
    """Begin a statement that has to wait."""
    waiting = Waiting(client, text)
    assert await waiting.is_blocked(), text
    return waiting


async def _consume(result: StatementResult) -> Any:
    match result:
        case Rows() | CopyOut():
            return [row async for row in rows_of(result)]
        case Command():
            return result.tag
        case Empty():
            return ""
        case CopyIn():
            return result


async def rows_of(result: Rows | CopyOut) -> AsyncIterator[tuple[Any, ...]]:
    """The rows of a result as tuples of Python values."""
    async for batch in result.batches:
        columns = [column.to_pylist() for column in batch.columns]
        for row in zip(*columns, strict=True):
            yield row


@asynccontextmanager
async def open_server(
    *,
    blob: Blob | None = None,
    consensus: Consensus | None = None,
    settings: dict[str, str] | None = None,
    background: bool = True,
    shared: bool = False,
    retain_ms: int = 0,
    allow_paths: tuple[Path, ...] = (),
    blob_options: dict[str, str] | None = None,
) -> AsyncIterator[Server]:
    """A server over stores in memory (or those given), without Spark; `shared` with other processes. `retain_ms`: how
    much of the past it keeps; `allow_paths`: folders whose files statements use; `blob_options`: of object stores."""
    env = await open_on_stores(
        blob=blob or MemoryBlob(),
        consensus=consensus or MemoryConsensus(),
        clock=SystemClock(),
        random=SeededRandomness(1),
        process="test",
        background=background,
        shared=shared,
        retain_ms=retain_ms,
    )
    options = ServerOptions(
        stores=StoreNames(data_dir=Path("unused"), blob_options=blob_options or {}),
        allow_paths=allow_paths,
        copy_codec=FileCodec(),
        warm_spark=False,
        settings={"engine": "local", **(settings or {})},
        pruning_audit=1.0,
    )
    server = await Server.on(env, options)
    try:
        yield server
    finally:
        await server.close()


async def connect(
    server: Server, *, user: str = "postgres", database: str = "postgres", shares_locks: bool = True, **settings: str
) -> Client:
    """A new session. One that does not share locks is to the others like another server's."""
    notified: list[tuple[int, str, str]] = []
    terminated: list[SqlError] = []
    startup = StartupParameters(
        user=user, database=database, settings=tuple(settings.items()), remote_address="127.0.0.1:5"
    )
    session = await server.open_session(startup, lambda *item: notified.append(item), terminated.append)
    if not shares_locks:
        session.state.locks.table = LockTable(server.env.clock)
    return Client(session, notified, terminated)
