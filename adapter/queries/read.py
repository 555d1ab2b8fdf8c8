"""Running a query: session values filled in, tables resolved, an engine chosen, batches streamed.

`prepare_read` does everything that must happen at the statement's moment (snapshot, side effects on the session); the
engine starts when the first batch is asked for. Rows of constants come straight from here.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, cast

from msgspec.structs import replace

from adapter.access.looking_back import check_access_now
from adapter.engines.common.engine import TableInput
from adapter.execution.cursors import of_either
from adapter.execution.statement import RowsOutcome, Running, batches_of, given_to, select_tag
from adapter.execution_context import ExecutionContext, Purpose
from adapter.lake.file_conditions import FilesNeeded, file_conditions
from adapter.lake.file_rows import checked, rows_of_files
from adapter.materialized.freshness import record_inputs
from adapter.plans.computed.constant_rows import NeedsEngine, constant_batch
from adapter.plans.computed.python_constants import PythonParts
from adapter.plans.key_reads import KeyRead
from adapter.plans.operands import Operands
from adapter.plans.plan_cache import Plan, describe_query, has_acting_calls
from adapter.plans.predicates import ScanTemplate, scan_templates
from adapter.plans.row_text import literal_value
from adapter.procedures.rows import has_functions_to_run, with_rows_of_functions
from adapter.queries.acting.calls import MAX_ROWS, carry_out_calls
from adapter.queries.acting.filters import has_acting_filters, with_filters_carried_out, without_acting_filters
from adapter.queries.acting.select_lists import Reading, carry_out_for_rows, is_evaluated_once
from adapter.queries.acting.session_functions import with_session_values
from adapter.queries.by_index.index_scan import IndexScans, Run, answer
from adapter.queries.by_index.table_rows import Paths
from adapter.queries.one_key import is_found_by_key, over_rows_of_key, rows_of_key
from adapter.queries.prepared_read import NOTHING, PreparedRead, with_token
from adapter.queries.row_locking import prepare_locking, without_locking
from adapter.queries.session_facts import facts_for, reads_own_relations
from adapter.results import RecordBatch
from adapter.system_catalogs.functions.reg_columns import with_names
from adapter.transactions.past.rows import past_rows
from adapter.transactions.pending import UNREAD
from adapter.transactions.snapshots import NO_TABLES, ResolvedTables, resolve
from adapter.transactions.transaction import NeedsSnapshot
from planner.common_errors import Held, NotHeld
from planner.errors import (
    DataException,
    FeatureNotSupported,
    InsufficientPrivilege,
    InternalError,
    ObjectNotInPrerequisiteState,
)
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.resolution.session_values import session_values
from storage.catalog.model import CatalogSnapshot
from storage.catalog.temporary import FIRST_TEMPORARY_OID

_PURPOSES: Mapping[str, Purpose] = {
    "insert_stmt": "load",
    "update_stmt": "load",
    "delete_stmt": "load",
    "merge_stmt": "load",
    "create_table_as_stmt": "load",
    "refresh_mat_view_stmt": "maintenance",
    "index_stmt": "maintenance",
    "vacuum_stmt": "maintenance",
    "alter_table_stmt": "maintenance",
}
"""What statements read for that are more than reading."""

_ONLY_READING = frozenset({"select_stmt", "declare_cursor_stmt", "copy_stmt", "explain_stmt"})
"""Statements that may see rows that are not durable: what they read goes nowhere."""


def execution_context(running: Running, catalog: CatalogSnapshot) -> ExecutionContext:
    """What an engine and the catalog functions know of the statement's session."""
    session = running.session
    return ExecutionContext(
        token=running.token,
        catalog=catalog,
        search_path=session.bind_context(catalog).search_path,
        user=session.user,
        database=session.database,
        settings=session.values.flat,
        purpose=_PURPOSES.get(running.parsed.kind, ""),
        facts=running.facts,
    )


