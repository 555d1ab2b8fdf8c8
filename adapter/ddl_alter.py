"""ALTER TABLE and ALTER VIEW.

Most changes touch the catalog alone: a new column is absent from older parts and read as its `missing` value, a dropped
column stays in old files unread, a rename changes a name. Only a change of type rewrites the table, into a new shard.

A view's stored query names the columns of what it reads; the views over a changed relation are bound again, and a
change under which one of them would no longer bind is refused or cascades.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from adapter.ddl_drop import dependents_of, direct_dependents, remove, report_cascade
from adapter.ddl_tables import (
    change,
    checked_default,
    column_of,
    declare_constraints,
    default_query,
    fill_table,
    make_shard,
    missing_value,
    nextval_default,
    own_catalog,
    owned_sequence,
    physical_schema,
)
from adapter.queries import prepare_plan
from adapter.reads import resolve
from adapter.relation_names import (
    KINDS,
    describe,
    kind_of,
    look_up,
    missing,
    require_schema,
    shown_name,
    skip_missing,
)
from adapter.results import Notice
from adapter.running import Running
from adapter.view_definitions import drop_column_in_views, rename_column_in_views, rename_relation_in_views
from planner import ir
from planner import statements as st
from planner import types as t
from planner.errors import (
    DependentObjectsStillExist,
    DuplicateColumn,
    DuplicateObject,
    DuplicateTable,
    FeatureNotSupported,
    InvalidTableDefinition,
    NotNullViolation,
    SqlError,
    UndefinedColumn,
    UndefinedObject,
    WrongObjectType,
)
from planner.functions.signature import Volatility
from planner.identifiers import quote_identifier
from planner.parse import split_and_parse
from planner.rewrite import walk
from planner.type_names import format_type
from storage.catalog_model import (
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
from storage.catalog_model import Sequence as SequenceRecord


def _target(running: Running, name: st.QualifiedName, kind: str, if_exists: bool) -> Relation | SequenceRecord | None:
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
    """ALTER TABLE with its actions, in order."""
    record = _target(running, statement.name, statement.kind, statement.if_exists)
    if record is None:
        return
    for action in statement.actions:
        current = own_catalog(running).get(record.oid)
        if isinstance(current, SequenceRecord):
            if isinstance(action, st.ChangeOwner):
                _set_owner(running, current, action.owner)
                continue
            raise WrongObjectType(f'ALTER action cannot be performed on relation "{current.name}"')
        assert isinstance(current, Relation)
        await _apply(running, current, action)


async def _apply(running: Running, relation: Relation, action: st.AlterTableAction) -> None:
    if relation.kind != "r" and not isinstance(action, (st.SetDefault, st.ChangeOwner, st.SetStorageOptions)):
        raise WrongObjectType(
            f'ALTER action {_action_name(action)} cannot be performed on relation "{relation.name}"',
            detail=f"This operation is not supported for {KINDS[relation.kind]}s.",
        )
    match action:
        case st.AddColumn():
            await _add_column(running, relation, action)
        case st.DropColumn():
            _drop_column(running, relation, action)
        case st.SetDefault():
            _set_default(running, relation, action)
        case st.SetNotNull():
            await _set_not_null(running, relation, action)
        case st.SetColumnType():
            await _set_type(running, relation, action)
        case st.AddConstraint():
            await _add_constraint(running, relation, action.constraint)
        case st.DropConstraint():
            _drop_constraint(running, relation, action)
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
    }.get(type(action).__name__, type(action).__name__)


def _column(relation: Relation, name: str) -> Column:
    column = relation.column(name)
    if column is None:
        raise UndefinedColumn(f'column "{name}" of relation "{relation.name}" does not exist')
    return column


def _with_column(relation: Relation, column: Column) -> Relation:
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
    return _with_column(relation, gone)


# ---------------------------------------------------------------- columns


async def _add_column(running: Running, relation: Relation, action: st.AddColumn) -> None:
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
            if any(
                isinstance(node, ir.Call) and node.signature.volatility is Volatility.VOLATILE for node in walk(query)
            ):
                raise FeatureNotSupported(
                    "adding a column with a volatile default to a table with rows is not supported"
                )
            column = msgspec.structs.replace(column, missing=await missing_value(running, column))
    if column.not_null and column.missing is None and has_rows:
        raise _contains_nulls(running, relation, column.name)
    changed = msgspec.structs.replace(relation, columns=(*relation.columns, column))
    columns, constraints = declare_constraints(
        running, relation.name, relation.oid, list(changed.columns), action.constraints
    )
    changed = msgspec.structs.replace(changed, columns=tuple(columns))
    change(running, removed=[relation], added=[changed, *added, *constraints])
    _alter_shard(running, changed)


def _alter_shard(running: Running, relation: Relation) -> None:
    assert relation.shard is not None
    txn = running.transaction.writable(running.session.state.env)
    txn.alter_schema(relation.shard, physical_schema(relation.columns))


async def _row_count(running: Running, relation: Relation) -> int:
    """Rows at the transaction's snapshot; the read counts for validation."""
    resolved = await resolve(
        running.session.state.env, running.transaction, own_catalog(running), frozenset({relation.oid}), (), ()
    )
    table = resolved.inputs[relation.oid]
    deleted: int = sum(part.rows for part in table.deletes)
    return table.rows - deleted


