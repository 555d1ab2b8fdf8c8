"""WHERE CURRENT OF: which row of a table a cursor is on.

PostgreSQL's rules (execCurrentOf). A cursor that locks rows knows the row of each table that it locks. Another one
knows that of its only table, if each of its rows is one of the table: it is "simply updatable". PostgreSQL's plan
decides whether one with ORDER BY is; here, whether an index of the table has its rows in that order. A row that has
been changed since is the row that took its place.

A cursor's query carries the ids of rows as further columns, which clients do not see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from adapter.execution.cursors import KnownRow
from adapter.execution.portals import Portal
from adapter.execution.statement import Running
from adapter.plans.first_rows import in_order
from adapter.plans.index_paths import ordered_paths
from adapter.plans.key_indexes import usable_indexes
from adapter.plans.operands import operands_of
from adapter.plans.plan_cache import Plan
from adapter.plans.predicates import bind_templates, scan_templates
from adapter.transactions.decided_rows import DELETED
from adapter.transactions.row_versions import UNKNOWN
from planner.errors import InvalidCursorName, InvalidCursorState
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.rewrite import walk
from planner.types.types import INT8, SqlType
from storage.catalog.model import CatalogSnapshot, Relation
from storage.shards.parts import PROVISIONAL_ROW_ID

CURRENT_ROW = "cursor_row"
"""The session value ``cursor_row:<oid of a table>:<cursor>`` is the id of a row."""

NO_ROW = -1
"""No row has this id."""


def with_row_ids(
    plan: Plan, catalog: CatalogSnapshot, params: Sequence[ir.Literal]
) -> tuple[Plan, tuple[KnownRow, ...]]:
    """The plan of a cursor's query with the ids of rows that it can tell, and what these are."""
    query = plan.query
    if query is None or query.system:
        return plan, ()
    exposing = _Exposing(query.rel, lambda sort: _is_indexed(sort, catalog, params))
    rel = exposing.expose(query.rel)
    if rel is None:
        return plan, ()
    changed = replace(query, rel=rel)
    operands = None if plan.acts else operands_of(changed)
    read = replace(plan, query=changed, templates=scan_templates(rel), operands=operands, key_read=None)
    return read, tuple(exposing.known)


def _is_indexed(sort: ir.Sort, catalog: CatalogSnapshot, params: Sequence[ir.Literal]) -> bool:
    """Whether an index of the only table has the rows in the order of `sort`."""
    first = in_order(sort)
    relation = None if first is None else catalog.get(first.scan.relation_oid)
    if first is None or not isinstance(relation, Relation):
        return False
    (needed,) = bind_templates(scan_templates(sort.input), params).get(relation.oid, ((),))
    not_null = frozenset([f"c{column.attnum}" for column in relation.columns if column.not_null])
    return bool(ordered_paths(first, needed, usable_indexes(catalog, relation), not_null))


class _Exposing:
    def __init__(self, rel: ir.Rel, is_indexed: Callable[[ir.Sort], bool]) -> None:
        self._is_indexed = is_indexed
        self._next_id = max((field.id for node in walk(rel) for field in getattr(node, "fields", ())), default=0) + 1
        self._ids: list[ir.ColumnRef] = []
        self.known: list[KnownRow] = []

    def _field(self) -> ir.Field:
        self._next_id += 1
        return ir.Field(id=self._next_id - 1, name="_row_id", type=SqlType(INT8))

    def expose(self, rel: ir.Rel) -> ir.Rel | None:
        """`rel` with the ids of its rows as the last columns; None when they cannot be told."""
        match rel:
            case ir.Scan(row_id=None):
                field = self._field()
                self._ids = [ir.ColumnRef(id=field.id, type=field.type)]
                self.known = [KnownRow(relation_oid=rel.relation_oid, locked=False)]
                return replace(rel, fields=(*rel.fields, field), row_id=field.id)
            case ir.LockRows():
                marks = [mark for mark in rel.marks if mark.strength is not None]
                self._ids = [ir.ColumnRef(id=mark.field, type=SqlType(INT8)) for mark in marks]
                self.known = [KnownRow(relation_oid=mark.relation_oid, locked=True) for mark in marks]
                return rel
            case ir.Filter() | ir.Limit():
                below = self.expose(rel.input)
                return None if below is None else replace(rel, input=below, fields=below.fields)
            case ir.Sort() if self._is_indexed(rel):
                below = self.expose(rel.input)
                return None if below is None else replace(rel, input=below, fields=below.fields)
            case ir.Project():
                below = self.expose(rel.input)
                if below is None:
                    return None
                fields = [self._field() for _ in self._ids]
                project = replace(rel, input=below, exprs=(*rel.exprs, *self._ids), fields=(*rel.fields, *fields))
                self._ids = [ir.ColumnRef(id=field.id, type=field.type) for field in fields]
                return project
            case _:
                return None


