"""CREATE TYPE ... AS (...), and ALTER TYPE ... ADD, DROP and ALTER ATTRIBUTE.

A composite type is recorded as a relation without rows. Values are stored as structs of its fields, so the fields of a
type that a column has stay as they are.
"""

from __future__ import annotations

from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import (
    change,
    check_column_count,
    exists_already,
    new_oid,
    owner_oid,
    require_column,
    with_column,
    without_column,
)
from adapter.definitions.common.owners import require_owner
from adapter.definitions.types.names import check_free_type
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import creation_schema, look_up, missing
from adapter.execution.statement import Running
from adapter.results import Notice
from planner.common_errors import missing_column, repeated_column
from planner.errors import DuplicateColumn, FeatureNotSupported, WrongObjectType
from planner.statements import records as st
from planner.types import derived_oids
from storage.catalog.model import COMPOSITE, CatalogSnapshot, Column, Relation


async def create_composite(running: Running, statement: st.CreateComposite) -> None:
    """CREATE TYPE ... AS (...)."""
    catalog = own_catalog(running)
    schema = creation_schema(running, catalog, statement.name)
    check_free_type(catalog, schema.oid, statement.name.name)
    exists_already(running, catalog, schema, statement.name, skip=False)
    check_column_count(len(statement.attributes))
    columns: list[Column] = []
    for attnum, definition in enumerate(statement.attributes, 1):
        if any(column.name == definition.name for column in columns):
            raise repeated_column(definition.name)
        columns.append(_column(definition, attnum))
    running.transaction.rely_on([schema])
    record = Relation(
        oid=new_oid(running),
        name=statement.name.name,
        schema=schema.oid,
        owner=owner_oid(running),
        kind=COMPOSITE,
        columns=tuple(columns),
    )
    change(running, added=[record])


def _column(definition: st.ColumnDefinition, attnum: int) -> Column:
    type = definition.type
    return Column(
        attnum=attnum,
        name=definition.name,
        type_oid=type.declared_oid,
        typmod=type.declared_typmod,
        dimensioned=type.dimensioned,
    )


async def alter_composite(running: Running, statement: st.AlterTable) -> None:
    """ALTER TYPE with its actions in order. 42809 for what is no composite type."""
    for action in statement.actions:
        catalog = own_catalog(running)
        record = look_up(running, catalog, statement.name)
        if record is None:
            raise missing(catalog, statement.name)
        if not isinstance(record, Relation) or record.kind != COMPOSITE:
            raise WrongObjectType(f'"{record.name}" is not a composite type')
        require_owner(running, record)
        changed = _changed(running, record, action)
        if changed is not None:
            _refuse_stored(running, catalog, record)
            change(running, removed=[record], added=[changed])


def _changed(running: Running, record: Relation, action: st.AlterTableAction) -> Relation | None:
    match action:
        case st.AddColumn(column=definition):
            if record.column(definition.name) is not None:
                raise DuplicateColumn(f'column "{definition.name}" of relation "{record.name}" already exists')
            added = _column(definition, len(record.columns) + 1)
            if added.type_oid == derived_oids.row_type_oid(record.oid):
                raise FeatureNotSupported(f"composite type {record.name} cannot be made a member of itself")
            return replace(record, columns=(*record.columns, added))
        case st.DropColumn(name=name, if_exists=if_exists):
            column = record.column(name)
            if column is None and not if_exists:
                raise missing_column(record.name, name)
            if column is None:
                message = f'column "{name}" of relation "{record.name}" does not exist, skipping'
                running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=message))
                return None
            return without_column(record, column)
        case st.SetColumnType(name=name, type=wanted):
            column = require_column(record, name)
            changed = replace(
                column,
                type_oid=wanted.declared_oid,
                typmod=wanted.declared_typmod,
                dimensioned=wanted.dimensioned,
            )
            return with_column(record, changed)
        case _:
            raise FeatureNotSupported("this change of a composite type is not supported")


def _refuse_stored(running: Running, catalog: CatalogSnapshot, record: Relation) -> None:
    """0A000 for a type that a column of a table has, by itself, in an array or as a field of another type."""
    pending, known = [record], {record.oid}
    relations = [other for other in catalog.all() if isinstance(other, Relation)]
    while pending:
        inner = pending.pop()
        types = (derived_oids.row_type_oid(inner.oid), derived_oids.array_type_oid(inner.oid))
        for relation in relations:
            for column in relation.live_columns():
                if column.type_oid not in types:
                    continue
                if relation.kind == COMPOSITE:
                    if relation.oid not in known:
                        known.add(relation.oid)
                        pending.append(relation)
                elif relation.shard is not None:
                    used = f"{relation.name}.{column.name}"
                    raise FeatureNotSupported(f'cannot alter type "{record.name}" because column "{used}" uses it')
