"""Window calls, and what is said with row numbers: DISTINCT ON, FETCH FIRST ... WITH TIES, and INTERSECT and EXCEPT of
values that engines tell apart where PostgreSQL does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.functions import registry
from planner.functions.forms.form import NOT_CONSTANT
from planner.ir import nodes as ir
from planner.lowering.aggregates import Aggregates
from planner.lowering.context import Context
from planner.lowering.protocols import RelationLowering
from planner.lowering.scalars import Scalars
from planner.lowering.select import Select
from planner.types import types
from planner.types.signature import Kind
from planner.types.types import SqlType

_INTEGERS = frozenset({types.INT2, types.INT4, types.INT8})
_FRAMELESS = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead"})
_BOUNDS = {
    "unbounded_preceding": "UNBOUNDED PRECEDING", "current_row": "CURRENT ROW",
    "unbounded_following": "UNBOUNDED FOLLOWING",
}  # fmt: skip


class Windows:
    """Prints window calls; an aggregate's template is used with OVER (...) in the place of its FILTER."""

    def __init__(self, ctx: Context, scalars: Scalars, aggregates: Aggregates) -> None:
        self.ctx = ctx
        self.scalars = scalars
        self.aggregates = aggregates

    def sql(self, call: ir.WindowCall) -> str:
        """A window call."""
        parts: list[str] = []
        if call.partition_by:
            keys = [self.scalars.same(self.scalars.sql(key), key.type) for key in call.partition_by]
            parts.append(f"PARTITION BY {', '.join(keys)}")
        order = self.scalars.relations.order_keys(call.order_by)
        if order:
            range_offset = call.frame.mode == "range" and (call.frame.start.offset or call.frame.end.offset)
            rendered = [
                (f"CAST({key.sql} AS TIMESTAMP)" if range_offset and self._date_key(call) else key.sql) + key.suffix
                for key in order
            ]
            parts.append(f"ORDER BY {', '.join(rendered)}")
        elif not self.ctx.local and call.signature.name in _FRAMELESS:
            parts.append("ORDER BY (SELECT NULL)" if self.ctx.local else "ORDER BY 0")
        if call.signature.name not in _FRAMELESS or call.signature.kind is not Kind.WINDOW:
            frame = self._frame(call.frame, bool(order))
            if frame:
                parts.append(frame)
        over = f" OVER ({' '.join(parts)})"
        args = self._alike(call)
        if call.filter is not None:
            if self.ctx.local:
                over = f" FILTER (WHERE {self.scalars.condition(call.filter)}){over}"
            else:
                args = self._filtered(call)
        inner = ir.AggregateCall(signature=call.signature, args=args, type=call.type)
        if call.filter is not None and not self.ctx.local and not call.args:
            return f"count(CASE WHEN {self.scalars.condition(call.filter)} THEN 1 END){over}"
        return self.aggregates.apply(inner, over)

    def _alike(self, call: ir.WindowCall) -> tuple[ir.Scalar, ...]:
        """The arguments; of lag and lead, the value and the default in the one shape that holds both."""
        if call.signature.name not in ("lag", "lead") or call.type.shape is None or len(call.args) < 3:
            return call.args
        value, offset, default = call.args
        return (ir.Cast(arg=value, type=call.type), offset, ir.Cast(arg=default, type=call.type))

    def _filtered(self, call: ir.WindowCall) -> tuple[ir.Scalar, ...]:
        """Spark has no FILTER with OVER: an argument that is NULL is not aggregated."""
        if call.signature.name not in ("count", "sum", "avg", "min", "max", "bool_and", "bool_or", "every"):
            raise self.ctx.unsupported(f"FILTER with OVER for aggregate {call.signature.name}")
        assert call.filter is not None
        return tuple([ir.Case(whens=((call.filter, arg),), otherwise=None, type=arg.type) for arg in call.args])

    def _date_key(self, call: ir.WindowCall) -> bool:
        if len(call.order_by) != 1 or call.order_by[0].expr.type.oid != types.DATE:
            return False
        # Spark measures dates in months only.
        offsets = [bound.offset for bound in (call.frame.start, call.frame.end) if bound.offset is not None]
        lengths = [self.scalars.constant(offset) for offset in offsets]
        return self.ctx.local or any(isinstance(length, ir.Interval) and not length.months for length in lengths)

    def _frame(self, frame: ir.Frame, ordered: bool) -> str:
        default = (
            frame.mode == "range" and frame.start.kind == "unbounded_preceding" and frame.end.kind == "current_row"
        )
        if frame.exclude == "no_others" and default:
            return ""
        if not self.ctx.local:
            if frame.mode == "groups":
                raise self.ctx.unsupported("a window frame in GROUPS mode")
            if frame.exclude != "no_others":
                raise self.ctx.unsupported("a window frame with EXCLUDE")
        exclude = "" if frame.exclude == "no_others" else f" EXCLUDE {frame.exclude.upper().replace('_', ' ')}"
        mode = frame.mode.upper()
        if mode == "RANGE" and not ordered and not self.ctx.local:
            mode = "ROWS"
            return f"{mode} BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
        return f"{mode} BETWEEN {self._bound(frame.start)} AND {self._bound(frame.end)}{exclude}"

    def _bound(self, bound: ir.FrameBound) -> str:
        fixed = _BOUNDS.get(bound.kind)
        if fixed is not None:
            return fixed
        assert bound.offset is not None
        word = "PRECEDING" if bound.kind == "offset_preceding" else "FOLLOWING"
        return f"{self._offset(bound.offset)} {word}"

    def _offset(self, offset: ir.Scalar) -> str:
        if isinstance(offset, ir.Cast) and {offset.type.oid, offset.arg.type.oid} <= _INTEGERS:
            offset = offset.arg
        if isinstance(offset, ir.Param) and self.ctx.params is None:
            # Asked whether the engine can run it at all: it can when the value is known.
            return "0"
        constant = self.scalars.constant(offset)
        if offset.type.oid != types.INTERVAL:
            if isinstance(constant, int) and constant < 0:
                from planner.errors import InvalidParameterValue

                raise InvalidParameterValue("frame starting offset must not be negative")
            if isinstance(constant, int) and not isinstance(constant, bool):
                return str(constant)
            if constant is NOT_CONSTANT and not self.ctx.local:
                raise self.ctx.unsupported("a window frame whose offset is not constant")
            return self.scalars.sql(offset)
        if not isinstance(constant, ir.Interval):
            raise self.ctx.unsupported("a window frame whose interval is not constant")
        if self.ctx.local:
            return f"(to_months({constant.months}) + to_days({constant.days}) + to_microseconds({constant.micros}))"
        if constant.months and (constant.days or constant.micros):
            raise self.ctx.unsupported("a window frame with a mixed interval")
        if constant.months:
            return f"INTERVAL '{constant.months}' MONTH"
        micros = constant.days * 86_400_000_000 + constant.micros
        return f"INTERVAL '{micros // 1_000_000}.{micros % 1_000_000:06d}' SECOND"

    # ------------------------------------------------------------ row numbers

    def distinct_on(self, relations: RelationLowering, rel: ir.Deduplicate) -> Select:
        """DISTINCT ON: the first row of each group by a row number."""
        select = relations.wrap(relations.build(rel.input))
        keys = [self.scalars.same(self.scalars.sql(key), key.type) for key in rel.on]
        order = [key.sql + key.suffix for key in relations.order_keys(rel.order_by)] or keys
        number = f"row_number() OVER (PARTITION BY {', '.join(keys)} ORDER BY {', '.join(order)})"
        outer = self._numbered(relations, select, rel.fields, [(number, "n")])
        alias = outer.source.rsplit(" ", 1)[1] if outer.source else ""
        outer.where = [f"{alias}.n = 1"]
        outer.order_by = relations.order_keys(rel.order_by)
        return outer

    def with_ties(self, relations: RelationLowering, rel: ir.Limit, _: Select) -> Select:
        """FETCH FIRST count ROWS WITH TIES: rank up to the last row's, row number past the offset."""
        if not isinstance(rel.input, ir.Sort):
            raise self.ctx.unsupported("WITH TIES without ORDER BY")
        select = relations.wrap(relations.build(rel.input.input))
        order = ", ".join([key.sql + key.suffix for key in relations.order_keys(rel.input.keys)])
        count = "1" if rel.count is None else self.scalars.sql(rel.count)
        offset = "0" if rel.offset is None else self.scalars.sql(rel.offset)
        outer = self._numbered(
            relations, select, rel.fields,
            [(f"rank() OVER (ORDER BY {order})", "k"), (f"row_number() OVER (ORDER BY {order})", "n")],
        )  # fmt: skip
        alias = outer.source.rsplit(" ", 1)[1] if outer.source else ""
        outer.where = [f"{alias}.n > {offset}", f"{alias}.k <= {offset} + {count}", f"{count} > 0"]
        outer.order_by = relations.order_keys(rel.input.keys)
        return outer

    def _numbered(
        self,
        relations: RelationLowering,
        select: Select,
        fields: Sequence[ir.Field],
        numbers: Sequence[tuple[str, str]],
    ) -> Select:
        outputs = [(sql, f"c{id}") for id, sql in select.columns.items()]
        text = select.render([*outputs, *numbers])
        alias = self.ctx.alias()
        outer = Select(self.ctx, {field.id: f"{alias}.c{field.id}" for field in fields}, f"({text}) AS {alias}")
        self.ctx.columns.update(outer.columns)
        return outer


