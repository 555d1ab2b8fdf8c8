"""Window calls, and what is said with row numbers: DISTINCT ON, FETCH FIRST ... WITH TIES, and INTERSECT and EXCEPT of
values that engines tell apart where PostgreSQL does not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal

from msgspec.structs import replace

from planner.dialects.time_zones import is_utc
from planner.errors import DataException, NullValueNotAllowed
from planner.functions import registry
from planner.functions.forms.form import NOT_CONSTANT
from planner.ir import nodes as ir
from planner.ir.rewrite import outermost_relations, walk
from planner.lowering.fragments.fragment import Fragment, OrderKey, column, listed, made
from planner.lowering.fragments.row_order import WHOLE_PARTITION, in_order_by_columns, with_numbers
from planner.lowering.relations.exclusion import Places, excluding
from planner.lowering.relations.inlining import inlinable
from planner.lowering.relations.protocols import RelationLowering
from planner.lowering.relations.select import Select, derived
from planner.lowering.scalars.aggregates import apply_aggregate, computes_arrays, where_counted
from planner.lowering.scalars.collected import COLLECTED
from planner.lowering.scalars.scalars import Scalars
from planner.types import types
from planner.types.signature import Kind
from planner.types.types import SqlType, is_wide
from planner.values.datetimes.calendar_days import DAY_MICROS

_INTEGERS = frozenset({types.INT2, types.INT4, types.INT8})
_FRAMELESS = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead"})
_OF_PLACES = frozenset({"row_number", "ntile", "lag", "lead"})
_OF_FIRST_ROWS = frozenset({"first_value", "last_value", "nth_value"}) | COLLECTED
_NULL_PASSED_OVER = frozenset({"count", "sum", "avg", "min", "max", "bool_and", "bool_or", "every"})
_BOUNDS = {
    "unbounded_preceding": "UNBOUNDED PRECEDING", "current_row": "CURRENT ROW",
    "unbounded_following": "UNBOUNDED FOLLOWING",
}  # fmt: skip

MONTH_DAYS = 30


class InvalidPrecedingOrFollowingSize(DataException):
    """An offset of a frame that is negative or NaN."""

    sqlstate = "22013"


def windowed(relations: RelationLowering, rel: ir.Window) -> Select:
    """The input's columns and those of window calls."""
    rel = _with_rows_in_order(relations, rel)
    for frame in {call.frame: None for call in rel.calls}:
        _check_offsets(relations.scalars, frame)
    rel = replace(rel, calls=tuple([_without_infinite(relations.scalars, call) for call in rel.calls]))
    places: Sequence[Places | None] = [None] * len(rel.calls)
    if not relations.ctx.dialect.frame_exclusion:
        rel, places = _with_numbered_rows(relations, rel)
    if not relations.ctx.dialect.group_frames:
        rel = _with_counted_groups(relations, rel)
    select = relations.build(rel.input)
    expressions = tuple([expr for call in rel.calls for expr in _expressions(call)])
    if (
        select.distinct or select.limited() or select.windowed or select.expanded or select.set_operation
        or select.group_by is not None or select.order_by or not inlinable(select, expressions)
    ):  # fmt: skip
        select = relations.wrap(select)
    calls = rel.calls
    if not relations.ctx.dialect.volatile_window_keys:
        select, calls = _with_stable_keys(relations, select, calls)
    computed = {
        field.id: _window_call(relations.scalars, call, place)
        for field, call, place in zip(rel.fields[len(rel.input.fields) :], calls, places, strict=True)
    }
    select.columns = {**select.columns, **computed}
    select.windowed = True
    return select


def _with_counted_groups(relations: RelationLowering, rel: ir.Window) -> ir.Window:
    """`rel` without frames in GROUPS mode: those that count groups are ranges of the numbers that dense_rank gives
    these; the others are ranges as they are."""
    numbers = _Numbers(relations, rel)
    calls = []
    for call in rel.calls:
        if call.frame.mode == "groups":
            call = replace(call, frame=replace(call.frame, mode="range"))
            if _offsets(call.frame):
                key = ir.SortKey(expr=numbers.of("dense_rank", call), descending=False, nulls_first=False)
                call = replace(call, order_by=(key,))
        calls.append(call)
    return numbers.before(calls)