async def prepare_read(
    running: Running,
    catalog: CatalogSnapshot,
    query: BoundQuery,
    templates: Sequence[ScanTemplate],
    *,
    params: tuple[ir.Literal, ...] | None = None,
    values: frozenset[str] | None = None,
    acts: bool | None = None,
    sizes: bool = False,
    record: bool = True,
    constants: bool = True,
    at_hand: Mapping[int, Any] = NOTHING,
    lazily: bool = False,
    durable: bool = False,
    by: int | None = None,
) -> PreparedRead:
    """Resolve and route `query`, which reads the rows `at_hand` as `CteScan`s of these ids. `params`: its parameters,
    where it has others than the statement. Rows that it locks are locked now, or with `lazily` as they are read. With
    `durable` it sees no rows that are not durable yet. `by`: the index (by oid) that it is known to read by, if it is.

    Raises 40001 when its snapshot cannot be read, 0A000 when no engine can run it, and what waiting for a lock raises.
    """
    session = running.session
    params = running.params if params is None else params
    if query.foreign:
        query = await _with_foreign_files(running, catalog, query, params)
    files = rows_of_files(query.files) if query.files else {}
    if files:
        at_hand = {**at_hand, **files}
    acts = has_acting_calls(query) if acts is None else acts

    async def read_rows(rel: ir.Rel) -> list[tuple[Any, ...]]:
        inner, templates = replace(query, rel=rel, locking=None), scan_templates(rel)
        return await _rows_of(
            await prepare_read(running, catalog, inner, templates, params=params, sizes=sizes, at_hand=at_hand)
        )

    if acts and record and has_functions_to_run(query.rel):
        query = await with_rows_of_functions(running, query, carry_out_calls, read_rows)
        templates, acts = scan_templates(query.rel), has_acting_calls(query)
    per_row = acts and not is_evaluated_once(query.rel)
    names = session_values(query) if values is None else values
    if running.transaction.state in UNREAD and (templates or query.system or sizes or "current_snapshot" in names):
        raise NeedsSnapshot
    if query.locking is not None and record:

        async def prepare(inner: BoundQuery, at_hand: Mapping[int, Any]) -> PreparedRead:
            templates = scan_templates(inner.rel)
            return await prepare_read(
                running, catalog, inner, templates,
                params=params, sizes=sizes, constants=constants, at_hand=at_hand, durable=True,
            )  # fmt: skip

        return await prepare_locking(running, query, at_hand, prepare, lazily=lazily)
    if query.locking is not None:
        query = without_locking(query)

    async def prepare_part(inner: BoundQuery, at_hand: Mapping[int, Any]) -> PreparedRead:
        templates = scan_templates(inner.rel)
        return await prepare_read(
            running, catalog, inner, templates, params=params, sizes=sizes, at_hand=at_hand, durable=durable
        )

    if acts and record and has_acting_filters(query.rel):
        again = replace(query, rel=without_acting_filters(query.rel))

        async def read_part(inner: BoundQuery, at_hand: Mapping[int, Any]) -> AsyncIterator[RecordBatch]:
            return (await prepare_part(inner, at_hand)).stream()

        query, at_hand = await with_filters_carried_out(running, query, at_hand, read_part, read_rows)
        return replace(await prepare_part(query, at_hand), again=again)
    if names:
        # What set_config() sets is what current_setting() behind it reads.
        query = await with_session_values(running, query, names, settings=not acts)
    if per_row:
        numbered = at_hand = {**at_hand}

        async def read_batches(rel: ir.Rel, query: BoundQuery = query) -> AsyncIterator[RecordBatch]:
            return (await prepare_part(replace(query, rel=rel, locking=None), numbered)).stream()

        query = await carry_out_for_rows(running, query, Reading(read_rows, read_batches, numbered))
        templates = scan_templates(query.rel)
    elif acts:
        query = await carry_out_calls(running, query, read_rows)
    if acts and names:
        query = await with_session_values(running, query, session_values(query))
    past = NO_TABLES
    if query.past:
        found_past = await past_rows(running.services.env, running.transaction, query)
        query, past, at_hand = found_past.query, found_past.tables, {**at_hand, **found_past.at_hand}
        templates = scan_templates(query.rel)
    past = {**past, **{oid: session.brought[oid] for oid in query.relations if oid in session.brought}}
    context = execution_context(running, catalog)
    if (
        sizes
        or (query.system and reads_own_relations(query))
        or ((query.system or not templates) and running.services.colleagues.has_others)
    ):
        context = replace(context, facts=await facts_for(running, catalog, query, sizes=sizes))
    scanned = frozenset(template.relation_oid for template in templates)
    rows = None
    if constants and not scanned and not query.system:
        if running.parsed.is_long:
            rows = await running.services.plans.aside(constant_batch, query.rel, params)
        else:
            rows = running.services.constant_rows.of(query, params)
    if rows is not None:
        empty = ResolvedTables(inputs={}, total_parts={})
        return PreparedRead(
            query=query, params=params, context=context, resolved=empty, rows=rows, engine=None,
            reason="its rows are constants", stream=partial(batches_of, rows),
        )  # fmt: skip
    if not running.parsed.is_brief and not running.engines.local.knows(query):
        # Whether an engine can run it is seen by making its text of it.
        await running.services.plans.aside(running.engines.local.unsupported, query)
    resolved = await resolve(
        running.services.env,
        running.transaction,
        catalog,
        scanned,
        templates,
        params,
        record=record,
        always=query.validated,
        ahead=running.parsed.kind in _ONLY_READING and not durable and not running.transaction.own_before,
        past=past,
    )
    snapshot = running.transaction.snapshot
    paths: Mapping[int, Paths] = NOTHING
    may_scan = (not resolved.are_small or by is not None) and session.brought.keys().isdisjoint(scanned)
    if may_scan and may_read_by_index(running) and snapshot is not None and not snapshot.ahead:
        always = session.values.flat["enable_seqscan"] == "off" or by is not None
        scans = IndexScans(
            env=running.services.env, transaction=running.transaction, catalog=catalog, params=params,
            read=record, always=always, by=by,
        )  # fmt: skip
        found = None
        if running.engines.local.unsupported(query) is None:
            found = await scans.narrowed(query, templates, resolved, _run_part(running, context, at_hand, params))
        if found is not None:
            resolved, paths = found.tables, found.paths
            if record:
                _count_scans(running, resolved, paths)
            is_direct, rows = answer(query, params, found, read=record)
            if is_direct or by is not None:
                found_rows = () if rows is None else (rows,)
                return PreparedRead(
                    query=query, params=params, context=context, resolved=resolved, rows=rows, engine=None,
                    reason="it reads by a key", paths=paths, stream=partial(batches_of, *found_rows),
                )  # fmt: skip
    if record and not paths:
        _count_scans(running, resolved)
    inputs = resolved.inputs if record else inputs_beside(resolved.inputs, paths)
    route = running.engines.choose_engine(query, inputs, params, session.values.flat)
    engine, other = route.engine, route.other
    session.engine_used = engine.name
    written = query
    if engine.name == "spark":
        query = await _with_python_constants(running, query, context)
    stream = partial(engine.execute, query, resolved.inputs, params, context, extra=at_hand)
    if other is not None:
        elsewhere = partial(other.execute, written, resolved.inputs, params, context, extra=at_hand)
        stream = partial(of_either, stream, elsewhere, partial(other.unsupported, written))
    if files:
        stream = partial(checked, stream, tuple(files.values()), running.services.file_threads)
    return PreparedRead(
        query=query,
        params=params,
        context=context,
        resolved=resolved,
        rows=None,
        engine=engine,
        reason=route.reason,
        writer=engine if engine.name == "spark" and at_hand.keys() <= files.keys() else None,
        at_hand=at_hand,
        paths=paths,
        stream=stream,
    )


