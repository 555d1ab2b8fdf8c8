"""Databases, roles, privileges, maintenance, locks and notifications; DO and CALL."""

from __future__ import annotations

from typing import Literal as OneOf

from msgspec import Struct

from planner.syntax.qualified_names import QualifiedName


class Listen(Struct, frozen=True, kw_only=True):
    channel: str


class Unlisten(Struct, frozen=True, kw_only=True):
    """UNLISTEN; `channel` is None for *."""

    channel: str | None


class Notify(Struct, frozen=True, kw_only=True):
    channel: str
    payload: str


class Lock(Struct, frozen=True, kw_only=True):
    """LOCK TABLE; `mode` as PostgreSQL prints it (`AccessExclusiveLock`)."""

    tables: tuple[QualifiedName, ...]
    mode: str
    nowait: bool = False


class Vacuum(Struct, frozen=True, kw_only=True):
    """VACUUM, or ANALYZE when `analyze_only`. `columns[i]` are those given behind `tables[i]`; `options` are the
    names of those that are on."""

    tables: tuple[QualifiedName, ...]
    columns: tuple[tuple[str, ...], ...] = ()
    analyze_only: bool = False
    options: tuple[str, ...] = ()


class Checkpoint(Struct, frozen=True, kw_only=True):
    pass


class Cluster(Struct, frozen=True, kw_only=True):
    """CLUSTER: of all tables that were clustered before, or of one, on `index` or as before."""

    table: QualifiedName | None
    index: str | None = None


class Reindex(Struct, frozen=True, kw_only=True):
    """REINDEX. `kind` is index, table, schema, database or system."""

    kind: str
    name: QualifiedName | None
    target: str | None = None
    concurrently: bool = False
    verbose: bool = False
    tablespace: str | None = None


class GrantRole(Struct, frozen=True, kw_only=True):
    """GRANT or REVOKE of role membership. `grantor` is who GRANTED BY names; `admin_option`: with that, or of a REVOKE
    that alone."""

    grant: bool
    roles: tuple[str, ...]
    grantees: tuple[str, ...]
    grantor: str | None = None
    admin_option: bool = False


class CreateDatabase(Struct, frozen=True, kw_only=True):
    """CREATE DATABASE. An option whose value is DEFAULT has None."""

    name: str
    options: tuple[tuple[str, str | None], ...] = ()


class AlterDatabase(Struct, frozen=True, kw_only=True):
    """ALTER DATABASE ... WITH, or SET TABLESPACE."""

    name: str
    options: tuple[tuple[str, str | None], ...]


class RefreshCollation(Struct, frozen=True, kw_only=True):
    """ALTER DATABASE ... REFRESH COLLATION VERSION."""

    name: str


class DropDatabase(Struct, frozen=True, kw_only=True):
    name: str
    if_exists: bool = False
    force: bool = False


class CreateExtension(Struct, frozen=True, kw_only=True):
    """CREATE EXTENSION. CASCADE says nothing here: no extension needs another."""

    name: str
    if_not_exists: bool = False
    schema: str | None = None
    version: str | None = None


class AlterExtension(Struct, frozen=True, kw_only=True):
    """ALTER EXTENSION ... UPDATE [TO version], and SET SCHEMA."""

    name: str
    version: str | None = None
    schema: str | None = None


class RoleOptions(Struct, frozen=True, kw_only=True):
    """Options of CREATE / ALTER ROLE; None means not mentioned. `password` with `password_null` True is PASSWORD
    NULL."""

    superuser: bool | None = None
    login: bool | None = None
    create_db: bool | None = None
    create_role: bool | None = None
    inherit: bool | None = None
    replication: bool | None = None
    bypass_rls: bool | None = None
    connection_limit: int | None = None
    password: str | None = None
    password_null: bool = False
    valid_until: str | None = None
    in_roles: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    admins: tuple[str, ...] = ()
    has_sysid: bool = False
    """SYSID is given, which says nothing any more."""


class CreateRole(Struct, frozen=True, kw_only=True):
    """CREATE ROLE, USER or GROUP (`kind`)."""

    name: str
    kind: OneOf["role", "user", "group"]
    options: RoleOptions


class AlterRole(Struct, frozen=True, kw_only=True):
    """ALTER ROLE."""

    name: str
    options: RoleOptions


class AlterGroup(Struct, frozen=True, kw_only=True):
    """ALTER GROUP ... ADD / DROP USER."""

    name: str
    members: tuple[str, ...]
    add: bool


class DropRole(Struct, frozen=True, kw_only=True):
    names: tuple[str, ...]
    if_exists: bool = False


class ReassignOwned(Struct, frozen=True, kw_only=True):
    """REASSIGN OWNED BY ... TO ..."""

    roles: tuple[str, ...]
    new_owner: str


class DropOwned(Struct, frozen=True, kw_only=True):
    """DROP OWNED BY ..."""

    roles: tuple[str, ...]
    cascade: bool = False


class Do(Struct, frozen=True, kw_only=True):
    """DO: an anonymous code block."""

    language: str
    body: str


class SetConstraints(Struct, frozen=True, kw_only=True):
    """SET CONSTRAINTS; `names` empty is ALL."""

    names: tuple[QualifiedName, ...]
    deferred: bool
