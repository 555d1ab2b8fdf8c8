"""LIMIT and OFFSET, constant and computed."""

from __future__ import annotations

from planner.common_errors import negative_limit
from planner.errors import InvalidRowCountInResultOffsetClause
from planner.ir import nodes as ir
from planner.lowering.fragments.fragment import Fragment, made, simple
from planner.lowering.scalars.scalars import Scalars


def limit(scalars: Scalars, count: ir.Scalar | None) -> Fragment | None:
    """LIMIT's number of rows; None for no limit. Raises 2201W for a negative constant."""
    if count is None:
        return None
    constant = scalars.constant(count)
    if constant is None:
        return None
    if isinstance(constant, int):
        if constant < 0:
            raise negative_limit()
        # More rows than the engine's largest LIMIT there are none.
        return simple(str(constant)) if constant <= scalars.ctx.dialect.max_row_count else None
    return _computed(scalars, count, "LIMIT", "2201W", "2147483647")


def offset(scalars: Scalars, count: ir.Scalar | None) -> Fragment | None:
    """OFFSET's number of rows; None for none. Raises 2201X for a negative constant."""
    if count is None:
        return None
    constant = scalars.constant(count)
    if constant is None:
        return None
    if isinstance(constant, int):
        if constant < 0:
            raise InvalidRowCountInResultOffsetClause("OFFSET must not be negative")
        dialect = scalars.ctx.dialect
        if constant > dialect.max_row_count and not dialect.computed_row_counts:
            raise scalars.ctx.unsupported(f"OFFSET {constant}")
        return simple(str(min(constant, dialect.max_row_count)))
    return _computed(scalars, count, "OFFSET", "2201X", "0")


def _computed(scalars: Scalars, expr: ir.Scalar, clause: str, sqlstate: str, for_null: str) -> Fragment:
    """A count that the engine computes: NULL is none, a negative number is an error."""
    ctx = scalars.ctx
    count = scalars.lower(expr)
    if ctx.dialect.computed_row_counts:
        fault = ctx.dialect.raise_sql(sqlstate, f"{clause} must not be negative")
        none = "" if clause == "LIMIT" else " WHEN v IS NULL THEN 0"
        most = f"least(v, {ctx.dialect.max_row_count})"
        sql = f"(SELECT CASE WHEN v < 0 THEN {fault}{none} ELSE {most} END FROM (SELECT {count} AS v) AS n)"
        return made(sql, count)
    if ctx.params is None:
        return simple("1")
    if count.subquery or count.volatile:
        raise ctx.unsupported(f"a {clause} that is not a constant")
    # The engine takes constants only, and refuses a negative one itself (see engine_errors).
    return made(f"CAST(least(coalesce({count}, {for_null}), 2147483647) AS INT)", count)
