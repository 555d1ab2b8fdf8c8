"""tidegate.transpile and tidegate.format as functions of the engines."""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.udfs.table import Udf
from planner.syntax.dialects.transpiling import transpile
from planner.syntax.formatting import formatted

_T = "VARCHAR"

UDFS: Mapping[str, Udf] = {
    "tg_transpile": Udf((_T, _T, _T), _T, transpile),
    "tg_format_sql": Udf((_T,), _T, formatted),
}
