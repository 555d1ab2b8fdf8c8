"""Where the common tables of correlated subqueries are defined: at the top of the query, if they depend on nothing
around them.

DuckDB 2.0 gives wrong rows for a subquery with a common table when the subquery refers to columns of two queries around
it and the table to none: the outer one's rows are joined without a condition. Other subqueries fail in its optimizer.
PostgreSQL works out such a table once however often the subquery runs, so that it means the same at the top.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from planner.ir import nodes as ir
from planner.ir.rewrite import RELATIONS, column_ids, is_correlated, transform, walk


def hoisted(rel: ir.Rel) -> ir.Rel:
    """`rel` with the common tables inside it that read nothing of the queries around them defined at its top; as it is
    when no subquery that has common tables refers to columns outside."""
    top = rel if isinstance(rel, ir.With) else None
    inner = [node for node in walk(rel) if isinstance(node, ir.With) and node is not top]
    if not any(is_correlated(node) for node in inner):
        return rel
    if top is None:
        found: list[ir.CommonTable] = []
        body = _without_free(rel, found, set())
        return ir.With(tables=tuple(found), body=body, fields=rel.fields) if found else rel
    tables: list[ir.CommonTable] = []
    known: set[int] = set()
    for table in top.tables:
        kept = _without_free(table, tables, known)
        tables.append(kept)
        known.add(table.id)
    body = _without_free(top.body, tables, known)
    return replace(top, tables=tuple(tables), body=body)


def _without_free(node: Any, found: list[ir.CommonTable], known: set[int]) -> Any:
    """`node` without the common tables in it that read only themselves and those in `known`: these go to `found`, in an
    order in which each can be defined, and into `known`."""

    def moved(part: Any) -> Any:
        if not isinstance(part, ir.With):
            return None
        left = []
        for table in part.tables:
            if table.id in known:
                # A subquery that is compared with a row stands there once for each of its columns.
                continue
            inside = _without_free(table.rel, found, known)
            step = None if table.step is None else _without_free(table.step, found, known)
            whole = replace(table, rel=inside, step=step)
            if _is_free(whole, known):
                found.append(whole)
                known.add(whole.id)
            else:
                left.append(whole)
        body = _without_free(part.body, found, known)
        return replace(part, tables=tuple(left), body=body) if left else body

    return transform(node, moved)


def _is_free(table: ir.CommonTable, known: set[int]) -> bool:
    parts = list(walk(table))
    own = {field.id for part in parts if type(part) in RELATIONS for field in part.fields}
    tables = known | {part.id for part in parts if isinstance(part, ir.CommonTable)}
    reads = {part.cte for part in parts if isinstance(part, ir.CteScan)}
    # Rows that whoever runs the query has at hand have negative numbers.
    return all(cte in tables or cte < 0 for cte in reads) and all(id in own for id in column_ids(table))
