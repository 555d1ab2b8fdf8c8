"""Index scans: rows of a table that a query picks by a whole key, read by that key.

``SELECT ... FROM t WHERE id = $1`` over a table of any size reads the rows that have the key, by the key runs of the
table's parts (`storage.shards.indexes`), and no engine runs. Other conditions are tested on the rows that are found.
Small tables are quicker to read whole (`adapter.engines.common.lookups`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct

from adapter.engines.common.engine import TableInput
from adapter.engines.common.lookups import Indexes, Lookup, lookup_of
from adapter.engines.common.result_batches import ResultShape
from adapter.plans.key_indexes import constraint_index, key_arrays, stored_column
from adapter.results import RecordBatch
from adapter.transactions.snapshots import ResolvedTables, own_parts
from adapter.transactions.transaction import Transaction
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from storage.bounded_map import BoundedMap
from storage.catalog.model import CatalogSnapshot, Constraint, Relation
from storage.environment.environment import Environment
from storage.shards.indexes.definition import IndexDefinition, StoredColumn
from storage.shards.indexes.reading.found import Found
from storage.shards.parts import ROW_ID, Part
from storage.shards.shard import ShardChanges
from storage.timestamps.csn import Csn

SMALL_ROWS = 8192
"""Tables of so many inline rows are read whole by the engine's own lookups."""

MAX_QUERIES = 2000
"""Queries of which it is known whether they are lookups."""

_shapes: BoundedMap[int, tuple[BoundQuery, Lookup | None, ResultShape]] = BoundedMap(max_entries=MAX_QUERIES)
"""By identity of the query, which an entry keeps alive."""


class KeyScan(Struct, frozen=True, kw_only=True):
    """A query that is answered by one key of `relation`: the values of `constraint`'s columns, in its order."""

    relation: Relation
    constraint: Constraint
    lookup: Lookup
    shape: ResultShape
    values: tuple[Any, ...]


def key_scan_of(
    query: BoundQuery, catalog: CatalogSnapshot, resolved: ResolvedTables, params: Sequence[ir.Literal]
) -> KeyScan | None:
    """`query` as an index scan; None when it is more than that, or its table is small."""
    if len(resolved.inputs) != 1:
        return None
    ((oid, table),) = resolved.inputs.items()
    if _is_small(table):
        return None
    known = _shapes.get(id(query))
    if known is None:
        known = (query, lookup_of(query.rel), ResultShape(query.rel.fields))
        _shapes.put(id(query), known)
    lookup = known[1]
    if lookup is None or lookup.relation_oid != oid:
        return None
    equal: dict[str, Any] = {}
    for name, _, condition in lookup.conditions:
        operand = condition.operand
        if condition.op == "=" and isinstance(operand, (ir.Literal, ir.Param)):
            literal = params[operand.index - 1] if isinstance(operand, ir.Param) else operand
            equal.setdefault(name, literal.value)
    for constraint_oid in table.relation.constraints:
        constraint = catalog.get(constraint_oid)
        if isinstance(constraint, Constraint) and constraint.kind in "pu" and constraint.relation == oid:
            names = [f"c{attnum}" for attnum in constraint.columns]
            if all(name in equal for name in names):
                return KeyScan(
                    relation=table.relation,
                    constraint=constraint,
                    lookup=lookup,
                    shape=known[2],
                    values=tuple([equal[name] for name in names]),
                )
    return None


def _is_small(table: TableInput) -> bool:
    return table.rows <= SMALL_ROWS and all(part.inline is not None for part in table.inserts)


async def scan_by_key(
    env: Environment, transaction: Transaction, scan: KeyScan, params: Sequence[ir.Literal]
) -> RecordBatch | None:
    """The rows of the query; None when a constant of it is an engine's to compute, or no key can have the value."""
    relation, lookup = scan.relation, scan.lookup
    names = [name for name, _, _ in lookup.conditions]
    names += [output for output in lookup.outputs if isinstance(output, str)]
    wanted = tuple(stored_column(relation, int(name[1:])) for name in dict.fromkeys(names) if name != ROW_ID)
    index = constraint_index(relation, scan.constraint)
    try:
        keys = [pa.array([value]) if value is not None else None for value in scan.values]
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None
    if any(key is None for key in keys):
        found = None
        table = pa.table({name: pa.array([], type_) for name, type_ in _schema(wanted)})
    else:
        found = await rows_by_key(env, transaction, relation, index, scan.values, wanted)
        table = pa.Table.from_batches([found.rows])
    row_ids = pa.array([] if found is None else found.row_ids, pa.int64())
    picked = lookup.pick(table.append_column(ROW_ID, row_ids).combine_chunks(), params, Indexes())
    return None if picked is None else scan.shape.conform(picked)


def _schema(columns: Sequence[StoredColumn]) -> list[tuple[str, pa.DataType]]:
    return [(column.name, column.type) for column in columns]


async def rows_by_key(
    env: Environment,
    transaction: Transaction,
    relation: Relation,
    index: IndexDefinition,
    key: Sequence[Any],
    columns: Sequence[StoredColumn],
) -> Found:
    """The rows of `relation` with the one `key` (Python's values) that the transaction sees, its own among them."""
    parts, local = await visible_parts(env, transaction, relation)
    found = env.keys.lookup_now(parts, index, [key], columns, local=local)
    return found or await env.keys.lookup(parts, index, [key], columns, local=local)


async def rows_by_keys(
    env: Environment,
    transaction: Transaction,
    relation: Relation,
    index: IndexDefinition,
    keys: Sequence[pa.Array],
    columns: Sequence[StoredColumn] = (),
) -> Found:
    """The rows of `relation` with one of `keys` (by columns) that are there for the transaction: also those that the
    statement that runs has written itself."""
    parts, local = await visible_parts(env, transaction, relation, newest=True)
    wanted, same = key_arrays(index, keys), index.nulls_not_distinct
    found = env.keys.lookup_columns_now(parts, index, wanted, columns, local=local, nulls_match=same)
    return found or await env.keys.lookup_columns(parts, index, wanted, columns, local=local, nulls_match=same)


async def visible_parts(
    env: Environment, transaction: Transaction, relation: Relation, *, newest: bool = False
) -> tuple[Any, tuple[Part, ...]]:
    """The parts of `relation` in the transaction's snapshot, and those of its own that the statement sees; `newest`:
    all of its own."""
    shard, snapshot = relation.shard, transaction.snapshot
    assert shard is not None
    assert snapshot is not None
    local = await own_parts(transaction, shard, newest=newest)
    if transaction.is_own_table(relation):
        return ShardChanges(shard=shard, after=Csn(0), until=Csn(0), inserts=(), deletes=()), local
    return await env.reader.snapshot(shard, snapshot.csn), local
