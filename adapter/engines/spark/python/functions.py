"""Defines the functions in Python that a statement calls in a Spark session (planner.functions.engines.spark)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import planner
from planner.functions.engines.spark import call, result_type

PYTHON_PATH = str(Path(planner.__file__).parent.parent)
"""Where Python workers find this code."""

DAEMON = "adapter.engines.spark.python.daemon"
"""The value of spark.python.daemon.module where `PYTHON_PATH` is on the workers' path."""


def define(session: Any, names: Iterable[str], udf: Callable[..., Any]) -> None:
    """Defines the UDFs `names` in the PySpark session `session`, with PySpark's `udf` for sessions of its kind."""
    for name in names:
        session.udf.register(name, udf(_named(name), result_type(name), useArrow=False))


def _named(name: str) -> Any:
    function = partial(call, name)
    function.__name__ = name  # type: ignore[attr-defined]
    function.__module__ = call.__module__
    return function
