"""Privileges that follow from a change of the catalog: those of new objects by ALTER DEFAULT PRIVILEGES, and those of
objects that have a new owner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from adapter.access.acls import default_entries, explicit_entries
from adapter.access.granting import Change as GrantChange
from adapter.access.granting import Entries, changed, with_owner
from planner.types import derived_oids
from storage.catalog.acl import Acl
from storage.catalog.model import (
    COMPOSITE,
    CatalogRecord,
    CatalogSnapshot,
    DomainType,
    EnumType,
    Relation,
    Schema,
)
from storage.catalog.model import (
    Sequence as SequenceRecord,
)
from storage.catalog.routines import Function
from storage.catalog.types import BaseType, UserRange

_DEFAULT_KINDS = {"r": "r", "s": "S", "f": "f", "T": "T", "n": "n"}
"""Of each kind of object, that of pg_default_acl."""


def privileges_of_changed(
    catalog: CatalogSnapshot,
    removed: Sequence[CatalogRecord],
    added: Sequence[CatalogRecord],
    new_oid: Callable[[int], int],
) -> tuple[list[Acl], list[Acl]]:
    """The records of privileges that go and those that come when `removed` goes out of `catalog` and `added` into it.
    `new_oid` gives an oid for what belongs to an object."""
    before = {record.oid: record for record in removed}
    lost: list[Acl] = []
    gained: list[Acl] = []
    for record in added:
        owner = getattr(record, "owner", None)
        if not isinstance(owner, int):
            continue
        known = before.get(record.oid)
        if known is not None:
            old = getattr(known, "owner", owner)
            if old != owner:
                acls = list(_of_object(catalog, record.oid))
                lost.extend(acls)
                acls = acls or _of_standard_schema(catalog, record, new_oid)
                gained.extend(replace(acl, entries=with_owner(acl.entries, old, owner)) for acl in acls)
        elif catalog.acls.defaults and catalog.get(record.oid) is None:
            gained.extend(_defaults(catalog, record, owner, new_oid))
    return lost, gained


def _of_object(catalog: CatalogSnapshot, oid: int) -> Iterable[Acl]:
    yield from catalog.acls.by_object.get(oid, ())
    yield from catalog.acls.by_object.get(derived_oids.row_type_oid(oid), ())


def _of_standard_schema(catalog: CatalogSnapshot, record: CatalogRecord, new_oid: Callable[[int], int]) -> list[Acl]:
    """The privileges that `public` has as long as nobody has granted any, as a record."""
    entries = explicit_entries(catalog, "n", record.oid) if isinstance(record, Schema) else None
    if entries is None:
        return []
    return [Acl(oid=new_oid(record.oid), object_oid=record.oid, kind="n", entries=entries, database=catalog.database)]


def _defaults(
    catalog: CatalogSnapshot, record: CatalogRecord, owner: int, new_oid: Callable[[int], int]
) -> Iterable[Acl]:
    kind, object_oid, schema = _what(record)
    if not kind:
        return
    default = default_entries(kind, owner)
    letter = _DEFAULT_KINDS[kind]
    found = {
        each.schema: each.entries
        for each in catalog.acls.defaults
        if each.role == owner and each.kind == letter and each.schema in (0, schema)
    }
    entries = found.get(0, default)
    if schema in found and schema:
        entries = _merged(entries, found[schema], owner, kind)
    # PostgreSQL sorts these (aclitemsort), and no others.
    entries = tuple(sorted(entries, key=lambda entry: (entry.grantee, entry.grantor)))
    if set(entries) != set(default):
        yield Acl(
            oid=new_oid(record.oid),
            object_oid=object_oid,
            kind=kind,
            entries=entries,
            database=catalog.database,
        )


def _what(record: CatalogRecord) -> tuple[str, int, int]:
    """The kind of an object, the oid that its privileges are under, and its schema; no kind for what has none."""
    match record:
        case Relation(kind=kind) if kind == COMPOSITE:
            return "T", derived_oids.row_type_oid(record.oid), record.schema
        case Relation():
            return "r", record.oid, record.schema
        case SequenceRecord():
            return "s", record.oid, record.schema
        case Function():
            return "f", record.oid, record.schema
        case Schema():
            return "n", record.oid, 0
        case EnumType() | DomainType() | UserRange() | BaseType():
            return "T", derived_oids.row_type_oid(record.oid), record.schema
        case _:
            return "", 0, 0


def _merged(entries: Entries, more: Entries, owner: int, kind: str) -> Entries:
    """`entries` with `more` added (aclmerge)."""
    for item in more:
        for letters, options in ((item.privileges, False), (item.grantable, True)):
            if letters:
                change = GrantChange(
                    grant=True, grantees=(item.grantee,), letters=letters, options=options, cascade=False, kind=kind
                )
                entries = changed(entries, change, item.grantor, owner, lambda role: frozenset({role}))
    return entries
