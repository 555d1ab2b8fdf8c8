"""Answering a query by a materialized view, where the session wants that (SET use_materialized_views = on).

Views that are refreshed on commit give at every snapshot what their queries give, so a query that asks for nothing
else, or for less, may read one of them instead (`planner.definitions.maintained.answers` says when). Who asks must be
allowed to read the query's tables and the view.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from adapter.execution.statement import Running
from adapter.materialized.freshness import has_row_security, inputs_of, views_on_commit
from adapter.plans.plan_cache import Plan
from planner.definitions.maintained.answers import View, answer
from planner.definitions.views import written_out
from planner.errors import SqlError
from planner.ir.bound import BoundQuery
from planner.syntax.identifiers import quote_identifier
from planner.syntax.parse import Parsed, split_and_parse
from storage.bounded_map import BoundedMap
from storage.catalog.model import CatalogSnapshot, Schema

SETTING = "use_materialized_views"


class _Known(Struct, frozen=True, kw_only=True):
    plan: Plan
    answered: tuple[Parsed, Plan] | None


_kept: BoundedMap[int, _Known] = BoundedMap(max_entries=1000)
"""By the id of the plan that is answered."""


async def answered(
    running: Running, catalog: CatalogSnapshot, parsed: Parsed, plan: Plan
) -> tuple[Parsed, Plan] | None:
    """The query over a view that gives the rows of `plan`, which was made of `parsed`; None when there is none, or the
    session does not want it."""
    if running.session.values.flat[SETTING] != "on" or parsed.kind != "select_stmt":
        return None
    if not isinstance(plan.statement, BoundQuery) or not _reads_tables_alone(plan):
        return None
    known = _kept.get(id(plan))
    if known is None or known.plan is not plan:
        plan.check_access()
        known = _Known(plan=plan, answered=await _found(running, catalog, parsed, plan))
        _kept.put(id(plan), known)
    return known.answered


def _reads_tables_alone(plan: Plan) -> bool:
    query = plan.query
    return query is not None and not (
        plan.acts
        or plan.sizes
        or plan.steps
        or query.system
        or query.past
        or query.files
        or query.foreign
        or query.locking is not None
    )


async def _found(running: Running, catalog: CatalogSnapshot, parsed: Parsed, plan: Plan) -> tuple[Parsed, Plan] | None:
    candidates = list(_candidates(catalog, plan))
    if not candidates:
        return None
    services, session = running.services, running.session
    try:
        definition, _, _ = await services.plans.aside(written_out, parsed, session.bind_context(catalog))
    except SqlError:
        return None
    names = [column.name for column in plan.columns or ()]
    for view in candidates:
        text = await services.plans.aside(answer, definition, names, view)
        if text is None:
            continue
        (other,) = split_and_parse(text)
        try:
            found = await session.planned(other, catalog, running.declared)
            found.check_access()
        except SqlError:
            continue
        if _shape(found) == _shape(plan):
            return other, replace(found, columns=plan.columns)
    return None


def _candidates(catalog: CatalogSnapshot, plan: Plan) -> Iterator[View]:
    assert plan.query is not None
    for view in views_on_commit(catalog):
        inputs = inputs_of(catalog, view)
        if view.materialized is None or not view.materialized.populated or has_row_security(catalog, inputs):
            continue
        schema = catalog.get(view.schema)
        if isinstance(schema, Schema) and plan.query.relations.issuperset(table.oid for table in inputs):
            yield View(
                name=f"{quote_identifier(schema.name)}.{quote_identifier(view.name)}",
                columns=[column.name for column in view.live_columns()],
                definition=view.definition or "",
            )


def _shape(plan: Plan) -> object:
    """What of a plan a client can tell without its rows."""
    types = [(column.name, column.type.oid, column.type.typmod, column.type.domain) for column in plan.columns or ()]
    return plan.param_types, types
