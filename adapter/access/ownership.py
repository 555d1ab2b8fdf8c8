"""Who owns what: an object's owner may do everything with it, and so may whoever has the owner's privileges."""

from __future__ import annotations

from typing import TypeAlias, TypeGuard

from adapter.access.membership import has_privileges_of
from planner.errors import InsufficientPrivilege
from storage.catalog.model import (
    COMPOSITE,
    CatalogSnapshot,
    Database,
    DomainType,
    EnumType,
    Index,
    Relation,
    Schema,
    Sequence,
)
from storage.catalog.outside import Extension, ForeignServer
from storage.catalog.record import ExtendedStatistics, Record
from storage.catalog.routines import Function
from storage.catalog.types import BaseType, UserRange

Owned: TypeAlias = (
    Relation | Sequence | Schema | Database | EnumType | DomainType | UserRange | BaseType | Function | Extension
    | ForeignServer | ExtendedStatistics
)  # fmt: skip
"""The records that say who owns the object."""

_OWNED = (
    Relation, Sequence, Schema, Database, EnumType, DomainType, UserRange, BaseType, Function, Extension, ForeignServer,
    ExtendedStatistics,
)  # fmt: skip
_RELATION_KINDS = {"r": "table", "v": "view", "m": "materialized view", "f": "foreign table", COMPOSITE: "type"}


def is_owned(record: Record | None) -> TypeGuard[Owned]:
    """Whether the record says who owns the object."""
    return isinstance(record, _OWNED)


def kind_of(record: Owned | Index) -> str:
    """What PostgreSQL calls an object of this kind in errors of permission."""
    match record:
        case Relation():
            return _RELATION_KINDS[record.kind]
        case Sequence():
            return "sequence"
        case Index():
            return "index"
        case Schema():
            return "schema"
        case Database():
            return "database"
        case Extension():
            return "extension"
        case ExtendedStatistics():
            return "statistics object"
        case ForeignServer():
            return "foreign server"
        case EnumType() | DomainType() | UserRange() | BaseType():
            return "type"
        case Function():
            return "procedure" if record.kind == "p" else "function"


def owner_of(catalog: CatalogSnapshot, record: Owned | Index) -> int:
    """The owner of the object; of an index that of its table."""
    if isinstance(record, Index):
        table = catalog.get(record.relation)
        assert isinstance(table, Relation)
        return table.owner
    return record.owner


def owns(catalog: CatalogSnapshot, role: int, record: Owned | Index) -> bool:
    """Whether `role` may do what the object's owner may."""
    return has_privileges_of(catalog, role, owner_of(catalog, record))


def require_owner(catalog: CatalogSnapshot, role: int, record: Owned | Index, kind: str | None = None) -> None:
    """42501 when `role` may not do what the object's owner may. `kind`: what the error calls it, if not its own kind
    (``relation`` where something that is part of it is named)."""
    if not owns(catalog, role, record):
        raise InsufficientPrivilege(f"must be owner of {kind or kind_of(record)} {record.name}")


def may_drop(catalog: CatalogSnapshot, role: int, record: Owned | Index) -> bool:
    """Whether `role` may drop the object: its owner may, and so may its schema's."""
    schema = catalog.get(getattr(record, "schema", 0))
    return (isinstance(schema, Schema) and owns(catalog, role, schema)) or owns(catalog, role, record)


def may_maintain(catalog: CatalogSnapshot, role: int, record: Owned | Index) -> bool:
    """Whether `role` may VACUUM and ANALYZE it: its owner may, and the database's (vacuum_is_relation_owner)."""
    return owns(catalog, role, record) or owns_database(catalog, role)


def owns_database(catalog: CatalogSnapshot, role: int) -> bool:
    """Whether `role` may do what the owner of the catalog's database may."""
    database = catalog.get(catalog.database)
    return isinstance(database, Database) and owns(catalog, role, database)


def require_owner_or_schema(catalog: CatalogSnapshot, role: int, record: Owned | Index) -> None:
    """42501 when `role` may not drop the object."""
    if not may_drop(catalog, role, record):
        require_owner(catalog, role, record)
