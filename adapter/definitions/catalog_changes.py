"""What every definition does to the catalog: records out, records in, new oids."""

from __future__ import annotations

from collections.abc import Iterable

from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from storage.catalog.model import CatalogRecord, CatalogUpdate, Role


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
