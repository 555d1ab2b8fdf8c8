"""CREATE and ALTER SERVER, and user mappings (PostgreSQL's foreigncmds.c)."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from adapter.access.ownership import owns
from adapter.access.privileges import Rights
from adapter.definitions.common.catalog_changes import change, named_role, new_oid, owner_oid
from adapter.definitions.common.owners import require_owner
from adapter.definitions.foreign.options import altered, checked_names
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.lake import databases
from adapter.lake.file_tables import READING_ROLE
from adapter.lake.foreign_files import MAPPING_OPTIONS, SERVER_OPTIONS
from adapter.results import Notice
from planner.errors import DuplicateObject, InsufficientPrivilege, InvalidParameterValue, UndefinedObject
from planner.statements import foreign as ft
from storage.catalog.model import CatalogSnapshot
from storage.catalog.outside import LAKE_WRAPPER, LAKE_WRAPPER_OID, ForeignServer, Options, UserMapping


def find_server(catalog: CatalogSnapshot, name: str) -> ForeignServer | None:
    """The server of this name."""
    return next((r for r in catalog.all() if isinstance(r, ForeignServer) and r.name == name), None)


def require_server(catalog: CatalogSnapshot, name: str) -> ForeignServer:
    """The server of this name. 42704."""
    found = find_server(catalog, name)
    if found is None:
        raise UndefinedObject(f'server "{name}" does not exist')
    return found


async def create_server(running: Running, statement: ft.CreateServer) -> None:
    """CREATE SERVER. 42710, 42704, 42501, HV00D, 22023."""
    catalog = own_catalog(running)
    if find_server(catalog, statement.name) is not None:
        message = f'server "{statement.name}" already exists'
        if not statement.if_not_exists:
            raise DuplicateObject(message)
        running.session.notice(Notice(severity="NOTICE", sqlstate="42710", message=f"{message}, skipping"))
        return
    if statement.wrapper != LAKE_WRAPPER:
        raise UndefinedObject(
            f'foreign-data wrapper "{statement.wrapper}" does not exist', hint=f'There is "{LAKE_WRAPPER}".'
        )
    running.session.rights(catalog).require("F", LAKE_WRAPPER_OID, "U")
    await _check_options(running, (), statement.options)
    server = ForeignServer(
        oid=new_oid(running),
        name=statement.name,
        owner=owner_oid(running),
        kind=statement.type,
        version=statement.version,
        options=statement.options,
        database=running.session.database_oid,
    )
    change(running, added=[server])


async def alter_server(running: Running, statement: ft.AlterServer) -> None:
    """ALTER SERVER ... VERSION, OPTIONS."""
    server = require_server(own_catalog(running), statement.name)
    require_owner(running, server)
    options = altered(server.options, statement.changes)
    if statement.changes:
        await _check_options(running, server.options, options)
    version = statement.version if statement.has_version else server.version
    change(running, removed=[server], added=[replace(server, version=version, options=options)])


async def _check_options(running: Running, before: Options, options: Options) -> None:
    of_database = "url" in dict(options)
    checked_names(options, databases.SERVER_OPTIONS if of_database else SERVER_OPTIONS)
    if not of_database and not dict(options).get("path"):
        raise InvalidParameterValue(
            'option "path" is required for servers of foreign-data wrapper "lake"',
            hint="It is the folder or the prefix of objects below which the files of its tables are; url stands for it "
            "where they are those of another database.",
        )
    # With the path go the operator's own credentials.
    if before != options and not running.session.has_privileges_of(READING_ROLE):
        raise InsufficientPrivilege(
            f"only superuser or a role with privileges of the {READING_ROLE} role may specify the options of a server"
        )
    superuser = running.session.rights(own_catalog(running)).is_superuser
    check = partial(running.services.foreign_files.check_server, options, superuser=superuser)
    await running.services.file_threads.run(check)


def rename_server(running: Running, name: str, new_name: str) -> None:
    """ALTER SERVER ... RENAME TO."""
    catalog = own_catalog(running)
    server = require_server(catalog, name)
    require_owner(running, server)
    if find_server(catalog, new_name) is not None:
        raise DuplicateObject(f'server "{new_name}" already exists')
    change(running, removed=[server], added=[replace(server, name=new_name)])


# ---------------------------------------------------------------- user mappings


def mapped_role_name(catalog: CatalogSnapshot, role: int) -> str:
    """What messages call the role of a user mapping."""
    known = catalog.roles.records.get(role)
    return "public" if role == 0 else str(role) if known is None else known.name


def described_mapping(catalog: CatalogSnapshot, server: ForeignServer, mapping: UserMapping) -> str:
    """``user mapping for bob on server s``."""
    return f"user mapping for {mapped_role_name(catalog, mapping.role)} on server {server.name}"


def _role_oid(running: Running, role: str | None) -> int:
    return 0 if role is None else named_role(running, role).oid


def _require_mapping(running: Running, server: ForeignServer, role: int) -> None:
    """42501 unless the current role may have user mappings of `role`: a server's owner all, others their own."""
    catalog, current = own_catalog(running), running.session.values.identity.current
    if owns(catalog, current, server):
        return
    if role != current:
        require_owner(running, server)
    Rights(catalog, current).require("S", server.oid, "U")


