"""GRANT and REVOKE of roles, ALTER GROUP (PostgreSQL 15's user.c)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from adapter.access.membership import is_admin_of, is_member_by_grant, is_superuser, membership_of
from adapter.access.roles import role_with
from adapter.definitions.common.catalog_changes import change, named_role, new_oid
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.results import Notice
from planner.errors import InsufficientPrivilege, InternalError, InvalidGrantOperation
from planner.statements import records as st
from storage.catalog.access import Membership, Role
from storage.catalog.model import DATABASE_OWNER_ROLE_OID


async def grant_role(running: Running, statement: st.GrantRole) -> None:
    """GRANT role TO ... and REVOKE role FROM ..."""
    current = running.session.values.identity.current
    grantor = current if statement.grantor is None else named_role(running, statement.grantor).oid
    members = [named_role(running, name) for name in statement.grantees]
    for name in statement.roles:
        role = named_role(running, name)
        if statement.grant:
            add_members(running, role, members, grantor, admin_option=statement.admin_option)
        else:
            _remove_members(running, role, members, admin_option=statement.admin_option)


async def alter_group(running: Running, statement: st.AlterGroup) -> None:
    """ALTER GROUP ... ADD USER, DROP USER."""
    role = named_role(running, statement.name)
    members = [named_role(running, name) for name in statement.members]
    if statement.add:
        add_members(running, role, members, running.session.values.identity.current, admin_option=False)
    else:
        _remove_members(running, role, members, admin_option=False)


def add_members(running: Running, role: Role, members: Sequence[Role], grantor: int, *, admin_option: bool) -> None:
    """Make `members` members of `role`. Raises 42501 for who may not, 0LP01 for a role that would be its own member."""
    if not members:
        return
    current = running.session.values.identity.current
    _check_may_change(running, role, grantor)
    if role.oid == DATABASE_OWNER_ROLE_OID:
        raise InternalError(f'role "{role.name}" cannot have explicit members')
    if grantor != current and not is_superuser(own_catalog(running), current):
        raise InsufficientPrivilege("must be superuser to set grantor")
    for member in members:
        catalog = own_catalog(running)
        if member.oid == DATABASE_OWNER_ROLE_OID:
            raise InternalError(f'role "{member.name}" cannot be a member of any role')
        if is_member_by_grant(catalog, role.oid, member.oid):
            raise InvalidGrantOperation(f'role "{role.name}" is a member of role "{member.name}"')
        known = membership_of(catalog.roles, role.oid, member.oid)
        if known is not None and (not admin_option or known.admin_option):
            message = f'role "{member.name}" is already a member of role "{role.name}"'
            running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=message))
            continue
        added = Membership(
            oid=new_oid(running), role=role.oid, member=member.oid, grantor=grantor, admin_option=admin_option
        )
        change(running, removed=() if known is None else [known], added=[added])


def _remove_members(running: Running, role: Role, members: Sequence[Role], *, admin_option: bool) -> None:
    """Take `members` out of `role`; with `admin_option` only that option from them."""
    if not members:
        return
    _check_may_change(running, role, running.session.values.identity.current)
    for member in members:
        known = membership_of(own_catalog(running).roles, role.oid, member.oid)
        if known is None:
            running.session.warn("01000", f'role "{member.name}" is not a member of role "{role.name}"')
            continue
        kept = [replace(known, oid=new_oid(running), admin_option=False)] if admin_option else []
        change(running, removed=[known], added=kept)


def _check_may_change(running: Running, role: Role, grantor: int) -> None:
    catalog, current = own_catalog(running), running.session.values.identity.current
    if role.superuser:
        if not is_superuser(catalog, current):
            raise InsufficientPrivilege("must be superuser to alter superusers")
        return
    record = role_with(catalog, current)
    creates = record is not None and (record.superuser or record.create_role)
    if not creates and not is_admin_of(catalog, grantor, role.oid):
        raise InsufficientPrivilege(f'must have admin option on role "{role.name}"')