def inputs_beside(inputs: Mapping[int, TableInput], paths: Mapping[int, Paths]) -> Mapping[int, TableInput]:
    """`inputs` as an engine is chosen for where the `paths` are known and not yet followed (EXPLAIN): a table that is
    read by an index brings few rows, which no engine scans."""
    if not paths:
        return inputs
    return {oid: replace(table, bytes=0, rows=0) if oid in paths else table for oid, table in inputs.items()}


def _count_scans(running: Running, resolved: ResolvedTables, paths: Mapping[int, Paths] = NOTHING) -> None:
    """Tell what is read of which table, and by which of the `paths`: those that an index has led to the rows."""
    activity, database = running.services.activity, running.session.database_oid
    for oid, table in resolved.inputs.items():
        if oid >= FIRST_TEMPORARY_OID:
            continue
        if oid in paths:
            for path in paths[oid]:
                activity.found(database, oid, path.index.record.oid, table.rows)
        else:
            activity.scanned(database, oid, table.rows)


async def _with_foreign_files(
    running: Running, catalog: CatalogSnapshot, query: BoundQuery, params: Sequence[ir.Literal]
) -> BoundQuery:
    """`query`, with the files of the foreign tables that it reads as they are now. Raises what looking at files
    raises, and 0A000 where the past is read, which files do not have."""
    if running.transaction.looks_back:
        raise FeatureNotSupported("foreign tables have no past that could be read")
    known, current = running.services.foreign_files, running.session.values.identity.current
    conditions = file_conditions(query, params)
    found = {
        id: await running.services.file_threads.run(
            partial(
                known.found, catalog, read, current if read.role is None else read.role,
                FilesNeeded(conditions.get(id, ((),))),
            )
        )
        for id, read in query.foreign.items()
    }  # fmt: skip
    return replace(query, files={**query.files, **found}, foreign={})


