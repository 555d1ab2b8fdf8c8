"""Scalar subqueries that an expression names more than once, as columns.

Many forms repeat their arguments. What is repeated is bound to a name by a lambda, in which Spark allows no subquery:
it would be planned, and often run, once for each time that it is named. Here it is named once, below the expression:

    SELECT t1.c1 FROM scan0 AS t1 WHERE f((SELECT ...), (SELECT ...))
    SELECT t2.c1 FROM (SELECT t1.c1 AS c1, (SELECT ...) AS c9 FROM scan0 AS t1) AS t2 WHERE f(t2.c9, t2.c9)
    SELECT t1.c1 FROM scan0 AS t1 CROSS JOIN (SELECT (SELECT ...) AS c9) AS t2 WHERE f(t2.c9, t2.c9)

That changes no error: Spark runs a subquery before the rows that it is for, whichever branches they take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from planner.ir import nodes as ir
from planner.ir.rewrite import is_correlated, transform, walk
from planner.lowering.fragments.context import Repeated
from planner.lowering.fragments.fragment import Fragment, made
from planner.lowering.relations.compared_numbers import with_numbers
from planner.lowering.relations.protocols import RelationLowering
from planner.lowering.relations.select import Select

T = TypeVar("T")

Found = Mapping[int, tuple[ir.ScalarSubquery, Fragment]]
"""By identity: subqueries, and their SQL."""


def add_conditions(relations: RelationLowering, select: Select, condition: ir.Scalar) -> Select:
    """`select` with those rows for which `condition` is true; conditions may be added to it."""
    scalars = relations.scalars
    if relations.ctx.engine == "spark":
        condition = with_numbers(condition)
    conjuncts, found = _watched(relations, condition, lambda: scalars.conjuncts(condition))
    if not found:
        select.where.extend(conjuncts)
        return select
    parts = condition.args if isinstance(condition, ir.BoolOp) and condition.op == "and" else (condition,)
    above = [part for part in parts if any(id(node) in found for node in walk(part))]
    # The others leave out rows before the subqueries are asked for.
    for part in parts:
        if part not in above:
            select.where.extend(scalars.conjuncts(part))
    select, changed = _as_columns(relations, select, found, tuple(above))
    for part in changed:
        select.where.extend(scalars.conjuncts(part))
    return select


def projected(
    relations: RelationLowering, select: Select, exprs: tuple[ir.Scalar, ...], fields: Sequence[ir.Field]
) -> Select:
    """`select` with the columns `fields`, which are `exprs` over those that it has."""

    def lower() -> dict[int, Fragment]:
        pairs = zip(fields, exprs, strict=True)
        return {field.id: relations.scalars.typed(expr, field.type) for field, expr in pairs}

    columns, found = _watched(relations, exprs, lower)
    if found and not select.order_by:
        if not select.plain():
            select = relations.wrap(select)
            found = {key: (node, relations.scalars.lower(node)) for key, (node, _) in found.items()}
        select, exprs = _as_columns(relations, select, found, exprs)
        columns = lower()
    select.columns = columns
    return select


def repeats(relations: RelationLowering, condition: ir.Scalar) -> bool:
    """Whether `condition` would name a subquery more than once."""
    return bool(_watched(relations, condition, lambda: relations.scalars.conjuncts(condition))[1])


def _watched(relations: RelationLowering, exprs: object, lower: Callable[[], T]) -> tuple[T, Found]:
    """What `lower` gives for `exprs`, and the subqueries among these that it names more than once, where the engine
    cannot bind them."""
    ctx = relations.ctx
    if ctx.dialect.let_of_subqueries:
        return lower(), {}
    inside = [node for node in walk(exprs) if isinstance(node, ir.ScalarSubquery)]
    if not inside:
        return lower(), {}
    outer, ctx.repeated = ctx.repeated, Repeated()
    try:
        result = lower()
        found = ctx.repeated.found()
    finally:
        ctx.repeated = outer
    return result, {id(node): (node, found[id(node)]) for node in inside if id(node) in found}


def _as_columns(
    relations: RelationLowering, select: Select, found: Found, exprs: tuple[ir.Scalar, ...]
) -> tuple[Select, tuple[ir.Scalar, ...]]:
    """`select` with the subqueries as columns, and `exprs` with those in their places."""
    places = {key: ir.ColumnRef(id=relations.ctx.new_id(), type=node.type) for key, (node, _) in found.items()}
    of_rows, of_all = dict[int, Fragment](), dict[int, Fragment]()
    for key, (node, fragment) in found.items():
        (of_rows if is_correlated(node.rel) else of_all)[places[key].id] = fragment
    if of_rows:
        select.columns = {**select.columns, **of_rows}
        select = relations.wrap(select)
        # Spark would put them back into the conditions: a form binds them, as what is not a mere column.
        for place in of_rows:
            select.columns[place] = replace(select.columns[place], simple=False, inlined=True)
        relations.ctx.columns.update(select.columns)
    if of_all:
        select = _beside(relations, select, of_all)
    return select, transform(exprs, lambda node: places.get(id(node)))


def _beside(relations: RelationLowering, select: Select, columns: dict[int, Fragment]) -> Select:
    """`select` joined with a row of `columns`, which are the same for all its rows: as columns of its own Spark would
    put them back into the expressions, again and again."""
    row = Select(relations.ctx, columns).wrapped()
    left, right = select.as_source(), row.source
    assert right is not None
    joined = Select(relations.ctx, {**select.columns, **row.columns}, joined=True)
    joined.source = made(f"{left} CROSS JOIN {right}", left, right)
    relations.ctx.columns.update(joined.columns)
    return joined
