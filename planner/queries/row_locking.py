"""FOR UPDATE and its like: which tables of a SELECT have their rows locked, and how (PostgreSQL's analyze.c,
transformLockingClause).

A clause names tables, views and subqueries of FROM, or means them all; in a view or subquery it means every table. The
ids of their rows, and of the rows joined with them, become further columns of what the SELECT reads (`exposed`), by
which `LockRows` knows what to lock, and finds the same rows again when one of them has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from planner.errors import FeatureNotSupported, SqlSyntaxError, UndefinedTable, WrongObjectType
from planner.ir.nodes import (
    Aggregate,
    ColumnRef,
    CteScan,
    Deduplicate,
    Filter,
    Join,
    Limit,
    Project,
    ProjectSet,
    Rel,
    Scalar,
    Scan,
    SetOperation,
    Sort,
    Window,
    With,
)
from planner.ir.past_rows import PAST_ROWS
from planner.ir.rewrite import walk
from planner.ir.row_marks import LockStrength, LockWait, RowMark
from planner.queries.in_from.outer_joins import below_projection, nullable_sides
from planner.queries.relations import is_invoked
from planner.resolution.row_security import lockable
from planner.resolution.statement import Level, NsItem, Statement
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree
from planner.types.types import INT8, SqlType
from storage.catalog.model import Relation
from storage.catalog.model import Sequence as SequenceRecord

_STRENGTHS: Sequence[tuple[Any, LockStrength]] = (
    (pb.LCS_FORKEYSHARE, "key share"),
    (pb.LCS_FORSHARE, "share"),
    (pb.LCS_FORNOKEYUPDATE, "no key update"),
    (pb.LCS_FORUPDATE, "update"),
)
_ORDER: Sequence[LockStrength] = [strength for _, strength in _STRENGTHS]
_WAITS: Sequence[tuple[Any, LockWait]] = (
    (pb.LockWaitBlock, "block"), (pb.LockWaitSkip, "skip"), (pb.LockWaitError, "nowait"),
)  # fmt: skip
_WAIT_ORDER: Sequence[LockWait] = [wait for _, wait in _WAITS]


class _Lock(Struct, frozen=True):
    """How a FROM item is locked, and by which clause first."""

    strength: LockStrength
    wait: LockWait
    clause: str

    def joined(self, other: _Lock | None) -> _Lock:
        """What both ask for: the stronger mode, the less patient wait; `other` came first."""
        if other is None:
            return self
        return _Lock(
            max(self.strength, other.strength, key=_ORDER.index),
            max(self.wait, other.wait, key=_WAIT_ORDER.index),
            other.clause,
        )


def clause_name(tree: Tree) -> str:
    """The clause as messages name it: ``FOR NO KEY UPDATE``."""
    return f"FOR {dict(_STRENGTHS)[tree.strength].upper()}"


class RowLocking:
    """The locking clauses of one SELECT. Raises 0A000, 42P01, 42601, 42809."""

    def __init__(self, level: Level, clauses: Sequence[Tree]) -> None:
        self._level = level
        self._locks: dict[int, _Lock] = {}
        self._views: list[Relation] = []
        """Those whose rows are locked, with the views below them."""
        for node in clauses:
            tree = node.locking_clause
            lock = _Lock(dict(_STRENGTHS)[tree.strength], dict(_WAITS)[tree.wait_policy], clause_name(tree))
            if tree.locked_rels:
                for name in tree.locked_rels:
                    self._lock_named(name.range_var, lock)
            else:
                for item in level.rtes:
                    if item.rel is not None and not isinstance(item.rel, CteScan):
                        self._lock(item, lock)

    def _lock_named(self, tree: Tree, lock: _Lock) -> None:
        statement = self._level.statement
        position = statement.position(tree.location)
        if tree.schemaname or tree.catalogname:
            raise SqlSyntaxError(f"{lock.clause} must specify unqualified relation names", position=position)
        item = next((item for item in self._level.rtes if item.alias == tree.relname), None)
        if item is None:
            if any(item.alias == tree.relname for item in self._level.namespace):
                raise FeatureNotSupported(f"{lock.clause} cannot be applied to a join", position=position)
            raise UndefinedTable(
                f'relation "{tree.relname}" in {lock.clause} clause not found in FROM clause', position=position
            )
        if item.rel is None or isinstance(item.rel, CteScan):
            what = "a function" if item.rel is None else "a WITH query"
            raise FeatureNotSupported(f"{lock.clause} cannot be applied to {what}", position=position)
        self._lock(item, lock)

    def _lock(self, item: NsItem, lock: _Lock) -> None:
        found = self._level.statement.context.catalog.get(item.relation_oid) if item.relation_oid else None
        if isinstance(found, SequenceRecord):
            raise WrongObjectType(f'cannot lock rows in sequence "{found.name}"')
        if isinstance(found, Relation) and found.kind == "m":
            raise WrongObjectType(f'cannot lock rows in materialized view "{found.name}"')
        read = (node.relation_oid for node in walk(item.rel) if isinstance(node, Scan))
        self._level.statement.locking = self._level.statement.locking or lock.clause
        self._level.statement.required.lock({item.relation_oid} if item.relation_oid else set(read))
        if isinstance(found, Relation) and found.kind == "v":
            self._lock_below(found)
        self._locks[id(item.rel)] = lock.joined(self._locks.get(id(item.rel)))

    def _lock_below(self, view: Relation) -> None:
        """Note that rows are locked through `view`, of which views below it are locked, too."""
        statement = self._level.statement
        self._views.append(view)
        below = [statement.context.catalog.get(oid) for oid in view.depends_on]
        views = [found for found in below if isinstance(found, Relation) and found.kind == "v"]
        statement.required.lock_inside({found.oid for found in views}, invoked=is_invoked(view))
        for found in views:
            self._lock_below(found)

    def exposed(self, source: Rel, where: Scalar | None) -> tuple[Rel, tuple[RowMark, ...]]:
        """`source`, the FROM clause, with the ids of rows as further columns, and what is locked by them. `where` is
        true of the rows that are locked."""
        exposing = _Exposing(self._level.statement, self._locks)
        rel = exposing.expose(source, None, nullable=False, above=() if where is None else (where,))
        if exposing.nullable is not None:
            # What cannot be locked at all is an error before it (PostgreSQL finds this one when it plans).
            raise FeatureNotSupported(f"{exposing.nullable} cannot be applied to the nullable side of an outer join")
        if self._views:
            locked = {mark.relation_oid for mark in exposing.marks if mark.strength is not None}
            invoked = any(is_invoked(view) for view in self._views)
            self._level.statement.required.lock_inside(locked, invoked=invoked)
        return rel, tuple(exposing.marks)


class _Exposing:
    """Adds row ids to relations. `marks` gather what they are, each with the column of the relation at hand."""

    def __init__(self, statement: Statement, locks: dict[int, _Lock]) -> None:
        self._statement = statement
        self._locks = locks
        self.marks: list[RowMark] = []
        self.nullable: str | None = None
        """The first clause that locks rows which an outer join may lack."""

    def expose(self, rel: Rel, lock: _Lock | None, *, nullable: bool, above: tuple[Scalar, ...] = ()) -> Rel:
        """`rel` with the ids of its rows at the end of its columns. `lock` is what is asked for all of it, `nullable`
        whether an outer join may lack it in rows of which the conditions `above` are true."""
        lock = self._locks.get(id(rel), lock)
        match rel:
            case Scan() if rel.relation_oid > PAST_ROWS:
                return self._scan(rel, lock, nullable)
            case Filter():
                below = self.expose(rel.input, lock, nullable=nullable, above=(*above, rel.condition))
                return replace(rel, input=below, fields=below.fields)
            case Sort() | Limit():
                if isinstance(rel, Limit):
                    self._check_side(lock, nullable)
                below = self.expose(rel.input, lock, nullable=nullable)
                return replace(rel, input=below, fields=below.fields)
            case Project():
                return self._project(rel, lock, nullable, above)
            case With():
                self._check_side(lock, nullable)
                body = self.expose(rel.body, lock, nullable=nullable)
                return replace(rel, body=body, fields=body.fields)
            case Join():
                return self._join(rel, lock, nullable, above)
            case _:
                if lock is not None:
                    _refuse(rel, lock.clause)
                return rel

    def _join(self, rel: Join, lock: _Lock | None, nullable: bool, above: tuple[Scalar, ...]) -> Join:
        lacks_left, lacks_right = nullable_sides(rel, above)
        # The side that may be lacked has the rows of which the join's condition is true; the other one may have more.
        own = () if rel.condition is None else (rel.condition,)
        on_left, on_right = {
            (False, False): ((*above, *own), (*above, *own)),
            (False, True): (above, own),
            (True, False): (own, above),
            (True, True): ((), ()),
        }[lacks_left, lacks_right]
        left = self.expose(rel.left, lock, nullable=nullable or lacks_left, above=on_left)
        right = self.expose(rel.right, lock, nullable=nullable or lacks_right, above=on_right)
        return replace(rel, left=left, right=right, fields=left.fields + right.fields)

    def _check_side(self, lock: _Lock | None, nullable: bool) -> None:
        if lock is not None and nullable and self.nullable is None:
            self.nullable = lock.clause

    def _scan(self, rel: Scan, lock: _Lock | None, nullable: bool) -> Rel:
        self._check_side(lock, nullable)
        known = next((field for field in rel.fields if field.id == rel.row_id), None)
        field = known or self._statement.new_field("_row_id", SqlType(INT8))
        mark = RowMark(relation_oid=rel.relation_oid, row_id=field.id, field=field.id)
        self.marks.append(mark if lock is None else replace(mark, strength=lock.strength, wait=lock.wait))
        scan = rel if known is not None else replace(rel, fields=(*rel.fields, field), row_id=field.id)
        return scan if lock is None else lockable(self._statement, scan)

    def _project(self, rel: Project, lock: _Lock | None, nullable: bool, above: tuple[Scalar, ...]) -> Project:
        if lock is not None and isinstance(rel.input, Filter) and isinstance(rel.input.input, Aggregate):
            if not _groups(rel.input.input):
                raise FeatureNotSupported(f"{lock.clause} is not allowed with HAVING clause")
            _refuse(rel.input.input, lock.clause)
        first = len(self.marks)
        below = self.expose(rel.input, lock, nullable=nullable, above=below_projection(above, rel))
        project = replace(rel, input=below)
        project, self.marks[first:] = passed_through(self._statement, project, self.marks[first:])
        return project


def passed_through(statement: Statement, rel: Project, marks: Sequence[RowMark]) -> tuple[Project, tuple[RowMark, ...]]:
    """`rel` with the row ids of its input as further columns, and the marks as they are above it."""
    fields = [statement.new_field("_row_id", SqlType(INT8)) for _ in marks]
    ids = [ColumnRef(id=mark.field, type=SqlType(INT8)) for mark in marks]
    project = replace(rel, exprs=(*rel.exprs, *ids), fields=(*rel.fields, *fields))
    return project, tuple([replace(mark, field=field.id) for mark, field in zip(marks, fields, strict=True)])


def _groups(rel: Aggregate) -> bool:
    """Whether it has a GROUP BY."""
    return bool(rel.keys) or rel.grouping_sets is not None


def _refuse(rel: Rel, clause: str) -> None:
    """0A000 when rows of `rel` stand for several rows, or for none, of its tables."""
    match rel:
        case SetOperation():
            raise FeatureNotSupported(f"{clause} is not allowed with UNION/INTERSECT/EXCEPT")
        case Deduplicate():
            raise FeatureNotSupported(f"{clause} is not allowed with DISTINCT clause")
        case Aggregate():
            what = "GROUP BY clause" if _groups(rel) else "aggregate functions"
            raise FeatureNotSupported(f"{clause} is not allowed with {what}")
        case Window():
            raise FeatureNotSupported(f"{clause} is not allowed with window functions")
        case ProjectSet():
            raise FeatureNotSupported(f"{clause} is not allowed with set-returning functions in the target list")
        case _:
            return
