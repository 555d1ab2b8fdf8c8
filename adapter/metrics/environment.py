"""What the environment is like, as families of metrics: told by the process that is asked, for all of them.

Views and published tables are *behind* by the time since the moment that they show, once something that they are made
of has changed since; otherwise they are not behind.
"""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client.core import GaugeMetricFamily, Metric

from adapter.materialized.freshness import materialized_views
from adapter.materialized.shown import lag_ms
from adapter.publishing.published_tables import published_relations
from adapter.publishing.service import Publishing
from storage.catalog.model import WHOLE, CatalogSnapshot, Database, Schema
from storage.environment.environment import Environment
from storage.timestamps.csn import Csn, csn_ms


async def environment_families(env: Environment, publishing: Publishing) -> Sequence[Metric]:
    """All of them. Raises what the stores raise."""
    state = env.cache.state
    undone = GaugeMetricFamily(
        "tidegate_transactions_undone", "Transactions that are not over, by kind.", labels=["kind"]
    )
    undone.add_metric(["staged"], len(state.staged))
    undone.add_metric(["prepared"], len(state.prepared))
    undone.add_metric(["unapplied"], sum(map(len, state.pending.values())))
    servers = GaugeMetricFamily(
        "tidegate_servers", "Processes that have the environment open.", value=len(state.leases)
    )
    views = GaugeMetricFamily(
        "tidegate_view_lag_seconds",
        "How far a materialized view is behind what it is made of.",
        labels=["database", "schema", "view"],
    )
    published = GaugeMetricFamily(
        "tidegate_publishing_lag_seconds", "How far published tables are behind.", labels=["database"]
    )
    now = Csn(env.cache.upper - 1)
    for oid, catalog in env.catalog.current().databases.items():
        database = catalog.get(oid)
        if oid == WHOLE or not isinstance(database, Database):
            continue
        for view in materialized_views(catalog):
            behind = await lag_ms(env, catalog, view, max(now, catalog.csn))
            schema = catalog.get(view.schema)
            if behind is not None and isinstance(schema, Schema):
                views.add_metric([database.name, schema.name, view.name], behind / 1000)
        found = await _publishing_lag_ms(env, publishing, catalog)
        if found is not None:
            published.add_metric([database.name], found / 1000)
    return (undone, servers, views, published)


async def _publishing_lag_ms(env: Environment, publishing: Publishing, catalog: CatalogSnapshot) -> int | None:
    """Of the tables of one database; None when none is to be published."""
    relations = list(published_relations(catalog))
    if not relations:
        return None
    done = await publishing.published(catalog.database)
    shown = done.by_relation()
    written = max((env.reader.last_write(each.shard) for each in relations if each.shard is not None), default=Csn(0))
    if written <= done.csn and all(each.oid in shown for each in relations):
        return 0
    since = written if done.csn == 0 else done.csn
    return max(0, env.clock.now_ms() - csn_ms(since))
