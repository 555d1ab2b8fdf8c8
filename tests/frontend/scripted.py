"""A session whose answers are scripted, so that the frontend is tested without engines.

`Script.results` maps a statement's text to what it gives: a list of factories, each making a `StatementResult` or an
exception to raise. Texts are split at ``;`` by the test, not here: one text, one list.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from adapter.access.logins import Login
from adapter.access.roles import role_called
from adapter.results import (
    ColumnDescription,
    Command,
    CopyFormat,
    CopyIn,
    CopyOut,
    Empty,
    Notice,
    Rows,
    StartupParameters,
    StatementDescription,
    StatementResult,
)
from adapter.statistics.statements import StatementStatistics
from frontend.authentication.hba import TlsUse
from frontend.authentication.login import Authenticator
from frontend.authentication.rules import RuleBook
from planner.errors import InvalidCursorName, InvalidSqlStatementName, SqlError
from planner.ir.nodes import Literal
from planner.types.types import SqlType
from storage.catalog.access import AUTHENTICATION_SECRET_OID, AuthenticationSecret, Role
from storage.catalog.model import BOOTSTRAP_SUPERUSER_OID, CatalogRecord, CatalogSnapshot, CatalogUpdate
from storage.timestamps.csn import Csn

Outcome = Callable[[], StatementResult | BaseException]

DEFAULT_SETTINGS = {
    "server_version": "15.0",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "standard_conforming_strings": "on",
    "integer_datetimes": "on",
}


def rows(
    columns: Sequence[tuple[str, SqlType]],
    batches: Sequence[Any],
    *,
    tag: str = "SELECT",
    suspended: bool = False,
    error: BaseException | None = None,
    pulled: list[int] | None = None,
) -> Outcome:
    """Rows whose stream ends, or fails with `error` after the batches; `pulled` counts batches asked for."""

    async def stream() -> AsyncIterator[Any]:
        for batch in batches:
            if pulled is not None:
                pulled.append(1)
            yield batch
        if error is not None:
            raise error

    return lambda: Rows(
        columns=tuple(ColumnDescription(name=name, type=kind) for name, kind in columns),
        batches=stream(),
        tag=lambda count: f"{tag} {count}",
        suspended=lambda: suspended,
    )


def int_rows(*values: int, **options: Any) -> Outcome:
    """One int4 column named n."""
    return rows([("n", SqlType(23))], [pa.record_batch([pa.array(values, pa.int32())], names=["c1"])], **options)


def command(tag: str) -> Outcome:
    """A command tag."""
    return lambda: Command(tag=tag)


def fails(error: BaseException) -> Outcome:
    """A statement that raises."""
    return lambda: error


def copy_out(columns: Sequence[tuple[str, SqlType]], batches: Sequence[Any], format: CopyFormat) -> Outcome:
    """COPY ... TO STDOUT."""

    async def stream() -> AsyncIterator[Any]:
        for batch in batches:
            yield batch

    described = tuple(ColumnDescription(name=name, type=kind) for name, kind in columns)
    return lambda: CopyOut(columns=described, format=format, batches=stream())


@dataclass
class CopySink:
    """What a COPY FROM STDIN delivered."""

    batches: list[Any] = field(default_factory=list)
    aborted: BaseException | None = None

    def table(self) -> Any:
        """All rows received."""
        return pa.Table.from_batches(self.batches)


def copy_in(relation: str, columns: Sequence[tuple[str, SqlType]], format: CopyFormat, sink: CopySink) -> Outcome:
    """COPY ... FROM STDIN into `sink`."""

    async def write(batch: Any) -> None:
        sink.batches.append(batch)

    async def finish() -> int:
        return sum(batch.num_rows for batch in sink.batches)

    async def abort(error: BaseException | None) -> None:
        sink.aborted = error

    described = tuple(ColumnDescription(name=name, type=kind) for name, kind in columns)
    return lambda: CopyIn(
        relation_name=relation, columns=described, format=format, write=write, finish=finish, abort=abort
    )


def catalog_with(*records: CatalogRecord) -> CatalogSnapshot:
    """The catalog of these records, and the secret that every environment has."""
    secret = AuthenticationSecret(oid=AUTHENTICATION_SECRET_OID, value="5ec7e7" * 10)
    return CatalogSnapshot.empty().apply([CatalogUpdate(record, 1) for record in (*records, secret)], Csn(1))


def authenticator(hba: Path | None = None) -> Authenticator:
    """What lets clients in by the rules of this file; without one, every client of a test."""
    return Authenticator(RuleBook(hba, tls=TlsUse()), clock=lambda: asyncio.get_running_loop().time())


@dataclass
class Script:
    """What sessions answer, and what they were told."""

    results: dict[str, list[Outcome]] = field(default_factory=dict)
    param_types: dict[str, tuple[SqlType, ...]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=lambda: dict(DEFAULT_SETTINGS))
    on_execute: dict[str, Callable[[ScriptedSession], Any]] = field(default_factory=dict)
    refuse: SqlError | None = None
    sessions: list[ScriptedSession] = field(default_factory=list)

    catalog: CatalogSnapshot = field(default_factory=lambda: catalog_with(Role(oid=BOOTSTRAP_SUPERUSER_OID, name="u")))
    now_us: int = 0

    async def login(self, user: str) -> Login:
        return Login(user=user, role=role_called(self.catalog, user), catalog=self.catalog, now_us=self.now_us)

    async def open_session(
        self,
        startup: StartupParameters,
        notify: Callable[[int, str, str], None],
        terminate: Callable[[SqlError], None],
    ) -> ScriptedSession:
        if self.refuse is not None:
            raise self.refuse
        session = ScriptedSession(self, startup, 1000 + len(self.sessions), notify, terminate)
        self.sessions.append(session)
        return session


UNLOGGED = {
    "application_name": "",
    "log_connections": "off",
    "log_disconnections": "off",
    "log_duration": "off",
    "log_error_verbosity": "default",
    "log_line_prefix": "",
    "log_min_duration_statement": "-1",
    "log_min_error_statement": "error",
    "log_min_messages": "warning",
    "log_parameter_max_length": "-1",
    "log_statement": "none",
}
"""PostgreSQL's defaults of what is logged."""


