"""What a session keeps, and the life of its statements and transactions. `adapter.sessions.session` adds the protocols.

A statement begins (`_begin_statement`), runs inside its cancel scope, and ends, or fails: then an implicit transaction
is rolled back at once and a block is failed until its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from adapter.execution.cancellation import CancelScope
from adapter.execution.notifications import Listener
from adapter.execution.portals import PortalTable
from adapter.execution.prepared import Statements
from adapter.execution.statement import Running
from adapter.plans.plan_cache import MAX_CACHED_TEXT_CHARS, Plan
from adapter.results import Notice
from adapter.settings.values import REPORTED, SettingValues, number_of, split_list
from adapter.transactions.transaction import FAILED, IDLE, IN_BLOCK, ISOLATION_LEVELS, Transaction
from adapter.wall_clock import utc_now
from planner.analyze import BindContext
from planner.errors import (
    IdleInTransactionSessionTimeout,
    IdleSessionTimeout,
    InFailedSqlTransaction,
    InternalError,
    QueryCanceled,
    SqlError,
    StatementCompletionUnknown,
)
from planner.ir.nodes import Literal
from planner.syntax.parse import Parsed
from storage.catalog.model import CatalogSnapshot
from storage.timestamps.csn import Csn

if TYPE_CHECKING:
    from adapter.sessions.server import ServerState


class SessionCore:
    """The state of a session; see the module's contract."""

    def __init__(
        self,
        state: ServerState,
        *,
        backend_pid: int,
        user: str,
        database: str,
        values: SettingValues,
        remote_address: str | None,
        notify: Callable[[int, str, str], None],
        terminate: Callable[[SqlError], None],
    ) -> None:
        self.state = state
        self.backend_pid = backend_pid
        self.session_user = user
        self.user = user
        self.database = database
        self.values = values
        self.remote_address = remote_address
        self.started_at = utc_now()
        self.transaction: Transaction | None = None
        self.portals = PortalTable()
        self.statements = Statements(self)
        self.running: Running | None = None
        self.sequence_values: dict[int, int] = {}
        self.last_sequence: int | None = None
        self.query_text = ""
        self.state_changed_at = self.started_at
        self._notify = notify
        self._terminate = terminate
        self._notices: list[Notice] = []
        self._reported: dict[str, str] = {}
        self._reported_values: SettingValues | None = None
        self._context: tuple[CatalogSnapshot, SettingValues, str, BindContext] | None = None
        """The latest bind context, with what it was made of."""
        self._planned: tuple[Parsed, tuple[int, ...], BindContext, Plan] | None = None
        """The latest plan, with what it was made of: Execute asks for the one that Bind has asked for."""
        self._timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._tokens = 0
        self._closed = False
        self._unsettled: asyncio.Future[Csn] | None = None
        """The session's last commit that was answered before everybody saw it."""
        self.listener = Listener(backend_pid, self._notification_arrived)

    # ------------------------------------------------------------ what the frontend asks

    @property
    def transaction_status(self) -> str:
        """ReadyForQuery's indicator: I, T or E."""
        if self.transaction is None or self.transaction.implicit:
            return IDLE
        return FAILED if self.transaction.failed else IN_BLOCK

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings now in force, by canonical name."""
        return self.values.flat

    def take_parameter_changes(self) -> list[tuple[str, str]]:
        """Reportable settings whose value differs from what was last reported; at first, all of them."""
        if self.values is self._reported_values:
            return []
        self._reported_values = self.values
        changes = []
        for name in REPORTED:
            value = self.values[name]
            if self._reported.get(name) != value:
                self._reported[name] = value
                changes.append((name, value))
        return changes

    def take_notices(self) -> list[Notice]:
        """Notices since the last call."""
        notices, self._notices = self._notices, []
        return notices

    async def deliver_notifications(self) -> None:
        """Hand over what has been notified, unless a transaction block is open."""
        self._deliver_notifications()

    def _deliver_notifications(self) -> None:
        if self.transaction is None:
            while self.listener.queue:
                self._notify(*self.listener.queue.popleft())

    def cancel(self) -> None:
        """Interrupt the running statement, if there is one: it fails with 57014."""
        if self.running is not None:
            self.running.scope.request(QueryCanceled("canceling statement due to user request"))

    def terminate(self, error: SqlError) -> None:
        """Ask the connection to end with `error`."""
        if self.running is not None:
            self.running.scope.request(error)
        self._terminate(error)

    async def fail(self, error: SqlError) -> None:
        """An error that arose outside of the session (decoding, encoding, protocol) ends what is running."""
        self._statement_failed(error)

    async def close(self) -> None:
        """End the session; an open transaction is rolled back."""
        if self._closed:
            return
        self._closed = True
        if self.running is not None:
            self.running.scope.request(QueryCanceled("canceling statement due to user request"))
        self._disarm()
        await self.portals.drop_all(keep_held=False)
        self.rollback()
        self.state.forget_session(self)

    # ------------------------------------------------------------ the life of a statement

    def _begin_statement(
        self,
        parsed: Parsed,
        params: tuple[Literal, ...],
        declared: tuple[int, ...],
        in_query_string: bool,
        result_formats: tuple[int, ...],
        *,
        may_retry: bool = False,
    ) -> Running:
        if self.running is not None:
            raise InternalError("a statement is still running")
        transaction = self.transaction
        if transaction is not None and transaction.failed and parsed.kind != "transaction_stmt":
            error = InFailedSqlTransaction(
                "current transaction is aborted, commands ignored until end of transaction block"
            )
            raise error
        now = utc_now()
        if transaction is None:
            transaction = self.begin_transaction(implicit=True)
        self._tokens += 1
        running = Running(
            session=self,
            transaction=transaction,
            parsed=parsed,
            params=params,
            declared=declared,
            scope=CancelScope(),
            started_at=now,
            in_block=not transaction.implicit or in_query_string,
            in_query_string=in_query_string,
            may_retry=may_retry,
            result_formats=result_formats,
            token=f"{self.backend_pid}.{self._tokens}",
        )
        self.running = running
        self.state_changed_at = now
        timeout_ms = number_of("statement_timeout", self.values["statement_timeout"])
        if timeout_ms > 0:
            self._timer = asyncio.get_running_loop().call_later(
                timeout_ms / 1000,
                running.scope.request,
                QueryCanceled("canceling statement due to statement timeout"),
            )
        return running

    def _end_statement(self, running: Running) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.running is running:
            self.running = None

    def _statement_failed(self, error: BaseException | None) -> None:
        """The running statement ends in an error: an implicit transaction is gone, a block is failed."""
        if self.running is not None:
            self._end_statement(self.running)
        transaction = self.transaction
        if transaction is None:
            return
        if transaction.implicit:
            self.rollback()
        else:
            transaction.failed = True

    # ------------------------------------------------------------ transactions

    def begin_transaction(self, *, implicit: bool) -> Transaction:
        """Start a transaction with the session's defaults."""
        settings = self.values.flat
        self.transaction = Transaction(
            isolation=ISOLATION_LEVELS[settings["default_transaction_isolation"]],
            read_only=settings["default_transaction_read_only"] == "on",
            deferrable=settings["default_transaction_deferrable"] == "on",
            implicit=implicit,
            started_at=utc_now(),
            settings_at_start=self.values,
            after=self._unsettled,
            decided_after=self.state.committer.decided_after,
        )
        return self.transaction

    async def _commit_implicit(self) -> None:
        if self.transaction is not None and self.transaction.implicit:
            await self.commit()

    async def commit(self) -> None:
        """Commit the transaction. Raises 40001 and 40003; the transaction is over in any case."""
        transaction = self.transaction
        if transaction is None:
            return
        try:
            for portal in self.portals.to_hold():
                assert portal.cursor is not None
                await portal.cursor.hold()
                portal.held = True
            csn: Csn | None = None
            if transaction.has_writes:
                csn = await self._commit_writes(transaction)
        except BaseException as error:
            transaction.in_doubt = isinstance(error, StatementCompletionUnknown)
            self.rollback()
            raise
        self.transaction = None
        if csn is None and transaction.has_writes and self._unsettled is not None:
            self._unsettled.add_done_callback(lambda done: self._settled(transaction, done))
        else:
            self.state.transaction_ended(transaction, committed=True, csn=csn)
        transaction.end()
        self.values = self.values.without_local()
        for action, channel in transaction.listens:
            self._apply_listen(action, channel)
        self.state.notifications.publish(self.backend_pid, transaction.notifications)

    async def _commit_writes(self, transaction: Transaction) -> Csn | None:
        """Commit as the settings ask for; the CSN, None when it is not known yet."""
        state, values = self.state, self.values
        durable = values["synchronous_commit"] != "off"
        # Who is notified looks for what the transaction did.
        if (durable and values["synchronous_visibility"] == "on") or transaction.notifications:
            return await state.committer.commit(transaction.commit_request(state.env))
        if not durable and state.env.peers.alone:
            await state.transaction_id(transaction)
        self._unsettled = await state.committer.commit_relaxed(transaction.commit_request(state.env), durable=durable)
        return None

    def _settled(self, transaction: Transaction, done: asyncio.Future[Csn]) -> None:
        """A commit that was answered early is visible, or has failed after all."""
        failed = done.cancelled() or done.exception() is not None
        transaction.in_doubt = failed
        self.state.transaction_ended(transaction, committed=not failed, csn=None if failed else done.result())

    def rollback(self) -> None:
        """Undo the transaction: its writes, its settings, its notifications."""
        transaction = self.transaction
        if transaction is None:
            return
        self.transaction = None
        self.state.transaction_ended(transaction, committed=False)
        transaction.abandon()
        transaction.end()
        self.values = self.values.undone_to(transaction.settings_at_start.without_local())

    async def _drop_portals_if_idle(self) -> None:
        if self.transaction is None and self.portals.portals:
            await self.portals.drop_all(keep_held=True)

    def _apply_listen(self, action: str, channel: str | None) -> None:
        channels = self.listener.channels
        if action == "listen" and channel is not None:
            channels.add(channel)
        elif channel is None:
            channels.clear()
        else:
            channels.discard(channel)

    def _notification_arrived(self) -> None:
        if self.running is None and self.transaction is None:
            self._deliver_notifications()

    # ------------------------------------------------------------ planning

    def notice(self, notice: Notice) -> None:
        """Send a notice with the statement's result, if the client wants its level."""
        levels = ("debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error")
        wanted = levels.index(self.values["client_min_messages"])
        severity = {"NOTICE": "notice", "WARNING": "warning", "LOG": "log", "DEBUG": "debug1"}.get(notice.severity)
        if severity is None or levels.index(severity) >= wanted:
            self._notices.append(notice)

    @property
    def pending_notices(self) -> int:
        """How many notices have not been taken yet."""
        return len(self._notices)

    def drop_notices(self, keep: int) -> None:
        """Take back all notices but the first `keep`."""
        del self._notices[keep:]

    def warn(self, sqlstate: str, message: str) -> None:
        """Send a WARNING."""
        self.notice(Notice(severity="WARNING", sqlstate=sqlstate, message=message))

    def search_path(self) -> tuple[str, ...]:
        """The schemas that unqualified names are looked up in, `$user` resolved."""
        names = split_list(self.values["search_path"])
        return tuple([self.user if name == "$user" else name for name in names])

    def bind_context(self, catalog: CatalogSnapshot) -> BindContext:
        """What the binder needs of the session."""
        known = self._context
        if known is not None and known[0] is catalog and known[1] is self.values and known[2] == self.user:
            return known[3]
        context = BindContext(
            catalog=catalog,
            search_path=self.search_path(),
            settings=self.values.flat,
            user=self.user,
            database=self.database,
            system_relations=self.state.system_relations,
        )
        self._context = (catalog, self.values, self.user, context)
        return context

    async def refresh_catalog(self) -> None:
        """Bring what statements are bound against up to anything acknowledged so far, by whatever process."""
        if self.transaction is None:
            await self.state.env.oracle.read_ts("catalog")
        else:
            await self.transaction.refresh_catalog(self.state.env)

    def plan(self, parsed: Parsed, catalog: CatalogSnapshot, declared: tuple[int, ...] = ()) -> Plan:
        """The plan of `parsed` against `catalog`, from the cache if it can be."""
        context = self.bind_context(catalog)
        known = self._planned
        if known is not None and known[0] is parsed and known[2] is context and known[1] == declared:
            return known[3]
        plan = self.state.plans.plan(parsed, context, declared)
        self._planned = (parsed, declared, context, plan) if len(parsed.text) <= MAX_CACHED_TEXT_CHARS else None
        return plan

    # ------------------------------------------------------------ timers

    def _disarm(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _arm_idle(self) -> None:
        """Start the timeout that applies while the session waits for its client."""
        self._disarm()
        self.state_changed_at = utc_now()
        if self._closed:
            return
        if self.transaction is not None and not self.transaction.implicit:
            timeout_ms = number_of(
                "idle_in_transaction_session_timeout", self.values["idle_in_transaction_session_timeout"]
            )
            kind: type[SqlError] = IdleInTransactionSessionTimeout
            reason = "terminating connection due to idle-in-transaction timeout"
        else:
            timeout_ms = number_of("idle_session_timeout", self.values["idle_session_timeout"])
            kind = IdleSessionTimeout
            reason = "terminating connection due to idle-session timeout"
        if timeout_ms > 0:
            error = kind(reason, fatal=True)
            self._idle_timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, self.terminate, error)
