"""Aggregate calls, in a group or over a window's frame."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from planner import ir
from planner.functions.forms import CallSite
from planner.lowering.context import Context
from planner.lowering.scalars import Scalars
from planner.lowering.templates import fill

_ORDER_INSENSITIVE = frozenset(
    {"count", "sum", "avg", "min", "max", "bool_and", "bool_or", "every", "bit_and", "bit_or", "bit_xor", "stddev",
     "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp", "corr"}
)  # fmt: skip


class Aggregates:
    """Prints aggregate calls.

    An aggregate's template may use, besides its arguments, ``{d}`` (DISTINCT or nothing), ``{o}`` (the ORDER BY of the
    call, inside the parentheses), ``{f}`` (FILTER (...) or the OVER clause, after each aggregate call) and ``{w}`` (the
    WITHIN GROUP ordering).
    """

    def __init__(self, ctx: Context, scalars: Scalars) -> None:
        self.ctx = ctx
        self.scalars = scalars

    def sql(self, call: ir.AggregateCall) -> str:
        """An aggregate call of a group."""
        condition = "" if call.filter is None else f" FILTER (WHERE {self.scalars.condition(call.filter)})"
        return self.apply(call, condition)

    def apply(self, call: ir.AggregateCall, suffix: str) -> str:
        """The call with `suffix` (FILTER, OVER) after each aggregate function of its template."""
        keys = call.order_by
        key_types = tuple([key.expr.type for key in keys]) if call.signature.ordered_set else ()
        args = [self.scalars.sql(arg) for arg in call.args]
        site = CallSite(
            engine=self.ctx.engine,
            arg_types=(*(arg.type for arg in call.args), *key_types),
            type=call.type,
            constants=tuple([self.scalars.constant(arg) for arg in call.args]),
            settings=self.ctx.settings,
        )
        if not self.ctx.local and keys and not call.signature.ordered_set and call.signature.name in (
            "array_agg", "string_agg", "json_agg", "jsonb_agg"
        ):  # fmt: skip
            return self._spark_ordered(call, site, args, suffix)
        template = self.scalars.template(call.signature, site)
        ordering = ""
        if keys and not (call.signature.name in _ORDER_INSENSITIVE and not call.signature.ordered_set):
            ordering = self._ordering(keys)
        template, args = self.scalars.expand(template, args, site.arg_types)
        key_args = [self.scalars.sql(key.expr) for key in keys]
        args = [*args[: len(call.args)], *key_args, *args[len(call.args) :]] if call.signature.ordered_set else args
        marks = {
            "dir": "DESC" if keys and keys[0].descending else "",
            "t": self.ctx.dialect.type_name(call.type),
            "d": "DISTINCT " if call.distinct else "",
            "o": f" ORDER BY {ordering}" if ordering else "",
            "w": ordering,
            "f": suffix,
        }
        return fill_aggregate(template, args, marks)

    def _ordering(self, keys: tuple[ir.SortKey, ...]) -> str:
        return ", ".join([key.sql + key.suffix for key in self.scalars.relations.order_keys(keys)])

    def _spark_ordered(self, call: ir.AggregateCall, site: CallSite, args: list[str], suffix: str) -> str:
        """array_agg and string_agg with ORDER BY on Spark: collect keys and values, sort, take the values."""
        if call.signature.name not in ("array_agg", "string_agg"):
            raise self.ctx.unsupported(f"{call.signature.name} with ORDER BY")
        keys = self.scalars.relations.order_keys(call.order_by)
        members = ", ".join([f"'k{index}', {key.sql}" for index, key in enumerate(keys)])
        left, right, item = self.ctx.variable(), self.ctx.variable(), self.ctx.variable()
        tests: list[str] = []
        for index, key in enumerate(call.order_by):
            a, b = f"{left}.k{index}", f"{right}.k{index}"
            null = -1 if key.nulls_first else 1
            less = 1 if key.descending else -1
            tests.append(
                f"WHEN {a} IS NULL AND {b} IS NOT NULL THEN {null} WHEN {a} IS NOT NULL AND {b} IS NULL THEN {-null} "
                f"WHEN {a} < {b} THEN {less} WHEN {a} > {b} THEN {-less}"
            )
        distinct = "DISTINCT " if call.distinct else ""
        collected = f"collect_list({distinct}named_struct({members}, 'v', {args[0]})){suffix}"
        ordered = f"array_sort({collected}, ({left}, {right}) -> CASE {' '.join(tests)} ELSE 0 END)"
        values = f"transform({ordered}, {item} -> {item}.v)"
        if call.signature.name == "array_agg":
            return fill(self.ctx, "CASE WHEN size({0}) > 0 THEN {0} END", [values])
        return fill(
            self.ctx,
            "CASE WHEN size({0}) > 0 THEN array_join({0}, {1}) END",
            [f"filter({values}, {item} -> {item} IS NOT NULL)", args[1]],
        )


_PLACE = re.compile(r"\{(\d+|[tdowf]|dir)\}")


def fill_aggregate(template: str, args: Sequence[str], marks: Mapping[str, str]) -> str:
    """Fills an aggregate's template. Arguments are repeated as they are: a binding outside the call would need the
    row. WITHIN GROUP keys follow the direct arguments."""
    return _PLACE.sub(lambda match: marks[match[1]] if match[1] in marks else args[int(match[1])], template)
