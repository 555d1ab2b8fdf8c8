"""Tables that have changed, as the queries of `planner.definitions.maintained` read them: their deltas, and what they
were before, as relations that only one query knows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from adapter.engines.common.engine import TableInput
from adapter.engines.common.scan_sources import conform, scan_columns
from planner.definitions.maintained.increments import WEIGHT, before_name, delta_name
from planner.types import types as t
from storage.catalog.model import CatalogSnapshot, CatalogUpdate, Column, Relation
from storage.ids import ShardId
from storage.shards.parts import ROW_ID, Part
from storage.timestamps.csn import Csn

if TYPE_CHECKING:
    from storage.environment.environment import Environment

FIRST_OID = 290_000_000
"""Oids of relations that only one query knows: smaller than those of temporary tables, and given to nothing else."""

WEIGHT_ATTNUM = 30_000


class ChangedTable(Struct, frozen=True, kw_only=True):
    """A table that has changed after `since`, its delta and what it was as relations, and the rows of the delta."""

    table: Relation
    delta: Relation
    before: Relation
    since: Csn
    rows: pa.Table

    @property
    def has_gone(self) -> bool:
        """Whether any of its rows went."""
        return bool(pc.any(pc.less(self.rows.column(f"c{WEIGHT_ATTNUM}"), 0)).as_py())


def changed_table(table: Relation, number: int, since: Csn, rows: pa.Table) -> ChangedTable:
    """The `number`-th table of a query that has changed."""
    oid = FIRST_OID + 2 * number
    known = replace(table, oid=oid, name=delta_name(table.oid), constraints=(), shard=None, kind="r",
                    definition=None, depends_on=(), materialized=None)  # fmt: skip
    delta = replace(known, columns=(*table.columns, Column(attnum=WEIGHT_ATTNUM, name=WEIGHT, type_oid=t.INT4)))
    before = replace(known, oid=oid + 1, name=before_name(table.oid))
    return ChangedTable(table=table, delta=delta, before=before, since=since, rows=rows)


def with_changed(catalog: CatalogSnapshot, changed: Iterable[ChangedTable]) -> CatalogSnapshot:
    """The catalog with their deltas and what they were."""
    records = [record for each in changed for record in (each.delta, each.before)]
    return catalog.apply([CatalogUpdate(record=record, diff=1) for record in records], catalog.csn)


async def delta_rows(
    env: Environment, table: Relation, inserts: Iterable[Part], deletes: Iterable[Part]
) -> pa.Table | None:
    """The rows of the parts with their weights, in the form of a scan and in one piece; None when parts of deleted rows
    lack columns that the table has now."""
    columns = scan_columns(table)
    names = {column.name for column in columns}
    tables = []
    for weight, parts in ((1, inserts), (-1, deletes)):
        for part in parts:
            if weight < 0 and not names.issubset(part.columns):
                return None
            stored = await env.reader.read_part(part, [ROW_ID, *(name for name in part.columns if name in names)])
            rows = conform(stored, columns)
            tables.append(rows.append_column(f"c{WEIGHT_ATTNUM}", pa.array([weight] * rows.num_rows, pa.int32())))
    return pa.concat_tables(tables).combine_chunks()


async def inputs_of_changed(env: Environment, changed: Iterable[ChangedTable]) -> dict[int, TableInput]:
    """Their deltas, and what they were, by oid. Raises as `ShardReader.snapshot`."""
    tables = {}
    for each in changed:
        shard = each.table.shard
        assert shard is not None
        tables[each.delta.oid] = named_input(each.delta, f"{shard}+{each.since}", rows=each.rows)
        tables[each.before.oid] = await as_it_was(env, each.before, shard, each.since)
    return tables


async def as_it_was(env: Environment, relation: Relation, shard: ShardId, csn: Csn) -> TableInput:
    """`relation` with the rows of the shard at `csn`. Raises as `ShardReader.snapshot`."""
    then = await env.reader.snapshot(shard, csn)
    return named_input(relation, f"{shard}@{csn}", inserts=tuple(then.inserts), deletes=then.deletes)


def named_input(
    relation: Relation,
    shard: str,
    *,
    inserts: tuple[Part, ...] = (),
    deletes: tuple[Part, ...] = (),
    rows: pa.Table | None = None,
) -> TableInput:
    """A relation that only one query knows, under a name of its own in the engine's caches."""
    return TableInput(
        relation=replace(relation, shard=ShardId(shard)),
        inserts=inserts,
        deletes=deletes,
        bytes=sum(part.bytes for part in inserts),
        rows=sum(part.rows for part in inserts) if rows is None else rows.num_rows,
        picked=rows,
    )
