"""Recursive common tables that are worked out in rounds, by whoever runs the query, instead of by an engine's own WITH
RECURSIVE: what is run for them, and the query that reads what came out.

The first round is the non-recursive term. Each further one is the recursive term over the rows that the one before has
added (`added`), until one adds none; with UNION a row is added only if it is not among all rows so far (`so_far`). That
is PostgreSQL's own definition, so that what the terms may do does not depend on what the engine's recursion can.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from planner.dialects.dialect import Dialect
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.rewrite import transform, walk
from planner.lowering.relations.relations import refused_recursion

ROUND_ROWS = -750_000
"""From here down: the `CteScan.cte` of rows that rounds have left."""


class RecursiveTable(Struct, frozen=True, kw_only=True):
    """One common table: the queries of its first round and of each further one, which reads the rows of the round
    before as `added` and, with UNION, all rows as `so_far`. Others read its rows as `so_far`. `enough`: nobody reads
    more rows than this."""

    first: BoundQuery
    further: BoundQuery
    added: int
    so_far: int
    enough: int | None


class Rounds(Struct, frozen=True, kw_only=True):
    """A query whose recursive tables are worked out before it, in order; `body` reads their rows."""

    tables: tuple[RecursiveTable, ...]
    body: BoundQuery


def rounds_of(query: BoundQuery, dialect: Dialect) -> Rounds | None:
    """`query` with the recursive tables in rounds that the engine of `dialect` cannot work out. None when there are
    none, or when one of them cannot be worked out before the rest: it refers to columns around it, to a recursive table
    inside whose recursive term it stands, or to tables beside it of a query with volatile functions."""
    tables: list[RecursiveTable] = []
    rel = query.rel
    while True:
        known = {node.id: node for node in walk(rel) if isinstance(node, ir.CommonTable)}
        waiting = [table for table in known.values() if table.step is not None and refused_recursion(table, dialect)]
        if not waiting:
            break
        ready = next((table for table in waiting if _is_ready(query, table, known, waiting)), None)
        if ready is None:
            return None
        made = _in_rounds(query, ready, known, ROUND_ROWS - 2 * len(tables), _enough(rel, ready.id))
        tables.append(made)
        rel = _without(rel, ready.id, made.so_far)
    return Rounds(tables=tuple(tables), body=replace(query, rel=rel)) if tables else None


def _is_ready(
    query: BoundQuery, table: ir.CommonTable, known: dict[int, ir.CommonTable], waiting: list[ir.CommonTable]
) -> bool:
    needed = _needed(table, known)
    if needed and query.volatile:
        # They would be worked out several times, and differ.
        return False
    for other in needed:
        if any(inside is table for inside in walk(other)) or any(inside is other for inside in waiting):
            return False
    read = (table, *needed)
    if any(part is not table and part in waiting for own in read for part in walk(own)):
        return False
    made = {field.id for own in read for node in walk(own) for field in getattr(node, "fields", ())}
    return all(node.id in made for own in read for node in walk(own) if isinstance(node, ir.ColumnRef))


def _needed(table: ir.CommonTable, known: dict[int, ir.CommonTable]) -> list[ir.CommonTable]:
    """The common tables outside `table` that it reads, and those that these read, in the order of their definition."""
    inside = {node.id for node in walk(table) if isinstance(node, ir.CommonTable)}
    found: dict[int, ir.CommonTable] = {}
    look = [table]
    while look:
        for cte in _read(look.pop()):
            if cte in known and cte not in inside and cte not in found:
                found[cte] = known[cte]
                look.append(known[cte])
    nested = {node.id for own in found.values() for node in walk(own) if isinstance(node, ir.CommonTable)} - set(found)
    return [found[cte] for cte in sorted(found) if cte not in nested]


def _read(node: Any) -> Iterator[int]:
    return (scan.cte for scan in walk(node) if isinstance(scan, ir.CteScan))


def _in_rounds(
    query: BoundQuery, table: ir.CommonTable, known: dict[int, ir.CommonTable], so_far: int, enough: int | None
) -> RecursiveTable:
    assert table.step is not None
    added = so_far - 1
    first = table.rel
    further = _scanned(table.step, table.id, added)
    if not table.union_all:
        first = ir.Deduplicate(input=first, on=(), order_by=(), fields=first.fields)
        number = 1 + max(field.id for node in walk(query.rel) for field in getattr(node, "fields", ()))
        fields = [
            tuple([replace(field, id=number + place * len(first.fields) + index) for index, field in enumerate(kept)])
            for place, kept in enumerate((further.fields, further.fields))
        ]
        so_far_rows = ir.CteScan(cte=so_far, fields=fields[0])
        further = ir.SetOperation(op="except", all=False, left=further, right=so_far_rows, fields=fields[1])
    around = tuple(_needed(table, known))
    if around:
        first = ir.With(tables=around, body=first, fields=first.fields)
        further = ir.With(tables=around, body=further, fields=further.fields)
    plain = replace(query, locking=None, required=())
    return RecursiveTable(
        first=replace(plain, rel=first), further=replace(plain, rel=further), added=added, so_far=so_far, enough=enough
    )


def _scanned(rel: ir.Rel, cte: int, rows: int) -> ir.Rel:
    """`rel` that reads `rows` in place of the common table `cte`."""

    def moved(node: Any) -> Any:
        return replace(node, cte=rows) if isinstance(node, ir.CteScan) and node.cte == cte else None

    return transform(rel, moved)


def _without(rel: ir.Rel, cte: int, rows: int) -> ir.Rel:
    """`rel` without the definition of the common table `cte`, whose rows it reads as `rows`."""

    def dropped(node: Any) -> Any:
        if not isinstance(node, ir.With) or all(table.id != cte for table in node.tables):
            return None
        left = tuple([table for table in node.tables if table.id != cte])
        return replace(node, tables=left) if left else node.body

    return _scanned(transform(rel, dropped), cte, rows)


def _enough(rel: ir.Rel, cte: int) -> int | None:
    """How many rows of the common table `cte` a query reads at most that takes its first ones; None: any number."""
    if sum(1 for read in _read(rel) if read == cte) > 2:
        # Its own recursive term is one of them.
        return None
    node, count = rel, None
    while not isinstance(node, ir.CteScan):
        match node:
            case ir.With():
                node = node.body
            case ir.Limit(input=input, count=taken, offset=skipped, ties=False):
                numbers = [_number(taken), 0 if skipped is None else _number(skipped)]
                if numbers[0] is None or numbers[1] is None or count is not None:
                    return None
                count, node = numbers[0] + numbers[1], input
            case ir.Project(input=input):
                node = input
            case _:
                return None
    return count if node.cte == cte else None


def _number(expr: ir.Scalar | None) -> int | None:
    while isinstance(expr, ir.Cast):
        expr = expr.arg
    return expr.value if isinstance(expr, ir.Literal) and type(expr.value) is int else None
