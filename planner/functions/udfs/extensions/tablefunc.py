"""tablefunc: what normal_rand() checks (PostgreSQL 15, appendix F.43)."""

from __future__ import annotations

from collections.abc import Mapping

from planner.errors import InvalidParameterValue
from planner.functions.udfs.table import Udf


def number_of_rows(count: int) -> int:
    """`count`, of rows. Raises 22023."""
    if count < 0:
        raise InvalidParameterValue("number of rows cannot be negative")
    return count


UDFS: Mapping[str, Udf] = {"tg_number_of_rows": Udf(("INTEGER",), "INTEGER", number_of_rows)}
