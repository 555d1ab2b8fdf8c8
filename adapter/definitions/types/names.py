"""Names of types in DDL: look-up, what is taken, and how messages call a type."""

from __future__ import annotations

from adapter.definitions.common.owners import require_owner
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import check_database
from adapter.execution.statement import Running
from planner.catalog_data.content import TypeRow
from planner.common_errors import missing_schema
from planner.errors import DuplicateObject, UndefinedObject, WrongObjectType
from planner.statements.records import QualifiedName
from planner.types import derived_oids
from planner.types.type_names import format_type, lookup_type
from planner.types.type_scope import UserType, record_of
from planner.types.user_types import type_in
from storage.catalog.model import COMPOSITE, CatalogSnapshot, DomainType, EnumType, Relation


def look_up_type(running: Running, name: QualifiedName) -> TypeRow | None:
    """The type called `name`, or None. 0A000 for another database."""
    check_database(running, name)
    return lookup_type((name.name,) if name.schema is None else (name.schema, name.name))


def require_type(running: Running, name: QualifiedName) -> TypeRow:
    """The type called `name`. 42704, 3F000."""
    row = look_up_type(running, name)
    if row is None:
        if name.schema is not None and own_catalog(running).schema(name.schema) is None:
            raise missing_schema(name.schema)
        raise UndefinedObject(f'type "{name}" does not exist')
    return row


def require_enum(running: Running, name: QualifiedName) -> EnumType:
    """The enum called `name`, which is to be changed. 42704, 42809, 42501."""
    row = require_type(running, name)
    record = record_of(row.oid)
    if not isinstance(record, EnumType):
        raise WrongObjectType(f"{format_type(row.oid)} is not an enum")
    require_owner(running, record)
    return record


def require_domain(running: Running, name: QualifiedName) -> DomainType:
    """The domain called `name`, which is to be changed. 42704, 42809, 42501."""
    row = require_type(running, name)
    record = record_of(row.oid)
    if not isinstance(record, DomainType):
        raise WrongObjectType(f"{format_type(row.oid)} is not a domain")
    require_owner(running, record)
    return record


def require_own_type(running: Running, name: QualifiedName, kind: str = "type") -> UserType:
    """The type called `name`, which ALTER TYPE, or ALTER DOMAIN with that `kind`, can change as a whole. 42704,
    42809, 42501."""
    if kind == "domain":
        return require_domain(running, name)
    row = require_type(running, name)
    element = derived_oids.owner_of_array_type(row.oid)
    if element is not None or row.category == "A":
        inner = format_type(row.elem)
        raise WrongObjectType(
            f"cannot alter array type {format_type(row.oid)}",
            hint=f"You can alter type {inner}, which will alter the array type as well.",
        )
    record = record_of(row.oid)
    if isinstance(record, Relation) and record.kind != COMPOSITE:
        raise WrongObjectType(f"{format_type(row.oid)} is a table's row type", hint="Use ALTER TABLE instead.")
    if record is None:
        raise WrongObjectType(f"type {format_type(row.oid)} is built in")
    require_owner(running, record)
    return record


def check_free_type(catalog: CatalogSnapshot, schema: int, name: str, *, always: bool = False) -> None:
    """42710 when a type is called so already, or (`always`) will be; the array over one does not count, it gives
    way."""
    oid = type_in(catalog, schema, name)
    if always or (oid and derived_oids.owner_of_row_type(oid) is not None):
        raise DuplicateObject(f'type "{name}" already exists')
