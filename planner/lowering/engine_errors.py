"""Exceptions of the engines as PostgreSQL's errors.

What a lowered query raises on purpose is text of ours (planner.dialects.error_text); the rest is told by the engine's
own text (DuckDB) or error class (Spark). What is not known here is our bug: XX000, which the frontend logs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from planner import errors
from planner.common_errors import (
    DecimalOverflow,
    EngineFailed,
    EngineRefuses,
    NanNotHeld,
    canceled,
    division_by_zero,
    field_overflow,
    float_overflow,
    interval_out_of_range,
    negative_limit,
    timestamp_out_of_range,
    too_deep,
    unknown_time_zone,
)
from planner.dialects.engine_name import EngineName
from planner.dialects.error_text import END, parts_of
from planner.errors import SqlError

_OWN = re.compile(rf"TG:([0-9A-Z]{{5}}):([^{END}]*){END}|TG:([0-9A-Z]{{5}}):(.*?)(?: SQLSTATE: P0001|$)", re.M)
"""An error of ours: up to its record separator, or a text of one line."""
_BITS = {
    "INT16": "smallint",
    "INT32": "integer",
    "INT64": "bigint",
    "SMALLINT": "smallint",
    "INTEGER": "integer",
    "BIGINT": "bigint",
    "INT": "integer",
}


def _classes() -> Mapping[str, type[SqlError]]:
    found: dict[str, type[SqlError]] = {}
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, SqlError) and value is not SqlError:
            found.setdefault(value.sqlstate, value)
    return found


_BY_STATE = _classes()


def named_error(
    sqlstate: str,
    message: str,
    detail: str = "",
    hint: str = "",
    schema: str = "",
    datatype: str = "",
    constraint: str = "",
) -> SqlError:
    """The error of this SQLSTATE."""
    if message == NanNotHeld.MESSAGE:
        return NanNotHeld()
    known = _BY_STATE.get(sqlstate)
    if known is None:
        known = type("EngineError", (SqlError,), {"sqlstate": sqlstate})
    return known(
        message,
        detail=detail or None,
        hint=hint or None,
        schema=schema or None,
        datatype=datatype or None,
        constraint=constraint or None,
    )


def _own(message: str) -> SqlError | None:
    match = _OWN.search(message)
    if match is None:
        return None
    message, *more = parts_of(match[2] or match[4] or "")
    return named_error(match[1] or match[3], message, *more)


def translate(
    engine: EngineName, message: str, condition: str | None = None, parameters: Mapping[str, str] | None = None
) -> SqlError:
    """The SqlError for an exception: `message` is the engine's text, `condition` and `parameters` Spark's error class
    (``DIVIDE_BY_ZERO``) and its message parameters."""
    # What Spark refuses it quotes, with the errors that it might have raised.
    refused = condition is not None and condition != "USER_RAISED_EXCEPTION"
    own = None if refused else _own(message)
    if own is not None:
        return own
    found = _local(message) if engine == "local" else _spark(message, condition or "", parameters or {})
    if found is not None:
        return found
    # Its words are no client's business: the exception that this one is raised from has them, for the log.
    return EngineFailed(f"the {engine} engine failed on this statement", hint="The server's log says why.")


_LOCAL_INTEGER = re.compile(
    r"Overflow in (?:addition|subtraction|multiplication|negation|left shift|division) of (INT16|INT32|INT64)|of range"
    r" for the destination type (INT16|INT32|INT64)|Failed to cast decimal value \S+ to type (INT16|INT32|INT64)"
)
_FAR_DATE = re.compile(r"with value \d+-\d\d-\d\d(?: \(BC\))? can't be cast to the destination type INT64")
_LOCAL_DECIMAL = re.compile(r"(?:to|type) (?:type )?DECIMAL\((\d+),\s*(\d+)\)")


_LOCAL_DAMAGE = re.compile(
    r"(?:Invalid Input Error: |Invalid Error: |IO Error: )?(?:Failed to read file|No magic bytes found"
    r"|Could not read enough bytes|Invalid string encoding found in Parquet|Parquet file is likely corrupted"
    r"|Cannot open file \"[^\"]*\.parquet|File '[^']*' too small to be a Parquet|TProtocolException|invalid TType"
    r"|don't know what type|Payload value bigger than allowed|Out of buffer|Variable-length int over|Varint-decoding)"
)
"""What is said of files that are gone, cut off or no Parquet files: by DuckDB's reader, and by its reader of Thrift."""


def _damaged(file: str | None) -> SqlError:
    return errors.DataCorrupted(
        f"file {file or 'of a table'} cannot be read, or is damaged",
        hint="Run tidegate admin fsck to see what is damaged, and restore it from a copy.",
    )


