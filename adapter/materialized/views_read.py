"""Views over views: of which moment the stored rows are of the views that a view reads.

The rows of a view that is refreshed on commit, as they are stored at some CSN, are what its query gives at the
frontier in its journal there, and at every later moment until something that it reads is written to. A view over it is
brought to a moment of which the rows of all views that it reads are, and takes what has changed in these rows for their
delta.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from adapter.materialized.freshness import digest_of_inputs, has_changed, inputs_of
from adapter.materialized.journal import UNKNOWN, Refresh, last_refresh
from storage.catalog.model import CatalogRecord, CatalogSnapshot, Relation
from storage.timestamps.csn import Csn, csn_ms

if TYPE_CHECKING:
    from storage.environment.environment import Environment

MIN_KEPT_MS = 60_000
"""A history of less is not held on to: that would be a write every few seconds."""


def exact_views(catalog: CatalogSnapshot, view: Relation) -> tuple[Relation, ...]:
    """The views refreshed on commit among all that the query of `view` goes through."""
    records = map(catalog.get, view.depends_on)
    return tuple(record for record in records if isinstance(record, Relation) and is_exact(record))


def exact_views_of(catalog: CatalogSnapshot, records: Iterable[CatalogRecord]) -> tuple[Relation, ...]:
    """The views refreshed on commit among `records`, and those that their queries go through."""
    found: dict[int, Relation] = {}
    for record in records:
        if isinstance(record, Relation) and is_exact(record):
            found[record.oid] = record
            found.update({view.oid: view for view in exact_views(catalog, record)})
    return tuple(found.values())


def is_exact(relation: Relation) -> bool:
    """Whether `relation` is a view that is refreshed on commit."""
    return relation.materialized is not None and relation.materialized.refresh == "on commit"


def grows_old(env: Environment, catalog: CatalogSnapshot, view: Relation, last: Refresh, now: Csn) -> bool:
    """Whether half of the time has passed since the `last` refresh of `view` for which the history is kept of what it
    reads. Whoever refreshes it after the whole of it has to compute it, however little will have changed; so its
    frontier moves on also while nothing changes."""
    read = (*inputs_of(catalog, view), *exact_views(catalog, view))
    kept_ms = min((env.retention.of(each.shard) for each in read if each.shard is not None), default=0)
    return kept_ms >= MIN_KEPT_MS and csn_ms(now) - csn_ms(last.frontier) > kept_ms / 2


async def are_of(env: Environment, catalog: CatalogSnapshot, views: Iterable[Relation], at: Csn, moment: Csn) -> bool:
    """Whether the rows of the `views` stored at the CSN `at` are what their queries give at `moment`. Raises as
    `ShardReader.snapshot`."""
    for view in views:
        assert view.materialized is not None
        found = await last_refresh(env, view.materialized.journal, at)
        if found is None or found.frontier > moment or found.inputs == UNKNOWN:
            return False
        if found.inputs != digest_of_inputs(catalog, view):
            return False
        for table in inputs_of(catalog, view):
            assert table.shard is not None
            if await has_changed(env, table.shard, found.frontier, moment):
                return False
    return True


async def common_moment(env: Environment, catalog: CatalogSnapshot, views: Iterable[Relation], at: Csn) -> Csn | None:
    """The newest moment up to `at` of which the rows of all `views` stored at `at` are known to be; None when there is
    none. Raises as `ShardReader.snapshot`."""
    frontiers: list[Csn] = []
    for view in views:
        assert view.materialized is not None
        found = await last_refresh(env, view.materialized.journal, at)
        if found is None:
            return None
        frontiers.append(found.frontier)
    for moment in (at, max(frontiers, default=at)):
        if await are_of(env, catalog, views, at, moment):
            return moment
    return None
