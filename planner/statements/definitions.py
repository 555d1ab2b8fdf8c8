"""The statements that make or remove relations, schemas and sequences, and COMMENT and TRUNCATE.

Expressions that are stored (defaults, checks) are SQL text.
"""

from __future__ import annotations

from typing import Literal as OneOf

from msgspec import Struct

from planner.errors import SqlError
from planner.statements.routines import RoutineName
from planner.syntax.parse import Parsed
from planner.syntax.qualified_names import QualifiedName
from planner.types.types import SqlType


class SequenceOptions(Struct, frozen=True, kw_only=True):
    """Options of CREATE / ALTER SEQUENCE; None means not mentioned. `restart` True without a value is RESTART."""

    type: SqlType | None = None
    start: int | None = None
    increment: int | None = None
    minimum: int | None = None
    no_minimum: bool = False
    maximum: int | None = None
    no_maximum: bool = False
    cache: int | None = None
    cycle: bool | None = None
    restart: bool = False
    restart_with: int | None = None
    owned_by: tuple[str, ...] | None = None
    name: QualifiedName | None = None
    """Of an identity column's sequence."""


class ColumnDefinition(Struct, frozen=True, kw_only=True):
    """A column of CREATE TABLE or ADD COLUMN. `default` is SQL text, `written_default` the same where it stands in the
    statement; so are the expression of a generated column and `written_generation`. `serial` marks smallserial, serial,
    bigserial (the type is the integer one), `identity` GENERATED ... AS IDENTITY (`a` always, `d` by default)."""

    name: str
    type: SqlType
    not_null: bool = False
    default: str | None = None
    written_default: Parsed | None = None
    generation: str | None = None
    written_generation: Parsed | None = None
    serial: bool = False
    identity: str | None = None
    identity_options: SequenceOptions | None = None
    collation: str | None = None
    position: int | None = None


class IndexElement(Struct, frozen=True, kw_only=True):
    """A key of an index: the column `name`, or the `expression` as it stands in the statement. `text` is its SQL text.
    `nulls_first` is None where the statement does not say."""

    name: str | None = None
    expression: Parsed | None = None
    text: str = ""
    collation: tuple[str, ...] = ()
    operator_class: tuple[str, ...] = ()
    class_options: tuple[tuple[str, str], ...] = ()
    descending: bool | None = None
    nulls_first: bool | None = None


class CreateIndex(Struct, frozen=True, kw_only=True):
    """CREATE INDEX. `name` is None when PostgreSQL would choose it. `predicate` is its condition as it stands in the
    statement."""

    name: str | None
    table: QualifiedName
    method: str
    elements: tuple[IndexElement, ...]
    include: tuple[IndexElement, ...] = ()
    predicate: Parsed | None = None
    unique: bool = False
    nulls_not_distinct: bool = False
    concurrently: bool = False
    if_not_exists: bool = False
    tablespace: str | None = None
    options: tuple[tuple[str, str], ...] = ()


class CreateStatistics(Struct, frozen=True, kw_only=True):
    """CREATE STATISTICS. `kinds` as they are written, none for all; a table of None is something else in FROM."""

    name: QualifiedName
    kinds: tuple[str, ...]
    elements: tuple[IndexElement, ...]
    tables: tuple[QualifiedName | None, ...]
    if_not_exists: bool = False


class AlterStatistics(Struct, frozen=True, kw_only=True):
    """ALTER STATISTICS: SET STATISTICS `target`, or another name, owner or schema."""

    name: QualifiedName
    target: int | None = None
    new_name: str | None = None
    owner: str | None = None
    schema: str | None = None
    if_exists: bool = False


class ConstraintDefinition(Struct, frozen=True, kw_only=True):
    """A declared constraint. `kind` as pg_constraint.contype: p primary key, u unique, c check, f foreign key,
    x exclusion.
    `name` is None when PostgreSQL would choose it. `expression` is a check's SQL text, `written` the same where it
    stands in the statement. The letters of `match`, `on_update` and `on_delete` are those of pg_constraint."""

    kind: OneOf["p", "u", "c", "f", "x"]
    name: str | None = None
    columns: tuple[str, ...] = ()
    expression: str | None = None
    written: Parsed | None = None
    foreign_table: QualifiedName | None = None
    foreign_columns: tuple[str, ...] = ()
    not_valid: bool = False
    no_inherit: bool = False
    deferrable: bool = False
    deferred: bool = False
    nulls_not_distinct: bool = False
    include: tuple[str, ...] = ()
    using_index: str | None = None
    match: str = "s"
    on_update: str = "a"
    on_delete: str = "a"
    delete_columns: tuple[str, ...] = ()
    index: CreateIndex | None = None
    """Of an exclusion constraint: the index that it would be without its operators."""
    operators: tuple[tuple[str, ...], ...] = ()
    position: int | None = None


