"""Functions that act on the session in WHERE: ``WHERE pg_try_advisory_lock(id)``.

The rows that meet the other conditions are read first; then the calls are carried out row by row, in that order, and
the query goes on with the rows for which the conditions with calls are true, at hand. 0A000 where such a WHERE depends
on a query around it, or finds more than `MAX_ROWS` rows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

import pyarrow as pa
from msgspec.structs import replace

from adapter.execution.statement import Running
from adapter.plans.plan_cache import has_acting_calls
from adapter.plans.row_text import literal_value
from adapter.queries.acting.calls import MAX_ROWS, ReadRows, value_after_calls
from adapter.results import RecordBatch
from planner.errors import FeatureNotSupported
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.physical import arrow_type
from planner.ir.rewrite import RELATIONS, children, column_ids, is_correlated, transform, walk
from storage.shards.parts import NO_COLUMNS, written_table

FIRST_AT_HAND = ir.RETURNING_ROWS - 2000
"""The id of the first `CteScan` of rows for which calls were carried out; lower ones follow."""

Read = Callable[[BoundQuery, Mapping[int, Any]], Awaitable[AsyncIterator[RecordBatch]]]
"""Runs a query that reads rows at hand."""


def has_acting_filters(rel: ir.Rel) -> bool:
    """Whether a WHERE in `rel` acts on the session."""
    return any(_acts(node) for node in walk(rel))


def _acts(node: object) -> bool:
    """Whether `node` is a WHERE that acts on the session itself, not in a query inside."""
    if not isinstance(node, ir.Filter) or not has_acting_calls(node.condition):
        return False
    nothing = ir.OneRow()
    return has_acting_calls(transform(node.condition, lambda part: nothing if type(part) in RELATIONS else None))


def without_acting_filters(rel: ir.Rel) -> ir.Rel:
    """`rel` without the conditions that act on the session."""

    def plain(node: Any) -> Any:
        if _acts(node):
            return _other_conditions(replace(node, input=transform(node.input, plain)))
        return None

    return transform(rel, plain)


async def with_filters_carried_out(
    running: Running, query: BoundQuery, at_hand: Mapping[int, Any], read: Read, read_rows: ReadRows
) -> tuple[BoundQuery, Mapping[int, Any]]:
    """`query` reading at hand the rows for which its acting conditions are true, and all rows at hand."""
    filters: dict[int, ir.Filter] = {}

    def note(node: Any) -> Any:
        if _acts(node):
            filters[id(node)] = node
            return node
        return None

    transform(query.rel, note)
    if any(not filters.keys().isdisjoint(map(id, walk(rel))) for rel in _evaluated_by_row(query.rel)):
        raise _correlated()
    rows = dict(at_hand)
    scans: dict[int, ir.CteScan] = {}
    for number, (key, node) in enumerate(filters.items()):
        if any(type(part) in RELATIONS for part in walk(_conditions(node, acting=True))):
            raise FeatureNotSupported("functions that act on the session are not supported in a subquery of WHERE")
        own = {field.id for part in walk(node) for field in getattr(part, "fields", ())}
        if not own.issuperset(column_ids(node)):
            raise _correlated()
        batches = await read(replace(query, rel=_other_conditions(node)), at_hand)
        rows[FIRST_AT_HAND - number] = await _true_rows(running, node, batches, read_rows)
        scans[key] = ir.CteScan(cte=FIRST_AT_HAND - number, fields=node.fields)
    return replace(query, rel=transform(query.rel, lambda node: scans.get(id(node)))), rows


def _evaluated_by_row(rel: ir.Rel) -> Iterator[ir.Rel]:
    """The queries in `rel` that are carried out for each row around them."""
    for node in walk(rel):
        if isinstance(node, ir.Join):
            inside = [node.right] if node.lateral else []
        else:
            inside = [] if type(node) in RELATIONS else [each for each in children(node) if type(each) in RELATIONS]
        yield from filter(is_correlated, inside)


def _correlated() -> FeatureNotSupported:
    return FeatureNotSupported("functions that act on the session are not supported in a correlated subquery")


def _conditions(node: ir.Filter, *, acting: bool) -> tuple[ir.Scalar, ...]:
    condition = node.condition
    parts = condition.args if isinstance(condition, ir.BoolOp) and condition.op == "and" else (condition,)
    return tuple(part for part in parts if has_acting_calls(part) is acting)


def _other_conditions(node: ir.Filter) -> ir.Rel:
    """`node` with the conditions that do not act."""
    rest = _conditions(node, acting=False)
    if not rest:
        return node.input
    condition = rest[0] if len(rest) == 1 else ir.BoolOp(op="and", args=rest, type=node.condition.type)
    return replace(node, condition=condition)


async def _true_rows(
    running: Running, node: ir.Filter, stream: AsyncIterator[RecordBatch], read_rows: ReadRows
) -> pa.Table:
    """The rows of `stream` for which the acting conditions of `node` are true once their calls are carried out."""
    acting = _conditions(node, acting=True)
    used = set(column_ids(acting))
    places = [(place, field) for place, field in enumerate(node.fields) if field.id in used]
    names = [f"c{number}" for number in range(1, len(node.fields) + 1)]
    kept: list[pa.Table] = []
    count = 0
    async with aclosing(cast(Any, stream)) as batches:
        async for batch in batches:
            count += batch.num_rows
            if count > MAX_ROWS:
                raise FeatureNotSupported(
                    f"functions that act on the session are not supported for more than {MAX_ROWS} rows"
                )
            true: list[int] = []
            for row in range(batch.num_rows):
                values = {
                    field.id: ir.Literal(value=literal_value(batch.column(place), row, field.type), type=field.type)
                    for place, field in places
                }
                if await _are_true(running, acting, values, read_rows):
                    true.append(row)
            if names:
                kept.append(pa.Table.from_batches([batch.take(pa.array(true, pa.int64()))]).rename_columns(names))
            else:
                kept.append(pa.table({NO_COLUMNS: pa.nulls(len(true), pa.bool_())}))
    if kept:
        return pa.concat_tables(kept)
    schema = pa.schema([(name, arrow_type(field.type)) for name, field in zip(names, node.fields, strict=True)])
    return written_table(schema.empty_table())


async def _are_true(
    running: Running, conditions: Sequence[ir.Scalar], values: Mapping[int, ir.Literal], read_rows: ReadRows
) -> bool:
    for condition in conditions:
        at_row = transform(condition, lambda node: values[node.id] if isinstance(node, ir.ColumnRef) else None)
        if await value_after_calls(running, at_row, read_rows) is not True:
            return False
    return True