def _with_numbered_rows(relations: RelationLowering, rel: ir.Window) -> tuple[ir.Window, list[Places | None]]:
    """`rel` with numbers of the rows below it, and where those are that each of its calls needs for its EXCLUDE."""
    numbers = _Numbers(relations, rel)
    places: list[Places | None] = []
    for call in rel.calls:
        if call.frame.exclude == "no_others" or _is_frameless(call):
            places.append(None)
            continue
        group = None if call.frame.exclude == "current_row" else numbers.of("dense_rank", call)
        places.append(Places(numbers.of("row_number", call), group))
    return numbers.before(rel.calls), places


class _Numbers:
    """Ranks and numbers of rows that calls of a window need in columns below it."""

    def __init__(self, relations: RelationLowering, rel: ir.Window) -> None:
        self.relations, self.rel = relations, rel
        self.calls: list[ir.WindowCall] = []
        self.fields: list[ir.Field] = []

    def of(self, name: str, call: ir.WindowCall) -> ir.ColumnRef:
        """The column of what the function `name` gives in the window of `call`."""
        (signature,) = registry.window_functions(name)
        field = ir.Field(id=self.relations.ctx.new_id(), name="n", type=SqlType(types.INT8))
        self.fields.append(field)
        self.calls.append(
            replace(call, signature=signature, args=(), type=field.type, frame=WHOLE_PARTITION, filter=None)
        )
        return ir.ColumnRef(id=field.id, type=field.type)

    def before(self, calls: Sequence[ir.WindowCall]) -> ir.Window:
        """The window with `calls` in the place of its own, above one that has the columns."""
        inner, results = self.rel.input, self.rel.fields[len(self.rel.input.fields) :]
        if self.calls:
            inner = ir.Window(input=inner, calls=tuple(self.calls), fields=(*inner.fields, *self.fields))
        return ir.Window(input=inner, calls=tuple(calls), fields=(*inner.fields, *results))


def _is_frameless(call: ir.WindowCall) -> bool:
    return call.signature.name in _FRAMELESS and call.signature.kind is Kind.WINDOW


def _expressions(call: ir.WindowCall) -> Iterator[ir.Scalar]:
    yield from call.args
    yield from call.partition_by
    for key in call.order_by:
        yield key.expr
    if call.filter is not None:
        yield call.filter


def _with_stable_keys(
    relations: RelationLowering, select: Select, calls: tuple[ir.WindowCall, ...]
) -> tuple[Select, tuple[ir.WindowCall, ...]]:
    """DuckDB partitions and orders by nothing that it takes for volatile, which includes whatever may raise an error of
    ours, nor by subqueries with ordered aggregates or by some functions of arrays (`computes_arrays`): such keys become
    columns first. So do subqueries in arguments,
    which it cannot copy where the window stands in a subquery that depends on the rows outside."""
    columns: dict[int, Fragment] = {}

    def stable(expr: ir.Scalar) -> ir.Scalar:
        key = relations.scalars.lower(expr)
        if not key.may_raise and not key.volatile and not key.subquery and not computes_arrays(expr):
            return expr
        return placed(expr, key)

    def outside(expr: ir.Scalar) -> ir.Scalar:
        if next(outermost_relations(expr), None) is None:
            return expr
        return placed(expr, relations.scalars.lower(expr))

    def placed(expr: ir.Scalar, key: Fragment) -> ir.Scalar:
        id = relations.ctx.new_id()
        columns[id] = key
        return ir.ColumnRef(id=id, type=expr.type)

    stabilized = tuple([
        replace(
            call,
            args=tuple([outside(arg) for arg in call.args]),
            filter=None if call.filter is None else outside(call.filter),
            partition_by=tuple([stable(expr) for expr in call.partition_by]),
            order_by=tuple([replace(key, expr=stable(key.expr)) for key in call.order_by]),
        )
        for call in calls
    ])  # fmt: skip
    if not columns:
        return select, calls
    select.columns = {**select.columns, **columns}
    return relations.wrap(select), stabilized


# ---------------------------------------------------------------- one call


