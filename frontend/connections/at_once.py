"""What a connection answers without a portal: a query string, or Bind, [Describe,] Execute and Sync that have come
together.

The session says which statements those are (`adapter.sessions.session`, `at_once` and `text_at_once`). Where the answer
is None nothing has happened, and the messages are handled one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from adapter.execution.statement import select_tag
from adapter.results import Command, RecordBatch, Rows
from adapter.sessions.changes_at_once import ChangeAtOnce
from adapter.sessions.reads_at_once import ReadAtOnce
from adapter.sessions.runs_at_once import RunAtOnce
from frontend.connections.client_channel import Channel
from frontend.connections.result_encoding import Encoding, Encodings
from frontend.connections.session_protocol import Session
from frontend.decoding.parameters import decode_params
from frontend.encoding.rows import chunks
from frontend.protocol import backend
from frontend.protocol.codec import DESCRIBED_EXECUTION
from frontend.protocol.messages import Bind
from planner.errors import SqlError
from planner.ir.nodes import Literal

NO_ENGINE = "none"
"""The engine of statements that need none."""

Done = tuple[str, str]
"""Tag and engine of a statement that has been answered, all but ReadyForQuery."""


class AtOnce:
    """See the module. Of one connection."""

    def __init__(self, channel: Channel, session: Session) -> None:
        self._channel = channel
        self._session = session
        self._encodings = Encodings()

    async def query(self, once: ReadAtOnce | ChangeAtOnce, params: tuple[Literal, ...]) -> Done | None:
        """Answer a query string, which is `once`."""
        session = self._session
        if isinstance(once, ChangeAtOnce):
            try:
                tag = await once.tag(params)
            finally:
                await session.sync()
            if tag is not None:
                self._channel.write(backend.command_complete(tag))
            return None if tag is None else (tag, NO_ENGINE)
        encoding = self._encodings.of(once.columns, (), session.settings)
        rows = once.rows(params)
        if rows is None:
            return None
        self._channel.write(encoding.description)
        done = await self._answer(encoding, rows)
        await session.sync()
        return done

    async def bound(self, message: Bind, found: ReadAtOnce | ChangeAtOnce | RunAtOnce, execution: bytes) -> Done | None:
        """Answer Bind of the statement that is `found`, and `execution`, which follows it."""
        channel, session = self._channel, self._session
        columns, formats = found.columns, message.result_formats
        if len(formats) > 1 and len(formats) != len(columns or ()):
            return None
        try:
            params = decode_params(message, found.param_types, session.settings)
        except SqlError:
            return None  # The usual way says so, in its place.
        if isinstance(found, ReadAtOnce):
            encoding, rows = self._encodings.of(found.columns, formats, session.settings), found.rows(params)
            if rows is None:
                return None
            channel.write(backend.BIND_COMPLETE)
            if execution is DESCRIBED_EXECUTION:
                channel.write(encoding.description)
            done: Done | None = await self._answer(encoding, rows)
        elif isinstance(found, ChangeAtOnce):
            done = await self._changed(found, params, execution)
        else:
            done = await self._run(found, params, formats, execution)
        if done is not None:
            channel.skip(execution)
            await session.sync()
        return done

    async def _changed(self, change: ChangeAtOnce, params: tuple[Literal, ...], execution: bytes) -> Done | None:
        bound = _bound(execution)
        try:
            tag = await change.tag(params)
        except SqlError:
            self._channel.write(bound)
            raise
        if tag is None:
            return None
        self._channel.write(bound)
        self._channel.write(backend.command_complete(tag))
        return tag, NO_ENGINE

    async def _run(
        self, once: RunAtOnce, params: tuple[Literal, ...], formats: tuple[int, ...], execution: bytes
    ) -> Done | None:
        """Answer a statement of a block, or one that begins or ends one."""
        if not once.takes(params):
            return None
        encoding = None
        if once.columns is not None:
            encoding = self._encodings.of(once.columns, formats, self._session.settings)
        if encoding is None or execution is not DESCRIBED_EXECUTION:
            self._channel.write(_bound(execution))
        else:
            self._channel.write(backend.BIND_COMPLETE)
            self._channel.write(encoding.description)
        result = await once.result(params)
        if isinstance(result, Command):
            self._send_notices()
            self._channel.write(backend.command_complete(result.tag))
            return result.tag, self._session.engine_used
        assert encoding is not None
        count = await self._send_rows(encoding, result)
        self._send_notices()
        tag = result.tag(count)
        self._channel.write(backend.command_complete(tag))
        return tag, self._session.engine_used

    async def _send_rows(self, encoding: Encoding, result: Rows) -> int:
        """Send the rows of a result; how many there are."""
        count = 0
        stream: Any = result.batches
        async with aclosing(stream) as batches:
            async for batch in batches:
                pieces: Sequence[RecordBatch] = [batch] if batch.num_rows < 2 else [*chunks(batch)]
                for piece in pieces:
                    self._channel.write(await encoding.rows(piece))
                    await self._channel.drain()
                count += batch.num_rows
        return count

    async def _answer(self, encoding: Encoding, rows: RecordBatch) -> Done:
        self._channel.write(await encoding.rows(rows))
        tag = select_tag(rows.num_rows)
        self._channel.write(backend.command_complete(tag))
        return tag, NO_ENGINE

    def _send_notices(self) -> None:
        for notice in self._session.take_notices():
            self._channel.write(backend.notice_response(notice))


def _bound(execution: bytes) -> bytes:
    """The answer to Bind, and to Describe of what returns no rows."""
    return backend.BIND_COMPLETE + (backend.NO_DATA if execution is DESCRIBED_EXECUTION else b"")
