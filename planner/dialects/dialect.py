"""How each engine writes types, literals and names.

A `Dialect` is pure text: SQL type names for `SqlType`s, and literals whose engine type is exactly the type that
`planner.ir.physical` gives. `lambda_` and `error` are the two constructions that both engines have under other names.
"""

from __future__ import annotations

import datetime
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from typing import ClassVar

from planner.dialects.engine_name import EngineName
from planner.errors import FeatureNotSupported, NumericValueOutOfRange
from planner.ir.nodes import Interval
from planner.ir.physical import OID_TYPES, element_type
from planner.types import types
from planner.types.numeric_shapes import ANY_NUMERIC
from planner.types.types import NumericShape, SqlType

INFINITE = ("infinity", "-infinity")


class Dialect(ABC):
    """One engine's spelling of types and values."""

    name: EngineName
    scalar_types: ClassVar[dict[int, str]]
    text: str

    @abstractmethod
    def list_type(self, element: str) -> str:
        """The SQL name of a list of `element`."""

    @abstractmethod
    def string(self, value: str) -> str:
        """A string literal."""

    @abstractmethod
    def binary(self, value: bytes) -> str:
        """A literal of bytes."""

    @abstractmethod
    def float8(self, value: float) -> str:
        """A double precision literal."""

    @abstractmethod
    def integer(self, value: int, oid: int) -> str:
        """A literal of an integer type."""

    @abstractmethod
    def decimal(self, digits: str, shape: NumericShape) -> str:
        """A decimal literal of exactly `shape`; `digits` is plain notation."""

    @abstractmethod
    def infinite(self, oid: int, negative: bool) -> str:
        """An infinite date or timestamp."""

    @abstractmethod
    def timestamp(self, text: str) -> str:
        """A literal of timestamp without time zone."""

    @abstractmethod
    def timestamptz(self, text: str) -> str:
        """A literal of timestamp with time zone; `text` is in UTC without an offset."""

    @abstractmethod
    def interval(self, months: str, days: str, micros: str) -> str:
        """An interval from SQL of its three parts, which already have the types integer, integer and bigint."""

    @abstractmethod
    def array(self, items: Sequence[str]) -> str:
        """A list of items."""

    @abstractmethod
    def let(self, value: str, name: str, body: str) -> str:
        """`body`, in which `name` stands for `value`, evaluated once."""

    @abstractmethod
    def error(self, message: str) -> str:
        """An expression of any type that raises `message`, an SQL string expression, when it is evaluated."""

    def raise_sql(self, sqlstate: str, message: str) -> str:
        """An expression that raises a PostgreSQL error; see `planner.lowering.engine_errors`."""
        return self.error(self.string(f"TG:{sqlstate}:{message}"))

    def type_name(self, type: SqlType) -> str:
        """The SQL name of the physical type of `type`."""
        scalar = self.scalar_types.get(type.oid)
        if scalar is not None:
            return scalar
        if type.oid == types.NUMERIC:
            shape = type.shape or ANY_NUMERIC
            return f"DECIMAL({shape.precision},{shape.scale})"
        if type.oid in OID_TYPES:
            return "BIGINT"
        element = element_type(type)
        if element is not None:
            return self.list_type(self.type_name(element))
        return self.text

    def cast(self, sql: str, type: SqlType) -> str:
        """The engine's own cast to the physical type of `type`."""
        return f"CAST({sql} AS {self.type_name(type)})"

    def null(self, type: SqlType) -> str:
        """A typed NULL."""
        return f"CAST(NULL AS {self.type_name(type)})"

    def literal(self, value: object, type: SqlType) -> str:
        """A literal of the physical type of `type`; `value` as in `planner.ir.nodes.Literal`."""
        if value is None:
            return self.null(type)
        oid = type.oid
        if oid == types.BOOL:
            return "TRUE" if value else "FALSE"
        if isinstance(value, bool):
            raise TypeError(f"a boolean value for type {oid}")
        if isinstance(value, int) and (oid in (types.INT2, types.INT4, types.INT8) or oid in OID_TYPES):
            return self.integer(value, oid)
        if oid == types.NUMERIC:
            return self._numeric(value, type)
        if oid == types.FLOAT8 and isinstance(value, (int, float)):
            return self.float8(float(value))
        if oid == types.FLOAT4 and isinstance(value, (int, float)):
            return f"CAST({self.float8(float(value))} AS FLOAT)"
        if value in INFINITE and oid in (types.DATE, types.TIMESTAMP, types.TIMESTAMPTZ):
            return self.infinite(oid, value == "-infinity")
        if isinstance(value, datetime.datetime):
            if oid == types.TIMESTAMPTZ:
                moment = value if value.tzinfo is None else value.astimezone(datetime.UTC)
                return self.timestamptz(moment.replace(tzinfo=None).isoformat(sep=" "))
            return self.timestamp(value.isoformat(sep=" "))
        if isinstance(value, datetime.date):
            return f"DATE '{value.isoformat()}'"
        if isinstance(value, datetime.time):
            return f"TIME '{value.isoformat()}'"
        if isinstance(value, Interval):
            return self.interval(
                self.integer(value.months, types.INT4),
                self.integer(value.days, types.INT4),
                self.integer(value.micros, types.INT8),
            )
        if isinstance(value, bytes):
            return self.binary(value)
        element = element_type(type)
        if element is not None and isinstance(value, (tuple, list)):
            return self._array(value, element)
        if isinstance(value, str):
            return self.string(value)
        raise TypeError(f"a {value.__class__.__name__} for type {oid}")

    def _numeric(self, value: object, type: SqlType) -> str:
        number = value if isinstance(value, Decimal) else Decimal(str(value))
        if not number.is_finite():
            raise FeatureNotSupported(f"numeric value {number} is not supported")
        shape = type.shape or ANY_NUMERIC
        if shape == types.TOO_WIDE:
            raise FeatureNotSupported(
                f"numeric constants of more than {types.MAX_DECIMAL_PRECISION} digits are not supported"
            )
        digits = f"{number:f}"
        whole = digits.lstrip("-").split(".")[0].lstrip("0")
        if len(whole) > shape.precision - shape.scale:
            raise NumericValueOutOfRange("value overflows numeric format")
        return self.decimal(digits, shape)

    def _array(self, value: Sequence[object], element: SqlType) -> str:
        if any(isinstance(item, (tuple, list)) for item in value):
            raise FeatureNotSupported("multidimensional arrays are not supported")
        items = self.array([self.literal(item, element) for item in value])
        return f"CAST({items} AS {self.list_type(self.type_name(element))})"


