"""ALTER TABLE and ALTER VIEW.

Most changes touch the catalog alone: a new column is absent from older parts and read as its `missing` value, a dropped
column stays in old files unread, a rename changes a name. Only a change of type rewrites the table, into a new shard.

A view's stored query names the columns of what it reads; the views over a changed relation are bound again, and a
change under which one of them would no longer bind is refused or cascades.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import msgspec

from adapter.changes.defaults import default_query
from adapter.definitions.catalog_changes import change
from adapter.definitions.checks import (
    add_checks,
    find_constraint,
    refuse_duplicate,
    remove_constraints,
    retyped_checks,
    with_constraints,
    without_constraints,
)
from adapter.definitions.drop import dependents_of, direct_dependents, remove, report_cascade
from adapter.definitions.existing_rows import NewRules, check_existing_rows
from adapter.definitions.keys import declared_keys, forget_names, name_in_parents, referring, with_not_null
from adapter.definitions.tables import (
    checked_default,
    column_of,
    fill_table,
    make_shard,
    missing_value,
    nextval_default,
    owned_sequence,
    physical_schema,
)
from adapter.definitions.views import drop_column_in_views
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import describe, kind_of, look_up, missing, shown_name, skip_missing
from adapter.execution.statement import Running
from adapter.plans.predicates import scan_templates
from adapter.queries.read import prepare_read
from adapter.results import Notice
from adapter.transactions.snapshots import resolve
from planner.definitions.transforms import ColumnChange, rewritten_rows
from planner.errors import (
    DatatypeMismatch,
    DependentObjectsStillExist,
    DuplicateColumn,
    FeatureNotSupported,
    InvalidTableDefinition,
    SqlError,
    UndefinedColumn,
    UndefinedObject,
    WrongObjectType,
)
from planner.ir.rewrite import is_volatile
from planner.statements import records as st
from planner.syntax.parse import split_and_parse
from planner.types import types as t
from planner.types.type_names import format_type
from storage.catalog.model import (
    CatalogSnapshot,
    CatalogUpdate,
    Column,
    Comment,
    Constraint,
    Record,
    Relation,
    Role,
    Schema,
)
from storage.catalog.model import Sequence as SequenceRecord


def alter_target(
    running: Running, name: st.QualifiedName, kind: str, if_exists: bool
) -> Relation | SequenceRecord | None:
    """The relation to alter, or None after a notice. 42P01, 42809."""
    record = look_up(running, own_catalog(running), name)
    if record is None:
        if not if_exists:
            raise missing(own_catalog(running), name)
        skip_missing(running, name)
        return None
    if kind != "table" and kind_of(record) != kind:
        raise WrongObjectType(f'"{record.name}" is not a {kind}')
    return record


async def alter_table(running: Running, statement: st.AlterTable) -> None:
    """ALTER TABLE: its actions are checked in the order in which they stand, and carried out in PostgreSQL's passes."""
    record = alter_target(running, statement.name, statement.kind, statement.if_exists)
    if record is None:
        return
    catalog = own_catalog(running)
    for action in statement.actions:
        _check_action(running, catalog, record, action)
    if isinstance(record, SequenceRecord):
        for action in statement.actions:
            if isinstance(action, st.ChangeOwner):
                _set_owner(running, record, action.owner)
        return
    types = [action for action in statement.actions if isinstance(action, st.SetColumnType)]
    rules = NewRules()
    for number, actions in groupby(sorted(statement.actions, key=_pass_of), key=_pass_of):
        if number == _TYPE_PASS:
            await _set_types(running, catalog, record, types, rules)
            continue
        for action in actions:
            current = own_catalog(running).get(record.oid)
            assert isinstance(current, Relation)
            await _apply(running, current, action, rules)
    await check_existing_rows(running, record.oid, rules)


_TYPE_PASS = 1


def _pass_of(action: st.AlterTableAction) -> int:
    """When an action is carried out (tablecmds.c's AT_PASS_...)."""
    match action:
        case st.DropColumn() | st.DropConstraint() | st.SetNotNull(not_null=False) | st.SetDefault(default=None):
            return 0
        case st.SetColumnType():
            return _TYPE_PASS
        case st.AddColumn():
            return 2
        case st.SetNotNull():
            return 3
        case st.AddConstraint(constraint=st.ConstraintDefinition(kind="p" | "u")):
            return 4
        case st.SetDefault():
            return 5
        case st.AddConstraint():
            return 6
        case _:
            return 7