def _run_part(
    running: Running, context: ExecutionContext, at_hand: Mapping[int, Any], params: Sequence[ir.Literal]
) -> Run:
    """What runs parts of a query before it."""
    local = running.engines.local
    numbers = itertools.count()

    def run(query: BoundQuery, tables: ResolvedTables) -> AsyncIterator[RecordBatch]:
        part = with_token(context, f"keys{next(numbers)}")
        return local.execute(query, tables.inputs, params, part, extra=at_hand)

    return run


async def _rows_of(read: PreparedRead) -> list[tuple[Any, ...]]:
    """The rows of a read as Python values, one more than `MAX_ROWS` at most."""
    rows: list[tuple[Any, ...]] = []
    types = [field.type for field in read.query.rel.fields]
    stream: Any = read.stream()
    async with aclosing(stream) as batches:
        async for batch in batches:
            for row in range(batch.num_rows):
                if len(rows) > MAX_ROWS:
                    return rows
                rows.append(tuple(literal_value(batch.column(i), row, type_) for i, type_ in enumerate(types)))
    return rows


async def work_out_constants(running: Running, plan: Plan) -> None:
    """The constants (`Plan.folded`) of a plan, once, for their failure: here, whatever engine runs the plan."""
    folded, local = plan.folded, running.engines.local
    assert folded is not None
    if folded.are_fine:
        return
    if local.unsupported(folded.query) is None:
        context = with_token(execution_context(running, plan.catalog), "constants")
        stream: Any = local.execute(folded.query, {}, (), context)
        async with aclosing(stream) as batches:
            async for _ in batches:
                pass
    folded.are_fine = True


