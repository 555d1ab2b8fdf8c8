"""The shape of an entry in a table of local functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

INTERVAL = "STRUCT(months INTEGER, days INTEGER, micros BIGINT)"


class Udf(Struct, frozen=True):
    """A local function: DuckDB types of its arguments and result, and what computes one value.

    It is not called with a NULL argument, the result is NULL then, unless `nulls` is set.
    """

    args: tuple[str, ...]
    result: str
    call: Callable[..., Any]
    nulls: bool = False
