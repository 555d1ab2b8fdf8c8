"""RENAME and SET SCHEMA: a relation or column under another name.

Views name what they read, so those over it are written anew.
"""

from __future__ import annotations

import msgspec

from adapter.definitions.alter import alter_target
from adapter.definitions.common.catalog_changes import change, with_column
from adapter.definitions.constraints.checks import rename_in_checks
from adapter.definitions.constraints.generation import renamed_generations
from adapter.definitions.sequences import owned_sequences
from adapter.definitions.views import rename_column_in_views, rename_relation_in_views
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import require_schema
from adapter.execution.statement import Running
from planner.common_errors import existing_relation, unknown_column
from planner.errors import DuplicateColumn, DuplicateTable, FeatureNotSupported, WrongObjectType
from planner.statements import records as st
from storage.catalog.model import CatalogRecord, Relation
from storage.catalog.model import Sequence as SequenceRecord


async def rename_column(running: Running, statement: st.RenameColumn) -> None:
    """RENAME COLUMN, of tables and views."""
    relation = alter_target(running, statement.relation, statement.kind, statement.if_exists)
    if relation is None:
        return
    if not isinstance(relation, Relation):
        raise WrongObjectType(f'cannot rename columns of sequence "{relation.name}"')
    column = relation.column(statement.name)
    if column is None:
        raise unknown_column(statement.name)
    if relation.column(statement.new_name) is not None:
        raise DuplicateColumn(f'column "{statement.new_name}" of relation "{relation.name}" already exists')
    changed = with_column(relation, msgspec.structs.replace(column, name=statement.new_name))
    changed = renamed_generations(running, changed, column.name, statement.new_name)
    views = rename_column_in_views(running, own_catalog(running), relation, changed, column.name, statement.new_name)
    checks = rename_in_checks(running, changed, column.name, statement.new_name)
    edited: list[tuple[CatalogRecord, CatalogRecord]] = [*views, *checks]
    change(
        running,
        removed=[relation, *(old for old, _ in edited)],
        added=[changed, *(new for _, new in edited)],
    )


async def rename_relation(running: Running, statement: st.RenameRelation) -> None:
    """RENAME TO, of tables, views and sequences."""
    record = alter_target(running, statement.relation, statement.kind, statement.if_exists)
    if record is None:
        return
    _check_free(running, record.schema, statement.new_name)
    _move(running, record, msgspec.structs.replace(record, name=statement.new_name))


async def set_schema(running: Running, statement: st.SetSchema) -> None:
    """SET SCHEMA, of tables, views and sequences."""
    record = alter_target(running, statement.relation, statement.kind, statement.if_exists)
    if record is None:
        return
    schema = require_schema(own_catalog(running), statement.new_schema)
    if schema.oid == record.schema:
        return
    if (schema.oid, record.name) in own_catalog(running).relation_names:
        raise DuplicateTable(f'relation "{record.name}" already exists in schema "{schema.name}"')
    if isinstance(record, SequenceRecord):
        _refuse_owned(running, record)
    _move(running, record, msgspec.structs.replace(record, schema=schema.oid))
    for sequence in owned_sequences(own_catalog(running), record.oid):
        if (schema.oid, sequence.name) in own_catalog(running).relation_names:
            raise DuplicateTable(f'relation "{sequence.name}" already exists in schema "{schema.name}"')
        change(running, removed=[sequence], added=[msgspec.structs.replace(sequence, schema=schema.oid)])


def _refuse_owned(running: Running, sequence: SequenceRecord) -> None:
    """0A000 for a sequence that moves with the table whose column owns it."""
    owner = own_catalog(running).get(sequence.owned_by[0]) if sequence.owned_by is not None else None
    if isinstance(owner, Relation):
        raise FeatureNotSupported(
            "cannot move an owned sequence into another schema",
            detail=f'Sequence "{sequence.name}" is linked to table "{owner.name}".',
        )


def _check_free(running: Running, schema: int, name: str) -> None:
    if (schema, name) in own_catalog(running).relation_names:
        raise existing_relation(name)


def _move(running: Running, record: Relation | SequenceRecord, changed: Relation | SequenceRecord) -> None:
    catalog = own_catalog(running)
    views: list[tuple[Relation, Relation]] = []
    if isinstance(record, Relation) and isinstance(changed, Relation):
        views = rename_relation_in_views(running, catalog, record, changed)
    change(running, removed=[record, *(old for old, _ in views)], added=[changed, *(new for _, new in views)])
