"""The local engine's functions in Python on Spark: the same code, as Python UDFs, so that both engines answer alike.

A form that only the local engine has is taken over where its template is made of such functions, casts and little
else (`portable`). Spark evaluates Python functions for whole batches before the expression around them, also in
branches of a CASE that are not taken; a function therefore returns its error beside its value, and the error is raised
where the value is used. `call` is what Spark's Python workers run.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from planner.dialects.of_engine import dialect_of
from planner.dialects.spark import AFTER_PYTHON, BEFORE_PYTHON
from planner.errors import SqlError
from planner.functions.engines.local import UDFS, encode_error
from planner.functions.udfs.table import INTERVAL

RESULT_TYPES = {
    "VARCHAR": "STRING",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "DOUBLE": "DOUBLE",
    "FLOAT": "FLOAT",
    "BOOLEAN": "BOOLEAN",
    "BLOB": "BINARY",
    "DATE": "DATE",
    "TIME": "TIME(6)",
    "TIMESTAMP": "TIMESTAMP_NTZ",
    "VARCHAR[]": "ARRAY<STRING>",
    "VARCHAR[][]": "ARRAY<ARRAY<STRING>>",
    "BIGINT[]": "ARRAY<BIGINT>",
    "INTEGER[]": "ARRAY<INT>",
    "BLOB[]": "ARRAY<BINARY>",
    'STRUCT("key" VARCHAR, "value" VARCHAR)[]': "ARRAY<STRUCT<key: STRING, value: STRING>>",
    INTERVAL: "STRUCT<months: INT, days: INT, micros: BIGINT>",
}
"""Spark's names of the result types that can be taken over."""

NAMES = frozenset(name for name, udf in UDFS.items() if udf.result in RESULT_TYPES)
"""The functions that Spark can call."""

_CALL = re.compile(r"\b([A-Za-z_]\w*)\(")
_USED = re.compile(r"\b(tg_\w+)\(")
_STRING = dialect_of("spark").string_constant
_PARENTHESES = re.compile(rf"{_STRING.pattern}|[()]", re.DOTALL)
_PLAIN = frozenset({"CAST", "coalesce", "array", "unix_micros", "timestamp_micros", "unhex", "substr"})


def result_type(name: str) -> str:
    """Spark's type (DDL) of what the UDF `name` returns: the value and the text of an error."""
    return f"STRUCT<v: {RESULT_TYPES[UDFS[name].result]}, e: STRING>"


def used(sql: str) -> frozenset[str]:
    """The UDFs that a statement calls."""
    return frozenset(_USED.findall(_STRING.sub("''", sql))) & NAMES


def call(name: str, *args: Any) -> dict[str, Any]:
    """Calls one function with values as Spark gives them."""
    udf = UDFS[name]
    if not udf.nulls and None in args:
        return {"v": None, "e": None}
    try:
        return {"v": udf.call(*map(_from_spark, args)), "e": None}
    except SqlError as error:
        return {"v": None, "e": encode_error(error)}


def _from_spark(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list):
        return [bytes(item) if isinstance(item, bytearray) else item for item in value]
    # Structs come as pyspark.sql.Row, which is a tuple.
    return value.asDict() if isinstance(value, tuple) and hasattr(value, "asDict") else value


@lru_cache(maxsize=1024)
def portable(template: str) -> str | None:
    """A template of the local engine as one of Spark's; None where it uses more than Spark has."""
    if "\\" in template or "{d}" in template or "->" in template or "lambda" in template:
        return None
    text = template.replace(" AS VARCHAR)", " AS STRING)").replace(" AS TIMESTAMPTZ)", " AS TIMESTAMP)")
    text = re.sub(r"CAST\(\[(.*)\] AS VARCHAR\[\]\)", r"CAST(array(\1) AS ARRAY<STRING>)", text)
    text = re.sub(r"\[(\{\d+\})\]", r"array(\1)", text)
    text = re.sub(r"epoch_us\((\{\d+\})\)", r"unix_micros(CAST(\1 AS TIMESTAMP))", text)
    text = re.sub(r"^make_timestamp\((.*)\)$", r"CAST(timestamp_micros(\1) AS TIMESTAMP_NTZ)", text)
    text = re.sub(r"^make_timestamptz\((.*)\)$", r"timestamp_micros(\1)", text)
    called = frozenset(_CALL.findall(text))
    if "[" in text or " TIME ZONE " in text or not called & NAMES or not called <= NAMES | _PLAIN:
        return None
    return checked(text)


def without_lambda(text: str) -> str:
    """What `checked` made, for arguments with subqueries, which Spark allows in no lambda. The call is written three
    times; Spark evaluates it once."""
    start = text.find(BEFORE_PYTHON + "tg_")
    if start < 0:
        return text
    begin = start + len(BEFORE_PYTHON)
    end = _closing(text, text.index("(", begin) + 1)
    call = text[begin:end]
    if not text.startswith(AFTER_PYTHON, end):
        return text[:begin] + without_lambda(text[begin:])
    call = without_lambda(call)
    made = f"CASE WHEN {call}.e IS NULL THEN {call}.v ELSE raise_error({call}.e) END"
    return text[:start] + made + without_lambda(text[end + len(AFTER_PYTHON) :])


def _closing(text: str, start: int) -> int:
    """Where the parenthesis that is open before `start` ends; those in string constants are text."""
    depth = 1
    for match in _PARENTHESES.finditer(text, start):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if not depth:
            return match.end()
    raise ValueError(f"no closing parenthesis: {text}")


def checked(text: str) -> str:
    """Spark SQL `text` in which each call of a UDF gives its value or raises its error. Calls that do already stay."""
    match = _USED.search(text)
    if match is None:
        return text
    end = _closing(text, match.end())
    if text.endswith(BEFORE_PYTHON, 0, match.start()):
        return text[:end] + checked(text[end:])
    arguments = checked(text[match.end() : end - 1])
    result = f"{BEFORE_PYTHON}{match[1]}({arguments}){AFTER_PYTHON}"
    return text[: match.start()] + result + checked(text[end:])
