"""SET, SHOW and RESET, and the settings that are stored for new sessions."""

from __future__ import annotations

from typing import Literal as OneOf

from msgspec import Struct


class SetVariable(Struct, frozen=True, kw_only=True):
    """SET name TO values. `values` is None for TO DEFAULT. `value` joins a list as PostgreSQL does (identifiers
    quoted where needed); `name` is in lower case. SET TIME ZONE comes with the name `timezone`; an interval zone is
    its text."""

    name: str
    values: tuple[str, ...] | None
    local: bool = False

    @property
    def value(self) -> str | None:
        """The setting's text, or None for DEFAULT."""
        return None if self.values is None else ", ".join(self.values)


class Reset(Struct, frozen=True, kw_only=True):
    """RESET name; `name` is None for RESET ALL."""

    name: str | None


class Show(Struct, frozen=True, kw_only=True):
    """SHOW name (lower case, `timezone`, `transaction_isolation`, `session_authorization` for the long forms; `all`
    for SHOW ALL)."""

    name: str


class AlterSystem(Struct, frozen=True, kw_only=True):
    """ALTER SYSTEM SET / RESET. `value` is None for RESET; `name` None for RESET ALL."""

    name: str | None
    value: str | None


class AlterSetting(Struct, frozen=True, kw_only=True):
    """ALTER DATABASE / ROLE ... SET or RESET: a default for new sessions. `reset` without `name` is RESET ALL."""

    name: str | None
    values: tuple[str, ...] | None
    reset: bool
    database: str | None = None
    role: str | None = None


class Discard(Struct, frozen=True, kw_only=True):
    target: OneOf["all", "plans", "sequences", "temp"]
