"""The life of a session's statements: each begins, runs until it has an outcome, gives its result, and ends or fails.

A statement outside a block runs in an *implicit* transaction, which ends with the query string (simple protocol) or at
Sync (extended protocol). When it is the only one of its implicit transaction, it is run again as often as its commit
conflicts with others, and the client never sees 40001.

A result that streams keeps its statement running: the statement ends when the stream does, and an error in the stream
is the statement's error. Closing a stream before its end fails the statement.

A failure has one owner, the context manager `work`: whatever is raised inside it fails the session's transaction. An
implicit transaction is rolled back at once, and a block is failed until its end. Whoever handles the error later has
only to tell the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from types import TracebackType

from msgspec.structs import replace

from adapter.engines.engines import Engines
from adapter.execution.cancellation import CancelScope
from adapter.execution.cursors import RowReader
from adapter.execution.guards import in_failed_transaction
from adapter.execution.prepared import check_unchanged
from adapter.execution.session_registry import SessionRegistry
from adapter.execution.session_state import SessionState
from adapter.execution.statement import Beside, Outcome, RowsOutcome, Running
from adapter.queries.session_facts import Facts
from adapter.results import ColumnDescription, Command, CopyIn, CopyOut, RecordBatch, Rows, StatementResult
from adapter.settings.values import number_of
from adapter.statements.dispatch import dispatch, run_rows
from adapter.statements.numerics.again import Begun, Needs, carried_out, carried_out_again, forget_mark, with_needs
from adapter.statements.numerics.columns import let_hold_nan
from adapter.transactions.pending import State
from adapter.transactions.transaction import Transaction
from adapter.wall_clock import utc_now
from planner.common_errors import NotHeld, canceled, too_deep
from planner.errors import (
    IdleInTransactionSessionTimeout,
    IdleSessionTimeout,
    InternalError,
    QueryCanceled,
    SerializationFailure,
    SqlError,
    TransactionTimeout,
)
from planner.ir.nodes import Literal
from planner.syntax.parse import Parsed

MAX_RETRIES = 1000
"""Times that an autocommit statement is run again after a conflict before the client is told of it."""

RETRY_PAUSE_S = 0.02
"""Longest pause between two of them; it grows from nothing."""


class Work:
    """The context in which a session works for its client: an error that leaves it fails the transaction. Holds no
    state of its own, so it may be entered again inside itself."""

    __slots__ = ("_life",)

    def __init__(self, life: StatementLife) -> None:
        self._life = life

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._life.fail()
        if isinstance(error, RecursionError):
            # What has been bound can still nest too deep for a step after it.
            raise too_deep() from None


class Delivery(AsyncIterator[RecordBatch]):
    """The rows of a running statement up to row `stop` of their reader; see `StatementLife.deliver`.

    A class and no generator, because it may be closed before the first row is asked for: that fails the statement too.
    """

    __slots__ = ("_close", "_commit", "_life", "_over", "_reader", "_running", "_stop")

    def __init__(
        self, life: StatementLife, running: Running, reader: RowReader, stop: int | None, *, commit: bool, close: bool
    ) -> None:
        self._life = life
        self._running = running
        self._reader = reader
        self._stop = stop
        self._commit = commit
        self._close = close
        self._over = False

    async def __anext__(self) -> RecordBatch:
        if self._over:
            raise StopAsyncIteration
        life, reader, stop = self._life, self._reader, self._stop
        with life.work:
            try:
                with self._running.scope:
                    batch = await reader.next(None if stop is None else stop - reader.count)
                    if batch is not None:
                        return batch
                    self._over = True
                    if self._close:
                        await reader.close()
                    if self._commit:
                        await life.commit_if_implicit()
            except BaseException:
                await self._leave()
                raise
            life.end()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Leave the rows that have not been asked for: the statement fails, unless it has ended."""
        if not self._over:
            await self._leave()
            self._life.fail()

    async def _leave(self) -> None:
        self._over = True
        # The statement fails in any case; a second error would hide the first.
        with suppress(SqlError):
            await self._reader.close()


