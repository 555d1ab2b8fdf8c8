"""CALL tidegate.publish(...): what a database has to publish is published at once."""

from __future__ import annotations

from adapter.access import ownership
from adapter.execution.guards import prevent_in_block
from adapter.execution.relation_names import find_relation
from adapter.execution.statement import Running
from adapter.publishing.published_tables import is_published
from adapter.results import Command
from planner.errors import ObjectNotInPrerequisiteState, WrongObjectType
from planner.statements import records as st


async def publish(running: Running, statement: st.Publish) -> Command:
    """CALL tidegate.publish('table'). All tables of the database that are published become so as of one moment, the
    one that is named among them.

    Raises 25001 in a block, 42P01, 42809, 42501 unless the current role owns the table, 55000 for one that is not to be
    published, 0A000 for one that cannot be.
    """
    prevent_in_block(running, "CALL tidegate.publish")
    catalog = running.transaction.catalog
    relation = find_relation(running, catalog, statement.table)
    ownership.require_owner(catalog, running.session.values.identity.current, relation)
    if relation.kind == "v":
        detail = "Views are published by themselves, as soon as they are defined."
        raise WrongObjectType(f'"{relation.name}" is not a table', detail=detail)
    if relation.kind != "r":
        raise WrongObjectType(f'"{relation.name}" is not a table')
    if not is_published(catalog, relation):
        raise ObjectNotInPrerequisiteState(
            f'table "{relation.name}" is not published as an Iceberg table',
            hint=f"Use ALTER TABLE {relation.name} SET (iceberg = 'on').",
        )
    snapshot = running.transaction.snapshot
    assert snapshot is not None
    await running.services.publishing.publish(catalog, snapshot.csn, required=relation)
    return Command(tag="CALL")
