"""Who sees a row of information_schema: the roles of which one's privileges are enough.

A row says so under `SEEN_BY`, and under `SHOWN_TO` for those columns of it that fewer roles see. What follows from
pg_has_role and has_..._privilege in PostgreSQL's definitions of these views is here a set of roles: the owner, those
that were granted one of the privileges, PUBLIC. Rows are therefore made once for everybody, and who reads them gets
those whose set meets the roles whose privileges it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from msgspec import Struct

from adapter.access.acls import LETTERS, entries_of, entry_of
from adapter.access.membership import has_privileges_of
from adapter.access.roles import predefined, role_with
from adapter.system_catalogs.objects.objects import CatalogObjects
from planner.catalog_data import content as catalog_data
from storage.catalog.acl import PUBLIC, AclEntry
from storage.catalog.model import BOOTSTRAP_SUPERUSER_OID, CatalogSnapshot

SEEN_BY = "(seen by)"
SHOWN_TO = "(shown to)"

OF_TABLES = "arwdDxt"
"""What a role may have of a table to see it."""
OF_COLUMNS = "arwx"
"""What it may have of a column to see that, and the table."""
CHANGING_TABLES, CHANGING_COLUMNS = "awdDxt", "awx"
"""Those without SELECT: constraints are seen by who may change the table."""

_READ_ALL = next(oid for oid, role in predefined().items() if role.name == "pg_read_all_data")
_WRITE_ALL = next(oid for oid, role in predefined().items() if role.name == "pg_write_all_data")
_BY_MEMBERSHIP = {"r": (("r", _READ_ALL), ("awd", _WRITE_ALL)), "s": (("r", _READ_ALL), ("w", _WRITE_ALL)),
                  "n": (("U", _READ_ALL), ("U", _WRITE_ALL))}  # fmt: skip


def having(catalog: CatalogSnapshot, kind: str, oid: int, owner: int, letters: str) -> frozenset[int]:
    """Who owns an object or has one of the privileges on it; PUBLIC among them when everybody has."""
    found = {owner, *_grantees(entries_of(catalog, kind, oid, owner), letters)}
    for some, role in _BY_MEMBERSHIP.get(kind, ()):
        if set(some) & set(letters):
            found.add(role)
    return frozenset(found)


def having_any_column(
    catalog: CatalogSnapshot, oid: int, owner: int, letters: str = OF_TABLES, of_columns: str = OF_COLUMNS
) -> frozenset[int]:
    """Who owns a table or has one of the privileges on it, or on one of its columns."""
    found = having(catalog, "r", oid, owner, letters)
    columns = [acl.entries for acl in catalog.acls.of_columns(oid)]
    columns += [entries for (table, _), entries in _builtin_columns(oid) if table == oid]
    return found.union(*(_grantees(entries, of_columns) for entries in columns)) if columns else found


def having_column(
    catalog: CatalogSnapshot, oid: int, attnum: int, of_table: frozenset[int], letters: str = OF_COLUMNS
) -> frozenset[int]:
    """Who has one of the privileges on a column; `of_table` are those who have one on the table."""
    own = column_entries(catalog, oid, attnum)
    return of_table.union(_grantees(own, letters)) if own else of_table


def column_entries(catalog: CatalogSnapshot, oid: int, attnum: int) -> tuple[AclEntry, ...]:
    """The privileges on a column itself."""
    acl = catalog.acls.of(oid, attnum)
    return _builtin_column_entries().get((oid, attnum), ()) if acl is None else acl.entries


@cache
def _builtin_column_entries() -> dict[tuple[int, int], tuple[AclEntry, ...]]:
    data = catalog_data.columns("pg_attribute")
    roles = {"postgres": BOOTSTRAP_SUPERUSER_OID, **{role.name: role.oid for role in predefined().values()}}
    return {
        (oid, attnum): tuple(entry_of(item, roles) for item in items)
        for oid, attnum, items in zip(data["attrelid"], data["attnum"], data["attacl"], strict=True)
        if items is not None
    }


@cache
def _builtin_columns(oid: int) -> tuple[tuple[tuple[int, int], tuple[AclEntry, ...]], ...]:
    return tuple(item for item in _builtin_column_entries().items() if item[0][0] == oid)


def _grantees(entries: Iterable[AclEntry], letters: str) -> Iterator[int]:
    for entry in entries:
        if not set(letters).isdisjoint(entry.privileges):
            yield entry.grantee


class Grant(Struct, frozen=True):
    """One privilege that one role has from another, as the views on privileges show it."""

    grantor: str
    grantee: str
    privilege: str
    is_grantable: bool
    seen_by: frozenset[int]
    """The two roles; PUBLIC stands for everybody."""


def grants(objects: CatalogObjects, entries: Iterable[AclEntry], owner: int, letters: str) -> Iterator[Grant]:
    """What `entries` say of the privileges `letters` on an object of `owner`. Who has the owner's privileges may grant
    them on; of roles that are gone nothing is said."""
    catalog = objects.snapshot
    for entry in entries:
        grantor = role_with(catalog, entry.grantor)
        grantee = role_with(catalog, entry.grantee)
        if grantor is None or (grantee is None and entry.grantee != PUBLIC):
            continue
        owns = grantee is not None and has_privileges_of(catalog, grantee.oid, owner)
        for letter in entry.privileges:
            if letter in letters:
                yield Grant(
                    grantor.name,
                    "PUBLIC" if grantee is None else grantee.name,
                    LETTERS[letter],
                    owns or letter in entry.grantable,
                    frozenset({entry.grantor, entry.grantee}),
                )
