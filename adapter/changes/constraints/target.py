"""The table that a statement writes to.

Rows come as record batches with one column for each live column of the table, in the order of `Target.columns`."""

from __future__ import annotations

from msgspec import Struct

from adapter.changes.constraints.table_checks import TableChecks, table_checks
from adapter.changes.constraints.table_keys import TableKeys, table_keys
from adapter.execution.statement import Running
from planner.errors import WrongObjectType
from planner.types.types import SqlType, column_type
from storage.catalog.model import CatalogSnapshot, Column, Relation, Schema
from storage.ids import ShardId


class Target(Struct, frozen=True, kw_only=True):
    """The table that is written: its live columns in attnum order, those that may not be NULL, its checks, its keys."""

    relation: Relation
    schema_name: str
    shard: ShardId
    columns: tuple[Column, ...]
    not_null: frozenset[int]
    checks: TableChecks | None
    keys: TableKeys | None

    @property
    def names(self) -> list[str]:
        """Physical column names."""
        return [f"c{column.attnum}" for column in self.columns]

    @property
    def types(self) -> list[SqlType]:
        """The columns' types."""
        return [column_type(column.type_oid, column.typmod) for column in self.columns]


def target_of(running: Running, catalog: CatalogSnapshot, relation_oid: int) -> Target:
    """The table with `relation_oid` in the statement's catalog. Raises 42809 for what is no table."""
    relation = catalog.get(relation_oid)
    if not isinstance(relation, Relation) or relation.shard is None:
        name = relation.name if isinstance(relation, Relation) else str(relation_oid)
        raise WrongObjectType(f'cannot change relation "{name}"')
    schema = catalog.get(relation.schema)
    columns = relation.live_columns()
    return Target(
        relation=relation,
        schema_name=schema.name if isinstance(schema, Schema) else "",
        shard=relation.shard,
        columns=columns,
        not_null=frozenset(column.attnum for column in columns if column.not_null),
        checks=table_checks(running, catalog, relation) if relation.constraints else None,
        keys=table_keys(catalog, relation, running.engines.row_values) if relation.constraints else None,
    )
