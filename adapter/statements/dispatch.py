"""From a parsed statement to the code that carries it out."""

from __future__ import annotations

from adapter.access.membership import has_privileges_of
from adapter.changes import with_changes
from adapter.changes.adding_files import add_files
from adapter.changes.constraints.table_keys import table_keys
from adapter.changes.copy import copy_dispatch
from adapter.changes.modify_table import run_change
from adapter.execution.guards import require_block
from adapter.execution.prepared import check_unchanged
from adapter.execution.relation_locks import lock_definition, lock_tables, wait_for_definitions
from adapter.execution.session_state import SessionState
from adapter.execution.statement import Outcome, RowsOutcome, Running
from adapter.materialized.freshness import stale_views
from adapter.materialized.views_read import exact_views_of
from adapter.plans.plan_cache import WITHOUT_CATALOG, Plan, is_definition
from adapter.queries.acting.session_functions import notify
from adapter.queries.past.evaluated_moments import evaluated_moment, look_up_past
from adapter.queries.read import run_query
from adapter.queries.single_row import bind_execute_params
from adapter.results import Command
from adapter.statements import cursors as cursor_statements
from adapter.statements import explain
from adapter.statements import settings as settings_statements
from adapter.statements.as_of import reading
from adapter.statements.call import call_procedure
from adapter.statements.maintenance.vacuum import run_vacuum
from adapter.statements.numerics.columns import hold_nan, require_held
from adapter.statements.prepare import prepare
from adapter.statements.publish import publish
from adapter.statements.restore import restore_table
from adapter.statements.subscribe import run_subscribe
from adapter.statements.transactions import is_control, run_control, set_constraints, set_transaction
from adapter.store_errors import CONCURRENT_DDL, CONCURRENT_UPDATE, serialization_failure
from adapter.subscriptions.view_changes import find_view_changes
from adapter.transactions.pending import State
from adapter.transactions.transaction import BeginAgain, NeedsSnapshot
from planner.common_errors import Held, missing_parameter
from planner.errors import FeatureNotSupported, InsufficientPrivilege, SqlError
from planner.ir.bound import BoundDelete, BoundInsert, BoundMerge, BoundQuery, BoundUpdate
from planner.resolution.statement import TakesLong
from planner.statements import records as st
from planner.syntax.parse import Parsed, parameters
from storage.catalog.model import CatalogSnapshot, Relation
from storage.environment.environment import Environment
from storage.timestamps.csn import Csn

_READING = frozenset({"select_stmt", "update_stmt", "delete_stmt", "merge_stmt", "copy_stmt", "explain_stmt"})
"""Statements that are not worth the attempt to run them without asking for the newest snapshot."""


PG_CHECKPOINT = 4544
"""The predefined role whose members may ask for a checkpoint."""

AS_OF = ("select_stmt", "explain_stmt", "declare_cursor_stmt", "copy_stmt")
"""Statements that may end with AS OF, and then read nothing but the past."""

PAUSES_S = (*[0.0] * 10, *[0.001] * 50)
"""Pauses of a statement that begins again while commits become visible, which takes the loop some rounds as a rule."""

MAX_BEGINNINGS = 1000
"""Times that a statement begins again, with its locks, because of what happened while it waited for them. Only other
servers, which its locks do not reach, can make it more than a few."""


async def dispatch(running: Running) -> Outcome:
    """Carry out the statement that runs. Raises `SqlError`."""
    parsed = running.parsed
    extension = parsed.extension
    if extension is not None and extension.subscription is not None:
        return await run_subscribe(running, extension.subscription)
    if parsed.kind == "prepare_stmt":
        await running.session.look_up_files(parsed, anew=True)
        await running.session.refresh_catalog()
        await running.session.look_up_past(parsed)
    elif parsed.kind not in WITHOUT_CATALOG:
        return await _begin_and_run(running, parsed)
    return await run_rows(running, await _plan(running, parsed))