async def _with_python_constants(running: Running, query: BoundQuery, context: ExecutionContext) -> BoundQuery:
    """`query` with the values of the constants that Spark would call Python for, worked out here."""
    services, is_brief = running.services, running.parsed.is_brief
    parts = services.python_constants.of(query, context.settings)
    if parts is None:
        if is_brief:
            parts = PythonParts(query, context.settings)
        else:
            parts = await services.plans.aside(PythonParts, query, context.settings)
        services.python_constants.keep(parts)
    if parts.done is not None:
        return parts.done
    asked, local = parts.asked(), running.engines.local
    if local.unsupported(asked) is not None:
        return parts.leave()
    types = [field.type for field in asked.rel.fields]
    stream: Any = local.execute(asked, {}, (), with_token(context, "python-constants"))
    try:
        async with aclosing(stream) as batches:
            async for batch in batches:
                if batch.num_rows:
                    values = [literal_value(batch.column(n), 0, type_) for n, type_ in enumerate(types)]
                    return parts.put(values) if is_brief else await services.plans.aside(parts.put, values)
    except (DataException, FeatureNotSupported):
        # The one at fault may never be come to; Spark says so if it is.
        return parts.leave()
    raise InternalError("constants have no row")


async def _with_operands(running: Running, plan: Plan, operands: Operands) -> tuple[ir.Literal, ...] | None:
    """The parameters of a plan's query with its operands, worked out here, whatever engine runs the plan; None when it
    is left to that one. Raises what working them out raises."""
    found = operands.at_once(given_to(running))
    if found is not None:
        return found
    local = running.engines.local
    query = await with_session_values(running, operands.unknown(), operands.asked)
    if local.unsupported(query) is not None:
        return None
    context = with_token(execution_context(running, plan.catalog), "operands")
    stream: Any = local.execute(query, {}, running.params, context)
    async with aclosing(stream) as batches:
        async for batch in batches:
            if batch.num_rows:
                types = [field.type for field in query.rel.fields]
                values = [literal_value(batch.column(place), 0, type_) for place, type_ in enumerate(types)]
                try:
                    return operands.with_values(running.params, values)
                except NeedsEngine:
                    return None
    raise InternalError("operands have no row")


async def prepare_plan(
    running: Running,
    plan: Plan,
    *,
    record: bool = True,
    constants: bool = True,
    at_hand: Mapping[int, Any] = NOTHING,
    lazily: bool = False,
) -> PreparedRead:
    """`prepare_read` of a plan's query, once its constants are known to be fine. Raises what they raise."""
    assert plan.query is not None
    if plan.folded is not None:
        await work_out_constants(running, plan)
    if record and plan.unpopulated is not None:
        raise not_populated(plan.unpopulated)
    if record and plan.reads_kept:
        record_inputs(running.transaction, plan.catalog, plan.relied_on, running.session.expanded)
    query, templates, values, params = plan.query, plan.templates, plan.session_values, running.params
    key_read, operands = plan.key_read, plan.operands
    if operands is not None and operands.source is query:
        all_params = await _with_operands(running, plan, operands)
        if all_params is None:
            key_read = None
        else:
            query, templates, values = operands.query, operands.templates, operands.session_values
            params = all_params
    by = None
    may_look_up = key_read is not None and not at_hand and may_read_by_index(running)
    # The indexes are those of the stored rows.
    may_look_up = may_look_up and running.session.brought.keys().isdisjoint(query.relations)
    if key_read is not None and may_look_up and not record:
        by = key_read.access.record.oid if await is_found_by_key(running, key_read, params) else None
    elif key_read is not None and may_look_up:
        rows = await rows_of_key(running, key_read, templates, params)
        if rows is not None:
            return PreparedRead(
                query=query, params=params, context=execution_context(running, plan.catalog),
                resolved=ResolvedTables(inputs={}, total_parts={}), rows=rows, engine=None, reason="it reads by a key",
                stream=partial(batches_of, rows), over=_over(running, key_read, params),
            )  # fmt: skip
    return await prepare_read(
        running,
        plan.catalog,
        query,
        templates,
        params=params,
        values=values,
        acts=plan.acts,
        sizes=plan.sizes,
        record=record,
        constants=constants,
        at_hand=at_hand,
        lazily=lazily,
        by=by,
    )


