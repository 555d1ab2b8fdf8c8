"""The process that Spark forks its Python workers from, with what they import loaded already.

Spark gives up a worker with each task that fails, for instance in a statement that divides by zero behind a function in
Python; PySpark's own daemon then forks an empty one, which takes a second of processor time to import PySpark's worker
and this code. Here the forks share what was imported once.

Spark starts it as ``python -m adapter.engines.spark.python.daemon pyspark.worker`` and reads the port on its standard
output: nothing may be printed before.
"""

from __future__ import annotations

import gc
import os

NO_THREADS = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""A fork has the thread alone that called it: what is loaded before must have started none that it needs. (The one
of Arrow's allocator, jemalloc, is started again in forks where it is needed.)"""


def main() -> None:
    """Load what workers need, then fork them as Spark asks, until it closes the standard input."""
    os.environ.update(NO_THREADS)
    import pyspark.worker  # noqa: F401
    from pyspark.daemon import manager

    import planner.functions.engines.spark  # noqa: F401

    # Collecting garbage, which workers do behind each task, would copy every page of what is shared.
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
