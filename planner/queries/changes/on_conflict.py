"""ON CONFLICT: which keys decide, and what becomes of the row that is there.

Source of the rules: PostgreSQL's transformOnConflictClause and infer_arbiter_indexes.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from planner.common_errors import no_such_key
from planner.errors import (
    ObjectNotInPrerequisiteState,
    SqlSyntaxError,
    UndefinedObject,
    WrongObjectType,
)
from planner.ir.bound import ConditionalKey
from planner.ir.nodes import RETURNING_ROWS, ColumnRef, CteScan, Literal, Project, Rel, Scalar
from planner.queries.changes.assigned_values import assigned_values, given_values
from planner.queries.changes.column_values import computing, refuse_updates, with_computed
from planner.queries.changes.inference import Inferred, inferred
from planner.queries.changes.targets import ChangeTarget, bind_where, note_item, scan_target
from planner.queries.relations import schema_name
from planner.resolution.operators import BOOLEAN
from planner.resolution.statement import Level, Statement
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree
from storage.catalog.model import Constraint, Index, Relation


class BoundConflict(Struct, frozen=True, kw_only=True):
    """An ON CONFLICT clause: the oids of the keys that decide (none: all of the table), those that decide for some
    values of parameters, and with DO UPDATE what it reads and gives."""

    arbiters: tuple[int, ...]
    conditional: tuple[ConditionalKey, ...]
    update: Rel | None


def bind_on_conflict(outer: Level, target: ChangeTarget, insert: Tree) -> BoundConflict:
    """The ON CONFLICT clause of `insert`: the keys that decide, and with DO UPDATE what reads the rows that are there,
    beside those that were to be inserted, and gives for each whether it changes and its columns afterwards. `outer` has
    the statement's common tables.

    Raises 42P10, 42704, 42601, 55000, 42703, and what binding expressions raises.
    """
    statement, tree = outer.statement, insert.on_conflict_clause
    updates = tree.action == pb.ONCONFLICT_UPDATE
    arbiters = _arbiters(statement, target, insert, updates=updates)
    if tree.HasField("infer"):
        keys = [*arbiters.keys, *(statement.context.catalog.get(each.oid) for each in arbiters.conditional)]
        read = [key.columns for key in keys if isinstance(key, (Constraint, Index))]
        target.read([attnum for columns in read for attnum in columns if attnum])
    if updates:
        target.need("w")
    changed = _update(outer, target, insert) if updates else None
    oids = tuple(constraint.oid for constraint in arbiters.keys)
    return BoundConflict(arbiters=oids, conditional=tuple(arbiters.conditional), update=changed)


def _arbiters(statement: Statement, target: ChangeTarget, insert: Tree, *, updates: bool) -> Inferred:
    """The keys that decide; none when all do."""
    relation, tree = target.relation, insert.on_conflict_clause
    constraints = statement.context.catalog.constraints(relation.oid)
    indexes = statement.context.catalog.indexes(relation.oid)
    unique: list[Constraint | Index] = [constraint for constraint in constraints if constraint.kind in "pu"]
    unique += [index for index in indexes if index.unique]
    if not tree.HasField("infer"):
        if updates:
            raise SqlSyntaxError(
                "ON CONFLICT DO UPDATE requires inference specification or constraint name",
                hint="For example, ON CONFLICT (column_name).",
                position=statement.position(tree.location),
            )
        _refuse_deferrable(statement, relation, unique)
        return Inferred(keys=[], conditional=[])
    infer = tree.infer
    if infer.conname:
        named = next((constraint for constraint in constraints if constraint.name == infer.conname), None)
        if named is None:
            raise UndefinedObject(f'constraint "{infer.conname}" for table "{relation.name}" does not exist')
        if named.kind == "x" and updates:
            raise WrongObjectType("ON CONFLICT DO UPDATE not supported with exclusion constraints")
        if named.kind not in "pux":
            raise WrongObjectType("constraint in ON CONFLICT clause has no associated index")
        index = statement.context.catalog.get(named.index or 0) if named.kind == "x" else None
        found = Inferred(keys=[index if isinstance(index, Index) else named], conditional=[])
    else:
        alias = insert.relation.alias.aliasname if insert.relation.HasField("alias") else None
        found = inferred(statement, target, infer, unique, alias)
    # A view may only be one to who prints the statement.
    if not found.keys and not found.conditional and relation.kind != "v":
        raise no_such_key()
    _refuse_deferrable(statement, relation, found.keys)
    return found


def _refuse_deferrable(statement: Statement, relation: Relation, arbiters: Sequence[Constraint | Index]) -> None:
    for constraint in arbiters:
        if isinstance(constraint, Constraint) and constraint.deferrable:
            raise ObjectNotInPrerequisiteState(
                "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters",
                schema=schema_name(statement.context, relation.schema),
                table=relation.name,
                constraint=constraint.name,
            )


def _update(outer: Level, target: ChangeTarget, insert: Tree) -> Rel:
    statement, tree = outer.statement, insert.on_conflict_clause
    level = Level(statement, outer.parent)
    level.ctes = outer.ctes
    alias = insert.relation.alias if insert.relation.HasField("alias") else None
    _, existing, item = scan_target(level, target, alias, insert.relation.location)
    _, excluded, excluded_item = scan_target(level, target, pb.Alias(aliasname="excluded"), -1)
    excluded_item.system_columns = {}
    for each in (item, excluded_item):
        level.namespace.append(each)
        level.rtes.append(each)
    note_item(level, tree, item)
    if statement.notes is not None:
        statement.notes.change(tree).excluded = excluded_item
    relation, live = target.relation, target.live
    kept = [ColumnRef(id=field.id, type=field.type) for field in existing.fields]
    written = given_values(level, tree)
    changes, given = assigned_values(level, target, tree, written, kept, "insert")
    refuse_updates(live, given)
    condition: Scalar = Literal(value=True, type=BOOLEAN)
    if tree.HasField("where_clause"):
        condition = bind_where(level, tree)
    rows: Rel = CteScan(cte=RETURNING_ROWS, fields=(*existing.fields, *excluded.fields))
    exprs = [condition, *(changes.get(index, expr) for index, expr in enumerate(kept))]
    names = ["applies", *(column.name for column in live)]
    fields = tuple(statement.new_field(name, expr.type) for name, expr in zip(names, exprs, strict=True))
    changed = Project(input=rows, exprs=tuple(exprs), fields=fields)
    computed = computing(statement, relation)
    return changed if computed is None else with_computed(changed, computed, 1)
