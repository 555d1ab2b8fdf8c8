"""What every definition does to the catalog: records out, records in, new oids."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec

from adapter.access.following import privileges_of_changed
from adapter.access.roles import require_role, role_with
from adapter.access.type_usage import require_types
from adapter.definitions.common.row_types import follow_fields
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.results import Notice
from planner.common_errors import missing_column
from planner.errors import DuplicateObject, DuplicateTable, FeatureNotSupported, TooManyColumns, UndefinedObject
from planner.statements import records as st
from planner.syntax.names import CURRENT_USER, SESSION_USER
from planner.types.system_relations import SYSTEM_COLUMN_NAMES
from planner.types.table_indexes import is_taken
from storage.catalog.access import Role
from storage.catalog.model import CatalogRecord, CatalogSnapshot, CatalogUpdate, Column, Constraint, Relation, Schema
from storage.catalog.temporary import is_temporary
from storage.ids import ShardId, new_temporary_shard_id
from storage.ids import is_temporary as is_temporary_shard

MAX_COLUMNS = 1600
"""PostgreSQL's limit of columns in a table."""


def check_column_count(count: int) -> None:
    """54011 for a table, view or composite type of so many columns."""
    if count > MAX_COLUMNS:
        raise TooManyColumns(f"tables can have at most {MAX_COLUMNS} columns")


def check_free_row_type(catalog: CatalogSnapshot, schema: int, name: str) -> None:
    """42710 when a relation cannot be called so, since the type of its rows would share its name with another."""
    if (schema, name) in catalog.type_names:
        raise DuplicateObject(
            f'type "{name}" already exists',
            hint="A relation has an associated type of the same name, so you must use a name that doesn't conflict "
            "with any existing type.",
        )


def owner_oid(running: Running) -> int:
    """The oid of the current role. 42704 when it has been dropped meanwhile."""
    oid = running.session.values.identity.current
    if role_with(own_catalog(running), oid) is None:
        raise UndefinedObject(f"role {oid} was concurrently dropped")
    return oid


def named_role(running: Running, name: str) -> Role:
    """The role of this name; CURRENT_USER and SESSION_USER by their key words. 42704."""
    catalog, identity = own_catalog(running), running.session.values.identity
    oid = {CURRENT_USER: identity.current, SESSION_USER: identity.session}.get(name)
    role = None if oid is None else role_with(catalog, oid)
    return require_role(catalog, name) if role is None else role


def change(running: Running, removed: Iterable[CatalogRecord] = (), added: Iterable[CatalogRecord] = ()) -> None:
    """Take records out of the catalog and put others in, as part of the transaction. Objects that are new get the
    privileges that ALTER DEFAULT PRIVILEGES says; those of objects that have a new owner follow. 42501 for a type that
    the current role may not use. Tables with values of a type whose fields change follow."""
    gone, come, before = list(removed), list(added), own_catalog(running)
    running.transaction.rely_on(gone)
    require_types(running.session.rights(before), gone, come)
    lost, gained = privileges_of_changed(before, gone, come, partial(new_oid, running))
    updates = [CatalogUpdate(record=record, diff=-1) for record in (*gone, *lost)]
    updates.extend(CatalogUpdate(record=record, diff=1) for record in (*come, *gained))
    running.transaction.change_catalog(updates)
    relations = {record.oid: record for record in come if isinstance(record, Relation)}
    for old in gone:
        if isinstance(old, Relation) and old.oid in relations:
            tables = follow_fields(running, before, old, relations[old.oid])
            running.transaction.rely_on(update.record for update in tables if update.diff < 0)
            running.transaction.change_catalog(tables)


def new_oid(running: Running, within: int = 0) -> int:
    """An oid for a new object: a temporary one's, when it belongs to the temporary schema or table `within`."""
    return running.services.temporary_oid() if is_temporary(within) else running.services.allocate_oid()


def new_shard_id(running: Running, relation: int) -> ShardId:
    """An id for a shard of the table with this oid."""
    env = running.services.env
    return new_temporary_shard_id(env.random) if is_temporary(relation) else env.new_shard_id()


def forget_shard(running: Running, shard: ShardId) -> None:
    """The shard is no table's any more. A temporary one's rows go when the transaction commits without it."""
    if not is_temporary_shard(shard):
        running.transaction.writable(running.services.env).forget_shard(shard)


def shards_of(relation: Relation) -> list[ShardId]:
    """The shards that go with the relation: its rows', and the journal of a materialized view."""
    journal = None if relation.materialized is None else relation.materialized.journal
    return [shard for shard in (relation.shard, journal) if shard is not None]


def require_column(relation: Relation, name: str) -> Column:
    """The live column called `name`, which is to be altered. 42703, 0A000 for a system column."""
    column = relation.column(name)
    if column is None:
        refuse_system_column(relation, name, "alter")
        raise missing_column(relation.name, name)
    return column


def refuse_system_column(relation: Relation, name: str, verb: str) -> None:
    """0A000 for a column that each table has by itself."""
    if relation.kind in "rmf" and name in SYSTEM_COLUMN_NAMES:
        raise FeatureNotSupported(f'cannot {verb} system column "{name}"')


def with_column(relation: Relation, column: Column) -> Relation:
    """The record with `column` in place of the one with its attnum."""
    columns = tuple(column if known.attnum == column.attnum else known for known in relation.columns)
    return msgspec.structs.replace(relation, columns=columns)


def without_column(relation: Relation, column: Column) -> Relation:
    """The record once `column` is dropped."""
    gone = msgspec.structs.replace(
        column,
        name=f"........pg.dropped.{column.attnum}........",
        dropped=True,
        not_null=False,
        default=None,
        generated="",
        identity="",
        sequence=None,
        missing=None,
        options=(),
        statistics=-1,
    )
    return with_column(relation, gone)


def names_constraint(catalog: CatalogSnapshot, schema: int, name: str) -> bool:
    """Whether a constraint of a relation in the schema with this oid has the name."""
    constraints = [catalog.get(oid) for oid in catalog.constraint_names.get(name, ())]
    tables = [catalog.get(each.relation) for each in constraints if isinstance(each, Constraint)]
    return any(isinstance(table, Relation) and table.schema == schema for table in tables)


def exists_already(
    running: Running, catalog: CatalogSnapshot, schema: Schema, name: st.QualifiedName, *, skip: bool
) -> bool:
    """Whether the name is taken: True with a notice when that is to be skipped, else 42P07."""
    if not is_taken(catalog, schema.oid, name.name):
        check_free_row_type(catalog, schema.oid, name.name)
        return False
    if not skip:
        raise DuplicateTable(f'relation "{name.name}" already exists')
    running.session.notice(
        Notice(severity="NOTICE", sqlstate="42P07", message=f'relation "{name.name}" already exists, skipping')
    )
    return True
