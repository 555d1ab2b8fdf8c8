"""Joins of two FROM items, plain and lateral."""

from __future__ import annotations

from msgspec.structs import replace

from planner.ir import nodes as ir
from planner.ir.rewrite import column_ids, is_volatile, transform, walk
from planner.lowering.fragments.context import Context
from planner.lowering.fragments.fragment import Fragment, column, listed, made
from planner.lowering.fragments.python_conditions import depends_in_python, is_of_both
from planner.lowering.relations.foreign import give_back, take_foreign
from planner.lowering.relations.functions_in_from import lateral_lists
from planner.lowering.relations.protocols import RelationLowering
from planner.lowering.relations.select import Select, derived
from planner.lowering.scalars.scalars import Scalars
from planner.types.signature import Kind
from planner.types.types import BOOL, SqlType

_OUTER = frozenset({"left", "right", "full"})


def join(relations: RelationLowering, rel: ir.Join) -> Select:
    """A join of two FROM items."""
    ctx, scalars = relations.ctx, relations.scalars
    if not ctx.dialect.python_in_all_joins and rel.kind in _OUTER and _matches_in_python(scalars, rel):
        ctx.pairs_in_python = True
        return relations.build(_in_two(rel, ctx)) if rel.kind == "full" else _with_collected_rows(relations, rel)
    if rel.lateral and rel.kind in ("cross", "inner") and _is_over_lists(rel.right):
        return relations.build(_pulled_up(rel))
    start = ctx.aliases
    left = relations.build(rel.left)
    condition = rel.condition
    if not ctx.dialect.subqueries_in_on and rel.kind in _OUTER:
        left, condition = _computed_first(relations, left, rel.left, condition)
    foreign = take_foreign(left, start, ctx.new_id()) if rel.kind in ("right", "full") else None
    if rel.lateral and isinstance(rel.right, ir.FunctionScan) and _expands(rel):
        select = lateral_lists(relations, left, rel.right, outer=rel.kind == "left")
        if rel.condition is not None and rel.kind != "left":
            select.where = scalars.conjuncts(rel.condition)
        return select
    left_source, left_where = _side(left, keep_where=rel.kind in ("cross", "inner", "left"))
    give_back(left, foreign)
    # NOTE: a lateral right side refers to the columns that the left side has now.
    ctx.columns.update(left.columns)
    start = ctx.aliases
    right = relations.build(rel.right)
    if rel.lateral:
        right_source, right_where = _lateral_side(right), list[Fragment]()
    else:
        if not ctx.dialect.subqueries_in_on and rel.kind in _OUTER:
            right, condition = _computed_first(relations, right, rel.right, condition)
        foreign = take_foreign(right, start, ctx.new_id()) if rel.kind in ("left", "full") else None
        right_source, right_where = _side(right, keep_where=rel.kind in ("cross", "inner"))
        give_back(right, foreign)
        if right.joined:
            right_source = made(f"({right_source})", right_source)
    columns = {**left.columns, **right.columns}
    ctx.columns.update(columns)
    conditions = [] if condition is None else scalars.conjuncts(condition)
    select = Select(ctx, columns, joined=True, where=[*left_where, *right_where])
    asks = not ctx.dialect.subqueries_in_on and (
        any(each.subquery for each in conditions)
        or is_volatile(condition)
        or not {field.id for field in rel.fields}.issuperset(column_ids(condition))
    )
    if rel.kind in ("cross", "inner") and (rel.lateral or asks or not conditions):
        select.source = made(f"{left_source} CROSS JOIN {right_source}", left_source, right_source)
        select.where += conditions
        return select
    word = "JOIN" if rel.kind in ("cross", "inner") else f"{rel.kind.upper()} JOIN"
    on = listed(conditions, " AND ") if conditions else "TRUE"
    select.source = made(f"{left_source} {word} {right_source} ON {on}", left_source, right_source, *conditions)
    return select


def _matches_in_python(scalars: Scalars, rel: ir.Join) -> bool:
    """Whether a function in Python, or one with another value each time, says which rows of both sides match."""
    left = {field.id for field in rel.left.fields}
    if rel.condition is not None and (
        is_volatile(rel.condition) or is_of_both(scalars.calls_python, rel.condition, left)
    ):
        return True
    below = rel.right
    while isinstance(below, ir.Project | ir.Sort) or (isinstance(below, ir.Filter) and rel.lateral):
        if isinstance(below, ir.Filter) and depends_in_python(scalars.calls_python, below):
            return True
        below = below.input
    return False


def _in_two(rel: ir.Join, ctx: Context) -> ir.Rel:
    """A full join as a left one, and the rows of the right side that match none. 0A000 where doing it twice would give
    other rows."""
    if rel.condition is None or is_volatile(rel):
        raise ctx.unsupported("this FULL JOIN")
    matching = ir.Filter(input=rel.left, condition=rel.condition, fields=rel.left.fields)
    no_match = ir.Exists(rel=matching, negated=True, type=SqlType(BOOL))
    alone = ir.Filter(input=rel.right, condition=no_match, fields=rel.right.fields)
    exprs: tuple[ir.Scalar, ...] = (
        *(ir.Literal(value=None, type=field.type) for field in rel.left.fields),
        *(ir.ColumnRef(id=field.id, type=field.type) for field in rel.right.fields),
    )
    fields = tuple([replace(field, id=ctx.new_id()) for field in rel.fields])
    rest = ir.Project(input=alone, exprs=exprs, fields=fields)
    return ir.SetOperation(op="union", all=True, left=replace(rel, kind="left"), right=rest, fields=rel.fields)