def _contains_nulls(running: Running, relation: Relation, column: str) -> NotNullViolation:
    schema = own_catalog(running).get(relation.schema)
    return NotNullViolation(
        f'column "{column}" of relation "{relation.name}" contains null values',
        schema=schema.name if isinstance(schema, Schema) else None,
        table=relation.name,
        column=column,
    )


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
    changed = _without_column(relation, column)
    catalog = own_catalog(running)
    what = f"column {column.name} of table {shown_name(running, catalog, relation)}"
    _drop_dependents(running, catalog, relation, changed, what, cascade=action.cascade)
    parts = [
        record
        for record in own_catalog(running).all()
        if (isinstance(record, Constraint) and record.relation == relation.oid and column.attnum in record.columns)
        or (isinstance(record, Comment) and record.object_oid == relation.oid and record.subid == column.attnum)
        or (isinstance(record, SequenceRecord) and record.owned_by == (relation.oid, column.attnum))
    ]
    views = drop_column_in_views(own_catalog(running), relation, changed)
    change(
        running,
        removed=[relation, *parts, *(old for old, _ in views)],
        added=[changed, *(new for _, new in views)],
    )
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
    change(running, removed=[relation], added=[_with_column(relation, column)])


async def _set_not_null(running: Running, relation: Relation, action: st.SetNotNull) -> None:
    column = _column(relation, action.name)
    if action.not_null and not column.not_null and await _has_nulls(running, relation, column):
        raise _contains_nulls(running, relation, column.name)
    if not action.not_null:
        for record in own_catalog(running).all():
            if (
                isinstance(record, Constraint)
                and record.kind == "p"
                and record.relation == relation.oid
                and column.attnum in record.columns
            ):
                raise InvalidTableDefinition(f'column "{column.name}" is in a primary key')
    changed = _with_column(relation, msgspec.structs.replace(column, not_null=action.not_null))
    change(running, removed=[relation], added=[changed])


async def _has_nulls(running: Running, relation: Relation, column: Column) -> bool:
    schema = own_catalog(running).get(relation.schema)
    assert isinstance(schema, Schema)
    table = f"{quote_identifier(schema.name)}.{quote_identifier(relation.name)}"
    text = f"SELECT 1 FROM {table} WHERE {quote_identifier(column.name)} IS NULL LIMIT 1"
    plan = running.session.plan(split_and_parse(text)[0], own_catalog(running))
    read = await prepare_plan(running, plan)
    count = 0
    async for batch in read.stream():
        count += batch.num_rows
    return count > 0


async def _set_type(running: Running, relation: Relation, action: st.SetColumnType) -> None:
    """ALTER COLUMN TYPE rewrites the table into a new shard, unless what is stored can be read as the new type."""
    column = _column(relation, action.name)
    changed_column = msgspec.structs.replace(column, type_oid=action.type.oid, typmod=action.type.typmod, missing=None)
    catalog = own_catalog(running)
    schema = catalog.get(relation.schema)
    assert isinstance(schema, Schema)
    without = _without_column(relation, column)
    views = broken_views(running, catalog, relation, without, dict(drop_column_in_views(catalog, relation, without)))
    if views:
        raise FeatureNotSupported(
            "cannot alter type of a column used by a view or rule",
            detail=f'rule _RETURN on {describe(running, catalog, views[0])} depends on column "{column.name}"',
        )
    if action.using is None and widens(column, action.type) and not _has_written(running, relation):
        wider = msgspec.structs.replace(column, type_oid=action.type.oid, typmod=action.type.typmod)
        if wider.default is not None:
            default_query(running, wider)
        changed = _with_column(relation, wider)
        change(running, removed=[relation], added=[changed])
        _alter_shard(running, changed)
        return
    type_text = format_type(action.type.oid, action.type.typmod)
    items = []
    for known in relation.live_columns():
        if known.attnum == column.attnum:
            source = f"({action.using})" if action.using is not None else quote_identifier(known.name)
            items.append(f"CAST({source} AS {type_text})")
        else:
            items.append(quote_identifier(known.name))
    text = f"SELECT {', '.join(items)} FROM {quote_identifier(schema.name)}.{quote_identifier(relation.name)}"
    plan = running.session.plan(split_and_parse(text)[0], catalog)
    if changed_column.default is not None:
        default_query(running, changed_column)
    columns = tuple(
        changed_column if c.attnum == column.attnum else msgspec.structs.replace(c, missing=None)
        for c in relation.columns
    )
    changed = msgspec.structs.replace(relation, columns=columns, shard=running.session.state.env.new_shard_id())
    read = await prepare_plan(running, plan)
    change(running, removed=[relation], added=[changed])
    make_shard(running, changed)
    await fill_table(running, changed, schema.name, read)
    assert relation.shard is not None
    running.transaction.writable(running.session.state.env).forget_shard(relation.shard)


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


