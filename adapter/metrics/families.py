"""What the parts of a process know of themselves, as families of metrics: asked when somebody looks, counted before.

What several processes of a server say is added up (`server_metrics`). What the environment is like, which each of them
would say alike, is in `environment`.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from adapter.engines.engines import Engines
from adapter.execution.services import Services
from adapter.execution.session_registry import SessionRegistry
from adapter.queries.facts.lock_facts import wait_event
from adapter.queries.session_facts import own_rows
from storage import cache_memory
from storage.environment.environment import Environment


def families(services: Services, sessions: SessionRegistry, engines: Engines) -> Iterator[Metric]:
    """All of them, of this process."""
    yield from _sessions(services, sessions)
    yield from _transactions(services)
    yield from _caches(services)
    yield from _temporary_files(services, engines)
    yield from _stores(services.env)
    yield from _upkeep(services.env)
    yield from _controllers(services)
    yield from _views(services)
    yield from _publishing(services)


def _sessions(services: Services, sessions: SessionRegistry) -> Iterator[Metric]:
    states = GaugeMetricFamily("tidegate_sessions", "Sessions by state.", labels=["state"])
    for state, count in Tally(str(row["state"]) for row in own_rows("pg_stat_activity", sessions, services)).items():
        states.add_metric([state], count)
    yield states
    waiting = [each for each in sessions.all() if wait_event(each.state.locks.owner, services) is not None]
    yield GaugeMetricFamily("tidegate_lock_waiters", "Sessions that wait for a lock.", value=len(waiting))


def _transactions(services: Services) -> Iterator[Metric]:
    committer = services.committer
    yield CounterMetricFamily(
        "tidegate_transactions_committed", "Transactions that have committed.", value=committer.committed
    )
    yield CounterMetricFamily(
        "tidegate_commit_groups", "Writes of the log, each of one or more transactions.", value=committer.groups
    )
    retries = CounterMetricFamily(
        "tidegate_retries", "What was done again since others had committed in between.", labels=["what"]
    )
    retries.add_metric(["statement"], services.statement_retries)
    retries.add_metric(["commit_group"], committer.retries)
    yield retries


def _caches(services: Services) -> Iterator[Metric]:
    plans = services.plans
    found = CounterMetricFamily("tidegate_plan_cache_lookups", "Plans that were looked for.", labels=["result"])
    found.add_metric(["hit"], plans.hits)
    found.add_metric(["miss"], plans.misses)
    yield found
    size = GaugeMetricFamily(
        "tidegate_cache_bytes", "Bytes that a cache holds, where it counts them.", labels=["cache"]
    )
    entries = GaugeMetricFamily("tidegate_cache_entries", "Entries that a cache holds.", labels=["cache"])
    lookups = CounterMetricFamily("tidegate_cache_lookups", "What a cache was asked for.", labels=["cache", "result"])
    for name, use in cache_memory.uses():
        size.add_metric([name], use.bytes)
        entries.add_metric([name], use.entries)
        lookups.add_metric([name, "hit"], use.hits)
        lookups.add_metric([name, "miss"], use.misses)
    yield from (size, entries, lookups)


def _temporary_files(services: Services, engines: Engines) -> Iterator[Metric]:
    files = services.temporary_file_counts.rows()
    yield CounterMetricFamily(
        "tidegate_temporary_files", "Temporary files written.", value=sum(row["temp_files"] for row in files)
    )
    yield CounterMetricFamily(
        "tidegate_temporary_bytes", "Bytes of temporary files.", value=sum(row["temp_bytes"] for row in files)
    )
    yield GaugeMetricFamily(
        "tidegate_spilled_bytes",
        "Bytes that statements of the local engine keep on disk at present, beyond their memory.",
        value=engines.spilled_bytes(),
    )


def _stores(env: Environment) -> Iterator[Metric]:
    labels = ["store", "operation"]
    asked = CounterMetricFamily("tidegate_store_operations", "What was asked of the stores.", labels=labels)
    failed = CounterMetricFamily(
        "tidegate_store_failures", "Operations of the stores that failed; most are tried again.", labels=labels
    )
    moved = CounterMetricFamily(
        "tidegate_store_bytes", "Bytes read from the stores and written to them.", labels=["store", "direction"]
    )
    for store, counts in env.store_counts.items():
        for operation, calls in counts.calls.items():
            asked.add_metric([store, operation], calls)
            failed.add_metric([store, operation], counts.failures[operation])
        moved.add_metric([store, "read"], counts.bytes_read)
        moved.add_metric([store, "written"], counts.bytes_written)
    yield from (asked, failed, moved)


def _upkeep(env: Environment) -> Iterator[Metric]:
    compactor = env.maintenance.compactor
    yield CounterMetricFamily(
        "tidegate_compactions", "Compactions that put parts in the place of others.", value=compactor.swaps
    )
    yield CounterMetricFamily(
        "tidegate_compacted_parts", "Parts that compactions have replaced.", value=compactor.parts_removed
    )
    yield CounterMetricFamily(
        "tidegate_compaction_written_bytes", "Bytes of the parts that compactions wrote.", value=compactor.bytes_written
    )
    yield GaugeMetricFamily(
        "tidegate_compaction_waiting_shards",
        "Shards that were written to and that maintenance has not looked at since.",
        value=len(env.applier.touched),
    )
    yield GaugeMetricFamily(
        "tidegate_upkeep_troubles", "Background work of the storage that fails at present.", value=env.troubles.count
    )


def _controllers(services: Services) -> Iterator[Metric]:
    labels = ["controller"]
    restarts = CounterMetricFamily(
        "tidegate_controller_restarts", "Times that a controller has begun again after an error.", labels=labels
    )
    failures = CounterMetricFamily(
        "tidegate_controller_failures", "Pieces of its work that failed, and were tried again.", labels=labels
    )
    for row in services.controllers.rows():
        restarts.add_metric([row["controller"]], row["restarts"])
        failures.add_metric([row["controller"]], row["failures"])
    yield from (restarts, failures)


def _views(services: Services) -> Iterator[Metric]:
    labels = ["method"]
    made = CounterMetricFamily("tidegate_view_refreshes", "Refreshes of materialized views.", labels=labels)
    took = CounterMetricFamily("tidegate_view_refresh_seconds", "Time that refreshes have taken.", labels=labels)
    for how, count in services.refreshes.items():
        made.add_metric([how], count)
        took.add_metric([how], services.refresh_seconds[how])
    yield from (made, took)


def _publishing(services: Services) -> Iterator[Metric]:
    publishing = services.publishing
    yield CounterMetricFamily(
        "tidegate_publications", "Times that tables of a database were published.", value=publishing.publications
    )
    yield CounterMetricFamily(
        "tidegate_publication_seconds", "Time that publishing has taken.", value=publishing.seconds
    )
