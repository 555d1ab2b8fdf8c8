"""What a server does to an environment of an earlier version when it opens it.

Keys were recorded and not enforced once. Such a key is enforced from now on, for rows that are written; since rows that
are there may break it, it is NOT VALID (pg_constraint.convalidated) until ALTER TABLE ... VALIDATE CONSTRAINT has
looked at them. A server of the earlier version that serves the environment meanwhile does not enforce it.

There was one database once, `postgres`; the templates that others are copied from are added.
"""

from __future__ import annotations

import structlog
from msgspec.structs import replace

from adapter.execution.services import Services
from adapter.transactions.commit_request import CommitRequest, Isolation
from planner.errors import SerializationFailure
from storage.catalog.model import CatalogRecord, CatalogSnapshot, CatalogUpdate, Constraint, Relation
from storage.catalog.standard_objects import TEMPLATE1_DATABASE_OID, standard_databases
from storage.timestamps.csn import Csn

log = structlog.get_logger(__name__)


async def upgrade(services: Services) -> None:
    """Enforce the keys of the environment that are only recorded, and add the template databases when there are none.
    Several servers may do this at once."""
    env = services.env
    while True:
        await env.oracle.read_ts("catalog")
        catalog = env.catalog.current()
        found, missing = _recorded(catalog), _missing(catalog)
        if not found and not missing:
            return
        request = CommitRequest(
            txn=env.begin(),
            isolation=Isolation.SERIALIZABLE,
            snapshot=Csn(env.cache.upper - 1),
            reads=(),
            catalog_updates=(*_updates(catalog, found), *missing),
            catalog_reads={},
            catalog_base=catalog.csn,
        )
        try:
            await services.committer.commit(request)
        except SerializationFailure:
            continue
        for constraint in found:
            table = catalog.get(constraint.relation)
            log.warning(
                "a key that was only recorded is enforced from now on, and not valid",
                constraint=constraint.name,
                table=table.name if isinstance(table, Relation) else constraint.relation,
                hint="ALTER TABLE ... VALIDATE CONSTRAINT looks at the rows that are there",
            )
        return


def _recorded(catalog: CatalogSnapshot) -> list[Constraint]:
    return [
        constraint
        for oid in catalog.constraint_oids
        for constraint in catalog.constraints(oid)
        if constraint.kind in "puf" and not constraint.enforced
    ]


def _missing(catalog: CatalogSnapshot) -> tuple[CatalogUpdate, ...]:
    """What an environment has had from the start only since there are several databases."""
    if catalog.get(TEMPLATE1_DATABASE_OID) is not None:
        return ()
    return tuple(CatalogUpdate(record=r, diff=1) for r in standard_databases() if catalog.get(r.oid) is None)


def _updates(catalog: CatalogSnapshot, found: list[Constraint]) -> tuple[CatalogUpdate, ...]:
    after: dict[int, CatalogRecord] = {}
    for constraint in found:
        after[constraint.oid] = replace(constraint, enforced=True, validated=False)
        for oid in {constraint.relation, constraint.foreign_relation}:
            table = after.get(oid) or catalog.get(oid) if oid is not None else None
            if isinstance(table, Relation):
                after[table.oid] = replace(table, constraints=(*table.constraints, constraint.oid))
    updates = []
    for oid, record in after.items():
        before = catalog.get(oid)
        assert before is not None
        updates += [CatalogUpdate(record=before, diff=-1), CatalogUpdate(record=record, diff=1)]
    return tuple(updates)
