"""The privileges of objects: what was granted, the defaults (acldefault), and what a role has of them (aclmask).

An object without granted privileges has the default ones: its owner all of its kind, PUBLIC some on databases,
functions, languages and types. Objects that are built in have what PostgreSQL's catalogs say, until somebody grants
something on them.

The rules are those of PostgreSQL 15's acl.c and aclchk.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from adapter.access.roles import predefined
from planner.catalog_data import content as catalog_data
from planner.common_errors import missing_role
from planner.functions.own_routines import own_routines
from planner.types import derived_oids
from planner.types.own_relations import OWN_RELATIONS
from planner.types.system_relations import own_oids
from storage.catalog.acl import PUBLIC, AclEntry
from storage.catalog.model import (
    BOOTSTRAP_SUPERUSER_OID,
    OWN_SCHEMA_OID,
    PUBLIC_SCHEMA_OID,
    CatalogSnapshot,
    Index,
    Relation,
    Schema,
)
from storage.catalog.outside import LAKE_WRAPPER_OID

LETTERS: Mapping[str, str] = {
    "a": "INSERT",
    "r": "SELECT",
    "w": "UPDATE",
    "d": "DELETE",
    "D": "TRUNCATE",
    "x": "REFERENCES",
    "t": "TRIGGER",
    "X": "EXECUTE",
    "U": "USAGE",
    "C": "CREATE",
    "T": "TEMPORARY",
    "c": "CONNECT",
    "s": "SET",
    "A": "ALTER SYSTEM",
}
"""What each letter stands for, in the order in which an aclitem shows them."""

OF_KIND: Mapping[str, str] = {
    "r": "arwdDxt",
    "c": "arwx",
    "s": "rwU",
    "d": "CTc",
    "f": "X",
    "l": "U",
    "n": "UC",
    "T": "U",
    "F": "U",
    "S": "U",
    "L": "rw",
    "t": "C",
    "p": "sA",
}
"""All privileges on an object, by its kind as `storage.catalog.acl` has it."""

_OF_PUBLIC: Mapping[str, str] = {"d": "Tc", "f": "X", "l": "U", "T": "U"}


def in_order(letters: Iterable[str]) -> str:
    """Letters in the order in which an aclitem shows them, each once."""
    given = set(letters)
    return "".join(letter for letter in LETTERS if letter in given)


def default_entries(kind: str, owner: int) -> tuple[AclEntry, ...]:
    """The privileges on an object of `owner` before any GRANT (acldefault). A column has none of its own."""
    if kind == "c":
        return ()
    own = AclEntry(grantee=owner, grantor=owner, privileges=in_order(OF_KIND[kind]))
    public = _OF_PUBLIC.get(kind)
    return (own,) if public is None else (AclEntry(grantee=PUBLIC, grantor=owner, privileges=in_order(public)), own)


# ---------------------------------------------------------------- text


def entry_of(text: str, roles: Mapping[str, int]) -> AclEntry:
    """An aclitem from its text. 42704 for a role that is not in `roles`."""
    grantee, rest = _read_role(text)
    letters, _, rest = rest.removeprefix("=").partition("/")
    grantor, _ = _read_role(rest)
    granted = [letter for letter in letters if letter != "*"]
    grantable = [letters[place - 1] for place, letter in enumerate(letters) if letter == "*"]
    return AclEntry(
        grantee=_role_of(grantee, roles) if grantee else PUBLIC,
        grantor=_role_of(grantor, roles),
        privileges=in_order(granted),
        grantable=in_order(grantable),
    )


def _read_role(text: str) -> tuple[str, str]:
    """The role at the start of `text`, and what is after it."""
    if not text.startswith('"'):
        found = _NAME.match(text)
        assert found is not None
        return found[0], text[found.end() :]
    place, name = 1, ""
    while place < len(text):
        if text[place] != '"':
            name += text[place]
            place += 1
        elif text[place : place + 2] == '""':
            name += '"'
            place += 2
        else:
            break
    return name, text[place + 1 :]


def _role_of(name: str, roles: Mapping[str, int]) -> int:
    oid = int(name) if name.isdecimal() and name not in roles else roles.get(name)
    if oid is None:
        raise missing_role(name)
    return oid


_NAME = re.compile(r"[^=/]*")


def shown_entries(entries: Iterable[AclEntry], roles: Mapping[int, str]) -> list[str]:
    """Entries as aclitems' text; `roles` are the names of roles by oid."""
    return [
        f"{'' if entry.grantee == PUBLIC else _shown_role(entry.grantee, roles)}={letters_of(entry)}/"
        f"{_shown_role(entry.grantor, roles)}"
        for entry in entries
    ]


_SAFE_NAME = re.compile(r"[A-Za-z0-9_]*\Z")


def _shown_role(oid: int, roles: Mapping[int, str]) -> str:
    """A role in an aclitem (putid): quoted unless of letters, digits and underscores, by its oid when it is gone."""
    name = roles.get(oid, str(oid))
    return name if _SAFE_NAME.match(name) else '"' + name.replace('"', '""') + '"'