def _with_rows_in_order(relations: RelationLowering, rel: ir.Window) -> ir.Window:
    """Functions that take rows as they come with an ORDER BY that says how they come, where that is known."""

    def takes_rows_as_they_come(call: ir.WindowCall) -> bool:
        if call.order_by or call.frame.exclude in ("group", "ties"):
            return False
        name = call.signature.name
        return name in _OF_PLACES or name in _OF_FIRST_ROWS or (call.frame.mode == "rows" and name not in _FRAMELESS)

    def ordered_by(call: ir.WindowCall, keys: tuple[ir.SortKey, ...]) -> ir.WindowCall:
        # Without ORDER BY all rows of a partition are peers, and a frame that is not of ROWS has them all.
        frame = call.frame if call.frame.mode == "rows" else replace(WHOLE_PARTITION, exclude=call.frame.exclude)
        return replace(call, order_by=keys, frame=frame)

    if not any(map(takes_rows_as_they_come, rel.calls)):
        return rel
    ordered = in_order_by_columns(rel.input, relations.ctx.new_id)
    if ordered is None:
        if rel.in_order and not relations.ctx.dialect.unordered_ranks:
            raise relations.ctx.unsupported("numbering rows as they come")
        return rel
    input, keys = ordered
    calls = tuple([ordered_by(call, keys) if takes_rows_as_they_come(call) else call for call in rel.calls])
    return replace(rel, input=input, calls=calls, fields=(*input.fields, *rel.fields[len(rel.input.fields) :]))


def _window_call(scalars: Scalars, call: ir.WindowCall, places: Places | None) -> Fragment:
    """A window call. An aggregate's template is used with OVER (...) in the place of its FILTER. `places` are there for
    an EXCLUDE that the engine does not know."""
    dialect = scalars.ctx.dialect
    call = replace(call, args=tuple([where_counted(call.filter, arg) for arg in call.args]))
    words: list[str] = []
    parts: list[Fragment] = []
    if call.partition_by:
        keys = [scalars.same(scalars.lower(key), key.type) for key in call.partition_by]
        words.append(f"PARTITION BY {listed(keys)}")
        parts += keys
    order = scalars.relations.order_keys(call.order_by)
    if not order and call.frame.mode == "range" and _offsets(call.frame):
        # A frame is measured from a constant, too.
        (only,) = call.order_by
        key = scalars.key(scalars.lower(only.expr), only.expr.type)
        order = [OrderKey(key, only.descending, only.nulls_first)]
    if order:
        keys = [key.key for key in order]
        as_moments = call.frame.mode == "range" and _offsets(call.frame) and _counts_time_of_dates(scalars, call)
        shown = [f"CAST({key} AS TIMESTAMP)" if as_moments else key.sql for key in keys]
        if call.frame.mode == "range" and _offsets(call.frame):
            shown = [_with_room(scalars, call.order_by[0].expr.type, shown[0])]
        ordered = ", ".join([sql + key.suffix for sql, key in zip(shown, order, strict=True)])
        words.append(f"ORDER BY {ordered}")
        parts += keys
    elif (call.signature.name in _FRAMELESS or call.signature.name == "nth_value") and not dialect.unordered_ranks:
        words.append("ORDER BY 0")
    if not _is_frameless(call):
        frame = _frame(scalars, call, ordered=bool(order))
        if frame.sql:
            words.append(frame.sql)
            parts.append(frame)
    over = made(f" OVER ({' '.join(words)})", *parts)
    if places is not None:
        return excluding(scalars, call, over, places)
    args = _alike(call)
    if call.filter is not None:
        if dialect.filtered_windows:
            condition = scalars.lower(call.filter)
            over = made(f" FILTER (WHERE {condition}){over}", condition, over)
        else:
            args = _filtered(scalars, call, args)
            if not args:
                condition = scalars.lower(call.filter)
                return made(f"count(CASE WHEN {condition} THEN 1 END){over}", condition, over)
    return apply_aggregate(scalars, ir.AggregateCall(signature=call.signature, args=args, type=call.type), over)


def _with_room(scalars: Scalars, type: SqlType, key: str) -> str:
    """The key of a frame that is measured from it, which may end beyond the numbers of the key's type. Raises 0A000 for
    numbers that are held as texts."""
    if is_wide(type):
        raise scalars.ctx.unsupported("a window frame that is measured in numerics without a declared scale")
    if type.oid == types.TIME:
        # A frame does not go on behind midnight.
        return scalars.ctx.dialect.moment_of_micros(scalars.ctx.dialect.time_micros(key), types.TIMESTAMP)
    if type.oid not in _INTEGERS or scalars.ctx.engine != "local":
        return key
    return f"CAST({key} AS {'HUGEINT' if type.oid == types.INT8 else 'BIGINT'})"


