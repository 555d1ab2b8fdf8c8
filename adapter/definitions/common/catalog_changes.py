"""What every definition does to the catalog: records out, records in, new oids."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.results import Notice
from planner.common_errors import missing_column
from planner.errors import DuplicateTable
from planner.statements import records as st
from planner.types.table_indexes import is_taken
from storage.catalog.model import CatalogRecord, CatalogSnapshot, CatalogUpdate, Column, Relation, Role, Schema


def owner_oid(running: Running) -> int:
    """The oid of the current role."""
    catalog = own_catalog(running)
    return next((r.oid for r in catalog.all() if isinstance(r, Role) and r.name == running.session.user), 10)


def change(running: Running, removed: Iterable[CatalogRecord] = (), added: Iterable[CatalogRecord] = ()) -> None:
    """Take records out of the catalog and put others in, as part of the transaction."""
    gone = list(removed)
    running.transaction.rely_on(gone)
    updates = [CatalogUpdate(record=record, diff=-1) for record in gone]
    updates.extend(CatalogUpdate(record=record, diff=1) for record in added)
    running.transaction.change_catalog(updates)


def new_oid(running: Running) -> int:
    """An oid for a new object."""
    return running.services.allocate_oid()


def require_column(relation: Relation, name: str) -> Column:
    """The live column called `name`. 42703."""
    column = relation.column(name)
    if column is None:
        raise missing_column(relation.name, name)
    return column


def with_column(relation: Relation, column: Column) -> Relation:
    """The record with `column` in place of the one with its attnum."""
    columns = tuple(column if known.attnum == column.attnum else known for known in relation.columns)
    return msgspec.structs.replace(relation, columns=columns)


def without_column(relation: Relation, column: Column) -> Relation:
    """The record once `column` is dropped."""
    gone = msgspec.structs.replace(
        column,
        name=f"........pg.dropped.{column.attnum}........",
        dropped=True,
        not_null=False,
        default=None,
        generated="",
        identity="",
        sequence=None,
        missing=None,
    )
    return with_column(relation, gone)


def exists_already(
    running: Running, catalog: CatalogSnapshot, schema: Schema, name: st.QualifiedName, *, skip: bool
) -> bool:
    """Whether the name is taken: True with a notice when that is to be skipped, else 42P07."""
    if not is_taken(catalog, schema.oid, name.name):
        return False
    if not skip:
        raise DuplicateTable(f'relation "{name.name}" already exists')
    running.session.notice(
        Notice(severity="NOTICE", sqlstate="42P07", message=f'relation "{name.name}" already exists, skipping')
    )
    return True
