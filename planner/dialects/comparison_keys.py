"""TODO docstring."""

from __future__ import annotations

OPERATORS = ("=", "<>", "<", ">", "<=", ">=")


INTERVAL_KEY = "(CAST({p}.months AS {w}) * 2592000000000 + CAST({p}.days AS {w}) * 86400000000 + {p}.micros)"


SPARK_ARRAY_KEY = "transform({p}, e -> named_struct('n', e IS NULL, 'v', e))"
"""An array as PostgreSQL orders it: NULL elements last. Spark puts them first."""


def interval_key(place: str, engine: str) -> str:
    """The duration by which PostgreSQL compares the interval at `place` (``{0}``)."""
    return INTERVAL_KEY.replace("{p}", place).replace("{w}", "HUGEINT" if engine == "local" else "DECIMAL(19,0)")
