"""CREATE TYPE ... AS (...), and ALTER TYPE ... ADD, DROP and ALTER ATTRIBUTE.

A composite type is recorded as a relation without rows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

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
from adapter.definitions.common.columns import collation_of, column_of_type, retyped, with_kept_fields
from adapter.definitions.common.owners import require_owner
from adapter.definitions.common.row_types import refuse_itself, refuse_stored
from adapter.definitions.types.names import check_free_type
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import creation_schema, look_up, missing
from adapter.execution.statement import Running
from adapter.publishing.published_tables import of_any_dimensions
from adapter.results import Notice
from planner.common_errors import missing_column, repeated_column
from planner.errors import DuplicateColumn, FeatureNotSupported, WrongObjectType
from planner.statements import records as st
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
    change(running, added=[await with_kept_fields(running, record)])


def _column(definition: st.ColumnDefinition, attnum: int) -> Column:
    collation = collation_of(definition.type, definition.collation)
    return column_of_type(attnum, definition.name, of_any_dimensions(definition.type), collation=collation)


DropUsers: TypeAlias = Callable[[Running, Relation, st.DropColumn], Awaitable[None]]
"""What drops the expressions that select a field, or refuses to."""


async def alter_composite(running: Running, statement: st.AlterTable, drop_users: DropUsers) -> None:
    """ALTER TYPE with its actions in order. 42809 for what is no composite type."""
    for action in statement.actions:
        catalog = own_catalog(running)
        record = look_up(running, catalog, statement.name)
        if record is None:
            raise missing(catalog, statement.name)
        if not isinstance(record, Relation) or record.kind != COMPOSITE:
            raise WrongObjectType(f'"{record.name}" is not a composite type')
        require_owner(running, record)
        if isinstance(action, st.DropColumn):
            await drop_users(running, record, action)
        changed = _changed(running, own_catalog(running), record, action)
        if changed is not None:
            change(running, removed=[record], added=[await with_kept_fields(running, changed)])


def _changed(
    running: Running, catalog: CatalogSnapshot, record: Relation, action: st.AlterTableAction
) -> Relation | None:
    match action:
        case st.AddColumn(column=definition):
            if record.column(definition.name) is not None:
                raise DuplicateColumn(f'column "{definition.name}" of relation "{record.name}" already exists')
            check_column_count(len(record.columns) + 1)
            added = _column(definition, len(record.columns) + 1)
            refuse_itself(record, added.type_oid)
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
        case st.SetColumnType(name=name, type=wanted, collation=collation):
            column = require_column(record, name)
            refuse_itself(record, wanted.declared_oid)
            refuse_stored(catalog, record)
            return with_column(
                record, retyped(column, of_any_dimensions(wanted), collation=collation_of(wanted, collation))
            )
        case _:
            raise FeatureNotSupported("this change of a composite type is not supported")
