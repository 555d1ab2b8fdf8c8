"""The columns of numeric(p, s) that a change of rows may give a NaN to: they are stored as texts from then on, as
numeric without a precision is (`Column.holds_nan`).

The table is written anew, in the statement's transaction, as by ALTER TABLE ... ALTER COLUMN TYPE. What is declared of
the column stays, and so do views and prepared statements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.plans.plan_cache import Plan
from adapter.publishing.published_tables import is_published
from adapter.transactions.locks import tags
from adapter.transactions.locks.modes import Mode
from planner.common_errors import NanNotHeld
from planner.ir import nodes as ir
from planner.ir.array_value import has_nan
from planner.ir.bound import BoundChange, BoundInsert, BoundMerge, BoundUpdate
from planner.ir.rewrite import walk
from planner.types import types as t
from planner.types.types import SqlType, type_of_column
from storage.catalog.model import Relation
from storage.catalog.record import NAN_FORMAT

_EXACT = frozenset({t.INT2, t.INT4, t.INT8, t.OID, t.BOOL, t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ, t.MONEY})
"""Types without NaN from which numerics are made."""


async def hold_nan(running: Running, plan: Plan) -> bool:
    """Let the columns that `plan` may give a NaN to have some. Whether there are such: then it is to be made anew."""
    changed = False
    for oid, attnums in running.session.columns_for_nan.items():
        relation = own_catalog(running).get(oid)
        wanted = attnums & _decimals(relation) if isinstance(relation, Relation) else None
        if wanted:
            await let_hold_nan(running, oid, wanted)
            changed = True
    for oid, wanted in _changed_columns(running, plan):
        await let_hold_nan(running, oid, wanted)
        changed = True
    return changed


def require_held(running: Running, plan: Plan) -> None:
    """Raises NanNotHeld with the columns that `plan`, of a statement inside another, may give a NaN to and that hold
    none yet: that other one has read and changed their table as it is."""
    columns = dict(_changed_columns(running, plan))
    if columns:
        raise NanNotHeld(columns=columns)


def _changed_columns(running: Running, plan: Plan) -> Iterator[tuple[int, frozenset[int]]]:
    """The columns (attnums), held as decimals, that `plan` may give a NaN to, by the oid of their table."""
    for each in (plan, *(step.plan for step in plan.steps)):
        statement = each.statement
        if not isinstance(statement, BoundChange):
            continue
        relation = own_catalog(running).get(statement.relation_oid)
        if not isinstance(relation, Relation) or relation.foreign is not None:
            continue
        wanted = _columns(statement, relation, running.params)
        if wanted:
            yield relation.oid, wanted


def _decimals(relation: Relation) -> frozenset[int]:
    return frozenset(column.attnum for column in relation.live_columns() if _is_decimal(type_of_column(column)))


async def require_format(running: Running) -> None:
    """Raises NanNotHeld as long as servers of an earlier version may be at work, which do not know such columns."""
    if not await running.services.env.formats.allows(NAN_FORMAT):
        raise NanNotHeld(hint="When all servers are of this version, run tidegate admin finish-upgrade.")


async def let_hold_nan(running: Running, oid: int, attnums: frozenset[int]) -> None:
    """Let the columns `attnums` of the table `oid` have NaN from now on: others may read it meanwhile, as it was, and
    not write to it. Raises NanNotHeld, and as `Transaction.lock`."""
    # NOTE: imported here, so that a server loads the code of definitions when the first one comes.
    from adapter.definitions.constraints.existing_rows import NewRules
    from adapter.definitions.indexes.building import build_indexes
    from adapter.definitions.rewriting import set_held

    await require_format(running)
    await running.transaction.lock([(tags.relation(oid), Mode.SHARE_ROW_EXCLUSIVE)])
    await running.services.provide_oids()
    catalog = own_catalog(running)
    relation = catalog.get(oid)
    assert isinstance(relation, Relation)
    if is_published(catalog, relation):
        raise NanNotHeld(
            detail=f'Table "{relation.name}" is published as an Iceberg table, whose decimals have no NaN.'
        )
    types = {
        column.attnum: replace(type_of_column(column), shape=t.WIDE)
        for column in relation.columns
        if column.attnum in attnums
    }
    await set_held(running, catalog, relation, types, NewRules())
    await build_indexes(running, oid)


def _columns(statement: BoundChange, relation: Relation, params: Sequence[ir.Literal]) -> frozenset[int]:
    """The columns (attnums), held as decimals, that may get a NaN."""
    decimal = {
        place: column.attnum
        for place, column in enumerate(relation.live_columns())
        if _is_decimal(type_of_column(column))
    }
    width = len(relation.live_columns())
    found: set[int] = set()
    for rel, first in _new_values(statement, width):
        found.update(attnum for place, attnum in decimal.items() if _column_may_be(rel, first + place, params))
    return frozenset(found)


def _new_values(statement: BoundChange, width: int) -> Iterator[tuple[ir.Rel, int]]:
    """Where a statement computes its new rows: a relation, and the first of their columns among its fields."""
    if isinstance(statement, BoundInsert):
        for query in (statement.complete or statement.source, statement.computed):
            if query is not None:
                yield query.rel, 0
        if statement.on_conflict is not None and statement.on_conflict.update is not None:
            yield statement.on_conflict.update.rel, 1
    elif isinstance(statement, (BoundUpdate, BoundMerge)):
        yield statement.read.rel, 1 + width


def _is_decimal(type: SqlType) -> bool:
    return type.oid == t.NUMERIC and not t.is_wide(type)


def _column_may_be(rel: ir.Rel, place: int, params: Sequence[ir.Literal]) -> bool:
    if isinstance(rel, ir.Project):
        return _may_be(rel.exprs[place], rel.input, params)
    if isinstance(rel, ir.Values):
        return any(_may_be(row[place], rel, params) for row in rel.rows)
    inner: ir.Rel | None = getattr(rel, "input", None)
    ids = [field.id for field in inner.fields] if inner is not None else []
    if inner is not None and rel.fields[place].id in ids:
        return _column_may_be(inner, ids.index(rel.fields[place].id), params)
    return not _is_decimal(rel.fields[place].type) and rel.fields[place].type.oid not in _EXACT


def _may_be(expr: ir.Scalar, rel: ir.Rel, params: Sequence[ir.Literal]) -> bool:
    """Whether a value computed from the rows of `rel` may be NaN: it is not where nothing that it is made of is."""
    match expr:
        case ir.Literal():
            return has_nan(expr.value)
        case ir.Param():
            return not params or has_nan(params[expr.index - 1].value)
        case ir.ColumnRef():
            ids = [field.id for field in rel.fields]
            if expr.id in ids:
                return _column_may_be(rel, ids.index(expr.id), params)
    if expr.type.oid in _EXACT:
        return False
    if isinstance(expr, (ir.Cast, ir.DomainValue)):
        return _may_be(expr.arg, rel, params)
    if _is_decimal(expr.type):
        # Made of decimals alone, but for what is cast to some.
        return any(_may_be(part, rel, params) for part in walk(expr) if isinstance(part, ir.Cast))
    return any(_may_be(part, rel, params) for part in walk(expr) if isinstance(part, _LEAVES)) or _has_query(expr)


_LEAVES = (ir.Literal, ir.Param, ir.ColumnRef)


def _has_query(expr: ir.Scalar) -> bool:
    return any(isinstance(part, (ir.ScalarSubquery, ir.SessionValue)) for part in walk(expr))
