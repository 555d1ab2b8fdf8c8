"""The table that a statement writes to.

Rows come as record batches with one column for each live column of the table, in the order of `Target.columns`."""

from __future__ import annotations

from msgspec import Struct

from adapter.changes.constraints.table_checks import DomainChecks, TableChecks, domain_checks, table_checks
from adapter.changes.constraints.table_keys import TableKeys, table_keys
from adapter.execution.statement import Running
from adapter.plans.key_indexes import RowValues
from planner.common_errors import Held
from planner.errors import WrongObjectType
from planner.types.table_indexes import unique_keys
from planner.types.types import SqlType, type_of_column
from storage.bounded_map import BoundedMap
from storage.catalog.model import CatalogSnapshot, Column, Relation, Schema
from storage.ids import ShardId
from storage.layouts.definition import layout_of
from storage.layouts.layout import TableLayout

MAX_KEPT = 1000
"""Tables that are kept as targets."""


class Target(Struct, frozen=True, kw_only=True):
    """The table that is written: its live columns in attnum order with their physical names and types, those that may
    not be NULL, the places of those that other tables may refer to, its checks, its keys, its files' layout."""

    relation: Relation
    schema_name: str
    shard: ShardId
    columns: tuple[Column, ...]
    names: list[str]
    types: list[SqlType]
    not_null: frozenset[int]
    key_places: tuple[int, ...]
    checks: TableChecks | None
    domains: DomainChecks | None
    keys: TableKeys | None
    layout: TableLayout | None


_kept: BoundedMap[tuple[int, Held], tuple[CatalogSnapshot, RowValues, Target]] = BoundedMap(max_entries=MAX_KEPT)
"""By oid of the table and how numerics are held, in the catalog and with what computes its keys."""


def target_of(running: Running, catalog: CatalogSnapshot, relation_oid: int) -> Target:
    """The table with `relation_oid` in the statement's catalog. Raises 42809 for what is no table."""
    values = running.engines.row_values
    key = relation_oid, running.session.held
    known = _kept.get(key)
    if known is not None and known[0] is catalog and known[1] is values:
        if known[2].domains is not None:
            running.transaction.rely_on(known[2].domains.domains)
        return known[2]
    relation = catalog.get(relation_oid)
    if not isinstance(relation, Relation) or relation.shard is None:
        name = relation.name if isinstance(relation, Relation) else str(relation_oid)
        raise WrongObjectType(f'cannot change relation "{name}"')
    schema = catalog.get(relation.schema)
    target = target_with(
        relation,
        schema.name if isinstance(schema, Schema) else "",
        key_columns=frozenset([attnum for key in unique_keys(catalog, relation.oid) for attnum in key.columns]),
        checks=table_checks(running, catalog, relation) if relation.constraints else None,
        domains=domain_checks(running, catalog, relation),
        keys=table_keys(catalog, relation, values) if relation.constraints else None,
    )
    if target.domains is not None:
        running.transaction.rely_on(target.domains.domains)
    _kept.put(key, (catalog, values, target))
    return target


def target_with(
    relation: Relation,
    schema_name: str,
    *,
    key_columns: frozenset[int] = frozenset(),
    checks: TableChecks | None = None,
    domains: DomainChecks | None = None,
    keys: TableKeys | None = None,
) -> Target:
    """A table with these checks and keys, whose `key_columns` (attnums) others may refer to."""
    assert relation.shard is not None
    columns = relation.live_columns()
    return Target(
        relation=relation,
        schema_name=schema_name,
        shard=relation.shard,
        columns=columns,
        names=[f"c{column.attnum}" for column in columns],
        types=[type_of_column(column) for column in columns],
        not_null=frozenset([column.attnum for column in columns if column.not_null]),
        key_places=tuple([place for place, column in enumerate(columns) if column.attnum in key_columns]),
        checks=checks,
        domains=domains,
        keys=keys,
        layout=layout_of(relation),
    )
