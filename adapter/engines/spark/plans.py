"""Small results without detours: physical plans kept by their text, run directly, turned into Arrow in the driver.

Most of a small statement's time in Spark is preparation: parsing, analysis, optimising, planning, and the bookkeeping
around an action. A plan is therefore kept under the text of its statement and run again as a fresh copy, which shares
no state with earlier runs (no shuffle output, no broadcast), so its rows are read and computed again. That is sound
because a text names the views that it reads, a view is one immutable version of a table and its name is never used
again (`spark_scans`), session values are literals in the text, and the settings of a session never change. Not kept
are plans whose expressions are not deterministic, and those with parts that copies would share (subqueries in
expressions, reused exchanges, adaptive plans).

What the optimiser folded into a local relation is read from the plan without a job; everything else is one job. Rows
become Arrow batches in the driver and come over py4j, so this is for small results only.

Everything here blocks and runs on a thread of the Spark runtime.
"""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
from msgspec import Struct

from adapter.engines.common.engine import RecordBatch
from adapter.engines.spark.context_settings import MAX_RESULT_BYTES
from adapter.engines.spark.profiles import Mode
from adapter.engines.spark.results import ResultTooLarge
from adapter.engines.spark.runtime import Spark
from storage.bounded_map import BoundedMap
from storage.cache_memory import portion

MAX_PLANS = 512
MAX_BYTES = portion(64 << 20)
"""Plans kept, and the bytes of the tables that they read, which may be copied into them: they live in the driver's
heap, which all workers share."""

PLAN_BYTES = 16 << 10
BYTES_A_CHARACTER = 100
"""Taken for a plan without any data, and for each character of its text and of the plan as Spark shows it: what plans
of one column to sixty, and of joins, have in the driver's heap (27 kB to 500 kB, by its histogram)."""

BATCH_ROWS = 16_384
BATCH_BYTES = 1 << 20
"""An Arrow batch that crosses py4j holds no more."""


_SHARED = ("ReusedExchange", "AdaptiveSparkPlan", "InMemoryTableScan")
"""Nodes of a plan that stay what they are in a copy."""


class SmallPlan(Struct, frozen=True, kw_only=True):
    """A physical plan (Java) that has never run, and the schema of its rows. `folded`: the rows are in the plan."""

    physical: Any
    schema: Any
    folded: bool
    bytes: int


class SparkPlans:
    """The plans of one running Spark. Thread-safe."""

    def __init__(self, spark: Spark) -> None:
        self._spark = spark
        self._lock = threading.Lock()
        self._plans: BoundedMap[tuple[Mode, str], SmallPlan] = BoundedMap(max_entries=MAX_PLANS, max_bytes=MAX_BYTES)
        execution = spark.jvm.org.apache.spark.sql.execution
        self._converters = getattr(getattr(execution.arrow, "ArrowConverters$"), "MODULE$")

    def rows(self, mode: Mode, sql: str, *, read_bytes: int, keep: bool) -> list[RecordBatch]:
        """Runs `sql`, whose plan holds `read_bytes` of tables, and returns its rows. `keep`: the plan may be kept.

        Raises ResultTooLarge, or what Spark raises. The thread must have entered a statement of `mode`.
        """
        key = (mode, sql)
        plan = self._kept(key)
        if plan is None:
            plan, lasting = self._prepare(mode, sql, read_bytes)
            if keep and lasting:
                self._keep(key, plan)
            physical = plan.physical if plan.folded or not (keep and lasting) else plan.physical.clone()
        else:
            physical = plan.physical if plan.folded else plan.physical.clone()
        rows = physical.rows().iterator() if plan.folded else physical.executeCollectIterator()._2()
        return self._arrow(rows, plan.schema)

    def _prepare(self, mode: Mode, sql: str, read_bytes: int) -> tuple[SmallPlan, bool]:
        """The plan of `sql`, and whether it may run more than once."""
        query = self._spark.session(mode)._jsparkSession.sql(sql).queryExecution()
        physical = query.executedPlan()
        folded, shown = physical.nodeName() == "LocalTableScan", physical.toString()
        lasting = query.analyzed().deterministic() and (
            folded or (physical.subqueriesAll().isEmpty() and not any(part in shown for part in _SHARED))
        )
        size = read_bytes + PLAN_BYTES + BYTES_A_CHARACTER * (len(sql) + len(shown))
        return SmallPlan(physical=physical, schema=physical.schema(), folded=folded, bytes=size), lasting

    def _kept(self, key: tuple[Mode, str]) -> SmallPlan | None:
        with self._lock:
            plan = self._plans.get(key)
            if plan is not None:
                self._plans.touch(key)
            return plan

    def _keep(self, key: tuple[Mode, str], plan: SmallPlan) -> None:
        with self._lock:
            if key not in self._plans:
                self._plans.put(key, plan, plan.bytes)

    def _arrow(self, rows: Any, schema: Any) -> list[RecordBatch]:
        """`rows` (a Scala iterator of internal rows) as batches."""
        stream = self._converters.toBatchWithSchemaIterator(rows, schema, BATCH_ROWS, BATCH_BYTES, "UTC", False, False)
        batches: list[RecordBatch] = []
        size = 0
        try:
            while stream.hasNext():
                for batch in pa.ipc.open_stream(stream.next()):
                    size += batch.nbytes
                    batches.append(batch)
                if size > MAX_RESULT_BYTES:
                    raise ResultTooLarge
        except BaseException:
            # At its end it closes itself.
            stream.close()
            raise
        return batches
