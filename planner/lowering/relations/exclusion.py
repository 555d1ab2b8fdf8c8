"""EXCLUDE in a window frame for an engine that has none: the rows of the whole frame are collected, those left out are
taken away, and what stays is aggregated."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from planner.functions.families.aggregates import quotient_of_sum
from planner.ir import nodes as ir
from planner.lowering.fragments.fragment import Fragment, made
from planner.lowering.scalars.scalars import Scalars
from planner.types import types
from planner.types.types import is_wide


class Places(Struct, frozen=True):
    """By which columns rows are left out: a number of the row, and of its group of peers where it is needed."""

    row: ir.ColumnRef
    group: ir.ColumnRef | None


def excluding(scalars: Scalars, call: ir.WindowCall, over: Fragment, places: Places) -> Fragment:
    """The window call `call`, whose frame has EXCLUDE, where `over` is its OVER clause without that. Raises 0A000 for
    functions that are not written out here."""
    aggregated = _AGGREGATED.get(call.signature.name)
    if aggregated is None or any(not _is_plain(arg) for arg in call.args):
        raise scalars.ctx.unsupported(f"a window frame with EXCLUDE for {call.signature.name}")
    dialect = scalars.ctx.dialect
    row = scalars.lower(places.row)
    group = None if places.group is None else scalars.lower(places.group)
    members, parts = [("n", row.sql)], [row, over]
    apart = f"x.n <> {row}"
    if group is not None:
        members.append(("g", group.sql))
        parts.append(group)
        apart = f"x.g <> {group}" + (f" OR x.n = {row}" if call.frame.exclude == "ties" else "")
    if call.args:
        value = scalars.lower(call.args[0])
        members.append(("v", value.sql))
        parts.append(value)
    if call.filter is not None:
        condition = scalars.lower(call.filter)
        members.append(("k", condition.sql))
        parts.append(condition)
        apart = f"({apart}) AND x.k"
    frame = f"{dialect.list_function}({dialect.struct(members)}){over}"
    rows = _Rows(scalars, call, dialect.filter(frame, "x", apart))
    return made(aggregated(rows), *parts)


_PLAIN = frozenset({
    types.BOOL, types.INT2, types.INT4, types.INT8, types.FLOAT4, types.FLOAT8, types.NUMERIC, types.TEXT,
    types.VARCHAR, types.DATE, types.TIMESTAMP, types.TIMESTAMPTZ,
})  # fmt: skip
"""Types whose values engines compare as PostgreSQL does."""


def _is_plain(arg: ir.Scalar) -> bool:
    return arg.type.oid in _PLAIN and not is_wide(arg.type)


class _Rows:
    """The rows that are left of a frame, an array, and what can be made of them."""

    def __init__(self, scalars: Scalars, call: ir.WindowCall, rows: str) -> None:
        self.scalars, self.call, self.rows = scalars, call, rows
        self.dialect = scalars.ctx.dialect

    def values(self, *, nulls: bool = False) -> str:
        kept = self.rows if nulls else self.dialect.filter(self.rows, "x", "x.v IS NOT NULL")
        return self.dialect.transform(kept, "x", "x.v")

    def count(self) -> str:
        return f"CAST({self.dialect.length(self.values() if self.call.args else self.rows)} AS BIGINT)"

    def unless_empty(self, values: str, result: str) -> str:
        return f"CASE WHEN {self.dialect.length(values)} > 0 THEN {result} END"

    def total(self, type_name: str) -> str:
        return (
            f"aggregate({self.values()}, CAST(NULL AS {type_name}), (a, x) -> CAST(coalesce(a + x, x) AS {type_name}))"
        )

    def sum(self) -> str:
        return self.total(self.dialect.type_name(self.call.type))

    def average(self) -> str:
        arg = self.call.args[0].type
        if arg.oid in (types.FLOAT4, types.FLOAT8):
            return f"{self.total('DOUBLE')} / nullif({self.count()}, 0)"
        divided = quotient_of_sum(arg, self.total)
        if divided is None:
            raise self.scalars.ctx.unsupported("a window frame with EXCLUDE for this average")
        return divided.replace("{count}", f"nullif({self.count()}, 0)")

    def extreme(self, function: str) -> str:
        return f"{function}({self.values()})"

    def every(self) -> str:
        return self.unless_empty(self.values(), f"forall({self.values()}, x -> x)")

    def some(self) -> str:
        return self.unless_empty(self.values(), f"exists({self.values()}, x -> x)")

    def element(self, place: str) -> str:
        return f"get({self.rows}, {place}).v"

    def nth(self) -> str:
        return self.element(f"{self.scalars.lower(self.call.args[1])} - 1")

    def collected(self) -> str:
        return self.unless_empty(self.rows, self.values(nulls=True))


_AGGREGATED: Mapping[str, Callable[[_Rows], str]] = {
    "count": _Rows.count,
    "sum": _Rows.sum,
    "avg": _Rows.average,
    "min": lambda rows: rows.extreme("array_min"),
    "max": lambda rows: rows.extreme("array_max"),
    "bool_and": _Rows.every,
    "every": _Rows.every,
    "bool_or": _Rows.some,
    "first_value": lambda rows: rows.element("0"),
    "last_value": lambda rows: rows.element(f"{rows.dialect.length(rows.rows)} - 1"),
    "nth_value": _Rows.nth,
    "array_agg": _Rows.collected,
}
