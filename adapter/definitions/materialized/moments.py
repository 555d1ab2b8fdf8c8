"""The moment to which a refresh brings a view: the statement's snapshot, or an earlier one that all views of a turn
share (`SessionState.refreshed_to`).

A view that is brought to an earlier moment is still written after the snapshot. So what it reads is read at the
snapshot, where that is what it was at the moment; tables that have been written to meanwhile are read as they were.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from adapter.engines.common.engine import TableInput
from adapter.execution.statement import Running
from adapter.materialized.changed_tables import as_it_was
from adapter.materialized.freshness import has_changed, inputs_of
from adapter.materialized.journal import Refresh
from adapter.materialized.views_read import are_of, exact_views, is_exact
from storage.catalog.model import CatalogSnapshot, Relation
from storage.errors import AsOfNotReadable, UnknownShard
from storage.timestamps.csn import Csn


class Inputs(Struct, frozen=True, kw_only=True):
    """How a view's query is run so that it gives what it gave at `moment`: which views it computes, and which tables
    (all by oid) it reads as they were."""

    moment: Csn
    expanded: frozenset[int]
    past: Mapping[int, TableInput]


def moment_of(running: Running, catalog: CatalogSnapshot, view: Relation, last: Refresh | None) -> Csn:
    """To which moment the statement brings the view, whose last refresh was this one."""
    snapshot, wanted = running.transaction.snapshot, running.session.refreshed_to
    assert snapshot is not None
    if wanted is None or not is_exact(view) or last is None:
        return snapshot.csn
    # NOTE: the catalog is that of the snapshot. When it has changed since the moment, tables may be others.
    return wanted if max(last.frontier + 1, catalog.csn) <= wanted < snapshot.csn else snapshot.csn


async def inputs_at(running: Running, catalog: CatalogSnapshot, view: Relation, moment: Csn) -> Inputs | None:
    """What the view's query reads for `moment`; None when it is run as the statement's snapshot has it, for the moment
    is that of the snapshot, or is kept no more."""
    env, snapshot = running.services.env, running.transaction.snapshot
    assert snapshot is not None
    if moment == snapshot.csn:
        return None
    expanded: set[int] = set()
    past: dict[int, TableInput] = {}
    try:
        for below in exact_views(catalog, view):
            if not await are_of(env, catalog, (below,), snapshot.csn, moment):
                expanded.add(below.oid)
        for table in inputs_of(catalog, view):
            assert table.shard is not None
            if await has_changed(env, table.shard, moment, snapshot.csn):
                past[table.oid] = await as_it_was(env, table, table.shard, moment)
    except (AsOfNotReadable, UnknownShard):
        return None
    return Inputs(moment=moment, expanded=frozenset(expanded), past=past)
