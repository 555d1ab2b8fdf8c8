"""What a session keeps from its start to its end: who it is, its settings, its transaction, its prepared statements and
portals, and what it has to tell its client.

A `SessionState` knows no running statement: that is above it (`adapter.sessions.statement_life`), and the code that
carries a statement out gets both in a `Running`. Here a transaction is begun, committed and rolled back, and statements
are planned with the session's settings. Everything belongs to the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from types import MappingProxyType

from msgspec.structs import replace

from adapter.access.membership import has_privileges_of
from adapter.access.privileges import Rights
from adapter.access.roles import require_role, role_name
from adapter.access.row_security import policies_for
from adapter.engines.common.engine import TableInput
from adapter.execution.notifications import Listener
from adapter.execution.portals import PortalTable
from adapter.execution.prepared import PreparedStatements
from adapter.execution.services import Services
from adapter.lake.file_tables import READING_ROLE, looked_up
from adapter.plans.lifted_constants import Lifted
from adapter.plans.plan_cache import Plan, make_plan, make_plan_at_once
from adapter.results import CopyProgress, Notice, RewriteProgress, TlsFacts
from adapter.settings.values import SettingValues, number_of, split_list
from adapter.spilling.temporary_files import TemporaryFiles
from adapter.statistics.column_statistics import ColumnStatistics
from adapter.store_errors import sql_error
from adapter.transactions.commit_request import ISOLATION_LEVELS
from adapter.transactions.locks.lock import Owner, Patience
from adapter.transactions.locks.lock_table import SessionLocks
from adapter.transactions.past.looking_back import look_ahead, look_back, past_snapshot
from adapter.transactions.past.moments import moment
from adapter.transactions.past.tables import found_table
from adapter.transactions.pending import Pending, Snapshot, State
from adapter.transactions.temporary import TemporarySpace
from adapter.transactions.transaction import Transaction
from adapter.wall_clock import utc_now
from planner.analyze import BindContext
from planner.common_errors import Held
from planner.errors import SqlError, StatementCompletionUnknown
from planner.files.past_calls import past_calls
from planner.files.read_calls import file_requests
from planner.ir.file_rows import FileRequest, FileTable
from planner.ir.past_rows import NO_PAST, PastMoment, PastTables
from planner.resolution.statement import TakesLong
from planner.syntax.dialects.names import POSTGRES
from planner.syntax.parse import Parsed
from planner.types.composites import with_forms
from planner.types.type_scope import TYPE_SCOPE, TypeScope
from planner.types.types import declared_as
from storage.catalog.model import CatalogSnapshot
from storage.catalog.record import TEMPORARY_SCHEMA
from storage.catalog.temporary import TemporaryObjects
from storage.errors import UnknownDatabase
from storage.timestamps.csn import Csn

NO_FILES: Mapping[FileRequest, FileTable | SqlError] = MappingProxyType({})

NO_LABELS: frozenset[int] = frozenset()

_LEVELS = ("debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error")
"""The values of client_min_messages, from all messages to few."""

_LEVEL_OF = {"NOTICE": "notice", "WARNING": "warning", "LOG": "log", "DEBUG": "debug1"}
"""The level of a notice's severity; INFO has none, for it is always sent."""


