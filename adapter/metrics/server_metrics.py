"""What a server counts for those who watch it, as Prometheus metrics.

Statements and errors are counted as they are answered (`answered`, `failed`); everything else is asked of its owner
when somebody looks. What the workers of a server count is added up by the one that is asked. Names follow Prometheus'
conventions: a unit at the end, `_total` for what only grows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from adapter.engines.engines import Engines
from adapter.execution.services import Services
from adapter.execution.session_registry import SessionRegistry
from adapter.metrics.environment import environment_families
from adapter.metrics.families import families
from adapter.queries.session_facts import METRICS

_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

_KINDS = frozenset(
    {"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "COPY", "FETCH", "BEGIN", "COMMIT", "ROLLBACK", "SET", "SHOW",
     "CALL", "EXPLAIN", "CREATE", "ALTER", "DROP", "TRUNCATE", "REFRESH", "VACUUM", "ANALYZE"}
)  # fmt: skip
"""First words of command tags that have a label of their own; the others are OTHER."""

_DELAY_BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)

BEAT_S = 0.05
"""Between two looks at how late the event loop is."""


class ServerMetrics:
    """See the module's contract. Belongs to the event loop of one process."""

    def __init__(self, services: Services, sessions: SessionRegistry, engines: Engines) -> None:
        self._services = services
        self._sessions = sessions
        self._engines = engines
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "tidegate_statement_seconds",
            "Time from a statement's arrival to its answer, by kind and engine (none: it needed no engine).",
            ["kind", "engine"],
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        self._errors = Counter(
            "tidegate_errors", "Errors that clients were told of.", ["sqlstate"], registry=self._registry
        )
        self._connections = Counter("tidegate_connections", "Sessions that have begun.", registry=self._registry)
        self._late = Histogram(
            "tidegate_loop_delay_seconds",
            "How late the event loop comes to what is due, looked at twenty times a second.",
            buckets=_DELAY_BUCKETS_S,
            registry=self._registry,
        )
        self._lock_waits = Histogram(
            "tidegate_lock_wait_seconds",
            "Waits for locks that are over, however they ended, by what was locked.",
            ["kind"],
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        self._stall_s = 0.0
        self._beating: asyncio.TimerHandle | None = None
        self._registry.register(_Asked(self))
        services.metric_rows = self.rows
        services.locks.waited = self._waited
        if services.locks.between_workers is not None:
            services.locks.between_workers.waited = self._waited
        ProcessCollector(namespace="tidegate", registry=self._registry)

    # ------------------------------------------------------------ what is told

    def answered(self, tag: str, engine: str, seconds: float) -> None:
        """A statement has been answered."""
        kind = tag.partition(" ")[0]
        self._seconds.labels(kind if kind in _KINDS else "OTHER", engine).observe(seconds)

    def failed(self, sqlstate: str) -> None:
        """A client has been told of an error."""
        self._errors.labels(sqlstate).inc()

    def connected(self) -> None:
        """A session has begun."""
        self._connections.inc()

    def _waited(self, kind: str, seconds: float) -> None:
        self._lock_waits.labels(kind).observe(seconds)

    # ------------------------------------------------------------ the event loop

    def start(self) -> None:
        """Watch the running event loop."""
        loop = asyncio.get_running_loop()
        self._beat(loop, loop.time())

    def stop(self) -> None:
        """Watch it no more."""
        if self._beating is not None:
            self._beating.cancel()

    def _beat(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        now = loop.time()
        self._stall_s = max(self._stall_s, now - due)
        self._late.observe(max(0.0, now - due))
        self._beating = loop.call_later(BEAT_S, self._beat, loop, now + BEAT_S)

    # ------------------------------------------------------------ what is asked

    def families(self) -> Iterable[Metric]:
        """What the owners know now."""
        yield from families(self._services, self._sessions, self._engines)
        yield GaugeMetricFamily(
            "tidegate_loop_stall_seconds",
            "The longest time since the last look for which the event loop was busy with one thing.",
            value=self._stall_s,
        )
        self._stall_s = 0.0

    def rows(self) -> list[Mapping[str, Any]]:
        """All samples of this process, for another worker."""
        return _rows(self._registry.collect())

    async def text(self) -> bytes:
        """The metrics of all workers in Prometheus' text format."""
        services = self._services
        common = await environment_families(services.env, services.publishing)
        rows = [*self.rows(), *_rows(common), *await services.colleagues.rows(METRICS, of_servers=False)]
        return await asyncio.to_thread(_exposition, rows)


def _rows(families: Iterable[Metric]) -> list[Mapping[str, Any]]:
    return [
        {"family": family.name, "help": family.documentation, "type": family.type,
         "name": sample.name, "labels": dict(sample.labels), "value": sample.value}
        for family in families
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]  # fmt: skip


class _Asked(Collector):
    """What is asked of its owners when somebody looks."""

    def __init__(self, metrics: ServerMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics.families()


class _Sums(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


_GREATEST = frozenset({"tidegate_loop_stall_seconds", "tidegate_process_start_time_seconds"})
"""What is not added up over workers."""


def _exposition(rows: Iterable[Mapping[str, Any]]) -> bytes:
    families: dict[str, Metric] = {}
    values: dict[tuple[str, str, tuple[tuple[str, str], ...]], float] = {}
    for row in rows:
        families.setdefault(row["family"], Metric(row["family"], row["help"], row["type"]))
        key = (row["family"], row["name"], tuple(sorted(row["labels"].items())))
        if row["family"] in _GREATEST:
            values[key] = max(values.get(key, 0.0), row["value"])
        else:
            values[key] = values.get(key, 0.0) + row["value"]
    for (family, name, labels), value in values.items():
        families[family].add_sample(name, dict(labels), value)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Sums(list(families.values())))
    return generate_latest(registry)
