"""Refreshing a materialized view by what has changed since its frontier, instead of by its whole query.

The rows that came and went since then are read from the tables' shards, and given to the local engine as relations that
only this query knows (`planner.definitions.maintained.increments`). What comes of it is the change of the view's rows.
It is None, and the query is run as a whole, wherever that is not to be had or would not be cheaper: for queries of
other kinds, when definitions or many rows have changed, when the history is not kept, when Spark is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from adapter.definitions.common.table_rows import physical_schema, stored_arrays
from adapter.engines.common.engine import TableInput
from adapter.execution.statement import Running
from adapter.materialized.changed_tables import (
    ChangedTable,
    as_it_was,
    changed_table,
    delta_rows,
    inputs_of_changed,
    with_changed,
)
from adapter.materialized.freshness import digest_of_inputs, has_changed, has_row_security, inputs_of
from adapter.materialized.journal import UNKNOWN, Refresh
from adapter.materialized.views_read import are_of, common_moment, exact_views, is_exact
from adapter.plans.plan_cache import Plan, make_plan
from adapter.queries.read import execution_context
from adapter.transactions.snapshots import resolve
from planner.common_errors import Held
from planner.definitions.maintained.differences import change_text, increment_text, replacing_text
from planner.definitions.maintained.increments import Change, change_of, names_in
from planner.definitions.maintained.sums import sums_of
from planner.definitions.mutability import is_reproducible
from planner.errors import DataException
from planner.ir.bound import BoundQuery
from planner.queries.relations import parse_view
from planner.syntax.parse import split_and_parse
from storage.bounded_map import BoundedMap
from storage.catalog.model import CatalogSnapshot, Relation, Schema
from storage.errors import AsOfNotReadable, UnknownShard
from storage.shards.shard import ShardChanges
from storage.timestamps.csn import Csn

MAX_CHANGES = 200_000
"""Rows of changes that are worked out in memory; more are left to the whole query."""

SHARE = 4
"""A change of more than one row in so many of a table is left to the whole query."""

FEW_CHANGES = 1000
"""So many are never too many."""


class Increment(Struct, frozen=True, kw_only=True):
    """What has to be done to the stored rows so that they are of the moment `frontier`: batches of whether a row is
    added, its row id when it is not, and its columns. `read_at` is as in `Refresh`."""

    batches: Sequence[Any]
    frontier: Csn
    read_at: Csn


class _Span(Struct, frozen=True, kw_only=True):
    """From when until when the view is to be brought. The stored rows of the views that it reads are of `after` at the
    CSN `views_after`, and of `until` at `views_until`."""

    after: Csn
    until: Csn
    views_after: Csn
    views_until: Csn


async def changed_rows(
    running: Running, catalog: CatalogSnapshot, view: Relation, plan: Plan, last: Refresh, moment: Csn
) -> Increment | None:
    """The change of the view's rows from its `last` refresh to `moment`. See the module's contract."""
    transaction = running.transaction
    snapshot = transaction.snapshot
    assert snapshot is not None
    assert plan.query is not None
    if running.session.values.flat["engine"] == "spark" or not view.live_columns():
        return None
    if last.inputs == UNKNOWN or last.inputs != digest_of_inputs(catalog, view) or not is_reproducible(plan.query):
        return None
    inputs = inputs_of(catalog, view)
    if has_row_security(catalog, inputs):
        return None
    below = exact_views(catalog, view)
    written = transaction.created_shards | (frozenset() if transaction.txn is None else transaction.txn.shards)
    if not written.isdisjoint({table.shard for table in (*inputs, *below)}) or view.shard in written:
        return None
    known = {(_schema_of(catalog, table), table.name): table for table in (*inputs, *below)}
    named = names_in(view.definition or "")
    if not named <= known.keys():
        return None
    read = {name: known[name] for name in sorted(named)}
    views = [table for table in read.values() if is_exact(table)]
    # NOTE: no hold on the history. What retention keeps is there; what it does not is computed anew.
    try:
        span = await _span(running, catalog, view, views, last, moment)
        changed = None if span is None else await _changes(running, list(read.values()), span)
        if span is None or changed is None:
            return None
        batches: list[Any] | None = []
        if changed:
            names = {name: table.oid for name, table in read.items()}
            inside = _Reading(running, catalog, view, plan.query, names, list(read.values()), changed, span)
            batches = await _worked_out(inside)
    except (AsOfNotReadable, UnknownShard):
        return None
    except DataException:
        # Of a row, perhaps, that came and went meanwhile. If it is there, the whole query fails as well.
        return None
    if batches is None:
        return None
    return Increment(batches=batches, frontier=span.until, read_at=snapshot.csn if views else Csn(0))


async def _span(
    running: Running, catalog: CatalogSnapshot, view: Relation, views: Sequence[Relation], last: Refresh, moment: Csn
) -> _Span | None:
    """How far the view can be brought by what has changed; None when the stored rows of the `views` that it reads do
    not tell, or not as far as whoever reads the view may expect."""
    env, snapshot = running.services.env, running.transaction.snapshot
    assert snapshot is not None
    assert view.materialized is not None
    if not views:
        return _Span(after=last.frontier, until=moment, views_after=last.frontier, views_until=snapshot.csn)
    if moment < snapshot.csn:
        until = moment if await are_of(env, catalog, views, snapshot.csn, moment) else None
    else:
        until = await common_moment(env, catalog, views, snapshot.csn)
    if until is None or until <= last.frontier:
        return None
    if until < snapshot.csn and not is_exact(view):
        # Its stored rows are what is shown: REFRESH is to bring them to its own snapshot.
        return None
    began = last.read_at or last.frontier
    if not await are_of(env, catalog, views, began, last.frontier):
        return None
    return _Span(after=last.frontier, until=until, views_after=began, views_until=snapshot.csn)


class _Reading(Struct, frozen=True):
    """What the change of a view is worked out from: the view with the `query` that it is, the tables that this reads
    (by name, and as they are), and what has `changed` of them in the `span`."""

    running: Running
    catalog: CatalogSnapshot
    view: Relation
    query: BoundQuery
    names: Mapping[tuple[str, str], int]
    read: Sequence[Relation]
    changed: Sequence[ChangedTable]
    span: _Span


class _Known(Struct, frozen=True, kw_only=True):
    """The plan of a view's change in `catalog`, None when there is none."""

    catalog: CatalogSnapshot
    plan: Plan | None


