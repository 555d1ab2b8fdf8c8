"""GROUP BY and DISTINCT."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from planner.ir import nodes as ir
from planner.ir.physical import element_type
from planner.ir.rewrite import column_ids, is_correlated, is_volatile, outermost_relations
from planner.lowering.fragments.fragment import Fragment, listed, made
from planner.lowering.fragments.row_order import in_order_by_columns
from planner.lowering.relations.foreign import looks_foreign
from planner.lowering.relations.inlining import inlinable
from planner.lowering.relations.many_sets import by_set_number, has_many_sets
from planner.lowering.relations.protocols import RelationLowering
from planner.lowering.relations.select import Select
from planner.lowering.relations.windows import distinct_on
from planner.lowering.scalars.aggregates import aggregate, computes_arrays, where_counted
from planner.lowering.scalars.collected import COLLECTED
from planner.types.types import BOOL, INT4, SqlType, is_wide


def grouped(relations: RelationLowering, rel: ir.Aggregate) -> Select:
    """GROUP BY with its aggregates."""
    ctx, scalars = relations.ctx, relations.scalars
    if rel.grouping_sets and not rel.keys:
        return relations.build(_totals(rel, len(rel.grouping_sets)))
    totals = rel.grouping_sets and not all(rel.grouping_sets)
    many = has_many_sets(rel)
    if totals and (many or not ctx.dialect.totals_of_nothing) and rel.fields[0].id not in ctx.totalled:
        ctx.totalled.add(rel.fields[0].id)
        return relations.build(_with_totals_of_nothing(rel, ctx.new_id))
    if many:
        return relations.build(by_set_number(rel, ctx.new_id))
    rel = _with_rows_in_order(rel, ctx.new_id)
    inside = frozenset(field.id for field in rel.input.fields)
    asks = not ctx.dialect.aggregated_subqueries and _asks_any(rel.calls, inside)
    if asks:
        rel = _with_columns_below(rel, ctx.new_id, inside)
    elif not ctx.dialect.aggregated_subqueries:
        asks = any(_asks_any(each.exprs, frozenset(field.id for field in each.input.fields)) for each in _lists(rel))
    enclosing, start = dict(ctx.scans), ctx.aliases
    select = relations.build(rel.input)
    if select.source is None and select.set_operation is None and not is_correlated(rel):
        # Spark's tasks fail on a query of one row without FROM in an argument of a function in Python.
        select.source = None if ctx.dialect.row_source is None else Fragment(ctx.dialect.row_source)
    expressions = (
        *rel.keys,
        *(arg for call in rel.calls for arg in (*call.args, *(key.expr for key in call.order_by))),
        *(call.filter for call in rel.calls if call.filter is not None),
    )
    if (
        asks
        or not select.plain()
        or not inlinable(select, expressions)
        or any(looks_foreign(call, select, start) for call in rel.calls)
    ):
        select = relations.wrap(select)
    select, calls = _with_columns(relations, select, rel.calls)
    keys = [scalars.typed(key, field.type) for key, field in zip(rel.keys, rel.fields, strict=False)]
    computed = {
        index: key
        for index, key in enumerate(keys)
        if key.alias is None or (rel.grouping_sets is not None and key in keys[:index])
    }
    if computed:
        select.columns = {**select.columns, **{rel.fields[index].id: key for index, key in computed.items()}}
        select = relations.wrap(select)
        keys = [
            select.columns[field.id] if index in computed else scalars.typed(key, field.type)
            for index, (key, field) in enumerate(zip(rel.keys, rel.fields, strict=False))
        ]
    compared = [scalars.same(value, key.type) for value, key in zip(keys, rel.keys, strict=True)]
    if rel.grouping_sets is not None and compared != keys:
        # Spark finds an expression of grouping() only where the query is not part of another one.
        fields = rel.fields[: len(keys)]
        ids = [
            field.id if same is key else ctx.new_id() for field, key, same in zip(fields, keys, compared, strict=True)
        ]
        own = {field.id: key for field, key in zip(fields, keys, strict=True)}
        select.columns = {**select.columns, **dict(zip(ids, compared, strict=True)), **own}
        select = relations.wrap(select)
        keys = [select.columns[field.id] for field in fields]
        compared = [select.columns[id] for id in ids]
    columns: dict[int, Fragment] = {}
    for field, value, same in zip(rel.fields, keys, compared, strict=False):
        # Equal values may be written differently: any one of the group stands for it.
        columns[field.id] = value if same is value else made(f"first({value})", value)
        if same is not value and rel.grouping_sets is not None:
            columns[field.id] = made(f"CASE WHEN grouping({same}) = 0 THEN first({value}) END", same, value)
    for field, call in zip(rel.fields[len(keys) :], calls, strict=False):
        columns[field.id] = aggregate(scalars, _of_counted_rows(call))
    for field, grouping in zip(rel.fields[len(keys) + len(rel.calls) :], rel.groupings, strict=True):
        told = [compared[index] for index in grouping]
        # Without grouping sets a key is in every group.
        columns[field.id] = scalars.literal(0, SqlType(INT4))
        if rel.grouping_sets:
            bits = ctx.dialect.grouping([key.sql for key in told])
            if totals and ctx.dialect.totals_of_nothing:
                # DuckDB says NULL of the total of no rows, where it has to work it out for each row of a query around.
                bits = f"coalesce({bits}, {(1 << len(told)) - 1})"
            columns[field.id] = made(bits, *told)
    if rel.grouping_sets is not None:
        select.group_by = _grouping_sets(rel.grouping_sets, compared)
        select.tells_grouping = bool(rel.groupings) or compared != keys
    else:
        select.group_by = made(", ".join(dict.fromkeys([key.sql for key in compared])), *compared)
    if not keys:
        select.whole = list(columns.values())
    select.columns = columns
    ctx.scans = enclosing
    return select


def _lists(rel: ir.Aggregate) -> Iterator[ir.Project]:
    """The select lists whose expressions may become those of an aggregation over them."""
    below = rel.input
    while isinstance(below, ir.Project | ir.Filter):
        if isinstance(below, ir.Project):
            yield below
        below = below.input


def _with_rows_in_order(rel: ir.Aggregate, new_id: Callable[[], int]) -> ir.Aggregate:
    """Aggregates that collect rows as they come with an ORDER BY that says how they come, where that is known."""

    def takes_rows_as_they_come(call: ir.AggregateCall) -> bool:
        return call.signature.name in COLLECTED and not call.order_by and not call.distinct

    ordered = in_order_by_columns(rel.input, new_id) if any(map(takes_rows_as_they_come, rel.calls)) else None
    if ordered is None or not ordered[1]:
        return rel
    input, keys = ordered
    calls = tuple([replace(call, order_by=keys) if takes_rows_as_they_come(call) else call for call in rel.calls])
    return replace(rel, input=input, calls=calls)


def _totals(rel: ir.Aggregate, count: int) -> ir.Rel:
    """As many totals of all rows as there are grouping sets, all of them empty."""
    total: ir.Rel = replace(rel, grouping_sets=None)
    for _ in range(count - 1):
        total = ir.SetOperation(
            op="union", all=True, left=total, right=replace(rel, grouping_sets=None), fields=rel.fields
        )
    return total


def _with_totals_of_nothing(rel: ir.Aggregate, new_id: Callable[[], int]) -> ir.Rel:
    """Grouping sets with an empty one, for an engine that gives it no row where there are no rows: those rows are
    united with the grouping sets' where the input is empty."""
    assert rel.grouping_sets is not None
    table = ir.CommonTable(id=new_id(), name="grouped", rel=rel.input)
    scan = ir.CteScan(cte=table.id, fields=rel.input.fields)
    boolean = SqlType(BOOL)
    none = ir.Filter(input=scan, condition=ir.Literal(value=False, type=boolean), fields=scan.fields)
    computed = rel.fields[len(rel.keys) : len(rel.keys) + len(rel.calls)]
    total: ir.Rel = ir.Aggregate(input=none, keys=(), calls=rel.calls, fields=computed)
    # GROUPING() of keys that the empty set leaves out: a bit for each.
    told = [ir.Literal(value=(1 << len(keys)) - 1, type=SqlType(INT4)) for keys in rel.groupings]
    exprs: tuple[ir.Scalar, ...] = (
        *(ir.Literal(value=None, type=field.type) for field in rel.fields[: len(rel.keys)]),
        *(ir.ColumnRef(id=field.id, type=field.type) for field in computed),
        *told,
    )
    fields = tuple([replace(field, id=new_id()) for field in rel.fields])
    total = ir.Project(input=total, exprs=exprs, fields=fields)
    missing = ir.Exists(rel=scan, negated=True, type=boolean)
    total = ir.Filter(input=total, condition=missing, fields=fields)
    body: ir.Rel = replace(rel, input=scan)
    for _ in range(sum(1 for keys in rel.grouping_sets if not keys)):
        body = ir.SetOperation(op="union", all=True, left=body, right=total, fields=rel.fields)
    return ir.With(tables=(table,), body=body, fields=rel.fields)


