"""Exercises a Spark that has just started, so that the first statements of users find compiled code.

A JVM interprets what it has run a few times only. Statements of the usual shapes over a few rows are run behind, as
long as no statement of a user runs: some with texts that are new each time (parsing, analysis, planning), some again
and again (running a kept plan).
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa

from adapter.engines.spark.plans import SparkPlans
from adapter.engines.spark.profiles import Mode, Profile
from adapter.engines.spark.runtime import Spark
from adapter.engines.spark.views import SparkViews

ROUNDS = 30
"""A few seconds of one core."""

PAUSE_SECONDS = 0.1

GROUP = "warming"
_MODE = Mode(Profile.TINY)

_NEW = (
    "SELECT {round} AS c1 FROM VALUES (0)",
    "SELECT t1.c1 AS c1, t1.c2 AS c2 FROM {view} AS t1 WHERE t1.c1 = {round}L",
    "SELECT t1.c2 AS c1, count(1) AS c2, sum(t1.c3) AS c3 FROM {view} AS t1 WHERE t1.c1 > {round}L GROUP BY t1.c2"
    " ORDER BY c2 DESC NULLS FIRST",
    "SELECT t1.c1 AS c1, t2.c2 AS c2 FROM {view} AS t1 JOIN {view} AS t2 ON t1.c1 = t2.c1 WHERE t2.c3 < {round}.5D",
)
_AGAIN = (
    "SELECT t1.c2 AS c1, count(1) AS c2, sum(t1.c3) AS c3 FROM {view} AS t1 GROUP BY t1.c2",
    "SELECT t1.c1 AS c1, t2.c2 AS c2 FROM {view} AS t1 JOIN {view} AS t2 ON t1.c1 = t2.c1 WHERE t1.c1 < 5L",
)


def exercise(
    spark: Spark, views: SparkViews, plans: SparkPlans, *, idle: Callable[[], bool], ended: Callable[[], bool]
) -> None:
    """Runs the statements for `ROUNDS` rounds, while `idle`, until `ended`. Blocks; raises what Spark raises."""
    rows = pa.table(
        {
            "c1": pa.array(range(20), pa.int64()),
            "c2": pa.array([f"row {number % 3}" for number in range(20)]),
            "c3": pa.array([number / 4 for number in range(20)], pa.float64()),
        }
    )
    columns = (("c1", "BIGINT"), ("c2", "STRING"), ("c3", "DOUBLE"))
    view = views.register(rows, columns, _MODE, single=True)
    try:
        for round in range(ROUNDS):
            for template in (*_NEW, *_AGAIN):
                while not idle() and not ended():
                    time.sleep(PAUSE_SECONDS)
                if ended():
                    return
                spark.enter(_MODE, GROUP)
                try:
                    sql = template.format(view=view, round=round)
                    plans.rows(_MODE, sql, read_bytes=rows.nbytes, keep=template in _AGAIN)
                finally:
                    spark.leave()
    finally:
        if spark.alive:
            views.drop(view, _MODE)
