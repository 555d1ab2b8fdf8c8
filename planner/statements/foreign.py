"""Statements about servers of foreign data, user mappings and foreign tables."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from planner.statements.definitions import ColumnDefinition, ConstraintDefinition
from planner.syntax.qualified_names import QualifiedName

GivenOptions: TypeAlias = tuple[tuple[str, str], ...]
"""OPTIONS (...) of CREATE, in order."""


class OptionChange(Struct, frozen=True, kw_only=True):
    """An item of OPTIONS (...) of ALTER. `value` is None for DROP alone."""

    action: Literal["add", "set", "drop"]
    name: str
    value: str | None = None


class CreateServer(Struct, frozen=True, kw_only=True):
    name: str
    wrapper: str
    type: str | None = None
    version: str | None = None
    options: GivenOptions = ()
    if_not_exists: bool = False


class AlterServer(Struct, frozen=True, kw_only=True):
    """ALTER SERVER ... VERSION, OPTIONS. `version` counts where `has_version`."""

    name: str
    version: str | None = None
    has_version: bool = False
    changes: tuple[OptionChange, ...] = ()


class CreateUserMapping(Struct, frozen=True, kw_only=True):
    """`role` None is PUBLIC; so in the statements below."""

    role: str | None
    server: str
    options: GivenOptions = ()
    if_not_exists: bool = False


class AlterUserMapping(Struct, frozen=True, kw_only=True):
    role: str | None
    server: str
    changes: tuple[OptionChange, ...] = ()


class DropUserMapping(Struct, frozen=True, kw_only=True):
    role: str | None
    server: str
    if_exists: bool = False


class CreateForeignTable(Struct, frozen=True, kw_only=True):
    """CREATE FOREIGN TABLE. Without columns they are those of the files. `column_options` are by the columns' names."""

    name: QualifiedName
    server: str
    columns: tuple[ColumnDefinition, ...] = ()
    column_options: tuple[tuple[str, GivenOptions], ...] = ()
    constraints: tuple[ConstraintDefinition, ...] = ()
    options: GivenOptions = ()
    if_not_exists: bool = False


class ImportForeignSchema(Struct, frozen=True, kw_only=True):
    """IMPORT FOREIGN SCHEMA. `tables` are those of LIMIT TO, or with `but` of EXCEPT."""

    remote: str
    server: str
    schema: str
    tables: tuple[str, ...] | None = None
    but: bool = False
    options: GivenOptions = ()


ForeignStatement: TypeAlias = (
    CreateServer
    | AlterServer
    | CreateUserMapping
    | AlterUserMapping
    | DropUserMapping
    | CreateForeignTable
    | ImportForeignSchema
)


class SetForeignOptions(Struct, frozen=True, kw_only=True):
    """ALTER FOREIGN TABLE ... OPTIONS, with `column` ALTER COLUMN ... OPTIONS: an action of ALTER TABLE."""

    changes: tuple[OptionChange, ...]
    column: str | None = None
