"""ALTER TABLE and ALTER VIEW.

Most changes touch the catalog alone: a new column is absent from older parts and read as its `missing` value, a dropped
column stays in old files unread, a rename changes a name. Only a change of type rewrites the table, into a new shard.

A view's stored query names the columns of what it reads; the views over a changed relation are bound again, and a
change under which one of them would no longer bind is refused or cascades.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import msgspec

from adapter.changes.rows.defaults import default_query
from adapter.definitions.columns import drop_column, drop_dependents_of_key, drop_referring, drop_users
from adapter.definitions.common.catalog_changes import (
    change,
    check_column_count,
    require_column,
    with_column,
)
from adapter.definitions.common.column_options import check_kept_how, set_column_options
from adapter.definitions.common.columns import retyped, with_kept_fields
from adapter.definitions.common.in_use import refuse_in_use
from adapter.definitions.common.layouts import PLAIN_TABLES, permitted_layout
from adapter.definitions.common.owners import check_new_owner, give, require_owner
from adapter.definitions.common.row_types import refuse_itself, refuse_stored
from adapter.definitions.common.table_options import as_reloptions, retained_of, with_options
from adapter.definitions.common.table_rows import alter_shard
from adapter.definitions.constraints.checks import (
    add_checks,
    alter_constraint,
    remove_constraints,
    with_constraints,
)
from adapter.definitions.constraints.existing_rows import NewRules, check_existing_rows
from adapter.definitions.constraints.generation import (
    checked_default,
    missing_value,
    with_generations,
)
from adapter.definitions.constraints.keys import (
    declared_keys,
    find_constraint,
    name_in_parents,
    referring,
    refuse_duplicate,
    with_not_null,
)
from adapter.definitions.foreign.tables import alter_foreign_table, check_foreign_action
from adapter.definitions.indexes.building import build_indexes
from adapter.definitions.indexes.copies import constraint_from_index, keep_comments
from adapter.definitions.indexes.exclusion import declared_exclusions, with_exclusions
from adapter.definitions.indexes.marks import set_clustered, set_replica_identity
from adapter.definitions.indexes.upkeep import remove_index, set_parameters
from adapter.definitions.materialized.creation import set_options
from adapter.definitions.policies.changes import set_row_security, set_view_options
from adapter.definitions.rewriting import check_sequence_type, rewrite_table, set_types
from adapter.definitions.sequences import (
    add_identity,
    drop_identity,
    numbered_column,
    set_identity,
)
from adapter.definitions.tables import column_of
from adapter.definitions.types.composites import alter_composite
from adapter.definitions.types.typed_tables import refuse_of_typed, set_row_typing, typed_tables
from adapter.definitions.views import add_columns_in_queries
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import (
    kind_of,
    look_up,
    missing,
    plural,
    shown_name,
    skip_missing,
    with_article,
)
from adapter.execution.statement import Running
from adapter.publishing.published_tables import check_publishable, says_published, type_held
from adapter.results import Notice
from planner.definitions.transforms import ColumnChange, check_using, rewritten_rows, rows_with_column
from planner.errors import (
    DuplicateColumn,
    InvalidTableDefinition,
    ObjectNotInPrerequisiteState,
    SqlSyntaxError,
    UndefinedObject,
    WrongObjectType,
)
from planner.ir.rewrite import is_volatile
from planner.queries.changes.column_values import default_text
from planner.resolution.domains import has_rules
from planner.statements import foreign as ft
from planner.statements import records as st
from planner.types.derived_oids import index_oid
from planner.types.types import type_of_column
from storage.catalog.model import (
    CatalogSnapshot,
    Constraint,
    Index,
    Relation,
    Schema,
)
from storage.catalog.model import Sequence as SequenceRecord


def alter_target(
    running: Running, name: st.QualifiedName, kind: str, if_exists: bool
) -> Relation | SequenceRecord | Index | None:
    """The relation to alter, or None after a notice. 42P01, 42809."""
    record = look_up(running, own_catalog(running), name)
    if record is None:
        if not if_exists:
            raise missing(own_catalog(running), name)
        skip_missing(running, name)
        return None
    require_owner(running, record)
    if kind_of(record) == "composite type":
        if kind == "type":
            return record
        raise WrongObjectType(f'"{record.name}" is a composite type', hint="Use ALTER TYPE instead.")
    if kind == "type":
        raise WrongObjectType(f'"{record.name}" is not a composite type')
    if kind != "table" and kind_of(record) != kind:
        raise WrongObjectType(f'"{record.name}" is not {with_article(kind)}')
    return record


async def _alter_type(running: Running, statement: st.AlterTable) -> None:
    """ALTER TYPE of a composite type, and with CASCADE of its typed tables."""
    record = alter_target(running, statement.name, statement.kind, statement.if_exists)
    tables = [] if record is None else typed_tables(running, record, cascade=statement.cascade)
    await alter_composite(running, statement, drop_users)
    for table in tables:
        for action in statement.actions:
            current, rules = own_catalog(running).get(table.oid), NewRules()
            assert isinstance(current, Relation)
            if isinstance(action, st.SetColumnType):
                await set_types(running, own_catalog(running), current, [action], rules)
            else:
                await _apply(running, current, action, rules)
            await check_existing_rows(running, table.oid, rules)


async def alter_table(running: Running, statement: st.AlterTable) -> None:
    """ALTER TABLE: its actions are checked in the order in which they stand, and carried out in PostgreSQL's passes."""
    if statement.kind == "type":
        await _alter_type(running, statement)
        return
    record = alter_target(running, statement.name, statement.kind, statement.if_exists)
    if record is None:
        return
    catalog = own_catalog(running)
    if isinstance(record, Relation):
        refuse_in_use(running, record, "ALTER TABLE")
    for action in statement.actions:
        _check_action(running, catalog, record, action)
    if isinstance(record, Relation) and record.foreign is not None:
        for action in sorted(statement.actions, key=_pass_of):
            await _alter_foreign(running, record.oid, action)
        return
    if not isinstance(record, Relation):
        for action in statement.actions:
            await _apply_other(running, record, action)
        return
    types = [action for action in statement.actions if isinstance(action, st.SetColumnType)]
    rules = NewRules()
    for number, actions in groupby(sorted(statement.actions, key=_pass_of), key=_pass_of):
        if number == _TYPE_PASS:
            await set_types(running, catalog, record, types, rules)
            continue
        for action in actions:
            current = own_catalog(running).get(record.oid)
            assert isinstance(current, Relation)
            await _apply(running, current, action, rules)
    await check_existing_rows(running, record.oid, rules)
    if rules.keys:
        await build_indexes(running, record.oid)
    altered = own_catalog(running).get(record.oid)
    assert isinstance(altered, Relation)
    if altered.kind == "r" and altered.options:
        await permitted_layout(running, altered)
    if says_published(record):
        check_publishable(altered)