async def current_row(running: Running, name: str) -> int:
    """The id of the row that is meant by a `CURRENT_ROW` value; `NO_ROW` when it is gone. Raises 34000, 24000."""
    _, oid_text, cursor = name.split(":", 2)
    relation = running.transaction.catalog.get(int(oid_text))
    assert isinstance(relation, Relation)
    portal = running.session.portals.by_name.get(cursor)
    if portal is None:
        raise InvalidCursorName(f'cursor "{cursor}" does not exist')
    if portal.plan is None or not isinstance(portal.plan.statement, BoundQuery):
        raise InvalidCursorState(f'cursor "{cursor}" is not a SELECT query')
    if portal.held:
        raise InvalidCursorState(f'cursor "{cursor}" is held from a previous transaction')
    places = _places(portal, portal.known_rows, relation, portal.plan.statement.locking is not None)
    ids = None if portal.cursor is None else portal.cursor.row_ids
    if ids is None:
        raise InvalidCursorState(f'cursor "{cursor}" is not positioned on a row')
    row_id = ids[places]
    return NO_ROW if row_id is None else await _newest(running, portal, relation, row_id)


def _places(portal: Portal, known: Sequence[KnownRow], relation: Relation, locks: bool) -> int:
    """The place of the ids of the relation's rows among those that the cursor knows."""
    places = [place for place, row in enumerate(known) if row.relation_oid == relation.oid]
    if locks and not places:
        raise InvalidCursorState(
            f'cursor "{portal.name}" does not have a FOR UPDATE/SHARE reference to table "{relation.name}"'
        )
    if locks and len(places) > 1:
        raise InvalidCursorState(
            f'cursor "{portal.name}" has multiple FOR UPDATE/SHARE references to table "{relation.name}"'
        )
    if not places:
        raise InvalidCursorState(f'cursor "{portal.name}" is not a simply updatable scan of table "{relation.name}"')
    return places[0]


async def _newest(running: Running, portal: Portal, relation: Relation, row_id: int) -> int:
    """The row that is in the place of `row_id` for the statement that runs."""
    transaction, env = running.transaction, running.services.env
    snapshot, shard = transaction.snapshot, relation.shard
    assert snapshot is not None
    assert shard is not None
    if row_id < PROVISIONAL_ROW_ID and portal.csn is not None and portal.csn < snapshot.csn:
        ids = np.array([row_id], np.int64)
        changed = await running.services.row_versions.newest(env, shard, ids, portal.csn, snapshot.csn)
        newest = changed.get(row_id, row_id)
        if newest in (DELETED, UNKNOWN):
            return NO_ROW
        row_id = newest
    for replacement in transaction.pending.replacements:
        if replacement.shard != shard:
            continue
        found = np.flatnonzero(replacement.old == row_id)
        if len(found):
            if replacement.first == DELETED:
                return NO_ROW
            row_id = replacement.first + int(found[0])
    return row_id