def _with_columns(
    relations: RelationLowering, select: Select, calls: tuple[ir.AggregateCall, ...]
) -> tuple[Select, tuple[ir.AggregateCall, ...]]:
    """What engines take from columns only as columns first. Volatile expressions in aggregates: an aggregate's template
    may name an argument twice, and Spark aggregates nothing that is volatile. WITHIN GROUP (ORDER BY a constant): an
    engine that orders by no constant, or computes one too early, would not know the value. Computed numerics that are
    held as texts: their aggregates look at each a dozen times. Keys of an order that are made of arrays
    (`computes_arrays`), and what other arrays are ordered by. Conditions with a query in them, where an argument has to
    look at them as well."""
    scalars = relations.scalars

    def by_lists(call: ir.AggregateCall, key: ir.SortKey) -> bool:
        """Whether it is an array that an engine orders by something else, which it makes in a lambda."""
        type = key.expr.type
        if call.distinct or call.signature.ordered_set or not relations.ctx.dialect.ordered_aggregates:
            return False
        return element_type(type) is not None and not scalars.orders_as_is(type)

    if not any(
        is_volatile(call) or _ordered_keys(call) or _computed_args(call) or _asks(call)
        or any(by_lists(call, key) for key in call.order_by)
        for call in calls
    ):  # fmt: skip
        return select, calls
    columns: dict[int, Fragment] = {}

    def ordered_by(call: ir.AggregateCall, key: ir.SortKey, args: Sequence[ir.Scalar]) -> ir.SortKey:
        expr = where_counted(call.filter, key.expr)
        if call.distinct and key.expr in call.args:
            # What is told apart is ordered by itself only.
            return replace(key, expr=args[call.args.index(key.expr)])
        if not by_lists(call, key):
            return replace(key, expr=computed(expr, needed=key in _ordered_keys(call)))
        id = relations.ctx.new_id()
        columns[id] = scalars.key(scalars.typed(expr, expr.type), expr.type)
        # NOTE: of a type that is ordered as it is: it is the key already.
        return replace(key, expr=ir.ColumnRef(id=id, type=SqlType(INT4)))

    def computed(expr: ir.Scalar, *, needed: bool = False) -> ir.Scalar:
        if not needed and not is_volatile(expr):
            return expr
        id = relations.ctx.new_id()
        columns[id] = relations.scalars.typed(expr, expr.type)
        return ir.ColumnRef(id=id, type=expr.type)

    def with_columns(call: ir.AggregateCall) -> ir.AggregateCall:
        args = tuple([
            computed(where_counted(call.filter, arg), needed=arg in _computed_args(call)) for arg in call.args
        ])  # fmt: skip
        return replace(
            call,
            args=args,
            order_by=tuple([ordered_by(call, key, args) for key in call.order_by]),
            filter=None if call.filter is None else computed(call.filter, needed=_asks(call)),
        )

    changed = tuple([with_columns(call) for call in calls])
    select.columns = {**select.columns, **columns}
    return relations.wrap(select), changed