_OF_SEQUENCES = (st.ChangeOwner,)
_OF_VIEWS = (st.SetDefault, st.ChangeOwner, st.SetStorageOptions)


def _check_action(
    running: Running, catalog: CatalogSnapshot, relation: Relation | SequenceRecord, action: st.AlterTableAction
) -> None:
    """What is wrong with an action whatever the others do."""
    kind = kind_of(relation)
    if kind != "table" and not isinstance(action, _OF_SEQUENCES if kind == "sequence" else _OF_VIEWS):
        raise WrongObjectType(
            f'ALTER action {_action_name(action)} cannot be performed on relation "{relation.name}"',
            detail=f"This operation is not supported for {kind}s.",
        )
    if isinstance(action, st.SetColumnType):
        assert isinstance(relation, Relation)
        attnum = _column(relation, action.name).attnum
        changes = {attnum: ColumnChange(type=action.type, written=action.written_using)}
        rewritten_rows(relation, [attnum], changes, running.parsed, running.session.bind_context(catalog))


async def _apply(running: Running, relation: Relation, action: st.AlterTableAction, rules: NewRules) -> None:
    """Carry out an action; what the rows are yet to be held against goes into `rules`."""
    match action:
        case st.AddColumn():
            await _add_column(running, relation, action, rules)
        case st.DropColumn():
            _drop_column(running, relation, action)
        case st.SetDefault():
            _set_default(running, relation, action)
        case st.SetNotNull():
            _set_not_null(running, relation, action, rules)
        case st.AddConstraint():
            _add_constraint(running, relation, action.constraint, rules)
        case st.DropConstraint():
            _drop_constraint(running, relation, action)
        case st.ValidateConstraint():
            _validate_constraint(running, relation, action, rules)
        case st.ChangeOwner():
            _set_owner(running, relation, action.owner)
        case st.SetStorageOptions():
            pass


def _action_name(action: st.AlterTableAction) -> str:
    return {
        "AddColumn": "ADD COLUMN",
        "DropColumn": "DROP COLUMN",
        "SetNotNull": "ALTER COLUMN ... SET NOT NULL",
        "SetColumnType": "ALTER COLUMN ... SET DATA TYPE",
        "AddConstraint": "ADD CONSTRAINT",
        "DropConstraint": "DROP CONSTRAINT",
        "ValidateConstraint": "VALIDATE CONSTRAINT",
    }.get(type(action).__name__, type(action).__name__)


def _column(relation: Relation, name: str) -> Column:
    column = relation.column(name)
    if column is None:
        raise UndefinedColumn(f'column "{name}" of relation "{relation.name}" does not exist')
    return column


def with_column(relation: Relation, column: Column) -> Relation:
    columns = tuple(column if known.attnum == column.attnum else known for known in relation.columns)
    return msgspec.structs.replace(relation, columns=columns)


def _without_column(relation: Relation, column: Column) -> Relation:
    gone = msgspec.structs.replace(
        column,
        name=f"........pg.dropped.{column.attnum}........",
        dropped=True,
        not_null=False,
        default=None,
        missing=None,
    )
    return with_column(relation, gone)


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
    column = column_of(definition, len(relation.columns) + 1)
    added: list[SequenceRecord] = []
    has_rows = await _row_count(running, relation) > 0
    if definition.serial or definition.identity:
        if has_rows:
            raise FeatureNotSupported("adding a serial or identity column to a table with rows is not supported")
        schema = own_catalog(running).get(relation.schema)
        assert isinstance(schema, Schema)
        sequence = owned_sequence(running, relation.name, schema, relation.oid, column)
        added.append(sequence)
        default = nextval_default(schema, sequence)
        column = msgspec.structs.replace(column, not_null=True, default=default)
    elif column.default is not None:
        column = checked_default(running, column)
        if has_rows and column.default is not None:
            query = default_query(running, column)
            if is_volatile(query):
                raise FeatureNotSupported(
                    "adding a column with a volatile default to a table with rows is not supported"
                )
            column = msgspec.structs.replace(column, missing=await missing_value(running, column))
    if column.missing is None:
        rules.not_null.add(column.attnum)
    changed = msgspec.structs.replace(relation, columns=(*relation.columns, column))
    keys = declared_keys(running, changed, action.constraints)
    columns = tuple(with_not_null(changed.columns, action.constraints))
    changed = with_constraints(msgspec.structs.replace(changed, columns=columns), keys)
    change(running, removed=[relation], added=[changed, *added, *keys])
    name_in_parents(running, keys)
    rules.keys.extend(key.oid for key in keys if key.validated)
    _alter_shard(running, changed)
    checks = add_checks(running, changed, [d for d in action.constraints if d.kind == "c"])
    rules.checks.extend(check.oid for check in checks)


