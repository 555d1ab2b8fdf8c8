"""Which changes can be carried out together when several sessions ask for them at the same time
(`adapter.sessions.changes_at_once`): what follows from their plan, worked out once."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from adapter.plans.plan_cache import Plan
from planner.ir import nodes as ir
from planner.ir.bound import BoundDelete, BoundInsert, BoundUpdate, OnConflict
from planner.ir.rewrite import walk
from planner.types.table_indexes import is_key, unique_keys
from storage.bounded_map import BoundedMap
from storage.catalog.model import CatalogSnapshot, Relation
from storage.catalog.temporary import is_temporary

MAX_PLANS = 1000
"""Plans of which it is known."""


class Together(Struct, frozen=True, kw_only=True):
    """Changes of a plan can be carried out together whose parameters differ at each of `keys` (as a whole; places of
    parameters, from 0), and are the same at the places `same`."""

    keys: tuple[tuple[int, ...], ...] = ()
    same: tuple[int, ...] = ()


_known: BoundedMap[int, tuple[Plan, Together | None]] = BoundedMap(max_entries=MAX_PLANS)
"""By identity of the plan, which an entry keeps alive."""


def together_of(plan: Plan) -> Together | None:
    """Which changes of the plan can be carried out together; None when none can."""
    known = _known.get(id(plan))
    if known is None:
        known = plan, _together(plan)
        _known.put(id(plan), known)
    return known[1]


def _together(plan: Plan) -> Together | None:
    """INSERTs of rows that are written out, and UPDATEs and DELETEs of the row of one key."""
    match plan.statement:
        case BoundInsert() as insert:
            if (
                insert.foreign
                or plan.folded is not None
                or insert.returning is not None
                or insert.view_checks is not None
                or is_temporary(insert.relation_oid)
            ):
                return None
            if plan.query is not insert.source or plan.templates:
                return None
            return Together() if insert.on_conflict is None else _upserts(plan.catalog, insert, insert.on_conflict)
        case BoundUpdate() | BoundDelete() as change:
            read = plan.key_read
            is_plain = isinstance(change, BoundDelete) or (change.view_checks is None and change.policies is None)
            return Together() if is_plain and change.returning is None and read and read.is_one_key else None
        case _:
            return None


def _upserts(catalog: CatalogSnapshot, insert: BoundInsert, clause: OnConflict) -> Together | None:
    relation = catalog.get(insert.relation_oid)
    if clause.existing is not None or clause.updated is not None or not isinstance(relation, Relation):
        return None
    if clause.conditional:
        return None
    if any(index.enforced and not is_key(index) for index in catalog.indexes(relation.oid)):
        return None
    attnums = [column.attnum for column in relation.live_columns()]
    keys = []
    for key in unique_keys(catalog, insert.relation_oid):
        if clause.arbiters and key.oid not in clause.arbiters:
            continue
        places = [_param_at(insert.source.rel, attnums.index(attnum)) for attnum in key.columns]
        if None in places:
            return None
        keys.append(tuple([place for place in places if place is not None]))
    used = [] if clause.update is None else [node for node in walk(clause.update) if isinstance(node, ir.Param)]
    return Together(keys=tuple(keys), same=tuple(sorted({param.index - 1 for param in used})))


def _param_at(rel: ir.Rel, place: int) -> int | None:
    """The place of the parameter that is the column at `place` of the only row; None when it is something else."""
    while True:
        row: Sequence[ir.Scalar]
        if isinstance(rel, ir.Project):
            row = rel.exprs
        elif isinstance(rel, ir.Values) and len(rel.rows) == 1:
            row = rel.rows[0]
        else:
            return None
        expr = row[place]
        while isinstance(expr, ir.Cast):
            expr = expr.arg
        if isinstance(expr, ir.Param):
            return expr.index - 1
        if not isinstance(expr, ir.ColumnRef) or not isinstance(rel, ir.Project):
            return None
        ids = [field.id for field in rel.input.fields]
        if expr.id not in ids:
            return None
        rel, place = rel.input, ids.index(expr.id)