def compared_by_rows(rel: ir.SetOperation, ids: Iterator[int]) -> ir.Rel:
    """INTERSECT or EXCEPT over rows that are numbered among their equals: the nth of the left is in both sides where
    there is an nth on the right. For values that can be equal and yet not the same to an engine. `ids` are new columns.
    """

    def numbered(side: ir.Rel) -> tuple[ir.Rel, ir.ColumnRef]:
        (signature,) = registry.window_functions("row_number")
        columns = tuple([ir.ColumnRef(id=field.id, type=field.type) for field in side.fields])
        whole = ir.Frame(
            mode="range", start=ir.FrameBound(kind="unbounded_preceding"), end=ir.FrameBound(kind="current_row")
        )
        number = ir.Field(id=next(ids), name="n", type=SqlType(types.INT8))
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
    same = tuple([ir.Distinct(left=a, right=b, negated=True, type=boolean) for a, b in [*pairs, (number, other)]])
    there = ir.Filter(input=right, condition=ir.BoolOp(op="and", args=same, type=boolean), fields=right.fields)
    kept: ir.Scalar = ir.Exists(rel=there, negated=rel.op == "except", type=boolean)
    if not rel.all:
        one = ir.Literal(value=1, type=number.type)
        first = ir.Distinct(left=number, right=one, negated=True, type=boolean)
        kept = ir.BoolOp(op="and", args=(first, kept), type=boolean)
    found = ir.Filter(input=left, condition=kept, fields=left.fields)
    return ir.Project(input=found, exprs=tuple([a for a, _ in pairs]), fields=rel.fields)
