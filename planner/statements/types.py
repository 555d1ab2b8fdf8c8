"""The statements that make and change types."""

from __future__ import annotations

from msgspec import Struct

from planner.statements.definitions import ColumnDefinition
from planner.syntax.qualified_names import QualifiedName


class CreateEnum(Struct, frozen=True, kw_only=True):
    """CREATE TYPE ... AS ENUM."""

    name: QualifiedName
    labels: tuple[str, ...]


class CreateComposite(Struct, frozen=True, kw_only=True):
    """CREATE TYPE ... AS (...)."""

    name: QualifiedName
    attributes: tuple[ColumnDefinition, ...]


class AddEnumValue(Struct, frozen=True, kw_only=True):
    """ALTER TYPE ... ADD VALUE, after the last one or beside `neighbor`."""

    name: QualifiedName
    label: str
    neighbor: str | None = None
    after: bool = True
    if_not_exists: bool = False


class ChangeTypeOwner(Struct, frozen=True, kw_only=True):
    """ALTER TYPE ... OWNER TO."""

    name: QualifiedName
    owner: str


class RenameEnumValue(Struct, frozen=True, kw_only=True):
    """ALTER TYPE ... RENAME VALUE."""

    name: QualifiedName
    label: str
    new_label: str