def _alike(call: ir.WindowCall) -> tuple[ir.Scalar, ...]:
    """The arguments; of lag and lead, the value and the default in the one shape that holds both."""
    if call.signature.name not in ("lag", "lead") or call.type.shape is None or len(call.args) < 3:
        return call.args
    value, offset, default = call.args
    return (ir.Cast(arg=value, type=call.type), offset, ir.Cast(arg=default, type=call.type))


def _filtered(scalars: Scalars, call: ir.WindowCall, args: tuple[ir.Scalar, ...]) -> tuple[ir.Scalar, ...]:
    """Arguments in the place of FILTER: one that is NULL is not aggregated."""
    if call.signature.name not in _NULL_PASSED_OVER:
        raise scalars.ctx.unsupported(f"FILTER with OVER for aggregate {call.signature.name}")
    assert call.filter is not None
    return tuple([ir.Case(whens=((call.filter, arg),), otherwise=None, type=arg.type) for arg in args])


def _offsets(frame: ir.Frame) -> list[ir.Scalar]:
    return [bound.offset for bound in (frame.start, frame.end) if bound.offset is not None]


def _counts_time_of_dates(scalars: Scalars, call: ir.WindowCall) -> bool:
    """Whether a frame is measured in time over a key of dates, which the engine does over timestamps only."""
    if len(call.order_by) != 1 or call.order_by[0].expr.type.oid != types.DATE:
        return False
    lengths = [scalars.constant(offset) for offset in _offsets(call.frame)]
    return not scalars.ctx.dialect.dates_in_months or any(
        isinstance(length, ir.Interval) and not length.months for length in lengths
    )


def _frame(scalars: Scalars, call: ir.WindowCall, *, ordered: bool) -> Fragment:
    """The frame's clause, or nothing for what is the default."""
    dialect, frame = scalars.ctx.dialect, call.frame
    default = frame.mode == "range" and frame.start.kind == "unbounded_preceding" and frame.end.kind == "current_row"
    if default and (frame.exclude == "no_others" or not dialect.frame_exclusion):
        return Fragment("")
    if frame.mode == "range" and not ordered and not dialect.unordered_ranges:
        return Fragment("ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING")
    kept = frame.exclude == "no_others" or not dialect.frame_exclusion
    exclude = "" if kept else f" EXCLUDE {frame.exclude.upper().replace('_', ' ')}"
    # Intervals are ordered by how long they are (`Dialect.interval_key`).
    as_lengths = frame.mode == "range" and any(key.expr.type.oid == types.INTERVAL for key in call.order_by)
    start = _bound(scalars, call, frame.start, as_lengths=as_lengths)
    end = _bound(scalars, call, frame.end, as_lengths=as_lengths)
    return made(f"{frame.mode.upper()} BETWEEN {start} AND {end}{exclude}", start, end)


def _bound(scalars: Scalars, call: ir.WindowCall, bound: ir.FrameBound, *, as_lengths: bool) -> Fragment:
    fixed = _BOUNDS.get(bound.kind)
    if fixed is not None:
        return Fragment(fixed)
    assert bound.offset is not None
    on_clock = _offset_on_clock(scalars, call, bound)
    offset = _offset(scalars, bound.offset, as_lengths=as_lengths) if on_clock is None else on_clock
    return made(f"{offset} {'PRECEDING' if bound.kind == 'offset_preceding' else 'FOLLOWING'}", offset)


