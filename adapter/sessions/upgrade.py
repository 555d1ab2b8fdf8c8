"""What a server does to an environment of an earlier version when it opens it.

Keys were recorded and not enforced once. Such a key is enforced from now on, for rows that are written; since rows that
are there may break it, it is NOT VALID (pg_constraint.convalidated) until ALTER TABLE ... VALIDATE CONSTRAINT has
looked at them. A server of the earlier version that serves the environment meanwhile does not enforce it.

There was one database once, `postgres`; the templates that others are copied from are added. So is the secret that
salts are made of, which a new environment gets here too.
"""

from __future__ import annotations

import asyncio

import structlog
from msgspec.structs import replace

from adapter.access.passwords import SALT_BYTES, verifier_to_store
from adapter.execution.services import Services
from adapter.transactions.commit_request import CommitRequest, Isolation
from planner.errors import SerializationFailure
from storage.catalog.access import AUTHENTICATION_SECRET_OID, AuthenticationSecret
from storage.catalog.model import (
    BOOTSTRAP_SUPERUSER_OID,
    CatalogRecord,
    CatalogSnapshot,
    CatalogUpdate,
    Constraint,
    Relation,
)
from storage.catalog.standard_objects import TEMPLATE1_DATABASE_OID, standard_databases
from storage.clock import Randomness
from storage.timestamps.csn import Csn

log = structlog.get_logger(__name__)


async def upgrade(services: Services) -> None:
    """Enforce the keys of the environment that are only recorded, and add the template databases and the secret where
    they are missing. Several servers may do this at once."""
    env = services.env
    while True:
        await env.oracle.read_ts("catalog")
        catalog = env.catalog.current()
        found, missing = _recorded(catalog), _missing(catalog, env.random)
        if not found and not missing:
            return
        if not await _commit(services, catalog, (*_updates(catalog, found), *missing)):
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


async def give_password(services: Services, password: str) -> bool:
    """Give the first superuser this password if it has none; whether it had none. Raises ValueError for the empty one,
    and where there is no such role any more."""
    env = services.env
    while True:
        await env.oracle.read_ts("catalog")
        catalog = env.catalog.current()
        role = catalog.roles.records.get(BOOTSTRAP_SUPERUSER_OID)
        if role is None:
            raise ValueError("the role is gone")
        if role.password is not None:
            return False
        salt = env.random.randbytes(SALT_BYTES)
        verifier = await asyncio.to_thread(
            verifier_to_store, password, role=role.name, encryption="scram-sha-256", salt=salt
        )
        if verifier is None:
            raise ValueError("the password is empty")
        changed = replace(role, password=verifier)
        if await _commit(services, catalog, (CatalogUpdate(role, -1), CatalogUpdate(changed, 1))):
            return True


async def _commit(services: Services, catalog: CatalogSnapshot, updates: tuple[CatalogUpdate, ...]) -> bool:
    """Commit updates that follow from this catalog; False when it has changed meanwhile."""
    env = services.env
    request = CommitRequest(
        txn=env.begin(),
        isolation=Isolation.SERIALIZABLE,
        snapshot=Csn(env.cache.upper - 1),
        reads=(),
        catalog_updates=updates,
        catalog_reads={},
        catalog_base=catalog.csn,
        defines=True,
    )
    try:
        await services.committer.commit(request)
    except SerializationFailure:
        return False
    return True


def _recorded(catalog: CatalogSnapshot) -> list[Constraint]:
    return [
        constraint
        for oid in catalog.constraint_oids
        for constraint in catalog.constraints(oid)
        if constraint.kind in "puf" and not constraint.enforced
    ]


def _missing(catalog: CatalogSnapshot, random: Randomness) -> tuple[CatalogUpdate, ...]:
    """What an environment has had from the start only since there are several databases, and the secret."""
    records: list[CatalogRecord] = []
    if catalog.get(TEMPLATE1_DATABASE_OID) is None:
        records += [record for record in standard_databases() if catalog.get(record.oid) is None]
    if catalog.get(AUTHENTICATION_SECRET_OID) is None:
        records.append(AuthenticationSecret(oid=AUTHENTICATION_SECRET_OID, value=random.randbytes(32).hex()))
    return tuple(CatalogUpdate(record=record, diff=1) for record in records)


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
