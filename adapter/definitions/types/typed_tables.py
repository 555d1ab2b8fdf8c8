"""Typed tables: those whose columns are the fields of a composite type (CREATE TABLE ... OF, ALTER TABLE ... OF)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import change
from adapter.definitions.common.owners import require_owner
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from planner.errors import DatatypeMismatch, DependentObjectsStillExist, WrongObjectType
from planner.statements import records as st
from storage.catalog.model import COMPOSITE, CatalogRecord, CatalogSnapshot, Relation

_REFUSED: Mapping[type, str] = {
    st.AddColumn: "cannot add column to typed table",
    st.DropColumn: "cannot drop column from typed table",
    st.SetColumnType: "cannot alter column type of typed table",
}


def refuse_of_typed(action: st.AlterTableAction) -> None:
    """42809 for what would take a typed table's columns away from its type."""
    message = _REFUSED.get(type(action))
    if message is not None:
        raise WrongObjectType(message)


def require_usable(running: Running, catalog: CatalogSnapshot, type_oid: int) -> None:
    """The statement relies on the type that a table is to be OF."""
    record = catalog.get(type_oid)
    assert record is not None
    running.transaction.rely_on([record])


def typed_tables(running: Running, record: CatalogRecord, *, cascade: bool) -> list[Relation]:
    """The tables that are OF the composite type `record`, none if it is no such type. 2BP01 without `cascade`."""
    if not isinstance(record, Relation) or record.kind != COMPOSITE:
        return []
    tables = [each for each in own_catalog(running).all() if isinstance(each, Relation) and each.of_type == record.oid]
    if tables and not cascade:
        raise DependentObjectsStillExist(
            f'cannot alter type "{record.name}" because it is the type of a typed table',
            hint="Use ALTER ... CASCADE to alter the typed tables too.",
        )
    for table in tables:
        require_owner(running, table)
    return sorted(tables, key=lambda table: table.oid)


def set_row_typing(running: Running, relation: Relation, action: st.SetRowTyping) -> None:
    """ALTER TABLE ... OF, for a table with the type's columns and no more, and NOT OF. 42804, 42809."""
    if not action.of_type and not relation.of_type:
        raise WrongObjectType(f'"{relation.name}" is not a typed table')
    if action.of_type:
        catalog = own_catalog(running)
        type_ = catalog.get(action.of_type)
        assert isinstance(type_, Relation)
        _check_columns(relation, type_)
        require_usable(running, catalog, type_.oid)
    change(running, removed=[relation], added=[replace(relation, of_type=action.of_type)])


def _check_columns(relation: Relation, type_: Relation) -> None:
    columns = list(relation.live_columns())
    for field in type_.live_columns():
        if not columns:
            raise DatatypeMismatch(f'table is missing column "{field.name}"')
        column = columns.pop(0)
        if column.name != field.name:
            raise DatatypeMismatch(f'table has column "{column.name}" where type requires "{field.name}"')
        if (column.type_oid, column.typmod) != (field.type_oid, field.typmod):
            raise DatatypeMismatch(f'table "{relation.name}" has different type for column "{column.name}"')
    if columns:
        raise DatatypeMismatch(f'table has extra column "{columns[0].name}"')