class StatementLife:
    """See the module's contract. `notify` hands a notification to the client, `terminate` ends its connection."""

    def __init__(
        self,
        state: SessionState,
        *,
        engines: Engines,
        sessions: SessionRegistry,
        notify: Callable[[int, str, str], None],
        terminate: Callable[[SqlError], None],
    ) -> None:
        self.state = state
        self.work = Work(self)
        self.running: Running | None = None
        self._services = state.services
        self._engines = engines
        self._sessions = sessions
        self._facts = Facts(state, sessions)
        self._notify = notify
        self._terminate = terminate
        self._aside: CancelScope | None = None
        self._aside_since = state.started_at
        self._new_defaults: dict[str, tuple[str, str]] = {}
        """What has changed of the server's while a statement runs."""
        self._timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._transaction_timer: asyncio.TimerHandle | None = None
        self._tokens = 0
        self._closed = False

    # ------------------------------------------------------------ begin, end, fail

    def begin(
        self,
        parsed: Parsed,
        params: tuple[Literal, ...] = (),
        declared: tuple[int, ...] = (),
        *,
        in_query_string: bool = False,
        is_alone: bool = False,
        attempt: int = 0,
        beside: tuple[Beside, ...] = (),
    ) -> Running:
        """A statement begins, in the session's transaction or in a new implicit one. Raises 25P02."""
        if self.running is not None:
            raise InternalError("a statement is still running")
        state = self.state
        transaction = state.transaction
        if transaction is not None and transaction.state is State.FAILED and parsed.kind != "transaction_stmt":
            raise in_failed_transaction()
        now = utc_now()
        if transaction is None:
            transaction = state.begin_transaction(implicit=True, started_at=now)
        self._tokens += 1
        running = Running(
            session=state,
            transaction=transaction,
            services=self._services,
            engines=self._engines,
            sessions=self._sessions,
            facts=self._facts,
            parsed=parsed,
            params=params,
            declared=declared,
            scope=CancelScope(),
            run=run_rows,
            let_hold_nan=let_hold_nan,
            started_at=now,
            in_block=not transaction.implicit or in_query_string,
            may_retry=is_alone and attempt == 0,
            is_alone=is_alone,
            attempt=attempt,
            token=f"{state.backend_pid}.{self._tokens}",
            beside=beside,
        )
        self.running = running
        state.ran, state.goes_on = parsed, False
        state.engine_used = "none"
        state.state_changed_at = now
        if state.values.flat["statement_timeout"] != "0":
            self._timer = self._timeout(running.scope)
        if state.values.flat["transaction_timeout"] != "0":
            self._limit_transaction(transaction, now)
        return running

    def _limit_transaction(self, transaction: Transaction, now: datetime) -> None:
        """End the session once `transaction` has taken as long as one may."""
        timeout_ms = number_of("transaction_timeout", self.state.values.flat["transaction_timeout"])
        if self._transaction_timer is not None:
            self._transaction_timer.cancel()
        left_s = timeout_ms / 1000 - (now - transaction.started_at).total_seconds()
        loop = asyncio.get_running_loop()
        self._transaction_timer = loop.call_later(max(0.0, left_s), self._end_late, transaction)

    def _end_late(self, transaction: Transaction) -> None:
        if self.state.transaction is transaction:
            self.terminate(TransactionTimeout("terminating connection due to transaction timeout", fatal=True))

    def _timeout(self, scope: CancelScope) -> asyncio.TimerHandle | None:
        """What interrupts `scope` when it has taken as long as a statement may; None when there is no such limit."""
        timeout_ms = number_of("statement_timeout", self.state.values.flat["statement_timeout"])
        if timeout_ms <= 0:
            return None
        late = QueryCanceled("canceling statement due to statement timeout")
        return asyncio.get_running_loop().call_later(timeout_ms / 1000, scope.request, late)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Work for the client while no statement runs, such as parsing, which a cancel request, the statement's timeout
        and the session's end reach as they reach a statement. What it has given to a thread goes on there."""
        scope = self._aside = CancelScope()
        self._aside_since = utc_now()
        timer = self._timeout(scope)
        try:
            with self.work, scope:
                yield
        finally:
            self._aside = None
            if timer is not None:
                timer.cancel()

    def end(self) -> None:
        """The statement that runs, if there is one, is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.running = None
        if self._new_defaults:
            self.change_defaults({})

    def change_defaults(self, changed: Mapping[str, tuple[str, str]]) -> None:
        """Take other defaults of the server, by name a value and its source; what runs goes on with those of before."""
        self._new_defaults.update(changed)
        if self.running is None:
            self.state.values = self.state.values.with_server_defaults(self._new_defaults)
            self._new_defaults = {}

    def fail(self) -> None:
        """What the session did for its client has failed; `work` calls this. May be repeated."""
        self.end()
        transaction = self.state.transaction
        if transaction is None:
            return
        if transaction.implicit:
            self.state.roll_back_transaction()
        else:
            self.state.values = self.state.values.undone_to(transaction.fail())

    async def commit_if_implicit(self) -> None:
        """Commit the session's transaction unless it is a block."""
        transaction = self.state.transaction
        if transaction is not None and transaction.implicit:
            await self.state.commit_transaction()

    # ------------------------------------------------------------ from a statement to its outcome

    async def run(
        self,
        parsed: Parsed,
        params: tuple[Literal, ...],
        declared: tuple[int, ...],
        *,
        retry: bool,
        commit: bool,
        in_query_string: bool = False,
        promised: tuple[ColumnDescription, ...] | None = None,
        beside: tuple[Beside, ...] = (),
    ) -> Outcome:
        """Run a statement up to its outcome; with `commit`, commit an implicit transaction that has nothing left to
        do. With `retry`, a conflict runs it again. `promised` are the columns that the client was told of. Statements
        `beside` it are carried out with it."""
        retry = retry and self.state.transaction is None
        attempt = 0
        needs: Needs | None = None
        while True:
            try:
                with self.work:
                    running = self.begin(
                        parsed,
                        params,
                        declared,
                        in_query_string=in_query_string,
                        is_alone=retry and commit,
                        attempt=attempt,
                        beside=beside,
                    )
                    transaction = running.transaction
                    txn = transaction.txn
                    # NOTE: each statement comes by here.
                    before = Begun(
                        txn,
                        0 if txn is None else txn.changes,
                        None if transaction.temporary is None else transaction.temporary.changes,
                        transaction.pending,
                        len(self.state.notices),
                    )
                    with running.scope:
                        if needs is not None:
                            outcome = await carried_out(running, dispatch, needs)
                        else:
                            try:
                                outcome = await dispatch(running)
                            except NotHeld as met:
                                if running.is_alone:
                                    raise
                                outcome = await carried_out_again(running, before, dispatch, met)
                        if running.before is not None:
                            forget_mark(running)
                        if promised is not None and isinstance(outcome, RowsOutcome):
                            check_unchanged(promised, outcome.columns)
                        if isinstance(outcome, Command) or (isinstance(outcome, RowsOutcome) and not outcome.streaming):
                            if commit:
                                await self.commit_if_implicit()
                                if isinstance(outcome, RowsOutcome) and self.state.transaction is None:
                                    # NOTE: whoever cancels it now, it has been committed, and its rows are due.
                                    running.scope.done()
                            if isinstance(outcome, Command):
                                self.end()
                return outcome
            except NotHeld as met:
                if not (retry and commit):
                    raise
                # NOTE: from the beginning, without the locks that it has by now. Others who do the same have them too.
                needs = with_needs(needs or Needs(), met)
            except SerializationFailure:
                if not retry or attempt >= MAX_RETRIES:
                    raise
                attempt += 1
                self.state.services.statement_retries += 1
                with self.aside():
                    await asyncio.sleep(min(RETRY_PAUSE_S, 0.0005 * attempt))

    # ------------------------------------------------------------ from an outcome to a result

    def result_of(self, outcome: Outcome, *, commit: bool) -> StatementResult:
        """What the frontend gets for `outcome`; the statement ends with its stream, and with `commit` an implicit
        transaction with it."""
        match outcome:
            case Command():
                return outcome
            case RowsOutcome():
                batches = self.deliver(RowReader(outcome.batches), None, commit=commit, close=True)
                return Rows(
                    columns=outcome.columns,
                    batches=batches,
                    tag=outcome.tag,
                    suspended=lambda: False,
                    binary=outcome.binary,
                )
            case CopyOut():
                batches = self.deliver(RowReader(outcome.batches), None, commit=commit, close=True)
                return replace(outcome, batches=batches)
            case CopyIn():
                return self._receive_copy(outcome, commit=commit)

    def deliver(self, reader: RowReader, limit: int | None, *, commit: bool, close: bool) -> AsyncIterator[RecordBatch]:
        """The next `limit` rows of the statement that runs (None: all). At their end the statement ends; with `close`
        also the reader, and with `commit` an implicit transaction."""
        assert self.running is not None
        stop = None if limit is None else reader.count + limit
        return Delivery(self, self.running, reader, stop, commit=commit, close=close)

    def _receive_copy(self, copy: CopyIn, *, commit: bool) -> CopyIn:
        running = self.running
        assert running is not None

        async def write(batch: RecordBatch) -> None:
            with self.work, running.scope:
                await copy.write(batch)

        async def finish() -> int:
            with self.work, running.scope:
                count = await copy.finish()
                if commit:
                    await self.commit_if_implicit()
            self.end()
            return count

        async def abort(reason: BaseException | None) -> None:
            try:
                await copy.abort(reason)
            finally:
                self.fail()

        return replace(copy, write=write, finish=finish, abort=abort)

    # ------------------------------------------------------------ from outside

    @property
    def statement_began_at(self) -> datetime | None:
        """When the statement began that runs now; None while none does."""
        if self.running is not None:
            return self.running.started_at
        return None if self._aside is None else self._aside_since

    def cancel(self) -> None:
        """Interrupt what runs, if anything does: it fails with 57014."""
        self._interrupt(canceled())

    def terminate(self, error: SqlError) -> None:
        """Interrupt what runs and ask the connection to end with `error`."""
        self._interrupt(error)
        self._terminate(error)

    def _interrupt(self, reason: SqlError) -> None:
        scope = self._aside if self.running is None else self.running.scope
        if scope is not None:
            scope.request(reason)

    async def close(self) -> None:
        """End the session; an open transaction is rolled back."""
        if self._closed:
            return
        self._closed = True
        self.cancel()
        self.disarm()
        if self._transaction_timer is not None:
            self._transaction_timer.cancel()
        await self.state.portals.drop_all(keep_held=False)
        self.state.roll_back_transaction()
        self.state.close()
        self.state.locks.unlock_all()
        self._sessions.remove(self)
        self._services.notifications.remove(self.state.listener)

    # ------------------------------------------------------------ between statements

    def notification_arrived(self) -> None:
        """Something was notified that the session listens to: an idle client is told at once."""
        if self.running is None:
            self.deliver_notifications()

    def deliver_notifications(self) -> None:
        """Hand over what has been notified, unless a transaction is open."""
        if self.state.transaction is None:
            queue = self.state.listener.queue
            while queue:
                self._notify(*queue.popleft())

    async def wait_for_client(self) -> None:
        """What the client asked for is done: portals go whose transaction has ended, and the timeout starts that holds
        while the session waits for its client."""
        if self.state.transaction is None and self.state.portals.by_name:
            await self.state.portals.drop_all(keep_held=True)
        self.arm()

    def disarm(self) -> None:
        """The client has sent something: it is not idle."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def arm(self) -> None:
        """The session waits for its client from now on, for as long as it may be idle."""
        self.disarm()
        state = self.state
        state.state_changed_at = utc_now()
        if self._closed:
            return
        if state.transaction is not None and not state.transaction.implicit:
            name = "idle_in_transaction_session_timeout"
            kind: type[SqlError] = IdleInTransactionSessionTimeout
            reason = "terminating connection due to idle-in-transaction timeout"
        else:
            name = "idle_session_timeout"
            kind = IdleSessionTimeout
            reason = "terminating connection due to idle-session timeout"
        timeout_ms = number_of(name, state.values.flat[name])
        if timeout_ms > 0:
            error = kind(reason, fatal=True)
            self._idle_timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, self.terminate, error)
