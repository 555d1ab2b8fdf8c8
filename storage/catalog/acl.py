"""Who may do what with objects: what GRANT and ALTER DEFAULT PRIVILEGES leave in the catalog.

Privileges are written with PostgreSQL's letters (chapter "Privileges"): ``r`` SELECT, ``a`` INSERT, ``w`` UPDATE, ``d``
DELETE, ``D`` TRUNCATE, ``x`` REFERENCES, ``t`` TRIGGER, ``X`` EXECUTE, ``U`` USAGE, ``C`` CREATE, ``c`` CONNECT, ``T``
TEMPORARY, ``s`` SET, ``A`` ALTER SYSTEM. Kinds of objects are those of acldefault: ``r`` relation, ``c`` column, ``s``
sequence, ``d`` database, ``f`` function, ``l`` language, ``n`` schema, ``T`` type, ``p`` parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
from immutables import Map

from storage.catalog.record import Record

PUBLIC = 0
"""In place of a role: everybody."""


class AclEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one role has been granted by one other (PostgreSQL's aclitem)."""

    grantee: int
    grantor: int
    privileges: str
    """Letters, in PostgreSQL's order."""
    grantable: str = ""
    """Those of them that were given WITH GRANT OPTION."""


class Acl(Record, frozen=True, kw_only=True, tag="acl"):
    """The privileges on an object, or on a column of it. An object without a record has the default ones."""

    object_oid: int
    """Of what is built in: PostgreSQL's oid of it. Of a parameter: 0."""
    subid: int = 0
    """The attnum of a column."""
    kind: str
    entries: tuple[AclEntry, ...]
    parameter: str = ""
    """The name of a parameter, which is no object (pg_parameter_acl)."""
    database: int
    """The database of the object, or that in which they hold for what is built in; of what belongs to all databases it
    says nothing."""

    @property
    def is_shared(self) -> bool:
        """Whether they hold in all databases: those on databases and parameters."""
        return self.kind == "d" or bool(self.parameter)

    def is_of_same(self, other: Acl) -> bool:
        """Whether `other` says what those on the same thing are."""
        if (self.object_oid, self.subid, self.parameter) != (other.object_oid, other.subid, other.parameter):
            return False
        return self.is_shared or self.database == other.database


class DefaultAcl(Record, frozen=True, kw_only=True, tag="default_acl"):
    """The privileges that objects get which `role` makes (pg_default_acl)."""

    role: int
    schema: int = 0
    """0: in whatever schema. In a schema the entries are added to those that hold without."""
    kind: str
    """As pg_default_acl.defaclobjtype: ``r`` relation, ``S`` sequence, ``f`` function, ``T`` type, ``n`` schema."""
    entries: tuple[AclEntry, ...]
    database: int


@dataclass(frozen=True, slots=True, eq=False)
class Acls:
    """The privileges of a catalog. Immutable, and the same object until one of them changes."""

    by_object: Map[int, tuple[Acl, ...]] = field(default_factory=Map)
    """Those of each object and of its columns; those of parameters under 0. The catalog of all databases has those of
    each on what is built in."""
    defaults: tuple[DefaultAcl, ...] = ()
    """In the order of their oids."""

    def of(self, oid: int, subid: int = 0) -> Acl | None:
        """The privileges on an object, or on one of its columns; None where they are the default ones."""
        return next((acl for acl in self.by_object.get(oid, ()) if acl.subid == subid), None)

    def of_columns(self, oid: int) -> tuple[Acl, ...]:
        """The privileges on columns of a relation."""
        return tuple(acl for acl in self.by_object.get(oid, ()) if acl.subid)

    def of_parameter(self, name: str) -> Acl | None:
        """The privileges on a parameter; None where they are the default ones."""
        return next((acl for acl in self.by_object.get(0, ()) if acl.parameter == name), None)

    def all(self) -> Iterator[Acl]:
        """Those of all objects."""
        for acls in self.by_object.values():
            yield from acls

    def changed(self, updates: Iterable[tuple[Any, int]]) -> Acls:
        """After `updates`, pairs of a record and -1 or +1, retractions first; other records do not matter. Raises
        ValueError when an object would have two, in one database."""
        by_object, defaults = self.by_object, self.defaults
        for record, diff in updates:
            if isinstance(record, Acl):
                known = by_object.get(record.object_oid, ())
                if diff == -1:
                    rest = tuple(acl for acl in known if acl.oid != record.oid)
                    by_object = by_object.set(record.object_oid, rest) if rest else by_object.delete(record.object_oid)
                    continue
                if any(acl.is_of_same(record) for acl in known):
                    raise ValueError(f"privileges on object {record.object_oid}, {record.subid} exist")
                by_object = by_object.set(record.object_oid, (*known, record))
            elif isinstance(record, DefaultAcl):
                rest_of_them = [acl for acl in defaults if acl.oid != record.oid]
                defaults = tuple(sorted([*rest_of_them, *([record] if diff == 1 else [])], key=lambda acl: acl.oid))
        if by_object is self.by_object and defaults is self.defaults:
            return self
        return Acls(by_object, defaults)
