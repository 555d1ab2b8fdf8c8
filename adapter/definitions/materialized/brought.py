"""Reading a view that is refreshed on commit by its stored rows and what has changed since.

Between a commit and the refresh that follows it, the stored rows are of an earlier moment. Over large tables it takes
less to work out what has changed of them than to run the query: the statement then reads the stored rows without those
that went, and with those that came, as if they had been written. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from adapter.definitions.materialized.increments import as_stored, changed_rows
from adapter.definitions.materialized.refreshing import source_plan
from adapter.engines.common.engine import TableInput
from adapter.execution.statement import Running
from adapter.materialized.freshness import inputs_of
from adapter.materialized.journal import Refresh, last_refresh
from storage.bounded_map import BoundedMap
from storage.catalog.model import CatalogRecord, CatalogSnapshot, Relation
from storage.errors import AsOfNotReadable, UnknownShard
from storage.shards.parts import PROVISIONAL_ROW_ID, ROW_ID, Part, inline_part
from storage.timestamps.csn import Csn

MIN_ROWS = 300_000
"""Views over fewer rows than these are computed sooner than their changes are worked out."""

MAX_BROUGHT_ROWS = 50_000
"""So many rows are kept in memory for a statement; a view that has changed more is computed."""


class _Known(Struct, frozen=True, kw_only=True):
    """What has changed of a view since its refresh `last`, when the last writes of what it reads were these."""

    catalog: CatalogSnapshot
    last: Refresh
    writes: tuple[Csn, ...]
    parts: tuple[Part, ...]


_kept: BoundedMap[int, _Known] = BoundedMap(max_entries=100)
"""By view. Many statements may read it before it is refreshed."""


async def brought_forward(
    running: Running, catalog: CatalogSnapshot, records: Iterable[CatalogRecord], stale: frozenset[int]
) -> Mapping[int, TableInput]:
    """By oid, those of the `stale` views among `records` that are read from their stored rows and what has changed
    since, at the transaction's snapshot. The others are to be computed."""
    found: dict[int, TableInput] = {}
    snapshot = running.transaction.snapshot
    if snapshot is None or snapshot.ahead or running.session.values.flat["engine"] == "spark":
        return found
    for view in records:
        if isinstance(view, Relation) and view.oid in stale and view.oid not in found:
            try:
                rows = await _brought(running, catalog, view, snapshot.csn)
            except (AsOfNotReadable, UnknownShard):
                continue
            if rows is not None:
                found[view.oid] = rows
    return found


async def _brought(running: Running, catalog: CatalogSnapshot, view: Relation, csn: Csn) -> TableInput | None:
    env = running.services.env
    assert view.materialized is not None
    assert view.shard is not None
    shards = [table.shard for table in inputs_of(catalog, view) if table.shard is not None]
    written = running.transaction.created_shards
    if running.transaction.txn is not None:
        written = written | running.transaction.txn.shards
    last = await last_refresh(env, view.materialized.journal, csn)
    if last is None or not written.isdisjoint({*shards, view.shard, view.materialized.journal}):
        return None
    writes = tuple(env.reader.last_write(shard) for shard in shards)
    known = _kept.get(view.oid)
    if known is None or (known.catalog, known.last, known.writes) != (catalog, last, writes) or max(writes) > csn:
        rows = 0
        for shard in shards:
            rows += sum(part.rows for part in (await env.reader.snapshot(shard, csn)).inserts)
        if rows < MIN_ROWS:
            return None
        increment = await changed_rows(running, catalog, view, await source_plan(running, catalog, view), last, csn)
        if increment is None or increment.frontier != csn:
            return None
        changes = sum(batch.num_rows for batch in increment.batches)
        if changes > MAX_BROUGHT_ROWS:
            return None
        known = _Known(catalog=catalog, last=last, writes=writes, parts=_parts(view, increment.batches))
        if max(writes) <= csn:
            _kept.put(view.oid, known)
    stored = await env.reader.snapshot(view.shard, csn)
    inserts = (*stored.inserts, *(part for part in known.parts if part.kind == "insert"))
    return TableInput(
        relation=view,
        inserts=inserts,
        deletes=(*stored.deletes, *(part for part in known.parts if part.kind == "delete")),
        bytes=sum(part.bytes for part in inserts),
        rows=sum(part.rows for part in inserts),
    )


def _parts(view: Relation, batches: Sequence[Any]) -> tuple[Part, ...]:
    """The changes as parts such as a transaction has of its own."""
    tables = [(batch.columns[1], as_stored(view, batch.columns[2:])) for batch in batches if batch.num_rows]
    if not tables:
        return ()
    ids, rows = pa.chunked_array([ids for ids, _ in tables]), pa.concat_tables([rows for _, rows in tables])
    gone = pc.is_valid(ids)
    came, went = rows.filter(pc.invert(gone)), rows.filter(gone).add_column(0, ROW_ID, ids.filter(gone))
    parts = []
    if came.num_rows:
        parts.append(replace(inline_part("insert", came), first_row_id=PROVISIONAL_ROW_ID))
    if went.num_rows:
        parts.append(inline_part("delete", went))
    return tuple(parts)