def _with_collected_rows(relations: RelationLowering, rel: ir.Join) -> Select:
    """A left or right join as each row of one side with the list of those that match it, which is then expanded."""
    ctx, scalars = relations.ctx, relations.scalars
    outer, inner = (rel.left, rel.right) if rel.kind == "left" else (rel.right, rel.left)
    select = relations.wrap(relations.build(outer))
    matching = inner if rel.condition is None else ir.Filter(input=inner, condition=rel.condition, fields=inner.fields)
    rows, listed_rows, joined = ctx.alias(), ctx.alias(), ctx.alias()
    found = scalars.relations.subquery(matching)
    members = ctx.dialect.struct([(f"c{field.id}", f"{rows}.c{field.id}") for field in inner.fields] or [("n", "1")])
    collected = made(f"(SELECT collect_list({members}) FROM ({found}) AS {rows})", found)
    outputs = [(fragment, f"c{id}") for id, fragment in select.columns.items()]
    beside = derived(select.render([*outputs, (collected, "m")]), listed_rows)
    names = [f"{listed_rows}.c{id} AS c{id}" for id in select.columns]
    expanded = made(f"SELECT {', '.join([*names, f'explode_outer({listed_rows}.m) AS z'])} FROM {beside}", beside)
    columns = {id: column(joined, f"c{id}") for id in select.columns}
    columns |= {field.id: column(joined, f"z.c{field.id}") for field in inner.fields}
    ctx.columns.update(columns)
    return Select(ctx, columns, derived(expanded, joined))


def _computed_first(
    relations: RelationLowering, select: Select, rel: ir.Rel, condition: ir.Scalar | None
) -> tuple[Select, ir.Scalar | None]:
    """One side of an outer join, with a column for each subquery of the join's condition that depends on this side
    alone; and the condition with these columns."""
    ids = {field.id for field in rel.fields}
    columns: dict[int, Fragment] = {}

    def held(node: object) -> object | None:
        if not isinstance(node, (ir.ScalarSubquery, ir.Exists, ir.ArraySubquery)):
            return None
        given = {inner.id for inner in walk(node.rel) if isinstance(inner, ir.ColumnRef)}
        own = {field.id for inner in walk(node.rel) for field in getattr(inner, "fields", ())}
        if not given - own or not given - own <= ids:
            return None
        place = ir.ColumnRef(id=relations.ctx.new_id(), type=node.type)
        columns[place.id] = relations.scalars.lower(node)
        return place

    relations.ctx.columns.update(select.columns)
    changed = condition if condition is None else transform(condition, held)
    if not columns:
        return select, condition
    if not select.plain():
        select = relations.wrap(select)
        return _computed_first(relations, select, rel, condition)
    select.columns = {**select.columns, **columns}
    return relations.wrap(select), changed


def _is_over_lists(rel: ir.Rel) -> bool:
    """Whether a right side has no more than conditions and expressions over set-returning functions."""
    if not isinstance(rel, ir.Project | ir.Filter):
        return False
    below = rel.input
    return isinstance(below, ir.FunctionScan) or _is_over_lists(below)


def _pulled_up(rel: ir.Join) -> ir.Rel:
    """An inner join with a condition or expressions over something as these over the join with that."""
    right = rel.right
    assert isinstance(right, ir.Project | ir.Filter)
    below: ir.Rel = replace(
        rel, kind="cross", right=right.input, condition=None, fields=rel.left.fields + right.input.fields
    )
    if isinstance(right, ir.Filter):
        below = ir.Filter(input=below, condition=right.condition, fields=below.fields)
    else:
        kept = tuple([ir.ColumnRef(id=field.id, type=field.type) for field in rel.left.fields])
        below = ir.Project(input=below, exprs=(*kept, *right.exprs), fields=rel.left.fields + right.fields)
    if rel.condition is None:
        return below
    return ir.Filter(input=below, condition=rel.condition, fields=below.fields)


def _side(select: Select, *, keep_where: bool) -> tuple[Fragment, list[Fragment]]:
    """One side of a join as a FROM item, and the conditions that move to the join's WHERE."""
    if select.plain() and select.source is not None and select.refers_only() and (keep_where or not select.where):
        return select.source, select.where
    return select.as_source(), []


def _lateral_side(select: Select) -> Fragment:
    """A right side that refers to the left one."""
    wrapped = select.wrapped()
    assert wrapped.source is not None
    select.columns, select.joined = wrapped.columns, False
    return made(f"LATERAL {wrapped.source}", wrapped.source)


def _expands(rel: ir.Join) -> bool:
    """Whether a lateral join is no more than unnesting the lists of set-returning functions."""
    assert isinstance(rel.right, ir.FunctionScan)
    if not all(call.signature.kind is Kind.SET_RETURNING for call in rel.right.functions):
        return False
    always = rel.condition is None or (isinstance(rel.condition, ir.Literal) and rel.condition.value is True)
    return rel.kind in ("cross", "inner") or (rel.kind == "left" and always)