def _local(message: str) -> SqlError | None:
    if _LOCAL_DAMAGE.match(message) is not None:
        file = re.search(r"""[Ff]ile ["'](.+?)["']""", message)
        return _damaged(file[1] if file else None)
    lowered = message.lower()
    if "division by zero" in lowered or "divide by zero" in lowered or "modulo by zero" in lowered:
        return division_by_zero()
    integer = _LOCAL_INTEGER.search(message)
    if integer is not None:
        return errors.NumericValueOutOfRange(f"{_BITS[integer[1] or integer[2] or integer[3]]} out of range")
    decimal = _LOCAL_DECIMAL.search(message)
    if decimal is not None and ("out of range" in lowered or "could not" in lowered or "overflow" in lowered):
        precision, scale = int(decimal[1]), int(decimal[2])
        # What is computed it has in the longest ones.
        return DecimalOverflow((precision, scale)) if precision >= 38 else field_overflow(precision, scale)
    if ("decimal" in lowered or "hugeint" in lowered) and ("overflow" in lowered or "out of range" in lowered):
        return DecimalOverflow()
    if "overflow in division of" in lowered or "overflow on abs" in lowered:
        return errors.NumericValueOutOfRange(_guess_integer(message))
    if "more than one row returned by a subquery" in lowered:
        return errors.CardinalityViolation("more than one row returned by a subquery used as an expression")
    if "argument for ntile must be greater than zero" in lowered:
        return errors.InvalidArgumentForNtile("argument of ntile must be greater than zero")
    if "cannot take logarithm of zero" in lowered:
        return errors.InvalidArgumentForLogarithm("cannot take logarithm of zero")
    if "cannot take logarithm of a negative" in lowered:
        return errors.InvalidArgumentForLogarithm("cannot take logarithm of a negative number")
    if "cannot take square root" in lowered:
        return errors.InvalidArgumentForPowerFunction("cannot take square root of a negative number")
    if "unknown timezone" in lowered or "unknown time zone" in lowered:
        zone = re.search(r"['\"]([^'\"]+)['\"]", message)
        return unknown_time_zone(zone[1] if zone else "")
    if _FAR_DATE.search(message) is not None:
        return errors.DatetimeFieldOverflow("date out of range for timestamp")
    if "date out of range" in lowered or "date and not in range" in lowered:
        return errors.DatetimeFieldOverflow("date out of range")
    if "timestamp" in lowered and ("out of range" in lowered or "overflow" in lowered or "not in timestamp" in lowered):
        return timestamp_out_of_range()
    if "like pattern must not end with escape" in lowered:
        return errors.InvalidEscapeSequence("LIKE pattern must not end with escape character")
    if "interval" in lowered and ("out of range" in lowered or "overflow" in lowered):
        return interval_out_of_range()
    if "out of range" in lowered or "overflow" in lowered:
        number = re.search(r"INT(16|32|64)", message)
        if number is not None:
            names = {
                "16": "smallint out of range",
                "32": "integer out of range",
                "64": "bigint out of range",
            }
            return errors.NumericValueOutOfRange(names[number[1]])
        return float_overflow()
    if "max_temp_directory_size" in lowered:
        # Nobody sets it but a statement with temp_file_limit: it is the room on the disk.
        return errors.DiskFull("could not write to temporary file: No space left on device")
    if "out of memory" in lowered or "memory limit" in lowered:
        return errors.OutOfMemory("out of memory")
    if "max expression depth" in lowered:
        return too_deep()
    if "limit/offset cannot be negative" in lowered:
        return negative_limit()
    if "percentiles can only take parameters in the range" in lowered:
        return errors.NumericValueOutOfRange("percentile value is not between 0 and 1")
    if "interrupted" in lowered:
        return canceled()
    return None


def _guess_integer(message: str) -> str:
    numbers = [abs(int(number)) for number in re.findall(r"-?\d+", message)]
    largest = max(numbers, default=0)
    name = "smallint" if largest == 2**15 else "integer" if largest == 2**31 else "bigint"
    return f"{name} out of range"


_UNDECORRELATED = (
    "Unable to rewrite domain join",
    "Cannot evaluate expression: outer(",
    "Cannot generate code for expression: outer(",
)
"""How Spark fails on a subquery whose columns of the query around it are left where it has none."""

_SPARK_DECIMAL = re.compile(r"Decimal\((\d+),\s*(\d+)\)", re.I)


