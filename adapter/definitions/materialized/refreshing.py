"""REFRESH MATERIALIZED VIEW: the rows of the view's query at the statement's snapshot become the view's.

A plain refresh writes a new shard, as PostgreSQL writes a new file; readers wait for it. CONCURRENTLY, and for a view
that the server keeps fresh, the rows that differ are deleted and added in place, and readers go on meanwhile. Either
way the journal gets its row in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import pyarrow.compute as pc
from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import change, forget_shard, new_shard_id
from adapter.definitions.common.owners import require_owner
from adapter.definitions.common.table_rows import fill_table, make_shard
from adapter.definitions.constraints.existing_rows import NewRules, check_existing_rows
from adapter.definitions.materialized.increments import as_stored, changed_rows
from adapter.definitions.materialized.moments import Inputs, inputs_at, moment_of
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import kind_of, look_up, missing
from adapter.execution.statement import Running
from adapter.materialized.freshness import digest_of_inputs, inputs_of, stale_views, why_stale
from adapter.materialized.journal import UNKNOWN, Refresh, last_refresh, write_refresh
from adapter.materialized.views_read import exact_views, grows_old
from adapter.plans.plan_cache import Plan, make_plan
from adapter.queries.prepared_read import PreparedRead
from adapter.queries.read import prepare_plan
from adapter.wall_clock import utc_now
from planner.definitions.maintained.differences import differences_text
from planner.definitions.mutability import is_reproducible
from planner.errors import (
    FeatureNotSupported,
    ObjectNotInPrerequisiteState,
    SqlSyntaxError,
    UniqueViolation,
    WrongObjectType,
)
from planner.ir.bound import BoundQuery
from planner.queries.relations import parse_view
from planner.statements import records as st
from planner.syntax.identifiers import quote_identifier
from planner.syntax.parse import split_and_parse
from storage.catalog.model import CatalogSnapshot, Index, Relation, Schema
from storage.shards.parts import ROW_ID
from storage.timestamps.csn import Csn


async def refresh(running: Running, statement: st.RefreshMaterializedView) -> None:
    """REFRESH MATERIALIZED VIEW. Raises 42P01, 42809, 0A000, 55000, 23505, and what the view's query raises."""
    if statement.concurrently and not statement.with_data:
        raise SqlSyntaxError("CONCURRENTLY and WITH NO DATA options cannot be used together")
    catalog = own_catalog(running)
    view = look_up(running, catalog, statement.name)
    if view is None:
        raise missing(catalog, statement.name)
    if kind_of(view) not in ("table", "materialized view"):
        raise WrongObjectType(f'"{view.name}" is not a table or materialized view')
    require_owner(running, view)
    if not isinstance(view, Relation) or view.materialized is None:
        raise FeatureNotSupported(f'"{view.name}" is not a materialized view')
    if statement.concurrently:
        _check_concurrent(catalog, view)
    if not statement.with_data:
        _replaced(running, view, populated=False)
        return
    session, values = running.session, running.session.values
    # Whoever refreshes it, its rows are those that its owner may see.
    session.values = values.within(view.owner)
    try:
        await _refresh_as_owner(running, catalog, view, concurrently=statement.concurrently)
    finally:
        session.values = values


async def _refresh_as_owner(running: Running, catalog: CatalogSnapshot, view: Relation, *, concurrently: bool) -> None:
    how = view.materialized
    assert how is not None
    below = exact_views(catalog, view)
    running.session.expanded = await stale_views(running.services.env, running.transaction, catalog, below)
    plan = await source_plan(running, catalog, view)
    plan.check_access()
    before = None
    if running.transaction.snapshot is not None and how.journal not in running.transaction.created_shards:
        before = await last_refresh(running.services.env, how.journal, running.transaction.snapshot.csn)
    if how.is_kept and before is not None and await _is_unchanged(running, catalog, view, plan):
        if how.refresh == "every":
            began = running.services.env.clock.monotonic()
            _note(running, catalog, view, before, changes=0, began=began, how="unchanged")
            return
        moment = moment_of(running, catalog, view, before)
        if grows_old(running.services.env, catalog, view, before, moment):
            txn = running.transaction.writable(running.services.env)
            write_refresh(txn, how.journal, replace(before, frontier=moment, read_at=Csn(0)), before)
        return
    if how.populated and (concurrently or how.is_kept):
        await _update(running, catalog, view, plan, before)
        return
    changed = _replaced(running, view, populated=True)
    await fill(running, catalog, changed, plan, before)
    keys = [index.oid for index in catalog.indexes(view.oid) if index.enforced]
    await check_existing_rows(running, view.oid, NewRules(keys=keys, known=set(keys)))


