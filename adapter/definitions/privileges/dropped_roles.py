"""What becomes of privileges when a role goes: what names it keeps it there, and DROP OWNED takes that away."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec.structs import replace

from adapter.access.acls import default_entries
from adapter.access.granting import without_role
from adapter.access.membership import roles_used_by
from adapter.access.privileges import described, described_default
from adapter.definitions.common.catalog_changes import change
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import describe
from adapter.execution.statement import Running
from planner.types import derived_oids
from storage.catalog.acl import Acl, DefaultAcl
from storage.catalog.model import BOOTSTRAP_SUPERUSER_OID, CatalogSnapshot, Database, Relation


def privileges_naming(running: Running, catalog: CatalogSnapshot, role: int) -> Iterator[tuple[int, str]]:
    """What of a catalog's privileges keeps `role` from being dropped: an oid to sort by, and PostgreSQL's words."""
    for acl in catalog.acls.all():
        if _names(acl, role) and _owner(catalog, acl) != role:
            yield acl.object_oid, f"privileges for {_shown(running, catalog, acl)}"
    for default in catalog.acls.defaults:
        what = described_default(catalog, default)
        if default.role == role:
            yield default.oid, f"owner of {what}"
        elif _names(default, role):
            yield default.oid, f"privileges for {what}"


def revoke_all(running: Running, roles: Collection[int]) -> None:
    """Take away what `roles` have been granted and have granted in this database and on the database itself, and their
    default privileges (RemoveRoleFromObjectACL)."""
    catalog = own_catalog(running)

    def roles_of(role: int) -> frozenset[int]:
        return roles_used_by(catalog, role) | {role}

    for acl in list(catalog.acls.all()):
        entries, owner = acl.entries, _owner(catalog, acl)
        for role in roles:
            if owner != role:
                entries = without_role(entries, role, owner, acl.kind, roles_of)
        if entries != acl.entries:
            kept = [] if acl.subid and not entries else [replace(acl, entries=entries)]
            change(running, removed=[acl], added=kept)
    for default in catalog.acls.defaults:
        if default.role in roles:
            change(running, removed=[default])
            continue
        entries = tuple(entry for entry in default.entries if entry.grantee not in roles)
        if entries != default.entries:
            start = () if default.schema else default_entries(default.kind.replace("S", "s"), default.role)
            kept_default = [] if set(entries) == set(start) else [replace(default, entries=entries)]
            change(running, removed=[default], added=kept_default)


def _names(acl: Acl | DefaultAcl, role: int) -> bool:
    return any(role in (entry.grantee, entry.grantor) for entry in acl.entries)


def _owner(catalog: CatalogSnapshot, acl: Acl) -> int:
    record = catalog.get(derived_oids.owner(acl.object_oid))
    owner = getattr(record, "owner", BOOTSTRAP_SUPERUSER_OID)
    return owner if isinstance(owner, int) else BOOTSTRAP_SUPERUSER_OID


def _shown(running: Running, catalog: CatalogSnapshot, acl: Acl) -> str:
    if acl.parameter:
        return f"parameter {acl.parameter}"
    record = catalog.get(derived_oids.owner(acl.object_oid))
    if isinstance(record, Database):
        return f"database {record.name}"
    if isinstance(record, Relation) and acl.subid:
        column = next(each.name for each in record.columns if each.attnum == acl.subid)
        return f"column {column} of {describe(running, catalog, record)}"
    if record is not None:
        return describe(running, catalog, record)
    return " ".join(described(catalog, acl.kind, acl.object_oid))
