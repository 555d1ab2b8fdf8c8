"""The statements that make and change types."""

from __future__ import annotations

from msgspec import Struct

from planner.statements.definitions import ColumnDefinition, ConstraintDefinition
from planner.syntax.parse import Parsed
from planner.syntax.qualified_names import QualifiedName
from planner.types.types import SqlType


class CreateEnum(Struct, frozen=True, kw_only=True):
    """CREATE TYPE ... AS ENUM."""

    name: QualifiedName
    labels: tuple[str, ...]


class CreateComposite(Struct, frozen=True, kw_only=True):
    """CREATE TYPE ... AS (...)."""

    name: QualifiedName
    attributes: tuple[ColumnDefinition, ...]


class CreateRange(Struct, frozen=True, kw_only=True):
    """CREATE TYPE ... AS RANGE, with what its parameters name."""

    name: QualifiedName
    subtype: SqlType
    operator_class: tuple[str, ...] = ()
    collation: tuple[str, ...] = ()
    difference: tuple[str, ...] = ()
    multirange: QualifiedName | None = None


class AddEnumValue(Struct, frozen=True, kw_only=True):
    """ALTER TYPE ... ADD VALUE, after the last one or beside `neighbor`."""

    name: QualifiedName
    label: str
    neighbor: str | None = None
    after: bool = True
    if_not_exists: bool = False


class ChangeTypeOwner(Struct, frozen=True, kw_only=True):
    """ALTER TYPE or DOMAIN (`kind`) ... OWNER TO."""

    name: QualifiedName
    owner: str
    kind: str = "type"


class RenameEnumValue(Struct, frozen=True, kw_only=True):
    """ALTER TYPE ... RENAME VALUE."""

    name: QualifiedName
    label: str
    new_label: str


class CreateDomain(Struct, frozen=True, kw_only=True):
    """CREATE DOMAIN. `default` is SQL text, `written_default` the same where it stands in the statement."""

    name: QualifiedName
    type: SqlType
    collation: str | None = None
    not_null: bool = False
    default: str | None = None
    written_default: Parsed | None = None
    checks: tuple[ConstraintDefinition, ...] = ()


class SetDomainDefault(Struct, frozen=True, kw_only=True):
    """ALTER DOMAIN ... SET DEFAULT, or DROP DEFAULT when `default` is None."""

    name: QualifiedName
    default: str | None
    written: Parsed | None


class SetDomainNotNull(Struct, frozen=True, kw_only=True):
    """ALTER DOMAIN ... SET or DROP NOT NULL."""

    name: QualifiedName
    not_null: bool


class AddDomainCheck(Struct, frozen=True, kw_only=True):
    """ALTER DOMAIN ... ADD CHECK."""

    name: QualifiedName
    check: ConstraintDefinition


class ValidateDomainCheck(Struct, frozen=True, kw_only=True):
    """ALTER DOMAIN ... VALIDATE CONSTRAINT."""

    name: QualifiedName
    constraint: str


class DropDomainCheck(Struct, frozen=True, kw_only=True):
    """ALTER DOMAIN ... DROP CONSTRAINT."""

    name: QualifiedName
    constraint: str
    if_exists: bool = False
