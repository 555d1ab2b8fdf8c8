"""ALTER of tables, sequences and other objects: the actions of ALTER TABLE, renaming, moving, ownership."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from planner.statements.definitions import ColumnDefinition, ConstraintDefinition, SequenceOptions
from planner.statements.foreign import SetForeignOptions
from planner.statements.policies import SetRowSecurity
from planner.syntax.parse import Parsed
from planner.syntax.qualified_names import QualifiedName
from planner.types.types import SqlType


class AddColumn(Struct, frozen=True, kw_only=True):
    column: ColumnDefinition
    constraints: tuple[ConstraintDefinition, ...] = ()
    if_not_exists: bool = False


class DropColumn(Struct, frozen=True, kw_only=True):
    name: str
    if_exists: bool = False
    cascade: bool = False


class SetDefault(Struct, frozen=True, kw_only=True):
    """ALTER COLUMN SET DEFAULT, or DROP DEFAULT when `default` is None."""

    name: str
    default: str | None


class SetNotNull(Struct, frozen=True, kw_only=True):
    """ALTER COLUMN SET NOT NULL, or DROP NOT NULL."""

    name: str
    not_null: bool


class DropExpression(Struct, frozen=True, kw_only=True):
    """ALTER COLUMN DROP EXPRESSION: a generated column becomes an ordinary one."""

    name: str
    if_exists: bool = False


class AddIdentity(Struct, frozen=True, kw_only=True):
    """ALTER COLUMN ADD GENERATED ... AS IDENTITY; `identity` is `a` (always) or `d` (by default)."""

    name: str
    identity: str
    options: SequenceOptions


class SetIdentity(Struct, frozen=True, kw_only=True):
    """ALTER COLUMN SET GENERATED ..., SET <sequence option>, RESTART; `identity` None leaves it as it is."""

    name: str
    identity: str | None
    options: SequenceOptions


class DropIdentity(Struct, frozen=True, kw_only=True):
    """ALTER COLUMN DROP IDENTITY."""

    name: str
    if_exists: bool = False


class SetColumnType(Struct, frozen=True, kw_only=True):
    """ALTER COLUMN TYPE. `using` is SQL text, `written_using` the same where it stands in the statement."""

    name: str
    type: SqlType
    collation: str | None = None
    using: str | None = None
    written_using: Parsed | None = None
    position: int | None = None


class AddConstraint(Struct, frozen=True, kw_only=True):
    constraint: ConstraintDefinition


class ValidateConstraint(Struct, frozen=True, kw_only=True):
    """VALIDATE CONSTRAINT: the rows that are there are held against it too."""

    name: str


class AlterConstraint(Struct, frozen=True, kw_only=True):
    """ALTER CONSTRAINT: when a foreign key is checked."""

    name: str
    deferrable: bool = False
    deferred: bool = False


class DropConstraint(Struct, frozen=True, kw_only=True):
    name: str
    if_exists: bool = False
    cascade: bool = False


class ChangeOwner(Struct, frozen=True, kw_only=True):
    owner: str


class ClusterOn(Struct, frozen=True, kw_only=True):
    """CLUSTER ON an index; None: SET WITHOUT CLUSTER."""

    index: str | None


class SetReplicaIdentity(Struct, frozen=True, kw_only=True):
    """REPLICA IDENTITY; `kind` is that of pg_class.relreplident, `index` the index where that is ``i``."""

    kind: str
    index: str = ""


class SetStorageOptions(Struct, frozen=True, kw_only=True):
    """SET (...) / RESET (...), SET STATISTICS and the like: tuning without effect here. `options` are those of SET, or
    the names of RESET; `column` is the column's that they are of, or `number` that of an index; `target` what SET
    STATISTICS says."""

    description: str
    column: str = ""
    target: int | None = None
    number: int = 0
    options: tuple[tuple[str, str], ...] = ()
    reset: bool = False


class SetRowTyping(Struct, frozen=True, kw_only=True):
    """OF a composite type (its oid), or NOT OF (0)."""

    of_type: int


AlterTableAction: TypeAlias = (
    SetRowTyping
    | AddColumn
    | DropColumn
    | SetDefault
    | SetNotNull
    | DropExpression
    | AddIdentity
    | SetIdentity
    | DropIdentity
    | SetColumnType
    | AddConstraint
    | AlterConstraint
    | DropConstraint
    | ValidateConstraint
    | ChangeOwner
    | SetRowSecurity
    | SetStorageOptions
    | ClusterOn
    | SetReplicaIdentity
    | SetForeignOptions
)


class AlterTable(Struct, frozen=True, kw_only=True):
    """ALTER TABLE with its actions in order. `kind` is table, view, materialized view, index or sequence."""

    name: QualifiedName
    actions: tuple[AlterTableAction, ...]
    kind: str = "table"
    if_exists: bool = False
    cascade: bool = False
    """Of ALTER TYPE: whether typed tables are altered as well."""


class SetSchemaOptions(Struct, frozen=True, kw_only=True):
    """ALTER SCHEMA ... SET (...), or RESET of the options of these names; not in PostgreSQL."""

    name: str
    options: tuple[tuple[str, str], ...]
    reset: bool = False


class AlterSequence(Struct, frozen=True, kw_only=True):
    name: QualifiedName
    options: SequenceOptions
    if_exists: bool = False


class RenameColumn(Struct, frozen=True, kw_only=True):
    """ALTER ... RENAME COLUMN. `kind` is the relation's."""

    relation: QualifiedName
    name: str
    new_name: str
    kind: str = "table"
    if_exists: bool = False
    cascade: bool = False
    """Of a field of a type: whether the columns of typed tables are renamed as well."""


class RenameRelation(Struct, frozen=True, kw_only=True):
    """ALTER TABLE / VIEW / ... RENAME TO. `kind` is table, view, materialized view, index or sequence."""

    relation: QualifiedName
    new_name: str
    kind: str = "table"
    if_exists: bool = False


class RenameObject(Struct, frozen=True, kw_only=True):
    """ALTER SCHEMA / DATABASE / ROLE / TYPE / TABLE ... CONSTRAINT ... RENAME TO. `relation` is a constraint's table,
    or the whole name of a type."""

    kind: str
    name: str
    new_name: str
    relation: QualifiedName | None = None
    if_exists: bool = False
    """The table of a constraint need not exist."""


class SetSchema(Struct, frozen=True, kw_only=True):
    """ALTER TABLE / VIEW / ... SET SCHEMA."""

    relation: QualifiedName
    new_schema: str
    kind: str = "table"
    if_exists: bool = False


class AlterOwner(Struct, frozen=True, kw_only=True):
    """ALTER SCHEMA / DATABASE ... OWNER TO."""

    kind: str
    name: str
    owner: str