def _check_concurrent(catalog: CatalogSnapshot, view: Relation) -> None:
    """0A000 and 55000 where PostgreSQL does not refresh concurrently."""
    assert view.materialized is not None
    if not view.materialized.populated:
        raise FeatureNotSupported("CONCURRENTLY cannot be used when the materialized view is not populated")
    if not any(_tells_rows_apart(index) for index in catalog.indexes(view.oid)):
        name = f"{quote_identifier(_schema_of(catalog, view))}.{quote_identifier(view.name)}"
        raise ObjectNotInPrerequisiteState(
            f'cannot refresh materialized view "{name}" concurrently',
            hint="Create a unique index with no WHERE clause on one or more columns of the materialized view.",
        )


def _tells_rows_apart(index: Index) -> bool:
    return index.unique and index.predicate is None and not index.expressions


def _schema_of(catalog: CatalogSnapshot, view: Relation) -> str:
    schema = catalog.get(view.schema)
    assert isinstance(schema, Schema)
    return schema.name


async def _is_unchanged(running: Running, catalog: CatalogSnapshot, view: Relation, plan: Plan) -> bool:
    """Whether the stored rows are known to be those of the statement's snapshot."""
    assert plan.query is not None
    if not is_reproducible(plan.query):
        return False
    await running.transaction.lock(plan.locks)
    running.transaction.rely_on(plan.relied_on)
    return await why_stale(running.services.env, running.transaction, catalog, view) is None


def _replaced(running: Running, view: Relation, *, populated: bool) -> Relation:
    """Give the view a new, empty shard; the old one is forgotten in the same commit."""
    assert view.materialized is not None
    assert view.shard is not None
    changed = replace(
        view,
        shard=new_shard_id(running, view.oid),
        materialized=replace(view.materialized, populated=populated),
    )
    change(running, removed=[view], added=[changed])
    forget_shard(running, view.shard)
    make_shard(running, changed)
    return changed


async def source_plan(running: Running, catalog: CatalogSnapshot, view: Relation) -> Plan:
    """The plan of the view's query."""
    parsed = parse_view(view.definition or "")
    plan = await running.session.planned(parsed, catalog)
    assert isinstance(plan.statement, BoundQuery)
    return plan


async def fill(running: Running, catalog: CatalogSnapshot, view: Relation, plan: Plan, before: Refresh | None) -> int:
    """Write the rows of `plan` into the view's new shard, and the journal; `catalog` is that of `plan`. Returns their
    number."""
    plan.check_access()
    began = running.services.env.clock.monotonic()
    await running.transaction.lock(plan.locks)
    running.transaction.rely_on(plan.relied_on)
    rows = await fill_table(running, view, _schema_of(catalog, view), await prepare_plan(running, plan))
    _note(running, catalog, view, before, changes=rows, began=began, how="recomputed")
    return rows


def _note(
    running: Running,
    catalog: CatalogSnapshot,
    view: Relation,
    before: Refresh | None,
    *,
    changes: int,
    began: float,
    how: str,
    frontier: Csn | None = None,
    read_at: Csn = Csn(0),
) -> None:
    """Write what the refresh did into the view's journal."""
    transaction = running.transaction
    assert transaction.snapshot is not None
    assert view.materialized is not None
    txn = transaction.writable(running.services.env)
    # What the transaction has changed itself is in the rows, and is not of the snapshot.
    written = txn.shards | transaction.created_shards
    own = any(record.shard in written for record in inputs_of(catalog, view))
    frontier = transaction.snapshot.csn if frontier is None else frontier
    refresh = Refresh(
        frontier=Csn(0) if own else frontier,
        at_us=int(utc_now().timestamp() * 1_000_000),
        cost_ms=(running.services.env.clock.monotonic() - began) * 1000,
        changes=changes,
        how=how,
        inputs=UNKNOWN if own else digest_of_inputs(catalog, view),
        read_at=Csn(0) if own else read_at,
    )
    write_refresh(txn, view.materialized.journal, refresh, before)
    running.services.note_refresh(how, refresh.cost_ms / 1000)


