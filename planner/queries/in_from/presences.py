"""What tells a row of a FROM item from the lack of one that an outer join makes up for with NULLs: a column that is
true in every row that is there. It is added where an expression has the item's whole row as a value."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from planner.ir.nodes import ColumnRef, Deduplicate, Field, Filter, Join, Literal, Project, Rel
from planner.resolution.statement import Level
from planner.types.types import BOOL, SqlType


def with_presences(level: Level, rel: Rel) -> Rel:
    """`rel`, the FROM of `level` and what has been done with its rows, with the columns that tell rows from a lack of
    them, as far as expressions of the query have asked for such (`Level.presences`)."""
    wanted = {id(source): field for source, field in level.presences or ()}
    return _with_presences(rel, wanted) if wanted else rel


def _with_presences(rel: Rel, wanted: Mapping[int, Field]) -> Rel:
    result = rel
    if isinstance(rel, Join):
        left, right = _with_presences(rel.left, wanted), _with_presences(rel.right, wanted)
        result = replace(rel, left=left, right=right, fields=left.fields + right.fields)
    elif isinstance(rel, (Filter, Deduplicate)):
        below = _with_presences(rel.input, wanted)
        result = replace(rel, input=below, fields=below.fields)
    field = wanted.get(id(rel))
    if field is None:
        return result
    exprs = [ColumnRef(id=each.id, type=each.type) for each in result.fields]
    there = Literal(value=True, type=SqlType(BOOL))
    return Project(input=result, exprs=(*exprs, there), fields=(*result.fields, field))
