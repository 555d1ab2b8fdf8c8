"""Utility statements: everything that is not a query or a change of rows, as frozen records.

`planner.analyze.analyze` makes them. Names are folded as PostgreSQL folds them; nothing is looked up in the catalog, so
a statement stays valid whatever the catalog is when it runs. A statement inside a statement (of EXPLAIN, PREPARE,
DECLARE CURSOR, COPY, CREATE TABLE AS, CREATE VIEW) is a `Parsed`, to be analyzed when the outer one runs. Expressions
that are stored (defaults, checks) are SQL text.
"""

from __future__ import annotations

from typing import TypeAlias

from planner.statements.administration import (
    AlterDatabase,
    AlterExtension,
    AlterGroup,
    AlterRole,
    Checkpoint,
    Cluster,
    CreateDatabase,
    CreateExtension,
    CreateRole,
    Do,
    DropDatabase,
    DropOwned,
    DropRole,
    GrantRole,
    Listen,
    Lock,
    Notify,
    ReassignOwned,
    RefreshCollation,
    Reindex,
    RoleOptions,
    SetConstraints,
    Unlisten,
    Vacuum,
)
from planner.statements.alterations import (
    AddColumn,
    AddConstraint,
    AddIdentity,
    AlterConstraint,
    AlterOwner,
    AlterSequence,
    AlterTable,
    AlterTableAction,
    ChangeOwner,
    ClusterOn,
    DropColumn,
    DropConstraint,
    DropExpression,
    DropIdentity,
    RenameColumn,
    RenameObject,
    RenameRelation,
    SetColumnType,
    SetDefault,
    SetIdentity,
    SetNotNull,
    SetReplicaIdentity,
    SetRowTyping,
    SetSchema,
    SetSchemaOptions,
    SetStorageOptions,
    ValidateConstraint,
)
from planner.statements.copying import Copy, CopyOptions
from planner.statements.definitions import (
    AlterStatistics,
    ColumnDefinition,
    Comment,
    ConstraintDefinition,
    CreateIndex,
    CreateSchema,
    CreateSequence,
    CreateStatistics,
    CreateTable,
    CreateTableAs,
    CreateView,
    Drop,
    IndexElement,
    LikeClause,
    RefreshMaterializedView,
    SequenceOptions,
    Truncate,
)
from planner.statements.execution import CloseCursor, Deallocate, DeclareCursor, Execute, Explain, Fetch, Prepare
from planner.statements.foreign import ForeignStatement
from planner.statements.policies import AlterPolicy, CreatePolicy, SetRowSecurity
from planner.statements.privileges import AlterDefaultPrivileges, Grant, Privilege
from planner.statements.routines import (
    AddFiles,
    AlterRoutine,
    CallProcedure,
    CloneTable,
    CreateRoutine,
    Publish,
    RestoreTable,
    RoutineName,
    RoutineOptions,
    RoutineParameter,
    UndropTable,
)
from planner.statements.settings import AlterSetting, AlterSystem, Discard, Reset, SetVariable, Show
from planner.statements.transactions import (
    Begin,
    Commit,
    PreparedTransaction,
    Release,
    Rollback,
    RollbackTo,
    Savepoint,
    SetTransaction,
    TransactionModes,
)
from planner.statements.types import (
    AddDomainCheck,
    AddEnumValue,
    ChangeTypeOwner,
    CreateComposite,
    CreateDomain,
    CreateEnum,
    CreateRange,
    DropDomainCheck,
    RenameEnumValue,
    SetDomainDefault,
    SetDomainNotNull,
    ValidateDomainCheck,
)
from planner.syntax.qualified_names import QualifiedName

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
    | CreateEnum
    | CreateRange
    | CreateDomain
    | SetDomainDefault
    | SetDomainNotNull
    | AddDomainCheck
    | ValidateDomainCheck
    | DropDomainCheck
    | CreateComposite
    | AddEnumValue
    | RenameEnumValue
    | ChangeTypeOwner
    | AlterSequence
    | CreatePolicy
    | AlterPolicy
    | Drop
    | AlterTable
    | RenameColumn
    | RenameRelation
    | RenameObject
    | SetSchema
    | SetSchemaOptions
    | AlterOwner
    | Truncate
    | Comment
    | Copy
    | Explain
    | Prepare
    | Execute
    | Deallocate
    | DeclareCursor
    | CreateStatistics
    | AlterStatistics
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
    | AlterDatabase
    | RefreshCollation
    | CreateExtension
    | AlterExtension
    | DropDatabase
    | CreateRole
    | AlterRole
    | AlterGroup
    | DropOwned
    | ReassignOwned
    | DropRole
    | Do
    | SetConstraints
    | CallProcedure
    | AddFiles
    | Publish
    | RestoreTable
    | CloneTable
    | UndropTable
    | CreateRoutine
    | AlterRoutine
    | ForeignStatement
)

