"""What the relation tidegate.materialized_views shows: each materialized view with its last refresh."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from adapter.execution_context import Row
from adapter.materialized.freshness import digest_of_inputs, has_changed, inputs_of, materialized_views, why_stale
from adapter.materialized.journal import UNKNOWN, last_refresh
from storage.catalog.model import CatalogSnapshot, Relation, Schema
from storage.errors import AsOfNotReadable, UnknownShard
from storage.timestamps.csn import Csn, csn_ms

if TYPE_CHECKING:
    from adapter.transactions.transaction import Transaction
    from storage.environment.environment import Environment


async def view_rows(env: Environment, transaction: Transaction, catalog: CatalogSnapshot) -> list[Row]:
    """A row for each view, as of the transaction's snapshot."""
    snapshot = transaction.snapshot
    rows: list[Row] = []
    for view in sorted(materialized_views(catalog), key=lambda view: view.oid):
        how, schema = view.materialized, catalog.get(view.schema)
        if how is None or snapshot is None:
            continue
        row: dict[str, Any] = {
            "schemaname": schema.name if isinstance(schema, Schema) else None,
            "viewname": view.name,
            "refresh": how.refresh,
            "every": {"months": 0, "days": 0, "micros": how.interval_us} if how.refresh == "every" else None,
            "is_populated": how.populated,
        }
        rows.append(row)
        try:
            found = await last_refresh(env, how.journal, snapshot.csn)
            reason = await why_stale(env, transaction, catalog, view)
        except (AsOfNotReadable, UnknownShard):
            continue
        if found is None or not how.populated:
            continue
        row |= {
            "refreshed_at": datetime.fromtimestamp(found.at_us / 1_000_000, UTC),
            "refresh_ms": found.cost_ms,
            "changed_rows": found.changes,
            "method": found.how,
            "is_exact": reason is None,
        }
        if found.inputs != UNKNOWN:
            behind_ms = 0 if reason is None else max(0, csn_ms(snapshot.csn) - csn_ms(found.frontier))
            row |= {
                "frontier": found.frontier,
                "frontier_time": datetime.fromtimestamp(csn_ms(found.frontier) / 1000, UTC),
                "lag": {"months": 0, "days": 0, "micros": behind_ms * 1000},
            }
    return rows


async def lag_ms(env: Environment, catalog: CatalogSnapshot, view: Relation, at: Csn) -> int | None:
    """How far the view's stored rows are behind at `at` (milliseconds): 0 when nothing that it reads has changed since
    they were made; None when nobody can tell of which moment they are."""
    how = view.materialized
    if how is None or not how.populated:
        return None
    try:
        found = await last_refresh(env, how.journal, at)
        if found is None or found.inputs == UNKNOWN:
            return None
        is_behind = found.inputs != digest_of_inputs(catalog, view)
        for table in inputs_of(catalog, view):
            if is_behind:
                break
            shard = table.shard
            if shard is not None and env.reader.last_write(shard) > found.frontier:
                is_behind = await has_changed(env, shard, found.frontier, at)
    except (AsOfNotReadable, UnknownShard):
        return None
    return max(0, csn_ms(at) - csn_ms(found.frontier)) if is_behind else 0
