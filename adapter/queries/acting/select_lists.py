"""Functions that act on the session, called for each row of a query: `SELECT pg_terminate_backend(pid) FROM ...`,
`SELECT setval('s', max(id)) FROM t`, `SELECT set_config(name, ...) FROM pg_settings WHERE ...`.

The calls stand in the outermost select list, or in that of a query inside which needs nothing of the one around it;
those in the arguments of aggregates and windows get a select list of their own. What the calls of a list need is read
first (`read_before`); then they are carried out row by row, in the order of the rows, and the query becomes one over
constant rows. 0A000 where a call stands elsewhere, or for more than `calls.MAX_ROWS` rows; nextval alone takes any
number of them (`numbered_lists`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from msgspec.structs import replace

from adapter.execution.statement import Running
from adapter.plans.plan_cache import has_acting_calls
from adapter.procedures.rows import constant_rows, expression_rows, unsupported_place, with_tables
from adapter.queries.acting.calls import SUBQUERIES, ReadRows, carry_out_calls, require_few
from adapter.queries.acting.numbered_lists import ReadBatches, numbering_calls, with_numbers
from adapter.queries.acting.read_before import Templates, outer_columns
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.rewrite import column_ids, transform, walk
from planner.resolution.session_values import acts
from planner.types.types import INT4, SqlType

ROWS_AT_ONCE = 64
"""Rows that are worked on before others have their turn."""


def is_evaluated_once(rel: ir.Rel) -> bool:
    """Whether every expression of `rel` is evaluated exactly once."""
    match rel:
        case ir.OneRow() | ir.Values():
            return True
        case ir.Project(input=ir.Values(rows=rows)):
            return len(rows) == 1 or not has_acting_calls(rel.exprs)
        case ir.Project() | ir.Sort():
            return is_evaluated_once(rel.input)
        case _:
            return False


class Reading(NamedTuple):
    """How the parts of a query are read: as rows in Python, or in batches, which may come to the rows `at_hand`."""

    rows: ReadRows
    batches: ReadBatches
    at_hand: dict[int, Any]

    def inside(self, rel: ir.Rel, found: ir.Rel) -> Reading:
        """Reading for `found`, a part of `rel` whose common tables it needs."""
        return self._replace(
            rows=lambda inner: self.rows(with_tables(rel, inner, found)),
            batches=lambda inner: self.batches(with_tables(rel, inner, found)),
        )


async def carry_out_for_rows(running: Running, query: BoundQuery, reading: Reading) -> BoundQuery:
    """`query` with its acting calls carried out for each row, over constant rows or rows at hand."""
    query = replace(query, rel=transform(transform(query.rel, _as_list), _with_list_below))
    query = replace(query, rel=await _with_arguments(running, query.rel, reading.rows))
    while (found := _lateral_inside(query.rel) or _list_inside(query.rel)) is not None:
        inside = reading.inside(query.rel, found)
        if isinstance(found, ir.Join):
            made = await _of_each_row(found, inside.rows)
        else:
            templates = Templates(found, _first_free_id(query.rel))
            made = await _carried_out(running, found.fields, templates, templates.inner, inside)
        query = replace(query, rel=transform(query.rel, partial(_replaced, found, made)))
    return await _outermost(running, query, reading) if has_acting_calls(query.rel) else query


async def _outermost(running: Running, query: BoundQuery, reading: Reading) -> BoundQuery:
    above: list[ir.Limit | ir.Sort | ir.Project] = []
    rel: ir.Rel = query.rel
    while isinstance(rel, (ir.Limit, ir.Sort, ir.Project)) and not (
        isinstance(rel, ir.Project) and has_acting_calls(rel.exprs)
    ):
        above.append(rel)
        rel = rel.input
    if not isinstance(rel, ir.Project) or has_acting_calls((rel.input, *map(_own, above))):
        raise unsupported_place()
    templates = Templates(rel, _first_free_id(query.rel))
    below: ir.Rel = templates.inner
    while above:
        node = above[-1]
        if isinstance(node, ir.Sort):
            # As in PostgreSQL, what is volatile in the list is evaluated after the rows have been sorted.
            keys = _over_templates(node.keys, rel.fields, templates.exprs)
            if keys is None:
                break
            below = ir.Sort(input=below, keys=keys, fields=below.fields)
        elif isinstance(node, ir.Limit) and not node.ties:
            below = replace(node, input=below, fields=below.fields)
        else:
            break
        above.pop()
    result = await _carried_out(running, rel.fields, templates, below, reading)
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
    templates: Templates,
    below: ir.Rel,
    reading: Reading,
) -> ir.Rel:
    """The rows of a select list of `fields`, which `templates` make of the rows of `below`."""
    numbering = numbering_calls(running, templates.exprs)
    if numbering is not None:
        return await with_numbers(running, below, templates, fields, numbering, reading.batches, reading.at_hand)
    rows = await reading.rows(below)
    require_few(rows)
    read_once = templates.reading_once(reading.rows)
    made: list[tuple[ir.Scalar, ...]] = []
    for start in range(0, len(rows), ROWS_AT_ONCE):
        # Rows of which nothing is carried out wait for nothing.
        await asyncio.sleep(0)
        running.scope.check()
        some = [
            await carry_out_calls(running, templates.filled(row), read_once)
            for row in rows[start : start + ROWS_AT_ONCE]
        ]
        if len(rows) > ROWS_AT_ONCE and any(isinstance(node, SUBQUERIES) for node in walk(tuple(some))):
            # Subqueries are planned for each row; the work for many at once grows with the square of their number.
            some = await _as_constants(fields, some, reading.rows)
        made += some
    return expression_rows(fields, made)


async def _as_constants(
    fields: tuple[ir.Field, ...], rows: Sequence[tuple[ir.Scalar, ...]], read_rows: ReadRows
) -> list[tuple[ir.Scalar, ...]]:
    number = ir.Field(id=_first_free_id(expression_rows(fields, rows)), name="number", type=SqlType(INT4))
    numbered = [(*row, ir.Literal(value=place, type=number.type)) for place, row in enumerate(rows)]
    found = sorted(await read_rows(expression_rows((*fields, number), numbered)), key=itemgetter(-1))
    return [
        tuple([ir.Literal(value=value, type=field.type) for value, field in zip(row, fields, strict=False)])
        for row in found
    ]


async def _with_arguments(running: Running, rel: ir.Rel, read_rows: ReadRows) -> ir.Rel:
    """`rel` with the calls in arguments of functions in FROM, `generate_series(1, nextval('s'))`, carried out."""
    calls = [
        node for node in walk(rel)
        if isinstance(node, ir.FunctionCall) and has_acting_calls(node.args) and not [*column_ids(node.args)]
    ]  # fmt: skip
    made = {id(call): replace(call, args=await carry_out_calls(running, call.args, read_rows)) for call in calls}
    return transform(rel, lambda node: made.get(id(node)))


# ---------------------------------------------------------------- inside a query


def _as_list(node: Any) -> Any:
    """What is evaluated as a select list without FROM is: a function in FROM that acts, `SELECT * FROM pg_sleep(1)`,
    and a row of VALUES; and the columns of `t, LATERAL (SELECT nextval('s') + t.x)` as one list over t."""
    match node:
        case ir.FunctionScan(functions=(call,), ordinality=None, fields=(field,)) if (
            acts(call.signature) and not call.signature.acts
        ):
            expr = ir.Call(signature=call.signature, args=call.args, type=field.type)
            return ir.Project(input=ir.OneRow(), exprs=(expr,), fields=node.fields)
        case ir.Values(rows=(row,)) if has_acting_calls(row):
            return ir.Project(input=ir.OneRow(), exprs=row, fields=node.fields)
        case ir.Join(kind="cross", lateral=True) if has_acting_calls(node.right):
            right = transform(node.right, _as_list)
            if isinstance(right, ir.Project) and isinstance(right.input, ir.OneRow) and [*column_ids(right.exprs)]:
                exprs = [ir.ColumnRef(id=field.id, type=field.type) for field in node.left.fields]
                left = transform(node.left, _as_list)
                return ir.Project(input=left, exprs=(*exprs, *right.exprs), fields=node.fields)
    return None


def _with_list_below(node: Any) -> Any:
    """An aggregation, or a list over windows, whose calls have acting arguments, over a select list that has these."""
    if isinstance(node, ir.Aggregate) and has_acting_calls((node.calls, node.keys)):
        below, calls, keys = _arguments_below(node)
        return replace(node, input=below, calls=calls, keys=keys)
    if isinstance(node, ir.Project) and isinstance(node.input, ir.Window) and has_acting_calls(node.input.calls):
        windows = node.input
        below, calls, _ = _arguments_below(windows)
        fields = (*below.fields, *windows.fields[len(windows.input.fields) :])
        return replace(node, input=replace(windows, input=below, calls=calls, fields=fields))
    return None


def _arguments_below(
    node: ir.Aggregate | ir.Window,
) -> tuple[ir.Project, tuple[Any, ...], tuple[ir.Scalar, ...]]:
    """The select list that goes below `node`, and the calls and keys over it."""
    below = transform(node.input, _with_list_below)
    exprs: list[ir.Scalar] = [ir.ColumnRef(id=field.id, type=field.type) for field in below.fields]
    fields = [*below.fields]
    above = _first_free_id(node)

    def column(expr: Any, where: ir.Scalar | None = None) -> Any:
        if isinstance(expr, _NO_VALUES) or not has_acting_calls(expr):
            return None
        exprs.append(expr if where is None else ir.Case(whens=((where, expr),), otherwise=None, type=expr.type))
        fields.append(ir.Field(id=above + len(fields), name="called", type=expr.type))
        return ir.ColumnRef(id=fields[-1].id, type=expr.type)

    calls = []
    for call in node.calls:
        # The arguments are evaluated of the rows that FILTER takes.
        where = None if call.filter is None or has_acting_calls(call.filter) else call.filter
        calls.append(transform(call, partial(column, where=where)))
    keys = transform(node.keys, column) if isinstance(node, ir.Aggregate) else ()
    return ir.Project(input=below, exprs=tuple(exprs), fields=tuple(fields)), tuple(calls), keys


_NO_VALUES = (ir.AggregateCall, ir.WindowCall, ir.SortKey, ir.Frame, ir.FrameBound)


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
        if has_acting_calls(node.input):
            continue
        own = {field.id for part in walk(node) for field in getattr(part, "fields", ())}
        if own.issuperset(column_ids(node)):
            return node
    return None


def _lateral_inside(rel: ir.Rel) -> ir.Join | None:
    """The first join whose right side acts and depends on the rows of its left one, if the join needs nothing of the
    query around it."""
    for node in walk(rel):
        if not isinstance(node, ir.Join) or not node.lateral or node.kind not in ("cross", "inner", "left"):
            continue
        if not has_acting_calls(node.right) or has_acting_calls((node.left, node.condition or ())):
            continue
        needed = outer_columns(node.right)
        if needed and needed <= {field.id for field in node.left.fields} and not outer_columns(node):
            return node
    return None


async def _of_each_row(join: ir.Join, read_rows: ReadRows) -> ir.Rel:
    """The rows of a lateral join, its right side read for one row of the left one after the other."""
    rows: list[Sequence[Any]] = []
    left = await read_rows(join.left)
    require_few(left)
    for row in left:
        literals = {
            field.id: ir.Literal(value=value, type=field.type)
            for field, value in zip(join.left.fields, row, strict=True)
        }
        right = join.right
        if join.condition is not None:
            right = ir.Filter(input=right, condition=join.condition, fields=right.fields)
        right = transform(right, partial(_known, literals))
        found = await read_rows(right)
        if not found and join.kind == "left":
            found = [(None,) * len(join.right.fields)]
        rows += [(*row, *each) for each in found]
        require_few(rows)
    return constant_rows(join.fields, rows)


def _known(literals: Mapping[int, ir.Literal], node: Any) -> Any:
    return literals.get(node.id) if isinstance(node, ir.ColumnRef) else None


def _replaced(found: ir.Rel, made: ir.Rel, node: Any) -> Any:
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
