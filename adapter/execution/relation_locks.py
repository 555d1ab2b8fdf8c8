"""The locks that statements take on tables, views and sequences before they run, in PostgreSQL's modes.

A query takes ACCESS SHARE on what it reads (ROW SHARE with FOR UPDATE and its like), a change of rows ROW EXCLUSIVE on
its target: `Plan.locks`. Definitions take what PostgreSQL's do (lockcmds.c, tablecmds.c, "Table-Level Locks").

A statement that had to wait was planned, and its snapshot taken, for a state that is gone: it begins again
(`BeginAgain`), unless its transaction keeps to a snapshot from before the statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from adapter.execution.relation_names import kind_of, look_up, missing, plural
from adapter.execution.statement import Running
from adapter.transactions.locks import tags
from adapter.transactions.locks.modes import MODES_BY_NAME, Mode
from adapter.transactions.transaction import BeginAgain
from planner.errors import SqlError, WrongObjectType
from planner.statements import records as st
from planner.statements.records import QualifiedName
from storage.catalog.model import CatalogSnapshot, Index, Relation


async def lock_definition(running: Running, statement: object) -> None:
    """Lock what a utility statement is about. Raises as `Transaction.lock`."""
    transaction = running.transaction
    if transaction.snapshot is not None:
        wanted = [(tags.relation(oid), mode) for oid, mode in _wanted(running, statement, transaction.catalog)]
        await transaction.lock(wanted)


async def lock_read(running: Running, oids: Iterable[int]) -> None:
    """Lock relations that a definition refers to. Raises as `Transaction.lock`."""
    await running.transaction.lock([(tags.relation(oid), Mode.ACCESS_SHARE) for oid in sorted(oids)])


async def lock_tables(running: Running, statement: st.Lock) -> None:
    """LOCK TABLE: of views also what they read. Raises 42P01, 42809, with NOWAIT 55P03, and as `Transaction.lock`."""
    catalog = running.transaction.catalog
    mode = MODES_BY_NAME[statement.mode]
    locks = running.session.locks
    waited = False
    for name in statement.tables:
        record = look_up(running, catalog, name)
        if record is None:
            raise missing(catalog, name, located=True)
        if not isinstance(record, Relation):
            raise WrongObjectType(
                f'cannot lock relation "{name.name}"',
                detail=f"This operation is not supported for {plural(kind_of(record))}.",
            )
        pending = [record]
        for relation in pending:
            tag = tags.relation(relation.oid)
            waited |= await locks.lock_relation(tag, mode, relation.name, nowait=statement.nowait)
            if relation.kind == "v":
                read = [catalog.get(oid) for oid in relation.depends_on]
                pending.extend(found for found in read if isinstance(found, Relation) and found not in pending)
        running.transaction.rely_on(pending, to_read=True)
    if waited and running.transaction.may_renew:
        raise BeginAgain


def _wanted(running: Running, statement: object, catalog: CatalogSnapshot) -> Iterator[tuple[int, Mode]]:
    """Oids and modes, of an index also its table's; names of nothing are left to the statement itself."""

    def of(names: Iterable[QualifiedName | None], mode: Mode) -> Iterator[tuple[int, Mode]]:
        for name in names:
            try:
                record = None if name is None else look_up(running, catalog, name)
            except SqlError:
                record = None
            if isinstance(record, Index):
                yield record.relation, mode
            if record is not None:
                yield record.oid, mode

    match statement:
        case st.AlterTable():
            yield from of([statement.name], max(map(_mode_of_action, statement.actions), default=Mode.ACCESS_EXCLUSIVE))
            for action in statement.actions:
                if isinstance(action, st.AddConstraint):
                    yield from of([action.constraint.foreign_table], Mode.SHARE_ROW_EXCLUSIVE)
        case st.RenameColumn() | st.RenameRelation() | st.SetSchema() | st.RenameObject(relation=QualifiedName()):
            yield from of([statement.relation], Mode.ACCESS_EXCLUSIVE)
        case st.Drop():
            yield from of(
                statement.names, Mode.SHARE_UPDATE_EXCLUSIVE if statement.concurrently else Mode.ACCESS_EXCLUSIVE
            )
        case st.Truncate():
            yield from of(statement.tables, Mode.ACCESS_EXCLUSIVE)
        case st.CreateIndex():
            mode = Mode.SHARE_UPDATE_EXCLUSIVE if statement.concurrently else Mode.SHARE
            yield from of([statement.table], mode)
        case st.Reindex(name=QualifiedName()):
            yield from of([statement.name], Mode.SHARE_UPDATE_EXCLUSIVE if statement.concurrently else Mode.SHARE)
        case st.CreateTable():
            yield from of([like.table for like in statement.likes], Mode.ACCESS_SHARE)
            foreign = [constraint.foreign_table for constraint in statement.constraints]
            yield from of(foreign, Mode.SHARE_ROW_EXCLUSIVE)
        case st.Comment():
            yield from of([statement.relation], Mode.SHARE_UPDATE_EXCLUSIVE)
        case st.AlterSequence():
            yield from of([statement.name], Mode.SHARE_ROW_EXCLUSIVE)
        case st.Vacuum():
            full = any(name == "full" for name, _ in statement.options)
            yield from of(statement.tables, Mode.ACCESS_EXCLUSIVE if full else Mode.SHARE_UPDATE_EXCLUSIVE)
        case st.Copy(table=QualifiedName()):
            yield from of([statement.table], Mode.ROW_EXCLUSIVE if statement.is_from else Mode.ACCESS_SHARE)
        case _:
            return


def _mode_of_action(action: st.AlterTableAction) -> Mode:
    """AlterTableGetLockLevel."""
    if isinstance(action, st.AddConstraint) and action.constraint.kind == "f":
        return Mode.SHARE_ROW_EXCLUSIVE
    weak = isinstance(action, (st.SetStorageOptions, st.ValidateConstraint))
    return Mode.SHARE_UPDATE_EXCLUSIVE if weak else Mode.ACCESS_EXCLUSIVE
