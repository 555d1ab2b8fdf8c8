"""CREATE ROLE, ALTER ROLE and ALTER ROLE ... RENAME, with the rules of PostgreSQL 15 on who may (user.c).

CREATEROLE is enough for whatever concerns no superuser, no replication and no BYPASSRLS; everybody may change his own
password.
"""

from __future__ import annotations

import asyncio

import msgspec

from adapter.access.membership import is_superuser
from adapter.access.passwords import SALT_BYTES, is_md5, verifier_to_store
from adapter.access.roles import require_role, role_called, role_with
from adapter.definitions.common.catalog_changes import change, named_role, new_oid
from adapter.definitions.roles.memberships import add_members
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.results import Notice
from planner.errors import (
    DuplicateObject,
    FeatureNotSupported,
    InsufficientPrivilege,
    InvalidParameterValue,
    ReservedName,
)
from planner.statements import records as st
from planner.values.datetime_text import parse_timestamptz
from planner.values.datetimes.calendar_days import micros_of
from storage.catalog.access import FOREVER_US, Role


def may_create_roles(running: Running) -> bool:
    """Whether the current role has CREATEROLE, or is a superuser (have_createrole_privilege)."""
    catalog, current = own_catalog(running), running.session.values.identity.current
    role = role_with(catalog, current)
    return role is not None and (role.superuser or role.create_role)


def is_powerful(running: Running) -> bool:
    """Whether the current role is a superuser."""
    return is_superuser(own_catalog(running), running.session.values.identity.current)


def check_not_reserved(name: str, detail: str) -> None:
    """42939 for the name of a predefined role, or one that could be."""
    if name.startswith("pg_"):
        raise ReservedName(f'role name "{name}" is reserved', detail=detail)


_RESERVED = 'Role names starting with "pg_" are reserved.'
CANNOT_ALTER = "Cannot alter reserved roles."


async def create_role(running: Running, statement: st.CreateRole) -> None:
    """CREATE ROLE, USER, GROUP."""
    options = statement.options
    if options.has_sysid:
        message = "SYSID can no longer be specified"
        running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=message))
    if not is_powerful(running):
        for wanted, what in (
            (options.superuser, "superusers"),
            (options.replication, "replication users"),
            (options.bypass_rls, "bypassrls users"),
        ):
            if wanted:
                raise InsufficientPrivilege(f"must be superuser to create {what}")
    if not may_create_roles(running):
        raise InsufficientPrivilege("permission denied to create role")
    check_not_reserved(statement.name, _RESERVED)
    if role_called(own_catalog(running), statement.name) is not None:
        raise DuplicateObject(f'role "{statement.name}" already exists')
    role = Role(oid=new_oid(running), name=statement.name, login=statement.kind == "user")
    role = await _with_options(running, role, options)
    change(running, added=[role])
    grantor = running.session.values.identity.current
    for name in options.in_roles:
        add_members(running, named_role(running, name), [role], grantor, admin_option=False)
    for names, admin_option in ((options.admins, True), (options.members, False)):
        members = [named_role(running, name) for name in names]
        add_members(running, role, members, grantor, admin_option=admin_option)


async def alter_role(running: Running, statement: st.AlterRole) -> None:
    """ALTER ROLE."""
    role, options = named_role(running, statement.name), statement.options
    check_not_reserved(role.name, CANNOT_ALTER)
    if role.superuser or options.superuser is not None:
        _require(running, "must be superuser to alter superuser roles or change superuser attribute")
    elif role.replication or options.replication is not None:
        _require(running, "must be superuser to alter replication roles or change replication attribute")
    elif options.bypass_rls is not None:
        _require(running, "must be superuser to change bypassrls attribute")
    elif not may_create_roles(running):
        own = role.oid == running.session.values.identity.current
        password = st.RoleOptions(password=options.password, password_null=options.password_null)
        if not own or options != password or password == st.RoleOptions():
            raise InsufficientPrivilege("permission denied")
    changed = await _with_options(running, role, options)
    if changed != role:
        change(running, removed=[role], added=[changed])


def rename_role(running: Running, name: str, new_name: str) -> None:
    """ALTER ROLE ... RENAME TO."""
    catalog, identity = own_catalog(running), running.session.values.identity
    role = require_role(catalog, name)
    for oid, who in ((identity.session, "session"), (identity.outer, "current")):
        if role.oid == oid:
            raise FeatureNotSupported(f"{who} user cannot be renamed")
    check_not_reserved(name, _RESERVED)
    check_not_reserved(new_name, _RESERVED)
    if role_called(catalog, new_name) is not None:
        raise DuplicateObject(f'role "{new_name}" already exists')
    if role.superuser:
        _require(running, "must be superuser to rename superusers")
    elif not may_create_roles(running):
        raise InsufficientPrivilege("permission denied to rename role")
    password = role.password
    if password is not None and is_md5(password):
        password = None  # The name is part of what was digested.
        message = "MD5 password cleared because of role rename"
        running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=message))
    change(running, removed=[role], added=[msgspec.structs.replace(role, name=new_name, password=password)])


def commented_role(running: Running, name: str) -> Role:
    """The role whose comment is to be changed. 42704, 42501."""
    role = require_role(own_catalog(running), name)
    if role.superuser:
        _require(running, "must be superuser")
    elif not may_create_roles(running):
        raise InsufficientPrivilege("must have CREATEROLE privilege")
    return role


def _require(running: Running, message: str) -> None:
    if not is_powerful(running):
        raise InsufficientPrivilege(message)


async def _with_options(running: Running, role: Role, options: st.RoleOptions) -> Role:
    changes: dict[str, object] = {}
    for name in ("superuser", "login", "create_db", "create_role", "inherit", "replication", "bypass_rls"):
        value = getattr(options, name)
        if value is not None:
            changes[name] = value
    if options.connection_limit is not None:
        if options.connection_limit < -1:
            raise InvalidParameterValue(f"invalid connection limit: {options.connection_limit}")
        changes["connection_limit"] = options.connection_limit
    if options.valid_until is not None:
        changes["valid_until_us"] = _moment_us(running, options.valid_until)
    if options.password_null:
        changes["password"] = None
    elif options.password is not None:
        changes["password"] = await asyncio.to_thread(
            verifier_to_store,
            options.password,
            role=role.name,
            encryption=running.session.values["password_encryption"],
            salt=running.services.env.random.randbytes(SALT_BYTES),
        )
        if changes["password"] is None:
            message = "empty string is not a valid password, clearing password"
            running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=message))
    return msgspec.structs.replace(role, **changes)


def _moment_us(running: Running, text: str) -> int:
    """The moment that VALID UNTIL names, in microseconds since 1970. Raises what the input of timestamptz raises."""
    values = running.session.values
    moment = parse_timestamptz(text, values["DateStyle"], values["TimeZone"])
    if isinstance(moment, str):
        return FOREVER_US if moment == "infinity" else -FOREVER_US
    return micros_of(moment)
