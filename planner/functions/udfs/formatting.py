"""to_char, to_date, to_timestamp and to_number as functions of the engines."""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.udfs.datetime_output import to_char_interval, to_char_timestamp
from planner.functions.udfs.number_templates import to_char_number
from planner.functions.udfs.table import INTERVAL, Udf
from planner.functions.udfs.templates.datetime_input import to_date, to_timestamp
from planner.functions.udfs.templates.number_input import to_number

_T = "VARCHAR"

UDFS: Mapping[str, Udf] = {
    "tg_to_char_timestamp": Udf(("BIGINT", _T, _T), _T, to_char_timestamp),
    "tg_to_char_interval": Udf((INTERVAL, _T), _T, to_char_interval),
    "tg_to_char_number": Udf((_T, _T, _T), _T, to_char_number),
    "tg_to_timestamp": Udf((_T, _T, _T), "BIGINT", to_timestamp),
    "tg_to_date": Udf((_T, _T), "INTEGER", to_date),
    "tg_to_number": Udf((_T, _T), _T, to_number),
}