def _offset_on_clock(scalars: Scalars, call: ir.WindowCall, bound: ir.FrameBound) -> Fragment | None:
    """An offset of days or months from a timestamptz, which are those of the session's time zone: how long they take
    from each row; None for others. Raises 0A000 where the engine has no such offsets."""
    ctx = scalars.ctx
    assert bound.offset is not None
    length = scalars.constant(bound.offset)
    if call.frame.mode != "range" or not isinstance(length, ir.Interval) or not (length.days or length.months):
        return None
    (key,) = call.order_by
    if key.expr.type.oid != types.TIMESTAMPTZ or is_utc(ctx.settings.timezone):
        return None
    if not ctx.dialect.computed_frame_offsets:
        raise ctx.unsupported("a window frame in days or months of a time zone")
    sign = "-" if (bound.kind == "offset_preceding") is not key.descending else "+"
    (shift,) = [each for each in registry.operators(sign) if each.args == (types.TIMESTAMPTZ, types.INTERVAL)]
    there = scalars.lower(ir.Call(signature=shift, args=(key.expr, bound.offset), type=key.expr.type))
    here = scalars.lower(key.expr)
    left, right = (here, there) if sign == "-" else (there, here)
    micros = [ctx.dialect.moment_micros(str(each), types.TIMESTAMPTZ) for each in (left, right)]
    none = ctx.dialect.micros_interval("0")
    taken = ctx.dialect.if_finite(str(here), ctx.dialect.micros_interval(f"({micros[0]} - {micros[1]})"), none)
    # Rows without a moment are each other's peers, whatever the offset is.
    return made(f"coalesce({taken}, {none})", here, there)


def _offset(scalars: Scalars, offset: ir.Scalar, *, as_lengths: bool) -> Fragment:
    ctx = scalars.ctx
    if isinstance(offset, ir.Cast) and {offset.type.oid, offset.arg.type.oid} <= _INTEGERS:
        offset = offset.arg
    if isinstance(offset, ir.Param) and ctx.params is None:
        # Asked whether the engine can run it at all: it can when the value is known.
        return Fragment("0")
    constant = scalars.constant(offset)
    if offset.type.oid != types.INTERVAL:
        if isinstance(constant, int) and not isinstance(constant, bool):
            return Fragment(str(constant))
        if constant is NOT_CONSTANT and not ctx.dialect.computed_frame_offsets:
            raise ctx.unsupported("a window frame whose offset is not constant")
        return scalars.lower(offset)
    if not isinstance(constant, ir.Interval):
        raise ctx.unsupported("a window frame whose interval is not constant")
    if as_lengths:
        return Fragment(str(_length(constant)))
    interval = ctx.dialect.frame_interval(constant)
    if interval is None:
        raise ctx.unsupported("a window frame with a mixed interval")
    return Fragment(interval)


def _check_offsets(scalars: Scalars, frame: ir.Frame) -> None:
    """Raises, where they are constant, 22004 for offsets that are NULL, 22013 for negative ones and NaN."""
    for word, bound in (("starting", frame.start), ("ending", frame.end)):
        constant = NOT_CONSTANT if bound.offset is None else scalars.constant(bound.offset)
        if constant is None:
            raise NullValueNotAllowed(f"frame {word} offset must not be null")
        if _is_no_size(constant):
            size = "invalid preceding or following size in window function"
            text = size if frame.mode == "range" else f"frame {word} offset must not be negative"
            raise InvalidPrecedingOrFollowingSize(text)


def _without_infinite(scalars: Scalars, call: ir.WindowCall) -> ir.WindowCall:
    """The call with infinite offsets of its frame as bounds that there are without: from each number they reach the
    first or the last of them, and from NaN and NULL their peers. So these are partitions of their own. Raises 0A000 for
    a frame that begins or ends behind infinity, and one that goes on to where NaN is."""
    frame = call.frame
    infinite = [
        bound.offset is not None
        and isinstance(constant := scalars.constant(bound.offset), (float, Decimal))
        and math.isinf(constant)
        for bound in (frame.start, frame.end)
    ]
    if frame.mode != "range" or not any(infinite):
        return call
    start, end = frame.start, frame.end
    if infinite[0] and start.kind == "offset_preceding":
        start = ir.FrameBound(kind="unbounded_preceding")
    if infinite[1] and end.kind == "offset_following":
        end = ir.FrameBound(kind="unbounded_following")
    if (infinite[0], infinite[1]) != (start is not frame.start, end is not frame.end) or (
        all(bound.kind.startswith("unbounded") for bound in (start, end)) and not all(infinite)
    ):
        raise scalars.ctx.unsupported("a window frame with such an infinite offset")
    key = call.order_by[0].expr
    (equals,) = [each for each in registry.operators("=") if each.args == (key.type.oid, key.type.oid)]
    nan: float | Decimal = Decimal("NaN") if key.type.oid == types.NUMERIC else math.nan
    is_nan = ir.Call(signature=equals, args=(key, ir.Literal(value=nan, type=key.type)), type=SqlType(types.BOOL))
    frame = replace(frame, start=start, end=end)
    return replace(call, frame=frame, partition_by=(*call.partition_by, is_nan))