async def _alter_foreign(running: Running, oid: int, action: st.AlterTableAction) -> None:
    """Carry out an action on a foreign table, which has no rows of its own to be held against anything."""
    relation = own_catalog(running).get(oid)
    assert isinstance(relation, Relation)
    match action:
        case st.DropColumn():
            await drop_column(running, relation, action)
        case st.ChangeOwner():
            _set_owner(running, relation, action.owner)
        case _:
            await alter_foreign_table(running, relation, action)


_TYPE_PASS = 1


def _pass_of(action: st.AlterTableAction) -> int:
    """When an action is carried out (tablecmds.c's AT_PASS_...)."""
    match action:
        case st.DropColumn() | st.DropConstraint() | st.SetNotNull(not_null=False) | st.SetDefault(default=None):
            return 0
        case st.DropExpression() | st.DropIdentity():
            return 0
        case st.SetColumnType():
            return _TYPE_PASS
        case st.AddColumn():
            return 2
        case st.SetNotNull():
            return 3
        case st.AddConstraint(constraint=st.ConstraintDefinition(kind="p" | "u" | "x")):
            return 4
        case st.SetDefault():
            return 5
        case st.AddConstraint() | st.AddIdentity():
            return 6
        case _:
            return 7


async def _apply_other(running: Running, record: SequenceRecord | Index, action: st.AlterTableAction) -> None:
    """Carry out an action on a sequence or an index."""
    match action, record:
        case st.ChangeOwner(), SequenceRecord():
            _set_owner(running, record, action.owner)
        case st.ChangeOwner(), Index():
            running.session.notice(
                Notice(
                    severity="WARNING",
                    sqlstate="42809",
                    message=f'cannot change owner of index "{record.name}"',
                    hint="Change the ownership of the index's table instead.",
                )
            )
        case st.SetStorageOptions(), Index():
            current = own_catalog(running).get(record.oid)
            await set_parameters(running, current if isinstance(current, Index) else record, action)


