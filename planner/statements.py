"""Utility statements: everything that is not a query or a change of rows, as frozen records.

`planner.analyze.analyze` makes them. Names are folded as PostgreSQL folds them; nothing is looked up in the catalog, so
a statement stays valid whatever the catalog is when it runs. A statement inside a statement (of EXPLAIN, PREPARE,
DECLARE CURSOR, COPY, CREATE TABLE AS, CREATE VIEW) is a `Parsed`, to be analyzed when the outer one runs. Expressions
that are stored (defaults, checks) are SQL text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

from planner.parse import Parsed
from planner.types import SqlType


@dataclass(frozen=True, slots=True, kw_only=True)
class QualifiedName:
    """A name as written: `schema` is None when the search path decides. `database` is checked against the current
    one by the binder's look-up. `position` is 1-based in the query string, for errors."""

    name: str
    schema: str | None = None
    database: str | None = None
    position: int | None = None

    def __str__(self) -> str:
        return ".".join(part for part in (self.database, self.schema, self.name) if part is not None)


# ---------------------------------------------------------------- transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionModes:
    """Transaction characteristics; None means not mentioned. `isolation` is the SQL name in lower case."""

    isolation: str | None = None
    read_only: bool | None = None
    deferrable: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """BEGIN or START TRANSACTION (`start` tells which, for the tag)."""

    modes: TransactionModes = TransactionModes()
    start: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """COMMIT or END; `chain` is AND CHAIN."""

    chain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """ROLLBACK or ABORT; `chain` is AND CHAIN."""

    chain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackTo:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTransaction:
    """PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED."""

    action: OneOf["prepare", "commit", "rollback"]
    gid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTransaction:
    """SET TRANSACTION, or SET SESSION CHARACTERISTICS AS TRANSACTION when `session`."""

    modes: TransactionModes
    session: bool = False
    snapshot: str | None = None


# ---------------------------------------------------------------- settings