class SessionState:
    """See the module's contract. `user`, `session_user` and `authenticated_user` are the names, as of the latest bind
    context, of the roles that statements run as, that the session is for and that logged in; what counts is
    `values.identity`."""

    def __init__(
        self,
        services: Services,
        *,
        backend_pid: int,
        user: str,
        database: str,
        database_oid: int,
        values: SettingValues,
        remote_address: str | None,
        server_address: str | None = None,
        tls: TlsFacts | None = None,
    ) -> None:
        self.services = services
        self.backend_pid = backend_pid
        self.authenticated_user = user
        self.session_user = user
        self.user = user
        self.database = database
        self.database_oid = database_oid
        self.counts = services.activity.database(database_oid)
        """What is counted of the session's database."""
        self.counts.sessions += 1
        self.values = values
        self.remote_address = remote_address
        self.server_address = server_address
        self.tls = tls
        self.started_at = utc_now()
        self.state_changed_at = self.started_at
        """When it last began to work, or to wait for its client."""
        self.query_text = ""
        """The latest text that the client sent to be run."""
        self.ran: Parsed | None = None
        """The latest statement that was run."""
        self.goes_on = False
        """Whether that was run before, and more of its rows were asked for."""
        self.transaction: Transaction | None = None
        self.temporary_files = TemporaryFiles(
            services.scratch, services.temporary_file_counts, database_oid, lambda: self.values.flat
        )
        self.temporary: TemporarySpace | None = None
        """Where its temporary objects are, once it has had any."""
        self.locks = SessionLocks(services.locks, Owner(pid=backend_pid, database_oid=database_oid), self._patience)
        self.statements = PreparedStatements()
        self.portals = PortalTable()
        self.listener = Listener(backend_pid, database_oid)
        self.notices: list[Notice] = []
        """What goes to the client with the next result."""
        self.sequence_values: dict[int, int] = {}
        self.last_sequence: int | None = None
        self._context: tuple[CatalogSnapshot, SettingValues, BindContext, TypeScope] | None = None
        """The latest bind context, with what it was made of."""
        self._past: Snapshot | None = None
        """What it looks back to."""
        self.expanded: frozenset[int] = frozenset()
        """The materialized views (oids) that what runs computes, because their stored rows are not those of its
        snapshot."""
        self.brought: Mapping[int, TableInput] = {}
        """Those (oids) of which it reads the stored rows and what has changed since."""
        self.gathered: dict[tuple[int, int], ColumnStatistics] = {}
        """What ANALYZE has found out of its temporary tables, by oid and attnum."""
        self.held = Held.DECIMALS
        """How numerics are held by what runs: it runs once more when it has met another kind (`NotHeld`)."""
        self.columns_for_nan: Mapping[int, frozenset[int]] = {}
        """The columns (attnums, by the oid of their table) that get one besides those that it says it changes."""
        self.refreshed_to: Csn | None = None
        """The moment to which it brings materialized views, all that take a turn together; None: to its snapshots."""
        self.files: Mapping[FileRequest, FileTable | SqlError] = NO_FILES
        """What the latest statement that reads files reads."""
        self.past: PastTables = NO_PAST
        """What the latest statement that reads tables as they were reads."""
        self._planned: tuple[Parsed, tuple[int, ...], BindContext, Plan] | None = None
        """The latest plan, with what it was made of: Execute asks for the one that Bind has asked for."""
        self.kind: tuple[SettingValues, int] | None = None
        """Its settings, with their number among those of other sessions (`adapter.sessions.changes_at_once`)."""
        self.copying: CopyProgress | None = None
        """How far its latest COPY is."""
        self.rewriting: RewriteProgress | None = None
        """How far its latest VACUUM (FULL) is."""
        self.changes_by_calls = 0
        """How many statements that change rows were carried out inside functions."""
        self.waits_for_locks = True
        self.engine_used = "none"
        """The engine that the latest statement has used."""
        """Whether what runs waits for locks that others have; it raises WouldWait otherwise."""
        self._unsettled: asyncio.Future[Csn] | None = None
        """The session's last commit that was answered before everybody saw it."""

    # ------------------------------------------------------------ transactions

    def begin_transaction(self, *, implicit: bool, started_at: datetime) -> Transaction:
        """Start a transaction with the session's defaults."""
        settings = self.values.flat
        self.transaction = Transaction(
            isolation=ISOLATION_LEVELS[settings["default_transaction_isolation"]],
            read_only=settings["default_transaction_read_only"] == "on",
            deferrable=settings["default_transaction_deferrable"] == "on",
            implicit=implicit,
            started_at=started_at,
            settings_at_start=self.values,
            locks=self.locks,
            after=self._unsettled,
            decided_after=self.services.committer.decided_after,
        )
        if self.temporary is not None:
            self.transaction.temporary = self.temporary
            self.transaction.pending = Pending(temporary=self.temporary.objects)
        return self.transaction

    def temporary_space(self) -> TemporarySpace:
        """The place for the session's temporary objects, which the transaction is about to use."""
        if self.temporary is None:
            self.temporary = self.services.new_temporary_space()
        if self.transaction is not None:
            self.transaction.temporary = self.temporary
        return self.temporary

    def close(self) -> None:
        """The session ends, after its transaction: its temporary objects go."""
        if self.temporary is not None:
            self.services.close_temporary_space(self.temporary)
            self.temporary = None

    async def commit_transaction(self) -> None:
        """Commit the session's transaction, if it has one; it is over in any case. Raises 40001 and 40003."""
        transaction = self.transaction
        if transaction is None:
            return
        try:
            for portal in self.portals.to_hold() if self.portals.by_name else ():
                assert portal.cursor is not None
                await portal.cursor.hold()
                portal.held = True
            if self.temporary is not None:
                self.temporary.check(transaction.pending.temporary)
            csn: Csn | None = None
            writes = transaction.has_writes
            if writes:
                csn = await self._commit_writes(transaction)
            elif transaction.pending.claims.length and not transaction.implicit:
                await transaction.settled()
                await self.services.committer.check_locked(transaction.commit_request(self.services.env))
            elif transaction.followed:
                await transaction.settled()
        except BaseException as error:
            self.roll_back_transaction(in_doubt=isinstance(error, StatementCompletionUnknown))
            raise
        self.transaction = None
        transaction.end(State.COMMITTED)
        self.counts.xact_commit += 1
        if self.temporary is not None:
            self.temporary.commit(transaction.pending.temporary)
        if csn is None and writes and self._unsettled is not None:
            self._unsettled.add_done_callback(lambda done: self._settled(transaction, done))
        elif transaction.id is not None:
            self.services.transaction_ended(transaction, csn)
        if self.values.local:
            self.values = self.values.without_local()
        for action, channel in transaction.pending.listens:
            self._apply_listen(action, channel)
        if transaction.pending.notifications.length:
            await self.services.notifications.publish(self.listener, transaction.pending.notifications)

    async def _commit_writes(self, transaction: Transaction) -> Csn | None:
        """Commit as the settings ask for; the CSN, None when it is not known yet."""
        services, values = self.services, self.values.flat
        durable = values["synchronous_commit"] != "off"
        # Who is notified looks for what the transaction did.
        if (durable and values["synchronous_visibility"] == "on") or transaction.pending.notifications.length:
            return await services.committer.commit(transaction.commit_request(services.env))
        if not durable and services.env.peers.alone:
            await services.transaction_id(transaction)
        request = transaction.commit_request(services.env)
        heir = self.locks.hand_over()
        request = replace(request, owner=heir)
        try:
            self._unsettled = await services.committer.commit_relaxed(request, durable=durable)
        except BaseException:
            self.locks.let_go(heir)
            raise
        self._unsettled.add_done_callback(lambda _: self.locks.let_go(heir))
        return None

    def transaction_prepared(self) -> None:
        """The session's transaction has been prepared: it runs on, and the session is rid of it."""
        transaction = self.transaction
        assert transaction is not None
        self.transaction = None
        transaction.end(State.COMMITTED)
        if self.temporary is not None:
            self.temporary.commit(transaction.pending.temporary)
        if self.values.local:
            self.values = self.values.without_local()

    def _settled(self, transaction: Transaction, done: asyncio.Future[Csn]) -> None:
        """A commit that was answered early is visible, or has failed after all."""
        if done.cancelled() or done.exception() is not None:
            transaction.doubt()
            self.services.transaction_ended(transaction)
        else:
            self.services.transaction_ended(transaction, done.result())

    def roll_back_transaction(self, *, in_doubt: bool = False) -> None:
        """Undo the session's transaction, if it has one: its writes, its settings, its notifications. `in_doubt`: its
        commit has ended without anybody knowing whether it happened."""
        transaction = self.transaction
        if transaction is None:
            return
        self.transaction = None
        transaction.abandon()
        if self.temporary is not None:
            self.temporary.roll_back()
        transaction.end(State.IN_DOUBT if in_doubt else State.ROLLED_BACK)
        self.counts.xact_rollback += 1
        if transaction.id is not None:
            self.services.transaction_ended(transaction)
        self.values = self.values.undone_to(transaction.settings_at_start.without_local())

    def _patience(self) -> Patience:
        values = self.values.flat
        return Patience(
            lock_timeout_ms=int(number_of("lock_timeout", values["lock_timeout"])),
            deadlock_timeout_ms=int(number_of("deadlock_timeout", values["deadlock_timeout"])),
            never=not self.waits_for_locks,
        )

    def _apply_listen(self, action: str, channel: str | None) -> None:
        channels = self.listener.channels
        if action == "listen" and channel is not None:
            channels.setdefault(channel)
        elif channel is None:
            channels.clear()
        else:
            channels.pop(channel, None)

    # ------------------------------------------------------------ notices

    def notice(self, notice: Notice) -> None:
        """Send a notice with the statement's result, if the client wants its level."""
        wanted = _LEVELS.index(self.values["client_min_messages"])
        severity = _LEVEL_OF.get(notice.severity)
        if severity is None or _LEVELS.index(severity) >= wanted:
            self.notices.append(notice)

    def warn(self, sqlstate: str, message: str) -> None:
        """Send a WARNING."""
        self.notice(Notice(severity="WARNING", sqlstate=sqlstate, message=message))

    # ------------------------------------------------------------ planning

    def search_path(self) -> tuple[str, ...]:
        """The schemas that unqualified names are looked up in, `$user` resolved. That of the session's temporary
        objects is the first of all, unless its place is said."""
        names, space = self.creation_path(), self.temporary
        if space is None or space.name in names or self._temporary_objects() is None:
            return names
        return (space.name, *names) if "pg_catalog" in names else (space.name, "pg_catalog", *names)

    def creation_path(self) -> tuple[str, ...]:
        """The schemas that the search path names, `$user` and pg_temp resolved: objects are made in the first that
        exists."""
        names = [self.user if name == "$user" else name for name in split_list(self.values["search_path"])]
        if self.temporary is not None and TEMPORARY_SCHEMA in names:
            names[names.index(TEMPORARY_SCHEMA)] = self.temporary.name
        return tuple(names)

    def _temporary_objects(self) -> TemporaryObjects | None:
        if self.transaction is not None:
            return self.transaction.pending.temporary
        return None if self.temporary is None else self.temporary.objects

    @property
    def is_settled(self) -> bool:
        """Whether all that the session has committed is visible."""
        return self._unsettled is None or self._unsettled.done()

    def newest_catalog(self) -> CatalogSnapshot:
        """What a statement would be bound against now: see `Transaction.planning_catalog`."""
        env = self.services.env
        if self.transaction is not None:
            return self.transaction.planning_catalog(env)
        if self._past is not None and self.values.flat["tidegate.as_of"]:
            return self._past.catalog
        objects = None if self.temporary is None else self.temporary.objects
        try:
            newest = env.catalog.current(self.database_oid)
        except UnknownDatabase as error:
            raise sql_error(error) from error
        return newest if objects is None else objects.over(newest, with_forms)

    def bind_context(self, catalog: CatalogSnapshot) -> BindContext:
        """What the binder needs of the session."""
        known = self._context
        labels = NO_LABELS if self.transaction is None else self.transaction.pending.new_labels
        if (
            known is not None
            and known[0] is catalog
            and known[1] is self.values
            and known[2].expanded == self.expanded
            and known[2].files is self.files
            and known[2].past is self.past
            and known[2].held is self.held
            and known[3].new_labels == labels
        ):
            # NOTE: each statement of each session comes by here.
            TYPE_SCOPE.set(known[3])
            return known[2]
        self.user = role_name(catalog, self.values.identity.current)
        self.session_user = role_name(catalog, self.values.identity.session)
        self.authenticated_user = role_name(catalog, self.values.identity.authenticated)
        closed = self.rights(catalog).closed_schemas()
        path = self.search_path()
        context = BindContext(
            catalog=catalog,
            search_path=tuple(name for name in path if name not in closed) if closed else path,
            closed_schemas=closed,
            settings=self.values.flat,
            user=self.user,
            database=self.database,
            system_relations=self.services.system_relations,
            expanded=self.expanded,
            files=self.files,
            past=self.past,
            held=self.held,
            policies=policies_for(
                catalog, self.values.identity.current, enforced=self.values.flat["row_security"] == "on"
            ),
        )
        scope = TypeScope(
            catalog=catalog,
            search_path=context.search_path,
            closed_schemas=closed,
            held=self.held,
            new_labels=labels,
        )
        self._context = (catalog, self.values, context, scope)
        TYPE_SCOPE.set(scope)
        return context

    def rights(self, catalog: CatalogSnapshot) -> Rights:
        """What the current role may do."""
        return Rights(catalog, self.values.identity.current)

    async def look_back(self) -> None:
        """Let what runs next read the moment that tidegate.as_of names, and the present when it names none. Raises what
        `past_snapshot` does, and 25001."""
        values, transaction = self.values.flat, self.transaction
        if not values["tidegate.as_of"]:
            self._past = None
            if transaction is not None and transaction.looks_back:
                look_ahead(transaction)
            return
        csn = moment(values["tidegate.as_of"], values["TimeZone"])
        if self._past is None or self._past.csn != csn:
            self._past = await past_snapshot(self.services.env, csn, self.database_oid)
        if transaction is not None:
            look_back(transaction, self._past)

    async def refresh_catalog(self) -> None:
        """Bring what statements are bound against up to anything acknowledged so far, by whatever process."""
        if self._past is not None or self.values.flat["tidegate.as_of"]:
            await self.look_back()
        if self._past is not None:
            return
        if self.transaction is None:
            await self.services.env.oracle.read_ts("catalog")
        else:
            await self.transaction.refresh_catalog(self.services.env)

    def plan(
        self, parsed: Parsed, catalog: CatalogSnapshot, declared: tuple[int, ...] = (), *, at_once: bool = False
    ) -> Plan:
        """The plan of `parsed` against `catalog`, from the cache if it can be. Raises the binder's errors; `at_once`:
        TakesLong for one that is to be made by `plan_ahead`."""
        context = self.bind_context(catalog)
        known = self._planned
        if known is not None and known[0] is parsed and known[2] is context and known[1] == declared:
            return known[3]
        plan = self.services.plans.plan(parsed, context, declared, make_plan_at_once if at_once else make_plan)
        self._planned = parsed, declared, context, plan
        return plan

    def lifted(self, text: str) -> Lifted | None:
        """What runs for the query string `text` with its constants as parameters; None when it is taken as it is."""
        if self.transaction is not None and self.transaction.state is State.FAILED:
            return None
        values = self.values.flat
        if values["tidegate.as_of"] or values["dialect"] != POSTGRES or values["standard_conforming_strings"] == "off":
            return None
        return self.services.templates.lift(text, self.bind_context(self.newest_catalog()))

    def has_privileges_of(self, role: str) -> bool:
        """Whether the session acts with the privileges of the predefined `role`."""
        catalog = self.newest_catalog()
        return has_privileges_of(catalog, self.values.identity.current, require_role(catalog, role).oid)

    async def look_up_files(self, parsed: Parsed, *, anew: bool = False) -> None:
        """Find the files that a statement, or one inside it, reads by functions; with `anew` as they are now, otherwise
        unless they are known. Raises nothing: who binds it says what is wrong."""
        if parsed.is_brief:
            return
        requests = await self.services.plans.aside(file_requests, parsed)
        if not requests:
            self.files = NO_FILES if anew else self.files
        elif anew or not requests <= self.files.keys():
            await self.look_up_requests(requests)

    def _past_context(self, then: CatalogSnapshot) -> BindContext:
        """What binds a query of a moment of the past inside a statement."""
        return replace(self.bind_context(then), expanded=frozenset(), past=NO_PAST)

    async def look_up_past(
        self,
        parsed: Parsed,
        evaluated: Mapping[tuple[int, int], Csn | SqlError] = MappingProxyType({}),
        whole: PastMoment | None = None,
    ) -> None:
        """Find the tables that a statement, or one inside it, reads as they were, at the moments that have been
        `evaluated` (by place and number) or are constants; in place of others at the present. `whole`: the moment of
        the query whose rows it writes. Raises nothing: who binds it says what is wrong."""
        if not parsed.reads_past:
            return
        now, values = self.services.env.catalog.current(self.database_oid), self.values
        found = {
            call.location: await found_table(
                self.services.env, now, call, evaluated, self._past_context,
                role=values.identity.current, search_path=self.search_path(), time_zone=values.flat["TimeZone"],
            )
            for call in past_calls(parsed)
        }  # fmt: skip
        self.past = PastTables(text=parsed.text, calls=found, whole=whole)

    async def look_up_requests(self, requests: frozenset[FileRequest]) -> None:
        """Find these files as they are now. Raises nothing, as above."""
        allowed = self.has_privileges_of(READING_ROLE)
        work = partial(looked_up, self.services.lake, requests, allowed=allowed)
        self.files = await self.services.file_threads.run(work)

    async def planned(self, parsed: Parsed, catalog: CatalogSnapshot, declared: tuple[int, ...] = ()) -> Plan:
        """`plan`, made on a thread where the text is long, or what it is about is wide or views of views."""
        plan = self._plan_at_once(parsed, catalog, declared)
        if plan is None:
            await self.plan_ahead(parsed, catalog, declared)
            plan = self.plan(parsed, catalog, declared)
        return plan

    def _plan_at_once(self, parsed: Parsed, catalog: CatalogSnapshot, declared: tuple[int, ...]) -> Plan | None:
        """`plan`, None where it is to be made on a thread."""
        if not parsed.is_brief:
            return None
        try:
            return self.plan(parsed, catalog, declared, at_once=True)
        except TakesLong:
            return None

    async def plan_ahead(self, parsed: Parsed, catalog: CatalogSnapshot, declared: tuple[int, ...] = ()) -> None:
        """Let `plan` have its answer at hand, made on a thread for a statement that is not brief, or is about much.
        Raises nothing: `plan` says what is wrong."""
        await self.look_up_files(parsed)
        context = self.bind_context(catalog)
        known = self._planned
        if known is not None and known[0] is parsed and known[2] is context and known[1] == declared:
            return
        try:
            if self._plan_at_once(parsed, catalog, declared) is None:
                plan = await self.services.plans.plan_aside(parsed, context, declared)
                self._planned = parsed, declared, context, plan
        except SqlError:
            return

    def stands_for(self, parsed: Parsed, plan: Plan) -> None:
        """`plan` was made of `parsed` with fewer types of parameters given than it found: with all of them given it is
        the same."""
        if self._planned is not None and self._planned[3] is plan:
            declared = tuple(map(declared_as, plan.param_types))
            self._planned = parsed, declared, self._planned[2], plan

    def forget_long_plan(self) -> None:
        """Do not keep the plan of a long statement, which has run."""
        if self._planned is not None and self._planned[0].is_long:
            self._planned = None