def _alter_shard(running: Running, relation: Relation) -> None:
    assert relation.shard is not None
    txn = running.transaction.writable(running.services.env)
    txn.alter_schema(relation.shard, physical_schema(relation.columns))


async def _row_count(running: Running, relation: Relation) -> int:
    """Rows at the transaction's snapshot; the read counts for validation."""
    resolved = await resolve(
        running.services.env, running.transaction, own_catalog(running), frozenset({relation.oid}), (), ()
    )
    table = resolved.inputs[relation.oid]
    deleted: int = sum(part.rows for part in table.deletes)
    return table.rows - deleted


def _drop_column(running: Running, relation: Relation, action: st.DropColumn) -> None:
    column = relation.column(action.name)
    if column is None:
        if not action.if_exists:
            raise UndefinedColumn(f'column "{action.name}" of relation "{relation.name}" does not exist')
        running.session.notice(
            Notice(
                severity="NOTICE",
                sqlstate="00000",
                message=f'column "{action.name}" of relation "{relation.name}" does not exist, skipping',
            )
        )
        return
    catalog = own_catalog(running)
    lost = [record for record in catalog.constraints(relation.oid) if column.attnum in record.columns]
    for key in list(lost):
        rests = [foreign for foreign in referring(catalog, key) if foreign not in lost]
        if rests:
            what = f"column {column.name} of table {shown_name(running, catalog, relation)}"
            _drop_referring(running, rests, what, what, cascade=action.cascade)
            lost += rests
    changed = without_constraints(_without_column(relation, column), lost)
    what = f"column {column.name} of table {shown_name(running, catalog, relation)}"
    _drop_dependents(running, catalog, relation, changed, what, cascade=action.cascade)
    gone = {record.oid for record in lost}
    parts = [
        record
        for record in own_catalog(running).all()
        if record.oid in gone
        or (isinstance(record, Comment) and record.object_oid == relation.oid and record.subid == column.attnum)
        or (isinstance(record, Comment) and record.object_oid in gone)
        or (isinstance(record, SequenceRecord) and record.owned_by == (relation.oid, column.attnum))
    ]
    views = drop_column_in_views(own_catalog(running), relation, changed)
    change(
        running,
        removed=[relation, *parts, *(old for old, _ in views)],
        added=[changed, *(new for _, new in views)],
    )
    forget_names(running, lost)
    _alter_shard(running, changed)


def _drop_dependents(
    running: Running, catalog: CatalogSnapshot, relation: Relation, changed: Relation, what: str, *, cascade: bool
) -> None:
    """Refuse, or drop with CASCADE, the views that no longer bind once `relation` is `changed`."""
    edited = dict(drop_column_in_views(catalog, relation, changed))
    broken = broken_views(running, catalog, relation, changed, edited)
    if not broken:
        return
    reports: list[tuple[Record, str]] = [(view, what) for view in broken]
    doomed: dict[int, Record] = {view.oid: view for view in broken}
    for record, parent in dependents_of(catalog, doomed):
        doomed[record.oid] = record
        reports.append((record, describe(running, catalog, parent)))
    if not cascade:
        raise DependentObjectsStillExist(
            f"cannot drop {what} because other objects depend on it",
            detail="\n".join(f"{describe(running, catalog, record)} depends on {on}" for record, on in reports),
            hint="Use DROP ... CASCADE to drop the dependent objects too.",
        )
    report_cascade(running, [f"drop cascades to {describe(running, catalog, record)}" for record, _ in reports])
    remove(running, catalog, doomed.values())


def broken_views(
    running: Running,
    catalog: CatalogSnapshot,
    relation: Relation,
    changed: Relation,
    edited: Mapping[Relation, Relation],
) -> list[Relation]:
    """The views directly over `relation` whose query (as `edited` has it) does not bind once it is `changed`."""
    after = catalog.apply([CatalogUpdate(record=relation, diff=-1), CatalogUpdate(record=changed, diff=1)], catalog.csn)
    broken = []
    for record in direct_dependents(catalog, relation.oid):
        if isinstance(record, Relation) and record.definition is not None:
            definition = edited.get(record, record).definition or ""
            try:
                running.session.plan(split_and_parse(definition)[0], after)
            except SqlError:
                broken.append(record)
    return broken


