"""Tables whose definition has to stay as it is: while the session's cursors read them, and until the transaction has
checked what it deferred."""

from __future__ import annotations

from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from planner.errors import ObjectInUse
from storage.catalog.model import Constraint, Relation


def refuse_in_use(running: Running, relation: Relation, doing: str) -> None:
    """55006 when a cursor of the session reads `relation`, or a deferred constraint has yet to look at rows of it,
    which `doing` it would leave behind (CheckTableNotInUse)."""
    for portal in running.session.portals.by_name.values():
        if portal.cursor is None or portal.held or portal.plan is None:
            continue
        if any(record.oid == relation.oid for record in portal.plan.relied_on):
            raise ObjectInUse(
                f'cannot {doing} "{relation.name}" because it is being used by active queries in this session'
            )
    pending = running.transaction.pending.deferred
    if not pending.length:
        return
    catalog = own_catalog(running)
    for held in pending:
        constraint = catalog.get(held.constraint)
        if not isinstance(constraint, Constraint):
            continue
        if (constraint.foreign_relation if held.referenced else constraint.relation) == relation.oid:
            raise ObjectInUse(f'cannot {doing} "{relation.name}" because it has pending trigger events')
