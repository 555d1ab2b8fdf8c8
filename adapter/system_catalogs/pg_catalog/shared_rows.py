"""pg_shdepend: what depends on roles. PostgreSQL has rows of all databases there; here they are those of the database
that is connected to and of what belongs to all of them, as of its other catalogs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from adapter.access.acls import owner_of
from adapter.execution_context import Row
from adapter.system_catalogs.objects.content import Content
from adapter.system_catalogs.objects.objects import (
    PG_AUTHID,
    PG_CLASS,
    PG_DATABASE,
    PG_DEFAULT_ACL,
    PG_FOREIGN_DATA_WRAPPER,
    PG_FOREIGN_SERVER,
    PG_LARGEOBJECT,
    PG_NAMESPACE,
    PG_POLICY,
    PG_PROC,
    PG_TYPE,
    PG_USER_MAPPING,
    CatalogObjects,
)
from planner.types import derived_oids
from storage.catalog.acl import AclEntry

PG_LANGUAGE = 2612
PG_TABLESPACE = 1213
FIRST_UNPINNED = 12000
"""FirstUnpinnedObjectId: nothing is noted of roles that are always there."""

_CATALOG_OF: Mapping[str, int] = {
    "r": PG_CLASS, "c": PG_CLASS, "s": PG_CLASS, "d": PG_DATABASE, "f": PG_PROC, "l": PG_LANGUAGE, "n": PG_NAMESPACE,
    "T": PG_TYPE, "F": PG_FOREIGN_DATA_WRAPPER, "S": PG_FOREIGN_SERVER, "L": PG_LARGEOBJECT, "t": PG_TABLESPACE,
}  # fmt: skip
"""The catalog of an object by its kind, as privileges have it."""


def pg_shdepend(objects: CatalogObjects) -> Content:
    """Owners (o), roles in privileges (a) and roles that policies name (r)."""
    here = next((each.oid for each in objects.databases if each.name == objects.database), 0)

    def row(classid: int, objid: int, role: int, deptype: str, objsubid: int = 0) -> Row:
        return {
            "dbid": 0 if classid == PG_DATABASE else here,
            "classid": classid,
            "objid": objid,
            "objsubid": objsubid,
            "refclassid": PG_AUTHID,
            "refobjid": role,
            "deptype": deptype,
        }

    def rows() -> Iterator[Row]:
        for record in objects.snapshot.all():
            owner = getattr(record, "owner", None)
            if isinstance(owner, int) and owner >= FIRST_UNPINNED:
                catalog = objects.class_of(record.oid)
                oid = derived_oids.row_type_oid(record.oid) if catalog == PG_TYPE else record.oid
                yield row(catalog, oid, owner, "o")
        for server in objects.foreign_servers:
            for mapping in server.mappings:
                if mapping.role >= FIRST_UNPINNED:
                    yield row(PG_USER_MAPPING, mapping.oid, mapping.role, "o")
        for acl in objects.snapshot.acls.all():
            if not acl.parameter:
                owner = owner_of(objects.snapshot, acl.kind, acl.object_oid)
                for role in _roles(acl.entries, owner):
                    yield row(_CATALOG_OF[acl.kind], acl.object_oid, role, "a", acl.subid)
        for default in objects.snapshot.acls.defaults:
            if default.role >= FIRST_UNPINNED:
                yield row(PG_DEFAULT_ACL, default.oid, default.role, "o")
            for role in _roles(default.entries, default.role):
                yield row(PG_DEFAULT_ACL, default.oid, role, "a")
        for policy in (each for table in objects.snapshot.policies.by_table.values() for each in table.policies):
            for role in policy.roles:
                if role >= FIRST_UNPINNED:
                    yield row(PG_POLICY, policy.oid, role, "r")

    return Content(rows=list(rows()))


def _roles(entries: Iterable[AclEntry], owner: int | None) -> list[int]:
    """The roles of privileges, but for the owner of what they are on."""
    found = dict.fromkeys(role for entry in entries for role in (entry.grantee, entry.grantor))
    return [role for role in found if role >= FIRST_UNPINNED and role != owner]