def _set_default(running: Running, relation: Relation, action: st.SetDefault) -> None:
    column = msgspec.structs.replace(_column(relation, action.name), default=action.default)
    if column.default is not None:
        column = checked_default(running, column)
    change(running, removed=[relation], added=[with_column(relation, column)])


def _set_not_null(running: Running, relation: Relation, action: st.SetNotNull, rules: NewRules) -> None:
    column = _column(relation, action.name)
    if action.not_null and not column.not_null:
        rules.not_null.add(column.attnum)
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


async def _set_types(
    running: Running,
    catalog: CatalogSnapshot,
    old: Relation,
    actions: Sequence[st.SetColumnType],
    rules: NewRules,
) -> None:
    """All the ALTER COLUMN TYPE of a statement: it is rewritten once, into a new shard, unless what is stored can be
    be read as the new types. USING reads the rows of `old`, which `catalog` has: the table before the statement."""
    relation = own_catalog(running).get(old.oid)
    assert isinstance(relation, Relation)
    changed = relation
    changes: dict[int, ColumnChange] = {}
    for action in actions:
        column = _column(changed, action.name)
        _check_unseen(running, relation, column)
        if column.attnum in changes and changes[column.attnum].type != _type_of(old, column.attnum):
            raise FeatureNotSupported(f'cannot alter type of column "{column.name}" twice')
        column = msgspec.structs.replace(column, type_oid=action.type.oid, typmod=action.type.typmod)
        if column.default is not None:
            _check_converted_default(running, column)
        changed = with_column(changed, column)
        changes[column.attnum] = ColumnChange(type=action.type, written=action.written_using)
    checks = retyped_checks(running, changed, changes)
    change(running, removed=[old_check for old_check, _ in checks], added=[new_check for _, new_check in checks])
    rules.checks.extend(check.oid for check, _ in checks if check.validated)
    stays = not _has_written(running, relation) and all(
        action.using is None and widens(_column(relation, action.name), action.type) for action in actions
    )
    if stays:
        change(running, removed=[relation], added=[changed])
        _alter_shard(running, changed)
        return
    context = running.session.bind_context(catalog)
    live = [column.attnum for column in relation.live_columns()]
    query = rewritten_rows(old, live, changes, running.parsed, context)
    # A row that comes in the meantime would be missing from the new shard: validated at every isolation level.
    query = msgspec.structs.replace(query, for_update=True)
    read = await prepare_read(running, catalog, query, scan_templates(query.rel))
    schema = catalog.get(old.schema)
    assert isinstance(schema, Schema)
    columns = tuple(msgspec.structs.replace(column, missing=None) for column in changed.columns)
    changed = msgspec.structs.replace(changed, columns=columns, shard=running.services.env.new_shard_id())
    change(running, removed=[relation], added=[changed])
    make_shard(running, changed)
    unchecked = tuple(msgspec.structs.replace(column, not_null=False) for column in columns)
    await fill_table(running, msgspec.structs.replace(changed, columns=unchecked), schema.name, read)
    rules.not_null.update(column.attnum for column in columns if column.not_null and column.attnum in changes)
    assert relation.shard is not None
    running.transaction.writable(running.services.env).forget_shard(relation.shard)


def _type_of(relation: Relation, attnum: int) -> t.SqlType:
    column = next(column for column in relation.columns if column.attnum == attnum)
    return t.column_type(column.type_oid, column.typmod)


def _check_unseen(running: Running, relation: Relation, column: Column) -> None:
    """0A000 for a column that a view shows."""
    catalog = own_catalog(running)
    without = _without_column(relation, column)
    views = broken_views(running, catalog, relation, without, dict(drop_column_in_views(catalog, relation, without)))
    if views:
        raise FeatureNotSupported(
            "cannot alter type of a column used by a view or rule",
            detail=f'rule _RETURN on {describe(running, catalog, views[0])} depends on column "{column.name}"',
        )


def _check_converted_default(running: Running, column: Column) -> None:
    try:
        default_query(running, column)
    except DatatypeMismatch:
        raise DatatypeMismatch(
            f'default for column "{column.name}" cannot be cast automatically to type {format_type(column.type_oid)}'
        ) from None


_WIDER = {t.INT2: (t.INT4, t.INT8), t.INT4: (t.INT8,), t.FLOAT4: (t.FLOAT8,), t.VARCHAR: (t.VARCHAR, t.TEXT)}
"""Types whose values are stored so that reading them as the others is a cast which cannot fail."""


