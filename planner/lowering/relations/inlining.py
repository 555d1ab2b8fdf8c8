"""Whether the expressions of a SELECT's columns may be written where the columns are used.

A column that is used once may (but for a subquery where an engine wants it alone), one that is used twice only when
repeating it costs nothing and gives the same value;
one that a subquery uses may not, for the subquery would compute it for each of its rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from planner.ir import nodes as ir
from planner.ir.rewrite import column_uses
from planner.lowering.relations.select import Select


def inlinable(select: Select, exprs: Sequence[ir.Scalar]) -> bool:
    """Whether the columns of `select` that `exprs` use may be replaced by their expressions."""
    columns = select.columns
    if all(fragment.simple for fragment in columns.values()):
        return True
    counts: Counter[int] = Counter()
    nested: set[int] = set()
    for expr in exprs:
        # What is made of a window function may stand in a lambda, where there is none.
        if select.windowed and not isinstance(expr, ir.ColumnRef) and not _is_simple(select, expr):
            return False
        # Where no subquery stands in a lambda, one is a column of its own for what is made of it.
        alone = select.ctx.dialect.let_of_subqueries or isinstance(expr, ir.ColumnRef)
        for id, inside in column_uses(expr):
            if not alone and id in columns and columns[id].subquery:
                return False
            counts[id] += 1
            if inside:
                nested.add(id)
    used = [(columns[id], count, id in nested) for id, count in counts.items() if id in columns]
    return all(
        fragment.simple or (not inside and count <= 1 and not fragment.volatile) for fragment, count, inside in used
    )


def _is_simple(select: Select, expr: ir.Scalar) -> bool:
    return all(select.columns[id].simple for id, _ in column_uses(expr) if id in select.columns)