def _is_no_size(constant: object) -> bool:
    if isinstance(constant, ir.Interval):
        return _length(constant) < 0
    return isinstance(constant, (int, float, Decimal)) and (math.isnan(constant) or constant < 0)


def _length(interval: ir.Interval) -> int:
    """The microseconds by which PostgreSQL compares an interval."""
    return (interval.months * MONTH_DAYS + interval.days) * DAY_MICROS + interval.micros


# ---------------------------------------------------------------- row numbers


def distinct_on(relations: RelationLowering, rel: ir.Deduplicate) -> Select:
    """DISTINCT ON: the first row of each group by a row number."""
    scalars = relations.scalars
    select = relations.wrap(relations.build(rel.input))
    keys = [scalars.same(scalars.lower(key), key.type) for key in rel.on]
    ordered = relations.order_keys(rel.order_by)
    order = ", ".join(map(str, ordered)) or listed(keys)
    number = f"row_number() OVER (PARTITION BY {listed(keys)} ORDER BY {order})"
    outer, alias = _numbered(
        relations, select, rel.fields, [(made(number, *keys, *[key.key for key in ordered]), "n")]
    )  # fmt: skip
    outer.where = [Fragment(f"{alias}.n = 1")]
    outer.order_by = relations.order_keys(rel.order_by)
    return outer


def with_ties(relations: RelationLowering, rel: ir.Limit) -> Select:
    """FETCH FIRST count ROWS WITH TIES: rank up to the last row's, row number past the offset."""
    scalars = relations.scalars
    if not isinstance(rel.input, ir.Sort):
        raise relations.ctx.unsupported("WITH TIES without ORDER BY")
    select = relations.wrap(relations.build(rel.input.input))
    ordered = relations.order_keys(rel.input.keys)
    keys, order = [key.key for key in ordered], ", ".join(map(str, ordered))
    count = Fragment("1") if rel.count is None else scalars.lower(rel.count)
    offset = Fragment("0") if rel.offset is None else scalars.lower(rel.offset)
    numbers = [
        (made(f"rank() OVER (ORDER BY {order})", *keys), "k"),
        (made(f"row_number() OVER (ORDER BY {order})", *keys), "n"),
    ]
    outer, alias = _numbered(relations, select, rel.fields, numbers)
    if count.volatile or offset.volatile:
        # One number for all rows.
        once = relations.ctx.alias()
        outer.source = made(f"{outer.source} CROSS JOIN (SELECT {count} AS k, {offset} AS n) AS {once}", count, offset)
        count, offset = column(once, "k"), column(once, "n")
    outer.where = [
        made(f"{alias}.n > {offset}", offset),
        made(f"{alias}.k <= {offset} + {count}", offset, count),
        made(f"{count} > 0", count),
    ]
    outer.order_by = relations.order_keys(rel.input.keys)
    return outer


def is_of_outer_rows(rel: ir.Limit) -> bool:
    """Whether how many rows there are depends on the row of a query around, which no engine's LIMIT does."""
    nodes = [node for bound in (rel.count, rel.offset) if bound is not None for node in walk(bound)]
    return any(isinstance(node, ir.ColumnRef) for node in nodes) and not any(
        isinstance(node, ir.ScalarSubquery) for node in nodes
    )