def widens(column: Column, wanted: t.SqlType) -> bool:
    """Whether a file written with the type of `column` can be read as `wanted`."""
    if column.type_oid == t.NUMERIC == wanted.oid:
        old, new = t.numeric_precision_scale(column.typmod), t.numeric_precision_scale(wanted.typmod)
        return old is not None and new is not None and old[1] == new[1] and old[0] <= new[0]
    if wanted.oid not in _WIDER.get(column.type_oid, ()):
        return False
    if column.type_oid == t.FLOAT4:
        # The text of a float4 is no float8's.
        return column.missing is None
    return wanted.typmod == -1 or (column.type_oid == wanted.oid and 0 <= column.typmod <= wanted.typmod)


def _has_written(running: Running, relation: Relation) -> bool:
    """Whether the open transaction has rows of its own in `relation`, made for the types as they were."""
    txn = running.transaction.txn
    if running.transaction.is_own_table(relation):
        return True
    return txn is not None and relation.shard is not None and bool(txn.local_parts(relation.shard))


# ---------------------------------------------------------------- constraints and owners


def _add_constraint(running: Running, relation: Relation, definition: st.ConstraintDefinition, rules: NewRules) -> None:
    if definition.kind == "p":
        rules.not_null.update(
            column.attnum for name in definition.columns if not (column := _column(relation, name)).not_null
        )
    # PostgreSQL gives no positions here.
    unplaced = msgspec.structs.replace(definition, position=None, written=None)
    if definition.kind == "c":
        checks = add_checks(running, relation, (unplaced,))
        rules.checks.extend(check.oid for check in checks if check.validated)
        return
    if unplaced.name is not None and unplaced.kind == "f":
        refuse_duplicate(own_catalog(running), relation, unplaced.name)
    keys = declared_keys(running, relation, (unplaced,))
    columns = tuple(with_not_null(relation.columns, (unplaced,)))
    changed = with_constraints(msgspec.structs.replace(relation, columns=columns), keys)
    change(running, removed=[relation], added=[changed, *keys])
    name_in_parents(running, keys)
    rules.keys.extend(key.oid for key in keys if key.validated)


def _drop_constraint(running: Running, relation: Relation, action: st.DropConstraint) -> None:
    record = find_constraint(own_catalog(running), relation, action.name)
    if record is not None:
        catalog = own_catalog(running)
        lost = referring(catalog, record)
        if lost:
            table = shown_name(running, catalog, relation)
            what, rests_on = f"constraint {record.name} on table {table}", f"index {record.name}"
            _drop_referring(running, lost, what, rests_on, cascade=action.cascade)
        remove_constraints(running, relation, [record, *lost])
        return
    message = f'constraint "{action.name}" of relation "{relation.name}" does not exist'
    if not action.if_exists:
        raise UndefinedObject(message)
    running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=f"{message}, skipping"))


def _drop_referring(running: Running, lost: Sequence[Constraint], what: str, rests_on: str, *, cascade: bool) -> None:
    """2BP01 for `what` is dropped when the foreign keys `lost` rest on it, unless they go with it (CASCADE)."""
    catalog = own_catalog(running)
    tables = [record for foreign in lost if isinstance(record := catalog.get(foreign.relation), Relation)]
    named = [
        f"constraint {foreign.name} on table {shown_name(running, catalog, table)}"
        for foreign, table in zip(lost, tables, strict=True)
    ]
    if not cascade:
        raise DependentObjectsStillExist(
            f"cannot drop {what} because other objects depend on it",
            detail="\n".join(f"{name} depends on {rests_on}" for name in named),
            hint="Use DROP ... CASCADE to drop the dependent objects too.",
        )
    report_cascade(running, [f"drop cascades to {name}" for name in named])


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
    change(running, removed=[record], added=[msgspec.structs.replace(record, validated=True)])
    if record.kind == "c":
        rules.checks.append(record.oid)
    else:
        rules.keys.append(record.oid)


def _set_owner(running: Running, record: Relation | SequenceRecord, owner: str) -> None:
    oid = role_oid(own_catalog(running), running, owner)
    change(running, removed=[record], added=[msgspec.structs.replace(record, owner=oid)])


def role_oid(catalog: CatalogSnapshot, running: Running, name: str) -> int:
    """The oid of a role by name; CURRENT_USER and SESSION_USER by their key words. 42704."""
    name = {"current_user": running.session.user, "session_user": running.session.session_user}.get(name, name)
    for record in catalog.all():
        if isinstance(record, Role) and record.name == name:
            return record.oid
    raise UndefinedObject(f'role "{name}" does not exist')
