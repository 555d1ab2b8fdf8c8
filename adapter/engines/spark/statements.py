"""A lowered statement on the thread that runs it, and its rows as tasks get them."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import Struct

from adapter.engines.common.engine import RecordBatch, RowTasks
from adapter.engines.common.result_size import is_ordered
from adapter.engines.spark.frames import RunningSpark
from adapter.engines.spark.limits.execution import Execution
from adapter.engines.spark.plans import SparkPlans
from adapter.engines.spark.profiles import Mode, Profile
from planner.ir.bound import BoundQuery


class Statement(Struct, frozen=True, kw_only=True):
    """See the module."""

    spark: RunningSpark
    plans: SparkPlans | None
    execution: Execution
    mode: Mode
    sql: str
    read_bytes: int

    def rows(self, *, few: bool, keep: bool) -> list[RecordBatch]:
        """All rows, which should be `few`. `keep`: the plan may be kept. Raises ResultTooLarge, or what Spark
        raises."""
        profile = self.mode.profile
        if (
            self.plans is None
            or profile in (Profile.LARGE, Profile.FRUGAL)
            or (profile is not Profile.TINY and not few)
        ):
            return self.spark.collect(self.frame())
        self.execution.check()
        return self.plans.rows(self.mode, self.sql, read_bytes=self.read_bytes, keep=keep)

    def frame(self) -> Any:
        """The statement as PySpark's data frame."""
        self.execution.check()
        return self.spark.frame(self.mode, self.sql)


def arranged(frame: Any, query: BoundQuery, tasks: RowTasks) -> Any:
    """The rows of `frame`, which are those of `query`, as `tasks` want them: in each task by the values that bring them
    together, unless the query says an order."""
    fields = query.rel.fields
    frame = frame.selectExpr(*dict.fromkeys(f"c{field.id}" for field in fields))
    if tasks.at_once:
        return frame.repartition(1)
    if not tasks.by or is_ordered(query.rel):
        return frame
    keys = [f"c{fields[place].id}" for place in tasks.by]
    if frame.sparkSession.conf.get("spark.sql.adaptive.enabled") == "true":
        # Values of many rows are divided among tasks, those of few are together in one.
        together = frame.hint("rebalance", *keys)
    else:
        together = frame.repartition(*keys)
    return together.sortWithinPartitions(*keys)


def named(task: partial[Any]) -> Any:
    """`task`, as Spark takes it: by the name of its function."""
    called: Any = task
    function = task.func
    while isinstance(function, partial):
        function = function.func
    called.__name__, called.__module__ = function.__name__, function.__module__
    return called
