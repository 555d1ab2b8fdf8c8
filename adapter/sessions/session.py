"""A session: what one connection does, from its start to its end.

The frontend drives it (see `adapter.results`), one call at a time; only `cancel` comes from elsewhere. A session owns
its settings, its transaction, its prepared statements and its portals. It holds no lock: everything that sessions
share is in `ServerState`, and what must be ordered is ordered by the group committer.

Transactions. A statement outside a block runs in an *implicit* transaction, which ends with the query string (simple
protocol) or at Sync (extended protocol). When a statement is the only one of its implicit transaction, the session
retries it as often as its commit conflicts with others, and the client never sees 40001. An error rolls an implicit
transaction back at once and leaves a block failed until its end.

Results that stream keep their statement running: it ends when the stream does, and an error in the stream is the
statement's error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from adapter.execution.cancellation import CancelScope
from adapter.execution.cursors import RowReader
from adapter.execution.portals import Portal
from adapter.execution.prepared import check_unchanged
from adapter.execution.session_state import SessionCore
from adapter.execution.statement import Outcome, RowsOutcome, Running
from adapter.results import (
    ColumnDescription,
    Command,
    CopyIn,
    CopyOut,
    Empty,
    RecordBatch,
    Rows,
    StatementDescription,
    StatementResult,
)
from adapter.statements import transactions as control
from adapter.statements.dispatch import dispatch
from planner.errors import (
    InternalError,
    InvalidCursorName,
    ObjectNotInPrerequisiteState,
    SerializationFailure,
    SqlError,
)
from planner.ir.nodes import Literal
from planner.statements.records import Copy
from planner.syntax.parse import Parsed
from planner.types.types import SqlType

MAX_RETRIES = 1000
"""Times that an autocommit statement is run again after a conflict before the client is told of it."""

RETRY_PAUSE_S = 0.02
"""Longest pause between two of them; it grows from nothing."""


class Session(SessionCore):
    """See the module's contract. Made by `ServerState.open_session`."""

    # ------------------------------------------------------------ simple protocol

    async def execute_simple(self, text: str) -> AsyncIterator[StatementResult]:
        """Run a query string. Each result must be consumed before the next one is asked for."""
        self._disarm()
        self.query_text = text
        self.statements.forget_unnamed()
        await self.portals.drop("")
        try:
            statements = self.state.plans.parse(text)
        except SqlError as error:
            self._statement_failed(error)
            raise
        if not statements:
            yield Empty()
            self._arm_idle()
            return
        completed = False
        try:
            for number, parsed in enumerate(statements, 1):
                last = number == len(statements)
                yield await self._run(parsed, (), (), single=len(statements) == 1, last=last)
                if self.running is not None:
                    raise InternalError("a result was left before its end")
            completed = True
        finally:
            if not completed:
                self._statement_failed(None)
            await self._drop_portals_if_idle()
            self._arm_idle()

    async def _run(
        self, parsed: Parsed, params: tuple[Literal, ...], declared: tuple[int, ...], *, single: bool, last: bool
    ) -> StatementResult:
        """One statement of a query string. With `last`, an implicit transaction ends with it."""
        outcome = await self._attempt(parsed, params, declared, retry=single, commit=last, in_query_string=not single)
        return self._as_result(outcome, commit=last)

    async def _attempt(
        self,
        parsed: Parsed,
        params: tuple[Literal, ...],
        declared: tuple[int, ...],
        *,
        retry: bool,
        commit: bool,
        in_query_string: bool = False,
        result_formats: tuple[int, ...] = (),
        promised: tuple[ColumnDescription, ...] | None = None,
    ) -> Outcome:
        """Run a statement up to its outcome; with `commit`, commit an implicit transaction that has nothing left to
        do. With `retry`, a conflict runs it again. `promised` are the columns that the client was told of."""
        retry = retry and self.transaction is None
        attempt = 0
        while True:
            running = self._begin_statement(
                parsed, params, declared, in_query_string, result_formats, may_retry=retry and attempt == 0
            )
            try:
                with running.scope:
                    outcome = await dispatch(running)
                    if promised is not None and isinstance(outcome, RowsOutcome):
                        check_unchanged(promised, outcome.columns)
                    if isinstance(outcome, Command) or (isinstance(outcome, RowsOutcome) and not outcome.streaming):
                        if commit:
                            await self._commit_implicit()
                        if isinstance(outcome, Command):
                            self._end_statement(running)
                return outcome
            except SerializationFailure as error:
                if not retry or attempt >= MAX_RETRIES:
                    self._statement_failed(error)
                    raise
                self._end_statement(running)
                self.rollback()
                attempt += 1
                await asyncio.sleep(min(RETRY_PAUSE_S, 0.0005 * attempt))
            except BaseException as error:
                self._statement_failed(error)
                raise

    def _as_result(self, outcome: Outcome, *, commit: bool) -> StatementResult:
        """What the frontend gets for `outcome`; the statement ends with its stream."""
        running = self.running
        match outcome:
            case Command():
                return outcome
            case RowsOutcome():
                assert running is not None
                batches = self._deliver(running, RowReader(outcome.batches), None, commit=commit, close=True)
                return Rows(columns=outcome.columns, batches=batches, tag=outcome.tag, suspended=lambda: False)
            case CopyOut():
                assert running is not None
                batches = self._deliver(running, RowReader(outcome.batches), None, commit=commit, close=True)
                return CopyOut(columns=outcome.columns, format=outcome.format, batches=batches)
            case CopyIn():
                assert running is not None
                return self._guard_copy(running, outcome, commit=commit)

    async def _deliver(
        self, running: Running, reader: RowReader, limit: int | None, *, commit: bool, close: bool
    ) -> AsyncIterator[RecordBatch]:
        """Pull `limit` rows of a running statement; at the end the statement is over (and committed)."""
        stop = None if limit is None else reader.count + limit
        done = False
        try:
            while True:
                with running.scope:
                    batch = await reader.next(None if stop is None else stop - reader.count)
                    if batch is None:
                        if close:
                            await reader.close()
                        if commit:
                            await self._commit_implicit()
                if batch is None:
                    break
                yield batch
            done = True
            self._end_statement(running)
        except GeneratorExit:
            raise
        except BaseException as error:
            done = True
            await self._close_quietly(reader)
            self._statement_failed(error)
            raise
        finally:
            if not done:
                await self._close_quietly(reader)
                self._statement_failed(None)

    async def _close_quietly(self, reader: RowReader) -> None:
        """End a stream whose statement has failed already; a second error would hide the first."""
        with suppress(SqlError):
            await reader.close()

    def _guard_copy(self, running: Running, copy: CopyIn, *, commit: bool) -> CopyIn:
        async def write(batch: RecordBatch) -> None:
            try:
                with running.scope:
                    await copy.write(batch)
            except BaseException as error:
                self._statement_failed(error)
                raise

        async def finish() -> int:
            try:
                with running.scope:
                    count = await copy.finish()
                    if commit:
                        await self._commit_implicit()
            except BaseException as error:
                self._statement_failed(error)
                raise
            self._end_statement(running)
            return count

        async def abort(reason: BaseException | None) -> None:
            try:
                await copy.abort(reason)
            finally:
                self._statement_failed(reason)

        return CopyIn(
            relation_name=copy.relation_name,
            columns=copy.columns,
            format=copy.format,
            write=write,
            finish=finish,
            abort=abort,
        )

    # ------------------------------------------------------------ function calls

    async def call_function(self, query: str, args: Sequence[Literal]) -> StatementResult:
        """FunctionCall: the query that calls the function. Statements and portals stay as they are; Sync follows."""
        self._disarm()
        (parsed,) = self.state.plans.parse(query)
        declared = tuple(arg.type.oid for arg in args)
        outcome = await self._attempt(parsed, tuple(args), declared, retry=True, commit=True)
        return self._as_result(outcome, commit=True)

    # ------------------------------------------------------------ extended protocol

    async def prepare(self, name: str, text: str, param_oids: Sequence[int]) -> None:
        """Parse: make a prepared statement. Raises 42601, 42P05, the binder's errors; fails the transaction."""
        self._disarm()
        try:
            await self.statements.prepare(name, text, tuple(param_oids))
        except BaseException as error:
            self._statement_failed(error)
            raise

    def statement_param_types(self, name: str) -> tuple[SqlType, ...]:
        """The types of a prepared statement's parameters. Raises 26000."""
        try:
            return self.statements.require(name).param_types
        except SqlError as error:
            self._statement_failed(error)
            raise

    async def describe_statement(self, name: str) -> StatementDescription:
        """Describe of a statement, without executing. Raises 26000, and 0A000 when its columns have changed."""
        try:
            return await self.statements.describe(name)
        except BaseException as error:
            self._statement_failed(error)
            raise

    async def bind(self, portal: str, statement: str, params: Sequence[Literal], result_formats: Sequence[int]) -> None:
        """Bind: make a portal of a prepared statement."""
        self._disarm()
        try:
            await self.portals.put(self.statements.bind(portal, statement, tuple(params), tuple(result_formats)))
        except BaseException as error:
            self._statement_failed(error)
            raise

    def _portal(self, name: str) -> Portal:
        portal = self.portals.get(name)
        if portal is None:
            error = InvalidCursorName(f'portal "{name}" does not exist')
            self._statement_failed(error)
            raise error
        return portal

    async def describe_portal(self, name: str) -> tuple[ColumnDescription, ...] | None:
        """The columns of a portal, None when it returns no rows. Raises 34000."""
        return self._portal(name).columns

    def portal_formats(self, name: str) -> tuple[int, ...]:
        """The result formats that Bind asked for. Raises 34000."""
        return self._portal(name).result_formats

    async def execute_portal(self, name: str, max_rows: int = 0, sync_follows: bool = False) -> StatementResult:
        """Execute: run a portal, or go on with it. `sync_follows`: the implicit transaction ends with it."""
        portal = self._portal(name)
        self.query_text = portal.text
        if portal.cursor is not None and portal.rows is None:
            return self._execute_cursor(portal, max_rows)
        if portal.parsed is None:
            return Empty()
        if portal.rows is not None:
            if portal.failed or self.transaction is None or self.transaction.failed:
                error: SqlError = ObjectNotInPrerequisiteState(f'portal "{name}" cannot be run')
                self._statement_failed(error)
                raise error
            return self._continue_portal(portal, portal.parsed, max_rows)
        if portal.finished or portal.failed:
            error = ObjectNotInPrerequisiteState(f'portal "{name}" cannot be run')
            self._statement_failed(error)
            raise error
        parsed = portal.parsed
        portal.failed = True
        if portal.plan is not None and isinstance(portal.plan.statement, Copy):
            sync_follows = False  # COPY FROM STDIN swallows a Sync that comes before its data
        alone = sync_follows and self.transaction is None
        commit = sync_follows and (self.transaction is None or self.transaction.implicit)
        outcome = await self._attempt(
            parsed,
            portal.params,
            tuple(type_.oid for type_ in portal.plan.param_types) if portal.plan is not None else (),
            retry=alone,
            commit=commit,
            result_formats=portal.result_formats,
            promised=portal.columns,
        )
        portal.failed = False
        if not isinstance(outcome, RowsOutcome):
            portal.finished = True
            return self._as_result(outcome, commit=commit)
        portal.rows = RowReader(outcome.batches)
        portal.tag = outcome.tag
        return self._portal_rows(portal, outcome.columns, max_rows, commit=commit and max_rows == 0)

    def _continue_portal(self, portal: Portal, parsed: Parsed, max_rows: int) -> StatementResult:
        self._begin_statement(parsed, portal.params, (), False, ())
        return self._portal_rows(portal, portal.columns or (), max_rows, commit=False)

    def _portal_rows(
        self, portal: Portal, columns: tuple[ColumnDescription, ...], max_rows: int, *, commit: bool
    ) -> Rows:
        running, reader = self.running, portal.rows
        assert running is not None
        assert reader is not None
        assert portal.tag is not None
        before = reader.count
        return Rows(
            columns=columns,
            batches=self._deliver(running, reader, max_rows or None, commit=commit, close=False),
            tag=portal.tag,
            suspended=lambda: max_rows > 0 and reader.count - before == max_rows,
        )

    def _execute_cursor(self, portal: Portal, max_rows: int) -> StatementResult:
        """Execute of a SQL cursor through the protocol: fetches forward."""
        assert portal.cursor is not None
        running = self._begin_statement(self.state.fetch_statement, (), (), False, ())
        reader = RowReader(portal.cursor.fetch(control.fetch_forward(portal.name, max_rows or None)))
        return Rows(
            columns=portal.columns or (),
            batches=self._deliver(running, reader, None, commit=False, close=True),
            tag=lambda count: f"SELECT {count}",
            suspended=lambda: max_rows > 0 and reader.count == max_rows,
        )

    async def close_statement(self, name: str) -> None:
        """Close of a statement; one that does not exist is fine."""
        self.statements.forget(name)

    async def close_portal(self, name: str) -> None:
        """Close of a portal; one that does not exist is fine."""
        await self.portals.drop(name)

    async def sync(self) -> None:
        """Sync: end the implicit transaction. Raises what its commit raises."""
        try:
            if self.running is not None:
                self._statement_failed(None)
            if self.transaction is not None and self.transaction.implicit:
                scope = CancelScope()
                with scope:
                    await self._commit_implicit()
        except BaseException as error:
            self._statement_failed(error)
            raise
        finally:
            await self._drop_portals_if_idle()
            self._arm_idle()