class ScriptedSession:
    """See `frontend.connections.session_protocol.Session`."""

    def __init__(
        self,
        script: Script,
        startup: StartupParameters,
        backend_pid: int,
        notify: Callable[[int, str, str], None],
        terminate: Callable[[SqlError], None],
    ) -> None:
        self.script = script
        self.startup = startup
        self.backend_pid = backend_pid
        self.notify = notify
        self._terminate = terminate
        self.transaction_status = "I"
        self.query_text = ""
        self.engine_used = "none"
        self.changes: list[tuple[str, str]] = list(script.settings.items())
        self.notices: list[Notice] = []
        self.statements: dict[str, str] = {}
        self.portals: dict[str, tuple[str, Sequence[int], Sequence[Literal]]] = {}
        self.failures: list[Exception] = []
        self.cancelled = 0
        self.syncs = 0
        self.closed = asyncio.Event()
        self.cancel_action: Callable[[], None] | None = None
        self.statistics = StatementStatistics()
        self.counted: list[str] = []

    def logged_ids(self) -> tuple[int, int]:
        return 0, 0

    def count(self, tag: str, seconds: float) -> None:
        self.counted.append(tag)

    @property
    def settings(self) -> Mapping[str, str]:
        return {**UNLOGGED, **self.script.settings}

    def statement_text(self, name: str) -> str | None:
        return self.statements.get(name)

    def portal_text(self, name: str) -> str | None:
        return self.statements.get(self.portals[name][0]) if name in self.portals else None

    def at_once(self, name: str) -> None:
        return None

    def text_at_once(self, text: str) -> None:
        return None

    async def execute_simple(self, text: str) -> AsyncIterator[StatementResult]:
        if not text.strip(" ;"):
            yield Empty()
            return
        for outcome in self.script.results[text]:
            action = self.script.on_execute.get(text)
            if action is not None:
                await action(self)
            result = outcome()
            if isinstance(result, BaseException):
                raise result
            yield result

    async def prepare(self, name: str, text: str, param_oids: Sequence[int]) -> None:
        if text not in self.script.results:
            raise InvalidSqlStatementName(f"no script for {text!r}")
        self.statements[name] = text

    def _text(self, name: str) -> str:
        try:
            return self.statements[name]
        except KeyError:
            raise InvalidSqlStatementName(f'prepared statement "{name}" does not exist') from None

    def statement_param_types(self, name: str) -> tuple[SqlType, ...]:
        return self.script.param_types.get(self._text(name), ())

    async def describe_statement(self, name: str) -> StatementDescription:
        result = self.script.results[self._text(name)][0]()
        columns = result.columns if isinstance(result, Rows) else None
        return StatementDescription(param_types=self.statement_param_types(name), columns=columns)

    async def bind(self, portal: str, statement: str, params: Sequence[Literal], result_formats: Sequence[int]) -> None:
        self.portals[portal] = (self._text(statement), result_formats, params)

    def _portal(self, name: str) -> tuple[str, Sequence[int], Sequence[Literal]]:
        try:
            return self.portals[name]
        except KeyError:
            raise InvalidCursorName(f'portal "{name}" does not exist') from None

    async def describe_portal(self, portal: str) -> tuple[ColumnDescription, ...] | None:
        result = self.script.results[self._portal(portal)[0]][0]()
        return result.columns if isinstance(result, Rows) else None

    def portal_formats(self, portal: str) -> Sequence[int]:
        return self._portal(portal)[1]

    async def execute_portal(self, portal: str, max_rows: int, sync_follows: bool = False) -> StatementResult:
        text = self._portal(portal)[0]
        action = self.script.on_execute.get(text)
        if action is not None:
            await action(self)
        result = self.script.results[text][0]()
        if isinstance(result, BaseException):
            raise result
        return result

    async def call_function(self, query: str, args: Sequence[Literal]) -> StatementResult:
        result = self.script.results[query][0]()
        if isinstance(result, BaseException):
            raise result
        return result

    async def close_statement(self, name: str) -> None:
        self.statements.pop(name, None)

    async def close_portal(self, name: str) -> None:
        self.portals.pop(name, None)

    async def sync(self) -> None:
        self.syncs += 1

    @property
    def work(self) -> AbstractContextManager[None]:
        return self._noting_failures()

    def aside(self) -> AbstractContextManager[None]:
        return self._noting_failures()

    @contextmanager
    def _noting_failures(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.failures.append(error)
            raise

    def take_parameter_changes(self) -> list[tuple[str, str]]:
        changes, self.changes = self.changes, []
        return changes

    def take_notices(self) -> list[Notice]:
        notices, self.notices = self.notices, []
        return notices

    async def deliver_notifications(self) -> None:
        return None

    def cancel(self) -> None:
        self.cancelled += 1
        if self.cancel_action is not None:
            self.cancel_action()

    def terminate(self, error: SqlError) -> None:
        self.cancel()
        self._terminate(error)

    async def close(self) -> None:
        self.closed.set()
