"""GRANT, REVOKE and ALTER DEFAULT PRIVILEGES."""

from __future__ import annotations

from msgspec import Struct

from planner.statements.routines import RoutineName
from planner.syntax.qualified_names import QualifiedName


class Privilege(Struct, frozen=True, kw_only=True):
    """A privilege by its name as it was written, in lower case; None: ALL. With `columns` it is on these."""

    name: str | None
    columns: tuple[str, ...] = ()


class Grant(Struct, frozen=True, kw_only=True):
    """GRANT or REVOKE of privileges. `privileges` empty is ALL. A grantee None is PUBLIC. `grantor` is who GRANTED BY
    names. `objects` are names, of schemas with `all_in_schema`; functions and procedures are `routines`."""

    grant: bool
    privileges: tuple[Privilege, ...]
    kind: str
    objects: tuple[QualifiedName, ...]
    routines: tuple[RoutineName, ...] = ()
    all_in_schema: bool = False
    grantees: tuple[str | None, ...]
    grant_option: bool = False
    """WITH GRANT OPTION; of REVOKE: GRANT OPTION FOR."""
    grantor: str | None = None
    cascade: bool = False


class AlterDefaultPrivileges(Struct, frozen=True, kw_only=True):
    """ALTER DEFAULT PRIVILEGES. `roles` empty is the current one, `schemas` empty all of them; `action` has no
    objects."""

    roles: tuple[str, ...]
    schemas: tuple[str, ...]
    action: Grant
