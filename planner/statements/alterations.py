"""ALTER of tables, sequences and other objects: the actions of ALTER TABLE, renaming, moving, ownership."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from planner.statements.definitions import ColumnDefinition, ConstraintDefinition, SequenceOptions
from planner.statements.names import QualifiedName
from planner.types import SqlType


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    column: ColumnDefinition
    constraints: tuple[ConstraintDefinition, ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropColumn:
    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDefault:
    """ALTER COLUMN SET DEFAULT, or DROP DEFAULT when `default` is None."""

    name: str
    default: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetNotNull:
    """ALTER COLUMN SET NOT NULL, or DROP NOT NULL."""

    name: str
    not_null: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SetColumnType:
    """ALTER COLUMN TYPE. `using` is SQL text."""

    name: str
    type: SqlType
    using: str | None = None
    position: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddConstraint:
    constraint: ConstraintDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class DropConstraint:
    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOwner:
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetStorageOptions:
    """SET (...) / RESET (...), SET STATISTICS and the like: tuning without effect here."""

    description: str


AlterTableAction: TypeAlias = (
    AddColumn
    | DropColumn
    | SetDefault
    | SetNotNull
    | SetColumnType
    | AddConstraint
    | DropConstraint
    | ChangeOwner
    | SetStorageOptions
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTable:
    """ALTER TABLE with its actions in order. `kind` is table, view, materialized view, index or sequence."""

    name: QualifiedName
    actions: tuple[AlterTableAction, ...]
    kind: str = "table"
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterSequence:
    name: QualifiedName
    options: SequenceOptions
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameColumn:
    """ALTER ... RENAME COLUMN. `kind` is the relation's."""

    relation: QualifiedName
    name: str
    new_name: str
    kind: str = "table"
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameRelation:
    """ALTER TABLE / VIEW / ... RENAME TO. `kind` is table, view, materialized view, index or sequence."""

    relation: QualifiedName
    new_name: str
    kind: str = "table"
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameObject:
    """ALTER SCHEMA / DATABASE / ROLE / TABLE ... CONSTRAINT ... RENAME TO."""

    kind: str
    name: str
    new_name: str
    relation: QualifiedName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSchema:
    """ALTER TABLE / VIEW / ... SET SCHEMA."""

    relation: QualifiedName
    new_schema: str
    kind: str = "table"
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterOwner:
    """ALTER SCHEMA / DATABASE ... OWNER TO."""

    kind: str
    name: str
    owner: str
