"""What the frontend needs of the adapter: protocols for a session and for the factory that opens sessions.

The server of `adapter.sessions.server` and its sessions satisfy them; tests use scripted ones. The records that the
calls take and give are those of `adapter.results`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from adapter.access.logins import Login
from adapter.results import ColumnDescription, Notice, StartupParameters, StatementDescription, StatementResult
from adapter.sessions.changes_at_once import ChangeAtOnce
from adapter.sessions.reads_at_once import ReadAtOnce
from adapter.sessions.runs_at_once import RunAtOnce
from planner.errors import SqlError
from planner.ir.nodes import Literal
from planner.types.types import SqlType


class Session(Protocol):
    """One client's session."""

    @property
    def backend_pid(self) -> int: ...

    @property
    def query_text(self) -> str:
        """The newest statement that the client has sent to be run."""
        ...

    @property
    def engine_used(self) -> str:
        """The engine that the latest statement has used."""
        ...

    @property
    def transaction_status(self) -> str: ...

    @property
    def settings(self) -> Mapping[str, str]: ...

    @property
    def work(self) -> AbstractContextManager[None]:
        """What the connection does itself for a statement: an error inside fails the session's transaction."""
        ...

    def aside(self) -> AbstractContextManager[None]:
        """`work` that is waited for: it can be cancelled."""
        ...

    def at_once(self, name: str) -> ReadAtOnce | ChangeAtOnce | RunAtOnce | None:
        """The prepared statement, if it may be carried out at once instead of being bound and executed."""
        ...

    def text_at_once(self, text: str) -> tuple[ReadAtOnce | ChangeAtOnce, tuple[Literal, ...]] | None:
        """The query string, if it may be carried out at once instead of being executed, with what it is to be given."""
        ...

    def execute_simple(self, text: str) -> AsyncIterator[StatementResult]: ...

    async def prepare(self, name: str, text: str, param_oids: Sequence[int]) -> None: ...

    async def describe_statement(self, name: str) -> StatementDescription: ...

    def statement_param_types(self, name: str) -> tuple[SqlType, ...]: ...

    async def bind(
        self, portal: str, statement: str, params: Sequence[Literal], result_formats: Sequence[int]
    ) -> None: ...

    async def describe_portal(self, portal: str) -> tuple[ColumnDescription, ...] | None: ...

    def statement_text(self, name: str) -> str | None:
        """The text of a prepared statement, if there is one of this name."""
        ...

    def portal_text(self, name: str) -> str | None:
        """The text of a portal's statement, if there is one of this name."""
        ...

    def portal_formats(self, portal: str) -> Sequence[int]: ...

    async def execute_portal(self, portal: str, max_rows: int, sync_follows: bool = False) -> StatementResult: ...

    async def call_function(self, query: str, args: Sequence[Literal]) -> StatementResult: ...

    async def close_statement(self, name: str) -> None: ...

    async def close_portal(self, name: str) -> None: ...

    async def sync(self) -> None: ...

    @property
    def statistics(self) -> Statistics:
        """Who counts statements."""
        ...

    def logged_ids(self) -> tuple[int, int]:
        """The ids of its transaction and of its latest statement, for the log; 0 where there is none."""
        ...

    def count(self, tag: str, seconds: float) -> None:
        """The latest statement has been answered, or a part of its rows: with this command tag, after so long."""
        ...

    def take_parameter_changes(self) -> list[tuple[str, str]]: ...

    def take_notices(self) -> list[Notice]: ...

    async def deliver_notifications(self) -> None: ...

    def cancel(self) -> None: ...

    def terminate(self, error: SqlError) -> None: ...

    async def close(self) -> None: ...


class Statistics(Protocol):
    """Who counts statements for pg_stat_statements."""

    @property
    def is_on(self) -> bool:
        """Whether anybody wants to know."""
        ...


class Metrics(Protocol):
    """Who counts what is done for clients."""

    def connected(self) -> None:
        """A session has begun."""
        ...

    def answered(self, tag: str, engine: str, seconds: float) -> None:
        """A statement has been answered."""
        ...

    def failed(self, sqlstate: str) -> None:
        """A client has been told of an error."""
        ...


class SessionFactory(Protocol):
    """Knows roles, and opens sessions for clients that have shown that they are one. Raises fatal SqlErrors (unknown
    database, unknown role, bad setting)."""

    async def login(self, user: str) -> Login: ...

    async def open_session(
        self,
        startup: StartupParameters,
        notify: Callable[[int, str, str], None],
        terminate: Callable[[SqlError], None],
    ) -> Session: ...
