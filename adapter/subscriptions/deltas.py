"""The changes of a query's result that follow from the rows that a commit has written, and what they touch.

It is the machinery by which materialized views are refreshed: joins, EXISTS and IN, DISTINCT and GROUP BY. The result
is not kept; what a change touches of the tables is read as it was before the commit, and as it is after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

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
from adapter.materialized.freshness import has_row_security
from adapter.plans.plan_cache import Plan, make_plan
from adapter.queries.prepared_read import with_token
from adapter.queries.read import execution_context
from planner.definitions.maintained.differences import change_text
from planner.definitions.maintained.increments import change_of, known_branches, names_in
from planner.definitions.maintained.through import through_views
from planner.definitions.mutability import is_reproducible
from planner.definitions.views import written_out
from planner.errors import DataException, SqlError
from planner.ir.bound import BoundQuery
from planner.ir.physical import arrow_type
from planner.syntax.parse import Parsed, split_and_parse
from storage.catalog.model import CatalogSnapshot, Relation, Schema
from storage.shards.parts import Part
from storage.timestamps.csn import Csn

if TYPE_CHECKING:
    from storage.environment.environment import Environment

MAX_ROWS = 200_000
"""Rows of one commit of which the change is worked out so; of more both results are compared."""


class Deltas:
    """The changes of one query."""

    def __init__(
        self, running: Running, catalog: CatalogSnapshot, definition: str, query: BoundQuery, oids: Mapping[Any, int]
    ) -> None:
        """`definition` is the query as a view would have it; `oids` those of its tables, by schema and name."""
        self._running, self._catalog = running, catalog
        self._env: Environment = running.services.env
        self._definition, self._query, self._oids = definition, query, oids
        self._plans: dict[tuple[int, ...], Plan | None] = {}
        self._count = 0

    async def between(
        self, tables: Mapping[int, Relation], csn: Csn, parts: Mapping[int, tuple[Part, ...]]
    ) -> tuple[pa.Table, pa.Table] | None:
        """The rows that went and that came with the commit at `csn`, which has written `parts`; rows may be in both.
        None when the results have to be compared. Raises as `ShardReader.snapshot`."""
        changed: list[ChangedTable] = []
        for oid in sorted(parts):
            own, table = parts[oid], tables[oid]
            if sum(part.rows for part in own) > MAX_ROWS:
                return None
            come, gone = ([part for part in own if part.kind == kind] for kind in ("insert", "delete"))
            rows = await delta_rows(self._env, table, come, gone)
            if rows is None:
                return None
            changed.append(changed_table(table, len(changed), Csn(csn - 1), rows))
        key = tuple(sorted(parts))
        if key not in self._plans:
            self._plans[key] = await self._planned(changed)
        plan = self._plans[key]
        if plan is None:
            return None
        assert plan.query is not None
        inputs: dict[int, TableInput] = await inputs_of_changed(self._env, changed)
        for oid, table in tables.items():
            assert table.shard is not None
            inputs[oid] = await as_it_was(self._env, table, table.shard, csn)
        self._count += 1
        context = with_token(execution_context(self._running, plan.catalog), f"deltas{self._count}")
        stream: Any = self._running.engines.local.execute(plan.query, inputs, (), context)
        try:
            async with aclosing(stream) as batches:
                found = [batch async for batch in batches]
        except DataException:
            # Of a row that no result has, perhaps.
            return None
        names = [f"c{number}" for number, _ in enumerate(plan.query.rel.fields, 1)]
        types = [arrow_type(field.type) for field in plan.query.rel.fields]
        schema = pa.schema(list(zip(names, types, strict=True)))
        rows = pa.Table.from_batches([pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in found], schema)
        came = pc.greater(rows.column(len(names) - 1), 0)
        values = rows.select(names[:-1])
        return values.filter(pc.invert(came)), values.filter(came)

    async def _planned(self, changed: list[ChangedTable]) -> Plan | None:
        change = change_of(self._definition, self._query, self._oids, frozenset(each.table.oid for each in changed))
        if change is None:
            return None
        overlay = with_changed(self._catalog, changed)
        context = self._running.session.bind_context(overlay)
        (parsed,) = split_and_parse(change_text(change))
        plan = await self._running.services.plans.aside(make_plan, parsed, context, ())
        wanted = [field.type for field in self._query.rel.fields]
        if plan.query is None or [field.type for field in plan.query.rel.fields][:-1] != wanted:
            return None
        await self._running.services.plans.aside(self._running.engines.local.unsupported, plan.query)
        return plan if self._running.engines.local.unsupported(plan.query) is None else None


async def deltas_of(running: Running, plan: Plan, parsed: Parsed, tables: Mapping[int, Relation]) -> Deltas | None:
    """How the changes of the query of `plan` follow from those of its `tables`; None for a query whose results are to
    be compared."""
    query, catalog = plan.query, plan.catalog
    assert query is not None
    if running.params or running.session.values.flat["engine"] == "spark" or not is_reproducible(query):
        return None
    if has_row_security(catalog, tables.values()):
        return None
    try:
        context = running.session.bind_context(catalog)
        definition, _, _ = await running.services.plans.aside(written_out, parsed, context)
    except SqlError:
        return None
    definition = through_views(definition, partial(_view_of, catalog, running.session.expanded))
    known = {(_schema_of(catalog, table), table.name): oid for oid, table in tables.items()}
    if not names_in(definition) <= known.keys() or known_branches(definition, query) is None:
        return None
    deltas = Deltas(running, catalog, definition, query, known)
    # Whether all of it is known is seen by making the text for a change of all tables.
    return None if change_of(definition, query, known, frozenset(tables)) is None else deltas


def _schema_of(catalog: CatalogSnapshot, relation: Relation) -> str:
    schema = catalog.get(relation.schema)
    assert isinstance(schema, Schema)
    return schema.name


def _view_of(catalog: CatalogSnapshot, expanded: Set[int], schema: str, name: str) -> tuple[str, Sequence[str]] | None:
    """See `planner.definitions.maintained.through.ViewOf`: plain views, and those `expanded`, whose stored rows are not
    read."""
    namespace = catalog.schema(schema)
    view = None if namespace is None else catalog.get(catalog.relation_names.get((namespace.oid, name), 0))
    if not isinstance(view, Relation) or view.definition is None or (view.kind != "v" and view.oid not in expanded):
        return None
    return view.definition, [column.name for column in view.live_columns()]