async def _add_constraint(running: Running, relation: Relation, definition: st.ConstraintDefinition) -> None:
    if definition.kind == "p":
        for name in definition.columns:
            column = _column(relation, name)
            if not column.not_null and await _has_nulls(running, relation, column):
                raise _contains_nulls(running, relation, name)
    columns, constraints = declare_constraints(
        running, relation.name, relation.oid, list(relation.columns), (definition,)
    )
    for record in own_catalog(running).all():
        if isinstance(record, Constraint) and record.relation == relation.oid and record.name == constraints[0].name:
            raise DuplicateObject(f'constraint "{record.name}" for relation "{relation.name}" already exists')
    changed = msgspec.structs.replace(relation, columns=tuple(columns))
    removed = [relation] if changed != relation else []
    change(running, removed=removed, added=[*([changed] if removed else []), *constraints])


def _drop_constraint(running: Running, relation: Relation, action: st.DropConstraint) -> None:
    for record in own_catalog(running).all():
        if isinstance(record, Constraint) and record.relation == relation.oid and record.name == action.name:
            change(running, removed=[record])
            return
    message = f'constraint "{action.name}" of relation "{relation.name}" does not exist'
    if not action.if_exists:
        raise UndefinedObject(message)
    running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=f"{message}, skipping"))


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


# ---------------------------------------------------------------- names


async def rename_column(running: Running, statement: st.RenameColumn) -> None:
    """RENAME COLUMN, of tables and views."""
    relation = _target(running, statement.relation, statement.kind, statement.if_exists)
    if relation is None:
        return
    if not isinstance(relation, Relation):
        raise WrongObjectType(f'cannot rename columns of sequence "{relation.name}"')
    column = relation.column(statement.name)
    if column is None:
        raise UndefinedColumn(f'column "{statement.name}" does not exist')
    if relation.column(statement.new_name) is not None:
        raise DuplicateColumn(f'column "{statement.new_name}" of relation "{relation.name}" already exists')
    changed = _with_column(relation, msgspec.structs.replace(column, name=statement.new_name))
    views = rename_column_in_views(running, own_catalog(running), relation, changed, column.name, statement.new_name)
    change(
        running,
        removed=[relation, *(old for old, _ in views)],
        added=[changed, *(new for _, new in views)],
    )


async def rename_relation(running: Running, statement: st.RenameRelation) -> None:
    """RENAME TO, of tables, views and sequences."""
    record = _target(running, statement.relation, statement.kind, statement.if_exists)
    if record is None:
        return
    _check_free(running, record.schema, statement.new_name)
    _move(running, record, msgspec.structs.replace(record, name=statement.new_name))


async def set_schema(running: Running, statement: st.SetSchema) -> None:
    """SET SCHEMA, of tables, views and sequences."""
    record = _target(running, statement.relation, statement.kind, statement.if_exists)
    if record is None:
        return
    schema = require_schema(own_catalog(running), statement.new_schema)
    if schema.oid == record.schema:
        return
    if (schema.oid, record.name) in own_catalog(running).relation_names:
        raise DuplicateTable(f'relation "{record.name}" already exists in schema "{schema.name}"')
    _move(running, record, msgspec.structs.replace(record, schema=schema.oid))


def _check_free(running: Running, schema: int, name: str) -> None:
    if (schema, name) in own_catalog(running).relation_names:
        raise DuplicateTable(f'relation "{name}" already exists')


def _move(running: Running, record: Relation | SequenceRecord, changed: Relation | SequenceRecord) -> None:
    catalog = own_catalog(running)
    views: list[tuple[Relation, Relation]] = []
    if isinstance(record, Relation) and isinstance(changed, Relation):
        views = rename_relation_in_views(running, catalog, record, changed)
    change(running, removed=[record, *(old for old, _ in views)], added=[changed, *(new for _, new in views)])
