"""The statements about row-level security."""

from __future__ import annotations

from msgspec import Struct

from planner.syntax.parse import Parsed
from planner.syntax.qualified_names import QualifiedName


class CreatePolicy(Struct, frozen=True, kw_only=True):
    """CREATE POLICY. `command` is all, select, insert, update or delete; a role of None is PUBLIC."""

    name: str
    table: QualifiedName
    command: str
    permissive: bool
    roles: tuple[str | None, ...]
    using: Parsed | None = None
    check: Parsed | None = None


class AlterPolicy(Struct, frozen=True, kw_only=True):
    """ALTER POLICY: what is None (of `roles`: empty) stays as it is."""

    name: str
    table: QualifiedName
    roles: tuple[str | None, ...] = ()
    using: Parsed | None = None
    check: Parsed | None = None


class SetRowSecurity(Struct, frozen=True, kw_only=True):
    """ALTER TABLE ... ROW LEVEL SECURITY: ENABLE and DISABLE, FORCE and NO FORCE; what is None stays as it is."""

    enabled: bool | None = None
    forced: bool | None = None