_COMMON = {
    types.BOOL: "BOOLEAN", types.INT2: "SMALLINT", types.INT8: "BIGINT", types.FLOAT4: "FLOAT", types.FLOAT8: "DOUBLE",
    types.DATE: "DATE",
}  # fmt: skip


class LocalDialect(Dialect):
    """DuckDB."""

    name: EngineName = "local"
    text = "VARCHAR"
    scalar_types: ClassVar[dict[int, str]] = {
        **_COMMON, types.INT4: "INTEGER", types.BYTEA: "BLOB", types.TIME: "TIME", types.TIMESTAMP: "TIMESTAMP",
        types.TIMESTAMPTZ: "TIMESTAMPTZ", types.INTERVAL: "STRUCT(months INTEGER, days INTEGER, micros BIGINT)",
    }  # fmt: skip

    def list_type(self, element: str) -> str:
        return f"{element}[]"

    def string(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def binary(self, value: bytes) -> str:
        return f"from_hex('{value.hex()}')"

    def float8(self, value: float) -> str:
        if math.isfinite(value):
            text = repr(value)
            return (
                f"({text if 'e' in text else text + 'e0'})" if text[0] == "-" else text if "e" in text else text + "e0"
            )
        return f"CAST('{value}' AS DOUBLE)"

    def integer(self, value: int, oid: int) -> str:
        if oid == types.INT4:
            if value >= 0:
                return str(value)
            return f"({value})" if value > -(2**31) else f"CAST({value} AS INTEGER)"
        return f"CAST({value} AS {'SMALLINT' if oid == types.INT2 else 'BIGINT'})"

    def decimal(self, digits: str, shape: NumericShape) -> str:
        return f"CAST('{digits}' AS DECIMAL({shape.precision},{shape.scale}))"

    def infinite(self, oid: int, negative: bool) -> str:
        return f"CAST('{'-' if negative else ''}infinity' AS {self.scalar_types[oid]})"

    def timestamp(self, text: str) -> str:
        return f"TIMESTAMP '{text}'"

    def timestamptz(self, text: str) -> str:
        return f"TIMESTAMPTZ '{text}+00'"

    def interval(self, months: str, days: str, micros: str) -> str:
        return f"{{'months': {months}, 'days': {days}, 'micros': {micros}}}"

    def array(self, items: Sequence[str]) -> str:
        return f"[{', '.join(items)}]"

    def let(self, value: str, name: str, body: str) -> str:
        return f"list_transform([{value}], lambda {name}: {body})[1]"

    def error(self, message: str) -> str:
        return f"error({message})"


class SparkDialect(Dialect):
    """Spark SQL, ANSI mode."""

    name: EngineName = "spark"
    text = "STRING"
    scalar_types: ClassVar[dict[int, str]] = {
        **_COMMON, types.INT4: "INT", types.BYTEA: "BINARY", types.TIME: "TIME(6)", types.TIMESTAMP: "TIMESTAMP_NTZ",
        types.TIMESTAMPTZ: "TIMESTAMP", types.INTERVAL: "STRUCT<months: INT, days: INT, micros: BIGINT>",
    }  # fmt: skip

    _ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "$": "\\u0024", "\n": "\\n", "\r": "\\r", "\t": "\\t"})

    def list_type(self, element: str) -> str:
        return f"ARRAY<{element}>"

    def string(self, value: str) -> str:
        return "'" + value.translate(self._ESCAPES) + "'"

    def binary(self, value: bytes) -> str:
        return f"X'{value.hex()}'"

    def float8(self, value: float) -> str:
        if math.isfinite(value):
            return f"({value!r}D)" if value < 0 else f"{value!r}D"
        return f"CAST('{'Infinity' if value > 0 else '-Infinity' if value < 0 else 'NaN'}' AS DOUBLE)"

    def integer(self, value: int, oid: int) -> str:
        suffix = "" if oid == types.INT4 else "S" if oid == types.INT2 else "L"
        return f"{value}{suffix}" if value >= 0 else f"({value}{suffix})"

    def decimal(self, digits: str, shape: NumericShape) -> str:
        sign = "-" if digits[0] == "-" else ""
        whole, _, fraction = digits.lstrip("-").partition(".")
        if len(fraction) == shape.scale and len(whole.lstrip("0")) + len(fraction) == shape.precision:
            literal = f"{sign}{digits.lstrip('-')}BD"
            return f"({literal})" if sign else literal
        return f"CAST('{digits}' AS DECIMAL({shape.precision},{shape.scale}))"

    def infinite(self, oid: int, negative: bool) -> str:
        raise FeatureNotSupported("infinite dates and timestamps are not supported on Spark")

    def timestamp(self, text: str) -> str:
        return f"TIMESTAMP_NTZ '{text}'"

    def timestamptz(self, text: str) -> str:
        return f"TIMESTAMP '{text}+00:00'"

    def interval(self, months: str, days: str, micros: str) -> str:
        # Members of constants would count as never NULL, also where an outer join puts NULL for the whole.
        made = f"named_struct('months', {months}, 'days', {days}, 'micros', {micros})"
        return f"CAST({made} AS {self.scalar_types[types.INTERVAL]})"

    def array(self, items: Sequence[str]) -> str:
        return f"array({', '.join(items)})"

    def let(self, value: str, name: str, body: str) -> str:
        return f"transform(array({value}), {name} -> {body})[0]"

    def error(self, message: str) -> str:
        return f"raise_error({message})"


@lru_cache(maxsize=2)
def dialect(engine: EngineName) -> Dialect:
    """The dialect of an engine."""
    return LocalDialect() if engine == "local" else SparkDialect()