_LOGGING = ("SetLogged", "SetUnLogged")
_OF_SEQUENCES = (st.ChangeOwner,)
_OF_INDEXES = (st.ChangeOwner, st.SetStorageOptions)
_OF_VIEWS = (st.SetDefault, st.ChangeOwner, st.SetStorageOptions)
_OF_FOREIGN = (
    st.AddColumn, st.DropColumn, st.SetColumnType, st.SetNotNull, st.ChangeOwner, ft.SetForeignOptions,
)  # fmt: skip
_OF_MATERIALIZED = (st.ChangeOwner, st.SetStorageOptions, st.ClusterOn, st.SetReplicaIdentity)


def _check_action(
    running: Running, catalog: CatalogSnapshot, relation: Relation | SequenceRecord | Index, action: st.AlterTableAction
) -> None:
    """What is wrong with an action whatever the others do."""
    kind = kind_of(relation)
    allowed = {
        "sequence": _OF_SEQUENCES, "index": _OF_INDEXES, "materialized view": _OF_MATERIALIZED,
        "foreign table": _OF_FOREIGN,
    }.get(kind, _OF_VIEWS)  # fmt: skip
    if kind == "sequence" and isinstance(action, st.SetStorageOptions) and action.description in _LOGGING:
        return
    if kind != "table" and not isinstance(action, allowed):
        raise WrongObjectType(
            f'ALTER action {_action_name(action)} cannot be performed on relation "{relation.name}"',
            detail=f"This operation is not supported for {plural(kind)}.",
        )
    if kind == "table" and isinstance(action, ft.SetForeignOptions):
        raise WrongObjectType(f'"{relation.name}" is not a foreign table')
    if isinstance(relation, Relation) and relation.foreign is not None:
        check_foreign_action(relation, action)
        return
    if isinstance(relation, Relation) and relation.of_type:
        refuse_of_typed(action)
    if isinstance(action, st.SetColumnType):
        assert isinstance(relation, Relation)
        context = running.session.bind_context(catalog)
        if action.written_using is not None:
            check_using(relation, action.written_using, context)
        column = require_column(relation, action.name)
        refuse_itself(relation, action.type.declared_oid)
        if column.sequence is not None:
            check_sequence_type(running, column, action.type)
        changes = {column.attnum: ColumnChange(type=action.type, written=action.written_using)}
        rewritten_rows(relation, [column.attnum], changes, running.parsed, context)