@dataclass(frozen=True, slots=True, kw_only=True)
class SetVariable:
    """SET name TO values. `values` is None for TO DEFAULT. `value` joins a list as PostgreSQL does (identifiers
    quoted where needed); `name` is in lower case. SET TIME ZONE comes with the name `timezone`; an interval zone is
    its text. `from_current` is SET ... FROM CURRENT."""

    name: str
    values: tuple[str, ...] | None
    local: bool = False

    @property
    def value(self) -> str | None:
        """The setting's text, or None for DEFAULT."""
        return None if self.values is None else ", ".join(self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """RESET name; `name` is None for RESET ALL."""

    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """SHOW name (lower case, `timezone`, `transaction_isolation`, `session_authorization` for the long forms); `all`
    for SHOW ALL."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterSystem:
    """ALTER SYSTEM SET / RESET. `value` is None for RESET; `name` None for RESET ALL."""

    name: str | None
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterSetting:
    """ALTER DATABASE / ROLE ... SET or RESET: a default for new sessions. `reset` without `name` is RESET ALL."""

    name: str | None
    values: tuple[str, ...] | None
    reset: bool
    database: str | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard:
    target: OneOf["all", "plans", "sequences", "temp"]


# ---------------------------------------------------------------- tables


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDefinition:
    """A column of CREATE TABLE or ADD COLUMN. `default` is SQL text. `serial` marks smallserial, serial, bigserial
    (the type is the integer one), `identity` GENERATED ... AS IDENTITY (`a` always, `d` by default)."""

    name: str
    type: SqlType
    not_null: bool = False
    default: str | None = None
    serial: bool = False
    identity: str | None = None
    collation: str | None = None
    position: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintDefinition:
    """A declared constraint. `kind` as pg_constraint.contype: p primary key, u unique, c check, f foreign key.
    `name` is None when PostgreSQL would choose it. `expression` is a check's SQL text."""

    kind: OneOf["p", "u", "c", "f"]
    name: str | None = None
    columns: tuple[str, ...] = ()
    expression: str | None = None
    foreign_table: QualifiedName | None = None
    foreign_columns: tuple[str, ...] = ()
    position: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LikeClause:
    """LIKE table in CREATE TABLE: copies columns, and what `including` names (defaults, constraints, comments)."""

    table: QualifiedName
    including: frozenset[str] = frozenset()
    index: int = 0
    """How many column definitions come before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    name: QualifiedName
    columns: tuple[ColumnDefinition, ...]
    constraints: tuple[ConstraintDefinition, ...] = ()
    likes: tuple[LikeClause, ...] = ()
    if_not_exists: bool = False
    temporary: bool = False
    unlogged: bool = False
    on_commit: OneOf["preserve", "delete", "drop"] = "preserve"
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTableAs:
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
    on_commit: OneOf["preserve", "delete", "drop"] = "preserve"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshMaterializedView:
    name: QualifiedName
    concurrently: bool = False
    with_data: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView:
    """CREATE [OR REPLACE] VIEW. `planner.analyze.define_view` gives columns, dependencies and the stored text."""

    name: QualifiedName
    query: Parsed
    column_names: tuple[str, ...] = ()
    or_replace: bool = False
    temporary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSchema:
    """CREATE SCHEMA; `elements` are the statements inside it."""

    name: str
    if_not_exists: bool = False
    owner: str | None = None
    elements: tuple[Parsed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateIndex:
    """CREATE INDEX: accepted for compatibility; an index is not a structure of this system."""

    name: str | None
    table: QualifiedName
    columns: tuple[str, ...]
    unique: bool = False
    concurrently: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceOptions:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSequence:
    name: QualifiedName
    options: SequenceOptions
    if_not_exists: bool = False
    temporary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterSequence:
    name: QualifiedName
    options: SequenceOptions
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """DROP of one or several objects. `kind` is table, view, materialized view, schema, index, sequence, type,
    function, ...; for schemas each name has only `name`."""

    kind: str
    names: tuple[QualifiedName, ...]
    if_exists: bool = False
    cascade: bool = False


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    tables: tuple[QualifiedName, ...]
    restart_identity: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """COMMENT ON. `kind` is table, view, column, schema, database, role, ...; a column's relation is `relation`, its
    own name `name`. `text` None removes the comment."""

    kind: str
    name: str
    relation: QualifiedName | None
    text: str | None


# ---------------------------------------------------------------- data in and out


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOptions:
    """Options of COPY, defaults filled in by format. Column lists are names; `force_quote` is None for `*`."""

    format: OneOf["text", "csv", "binary"] = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
    header_match: bool = False
    quote: str = '"'
    escape: str = '"'
    force_quote: tuple[str, ...] | None = ()
    force_not_null: tuple[str, ...] = ()
    force_null: tuple[str, ...] = ()
    freeze: bool = False
    encoding: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """COPY. One of `table` and `query` is set. `filename` is None for STDIN / STDOUT; `program` tells what `filename`
    is. `where` is the FROM filter."""

    table: QualifiedName | None
    query: Parsed | None
    columns: tuple[str, ...]
    is_from: bool
    filename: str | None
    program: bool
    options: CopyOptions
    where: bool = False


# ---------------------------------------------------------------- statements about statements


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """EXPLAIN. `format` is text, json, yaml or xml."""

    query: Parsed
    analyze: bool = False
    verbose: bool = False
    costs: bool = True
    buffers: bool = False
    timing: bool | None = None
    summary: bool | None = None
    settings: bool = False
    wal: bool = False
    format: OneOf["text", "json", "yaml", "xml"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """PREPARE name (types) AS query. An unspecified parameter type is 0."""

    name: str
    param_types: tuple[int, ...]
    query: Parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Execute:
    """EXECUTE name (expressions). `planner.analyze.bind_execute` binds the parameters; there are `count`."""

    name: str
    count: int
    statement: Parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Deallocate:
    """DEALLOCATE; `name` is None for ALL."""

    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclareCursor:
    """DECLARE CURSOR. `scroll` None leaves it to the server."""

    name: str
    query: Parsed
    binary: bool = False
    scroll: bool | None = None
    hold: bool = False
    insensitive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """FETCH, or MOVE when `move`. `count` None is ALL."""

    name: str
    direction: OneOf["forward", "backward", "absolute", "relative"]
    count: int | None
    move: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseCursor:
    """CLOSE; `name` is None for ALL."""

    name: str | None


# ---------------------------------------------------------------- the rest


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
    """ALTER ROLE; `name` may be current_user or session_user resolved by the caller (`special`)."""

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


UtilityStatement: TypeAlias = (
    Begin
    | Commit
    | Rollback
    | Savepoint
    | Release
    | RollbackTo
    | PreparedTransaction
    | SetTransaction
    | SetVariable
    | Reset
    | Show
    | AlterSystem
    | AlterSetting
    | Discard
    | CreateTable
    | CreateTableAs
    | RefreshMaterializedView
    | CreateView
    | CreateSchema
    | CreateIndex
    | CreateSequence
    | AlterSequence
    | Drop
    | AlterTable
    | RenameColumn
    | RenameRelation
    | RenameObject
    | SetSchema
    | AlterOwner
    | Truncate
    | Comment
    | Copy
    | Explain
    | Prepare
    | Execute
    | Deallocate
    | DeclareCursor
    | Fetch
    | CloseCursor
    | Listen
    | Unlisten
    | Notify
    | Lock
    | Vacuum
    | Checkpoint
    | Cluster
    | Reindex
    | Grant
    | GrantRole
    | AlterDefaultPrivileges
    | CreateDatabase
    | DropDatabase
    | CreateRole
    | AlterRole
    | DropRole
    | Do
    | SetConstraints
    | Call
)