def by_row_numbers(rel: ir.Limit, new_id: Callable[[], int]) -> ir.Rel:
    """LIMIT and OFFSET as a condition on the numbers of the rows. `new_id` gives the ids of new columns."""
    keys = rel.input.keys if isinstance(rel.input, ir.Sort) else ()
    rows = rel.input.input if isinstance(rel.input, ir.Sort) else rel.input
    boolean, whole = SqlType(types.BOOL), SqlType(types.INT8)

    def of(symbol: str, left: ir.Scalar, right: ir.Scalar) -> ir.Call:
        wanted = (types.INT8, types.INT8)
        (signature,) = [found for found in registry.operators(symbol) if found.args == wanted]
        return ir.Call(signature=signature, args=(left, right), type=whole if symbol == "+" else boolean)

    numbered, number = with_numbers(rows, keys, new_id)
    none = ir.Literal(value=0, type=whole)
    skipped: ir.Scalar = none if rel.offset is None else ir.Coalesce(args=(rel.offset, none), type=whole)
    conditions: list[ir.Scalar] = [of(">", number, skipped)]
    if rel.count is not None:
        all_rows = ir.IsNull(arg=rel.count, negated=False, type=boolean)
        last = of("<=", number, of("+", skipped, rel.count))
        conditions.append(ir.BoolOp(op="or", args=(all_rows, last), type=boolean))
    condition = ir.BoolOp(op="and", args=tuple(conditions), type=boolean)
    found: ir.Rel = ir.Filter(input=numbered, condition=condition, fields=numbered.fields)
    if keys:
        found = ir.Sort(input=found, keys=keys, fields=found.fields)
    refs = tuple([ir.ColumnRef(id=column.id, type=column.type) for column in rel.fields])
    return ir.Project(input=found, exprs=refs, fields=rel.fields)


def _numbered(
    relations: RelationLowering, select: Select, fields: Sequence[ir.Field], numbers: Sequence[tuple[Fragment, str]]
) -> tuple[Select, str]:
    """`select` with further columns, as a derived table of the alias that is returned beside."""
    outputs = [(fragment, f"c{id}") for id, fragment in select.columns.items()]
    inner = select.render([*outputs, *numbers])
    alias = relations.ctx.alias()
    columns = {field.id: column(alias, f"c{field.id}") for field in fields}
    outer = Select(relations.ctx, columns, derived(inner, alias))
    relations.ctx.columns.update(outer.columns)
    return outer, alias


def compared_by_rows(rel: ir.SetOperation, new_id: Callable[[], int]) -> ir.Rel:
    """INTERSECT or EXCEPT over rows that are numbered among their equals: the nth of the left is in both sides where
    there is an nth on the right. For values that can be equal and yet not the same to an engine. `new_id` gives
    the ids of new columns.
    """

    by = range(len(rel.fields)) if rel.by is None else rel.by

    def numbered(side: ir.Rel) -> tuple[ir.Rel, ir.ColumnRef]:
        (signature,) = registry.window_functions("row_number")
        columns = tuple([ir.ColumnRef(id=side.fields[place].id, type=side.fields[place].type) for place in by])
        whole = ir.Frame(
            mode="range", start=ir.FrameBound(kind="unbounded_preceding"), end=ir.FrameBound(kind="current_row")
        )
        number = ir.Field(id=new_id(), name="n", type=SqlType(types.INT8))
        call = ir.WindowCall(
            signature=signature, args=(), type=number.type, partition_by=columns, order_by=(), frame=whole
        )
        window = ir.Window(input=side, calls=(call,), fields=(*side.fields, number))
        return window, ir.ColumnRef(id=number.id, type=number.type)

    boolean = SqlType(types.BOOL)
    left, number = numbered(rel.left)
    right, other = numbered(rel.right)
    pairs = [
        (ir.ColumnRef(id=a.id, type=a.type), ir.ColumnRef(id=b.id, type=b.type))
        for a, b in zip(rel.left.fields, rel.right.fields, strict=True)
    ]
    same = tuple(
        [
            ir.Distinct(left=a, right=b, negated=True, type=boolean)
            for a, b in [*map(pairs.__getitem__, by), (number, other)]
        ]
    )
    there = ir.Filter(input=right, condition=ir.BoolOp(op="and", args=same, type=boolean), fields=right.fields)
    kept: ir.Scalar = ir.Exists(rel=there, negated=rel.op == "except", type=boolean)
    if not rel.all:
        one = ir.Literal(value=1, type=number.type)
        first = ir.Distinct(left=number, right=one, negated=True, type=boolean)
        kept = ir.BoolOp(op="and", args=(first, kept), type=boolean)
    found = ir.Filter(input=left, condition=kept, fields=left.fields)
    return ir.Project(input=found, exprs=tuple([a for a, _ in pairs]), fields=rel.fields)