async def _apply(running: Running, relation: Relation, action: st.AlterTableAction, rules: NewRules) -> None:
    """Carry out an action; what the rows are yet to be held against goes into `rules`."""
    match action:
        case st.AddColumn():
            await _add_column(running, relation, action, rules)
        case st.DropColumn():
            await drop_column(running, relation, action)
        case st.SetDefault():
            _set_default(running, relation, action)
        case st.SetNotNull():
            _set_not_null(running, relation, action, rules)
        case st.AddIdentity():
            add_identity(running, relation, action)
        case st.SetIdentity():
            await set_identity(running, relation, action)
        case st.DropIdentity():
            drop_identity(running, relation, action)
        case st.DropExpression():
            _drop_expression(running, relation, action)
        case st.AddConstraint():
            await _add_constraint(running, relation, action.constraint, rules)
        case st.AlterConstraint():
            alter_constraint(running, relation, action)
        case st.DropConstraint():
            _drop_constraint(running, relation, action)
        case st.ValidateConstraint():
            _validate_constraint(running, relation, action, rules)
        case st.ChangeOwner():
            _set_owner(running, relation, action.owner)
        case st.SetStorageOptions(description="SetOptions" | "ResetOptions" | "SetStatistics"):
            await set_column_options(running, relation, action)
        case st.SetStorageOptions(description="SetStorage" | "SetCompression"):
            check_kept_how(relation, action)
        case st.SetStorageOptions() if relation.materialized is not None:
            await set_options(running, relation, action)
        case st.SetRowSecurity():
            set_row_security(running, relation, action)
        case st.SetStorageOptions() if relation.kind == "v":
            set_view_options(running, relation, action)
        case st.SetStorageOptions(description="SetRelOptions" | "ResetRelOptions"):
            options = with_options(relation.options, action.options, reset=action.reset, others=PLAIN_TABLES)
            changed = msgspec.structs.replace(relation, options=as_reloptions(options), retain_ms=retained_of(options))
            if changed != relation:
                check_publishable(changed)
                change(running, removed=[relation], added=[changed])
        case st.ClusterOn():
            set_clustered(running, relation, action)
        case st.SetRowTyping():
            set_row_typing(running, relation, action)
        case st.SetReplicaIdentity():
            set_replica_identity(running, relation, action)
        case st.SetStorageOptions():
            pass


def _action_name(action: st.AlterTableAction) -> str:
    if isinstance(action, st.ClusterOn):
        return "SET WITHOUT CLUSTER" if action.index is None else "CLUSTER ON"
    if isinstance(action, st.SetRowTyping):
        return "OF" if action.of_type else "NOT OF"
    if isinstance(action, st.SetNotNull) and not action.not_null:
        return "ALTER COLUMN ... DROP NOT NULL"
    return {
        "SetReplicaIdentity": "REPLICA IDENTITY",
        "AddColumn": "ADD COLUMN",
        "DropColumn": "DROP COLUMN",
        "SetDefault": "ALTER COLUMN ... SET DEFAULT",
        "SetNotNull": "ALTER COLUMN ... SET NOT NULL",
        "SetColumnType": "ALTER COLUMN ... SET DATA TYPE",
        "AddConstraint": "ADD CONSTRAINT",
        "AlterConstraint": "ALTER CONSTRAINT",
        "DropConstraint": "DROP CONSTRAINT",
        "ValidateConstraint": "VALIDATE CONSTRAINT",
        "DropExpression": "ALTER COLUMN ... DROP EXPRESSION",
        "AddIdentity": "ALTER COLUMN ... ADD IDENTITY",
        "SetIdentity": "ALTER COLUMN ... SET",
        "DropIdentity": "ALTER COLUMN ... DROP IDENTITY",
    }.get(type(action).__name__, type(action).__name__)


# ---------------------------------------------------------------- columns