async def create_mapping(running: Running, statement: ft.CreateUserMapping) -> None:
    """CREATE USER MAPPING."""
    catalog = own_catalog(running)
    role = _role_oid(running, statement.role)
    server = require_server(catalog, statement.server)
    _require_mapping(running, server, role)
    if server.mapping(role) is not None:
        name = mapped_role_name(catalog, role)
        message = f'user mapping for "{name}" already exists for server "{server.name}"'
        if not statement.if_not_exists:
            raise DuplicateObject(message)
        running.session.notice(Notice(severity="NOTICE", sqlstate="42710", message=f"{message}, skipping"))
        return
    options = checked_names(statement.options, MAPPING_OPTIONS)
    mapping = UserMapping(oid=new_oid(running), role=role, options=options)
    change(running, removed=[server], added=[replace(server, mappings=(*server.mappings, mapping))])


async def alter_mapping(running: Running, statement: ft.AlterUserMapping) -> None:
    """ALTER USER MAPPING."""
    role = _role_oid(running, statement.role)
    server = require_server(own_catalog(running), statement.server)
    known = server.mapping(role)
    if known is None:
        raise _no_mapping(running, server, role)
    _require_mapping(running, server, role)
    options = checked_names(altered(known.options, statement.changes), MAPPING_OPTIONS)
    mappings = tuple(replace(each, options=options) if each == known else each for each in server.mappings)
    change(running, removed=[server], added=[replace(server, mappings=mappings)])


async def drop_mapping(running: Running, statement: ft.DropUserMapping) -> None:
    """DROP USER MAPPING."""
    catalog = own_catalog(running)
    try:
        role = _role_oid(running, statement.role)
        server = require_server(catalog, statement.server)
    except UndefinedObject as error:
        if not statement.if_exists:
            raise
        running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=f"{error.message}, skipping"))
        return
    known = server.mapping(role)
    if known is None:
        missing = _no_mapping(running, server, role)
        if not statement.if_exists:
            raise missing
        running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=f"{missing.message}, skipping"))
        return
    _require_mapping(running, server, role)
    change(running, removed=[server], added=[without_mappings(server, {role})])


def without_mappings(server: ForeignServer, roles: set[int]) -> ForeignServer:
    """The server without the user mappings of these roles."""
    return replace(server, mappings=tuple(each for each in server.mappings if each.role not in roles))


def _no_mapping(running: Running, server: ForeignServer, role: int) -> UndefinedObject:
    name = mapped_role_name(own_catalog(running), role)
    return UndefinedObject(f'user mapping for "{name}" does not exist for server "{server.name}"')
