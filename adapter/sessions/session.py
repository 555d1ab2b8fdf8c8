"""A session: what one connection does, from its start to its end, message by message.

The frontend drives it (see `adapter.results`), one call at a time; only `cancel` comes from elsewhere. What the session
keeps is its `SessionState`, and how its statements live is in `adapter.sessions.statement_life`; here is what the two
protocols make of them. What must be ordered between sessions is ordered by the locks of their transactions and, in the
end, by the group committer.

A call that raises has failed the session's transaction already.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager

from adapter.execution.cancellation import CancelScope
from adapter.execution.cursors import RowReader
from adapter.execution.guards import in_failed_transaction
from adapter.execution.portals import Portal
from adapter.execution.statement import RowsOutcome
from adapter.results import ColumnDescription, Empty, Notice, Rows, StatementDescription, StatementResult
from adapter.sessions.changes_at_once import ChangeAtOnce, Lines, changing
from adapter.sessions.reads_at_once import ReadAtOnce, reading
from adapter.sessions.runs_at_once import RunAtOnce, running
from adapter.sessions.statement_life import StatementLife
from adapter.settings.values import REPORTED, SettingValues
from adapter.statements import prepare as statement_preparation
from adapter.statements.cursors import fetch_forward
from adapter.statistics.statements import StatementStatistics
from adapter.transactions.pending import State
from planner.errors import InternalError, InvalidCursorName, ObjectNotInPrerequisiteState, SqlError
from planner.ir.nodes import Literal
from planner.statements.records import Copy
from planner.syntax.backslashes import Conforming, conforming
from planner.syntax.dialects.names import POSTGRES
from planner.syntax.dialects.reading import SHOWS_TRANSLATION, Reading
from planner.syntax.parse import BRIEF_TEXT_CHARS, LONG_TEXT_CHARS, Parsed
from planner.types.types import SqlType, declared_as


def _reads_plainly(values: Mapping[str, str], text: str) -> bool:
    """Whether the query string `text` is PostgreSQL's, with backslashes in strings as the standard has them."""
    plain = values["dialect"] == POSTGRES and values["standard_conforming_strings"] == "on"
    return plain and SHOWS_TRANSLATION.match(text) is None


