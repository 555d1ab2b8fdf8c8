"""TABLESAMPLE's arguments that only the execution knows."""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.udfs.table import Udf
from planner.values.sample_bounds import sample_bound, sample_seed

UDFS: Mapping[str, Udf] = {
    "tg_sample_bound": Udf(("FLOAT",), "VARCHAR", sample_bound, nulls=True),
    "tg_sample_seed": Udf(("DOUBLE",), "VARCHAR", sample_seed, nulls=True),
}
