"""How large tables and indexes are: what pg_relation_size, pg_class.reltuples and their like tell."""

from __future__ import annotations

from contextlib import suppress

from msgspec import Struct, field

from adapter.transactions.snapshots import own_parts
from adapter.transactions.transaction import Transaction
from planner.types.table_indexes import constraint_of_index, indexes_of
from storage.catalog.model import CatalogSnapshot, Relation
from storage.catalog.temporary import is_temporary
from storage.environment.environment import Environment
from storage.errors import UnknownShard
from storage.shards.packed_parts import run_bytes_of


class Extents(Struct, frozen=True, kw_only=True):
    """By oid of tables and indexes: their bytes, the rows that there are, and those that were deleted and are still in
    files."""

    bytes: dict[int, int] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    dead: dict[int, int] = field(default_factory=dict)


async def extents_of(env: Environment, transaction: Transaction, catalog: CatalogSnapshot) -> Extents:
    """How large each table and each index is at the newest snapshot."""
    as_of = await env.oracle.read_ts("user")
    found = Extents()
    for record in catalog.all():
        if not isinstance(record, Relation) or record.shard is None:
            continue
        if is_temporary(record.oid):
            parts = await own_parts(transaction, record.shard)
            found.bytes[record.oid] = sum(part.bytes for part in parts)
            continue
        with suppress(UnknownShard):
            snapshot = await env.reader.snapshot(record.shard, as_of)
            found.bytes[record.oid], found.rows[record.oid] = snapshot.bytes, snapshot.rows
            found.dead[record.oid] = sum(part.rows for part in snapshot.deletes)
            runs = run_bytes_of(snapshot.inserts)
            for index in indexes_of(catalog, record):
                constraint = None if index.constraint is not None else constraint_of_index(catalog, index.oid)
                found.bytes[index.oid] = runs.get(index.oid if constraint is None else constraint.oid, 0)
                found.rows[index.oid] = snapshot.rows
    return found