async def _begin_and_run(running: Running, parsed: Parsed) -> Outcome:
    """Take the snapshot that a statement runs at, plan it, and run it."""
    env, transaction = running.services.env, running.transaction
    extension = parsed.extension
    if extension is not None and extension.as_of is not None and not extension.writes:
        if parsed.kind not in AS_OF:
            raise FeatureNotSupported(
                "AS OF is for queries, INSERT ... SELECT and CREATE TABLE AS",
                hint="A change can read a table of the past in FROM: tidegate.as_of('table', moment).",
            )
        csn = await evaluated_moment(running, extension.as_of)
        async with reading(running, csn):
            return await _run_at(running, parsed, transaction.catalog)
    if transaction.looks_back or running.session.values.flat["tidegate.as_of"]:
        await running.session.look_back()
    plan: Plan | None = None
    _forget_views(running.session)
    if not parsed.is_brief:
        await running.session.look_up_files(parsed, anew=True)
        await _look_up_past(running, parsed)
        if not running.params and "$" in parsed.text:
            await running.services.plans.aside(_refuse_parameters, parsed)
        await running.session.plan_ahead(parsed, transaction.planning_catalog(env), running.declared)
    by_what_is_known = parsed.kind == "insert_stmt" or (parsed.kind not in _READING and env.oracle.asks_store)
    if by_what_is_known and not transaction.looks_back and not running.session.held:
        if running.in_block and running.services.locks.between_workers is not None:
            # Another worker may have let go of a table that it has altered; their shared memory tells at little cost.
            await env.oracle.read_ts("catalog")
        try:
            plan = await _plan(running, parsed)
        except SqlError:
            pass  # The newest catalog may know better.
        else:
            outcome = await _run_by_what_is_known(running, plan)
            if outcome is not None:
                return outcome
    reads = parsed.kind != "lock_stmt"
    if not reads:
        await transaction.refresh_catalog(env)
    for _ in range(MAX_BEGINNINGS):
        catalog = await transaction.begin_statement(env, reads=reads)
        if plan is None or plan.catalog is not catalog or running.session.expanded:
            _forget_views(running.session)
            try:
                plan = await _plan(running, parsed, catalog)
            except SqlError:
                if not transaction.may_renew or not await wait_for_definitions(running.session, parsed):
                    raise
                transaction.renew()
                await transaction.refresh_catalog(env)
                continue
        if plan.reads_kept or running.session.values.flat["use_materialized_views"] == "on":
            carried_out = await _with_views(running, parsed, catalog, plan)
        else:
            carried_out = plan
        try:
            if Held.NAN in running.session.held and await hold_nan(running, plan):
                continue
            # What may change rows, and meet a NaN, in functions or otherwise than it says.
            changes_inside = plan.acts or isinstance(plan.statement, (st.CallProcedure, st.RefreshMaterializedView))
            if changes_inside and running.in_block and running.before is None:
                running.before = transaction.mark(running.session.values)
            return await run_rows(running, carried_out)
        except BeginAgain:
            transaction.renew()
            await _what_is_durable_is_visible(env)
            if transaction.looks_back:
                await running.session.look_back()
        except SqlError:
            if transaction.followed:
                # Perhaps it fails for a row that will never have been.
                await transaction.settled()
            raise
    raise serialization_failure(CONCURRENT_UPDATE)


async def _run_at(running: Running, parsed: Parsed, catalog: CatalogSnapshot) -> Outcome:
    """Plan a statement at a snapshot that stays, which is of this catalog, and run it."""
    session = running.session
    await session.look_up_files(parsed, anew=True)
    await _look_up_past(running, parsed)
    for _ in range(MAX_BEGINNINGS):
        _forget_views(session)
        plan = await _plan(running, parsed, catalog)
        carried_out = await _with_views(running, parsed, catalog, plan)
        try:
            return await run_rows(running, carried_out)
        except BeginAgain:
            # It has waited for a lock, which it has now; its moment stays the same.
            continue
    raise serialization_failure(CONCURRENT_UPDATE)


async def _look_up_past(running: Running, parsed: Parsed) -> None:
    if parsed.reads_past:
        await look_up_past(running, parsed)
        find_view_changes(running)


def _forget_views(session: SessionState) -> None:
    session.expanded, session.brought = frozenset(), {}


async def _with_views(running: Running, parsed: Parsed, catalog: CatalogSnapshot, plan: Plan) -> Plan:
    """`plan`, or one that reads a view which answers it; or one that computes the views refreshed on commit whose
    stored rows are of an earlier moment, where these are not read with what has changed since."""
    session = running.session
    if session.values.flat["use_materialized_views"] == "on":
        parsed, plan = await _answered(running, catalog, parsed, plan)
    if not plan.reads_kept or isinstance(plan.statement, st.RefreshMaterializedView):
        return plan
    # Functions may read any of them, and so may a statement inside.
    is_told = plan.query is not None and not plan.query.functions and not plan.steps
    among = exact_views_of(catalog, plan.relied_on) if is_told else None
    stale = await stale_views(running.services.env, running.transaction, catalog, among)
    if not stale:
        return plan
    from adapter.definitions.materialized.brought import brought_forward

    # Of what is planned again when it is run.
    within = await _planned_within(running, catalog, plan)
    session.brought = await brought_forward(running, catalog, (plan if within is None else within).relied_on, stale)
    session.expanded = stale.difference(session.brought)
    return await _plan(running, parsed, catalog) if session.expanded else plan


