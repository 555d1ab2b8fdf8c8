"""The objects that every environment has from its first commit: a superuser, the databases, the standard schemas."""

from __future__ import annotations

from storage.catalog.access import Role
from storage.catalog.model import (
    BOOTSTRAP_SUPERUSER_OID,
    DATABASE_OWNER_ROLE_OID,
    INFORMATION_SCHEMA_OID,
    PG_CATALOG_OID,
    POSTGRES_DATABASE_OID,
    PUBLIC_SCHEMA_OID,
    CatalogRecord,
    CatalogUpdate,
    Database,
    Schema,
)

TEMPLATE1_DATABASE_OID = 1
TEMPLATE0_DATABASE_OID = 4
TEMPLATE1_PUBLIC_OID = 2201
TEMPLATE0_PUBLIC_OID = 2202
"""The schema `public` of each template. Oids are unique in an environment, where PostgreSQL's are in a database."""


def standard_databases() -> tuple[CatalogRecord, ...]:
    """The databases that every environment has, and the schemas `public` of the templates. An environment that an
    earlier version made has only `postgres`."""
    owner = BOOTSTRAP_SUPERUSER_OID
    return (
        Database(oid=POSTGRES_DATABASE_OID, name="postgres", owner=owner),
        Database(oid=TEMPLATE1_DATABASE_OID, name="template1", owner=owner, is_template=True),
        Database(oid=TEMPLATE0_DATABASE_OID, name="template0", owner=owner, is_template=True, allows_connections=False),
        _public(TEMPLATE1_PUBLIC_OID, TEMPLATE1_DATABASE_OID),
        _public(TEMPLATE0_PUBLIC_OID, TEMPLATE0_DATABASE_OID),
    )


def _public(oid: int, database: int) -> Schema:
    return Schema(oid=oid, name="public", owner=DATABASE_OWNER_ROLE_OID, database=database, origin=PUBLIC_SCHEMA_OID)


def bootstrap_updates() -> tuple[CatalogUpdate, ...]:
    """What a new environment's catalog holds: the superuser, the databases, the standard schemas."""
    owner = BOOTSTRAP_SUPERUSER_OID
    records: tuple[CatalogRecord, ...] = (
        Role(
            oid=owner,
            name="postgres",
            superuser=True,
            create_db=True,
            create_role=True,
            replication=True,
            bypass_rls=True,
        ),
        *standard_databases(),
        Schema(oid=PG_CATALOG_OID, name="pg_catalog", owner=owner),
        Schema(oid=INFORMATION_SCHEMA_OID, name="information_schema", owner=owner),
        Schema(oid=PUBLIC_SCHEMA_OID, name="public", owner=DATABASE_OWNER_ROLE_OID),
    )
    return tuple(CatalogUpdate(record=record, diff=1) for record in records)