async def _update(
    running: Running, catalog: CatalogSnapshot, view: Relation, plan: Plan, before: Refresh | None
) -> None:
    """Delete the stored rows that the query does not give any more, and add those that it gives besides."""
    began = running.services.env.clock.monotonic()
    transaction = running.transaction
    await transaction.lock(plan.locks)
    transaction.rely_on(plan.relied_on)
    transaction.rely_on([view])
    frontier, read_at, changes = moment_of(running, catalog, view, before), Csn(0), 0
    increment = None if before is None else await changed_rows(running, catalog, view, plan, before, frontier)
    if increment is not None:
        frontier, read_at = increment.frontier, increment.read_at
        for batch in increment.batches:
            changes += await _write(running, view, batch.columns[1], batch.columns[2:])
    else:
        inputs = await inputs_at(running, catalog, view, frontier)
        assert transaction.snapshot is not None
        if inputs is None:
            frontier = transaction.snapshot.csn
        else:
            read_at = transaction.snapshot.csn
        stream: Any = (await _differences(running, catalog, view, inputs)).stream()
        async with aclosing(stream) as batches:
            async for batch in batches:
                changes += await _write(running, view, batch.columns[0], batch.columns[1:])
    keys = [index.oid for index in catalog.indexes(view.oid) if index.enforced]
    if keys and changes:
        try:
            await check_existing_rows(running, view.oid, NewRules(keys=keys, known=set(keys)))
        except UniqueViolation as error:
            raise _duplicate(error) from error
    how = "recomputed" if increment is None else "incremental"
    _note(running, catalog, view, before, changes=changes, began=began, how=how, frontier=frontier, read_at=read_at)


async def _differences(
    running: Running, catalog: CatalogSnapshot, view: Relation, inputs: Inputs | None
) -> PreparedRead:
    """The reading of the rows that the stored ones and those of the view's query do not have in common."""
    session = running.session
    own = session.bind_context(catalog)
    expanded = own.expanded if inputs is None else inputs.expanded
    context = replace(own, numbered=view.oid, expanded=expanded - {view.oid})
    plan = make_plan(split_and_parse(differences_text(view, _schema_of(catalog, view)))[0], context, ())
    if inputs is None:
        return await prepare_plan(running, plan)
    before = session.expanded, session.brought
    session.expanded, session.brought = context.expanded, inputs.past
    try:
        return await prepare_plan(running, plan)
    finally:
        session.expanded, session.brought = before


async def _write(running: Running, view: Relation, ids: Any, values: Sequence[Any]) -> int:
    """Delete the rows that have ids, and add the others. Returns how many there are."""
    if not len(ids):
        return 0
    assert view.shard is not None
    txn = running.transaction.writable(running.services.env)
    rows = as_stored(view, values)
    gone = pc.is_valid(ids)
    added = rows.filter(pc.invert(gone))
    if added.num_rows:
        txn.write(view.shard, added)
    if added.num_rows < rows.num_rows:
        txn.delete(view.shard, rows.filter(gone).add_column(0, ROW_ID, ids.filter(gone)))
    await txn.spill()
    return len(ids)


def _duplicate(error: UniqueViolation) -> UniqueViolation:
    """A breach of a unique index as PostgreSQL reports it of rows that are inserted."""
    return UniqueViolation(
        f'duplicate key value violates unique constraint "{error.constraint}"',
        detail=None if error.detail is None else error.detail.replace(" is duplicated.", " already exists."),
        schema=error.schema,
        table=error.table,
        constraint=error.constraint,
    )
