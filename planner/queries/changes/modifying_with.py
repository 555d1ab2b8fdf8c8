"""Data-modifying WITH: which of its queries are run by themselves, and which stand in those that read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from planner.ir.bound import WITH_ROWS, BoundQuery, BoundStatement, BoundWith, WithStep
from planner.ir.nodes import CommonTable, CteScan, With
from planner.ir.rewrite import transform, walk
from planner.queries.changes.column_values import bound_query
from planner.queries.common_tables import with_tables
from planner.resolution.statement import Statement


def with_steps(statement: Statement, body: BoundStatement) -> BoundStatement:
    """The whole statement of which `body` is what its WITH is about. Where nothing is changed in WITH, that is `body`.

    A common table that several queries read becomes a step of its own, so that all read the same rows.
    """
    whole = statement.with_changes
    if whole is None or not whole.items:
        return body
    tables = {item.id: item for item in whole.items if isinstance(item, CommonTable)}
    readers: Counter[int] = Counter()
    for part in (*(item.statement for item in whole.items if isinstance(item, WithStep)), body):
        for query in walk(part):
            if isinstance(query, BoundQuery):
                readers.update(_read_by(query, tables))
    shared = {id: WITH_ROWS - id for id in tables if readers[id] > 1}
    param_types = statement.final_param_types()

    def finished(node: object) -> BoundQuery | None:
        if not isinstance(node, BoundQuery):
            return None
        read = _read_by(node, tables)
        inline = [transform(table, _to_steps(shared)) for id, table in tables.items() if id in read - shared.keys()]
        rel = with_tables(inline, transform(node.rel, _to_steps(shared)))
        return replace(node, rel=rel, param_types=param_types)

    steps: list[WithStep] = []
    for item in whole.items:
        if isinstance(item, WithStep):
            steps.append(replace(item, statement=transform(item.statement, finished)))
        elif item.id in shared:
            others = {id: step for id, step in shared.items() if id != item.id}
            query = bound_query(statement, _alone(statement, transform(item, _to_steps(others))))
            read = _read_by(item, tables) - {item.id}
            inline = [transform(table, _to_steps(shared)) for id, table in tables.items() if id in read - shared.keys()]
            query = replace(query, rel=with_tables(inline, query.rel))
            steps.append(WithStep(id=shared[item.id], name=item.name, statement=query))
    return BoundWith(steps=tuple(steps), body=transform(body, finished))


def _read_by(node: object, tables: Mapping[int, CommonTable]) -> set[int]:
    """The ids of the common tables that are read in `node`, and by those."""
    found: set[int] = set()
    left = [node]
    while left:
        for inner in walk(left.pop()):
            if isinstance(inner, CteScan) and inner.cte in tables and inner.cte not in found:
                found.add(inner.cte)
                left.append(tables[inner.cte])
    return found


def _to_steps(shared: Mapping[int, int]) -> Callable[[Any], CteScan | None]:
    """What makes scans of the common tables `shared` into scans of the rows of steps."""

    def scanned(node: object) -> CteScan | None:
        return replace(node, cte=shared[node.cte]) if isinstance(node, CteScan) and node.cte in shared else None

    return scanned


def _alone(statement: Statement, table: CommonTable) -> With:
    """A query for all rows of `table`."""
    fields = tuple(statement.new_field(field.name, field.type) for field in table.rel.fields)
    return With(tables=(table,), body=CteScan(cte=table.id, fields=fields), fields=fields)
