"""Databases, roles, privileges, maintenance, locks and notifications; DO and CALL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from planner.statements.names import QualifiedName


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    channel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlisten:
    """UNLISTEN; `channel` is None for *."""

    channel: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    channel: str
    payload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """LOCK TABLE; `mode` as PostgreSQL prints it (`AccessExclusiveLock`)."""

    tables: tuple[QualifiedName, ...]
    mode: str
    nowait: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum:
    """VACUUM, or ANALYZE when `analyze_only`. `options` are lower-case names with their text."""

    tables: tuple[QualifiedName, ...]
    analyze_only: bool = False
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    table: QualifiedName | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reindex:
    """REINDEX. `kind` is index, table, schema, database or system."""

    kind: str
    name: QualifiedName | None
    target: str | None = None
    concurrently: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """GRANT or REVOKE of privileges. `privileges` empty is ALL; `columns` per privilege are dropped into its text.
    A grantee None is PUBLIC."""

    grant: bool
    privileges: tuple[str, ...]
    kind: str
    objects: tuple[QualifiedName, ...]
    all_in_schema: bool
    grantees: tuple[str | None, ...]
    grant_option: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRole:
    """GRANT or REVOKE of role membership."""

    grant: bool
    roles: tuple[str, ...]
    grantees: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterDefaultPrivileges:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDatabase:
    name: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDatabase:
    name: str
    if_exists: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleOptions:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRole:
    """CREATE ROLE, USER or GROUP (`kind`)."""

    name: str
    kind: OneOf["role", "user", "group"]
    options: RoleOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterRole:
    """ALTER ROLE; `name` may be current_user or session_user, which the caller resolves."""

    name: str
    options: RoleOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class DropRole:
    names: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Do:
    """DO: an anonymous code block."""

    language: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetConstraints:
    """SET CONSTRAINTS; `names` empty is ALL."""

    names: tuple[QualifiedName, ...]
    deferred: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """CALL of a procedure."""

    name: QualifiedName