_plans: BoundedMap[tuple[int, tuple[int, ...], str, Held], _Known] = BoundedMap(max_entries=1000)
"""By view, the tables that have changed, the form, and whether numerics may be NaN. Planning takes longer than a small
change."""


async def _worked_out(reading: _Reading) -> list[Any] | None:
    """The batches of `Increment`; None when the change has to be computed anew.

    A statement takes the engine as long as its text is long, whatever it reads. So few changes are worked out in a
    short form where there is one: groups are found by their keys and *replaced*; rows that only *came* are paired with
    nothing. The *whole* form pairs what came and went, and finds what went among the stored rows.
    """
    if sum(each.rows.num_rows for each in reading.changed) <= FEW_CHANGES:
        found = await _plan(reading, "replaced")
        if found is not None:
            batches = await _read(reading, found)
            return None if batches is None else replaced_rows(batches, len(reading.view.live_columns()))
        if not any(each.has_gone for each in reading.changed):
            found = await _plan(reading, "came")
            batches = None if found is None else await _read(reading, found)
            came = None if batches is None else _came(batches)
            if came is not None:
                return came
    found = await _plan(reading, "whole")
    batches = None if found is None else await _read(reading, found)
    for batch in batches or ():
        added, ids = batch.column(0), batch.column(1)
        if pc.any(pc.and_(pc.invert(added), pc.is_null(ids))).as_py():
            # A row that went is not among the stored ones.
            return None
    return batches


def _came(batches: Sequence[Any]) -> list[Any] | None:
    """The batches of `Increment` for rows with their weights behind; None when some of them went."""
    found = []
    for batch in batches:
        *values, weights = batch.columns
        if pc.any(pc.less(weights, 0)).as_py():
            return None
        found.append(_as_batch(pa.repeat(True, len(weights)), pa.nulls(len(weights), pa.int64()), values))
    return found


def replaced_rows(batches: Sequence[Any], width: int) -> list[Any]:
    """The batches of `Increment` for those of `planner.definitions.maintained.increments.Change.replacing`, of a view
    of `width` columns: stored rows that go, and the ones in their places, unless they are the same."""
    found = []
    for batch in batches:
        ids, old, new = batch.column(0), batch.columns[1 : 1 + width], batch.columns[1 + width : 1 + 2 * width]
        # Not by what their types hold for equal: 1.0 and 1.00 are different rows to whom reads them.
        before, after = ([map(repr, column.to_pylist()) for column in side] for side in (old, new))
        same = pa.array([a == b for a, b in zip(zip(*before, strict=True), zip(*after, strict=True), strict=True)])
        stays = batch.column(1 + 2 * width)
        other = pc.invert(pc.and_(pc.and_(same, stays), pc.is_valid(ids)))
        gone, come = pc.and_(pc.is_valid(ids), other), pc.and_(stays, other)
        went = ids.filter(gone)
        found.append(_as_batch(pa.repeat(False, len(went)), went, [column.filter(gone) for column in old]))
        rows = [column.filter(come) for column in new]
        found.append(_as_batch(pa.repeat(True, len(rows[0])), pa.nulls(len(rows[0]), pa.int64()), rows))
    return [batch for batch in found if batch.num_rows]


