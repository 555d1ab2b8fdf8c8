"""The table that a statement writes to, and the check that every row passes on its way there: NOT NULL.

Rows come as record batches with one column for each live column of the table, in the order of `Target.columns`."""

from __future__ import annotations

import pyarrow.compute as pc
from msgspec import Struct

from adapter.execution.statement import Running
from adapter.plans.row_text import row_text
from adapter.results import RecordBatch
from planner.errors import NotNullViolation, WrongObjectType
from planner.types.types import SqlType, column_type
from storage.catalog.model import Column, Relation, Schema
from storage.ids import ShardId


class Target(Struct, frozen=True, kw_only=True):
    """The table that is written: its live columns in attnum order, and those that may not be NULL."""

    relation: Relation
    schema_name: str
    shard: ShardId
    columns: tuple[Column, ...]
    not_null: frozenset[int]

    @property
    def names(self) -> list[str]:
        """Physical column names."""
        return [f"c{column.attnum}" for column in self.columns]

    @property
    def types(self) -> list[SqlType]:
        """The columns' types."""
        return [column_type(column.type_oid, column.typmod) for column in self.columns]


def target_of(running: Running, relation_oid: int) -> Target:
    """The table with `relation_oid` as the transaction sees it. Raises 42809 for what is no table."""
    catalog = running.transaction.catalog
    assert catalog is not None
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
    )


def check_not_null(target: Target, rows: RecordBatch, running: Running) -> None:
    """Raise 23502 for the first row that has NULL where it may not."""
    failing: tuple[int, Column] | None = None
    for index, column in enumerate(target.columns):
        if column.attnum in target.not_null and rows.column(index).null_count:
            row = pc.index(pc.is_null(rows.column(index)), True).as_py()
            if failing is None or row < failing[0]:
                failing = (row, column)
    if failing is None:
        return
    row, column = failing
    detail = row_text(rows, row, target.types, running.session.values)
    raise NotNullViolation(
        f'null value in column "{column.name}" of relation "{target.relation.name}" violates not-null constraint',
        detail=f"Failing row contains {detail}.",
        schema=target.schema_name,
        table=target.relation.name,
        column=column.name,
    )
