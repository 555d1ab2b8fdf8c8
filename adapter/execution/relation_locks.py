"""The locks that statements take on tables, views and sequences before they run, in PostgreSQL's modes.

A query takes ACCESS SHARE on what it reads (ROW SHARE with FOR UPDATE and its like), a change of rows ROW EXCLUSIVE on
its target: `Plan.locks`. Definitions take what PostgreSQL's do (lockcmds.c, tablecmds.c, "Table-Level Locks").

A statement that had to wait was planned, and its snapshot taken, for a state that is gone: it begins again
(`BeginAgain`), unless its transaction keeps to a snapshot from before the statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from typing import TypeAlias

from adapter.access.ownership import may_drop, owns
from adapter.access.privileges import Rights
from adapter.execution.relation_names import (
    creation_schema,
    kind_of,
    look_up,
    look_up_any,
    look_up_visible,
    missing,
    plural,
)
from adapter.execution.session_state import SessionState
from adapter.execution.statement import Running
from adapter.transactions.locks import tags
from adapter.transactions.locks.modes import MODES_BY_NAME, Mode
from adapter.transactions.transaction import BeginAgain
from planner.errors import SqlError, WrongObjectType
from planner.queries.relations import is_invoked
from planner.statements import records as st
from planner.statements.records import QualifiedName
from planner.syntax.parse import Parsed, subtrees
from planner.types.composites import stored_uses
from planner.types.system_relations import SystemRelation
from storage.catalog.model import CatalogSnapshot, Constraint, Index, Relation, Sequence

_Named: TypeAlias = Relation | Sequence | Index

_CHANGING = "wdD"


async def lock_definition(running: Running, statement: object) -> None:
    """Lock what a utility statement is about. Raises as `Transaction.lock`."""
    transaction = running.transaction
    if transaction.snapshot is not None:
        catalog = transaction.catalog
        wanted = [(tag, Mode.EXCLUSIVE) for tag in _made(running, statement, catalog)]
        wanted += [(tags.relation(oid), mode) for oid, mode in _wanted(running, statement, catalog)]
        await transaction.lock(wanted)


async def lock_read(running: Running, oids: Iterable[int]) -> None:
    """Lock relations that a definition refers to. Raises as `Transaction.lock`."""
    await running.transaction.lock([(tags.relation(oid), Mode.ACCESS_SHARE) for oid in sorted(oids)])


async def wait_for_definitions(session: SessionState, parsed: Parsed) -> bool:
    """Wait until nobody else is changing the definition of a relation that the statement names: it could not be bound,
    and perhaps it can be then. PostgreSQL waits before it analyses (parserOpenTable). Whether there was anything to
    wait for. Raises what waiting for a lock raises."""
    context = session.bind_context(session.newest_catalog())
    locks, waited = session.locks, False
    for tree in subtrees(parsed.tree):
        if tree.DESCRIPTOR.name != "RangeVar":
            continue
        path = (tree.schemaname,) if tree.schemaname else context.search_path
        record = look_up_visible(path, context.catalog, tree.relname)
        if record is None:
            continue
        tag = tags.relation(record.oid)
        if not locks.try_lock(tag, Mode.ACCESS_SHARE, for_session=True):
            waited = await locks.lock(tag, Mode.ACCESS_SHARE, for_session=True) or waited
        locks.unlock(tag, Mode.ACCESS_SHARE)
    return waited


async def lock_tables(running: Running, statement: st.Lock) -> None:
    """LOCK TABLE: of views also what they read. Raises 42P01, 42809, with NOWAIT 55P03, and as `Transaction.lock`."""
    catalog = running.transaction.catalog
    mode = MODES_BY_NAME[statement.mode]
    locks = running.session.locks
    waited = False
    for name in statement.tables:
        record = look_up_any(running, catalog, name)
        if record is None:
            raise missing(catalog, name)
        if isinstance(record, SystemRelation):
            running.session.rights(catalog).require("r", record.oid, _may_lock(mode))
            waited |= await locks.lock_relation(tags.relation(record.oid), mode, record.name, nowait=statement.nowait)
            continue
        if not isinstance(record, Relation) or record.foreign is not None:
            raise WrongObjectType(
                f'cannot lock relation "{name.name}"',
                detail=f"This operation is not supported for {plural(kind_of(record))}.",
            )
        rights = running.session.rights(catalog)
        rights.require("r", record.oid, _may_lock(mode))
        pending = [record]
        users = {record.oid: running.session.values.identity.current}
        for relation in pending:
            if relation is not record:
                Rights(catalog, users[relation.oid]).require("r", relation.oid, _may_lock(mode))
            tag = tags.relation(relation.oid)
            waited |= await locks.lock_relation(tag, mode, relation.name, nowait=statement.nowait)
            if relation.kind == "v":
                read = [catalog.get(oid) for oid in relation.depends_on]
                below = [found for found in read if isinstance(found, Relation) and found not in pending]
                pending.extend(below)
                # Who uses a view needs nothing of what it reads, its owner does.
                user = users[relation.oid] if is_invoked(relation) else relation.owner
                users |= {found.oid: user for found in below}
        running.transaction.rely_on(pending, to_read=True)
    if waited and running.transaction.may_renew:
        raise BeginAgain


def _may_lock(mode: Mode) -> str:
    """The privileges any of which allows LOCK TABLE (LockTableAclCheck)."""
    if mode is Mode.ACCESS_SHARE:
        return "r"
    return "a" + _CHANGING if mode is Mode.ROW_EXCLUSIVE else _CHANGING


def _made(running: Running, statement: object, catalog: CatalogSnapshot) -> Iterator[tags.Tag]:
    """The names that a statement gives to something new: who makes another of that name waits until this is decided."""
    match statement:
        case st.CreateSchema() if statement.name:
            yield tags.name(running.transaction.locks.owner.database_oid, 0, statement.name)
        case st.CreateRole():
            yield tags.name(0, 0, statement.name)
        case st.CreateIndex(name=str(name)):
            yield from _made_in(running, catalog, QualifiedName(name=name, schema=statement.table.schema))
        case st.CreateTable() | st.CreateTableAs() | st.CreateView() | st.CreateSequence():
            if not statement.temporary:
                yield from _made_in(running, catalog, statement.name)
        case st.CreateEnum() | st.CreateRange() | st.CreateComposite() | st.CreateDomain():
            yield from _made_in(running, catalog, statement.name)
        case st.RenameRelation():
            record = _found(running, catalog, statement.relation)
            if record is not None:
                yield tags.name(running.transaction.locks.owner.database_oid, record.schema, statement.new_name)
        case _:
            return


def _made_in(running: Running, catalog: CatalogSnapshot, name: QualifiedName) -> Iterator[tags.Tag]:
    """The lock of a name; of one that cannot be given the statement itself says why."""
    try:
        schema = creation_schema(running, catalog, name)
    except SqlError:
        return
    yield tags.name(running.transaction.locks.owner.database_oid, schema.oid, name.name)


def _found(running: Running, catalog: CatalogSnapshot, name: QualifiedName) -> Relation | Sequence | Index | None:
    try:
        return look_up(running, catalog, name)
    except SqlError:
        return None


def _wanted(running: Running, statement: object, catalog: CatalogSnapshot) -> Iterator[tuple[int, Mode]]:
    """Oids and modes, of an index also its table's; names of nothing are left to the statement itself, and so is what
    the role must not do: nobody holds others up, or is held up, by what will be refused (RangeVarGetRelidExtended)."""

    def of(
        names: Iterable[QualifiedName | None], mode: Mode, may: Callable[[_Named], bool] | None = None
    ) -> Iterator[tuple[int, Mode]]:
        for name in names:
            record = None if name is None else _found(running, catalog, name)
            if record is None or (may is not None and not may(record)):
                continue
            if isinstance(record, Index):
                yield record.relation, mode
            yield record.oid, mode

    current = running.session.values.identity.current

    def owned(record: _Named) -> bool:
        return owns(catalog, current, record)

    match statement:
        case st.AlterTable():
            mode = max(map(_mode_of_action, statement.actions), default=Mode.ACCESS_EXCLUSIVE)
            own = [*of([statement.name], mode, owned)]
            yield from own
            if own and any(isinstance(action, (st.AddColumn, st.DropColumn)) for action in statement.actions):
                # Tables with values of its row type follow.
                yield from ((table.oid, mode) for table, _ in stored_uses(catalog, own[-1][0]))
            for action in statement.actions:
                if own and isinstance(action, st.AddConstraint):
                    yield from of([action.constraint.foreign_table], Mode.SHARE_ROW_EXCLUSIVE)
        case st.RenameColumn() | st.RenameRelation() | st.SetSchema() | st.RenameObject(relation=QualifiedName()):
            yield from of([statement.relation], Mode.ACCESS_EXCLUSIVE, owned)
        case st.CreatePolicy() | st.AlterPolicy():
            yield from of([statement.table], Mode.ACCESS_EXCLUSIVE, owned)
        case st.Drop(kind="policy"):
            tables = [QualifiedName(name=name.schema or "", schema=name.database) for name in statement.names]
            yield from of(tables, Mode.ACCESS_EXCLUSIVE, owned)
        case st.Drop():
            mode = Mode.SHARE_UPDATE_EXCLUSIVE if statement.concurrently else Mode.ACCESS_EXCLUSIVE
            if statement.kind == "schema":
                schemas = [catalog.schema(name.name) for name in statement.names]
                inside = {schema.oid for schema in schemas if schema is not None}
                dropped = [(r.oid, mode) for r in catalog.all() if isinstance(r, Relation) and r.schema in inside]
            else:
                dropped = list(of(statement.names, mode, lambda record: may_drop(catalog, current, record)))
            yield from dropped
            if statement.cascade:
                yield from ((oid, mode) for oid in _that_need(catalog, {oid for oid, _ in dropped}))
        case st.Truncate():
            rights = running.session.rights(catalog)
            yield from of(statement.tables, Mode.ACCESS_EXCLUSIVE, lambda record: rights.may("r", record.oid, "D"))
        case st.Cluster(table=QualifiedName()):
            yield from of([statement.table], Mode.ACCESS_EXCLUSIVE, owned)
        case st.CreateIndex():
            mode = Mode.SHARE_UPDATE_EXCLUSIVE if statement.concurrently else Mode.SHARE
            yield from of([statement.table], mode, owned)
        case st.CreateStatistics():
            yield from of(statement.tables, Mode.SHARE_UPDATE_EXCLUSIVE, owned)
        case st.Reindex(name=QualifiedName()):
            mode = Mode.SHARE_UPDATE_EXCLUSIVE if statement.concurrently else Mode.SHARE
            yield from of([statement.name], mode, owned)
        case st.CreateTable():
            yield from of([like.table for like in statement.likes], Mode.ACCESS_SHARE)
            foreign = [constraint.foreign_table for constraint in statement.constraints]
            yield from of(foreign, Mode.SHARE_ROW_EXCLUSIVE)
        case st.Comment():
            yield from of([statement.relation], Mode.SHARE_UPDATE_EXCLUSIVE, owned)
        case st.AlterSequence():
            yield from of([statement.name], Mode.SHARE_ROW_EXCLUSIVE, owned)
        case st.RefreshMaterializedView():
            record = _found(running, catalog, statement.name)
            how = record.materialized if isinstance(record, Relation) else None
            stays = statement.concurrently or (statement.with_data and how is not None and how.is_kept)
            yield from of([statement.name], Mode.EXCLUSIVE if stays else Mode.ACCESS_EXCLUSIVE)
        case st.Copy(table=QualifiedName()):
            yield from of([statement.table], Mode.ROW_EXCLUSIVE if statement.is_from else Mode.ACCESS_SHARE)
        case _:
            return


def _that_need(catalog: CatalogSnapshot, relations: Set[int]) -> Iterator[int]:
    """The views and tables that change when `relations` are dropped with what depends on them."""
    for record in catalog.all():
        if isinstance(record, Relation) and not relations.isdisjoint(record.depends_on):
            yield record.oid
        elif isinstance(record, Constraint) and record.foreign_relation in relations:
            yield record.relation


def _mode_of_action(action: st.AlterTableAction) -> Mode:
    """AlterTableGetLockLevel."""
    if isinstance(action, st.AddConstraint) and action.constraint.kind == "f":
        return Mode.SHARE_ROW_EXCLUSIVE
    weak = isinstance(action, (st.SetStorageOptions, st.ValidateConstraint))
    return Mode.SHARE_UPDATE_EXCLUSIVE if weak else Mode.ACCESS_EXCLUSIVE
