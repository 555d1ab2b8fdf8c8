"""RENAME and SET SCHEMA: a relation or column under another name.

Views name what they read, so those over it are written anew.
"""

from __future__ import annotations

import msgspec

from adapter.definitions.alter import alter_target
from adapter.definitions.common.catalog_changes import change, check_free_row_type, refuse_system_column, with_column
from adapter.definitions.common.layouts import with_layout_renamed
from adapter.definitions.constraints.checks import rename_in_checks
from adapter.definitions.constraints.generation import renamed_generations
from adapter.definitions.indexes.upkeep import rename_index, renamed_indexes
from adapter.definitions.sequences import owned_sequences
from adapter.definitions.statistics.upkeep import renamed_statistics
from adapter.definitions.types.changes import move_type
from adapter.definitions.types.typed_tables import typed_tables
from adapter.definitions.views import rename_column_in_queries, rename_relation_in_queries
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import kind_of, plural, require_target_schema
from adapter.execution.statement import Running
from planner.common_errors import existing_relation, unknown_column
from planner.errors import DuplicateColumn, DuplicateTable, FeatureNotSupported, WrongObjectType
from planner.statements import records as st
from planner.types.table_indexes import is_taken
from storage.catalog.model import CatalogRecord, Index, Relation
from storage.catalog.model import Sequence as SequenceRecord
from storage.catalog.temporary import is_temporary


async def rename_column(running: Running, statement: st.RenameColumn) -> None:
    """RENAME COLUMN, of tables and views."""
    relation = alter_target(running, statement.relation, statement.kind, statement.if_exists)
    if relation is None:
        return
    if not isinstance(relation, Relation):
        raise WrongObjectType(
            f'cannot rename columns of relation "{relation.name}"',
            detail=f"This operation is not supported for {plural(kind_of(relation))}.",
        )
    tables = typed_tables(running, relation, cascade=statement.cascade)
    if relation.of_type:
        raise WrongObjectType("cannot rename column of typed table")
    for each in (*tables, relation):
        await _rename_column(running, each, statement)


async def _rename_column(running: Running, relation: Relation, statement: st.RenameColumn) -> None:
    column = relation.column(statement.name)
    if column is None:
        refuse_system_column(relation, statement.name, "rename")
        raise unknown_column(statement.name)
    if relation.column(statement.new_name) is not None:
        raise DuplicateColumn(f'column "{statement.new_name}" of relation "{relation.name}" already exists')
    changed = with_column(relation, msgspec.structs.replace(column, name=statement.new_name))
    changed = with_layout_renamed(changed, column.name, statement.new_name)
    changed = renamed_generations(running, changed, column.name, statement.new_name)
    readers = await rename_column_in_queries(running, relation, changed, column.name, statement.new_name)
    checks = rename_in_checks(running, changed, column.name, statement.new_name)
    indexes = renamed_indexes(running, changed, column.name, statement.new_name)
    statistics = renamed_statistics(running, changed, column.name, statement.new_name)
    edited: list[tuple[CatalogRecord, CatalogRecord]] = [*readers, *checks, *indexes, *statistics]
    change(
        running,
        removed=[relation, *(old for old, _ in edited)],
        added=[changed, *(new for _, new in edited)],
    )


async def rename_relation(running: Running, statement: st.RenameRelation) -> None:
    """RENAME TO, of tables, views, sequences and indexes."""
    # ALTER INDEX may name a table, and ALTER TABLE an index.
    kind = "table" if statement.kind == "index" else statement.kind
    record = alter_target(running, statement.relation, kind, statement.if_exists)
    if record is None:
        return
    _check_free(running, record.schema, statement.new_name)
    if isinstance(record, Index):
        rename_index(running, record, statement.new_name)
        return
    await _move(running, record, msgspec.structs.replace(record, name=statement.new_name))


async def set_schema(running: Running, statement: st.SetSchema) -> None:
    """SET SCHEMA, of tables, views, sequences and types."""
    if statement.kind in ("type", "domain"):
        move_type(running, statement.relation, statement.new_schema, statement.kind)
        return
    record = alter_target(running, statement.relation, statement.kind, statement.if_exists)
    if record is None:
        return
    if isinstance(record, Index):
        raise WrongObjectType(
            f'cannot change schema of index "{record.name}"', hint="Change the schema of the table instead."
        )
    schema = require_target_schema(own_catalog(running), statement.new_schema)
    if schema.oid == record.schema:
        return
    if is_temporary(schema.oid) or is_temporary(record.schema):
        raise FeatureNotSupported("cannot move objects into or out of temporary schemas")
    if is_taken(own_catalog(running), schema.oid, record.name):
        raise DuplicateTable(f'relation "{record.name}" already exists in schema "{schema.name}"')
    if isinstance(record, SequenceRecord):
        _refuse_owned(running, record)
    await _move(running, record, msgspec.structs.replace(record, schema=schema.oid))
    catalog = own_catalog(running)
    moved: list[Index | SequenceRecord] = [*catalog.indexes(record.oid), *owned_sequences(catalog, record.oid)]
    for owned in moved:
        if is_taken(own_catalog(running), schema.oid, owned.name):
            raise DuplicateTable(f'relation "{owned.name}" already exists in schema "{schema.name}"')
        change(running, removed=[owned], added=[msgspec.structs.replace(owned, schema=schema.oid)])


def _refuse_owned(running: Running, sequence: SequenceRecord) -> None:
    """0A000 for a sequence that moves with the table whose column owns it."""
    owner = own_catalog(running).get(sequence.owned_by[0]) if sequence.owned_by is not None else None
    if isinstance(owner, Relation):
        raise FeatureNotSupported(
            "cannot move an owned sequence into another schema",
            detail=f'Sequence "{sequence.name}" is linked to table "{owner.name}".',
        )


def _check_free(running: Running, schema: int, name: str) -> None:
    if is_taken(own_catalog(running), schema, name):
        raise existing_relation(name)
    check_free_row_type(own_catalog(running), schema, name)


async def _move(running: Running, record: Relation | SequenceRecord, changed: Relation | SequenceRecord) -> None:
    edited: list[tuple[CatalogRecord, CatalogRecord]] = []
    if isinstance(record, Relation) and isinstance(changed, Relation):
        edited += await rename_relation_in_queries(running, record, changed)
    change(running, removed=[record, *(old for old, _ in edited)], added=[changed, *(new for _, new in edited)])
