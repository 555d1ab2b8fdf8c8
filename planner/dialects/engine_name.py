"""The names of the engines that SQL is written for."""

from __future__ import annotations

from typing import Literal, TypeAlias

EngineName: TypeAlias = Literal["local", "spark"]
"""``local`` is DuckDB in the server's own process, ``spark`` is Spark SQL in ANSI mode."""
