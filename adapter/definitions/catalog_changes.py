"""What every definition does to the catalog: records out, records in, new oids."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from planner.common_errors import missing_column
from storage.catalog.model import CatalogRecord, CatalogUpdate, Column, Relation, Role


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
        missing=None,
    )
    return with_column(relation, gone)
