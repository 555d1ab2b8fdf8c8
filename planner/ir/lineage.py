"""Which columns of tables the columns of a query come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from planner.ir import nodes as ir
from planner.ir.rewrite import children, walk

Source: TypeAlias = tuple[int, int]
"""A column: its relation's oid and its attnum."""


def lineage(rel: ir.Rel) -> tuple[frozenset[Source], ...]:
    """For each column of `rel` the columns of tables and system relations that its values are made of, by themselves or
    by an expression; those that only decide which rows there are (conditions, keys of joins) are not among them."""
    known: dict[int, Source] = {}
    made: dict[int, list[Any]] = {}
    tables = {table.id: table for node in walk(rel) if isinstance(node, ir.With) for table in node.tables}
    for node in walk(rel):
        if isinstance(node, (ir.Scan, ir.SystemScan)) or _is_foreign(node, tables):
            known |= {
                field.id: (field.origin.relation_oid, field.origin.attnum) for field in node.fields if field.origin
            }
        else:
            for id, values in _made(node, tables):
                made.setdefault(id, []).extend(values)
    found: list[frozenset[Source]] = []
    for field in rel.fields:
        seen: set[int] = set()
        due = [field.id]
        while due:
            id = due.pop()
            if id not in seen:
                seen.add(id)
                due.extend(used for value in made.get(id, ()) for used in _used(value))
        found.append(frozenset(known[id] for id in seen & known.keys()))
    return tuple(found)


def _is_foreign(node: Any, tables: Mapping[int, ir.CommonTable]) -> bool:
    """Whether it makes the rows of a foreign table of what is read for it, whose number is that of no common table."""
    return isinstance(node, ir.Project) and isinstance(node.input, ir.CteScan) and node.input.cte not in tables


def _made(node: Any, tables: Mapping[int, ir.CommonTable]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The columns that a relation makes: id, and the expressions or columns that it makes them of."""
    match node:
        case ir.Project():
            yield from _by_field(node.fields, [(expr,) for expr in node.exprs])
        case ir.Values():
            yield from _by_field(node.fields, list(zip(*node.rows, strict=True)))
        case ir.Aggregate():
            yield from _by_field(node.fields, [*((key,) for key in node.keys), *map(_of_call, node.calls)])
        case ir.Window():
            own = node.fields[len(node.fields) - len(node.calls) :]
            yield from _by_field(own, [tuple(call.args) for call in node.calls])
        case ir.FunctionCall():
            yield from ((field.id, node.args) for field in node.fields)
        case ir.SetOperation():
            sides = zip(node.left.fields, node.right.fields, strict=True)
            yield from _by_field(node.fields, [tuple(pair) for pair in sides])
        case ir.CteScan() if node.cte in tables:
            table = tables[node.cte]
            for number, field in enumerate(node.fields):
                terms = (table.rel,) if table.step is None else (table.rel, table.step)
                yield field.id, tuple(term.fields[number] for term in terms if number < len(term.fields))


def _of_call(call: ir.AggregateCall) -> tuple[Any, ...]:
    return (*call.args, *(key.expr for key in call.order_by if call.signature.name in _ORDERED))


_ORDERED = frozenset({"percentile_cont", "percentile_disc", "mode"})
"""Aggregates whose value is one of those that they are ordered by."""


def _by_field(fields: tuple[ir.Field, ...], values: list[tuple[Any, ...]]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    yield from ((field.id, value) for field, value in zip(fields, values, strict=False))


def _used(value: Any) -> Iterator[int]:
    """The columns that a value is made of: of a subquery those that it gives, of EXISTS none."""
    due = [value]
    while due:
        node = due.pop()
        if isinstance(node, (ir.ColumnRef, ir.Field)):
            yield node.id
        elif isinstance(node, (ir.ScalarSubquery, ir.ArraySubquery)):
            yield from (field.id for field in node.rel.fields)
        elif isinstance(node, ir.QuantifiedSubquery | ir.Exists):
            continue
        else:
            due.extend(children(node))
