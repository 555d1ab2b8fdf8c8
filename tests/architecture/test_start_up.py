"""What start-up loads: the command line nothing that serves, the server nothing that only some servers need."""

from __future__ import annotations

import subprocess
import sys

import pytest

SERVING = {"pyarrow", "postgast", "numpy", "structlog", "uvloop", "planner", "adapter", "storage"}
ON_DEMAND = {"pyspark", "py4j", "pandas", "asyncpg", "duckdb", "importlib.metadata", "numpy.ma", "sqlglot"}
PARTS_ON_DEMAND = {"postgast.nodes", "postgast.format", "postgast.deparse"}
ROOMS_ON_DEMAND = {
    *("adapter.definitions", "adapter.engines.local", "adapter.engines.spark"),
    *("planner.lowering", "planner.utility", "planner.functions.udfs"),
}
"""What the first statement of its kind loads, or the server behind once it listens."""


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("frontend.command.main", SERVING | ON_DEMAND),
        ("frontend.command.serve", ON_DEMAND | PARTS_ON_DEMAND | ROOMS_ON_DEMAND),
    ],
)
def test_a_module_loads_only_what_it_needs(module: str, unwanted: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert module in loaded
    assert not unwanted.intersection(loaded)
