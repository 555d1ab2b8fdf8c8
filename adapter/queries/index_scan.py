"""Index scans: a table of which an index finds the rows that a query needs is read by that index.

What a query needs of a table is known from its conditions (`adapter.plans.predicates`), whatever else it does: joins,
groups, changes rows. So its rows are found first (`adapter.plans.index_paths` says how), and the query runs over them
as over a small table: often without any engine. It does so when that reads less than a scan, which is known before a
row is read: indexes know how many rows they have where, and which of them are at hand. Small tables are read whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from adapter.engines.common.engine import RecordBatch, TableInput
from adapter.engines.common.result_batches import ResultShape
from adapter.engines.common.scan_sources import scan_columns, scan_schema
from adapter.plans.index_paths import IndexPath, index_paths
from adapter.plans.key_indexes import stored_columns, usable_indexes
from adapter.plans.predicates import Conjunction
from adapter.plans.row_queries import row_query
from adapter.queries.key_scan import rows_by_key_values, rows_in_range, visible_parts
from adapter.transactions.snapshots import ResolvedTables, is_small
from adapter.transactions.transaction import Transaction
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from storage.catalog.model import CatalogSnapshot, Relation
from storage.environment.environment import Environment
from storage.shards.indexes.reading.estimates import MOST_ROWS, Estimate
from storage.shards.indexes.reading.found import Found

FEW_ROWS = 64
"""So many rows are worth an index in a table of any size."""

SCANNED_AT_ONCE = 8
"""A scan reads so many rows while an index finds one."""

ENGINE_ROWS = 65_536
"""So many rows a scan could read before its engine has begun."""

Paths: TypeAlias = tuple[IndexPath, ...]
"""How the rows of one table are found: one path for each conjunction."""


class Narrowed(Struct, frozen=True, kw_only=True):
    """What a query reads, some tables by indexes: `paths` by their oids. Their rows have been `picked` unless it was
    only asked what would be done."""

    tables: ResolvedTables
    paths: Mapping[int, Paths]


async def narrowed(
    env: Environment,
    transaction: Transaction,
    catalog: CatalogSnapshot,
    tables: ResolvedTables,
    *,
    read: bool,
    always: bool = False,
) -> Narrowed | None:
    """`tables` with those read by indexes where it pays, or `always` where it can be; None when none is. `read`: else
    no row is read."""
    paths: dict[int, Paths] = {}
    inputs = dict(tables.inputs)
    for oid, table in tables.inputs.items():
        if is_small(table):
            continue
        found = await _paths(env, transaction, catalog, table, tables.needed.get(oid, ((),)), always)
        if found is not None:
            paths[oid] = found
            if read:
                inputs[oid] = with_rows(table, await _picked(env, transaction, table.relation, found))
    return Narrowed(tables=replace(tables, inputs=inputs), paths=paths) if paths else None


def with_rows(table: TableInput, rows: pa.Table) -> TableInput:
    """`table`, of which nothing but `rows` is read."""
    return replace(table, inserts=(), deletes=(), bytes=rows.nbytes, rows=rows.num_rows, picked=rows)


async def _paths(
    env: Environment,
    transaction: Transaction,
    catalog: CatalogSnapshot,
    table: TableInput,
    needed: Sequence[Conjunction],
    always: bool,
) -> Paths | None:
    indexes = usable_indexes(catalog, table.relation)
    chosen = []
    left = Estimate(rows=table.rows // SCANNED_AT_ONCE, unread=table.rows + ENGINE_ROWS)
    for conjunction in needed:
        best: tuple[IndexPath, Estimate] | None = None
        for path in index_paths(conjunction, indexes):
            cost = await _cost(env, transaction, table.relation, path)
            if best is None or cost.rows < best[1].rows:
                best = path, cost
        if best is None:
            return None
        path, cost = best
        if cost.rows > (MOST_ROWS if always else FEW_ROWS) and (cost.rows > left.rows or cost.unread > left.unread):
            return None
        left = Estimate(rows=left.rows - cost.rows, unread=left.unread - cost.unread)
        chosen.append(path)
    return tuple(chosen)


async def _cost(env: Environment, transaction: Transaction, relation: Relation, path: IndexPath) -> Estimate:
    most = path.most_rows
    if most is not None and most <= FEW_ROWS:
        return Estimate(rows=most, unread=0)
    parts, local = await visible_parts(env, transaction, relation)
    found = await env.keys.estimate(parts, path.index.definition, keys=path.keys, ranges=path.ranges, local=local)
    return found if found.rows <= MOST_ROWS else replace(found, rows=1 << 62)


async def _picked(env: Environment, transaction: Transaction, relation: Relation, paths: Paths) -> pa.Table:
    """The rows of all `paths`, each once."""
    columns = stored_columns(relation)
    found: list[Found] = []
    for path in paths:
        index = path.index.definition
        if path.keys is None:
            found += [await rows_in_range(env, transaction, relation, index, each, columns) for each in path.ranges]
        elif path.keys:
            found.append(await rows_by_key_values(env, transaction, relation, index, path.keys, columns))
    return as_table(relation, found)


def as_table(relation: Relation, found: Sequence[Found]) -> pa.Table:
    """The rows `found`, each once, in `scan_schema`."""
    schema = scan_schema(scan_columns(relation))
    if not found:
        return schema.empty_table()
    ids = np.concatenate([each.row_ids for each in found])
    pieces = [
        pa.Table.from_arrays([pa.array(each.row_ids, pa.int64()), *each.rows.columns], schema=schema) for each in found
    ]
    rows = pa.concat_tables(pieces)
    if len(found) > 1:
        _, first = np.unique(ids, return_index=True)
        if len(first) < len(ids):
            rows = rows.take(pa.array(np.sort(first)))
    return rows.combine_chunks()


def answer(
    query: BoundQuery, params: Sequence[ir.Literal], found: Narrowed, *, read: bool
) -> tuple[bool, RecordBatch | None]:
    """Whether `query` needs no engine over the rows of its only table, and if they have been `read` its result."""
    if len(found.tables.inputs) != 1:
        return False, None
    ((_, table),) = found.tables.inputs.items()
    simple = row_query(query.rel, params, scan_schema(scan_columns(table.relation)))
    if simple is None or not read:
        return simple is not None, None
    result = simple.answer(_batch(table.picked))
    return result is not None, None if result is None else ResultShape(query.rel.fields).conform(result)


def _batch(rows: pa.Table) -> RecordBatch:
    (batch,) = rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]
    return batch