def _as_batch(added: Any, ids: Any, values: Sequence[Any]) -> Any:
    arrays = [added, ids, *values]
    return pa.RecordBatch.from_arrays(arrays, [f"c{number}" for number in range(1, len(arrays) + 1)])


async def _plan(reading: _Reading, form: str) -> Plan | None:
    """The plan of the view's change in a form (`_worked_out`); None when it has no such form."""
    running, catalog, view, query = reading.running, reading.catalog, reading.view, reading.query
    names, changed = reading.names, reading.changed
    # Of views that are refreshed on commit the stored rows are read, whichever moment they are of.
    own = replace(running.session.bind_context(catalog), expanded=frozenset())
    key = view.oid, tuple(each.table.oid for each in changed), form, running.session.held
    known = _plans.get(key)
    if known is None or known.catalog is not catalog:
        if running.session.expanded:
            stored = await running.services.plans.aside(make_plan, parse_view(view.definition or ""), own, ())
            assert stored.query is not None
            query = stored.query
        oids, tables = frozenset(key[1]), {oid: catalog.get(oid) for oid in names.values()}
        relations = {oid: table for oid, table in tables.items() if isinstance(table, Relation)}
        change = sums_of(view, _schema_of(catalog, view), query, names, oids, relations)
        if change is None:
            change = change_of(view.definition or "", query, names, oids)
        plan: Plan | None = None
        text = None if change is None else _text(change, view, _schema_of(catalog, view), form)
        if text is not None:
            context = replace(own, catalog=with_changed(catalog, changed), numbered=view.oid)
            (parsed,) = split_and_parse(text)
            plan = await running.services.plans.aside(make_plan, parsed, context, ())
        known = _Known(catalog=catalog, plan=plan)
        _plans.put(key, known)
    return known.plan


def _text(change: Change, view: Relation, schema: str, form: str) -> str | None:
    match form:
        case "replaced":
            return replacing_text(change)
        case "came":
            return change_text(change)
        case _:
            return increment_text(view, schema, change)


def _schema_of(catalog: CatalogSnapshot, relation: Relation) -> str:
    schema = catalog.get(relation.schema)
    assert isinstance(schema, Schema)
    return schema.name


async def _changes(running: Running, inputs: Sequence[Relation], span: _Span) -> list[ChangedTable] | None:
    """The tables among `inputs` that have changed; None when that is too much, or not to be had."""
    env = running.services.env
    found: list[ChangedTable] = []
    for table in inputs:
        assert table.shard is not None
        after, until = (span.views_after, span.views_until) if is_exact(table) else (span.after, span.until)
        if not await has_changed(env, table.shard, after, until):
            continue
        changes = await env.reader.changes(table.shard, after, until)
        rows = await _delta(running, table, changes)
        if rows is None:
            return None
        found.append(changed_table(table, len(found), after, rows))
    return found


async def _delta(running: Running, table: Relation, changes: ShardChanges) -> pa.Table | None:
    """The rows that came and went, with their weights, in the form of a scan; None when they are too many."""
    env = running.services.env
    count = sum(part.rows for part in (*changes.inserts, *changes.deletes))
    assert table.shard is not None
    total = sum(part.rows for part in (await env.reader.snapshot(table.shard, changes.until)).inserts)
    if count > MAX_CHANGES or (count > FEW_CHANGES and count * SHARE > total):
        return None
    return await delta_rows(env, table, changes.inserts, changes.deletes)


async def _read(reading: _Reading, plan: Plan) -> list[Any] | None:
    """The rows of `plan`; None when the engine cannot run it."""
    assert plan.query is not None
    running, span = reading.running, reading.span
    local = running.engines.local
    if not local.knows(plan.query):
        # Whether an engine can run it is seen by making its text of it.
        await running.services.plans.aside(local.unsupported, plan.query)
    if local.unsupported(plan.query) is not None:
        return None
    scanned = frozenset(template.relation_oid for template in plan.templates)
    env = running.services.env
    past: dict[int, TableInput] = {}
    for table in reading.read:
        assert table.shard is not None
        if not is_exact(table) and await has_changed(env, table.shard, span.until, span.views_until):
            past[table.oid] = await as_it_was(env, table, table.shard, span.until)
    resolved = await resolve(
        env, running.transaction, plan.catalog, scanned, plan.templates, running.params, record=False, past=past
    )
    tables = {**resolved.inputs, **await inputs_of_changed(env, reading.changed)}
    stream: Any = local.execute(plan.query, tables, (), execution_context(running, plan.catalog))
    async with aclosing(stream) as rows:
        return [batch async for batch in rows]


def as_stored(view: Relation, values: Sequence[Any]) -> pa.Table:
    """Columns that an engine gives as the view's shard has them."""
    physical = physical_schema(view.live_columns())
    return pa.table(stored_arrays(view, values, physical), schema=physical)