def not_populated(name: str) -> ObjectNotInPrerequisiteState:
    """55000 for a materialized view that has not been filled yet."""
    return ObjectNotInPrerequisiteState(
        f'materialized view "{name}" has not been populated', hint="Use the REFRESH MATERIALIZED VIEW command."
    )


def _over(
    running: Running, read: KeyRead, params: tuple[ir.Literal, ...]
) -> Callable[[Any], RecordBatch | None] | None:
    """See `PreparedRead.over`."""
    return partial(over_rows_of_key, running, read, params) if read.is_one_key else None


def may_skip_engines(running: Running) -> bool:
    """Whether rows of constants may be made without an engine: not when Spark is forced, so that it answers."""
    return running.session.values.flat["engine"] != "spark"


def may_read_by_index(running: Running) -> bool:
    """Whether rows may be found by indexes, which Spark does not do."""
    values = running.session.values.flat
    return values["engine"] != "spark" and values["enable_indexscan"] == "on"


async def run_query(
    running: Running, plan: Plan, at_hand: Mapping[int, Any] = NOTHING, *, is_cursor: bool = False
) -> RowsOutcome:
    """A SELECT, VALUES or TABLE: its rows, read while the client fetches. Raises BeginAgain."""
    if plan.denied is not None:
        raise InsufficientPrivilege(plan.denied)
    if running.transaction.looks_back:
        session = running.session
        now = running.services.env.catalog.current(session.database_oid)
        check_access_now(now, plan.catalog, session.values.identity.current, plan.required)
    await running.transaction.lock(plan.locks)
    running.transaction.rely_on(plan.relied_on, to_read=True)
    constants = may_skip_engines(running)
    read = await prepare_plan(running, plan, constants=constants, at_hand=at_hand, lazily=is_cursor)
    assert plan.query is not None
    columns = plan.columns or describe_query(read.query.rel)
    batches = read.stream()
    is_first = not running.session.held and not running.depth
    if plan.meets and is_first and at_hand is NOTHING and plan.statement is plan.query:
        batches = _with_all_numbers(running, plan, batches)
    if plan.reg_columns:
        types = [column.type for column in columns]
        batches = with_names(batches, types, read.context, running.engines.catalogs)
    return RowsOutcome(
        columns=columns,
        batches=batches,
        tag=select_tag,
        streaming=True,
        read=read,
    )


HELD_BACK = 8 << 20
"""Bytes of rows that are held back while a query may still meet its first number that is not held: what has been sent
cannot be taken back, and in which order the rows of two runs come is open."""


async def _with_all_numbers(
    running: Running, plan: Plan, batches: AsyncIterator[RecordBatch]
) -> AsyncIterator[RecordBatch]:
    """The rows of a query as `batches` has them; when they meet a number that is not held within the first `HELD_BACK`
    bytes, those of the query with numerics held as that one needs. Raises NotHeld later on."""
    held: list[RecordBatch] | None = []
    numbers, size, source = Held.DECIMALS, 0, cast(Any, batches)
    while True:
        try:
            async with aclosing(source) as stream:
                async for batch in stream:
                    if held is None:
                        yield batch
                        continue
                    held.append(batch)
                    size += batch.nbytes
                    if size > HELD_BACK:
                        sent, held = held, None
                        for each in sent:
                            yield each
            for each in held or ():
                yield each
            return
        except NotHeld as met:
            if held is None:
                raise
            if met.needs in numbers:
                raise met.when_held() from met
            numbers |= met.needs
        held, size = [], 0
        source = (await _prepared_anew(running, plan, numbers)).stream()


async def _prepared_anew(running: Running, plan: Plan, numbers: Held) -> PreparedRead:
    """The query of `plan`, with numerics held as `numbers` says."""
    session = running.session
    session.held = numbers
    try:
        again = await session.planned(plan.parsed, plan.catalog, running.declared)
        return await prepare_plan(running, again)
    finally:
        session.held = Held.DECIMALS