async def _add_column(running: Running, relation: Relation, action: st.AddColumn, rules: NewRules) -> None:
    definition = action.column
    if relation.column(definition.name) is not None:
        if not action.if_not_exists:
            raise DuplicateColumn(f'column "{definition.name}" of relation "{relation.name}" already exists')
        running.session.notice(
            Notice(
                severity="NOTICE",
                sqlstate="42701",
                message=f'column "{definition.name}" of relation "{relation.name}" already exists, skipping',
            )
        )
        return
    # Those that were dropped count as well.
    check_column_count(len(relation.columns) + 1)
    column = column_of(definition, len(relation.columns) + 1)
    column = retyped(column, type_held(own_catalog(running), relation, type_of_column(column)))
    column = (await with_kept_fields(running, msgspec.structs.replace(relation, columns=(column,)))).columns[0]
    refuse_itself(relation, column.type_oid)
    added: list[SequenceRecord] = []
    rewritten = definition.generation is not None
    if definition.serial or definition.identity:
        schema = own_catalog(running).get(relation.schema)
        assert isinstance(schema, Schema)
        column, sequence = numbered_column(running, definition, column, relation.name, schema, relation.oid)
        added.append(sequence)
        rewritten = True
    else:
        if column.default is not None:
            column = checked_default(running, column)
        if default_text(column) is not None:
            rewritten = is_volatile(default_query(running, column))
            if not rewritten:
                column = msgspec.structs.replace(column, missing=await missing_value(running, column))
    if rewritten or column.missing is not None or has_rules(column.type_oid):
        refuse_stored(own_catalog(running), relation)
    if column.missing is None:
        rules.not_null.add(column.attnum)
    if not rewritten and has_rules(column.type_oid):
        rules.domains.add(column.attnum)
    changed = msgspec.structs.replace(relation, columns=(*relation.columns, column))
    changed = with_generations(running, changed, {column.attnum: definition}, located=False)
    keys = declared_keys(running, changed, action.constraints)
    columns = tuple(with_not_null(changed.columns, action.constraints))
    changed = with_constraints(msgspec.structs.replace(changed, columns=columns), keys)
    views = await add_columns_in_queries(running, relation, [column.name])
    if rewritten:
        catalog = own_catalog(running)
        change(running, added=[*added, *keys])
        numbered = {len(relation.live_columns()): added[0]} if added else {}
        valued = changed.columns[-1] if not numbered else msgspec.structs.replace(column, default=None)
        query = rows_with_column(relation, valued, running.session.bind_context(catalog))
        changed = await rewrite_table(running, catalog, relation, changed, query, numbered)
    else:
        change(running, removed=[relation], added=[changed, *added, *keys])
        alter_shard(running, changed)
    name_in_parents(running, keys)
    rules.keys.extend(key.oid for key in keys if key.validated)
    _add_exclusions(running, changed, action.constraints, rules)
    current = own_catalog(running).get(changed.oid)
    assert isinstance(current, Relation)
    checks = await add_checks(running, current, [d for d in action.constraints if d.kind == "c"])
    rules.checks.extend(check.oid for check in checks)
    if views:
        change(running, removed=[old for old, _ in views], added=[new for _, new in views])


def _set_default(running: Running, relation: Relation, action: st.SetDefault) -> None:
    column = require_column(relation, action.name)
    if column.generated:
        raise SqlSyntaxError(
            f'column "{column.name}" of relation "{relation.name}" is a generated column',
            hint=None if action.default else "Use ALTER TABLE ... ALTER COLUMN ... DROP EXPRESSION instead.",
        )
    if column.identity:
        raise SqlSyntaxError(
            f'column "{column.name}" of relation "{relation.name}" is an identity column',
            hint=None if action.default else "Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.",
        )
    column = msgspec.structs.replace(column, default=action.default)
    if column.default is not None:
        column = checked_default(running, column)
    change(running, removed=[relation], added=[with_column(relation, column)])


def _drop_expression(running: Running, relation: Relation, action: st.DropExpression) -> None:
    column = require_column(relation, action.name)
    if not column.generated:
        message = f'column "{column.name}" of relation "{relation.name}" is not a stored generated column'
        if not action.if_exists:
            raise ObjectNotInPrerequisiteState(message)
        running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=f"{message}, skipping"))
        return
    plain = msgspec.structs.replace(column, generated="", default=None)
    change(running, removed=[relation], added=[with_column(relation, plain)])


def _set_not_null(running: Running, relation: Relation, action: st.SetNotNull, rules: NewRules) -> None:
    column = require_column(relation, action.name)
    if action.not_null and not column.not_null:
        rules.not_null.add(column.attnum)
    if not action.not_null and column.identity:
        raise SqlSyntaxError(f'column "{column.name}" of relation "{relation.name}" is an identity column')
    if not action.not_null:
        for record in own_catalog(running).all():
            if (
                isinstance(record, Constraint)
                and record.kind == "p"
                and record.relation == relation.oid
                and column.attnum in record.columns
            ):
                raise InvalidTableDefinition(f'column "{column.name}" is in a primary key')
    changed = with_column(relation, msgspec.structs.replace(column, not_null=action.not_null))
    change(running, removed=[relation], added=[changed])