def letters_of(entry: AclEntry) -> str:
    """``ar*w``: the privileges of an entry, those with grant option marked."""
    return "".join(f"{letter}*" if letter in entry.grantable else letter for letter in entry.privileges)


# ---------------------------------------------------------------- of objects


_BUILTIN: Mapping[str, tuple[str, str]] = {
    "r": ("pg_class", "relacl"),
    "f": ("pg_proc", "proacl"),
    "n": ("pg_namespace", "nspacl"),
}


@cache
def _builtin_roles() -> Mapping[str, int]:
    return {"postgres": BOOTSTRAP_SUPERUSER_OID, **{role.name: role.oid for role in predefined().values()}}


@cache
def builtin_entries(kind: str) -> Mapping[int, tuple[AclEntry, ...]]:
    """The privileges on objects that are built in, of those that have other than the default ones."""
    if kind not in _BUILTIN:
        return {}
    relation, column = _BUILTIN[kind]
    data = catalog_data.columns(relation)
    roles = _builtin_roles()
    found = {
        oid: tuple(entry_of(item, roles) for item in items)
        for oid, items in zip(data["oid"], data[column], strict=True)
        if items is not None
    }
    if kind == "r":
        own = default_entries("r", BOOTSTRAP_SUPERUSER_OID)
        for each in OWN_RELATIONS.values():
            grantee = roles["pg_read_all_stats"] if each.monitors else PUBLIC
            reader = AclEntry(grantee=grantee, grantor=BOOTSTRAP_SUPERUSER_OID, privileges="r")
            found[each.oid] = (*own, reader)
    if kind == "n":
        everybody = AclEntry(grantee=PUBLIC, grantor=BOOTSTRAP_SUPERUSER_OID, privileges="U")
        found[OWN_SCHEMA_OID] = (*default_entries("n", BOOTSTRAP_SUPERUSER_OID), everybody)
    return found


def explicit_entries(catalog: CatalogSnapshot, kind: str, oid: int, subid: int = 0) -> tuple[AclEntry, ...] | None:
    """The privileges on an object or a column of it as its catalog row has them: None for the default ones."""
    acl = catalog.acls.of(oid, subid)
    if acl is not None:
        return acl.entries
    if subid:
        return None
    if kind == "n":
        schema = catalog.get(oid)
        if isinstance(schema, Schema) and schema.origin == PUBLIC_SCHEMA_OID:
            oid = PUBLIC_SCHEMA_OID
    return builtin_entries("r" if kind == "s" else kind).get(oid)


def entries_of(catalog: CatalogSnapshot, kind: str, oid: int, owner: int, subid: int = 0) -> tuple[AclEntry, ...]:
    """The privileges on an object of `owner`, or on a column of it."""
    found = explicit_entries(catalog, kind, oid, subid)
    return default_entries("c" if subid else kind, owner) if found is None else found


@cache
def _builtin_oids(relation: str) -> frozenset[int]:
    own = {"pg_class": own_oids(), "pg_proc": own_routines().keys(), "pg_namespace": (OWN_SCHEMA_OID,)}
    return frozenset([*catalog_data.columns(relation)["oid"], *own.get(relation, ())])


_BUILTIN_OF: Mapping[str, str] = {
    "r": "pg_class", "s": "pg_class", "f": "pg_proc", "n": "pg_namespace", "T": "pg_type", "l": "pg_language",
    "t": "pg_tablespace",
}  # fmt: skip


def owner_of(catalog: CatalogSnapshot, kind: str, oid: int) -> int | None:
    """Who owns an object; None when there is none of this kind and oid. What is built in the first superuser owns."""
    if kind == "p" or (kind == "F" and oid == LAKE_WRAPPER_OID):
        return BOOTSTRAP_SUPERUSER_OID
    record = catalog.get(derived_oids.owner(oid) if kind == "T" else oid)
    if isinstance(record, Index):
        record = catalog.get(record.relation)
    owner = getattr(record, "owner", None)
    if isinstance(owner, int):
        return owner
    if kind in _BUILTIN_OF and oid in _builtin_oids(_BUILTIN_OF[kind]):
        return BOOTSTRAP_SUPERUSER_OID
    if kind == "r" and derived_oids.owner(oid) != oid:
        constraint = catalog.get(derived_oids.owner(oid))
        table = catalog.get(getattr(constraint, "relation", 0))
        return table.owner if isinstance(table, Relation) else None
    return None


# ---------------------------------------------------------------- what a role has


def held(
    entries: Sequence[AclEntry], roles: frozenset[int], owner: int, kind: str, *, grant_options: bool = False
) -> set[str]:
    """The privileges that who has the privileges of `roles` has by `entries`, with `grant_options` those that it may
    grant: an owner may grant all, whether or not it has them."""
    found: set[str] = set()
    for entry in entries:
        if entry.grantee in roles or (entry.grantee == PUBLIC and not grant_options):
            found.update(entry.grantable if grant_options else entry.privileges)
    if grant_options and owner in roles:
        found.update(OF_KIND[kind])
    return found
