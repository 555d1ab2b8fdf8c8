"""Ownership as definitions see it: what the current role may define, and giving objects to others."""

from __future__ import annotations

from msgspec.structs import replace

from adapter.access import ownership
from adapter.access.membership import is_member_of, is_superuser
from adapter.access.ownership import Owned
from adapter.definitions.common.catalog_changes import change, named_role
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from planner.errors import InsufficientPrivilege
from storage.catalog.access import Role
from storage.catalog.model import OWN_SCHEMA, OWN_SCHEMA_OID, Database, Index, Relation, Schema, Sequence


def require_owner(running: Running, record: Owned | Index, kind: str | None = None) -> None:
    """42501 unless the current role may do what the object's owner may; see `adapter.access.ownership`. Nobody may
    change the server's own schema."""
    if record.oid == OWN_SCHEMA_OID:
        raise InsufficientPrivilege(
            f"permission denied for schema {OWN_SCHEMA.name}",
            detail="System catalog modifications are currently disallowed.",
        )
    ownership.require_owner(own_catalog(running), running.session.values.identity.current, record, kind)


def require_droppable(running: Running, record: Owned | Index) -> None:
    """42501 unless the current role owns the object or its schema."""
    ownership.require_owner_or_schema(own_catalog(running), running.session.values.identity.current, record)


def require_member(running: Running, role: Role) -> None:
    """42501 unless the current role could become `role`, which objects are to be given to."""
    if not is_member_of(own_catalog(running), running.session.values.identity.current, role.oid):
        raise InsufficientPrivilege(f'must be member of role "{role.name}"')


def check_new_owner(running: Running, record: Owned, name: str) -> Role:
    """The role `name` that the object is to be given to. 42501 when the current role may not give it so."""
    role = named_role(running, name)
    if record.owner == role.oid:
        return role
    require_owner(running, record)
    require_member(running, role)
    if isinstance(record, Database):
        _require_createdb(running)
    return role


def _require_createdb(running: Running) -> None:
    catalog, current = own_catalog(running), running.session.values.identity.current
    record = catalog.roles.records.get(current)
    if not is_superuser(catalog, current) and (record is None or not record.create_db):
        raise InsufficientPrivilege("permission denied to change owner of database")


def give(running: Running, record: Owned, role: int) -> None:
    """Let `role` own the object, and the sequences that go with a table's columns; nobody is asked."""
    if record.owner == role:
        return
    with_it: list[Owned] = [record]
    if isinstance(record, Relation):
        with_it += [
            each
            for each in own_catalog(running).all()
            if isinstance(each, Sequence) and each.owned_by is not None and each.owned_by[0] == record.oid
        ]
    change(running, removed=with_it, added=[replace(each, owner=role) for each in with_it])


def is_pinned(record: Owned) -> bool:
    """Whether the system needs the object as it is (the standard schemas and databases)."""
    return isinstance(record, (Schema, Database)) and record.oid < 16384