# ---------------------------------------------------------------- constraints and owners


async def _add_constraint(
    running: Running, relation: Relation, definition: st.ConstraintDefinition, rules: NewRules
) -> None:
    index: Index | None = None
    if definition.using_index is not None:
        relation, definition, index = constraint_from_index(running, relation, definition)
    if definition.kind == "p":
        rules.not_null.update(
            column.attnum for name in definition.columns if not (column := require_column(relation, name)).not_null
        )
    # PostgreSQL gives no positions here.
    unplaced = msgspec.structs.replace(definition, position=None, written=None)
    if definition.kind == "c":
        checks = await add_checks(running, relation, (unplaced,))
        rules.checks.extend(check.oid for check in checks if check.validated)
        return
    if unplaced.kind == "x":
        _add_exclusions(running, relation, (unplaced,), rules)
        return
    if unplaced.name is not None and unplaced.kind == "f":
        refuse_duplicate(own_catalog(running), relation, unplaced.name)
    keys = declared_keys(running, relation, (unplaced,))
    columns = tuple(with_not_null(relation.columns, (unplaced,)))
    changed = with_constraints(msgspec.structs.replace(relation, columns=columns), keys)
    change(running, removed=[relation], added=[changed, *keys])
    name_in_parents(running, keys)
    if index is not None:
        keep_comments(running, index, index_oid(keys[0].oid))
    else:
        rules.keys.extend(key.oid for key in keys if key.validated)


def _add_exclusions(
    running: Running, relation: Relation, definitions: Sequence[st.ConstraintDefinition], rules: NewRules
) -> None:
    exclusions = declared_exclusions(running, relation, definitions)
    if exclusions:
        added = [record for pair in exclusions for record in pair]
        change(running, removed=[relation], added=[with_exclusions(relation, exclusions), *added])
        rules.keys.extend(index.oid for _, index in exclusions)


def _drop_constraint(running: Running, relation: Relation, action: st.DropConstraint) -> None:
    record = find_constraint(own_catalog(running), relation, action.name)
    if record is not None:
        catalog = own_catalog(running)
        parent = catalog.get(record.foreign_relation or 0)
        if isinstance(parent, Relation):
            refuse_in_use(running, parent, "ALTER TABLE")
        lost = referring(catalog, record)
        if lost:
            table = shown_name(running, catalog, relation)
            what, rests_on = f"constraint {record.name} on table {table}", f"index {record.name}"
            drop_referring(running, lost, what, rests_on, cascade=action.cascade)
        drop_dependents_of_key(running, relation, record, cascade=action.cascade)
        remove_constraints(running, relation, [record, *lost])
        index = own_catalog(running).get(record.index or 0)
        if isinstance(index, Index):
            remove_index(running, index)
        return
    message = f'constraint "{action.name}" of relation "{relation.name}" does not exist'
    if not action.if_exists:
        raise UndefinedObject(message)
    running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=f"{message}, skipping"))


def _validate_constraint(running: Running, relation: Relation, action: st.ValidateConstraint, rules: NewRules) -> None:
    record = find_constraint(own_catalog(running), relation, action.name)
    if record is None:
        raise UndefinedObject(f'constraint "{action.name}" of relation "{relation.name}" does not exist')
    if record.kind not in "cf" and record.validated:
        raise WrongObjectType(
            f'constraint "{action.name}" of relation "{relation.name}" is not a foreign key or check constraint'
        )
    if record.validated:
        return
    snapshot = running.transaction.snapshot
    if snapshot is not None and snapshot.catalog.get(record.oid) == record and record.enforced:
        rules.known.add(record.oid)
    change(running, removed=[record], added=[msgspec.structs.replace(record, validated=True)])
    if record.kind == "c":
        rules.checks.append(record.oid)
    else:
        rules.keys.append(record.oid)


def _set_owner(running: Running, record: Relation | SequenceRecord, owner: str) -> None:
    give(running, record, check_new_owner(running, record, owner).oid)