class Session:
    """See the module's contract. Made by `Server.open_session`."""

    def __init__(self, life: StatementLife, lines: Lines) -> None:
        self.state = life.state
        self._lines = lines
        self._life = life
        self._plans = life.state.services.plans
        self._reported: dict[str, str] = {}
        self._reported_values: SettingValues | None = None

    # ------------------------------------------------------------ what the frontend asks

    @property
    def backend_pid(self) -> int:
        """What cancel requests name the session by."""
        return self.state.backend_pid

    @property
    def query_text(self) -> str:
        """The newest statement that the client has sent to be run."""
        return self.state.query_text

    @property
    def engine_used(self) -> str:
        """The engine that the latest statement has used: local, spark, or none."""
        return self.state.engine_used

    @property
    def transaction_status(self) -> str:
        """ReadyForQuery's indicator: I, T or E."""
        transaction = self.state.transaction
        if transaction is None or transaction.implicit:
            return "I"
        return "E" if transaction.state is State.FAILED else "T"

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings now in force, by canonical name."""
        return self.state.values.flat

    @property
    def work(self) -> AbstractContextManager[None]:
        """For what the frontend does itself for a statement (decoding its parameters, say): an error inside fails the
        transaction, as one of the session's own does."""
        return self._life.work

    def aside(self) -> AbstractContextManager[None]:
        """`work` that is waited for, and that a cancel request and the statement's timeout reach."""
        return self._life.aside()

    @property
    def statistics(self) -> StatementStatistics:
        """Who counts statements; `count` while somebody wants to know."""
        return self.state.services.statistics

    def logged_ids(self) -> tuple[int, int]:
        """What the log says of the moment: the ids of the transaction and of the latest statement, 0 where there is
        none."""
        transaction = self.state.transaction
        xid = None if transaction is None else transaction.id
        return xid or 0, self.statistics.id_of(self.state.ran) or 0

    def count(self, tag: str, seconds: float) -> None:
        """The latest statement has been answered, or a part of its rows: with this command tag, after so long."""
        state = self.state
        if state.ran is not None:
            values = state.values
            self.statistics.note(
                state.ran,
                values.flat,
                values.identity.current,
                state.database_oid,
                tag,
                seconds,
                goes_on=state.goes_on,
            )

    def take_parameter_changes(self) -> list[tuple[str, str]]:
        """Reportable settings whose value differs from what was last reported; at first, all of them."""
        values = self.state.values
        if values is self._reported_values:
            return []
        self._reported_values = values
        changes = []
        for name in REPORTED:
            value = values.flat[name]
            if self._reported.get(name) != value:
                self._reported[name] = value
                changes.append((name, value))
        return changes

    def take_notices(self) -> list[Notice]:
        """Notices since the last call."""
        notices, self.state.notices = self.state.notices, []
        return notices

    async def deliver_notifications(self) -> None:
        """Hand over what has been notified, unless a transaction block is open."""
        self._life.deliver_notifications()

    def cancel(self) -> None:
        """Interrupt the running statement, if there is one: it fails with 57014."""
        self._life.cancel()

    def terminate(self, error: SqlError) -> None:
        """Interrupt the running statement, if there is one, and end the session with `error`, which is fatal."""
        self._life.terminate(error)

    async def close(self) -> None:
        """End the session; an open transaction is rolled back."""
        await self._life.close()

    # ------------------------------------------------------------ at once

    def at_once(self, name: str) -> ReadAtOnce | ChangeAtOnce | RunAtOnce | None:
        """The prepared statement `name`, if it is a query that may be answered at once, a change that may be carried
        out with others, or one that may be run in its block, now, instead of `bind`, `execute_portal` and what comes
        between."""
        statement = self.state.statements.by_name.get(name)
        if statement is None or statement.parsed is None or self._life.running is not None:
            return None
        if self.state.transaction is not None or statement.parsed.kind == "transaction_stmt":
            return running(self._life, statement)
        if statement.parsed.kind != "select_stmt":
            return changing(self._life, self._lines, statement.text, statement.parsed, statement.param_oids)
        found = reading(self.state, statement.text, statement.parsed, statement.param_oids)
        if found is None or (found.columns is not statement.columns and found.columns != statement.columns):
            return None
        return found

    def text_at_once(self, text: str) -> tuple[ReadAtOnce | ChangeAtOnce, tuple[Literal, ...]] | None:
        """The query string `text`, if it is such a query or change, and what it is to be given, instead of
        `execute_simple`. The unnamed statement goes, as it does there."""
        state = self.state
        if state.statements.by_name:
            state.statements.forget("")
        if state.transaction is not None or self._life.running is not None or self._plans.knows(text):
            return None
        lifted = state.lifted(text)
        if lifted is None:
            return None
        found: ReadAtOnce | ChangeAtOnce | None
        if lifted.parsed.kind == "select_stmt":
            found = reading(state, text, lifted.parsed, lifted.declared)
        else:
            found = changing(self._life, self._lines, text, lifted.parsed, lifted.declared)
        return None if found is None else (found, lifted.params)

    # ------------------------------------------------------------ simple protocol

    async def execute_simple(self, text: str) -> AsyncIterator[StatementResult]:
        """Run a query string. Each result must be consumed before the next one is asked for."""
        life, state = self._life, self.state
        life.disarm()
        state.query_text = text
        if state.statements.by_name:
            state.statements.forget("")
        if state.portals.by_name:
            await state.portals.drop("")
        reading: Reading | Conforming | None = None
        try:
            with life.work:
                if not _reads_plainly(state.values.flat, text):
                    reading = await self._read(text)
                    text = reading.text
                lifted = None if self._plans.knows(text) else state.lifted(text)
                if lifted is not None:
                    outcome = await life.run(lifted.parsed, lifted.params, lifted.declared, retry=True, commit=True)
                    yield life.result_of(outcome, commit=True)
                    if life.running is not None:
                        raise InternalError("a result was left before its end")
                    return
                statements = await self._parsed(text)
                if not statements:
                    yield Empty()
                single = len(statements) == 1
                for number, parsed in enumerate(statements, 1):
                    # An implicit transaction ends with the last statement.
                    last = number == len(statements)
                    outcome = await life.run(parsed, (), (), retry=single, commit=last, in_query_string=not single)
                    yield life.result_of(outcome, commit=last)
                    if life.running is not None:
                        raise InternalError("a result was left before its end")
        except SqlError as error:
            if reading is None:
                raise
            raise reading.pointed(error) from None
        finally:
            if len(text) > LONG_TEXT_CHARS:
                state.forget_long_plan()
            await life.wait_for_client()

    async def _read(self, text: str) -> Reading | Conforming:
        """A query string of the dialect that is set, as PostgreSQL's; one of PostgreSQL's with backslashes as escapes.
        Raises 0A000 for strings that may not stand there."""
        values = self.state.values.flat
        if values["dialect"] != POSTGRES or SHOWS_TRANSLATION.match(text) is not None:
            with self._life.aside():
                return await self._plans.read(text, values["dialect"])
        found = conforming(text) if len(text) <= BRIEF_TEXT_CHARS else await self._plans.aside(conforming, text)
        if values["escape_string_warning"] == "on":
            for each in found.warnings:
                notice = Notice(severity="WARNING", sqlstate="22P06", message=each.message, hint=each.hint)
                self.state.notice(notice)
        if found.fault is not None:
            raise found.fault
        return found

    async def _parsed(self, text: str) -> tuple[Parsed, ...]:
        """The statements of a query string."""
        if len(text) <= BRIEF_TEXT_CHARS:
            return await self._plans.parse(text)
        with self._life.aside():
            return await self._plans.parse(text)

    # ------------------------------------------------------------ function calls

    async def call_function(self, query: str, args: Sequence[Literal]) -> StatementResult:
        """FunctionCall: the query that calls the function. Statements and portals stay as they are; Sync follows."""
        life = self._life
        life.disarm()
        with life.work:
            (parsed,) = await self._plans.parse(query)
            declared = tuple(arg.type.oid for arg in args)
            outcome = await life.run(parsed, tuple(args), declared, retry=True, commit=True)
            return life.result_of(outcome, commit=True)

    # ------------------------------------------------------------ extended protocol

    async def prepare(self, name: str, text: str, param_oids: Sequence[int]) -> None:
        """Parse: make a prepared statement. Raises 42601, 42P05 and the binder's errors."""
        self._life.disarm()
        reading: Reading | Conforming | None = None
        if not _reads_plainly(self.state.values.flat, text):
            reading = await self._read(text)
            text = reading.text
        try:
            with self._life.aside():
                await statement_preparation.parse(self.state, name, text, tuple(param_oids))
        except SqlError as error:
            if reading is None:
                raise
            raise reading.pointed(error) from None

    def _work_on(self, name: str) -> AbstractContextManager[None]:
        """For planning a prepared statement, which may take long when that is."""
        statement = self.state.statements.by_name.get(name)
        is_brief = statement is None or statement.parsed is None or statement.parsed.is_brief
        return self._life.work if is_brief else self._life.aside()

    def statement_param_types(self, name: str) -> tuple[SqlType, ...]:
        """The types of a prepared statement's parameters. Raises 26000."""
        with self._life.work:
            return self.state.statements.require(name).param_types

    async def describe_statement(self, name: str) -> StatementDescription:
        """Describe of a statement, without executing. Raises 26000, and 0A000 when its columns have changed."""
        with self._work_on(name):
            return await statement_preparation.describe(self.state, name)

    async def bind(self, portal: str, statement: str, params: Sequence[Literal], result_formats: Sequence[int]) -> None:
        """Bind: make a portal of a prepared statement."""
        self._life.disarm()
        with self._work_on(statement):
            await statement_preparation.plan_long(self.state, statement)
            bound = statement_preparation.bind(self.state, portal, statement, tuple(params), tuple(result_formats))
            await self.state.portals.put(bound)

    def _portal(self, name: str) -> Portal:
        portal = self.state.portals.by_name.get(name)
        if portal is None:
            with self._life.work:
                raise InvalidCursorName(f'portal "{name}" does not exist')
        return portal

    async def describe_portal(self, name: str) -> tuple[ColumnDescription, ...] | None:
        """The columns of a portal, None when it returns no rows. Raises 34000."""
        return self._portal(name).columns

    def statement_text(self, name: str) -> str | None:
        """The text of a prepared statement, if there is one of this name."""
        statement = self.state.statements.by_name.get(name)
        return None if statement is None else statement.text

    def portal_text(self, name: str) -> str | None:
        """The text of a portal's statement, if there is one of this name."""
        portal = self.state.portals.by_name.get(name)
        return None if portal is None else portal.text

    def portal_formats(self, name: str) -> tuple[int, ...]:
        """The result formats that Bind asked for. Raises 34000."""
        return self._portal(name).result_formats

    async def execute_portal(self, name: str, max_rows: int = 0, sync_follows: bool = False) -> StatementResult:
        """Execute: run a portal, or go on with it. `sync_follows`: the implicit transaction ends with it."""
        portal = self._portal(name)
        self._life.disarm()
        self.state.query_text = portal.text
        if portal.parsed is None and portal.cursor is None:
            return Empty()
        with self._life.work:
            if portal.cursor is not None and portal.rows is None:
                return self._fetch_from_cursor(portal, max_rows)
            transaction = self.state.transaction
            assert portal.parsed is not None
            failed = transaction is not None and transaction.state is State.FAILED
            if failed and portal.parsed.kind != "transaction_stmt":
                raise in_failed_transaction()
            over = portal.rows is not None and transaction is None
            if over or portal.failed or (portal.rows is None and portal.finished):
                raise ObjectNotInPrerequisiteState(f'portal "{name}" cannot be run')
            if portal.rows is not None:
                self._life.begin(portal.parsed, portal.params)
                self.state.goes_on = True
                return self._rows_of(portal, portal.columns or (), max_rows, commit=False)
            return await self._run_portal(portal, portal.parsed, max_rows, sync_follows)

    async def _run_portal(self, portal: Portal, parsed: Parsed, max_rows: int, sync_follows: bool) -> StatementResult:
        transaction = self.state.transaction
        portal.failed = True
        if portal.plan is not None and isinstance(portal.plan.statement, Copy):
            sync_follows = False  # COPY FROM STDIN swallows a Sync that comes before its data
        commit = sync_follows and (transaction is None or transaction.implicit)
        outcome = await self._life.run(
            parsed,
            portal.params,
            tuple(map(declared_as, portal.plan.param_types)) if portal.plan is not None else (),
            retry=sync_follows and transaction is None,
            commit=commit,
            promised=portal.columns,
        )
        portal.failed = False
        if not isinstance(outcome, RowsOutcome):
            portal.finished = True
            return self._life.result_of(outcome, commit=commit)
        portal.rows = RowReader(outcome.batches)
        portal.tag = outcome.tag
        return self._rows_of(portal, outcome.columns, max_rows, commit=commit and max_rows == 0)

    def _rows_of(self, portal: Portal, columns: tuple[ColumnDescription, ...], max_rows: int, *, commit: bool) -> Rows:
        """The next rows of a portal whose statement runs."""
        reader = portal.rows
        assert reader is not None
        assert portal.tag is not None
        before = reader.count
        return Rows(
            columns=columns,
            batches=self._life.deliver(reader, max_rows or None, commit=commit, close=False),
            tag=portal.tag,
            suspended=lambda: max_rows > 0 and reader.count - before == max_rows,
        )

    def _fetch_from_cursor(self, portal: Portal, max_rows: int) -> StatementResult:
        """Execute of a SQL cursor through the protocol: fetches forward."""
        assert portal.cursor is not None
        self._life.begin(self.state.services.fetch_statement)
        reader = RowReader(portal.cursor.fetch(fetch_forward(portal.name, max_rows or None)))
        return Rows(
            columns=portal.columns or (),
            batches=self._life.deliver(reader, None, commit=False, close=True),
            tag=lambda count: f"SELECT {count}",
            suspended=lambda: max_rows > 0 and reader.count == max_rows,
        )

    async def close_statement(self, name: str) -> None:
        """Close of a statement; one that does not exist is fine."""
        self.state.statements.forget(name)

    async def close_portal(self, name: str) -> None:
        """Close of a portal; one that does not exist is fine."""
        await self.state.portals.drop(name)

    async def sync(self) -> None:
        """Sync: end the implicit transaction. Raises what its commit raises."""
        life = self._life
        try:
            if life.running is not None:
                life.fail()  # its result was left before its end
            transaction = self.state.transaction
            if transaction is not None and transaction.implicit:
                with life.work, CancelScope():
                    await self.state.commit_transaction()
        finally:
            await life.wait_for_client()