async def _answered(running: Running, catalog: CatalogSnapshot, parsed: Parsed, plan: Plan) -> tuple[Parsed, Plan]:
    from adapter.definitions.materialized.answered import answered

    return await answered(running, catalog, parsed, plan) or (parsed, plan)


async def _planned_within(running: Running, catalog: CatalogSnapshot, plan: Plan) -> Plan | None:
    """The plan of the query that a statement carries out which is none itself."""
    match plan.statement:
        case st.Explain(query=query):
            found = await running.session.planned(query, catalog, running.declared)
            return (await _answered(running, catalog, query, found))[1]
        case st.CreateTableAs(query=query) | st.DeclareCursor(query=query):
            return await running.session.planned(query, catalog, running.declared)
        case st.Execute(name=name):
            prepared = running.session.statements.require(name)
            if prepared.parsed is not None:
                return await running.session.planned(prepared.parsed, catalog, prepared.param_oids)
        case _:
            pass
    return None


async def _what_is_durable_is_visible(env: Environment) -> None:
    """Wait a moment, until a new snapshot has all that this process knows to be durable: a statement that begins again
    because of a commit needs a snapshot with it, and would begin again and again before the committer could go on."""
    known = Csn(env.cache.upper - 1)
    for pause_s in PAUSES_S:
        if await env.oracle.read_ts("user") >= known:
            return
        await env.clock.sleep(pause_s)


def _has_keys(running: Running, plan: Plan) -> bool:
    """Whether the rows that the plan writes are looked up by their keys: in the newest snapshot."""
    assert isinstance(plan.statement, BoundInsert)
    relation = plan.catalog.get(plan.statement.relation_oid)
    if not isinstance(relation, Relation) or not relation.constraints:
        return False
    return table_keys(plan.catalog, relation, running.engines.row_values) is not None


async def _run_by_what_is_known(running: Running, plan: Plan) -> Outcome | None:
    """Run the plan of a statement that reads no rows without asking for the newest snapshot; None when that may not be.

    An INSERT of rows that are written out, and a definition that makes up a transaction, are worked out from the newest
    catalog known here; the commit notices if that was not the newest of all. What ends without a commit (it fails, or
    finds nothing to do) is nobody else's to notice, so it asks afterwards.
    """
    session, transaction, env = running.session, running.transaction, running.services.env
    adds = isinstance(plan.statement, BoundInsert)
    defines = not adds and running.may_retry and not running.in_block and is_definition(plan.statement)
    if not defines and (not adds or plan.reads or _has_keys(running, plan)):
        return None
    # A savepoint for every INSERT of a block would cut what it writes into pieces.
    mark = transaction.mark(session.values) if transaction.txn is None else None
    notices = len(session.notices)
    relied_on = dict(transaction.catalog_reads)
    if await transaction.begin_statement(env, reads=False) is not plan.catalog:
        return None
    shared = env.catalog.current()
    if transaction.state is not State.PROVISIONAL:
        return await run_rows(running, plan)
    if defines:
        transaction.assume()
    outcome: Outcome | None = None
    failure: SqlError | None = None
    try:
        outcome = await run_rows(running, plan)
        if not defines or transaction.pending.updates:
            return outcome
    except BeginAgain:
        transaction.renew()
        return None
    except NeedsSnapshot:
        pass
    except SqlError as error:
        failure = error
    if outcome is not None or failure is not None:
        await env.oracle.read_ts("catalog")
        if env.catalog.current() is shared:
            if failure is not None:
                raise failure
            return outcome
    if mark is None:
        raise serialization_failure(CONCURRENT_DDL) from failure
    transaction.undo(mark)
    transaction.catalog_reads = relied_on
    del session.notices[notices:]
    return None


async def _plan(running: Running, parsed: Parsed, catalog: CatalogSnapshot | None = None) -> Plan:
    """The plan of a statement in `catalog` (None: the one to begin with), made on a thread when that takes long."""
    session = running.session
    catalog = catalog or running.transaction.planning_catalog(running.services.env)
    if not running.params and (parsed.is_brief or parsed.kind in WITHOUT_CATALOG) and "$" in parsed.text:
        _refuse_parameters(parsed)
    if parsed.is_brief:
        try:
            return session.plan(parsed, catalog, running.declared, at_once=True)
        except TakesLong:
            pass
    return await session.planned(parsed, catalog, running.declared)


def _refuse_parameters(parsed: Parsed) -> None:
    """A statement of a query string has no values for parameters, unless it prepares one that will have them."""
    if parsed.kind == "prepare_stmt":
        return
    found = parameters(parsed.tree)
    if found:
        first = min(found, key=lambda tree: tree.location)
        raise missing_parameter(first.number, parsed.position(first.location))