def _spark(message: str, condition: str, parameters: Mapping[str, str]) -> SqlError | None:
    if not condition:
        match = re.search(r"\[([A-Z_]+(?:\.[A-Z_]+)?)\]", message)
        condition = match[1] if match else ""
    name = condition.partition(".")[0]
    if name in ("DIVIDE_BY_ZERO", "REMAINDER_BY_ZERO", "INTERVAL_DIVIDED_BY_ZERO"):
        return division_by_zero()
    if name == "FAILED_READ_FILE":
        # A page that does not match its checksum, or a file that is gone or no Parquet file.
        file = re.search(r"reading file (\S+?)\.?(?:\s|$)", message)
        return _damaged(file[1] if file else None)
    if name == "ARITHMETIC_OVERFLOW" and "decimals" in message:
        return DecimalOverflow()
    if name in ("ARITHMETIC_OVERFLOW", "BINARY_ARITHMETIC_OVERFLOW", "CAST_OVERFLOW", "CAST_OVERFLOW_IN_TABLE_INSERT"):
        return errors.NumericValueOutOfRange(_spark_integer(message, name, parameters))
    if name in (
        "NUMERIC_VALUE_OUT_OF_RANGE",
        "NUMERIC_OUT_OF_SUPPORTED_RANGE",
        "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION",
    ):
        decimal = _SPARK_DECIMAL.search(message)
        return DecimalOverflow(None if decimal is None else (int(decimal[1]), int(decimal[2])))
    if condition == "INVALID_LIMIT_LIKE_EXPRESSION.IS_NEGATIVE":
        if parameters.get("name", "limit") == "offset":
            return errors.InvalidRowCountInResultOffsetClause("OFFSET must not be negative")
        return negative_limit()
    if name == "SCALAR_SUBQUERY_TOO_MANY_ROWS":
        return errors.CardinalityViolation("more than one row returned by a subquery used as an expression")
    if name in ("DATETIME_OVERFLOW", "INTERVAL_ARITHMETIC_OVERFLOW"):
        return timestamp_out_of_range()
    if name == "DATETIME_FIELD_OUT_OF_BOUNDS":
        return errors.DatetimeFieldOverflow("date/time field value out of range")
    if name == "INVALID_TIMEZONE":
        return unknown_time_zone(parameters.get("timeZone", "").strip(chr(39)))
    if name == "CAST_INVALID_INPUT":
        value = parameters.get("expression", "").strip("'")
        target = {
            "INT": "integer",
            "BIGINT": "bigint",
            "SMALLINT": "smallint",
            "DOUBLE": "double precision",
            "DATE": "date",
            "TIMESTAMP_NTZ": "timestamp",
            "BOOLEAN": "boolean",
        }.get(parameters.get("targetType", "").strip('"'), "")
        return errors.InvalidTextRepresentation(f'invalid input syntax for type {target or "unknown"}: "{value}"')
    # Refusals quote the statement, which may say "escape character" itself.
    if name == "INVALID_ESCAPE_CHAR" or (name in ("", "INVALID_FORMAT") and "escape character" in message):
        return errors.InvalidEscapeSequence("LIKE pattern must not end with escape character")
    if name in ("RECURSION_LEVEL_LIMIT_EXCEEDED", "RECURSION_ROW_LIMIT_EXCEEDED"):
        return errors.StatementTooComplex("recursive query exceeds the limits of the spark engine")
    if name == "INVALID_PARAMETER_VALUE" and "REGEX" in message.upper():
        return errors.InvalidRegularExpression("invalid regular expression")
    if condition == "DATATYPE_MISMATCH.NON_FOLDABLE_INPUT":
        return EngineRefuses("an argument that is not constant is not supported here on the spark engine")
    # A function in Python in a condition of a join that needs both sides, or a query that depends on another one twice.
    if name == "UNSUPPORTED_CALL" and "PythonUDF" in message:
        return EngineRefuses("this use of a function is not supported on the spark engine")
    if name == "INTERNAL_ERROR" and "requires attributes from more than one child" in message:
        return EngineRefuses("this use of a function is not supported on the spark engine")
    if name == "INTERNAL_ERROR" and any(each in message for each in _UNDECORRELATED):
        return EngineRefuses("this subquery is not supported on the spark engine")
    # Spark looks for the columns of a subquery in the query next to it only, and finds others nowhere.
    if name.startswith(("UNSUPPORTED_SUBQUERY", "UNSUPPORTED_FEATURE", "UNION_NOT_SUPPORTED", "UNRESOLVED_COLUMN")):
        what = "this use of a function" if "PYTHON_UDF" in message else "this subquery"
        return EngineRefuses(f"{what} is not supported on the spark engine")
    if re.match(r"(?:[\w.]*ArithmeticException: )?long overflow", message):
        # What it says of moments; of numbers it says ARITHMETIC_OVERFLOW.
        return timestamp_out_of_range()
    return None


def _spark_integer(message: str, name: str, parameters: Mapping[str, str]) -> str:
    target = parameters.get("targetType", "").strip('"')
    if not target:
        match = re.search(r'cannot be cast to "(\w+)"', message)
        target = match[1] if match else ""
    if target in _BITS:
        return f"{_BITS[target]} out of range"
    if re.search(r"\dS\b", message):
        return "smallint out of range"
    if "/*int8*/" in message:
        return "bigint out of range"
    return "integer out of range"
