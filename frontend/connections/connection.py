"""One client's connection: messages in, session calls, messages out.

`Connection.run` is the whole life after authentication. It knows no sockets: a `Channel` gives decoded messages and
takes bytes. The rules are PostgreSQL's ("Message Flow"):

- Output is buffered and sent at ReadyForQuery, Flush, an error, before COPY data is awaited, or when much has gathered.
- After an error in the extended protocol everything is ignored until Sync, and each Sync gets one ReadyForQuery.
- Changed settings are reported once, just before ReadyForQuery.
- Errors of the session are the client's; anything else is our bug: XX000, logged with its traceback.
- A session fails its transaction itself when one of its calls raises, or a result is closed before its end. What may
  fail here (decoding parameters, say) is done inside the session's `work`, which sees to the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any

import structlog

from adapter.access.passwords import without_passwords
from adapter.results import Command, CopyIn, CopyOut, Empty, Rows, StatementResult
from adapter.store_errors import sql_error
from frontend.connections.at_once import AtOnce
from frontend.connections.client_channel import Channel, ConnectionLost
from frontend.connections.client_log import ClientLog
from frontend.connections.function_calls import NULL_RESULT, check_format, decode_arguments, response
from frontend.connections.session_protocol import Metrics, Session
from frontend.copy.streams import SynchronizationLost, receive_copy, send_copy
from frontend.decoding.parameters import MANY_BYTES, MANY_PARAMS, decode_params, shown_parameters
from frontend.encoding.encoders import BINARY_FORMAT
from frontend.encoding.rows import chunks, offload, row_encoder, spread, work_of
from frontend.encoding.settings import format_settings
from frontend.protocol import backend
from frontend.protocol.client_encoding import CLIENT_ENCODING, converted_encoding
from frontend.protocol.codec import DESCRIBED_EXECUTION, EXECUTION, SYNC, FramingError
from frontend.protocol.messages import (
    Bind,
    Close,
    CopyData,
    CopyDone,
    CopyFail,
    Describe,
    Execute,
    Flush,
    FrontendMessage,
    FunctionCall,
    Malformed,
    Parse,
    PasswordMessage,
    Query,
    Sync,
    Terminate,
)
from planner.calls.function_calls import callable_function
from planner.catalog_data.encodings import UTF8
from planner.common_errors import shut_down
from planner.errors import (
    FeatureNotSupported,
    InFailedSqlTransaction,
    InternalError,
    ProtocolViolation,
    SqlError,
)
from planner.ir.nodes import Literal
from storage.errors import StorageError

log = structlog.get_logger("frontend")

NOTHING = ("", "")
_SYNC = Sync()
MAX_LOGGED_CHARS = 4096
"""So much of a statement that fails by our fault is logged."""

_STRAY = frozenset({CopyData, CopyDone, CopyFail})
"""Messages that are ignored outside COPY."""

_MAY_CHANGE_ENCODING = frozenset({"SET", "RESET", "DISCARD ALL", "ROLLBACK"})
"""Statements after which the encoding of the next message of a pipeline may be another one."""


class Connection:
    """Serves one authenticated client."""

    def __init__(
        self, channel: Channel, session: Session, client_log: ClientLog, metrics: Metrics | None = None
    ) -> None:
        self._channel = channel
        self._session = session
        self._client_log = client_log
        self._metrics = metrics
        self._done = NOTHING
        """Tag and engine of the latest statement that has been answered."""
        self._statistics = session.statistics
        self._began = 0.0
        """When the statement began that is being answered, where statements are counted."""
        self._given: dict[str, tuple[str | None, ...]] = {}
        """The parameters of portals as they are logged, where they are."""
        self._skip_until_sync = False
        self._sync_follows = False
        """Whether Sync had come in when the message that has just been served, Execute, was."""
        self._at_once = AtOnce(channel, session)
        self._handlers: dict[type, Callable[[Any], Any]] = {
            Query: self._query,
            Parse: self._parse,
            Bind: self._bind,
            Describe: self._describe,
            Execute: self._execute,
            Close: self._close,
            Sync: self._sync,
            Flush: self._flush,
            FunctionCall: self._function_call,
            Malformed: self._malformed,
        }
        self.idle = True
        """Waiting for a message, with nothing half done."""

    @property
    def between_transactions(self) -> bool:
        """Waiting for the client's next message, outside any transaction block."""
        return self.idle and not self._skip_until_sync and self._session.transaction_status == "I"

    def terminate(self) -> None:
        """Ends the session, as pg_terminate_backend does."""
        self._session.terminate(shut_down())

    async def run(self) -> None:
        """Serves messages until Terminate or the end of the stream. Raises FramingError, ConnectionLost, and a fatal
        SqlError that ends the connection."""
        self._follow_encoding()
        await self.ready()
        while True:
            self.idle = True
            message = await self._channel.receive()
            self.idle = False
            kind = type(message)
            if message is None or kind is Terminate:
                return
            if kind in _STRAY:
                continue
            if kind is PasswordMessage:
                raise ProtocolViolation("invalid frontend message type 112", fatal=True)
            if self._skip_until_sync and kind is not Sync:
                continue
            settings = self._session.settings
            if settings is not self._client_log.settings:
                self._client_log.follow(settings)
            if self._client_log.is_active:
                await self._handle_and_log(message)
            elif self._metrics is None and not self._statistics.is_on:
                await self._handle(message)
            else:
                began = self._began = time.perf_counter()
                self._done = NOTHING
                await self._handle(message)
                if self._metrics is not None and self._done is not NOTHING:
                    self._metrics.answered(*self._done, time.perf_counter() - began)
            if self._sync_follows:
                # NOTE: what Execute has done has been committed. Were the session ended before the Sync is answered,
                # the client would take it for not done.
                self._sync_follows = False
                if not self._skip_until_sync and self._channel.following(SYNC) is SYNC:
                    self._channel.skip(SYNC)
                    await self._handle(_SYNC)

    async def _handle_and_log(self, message: FrontendMessage) -> None:
        """`_handle` of a client whose statements, or their durations, are logged."""
        text, told = self._text_of(message), False
        what = "statement"
        parameters: tuple[str | None, ...] = ()
        match message:
            case Parse():
                what = f"parse {message.name or '<unnamed>'}"
            case Bind():
                what = f"bind {message.statement or '<unnamed>'}"
                types = () if text is None else self._session.statement_param_types(message.statement)
                parameters = self._given[message.portal] = shown_parameters(message, types)
            case Execute():
                what = f"execute {message.portal or '<unnamed>'}"
                parameters = self._given.get(message.portal, ())
        if text is None:
            await self._handle(message)
            return
        if isinstance(message, Query | Execute):
            told = await self._client_log.statement(what, text, parameters)
        began = self._began = time.perf_counter()
        self._done = NOTHING
        if await self._handle(message):
            seconds = time.perf_counter() - began
            self._client_log.duration(what, text, seconds, parameters, told=told)
            if self._metrics is not None and self._done is not NOTHING:
                self._metrics.answered(*self._done, seconds)

    def _text_of(self, message: FrontendMessage) -> str | None:
        """The statement that a message is about."""
        match message:
            case Query() | Parse():
                return message.text
            case Bind():
                return self._session.statement_text(message.statement)
            case Execute():
                return self._session.portal_text(message.portal)
        return None

    async def _handle(self, message: FrontendMessage) -> bool:
        """Serve a message; False when it has failed."""
        try:
            await self._handlers[type(message)](message)
        except SynchronizationLost as error:
            await self._report(error, message)
            raise ProtocolViolation(
                "terminating connection because protocol synchronization was lost", fatal=True
            ) from None
        except SqlError as error:
            if isinstance(error, InternalError):
                self._log(error)
            await self._report(error, message)
        except (ConnectionLost, FramingError, asyncio.CancelledError):
            raise
        except Exception as error:
            # It may have struck outside of the session, whose transaction fails all the same.
            with suppress(Exception), self._session.work:
                raise
            await self._report(self._internal(error), message)
        else:
            return True
        if isinstance(message, FunctionCall):
            await self._session.sync()
        if isinstance(message, Query | FunctionCall) or (isinstance(message, Malformed) and message.code in "QF"):
            await self.ready()
        else:
            self._skip_until_sync = not isinstance(message, Sync)
            if isinstance(message, Sync):
                await self.ready()
        return False

    def _internal(self, error: Exception) -> SqlError:
        if isinstance(error, StorageError):
            return sql_error(error)
        self._log(error)
        return InternalError(f"internal error: {type(error).__name__}: {error}")

    def _log(self, error: Exception) -> None:
        log.error(
            "internal error", exc_info=error, statement=without_passwords(self._session.query_text)[:MAX_LOGGED_CHARS]
        )

    async def _report(self, error: SqlError, message: FrontendMessage) -> None:
        """Tells the client, and the log; one that ends the connection is told where that ends."""
        if error.fatal:
            raise error
        self._client_log.error(error, self._text_of(message))
        if self._metrics is not None:
            self._metrics.failed(error.sqlstate)
        self._send_notices()
        self._channel.write(backend.error_response(error))
        await self._channel.flush()

    async def ready(self) -> None:
        """Reports settings and notifications, then ReadyForQuery."""
        await self._session.deliver_notifications()
        self._send_notices()
        for name, value in self._session.take_parameter_changes():
            if name == "client_encoding":
                self._follow_encoding()
            self._channel.write(backend.parameter_status(name, value))
        self._channel.write(backend.ready_for_query(self._session.transaction_status))
        await self._channel.flush()

    def _follow_encoding(self) -> None:
        """From here on text comes and goes in the session's client_encoding."""
        CLIENT_ENCODING.set(converted_encoding(self._session.settings.get("client_encoding", UTF8)))

    def _send_notices(self) -> None:
        for notice in self._session.take_notices():
            self._channel.write(backend.notice_response(notice))

    # ------------------------------------------------------------ simple protocol

    async def _query(self, message: Query) -> None:
        if not self._client_log.is_active:
            found = self._session.text_at_once(message.text)
            done = None if found is None else await self._at_once.query(*found)
            if done is not None:
                self._done = done
                if self._statistics.is_on:
                    self._count(done[0])
                await self.ready()
                return
        results = self._session.execute_simple(message.text)
        try:
            async for result in results:
                await self._send_result(result, formats=None)
        finally:
            await _aclose(results)
        await self.ready()

    # ------------------------------------------------------------ extended protocol

    async def _parse(self, message: Parse) -> None:
        await self._session.prepare(message.name, message.text, message.param_oids)
        self._send_notices()
        self._channel.write(backend.PARSE_COMPLETE)

    async def _bind(self, message: Bind) -> None:
        size = 0
        for raw in message.params:
            size += len(raw or b"")
        large = size > MANY_BYTES or len(message.params) > MANY_PARAMS
        if not (large or message.portal or self._client_log.is_active):
            execution = self._channel.following(EXECUTION, DESCRIBED_EXECUTION)
            found = None if execution is None else self._session.at_once(message.statement)
            if execution is None or found is None:
                done = None
            else:
                done = await self._at_once.bound(message, found, execution)
            if done is not None:
                self._done = done
                if self._statistics.is_on:
                    self._count(done[0])
                await self.ready()
                return
        types = self._session.statement_param_types(message.statement)
        with self._session.work:
            if large:
                with self._session.aside():
                    params = await asyncio.to_thread(decode_params, message, types, self._session.settings)
            else:
                params = decode_params(message, types, self._session.settings)
        await self._session.bind(message.portal, message.statement, params, message.result_formats)
        self._send_notices()
        self._channel.write(backend.BIND_COMPLETE)

    async def _describe(self, message: Describe) -> None:
        if message.kind == "S":
            types = self._session.statement_param_types(message.name)
            description = backend.parameter_description([param.declared_oid for param in types])
            try:
                columns = (await self._session.describe_statement(message.name)).columns
            except FeatureNotSupported:
                # A plan whose row type changed: PostgreSQL has sent the parameters by then.
                self._channel.write(description)
                raise
            self._channel.write(description)
            formats: tuple[int, ...] = ()
        else:
            columns = await self._session.describe_portal(message.name)
            formats = spread(self._session.portal_formats(message.name), len(columns or ()))
        self._send_notices()
        self._channel.write(
            backend.NO_DATA if columns is None else backend.row_description(columns, formats, CLIENT_ENCODING.get())
        )

    async def _execute(self, message: Execute) -> None:
        formats = self._session.portal_formats(message.portal)
        self._sync_follows = self._channel.next_is_sync()
        result = await self._session.execute_portal(
            message.portal, max(message.max_rows, 0), sync_follows=self._sync_follows
        )
        await self._send_result(result, formats=formats)

    async def _close(self, message: Close) -> None:
        if message.kind == "S":
            await self._session.close_statement(message.name)
        else:
            await self._session.close_portal(message.name)
        self._channel.write(backend.CLOSE_COMPLETE)

    async def _sync(self, message: Sync) -> None:
        self._skip_until_sync = False
        await self._session.sync()
        await self.ready()

    async def _flush(self, message: Flush) -> None:
        await self._channel.flush()

    async def _function_call(self, message: FunctionCall) -> None:
        if self._session.transaction_status == "E":
            raise InFailedSqlTransaction(
                "current transaction is aborted, commands ignored until end of transaction block"
            )
        answer = NULL_RESULT
        with self._session.work:
            function = callable_function(message.function_oid)
            args, result_format = decode_arguments(message, function, self._session.settings)
            if not function.strict or all(arg.value is not None for arg in args):
                check_format(result_format)
                answer = await self._called(function.query, args, result_format)
        await self._session.sync()
        self._send_notices()
        self._channel.write(answer)
        await self.ready()

    async def _called(self, query: str, args: Sequence[Literal], format_code: int) -> bytes:
        """The response to a call with these arguments."""
        rows = await self._session.call_function(query, args)
        assert isinstance(rows, Rows)
        answer = NULL_RESULT
        try:
            encoder = row_encoder(rows.columns, [format_code], format_settings(self._session.settings))
            async for batch in rows.batches:
                if batch.num_rows:
                    answer = response(bytes(encoder.data_rows(batch)))
        finally:
            await _aclose(rows.batches)
        return answer

    async def _malformed(self, message: Malformed) -> None:
        assert isinstance(message.error, SqlError)
        with self._session.work:
            raise message.error

    # ------------------------------------------------------------ results

    async def _send_result(self, result: StatementResult, *, formats: Sequence[int] | None) -> None:
        """Sends one statement's result. `formats` is None in the simple protocol, where rows are described first."""
        match result:
            case Rows():
                await self._send_rows(result, formats)
            case Command():
                if result.tag in _MAY_CHANGE_ENCODING:
                    self._follow_encoding()
                self._send_notices()
                self._complete(result.tag)
            case Empty():
                self._send_notices()
                self._channel.write(backend.EMPTY_QUERY_RESPONSE)
            case CopyOut():
                self._send_notices()
                count = await send_copy(self._channel, result, format_settings(self._session.settings), offload)
                self._send_notices()
                self._complete(f"COPY {count}")
            case CopyIn():
                self._send_notices()
                count = await receive_copy(self._channel, result, self._session.settings, offload)
                self._send_notices()
                self._complete(f"COPY {count}")

    def _complete(self, tag: str) -> None:
        if self._metrics is not None:
            self._done = tag, self._session.engine_used
        if self._statistics.is_on:
            self._count(tag)
        self._channel.write(backend.command_complete(tag))

    def _count(self, tag: str) -> None:
        """A statement has been answered, or a part of its rows."""
        now = time.perf_counter()
        self._session.count(tag, now - self._began)
        self._began = now

    async def _send_rows(self, rows: Rows, formats: Sequence[int] | None) -> None:
        count = 0
        try:
            codes = spread(formats or (), len(rows.columns))
            if formats is None:
                codes = _binary_cursor_formats(rows) or codes
                self._send_notices()
                self._channel.write(backend.row_description(rows.columns, codes, CLIENT_ENCODING.get()))
            encoder = row_encoder(rows.columns, codes, format_settings(self._session.settings))
            async for batch in rows.batches:
                for chunk in chunks(batch):
                    work = work_of(chunk, len(rows.columns))
                    self._channel.write(await offload(work, encoder.data_rows, chunk))
                    await self._channel.drain()
                count += batch.num_rows
        finally:
            await _aclose(rows.batches)
        self._send_notices()
        if rows.suspended():
            if self._statistics.is_on:
                self._count(rows.tag(count))
            self._channel.write(backend.PORTAL_SUSPENDED)
        else:
            self._complete(rows.tag(count))


def _binary_cursor_formats(rows: Rows) -> tuple[int, ...] | None:
    """FETCH from a BINARY cursor sends binary even in the simple protocol."""
    return (BINARY_FORMAT,) * len(rows.columns) if rows.binary else None


async def _aclose(iterator: AsyncIterator[Any]) -> None:
    close = getattr(iterator, "aclose", None)
    if close is not None:
        await close()