class LikeClause(Struct, frozen=True, kw_only=True):
    """LIKE table in CREATE TABLE: copies columns, and what `including` names (defaults, constraints, comments)."""

    table: QualifiedName
    including: frozenset[str] = frozenset()
    index: int = 0
    """How many column definitions come before it."""


class CreateTable(Struct, frozen=True, kw_only=True):
    name: QualifiedName
    columns: tuple[ColumnDefinition, ...]
    constraints: tuple[ConstraintDefinition, ...] = ()
    likes: tuple[LikeClause, ...] = ()
    if_not_exists: bool = False
    temporary: bool = False
    unlogged: bool = False
    on_commit: OneOf["none", "preserve", "delete", "drop"] = "none"
    options: tuple[tuple[str, str], ...] = ()
    of_type: int = 0
    """The oid of the composite type that it is OF."""
    at_fault: SqlError | None = None
    """What is wrong with the columns and constraints of CREATE TABLE IF NOT EXISTS: raised where there is no table."""


class CreateTableAs(Struct, frozen=True, kw_only=True):
    """CREATE TABLE AS, SELECT INTO (`select_into`) and CREATE MATERIALIZED VIEW (`materialized_view`). `query` may be
    an EXECUTE. `column_names` rename the query's first columns."""

    name: QualifiedName
    query: Parsed
    column_names: tuple[str, ...] = ()
    if_not_exists: bool = False
    with_data: bool = True
    temporary: bool = False
    select_into: bool = False
    materialized_view: bool = False
    unlogged: bool = False
    options: tuple[tuple[str, str], ...] = ()
    """What WITH (...) says of a materialized view."""
    on_commit: OneOf["none", "preserve", "delete", "drop"] = "none"


class RefreshMaterializedView(Struct, frozen=True, kw_only=True):
    name: QualifiedName
    concurrently: bool = False
    with_data: bool = True


class CreateView(Struct, frozen=True, kw_only=True):
    """CREATE [OR REPLACE] VIEW. `planner.analyze.define_view` gives columns, dependencies and the stored text."""

    name: QualifiedName
    query: Parsed
    column_names: tuple[str, ...] = ()
    or_replace: bool = False
    temporary: bool = False
    check_option: str | None = None
    """``local`` or ``cascaded``."""
    options: tuple[tuple[str, str], ...] = ()
    """What else WITH (...) says."""


class CreateSchema(Struct, frozen=True, kw_only=True):
    """CREATE SCHEMA; `elements` are the statements inside it. Without a name it has its owner's."""

    name: str
    if_not_exists: bool = False
    owner: str | None = None
    elements: tuple[Parsed, ...] = ()


class CreateSequence(Struct, frozen=True, kw_only=True):
    name: QualifiedName
    options: SequenceOptions
    if_not_exists: bool = False
    temporary: bool = False


class Drop(Struct, frozen=True, kw_only=True):
    """DROP of one or several objects. `kind` is table, view, materialized view, schema, index, sequence, type,
    function, ...; for schemas each name has only `name`. `concurrently` is of indexes, `routines` are functions and
    procedures."""

    kind: str
    names: tuple[QualifiedName, ...]
    if_exists: bool = False
    cascade: bool = False
    concurrently: bool = False
    routines: tuple[RoutineName, ...] = ()


class Truncate(Struct, frozen=True, kw_only=True):
    tables: tuple[QualifiedName, ...]
    restart_identity: bool = False
    cascade: bool = False


class Comment(Struct, frozen=True, kw_only=True):
    """COMMENT ON. `kind` is table, view, column, schema, database, role, ...; a column's relation is `relation`, its
    own name `name`. `text` None removes the comment."""

    kind: str
    name: str
    relation: QualifiedName | None
    text: str | None
    routine: RoutineName | None = None
