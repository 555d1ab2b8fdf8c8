"""The catalog in which a type's oid means something, for the task that runs a statement.

Types are oids to most of the planner, and those of users mean something in one catalog only. So the catalog in force
is kept for the task that runs a statement (`TYPE_SCOPE`). Threads that need it get a copy of the context, as
`asyncio.to_thread` gives them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from planner.common_errors import Held
from planner.types import derived_oids
from planner.types.derived_oids import FIRST_USER_TYPE
from storage.catalog.model import CatalogSnapshot, DomainType, EnumType, Relation
from storage.catalog.types import BaseType, UserRange

UserType: TypeAlias = EnumType | DomainType | UserRange | BaseType | Relation
"""What a type of a user is recorded as. A relation's type is that of its rows."""


class TypeScope(Struct, frozen=True, kw_only=True):
    """The catalog and search path in which types are looked up. With `stored`, names of types are written as the
    catalog keeps them (`STORED_SCHEMA`)."""

    catalog: CatalogSnapshot
    search_path: tuple[str, ...] = ()
    stored: bool = False
    closed_schemas: frozenset[str] = frozenset()
    """The schemas on which the current role has no USAGE."""
    held: Held = Held.DECIMALS
    """How numerics are held where nothing stored is read or written."""
    new_labels: frozenset[int] = frozenset()
    """The labels of enums (oids) that the transaction has added, which nobody may use before it commits."""


_NOTHING = TypeScope(catalog=CatalogSnapshot.empty())
TYPE_SCOPE: ContextVar[TypeScope] = ContextVar("types", default=_NOTHING)
"""Where the task that runs a statement looks types up."""


@contextmanager
def types_of(catalog: CatalogSnapshot, search_path: tuple[str, ...]) -> Iterator[None]:
    """Types are looked up there for the length of the block."""
    known = TYPE_SCOPE.get()
    scope = TypeScope(catalog=catalog, search_path=search_path, held=known.held, new_labels=known.new_labels)
    token = TYPE_SCOPE.set(scope)
    try:
        yield
    finally:
        TYPE_SCOPE.reset(token)


@contextmanager
def names_to_keep() -> Iterator[None]:
    """Names of types are written as the catalog keeps them for the length of the block."""
    known = TYPE_SCOPE.get()
    token = TYPE_SCOPE.set(replace(known, stored=True))
    try:
        yield
    finally:
        TYPE_SCOPE.reset(token)


def record_of(oid: int) -> UserType | None:
    """What the type `oid` is recorded as; None for built-in types, arrays and types that do not exist."""
    if oid <= FIRST_USER_TYPE:
        return None
    owner = derived_oids.owner_of_row_type(oid)
    record = TYPE_SCOPE.get().catalog.get(owner) if owner is not None else None
    return record if isinstance(record, (EnumType, DomainType, UserRange, BaseType, Relation)) else None


def domain_of(oid: int) -> DomainType | None:
    """The domain `oid`, or None when it is none."""
    if oid <= FIRST_USER_TYPE:
        return None
    record = record_of(oid)
    return record if isinstance(record, DomainType) else None
