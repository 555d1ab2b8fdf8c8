"""Functions that act on the session, called for each row of a query: `SELECT pg_terminate_backend(pid) FROM ...`,
`SELECT setval('s', max(id)) FROM t`, `SELECT set_config(name, ...) FROM pg_settings WHERE ...`.

The calls stand in the outermost select list, or in that of a query inside which needs nothing of the one around it;
those in the arguments of aggregates get a select list of their own. The rows below a list are read first, with the
calls' arguments as further columns; then the calls are carried out row by row, in the order of the rows, and the query
becomes one over constant rows. 0A000 where a call stands elsewhere, or for more than `MAX_ROWS` rows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from adapter.execution.statement import Running
from adapter.plans.plan_cache import has_acting_calls
from adapter.queries.session_functions import carry_out_calls
from planner.errors import FeatureNotSupported
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.rewrite import RELATIONS, column_ids, transform, walk
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
    query = replace(query, rel=transform(transform(query.rel, _from_as_list), _with_list_below))
    while (found := _list_inside(query.rel)) is not None:
        inner, templates = _inner(found, _first_free_id(query.rel))
        rows = await read_rows(replace(query, rel=_with_tables(query.rel, found, inner)))
        made = await _carried_out(running, found.fields, inner.fields, templates, rows)
        query = replace(query, rel=transform(query.rel, partial(_replaced, found, made)))
    return await _outermost(running, query, read_rows) if has_acting_calls(query.rel) else query


async def _outermost(running: Running, query: BoundQuery, read_rows: ReadRows) -> BoundQuery:
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
        node = above[-1]
        if isinstance(node, ir.Sort):
            # As in PostgreSQL, what is volatile in the list is evaluated after the rows have been sorted.
            keys = _over_templates(node.keys, rel.fields, templates)
            if keys is None:
                break
            below = ir.Sort(input=below, keys=keys, fields=below.fields)
        elif isinstance(node, ir.Limit) and not node.ties:
            below = replace(node, input=below, fields=below.fields)
        else:
            break
        above.pop()
    rows = await read_rows(replace(query, rel=below))
    result = await _carried_out(running, rel.fields, inner.fields, templates, rows)
    for node in reversed(above):
        result = replace(node, input=result)
    return replace(query, rel=result, system=False)


def _over_templates(
    keys: tuple[ir.SortKey, ...], fields: tuple[ir.Field, ...], templates: Sequence[ir.Scalar]
) -> tuple[ir.SortKey, ...] | None:
    """Keys over the `fields` of a select list as keys over what is read for it; None where they need a call."""
    columns = {field.id: template for field, template in zip(fields, templates, strict=True)}
    if any(not isinstance(columns.get(id), ir.ColumnRef) for id in column_ids(keys)):
        return None
    return transform(keys, lambda node: columns[node.id] if isinstance(node, ir.ColumnRef) else None)


async def _carried_out(
    running: Running,
    fields: tuple[ir.Field, ...],
    given: Sequence[ir.Field],
    templates: Sequence[ir.Scalar],
    rows: Sequence[Sequence[Any]],
) -> ir.Rel:
    """The rows of a select list of `fields`, which `templates` make of `rows` with the columns `given`."""
    if len(rows) > MAX_ROWS:
        raise FeatureNotSupported(f"functions that act on the session are not supported for more than {MAX_ROWS} rows")
    return _rows(fields, [await _after_calls(running, templates, given, row) for row in rows])


# ---------------------------------------------------------------- inside a query


def _from_as_list(node: Any) -> Any:
    """A function in FROM that acts, `SELECT * FROM pg_sleep(1)`, as the select list of a query without FROM."""
    if not isinstance(node, ir.FunctionScan) or node.ordinality is not None or len(node.functions) != 1:
        return None
    (call,) = node.functions
    if not acts(call.signature) or len(node.fields) != 1:
        return None
    expr = ir.Call(signature=call.signature, args=call.args, type=node.fields[0].type)
    return ir.Project(input=ir.OneRow(), exprs=(expr,), fields=node.fields)


def _with_list_below(node: Any) -> Any:
    """An aggregation whose calls have acting arguments, over a select list that has these."""
    if not isinstance(node, ir.Aggregate) or not has_acting_calls((node.calls, node.keys)):
        return None
    below = transform(node.input, _with_list_below)
    exprs: list[ir.Scalar] = [ir.ColumnRef(id=field.id, type=field.type) for field in below.fields]
    fields = [*below.fields]
    above = _first_free_id(node)

    def column(part: Any) -> Any:
        if not isinstance(part, ir.Call) or not acts(part.signature):
            return None
        exprs.append(part)
        fields.append(ir.Field(id=above + len(fields), name="called", type=part.type))
        return ir.ColumnRef(id=fields[-1].id, type=part.type)

    calls, keys = transform((node.calls, node.keys), column)
    return replace(
        node, input=ir.Project(input=below, exprs=tuple(exprs), fields=tuple(fields)), calls=calls, keys=keys
    )


def _list_inside(rel: ir.Rel) -> ir.Project | None:
    """The first select list with acting calls and none below it that is not the outermost one, if it needs nothing of
    the query around it."""
    outermost: ir.Rel = rel
    while isinstance(outermost, (ir.Limit, ir.Sort, ir.Project)):
        if isinstance(outermost, ir.Project) and has_acting_calls(outermost.exprs):
            break
        outermost = outermost.input
    for node in walk(rel):
        if not isinstance(node, ir.Project) or node is outermost or not has_acting_calls(node.exprs):
            continue
        relations = (part for part in walk(node.exprs) if type(part) in RELATIONS)
        if has_acting_calls((node.input, *relations)):
            continue
        own = {field.id for part in walk(node) for field in getattr(part, "fields", ())}
        if own.issuperset(column_ids(node)):
            return node
    return None


def _with_tables(rel: ir.Rel, found: ir.Project, inner: ir.Rel) -> ir.Rel:
    """`inner`, which reads what the select list `found` in `rel` is made of, with the common tables that it needs."""
    known = {part.id: part for part in walk(rel) if isinstance(part, ir.CommonTable)}
    own = {part.id for part in walk(inner) if isinstance(part, ir.CommonTable)}
    needed: dict[int, ir.CommonTable] = {}

    def need(node: object) -> None:
        for part in walk(node):
            if isinstance(part, ir.CteScan) and part.cte in known.keys() - own - needed.keys():
                table = known[part.cte]
                if has_acting_calls(table) or any(each is found for each in walk(table)):
                    raise _unsupported()
                need(table)
                needed[table.id] = table

    need(inner)
    return ir.With(tables=tuple(needed.values()), body=inner, fields=inner.fields) if needed else inner


def _replaced(found: ir.Project, made: ir.Rel, node: Any) -> Any:
    return made if node is found else None


# ---------------------------------------------------------------- one select list


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

    def argument(arg: ir.Scalar) -> ir.Scalar:
        if has_acting_calls(arg):
            # What the call inside gives is known once that has been carried out.
            return transform(arg, rewritten)
        return arg if isinstance(arg, ir.Literal) else column(arg, "argument")

    def rewritten(node: Any) -> Any:
        if isinstance(node, ir.Call) and acts(node.signature):
            return replace(node, args=tuple([argument(arg) for arg in node.args]))
        if isinstance(node, (ir.ScalarSubquery, ir.Exists, ir.QuantifiedSubquery, ir.ArraySubquery)):
            if not has_acting_calls(node):
                return column(node, "subquery")
            expr = _of_each_row(node)
            if expr is None:
                raise _unsupported()
            return transform(expr, rewritten)
        return column(node, "column") if isinstance(node, ir.ColumnRef) else None

    templates = [
        transform(expr, rewritten) if has_acting_calls(expr) else column(expr, field.name)
        for expr, field in zip(rel.exprs, rel.fields, strict=True)
    ]
    return ir.Project(input=rel.input, exprs=tuple(exprs), fields=tuple(fields)), templates


def _of_each_row(subquery: ir.Scalar) -> ir.Scalar | None:
    """The expression of `(SELECT expression)` without FROM that depends on the row; None for any other subquery."""
    rel = subquery.rel if isinstance(subquery, ir.ScalarSubquery) else None
    if not isinstance(rel, ir.Project) or not isinstance(rel.input, ir.OneRow):
        return None
    (expr,) = rel.exprs
    return expr if any(isinstance(node, ir.ColumnRef) for node in walk(expr)) else None


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