async def run_rows(running: Running, plan: Plan) -> Outcome:
    """Run a query or a change of rows (or SELECT INTO, which is a utility statement)."""
    if running.depth and Held.NAN in running.session.held:
        require_held(running, plan)
    match plan.statement:
        case _ if plan.steps:
            return await with_changes.run_rows(running, plan)
        case BoundQuery():
            return await run_query(running, plan)
        case BoundInsert() | BoundUpdate() | BoundDelete() | BoundMerge():
            return await run_change(running, plan)
        case _:
            return await _utility(running, plan)


async def _inner(running: Running, parsed: Parsed) -> Plan:
    """The plan of a statement inside a statement, at its snapshot."""
    return await _plan(running, parsed, running.transaction.catalog)


async def _utility(running: Running, plan: Plan) -> Outcome:
    statement = plan.statement
    session = running.session
    if is_control(statement):
        return await run_control(running, statement)
    await lock_definition(running, statement)
    match statement:
        case st.SetTransaction():
            return await set_transaction(running, statement)
        case st.SetVariable():
            return settings_statements.set_setting(running, statement)
        case st.Reset():
            return settings_statements.reset(running, statement)
        case st.Show():
            return settings_statements.show(running, statement)
        case st.Discard():
            return await settings_statements.discard(running, statement)
        case st.DeclareCursor():
            return await cursor_statements.declare(running, statement, await _inner(running, statement.query))
        case st.Fetch():
            return await cursor_statements.fetch(running, statement)
        case st.CloseCursor():
            return await cursor_statements.close(running, statement)
        case st.Prepare():
            await session.plan_ahead(statement.query, session.newest_catalog(), statement.param_types)
            prepare(session, statement.name, running.parsed.text, statement.query, statement.param_types, from_sql=True)
            return Command(tag="PREPARE")
        case st.Execute():
            return await _execute(running, statement)
        case st.Deallocate():
            return _deallocate(running, statement)
        case st.Explain():
            return await explain.run_explain(running, statement)
        case st.Copy():
            return await copy_dispatch.run_copy(running, statement)
        case st.Listen():
            running.transaction.listen("listen", statement.channel)
            return Command(tag="LISTEN")
        case st.Unlisten():
            running.transaction.listen("unlisten", statement.channel)
            return Command(tag="UNLISTEN")
        case st.Notify():
            notify(running, statement)
            return Command(tag="NOTIFY")
        case st.Lock():
            require_block(running, "LOCK TABLE")
            await lock_tables(running, statement)
            return Command(tag="LOCK TABLE")
        case st.Vacuum():
            return await run_vacuum(running, statement)
        case st.Checkpoint():
            _require_checkpoint(running)
            return Command(tag="CHECKPOINT")
        case st.SetConstraints():
            return await set_constraints(running, statement)
        case st.Publish():
            return await publish(running, statement)
        case st.AddFiles():
            return await add_files(running, statement)
        case st.RestoreTable():
            return await restore_table(running, statement)
        case st.CallProcedure():
            return await call_procedure(running, statement)
        case _:
            # NOTE: imported here, so that a server loads the code of definitions when the first one comes.
            from adapter.definitions.dispatch import run_definition

            return await run_definition(running, statement, plan.tag)


async def _execute(running: Running, statement: st.Execute) -> Outcome:
    """EXECUTE: the prepared statement with the parameters' values."""
    prepared = running.session.statements.require(statement.name)
    if prepared.parsed is None:
        return Command(tag="EXECUTE")
    try:
        await bind_execute_params(running, statement)
    except NeedsSnapshot:
        await running.transaction.begin_statement(running.services.env)
        await bind_execute_params(running, statement)
    running.session.ran = prepared.parsed
    outcome = await _begin_and_run(running, prepared.parsed)
    if isinstance(outcome, RowsOutcome):
        check_unchanged(prepared.columns, outcome.columns)
    return outcome


def _deallocate(running: Running, statement: st.Deallocate) -> Command:
    statements = running.session.statements
    if statement.name is None:
        statements.forget_all()
        return Command(tag="DEALLOCATE ALL")
    statements.forget(statements.require(statement.name).name)
    return Command(tag="DEALLOCATE")


def _require_checkpoint(running: Running) -> None:
    catalog = running.session.newest_catalog()
    if not has_privileges_of(catalog, running.session.values.identity.current, PG_CHECKPOINT):
        raise InsufficientPrivilege("must be superuser or have privileges of pg_checkpoint to do CHECKPOINT")
