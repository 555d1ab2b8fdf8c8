"""Names of output columns inside the expressions of ORDER BY, which PostgreSQL has only where they stand alone."""

from __future__ import annotations

from typing import Any

from planner.syntax.dialects.rules import SPARK

OUTPUT_FIRST = SPARK | {"bigquery", "mysql", "trino"}
"""Where a name in ORDER BY is an output column's before it is one of a table's, also inside an expression."""


def replace_outputs(select: Any, exp: Any) -> None:
    """Puts what a SELECT's output columns are where the expressions of its ORDER BY name them.

    Arguments of aggregates keep their names, which are of the tables' rows; columns of a random value keep theirs, as
    it is not to be drawn twice, and are left to be found in a table or not at all.
    """
    outputs = {
        each.alias.lower(): each.this
        for each in select.expressions
        if isinstance(each, exp.Alias) and not each.this.find(exp.Rand, exp.Randn, exp.Uuid)
    }
    for key in select.args["order"].expressions:
        if isinstance(key.this, (exp.Column, exp.Literal)):
            continue
        for column in list(key.this.find_all(exp.Column)):
            output = None if column.table else outputs.get(column.name.lower())
            if output is not None and column.find_ancestor(exp.AggFunc, exp.Query, exp.Ordered) is key:
                column.replace(exp.Paren(this=output.copy()))
