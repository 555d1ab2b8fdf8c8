"""The dialect of each engine."""

from __future__ import annotations

from functools import cache

from planner.dialects.dialect import Dialect
from planner.dialects.engine_name import EngineName
from planner.dialects.local import LocalDialect
from planner.dialects.spark import SparkDialect


@cache
def dialect_of(engine: EngineName) -> Dialect:
    """The dialect of an engine; the same object each time."""
    return LocalDialect() if engine == "local" else SparkDialect()