def _asks_any(expr: object, own: frozenset[int]) -> bool:
    """Whether there is a subquery in it, or a column that is not among `own`, but of a query around it."""
    return next(outermost_relations(expr), None) is not None or not own.issuperset(column_ids(expr))


def _with_columns_below(rel: ir.Aggregate, new_id: Callable[[], int], own: frozenset[int]) -> ir.Aggregate:
    """What aggregates ask subqueries or rows outside for as columns of their input, for an engine whose aggregates ask
    none: conditions first, for an argument is computed of those rows alone that they let through."""
    columns: list[tuple[ir.Scalar, ir.Field]] = []

    def column(expr: ir.Scalar) -> ir.Scalar:
        field = next((field for known, field in columns if known == expr), None)
        if field is None:
            field = ir.Field(id=new_id(), name="asked", type=expr.type)
            columns.append((expr, field))
        return ir.ColumnRef(id=field.id, type=field.type)

    def below(input: ir.Rel) -> ir.Rel:
        kept = tuple([ir.ColumnRef(id=field.id, type=field.type) for field in input.fields])
        exprs, fields = zip(*columns, strict=True)
        return ir.Project(input=input, exprs=(*kept, *exprs), fields=(*input.fields, *fields))

    calls = [
        replace(call, filter=column(call.filter)) if call.filter is not None and _asks_any(call.filter, own) else call
        for call in rel.calls
    ]
    input = below(rel.input) if columns else rel.input
    columns.clear()

    def of_counted(call: ir.AggregateCall, expr: ir.Scalar) -> ir.Scalar:
        return column(where_counted(call.filter, expr)) if _asks_any(expr, own) else expr

    calls = [
        replace(
            call,
            args=tuple([of_counted(call, arg) for arg in call.args]),
            order_by=tuple([replace(key, expr=of_counted(call, key.expr)) for key in call.order_by]),
        )
        for call in calls
    ]
    return replace(rel, calls=tuple(calls), input=below(input) if columns else input)


