"""Aggregate calls, in a group or over a window's frame."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from planner.functions.forms.form import CallSite
from planner.ir import nodes as ir
from planner.lowering.collected import COLLECTED, Collected
from planner.lowering.context import Context
from planner.lowering.scalars import Scalars

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
        if call.signature.name in COLLECTED:
            return Collected(self.ctx, self.scalars, call, suffix).sql()
        keys = call.order_by
        key_types = tuple([key.expr.type for key in keys]) if call.signature.ordered_set else ()
        args = [self.scalars.sql(arg) for arg in call.args]
        site = CallSite(
            engine=self.ctx.engine,
            arg_types=(*(arg.type for arg in call.args), *key_types),
            type=call.type,
            constants=tuple([self.scalars.constant(arg) for arg in call.args]),
            settings=self.ctx.settings,
            distinct=call.distinct,
        )
        template = self.scalars.template(call.signature, site)
        ordering = ""
        if keys and not (call.signature.name in _ORDER_INSENSITIVE and not call.signature.ordered_set):
            ordering = self._ordering(keys)
        if call.distinct and call.signature.name == "count":
            args = [self.scalars.same(sql, arg.type) for sql, arg in zip(args, call.args, strict=True)]
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


_PLACE = re.compile(r"\{(\d+|[tdowf]|dir)\}")


def fill_aggregate(template: str, args: Sequence[str], marks: Mapping[str, str]) -> str:
    """Fills an aggregate's template. Arguments are repeated as they are: a binding outside the call would need the
    row. WITHIN GROUP keys follow the direct arguments."""
    return _PLACE.sub(lambda match: marks[match[1]] if match[1] in marks else args[int(match[1])], template)
