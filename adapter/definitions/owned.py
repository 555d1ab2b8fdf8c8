"""What becomes of what a role owns: DROP ROLE, REASSIGN OWNED and DROP OWNED."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from adapter.access.membership import has_privileges_of, memberships
from adapter.access.ownership import Owned, is_owned
from adapter.access.roles import predefined, role_called
from adapter.definitions.common.catalog_changes import change, named_role
from adapter.definitions.common.owners import give, is_pinned
from adapter.definitions.dependents import MAX_LISTED, named, notify, remove
from adapter.definitions.drop import drop_all
from adapter.definitions.foreign.servers import described_mapping, without_mappings
from adapter.definitions.large_objects import changes as large_objects
from adapter.definitions.policies.changes import without_roles
from adapter.definitions.privileges.dropped_roles import privileges_naming, revoke_all
from adapter.definitions.roles.attributes import is_powerful, may_create_roles
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import describe
from adapter.execution.statement import Running
from planner.common_errors import missing_role
from planner.errors import DependentObjectsStillExist, InsufficientPrivilege, ObjectInUse
from planner.statements import records as st
from storage.catalog.access import Policy, Role
from storage.catalog.model import BOOTSTRAP_SUPERUSER_OID, WHOLE, CatalogRecord, CatalogSnapshot, Database, Setting
from storage.catalog.model import Sequence as SequenceRecord
from storage.catalog.outside import ForeignServer
from storage.catalog.record import Record


async def drop_role(running: Running, statement: st.DropRole) -> None:
    """DROP ROLE."""
    if not may_create_roles(running):
        raise InsufficientPrivilege("permission denied to drop role")
    for name in statement.names:
        catalog = own_catalog(running)
        role = role_called(catalog, name)
        if role is None:
            if not statement.if_exists:
                raise missing_role(name)
            notify(running, f'role "{name}" does not exist, skipping')
            continue
        await _check_may_drop(running, role)
        remove(running, catalog, [role])
        change(running, removed=list(_goes_with(own_catalog(running), role)))


async def _check_may_drop(running: Running, role: Role) -> None:
    identity = running.session.values.identity
    if role.oid in (identity.current, identity.outer):
        raise ObjectInUse("current user cannot be dropped")
    if role.oid == identity.session:
        raise ObjectInUse("session user cannot be dropped")
    if role.superuser and not is_powerful(running):
        raise InsufficientPrivilege("must be superuser to drop superusers")
    if role.oid in predefined() or role.oid == BOOTSTRAP_SUPERUSER_OID:
        raise DependentObjectsStillExist(f"cannot drop role {role.name} because it is required by the database system")
    whole = running.services.env.catalog.current()
    lines = [
        *_dependents(running, role),
        *await large_objects.named(running, role.oid),
        *_elsewhere(running, role, whole, await large_objects.counted_elsewhere(running, role.oid, whole)),
    ]
    if lines:
        hidden = len(lines) - MAX_LISTED
        shown = lines[:MAX_LISTED] + ([f"and {hidden} other objects (see server log for list)"] if hidden > 0 else [])
        raise DependentObjectsStillExist(
            f'role "{role.name}" cannot be dropped because some objects depend on it', detail="\n".join(shown)
        )


def _goes_with(catalog: CatalogSnapshot, role: Role) -> Iterator[CatalogRecord]:
    """The memberships and stored settings of a role."""
    for membership in memberships(catalog.roles):
        if membership.oid and role.oid in (membership.role, membership.member):
            yield membership
    for record in catalog.all():
        if isinstance(record, Setting) and record.role == role.oid:
            yield record


def _dependents(running: Running, role: Role) -> list[str]:
    """What keeps a role from being dropped, older objects first as PostgreSQL lists it: objects here and of all
    databases."""
    here = own_catalog(running)
    lines = [(_age(record), f"owner of {_described(running, here, record)}") for record in _owned_by(here, [role])]
    lines += [((oid, True), line) for oid, line in privileges_naming(running, here, role.oid)]
    lines += [
        ((mapping.oid, True), f"owner of {described_mapping(here, server, mapping)}")
        for server in _servers(here)
        for mapping in server.mappings
        if mapping.role == role.oid
    ]
    lines += [
        ((policy.oid, True), f"target of {named(running, here, policy)}") for policy in _policies_for(here, [role])
    ]
    return [line for _, line in sorted(lines, key=lambda pair: pair[0])]


def _elsewhere(running: Running, role: Role, whole: CatalogSnapshot, of_large_objects: Counter[int]) -> Iterator[str]:
    """What of each other database names the role: only how much it is."""
    here = own_catalog(running).database
    counts = of_large_objects + Counter(
        whole.place(record)
        for record in whole.all()
        if _names_role(record, role.oid) and whole.place(record) not in (WHOLE, here)
    )
    for oid, count in sorted(counts.items()):
        database = whole.get(oid)
        if isinstance(database, Database):
            yield f"{count} object{'' if count == 1 else 's'} in database {database.name}"


def _names_role(record: CatalogRecord, role: int) -> bool:
    if isinstance(record, ForeignServer) and record.mapping(role) is not None:
        return True
    return (is_owned(record) and record.owner == role) or (isinstance(record, Policy) and role in record.roles)


def _servers(catalog: CatalogSnapshot) -> list[ForeignServer]:
    return sorted((r for r in catalog.all() if isinstance(r, ForeignServer)), key=lambda server: server.oid)


def _policies_for(catalog: CatalogSnapshot, roles: Sequence[Role]) -> list[Policy]:
    """The policies that are for one of the roles, oldest first."""
    oids = {role.oid for role in roles}
    found = [r for r in catalog.all() if isinstance(r, Policy) and not oids.isdisjoint(r.roles)]
    return sorted(found, key=lambda policy: policy.oid)


def _described(running: Running, catalog: CatalogSnapshot, record: Owned) -> str:
    if isinstance(record, Database):
        return f"database {record.name}"
    return describe(running, catalog, record)


def _owned_by(catalog: CatalogSnapshot, roles: Sequence[Role]) -> list[Owned]:
    """What the roles own in this database and of what all databases share, oldest first."""
    oids = {role.oid for role in roles}
    found = [record for record in catalog.all() if is_owned(record) and record.owner in oids]
    return sorted(found, key=_age)


def _age(record: Owned) -> tuple[int, bool]:
    """The place of an object among others by age; PostgreSQL makes the sequences of columns before their table."""
    if isinstance(record, SequenceRecord) and record.owned_by is not None:
        return record.owned_by[0], False
    return record.oid, True


async def reassign_owned(running: Running, statement: st.ReassignOwned) -> None:
    """REASSIGN OWNED: in this database, and the databases themselves."""
    roles = _permitted(running, statement.roles, "reassign objects")
    (new_owner,) = _permitted(running, [statement.new_owner], "reassign objects")
    _refuse_pinned(roles, "reassign ownership of objects owned by")
    for record in _owned_by(own_catalog(running), roles):
        current = own_catalog(running).get(record.oid)
        assert is_owned(current)
        give(running, current, new_owner.oid)
    await large_objects.reassign(running, [role.oid for role in roles], new_owner.oid)


async def drop_owned(running: Running, statement: st.DropOwned) -> None:
    """DROP OWNED: what the roles own in this database; policies are for them no longer."""
    roles = _permitted(running, statement.roles, "drop objects")
    _refuse_pinned(roles, "drop objects owned by")
    for policy, rest in without_roles(_policies_for(own_catalog(running), roles), [role.oid for role in roles]):
        change(running, removed=[policy], added=[] if rest is None else [rest])
    oids = {role.oid for role in roles}
    for server in _servers(own_catalog(running)):
        if any(mapping.role in oids for mapping in server.mappings):
            change(running, removed=[server], added=[without_mappings(server, oids)])
    catalog = own_catalog(running)
    owned = (each for each in _owned_by(catalog, roles) if not isinstance(each, Database) and not is_pinned(each))
    targets: dict[int, Record] = {record.oid: record for record in owned}
    await drop_all(running, catalog, targets, cascade=statement.cascade)
    revoke_all(running, oids)
    await large_objects.drop(running, oids)


def _permitted(running: Running, names: Sequence[str], what: str) -> list[Role]:
    """The roles of these names. 42501 unless the current role has the privileges of each."""
    catalog, current = own_catalog(running), running.session.values.identity.current
    roles = [named_role(running, name) for name in names]
    for role in roles:
        if not has_privileges_of(catalog, current, role.oid):
            raise InsufficientPrivilege(f"permission denied to {what}")
    return roles


def _refuse_pinned(roles: Sequence[Role], what: str) -> None:
    for role in roles:
        if role.oid == BOOTSTRAP_SUPERUSER_OID or role.oid in predefined():
            raise DependentObjectsStillExist(
                f"cannot {what} role {role.name} because they are required by the database system"
            )