def _asks(call: ir.AggregateCall) -> bool:
    """Whether FILTER has a query in it, and an argument is computed, of rows that it leaves out too."""
    computes = any(not isinstance(arg, (ir.ColumnRef, ir.Literal)) for arg in call.args)
    return computes and next(outermost_relations(call.filter), None) is not None


def _of_counted_rows(call: ir.AggregateCall) -> ir.AggregateCall:
    if call.filter is None or call.signature.ordered_set:
        return call
    return replace(
        call,
        args=tuple([where_counted(call.filter, arg) for arg in call.args]),
        order_by=tuple([replace(key, expr=where_counted(call.filter, key.expr)) for key in call.order_by]),
    )


def _computed_args(call: ir.AggregateCall) -> list[ir.Scalar]:
    """The arguments that are to be columns: numerics held as texts, and arrays that are collected in an order. Not with
    a volatile FILTER, which would be asked twice."""
    if call.filter is not None and is_volatile(call.filter):
        return []
    ordered = bool(call.order_by) and not call.distinct and not call.signature.ordered_set
    return [
        arg
        for arg in call.args
        if not isinstance(arg, (ir.ColumnRef, ir.Literal)) and (is_wide(arg.type) or (ordered and computes_arrays(arg)))
    ]


def _ordered_keys(call: ir.AggregateCall) -> list[ir.SortKey]:
    """The keys that are to be columns: those of an ordered-set aggregate, which no row may decide (as `enum_first(c)`),
    and those that are made of arrays. Not with DISTINCT, whose keys must be its arguments as they are written."""
    if call.distinct:
        return []
    return [
        key
        for key in call.order_by
        if computes_arrays(key.expr) or (call.signature.ordered_set and not isinstance(key.expr, ir.ColumnRef))
    ]


def _grouping_sets(sets: Sequence[Sequence[int]], keys: Sequence[Fragment]) -> Fragment:
    texts = [f"({listed([keys[index] for index in chosen])})" for chosen in sets]
    return made(f"GROUPING SETS ({', '.join(texts)})", *keys)


def deduplicated(relations: RelationLowering, rel: ir.Deduplicate) -> Select:
    """DISTINCT and DISTINCT ON."""
    if not rel.on and not all(relations.scalars.compares_as_is(field.type) for field in rel.fields):
        columns = tuple([ir.ColumnRef(id=field.id, type=field.type) for field in rel.fields])
        rel = replace(rel, on=columns)
    if rel.on:
        return distinct_on(relations, rel)
    select = relations.build(rel.input)
    if select.distinct or select.limited() or select.order_by or select.expanded or select.set_operation:
        select = relations.wrap(select)
    select.distinct = True
    return select