__all__ = [
    "AddColumn",
    "AddConstraint",
    "AddDomainCheck",
    "AddEnumValue",
    "AddFiles",
    "AddIdentity",
    "AlterConstraint",
    "AlterDatabase",
    "AlterDefaultPrivileges",
    "AlterExtension",
    "AlterGroup",
    "AlterOwner",
    "AlterPolicy",
    "AlterRole",
    "AlterRoutine",
    "AlterSequence",
    "AlterSetting",
    "AlterStatistics",
    "AlterSystem",
    "AlterTable",
    "AlterTableAction",
    "Begin",
    "CallProcedure",
    "ChangeOwner",
    "ChangeTypeOwner",
    "Checkpoint",
    "CloneTable",
    "CloseCursor",
    "Cluster",
    "ClusterOn",
    "ColumnDefinition",
    "Comment",
    "Commit",
    "ConstraintDefinition",
    "Copy",
    "CopyOptions",
    "CreateComposite",
    "CreateDatabase",
    "CreateDomain",
    "CreateEnum",
    "CreateExtension",
    "CreateIndex",
    "CreatePolicy",
    "CreateRange",
    "CreateRole",
    "CreateRoutine",
    "CreateSchema",
    "CreateSequence",
    "CreateStatistics",
    "CreateTable",
    "CreateTableAs",
    "CreateView",
    "Deallocate",
    "DeclareCursor",
    "Discard",
    "Do",
    "Drop",
    "DropColumn",
    "DropConstraint",
    "DropDatabase",
    "DropDomainCheck",
    "DropExpression",
    "DropIdentity",
    "DropOwned",
    "DropRole",
    "Execute",
    "Explain",
    "Fetch",
    "Grant",
    "GrantRole",
    "IndexElement",
    "LikeClause",
    "Listen",
    "Lock",
    "Notify",
    "Prepare",
    "PreparedTransaction",
    "Privilege",
    "Publish",
    "QualifiedName",
    "ReassignOwned",
    "RefreshCollation",
    "RefreshMaterializedView",
    "Reindex",
    "Release",
    "RenameColumn",
    "RenameEnumValue",
    "RenameObject",
    "RenameRelation",
    "Reset",
    "RestoreTable",
    "RoleOptions",
    "Rollback",
    "RollbackTo",
    "RoutineName",
    "RoutineOptions",
    "RoutineParameter",
    "Savepoint",
    "SequenceOptions",
    "SetColumnType",
    "SetConstraints",
    "SetDefault",
    "SetDomainDefault",
    "SetDomainNotNull",
    "SetIdentity",
    "SetNotNull",
    "SetReplicaIdentity",
    "SetRowSecurity",
    "SetRowTyping",
    "SetSchema",
    "SetSchemaOptions",
    "SetStorageOptions",
    "SetTransaction",
    "SetVariable",
    "Show",
    "TransactionModes",
    "Truncate",
    "UndropTable",
    "Unlisten",
    "UtilityStatement",
    "Vacuum",
    "ValidateConstraint",
    "ValidateDomainCheck",
]
