"""Functions that act on the session, called for each row of a query: `SELECT pg_terminate_backend(pid) FROM ...`,
`SELECT setval('s', max(id)) FROM t`, `SELECT set_config(name, ...) FROM pg_settings WHERE ...`.

The calls stand in the outermost select list. The rows below it are read first, with the calls' arguments as further
columns; then the calls are carried out row by row, in the order of the rows, and the query becomes one over constant
rows. 0A000 where a call stands elsewhere, or for more than `MAX_ROWS` rows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace

from adapter.execution.statement import Running
from adapter.plans.plan_cache import has_acting_calls
from adapter.queries.session_functions import carry_out_calls
from planner.errors import FeatureNotSupported
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.rewrite import transform, walk
from planner.resolution.session_values import acts
from planner.types.types import INT8, SqlType

MAX_ROWS = 100_000
"""Rows of one such query: they are held in memory, each as Python values."""

ReadRows = Callable[[BoundQuery], Awaitable[Sequence[Sequence[Any]]]]
"""Runs a query and returns its rows as `ir.Literal` has values; at most `MAX_ROWS` + 1 of them."""


def _unsupported() -> FeatureNotSupported:
    return FeatureNotSupported("functions that act on the session are only supported in the outermost select list")


async def carry_out_for_rows(running: Running, query: BoundQuery, read_rows: ReadRows) -> BoundQuery:
    """`query` with its acting calls carried out for each row, over constant rows."""
    above: list[ir.Limit | ir.Sort | ir.Project] = []
    rel: ir.Rel = query.rel
    while isinstance(rel, (ir.Limit, ir.Sort, ir.Project)) and not (
        isinstance(rel, ir.Project) and has_acting_calls(rel.exprs)
    ):
        above.append(rel)
        rel = rel.input
    if not isinstance(rel, ir.Project) or has_acting_calls((rel.input, *map(_own, above))):
        raise _unsupported()
    below: ir.Rel
    inner, templates = _inner(rel, _first_free_id(query.rel))
    below = inner
    while above:
        limit = above[-1]
        if not isinstance(limit, ir.Limit) or limit.ties:
            break
        above.pop()
        below = replace(limit, input=below, fields=below.fields)
    rows = await read_rows(replace(query, rel=below))
    if len(rows) > MAX_ROWS:
        raise FeatureNotSupported(f"functions that act on the session are not supported for more than {MAX_ROWS} rows")
    result = _rows(rel.fields, [await _after_calls(running, templates, inner.fields, row) for row in rows])
    for node in reversed(above):
        result = replace(node, input=result)
    return replace(query, rel=result, system=False)


def _own(node: ir.Limit | ir.Sort | ir.Project) -> object:
    """What a node above the calls evaluates itself."""
    if isinstance(node, ir.Project):
        return node.exprs
    return tuple(key.expr for key in node.keys) if isinstance(node, ir.Sort) else ()


def _first_free_id(rel: ir.Rel) -> int:
    used = [field.id for node in walk(rel) for field in getattr(node, "fields", ())]
    return max(used, default=0) + 1


def _inner(rel: ir.Project, first_id: int) -> tuple[ir.Project, list[ir.Scalar]]:
    """The projection that reads what the calls need, and the select list over its columns."""
    exprs: list[ir.Scalar] = []
    fields: list[ir.Field] = []

    def column(expr: ir.Scalar, name: str) -> ir.ColumnRef:
        field = ir.Field(id=first_id + len(fields), name=name, type=expr.type)
        exprs.append(expr)
        fields.append(field)
        return ir.ColumnRef(id=field.id, type=field.type)

    def rewritten(node: Any) -> Any:
        if isinstance(node, ir.Call) and acts(node.signature):
            if has_acting_calls(node.args):
                raise _unsupported()
            args = tuple(arg if isinstance(arg, ir.Literal) else column(arg, "argument") for arg in node.args)
            return replace(node, args=args)
        if isinstance(node, (ir.ScalarSubquery, ir.Exists, ir.QuantifiedSubquery, ir.ArraySubquery)):
            if has_acting_calls(node):
                raise _unsupported()
            return column(node, "subquery")
        return column(node, "column") if isinstance(node, ir.ColumnRef) else None

    templates = [
        transform(expr, rewritten) if has_acting_calls(expr) else column(expr, field.name)
        for expr, field in zip(rel.exprs, rel.fields, strict=True)
    ]
    return ir.Project(input=rel.input, exprs=tuple(exprs), fields=tuple(fields)), templates


async def _after_calls(
    running: Running, templates: Sequence[ir.Scalar], fields: Sequence[ir.Field], row: Sequence[Any]
) -> tuple[ir.Scalar, ...]:
    literals = {field.id: ir.Literal(value=value, type=field.type) for field, value in zip(fields, row, strict=True)}

    def filled(node: Any) -> Any:
        return literals[node.id] if isinstance(node, ir.ColumnRef) else None

    return tuple([await carry_out_calls(running, transform(template, filled)) for template in templates])


def _rows(fields: tuple[ir.Field, ...], rows: Sequence[tuple[ir.Scalar, ...]]) -> ir.Rel:
    if rows:
        return ir.Values(rows=tuple(rows), fields=fields)
    nulls = tuple(ir.Literal(value=None, type=field.type) for field in fields)
    zero = ir.Literal(value=0, type=SqlType(INT8))
    return ir.Limit(input=ir.Values(rows=(nulls,), fields=fields), count=zero, offset=None, ties=False, fields=fields)
