"""How an engine writes types and literals.

SQL type names for `SqlType`s, and literals whose engine type is exactly the type that `planner.ir.physical` gives:

    LocalDialect().literal(Decimal("1.5"), SqlType(NUMERIC, -1, NumericShape(3, 1)))   # CAST('1.5' AS DECIMAL(3,1))
    SparkDialect().literal("it's", SqlType(TEXT))                                       # 'it\\'s'
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import Decimal
from typing import ClassVar

from planner.common_errors import NanNotHeld, numeric_overflow
from planner.dialects.engine_name import EngineName
from planner.ir.array_value import ArrayValue, not_ordinary
from planner.ir.composite import Composite
from planner.ir.nodes import Interval
from planner.ir.physical import OID_TYPES, element_type
from planner.types import types
from planner.types.ranges import range_or_multirange
from planner.types.types import NumericShape, SqlType
from planner.types.user_types import attributes, enum_of
from planner.values.datetimes.calendar_days import DAY_MICROS
from planner.values.text_values import format_numeric

LONG_LIST = 1_000
"""Items of a list from which an engine takes longer to read them as expressions than as a text."""

INFINITE = ("infinity", "-infinity")


class Literals(ABC):
    """One engine's spelling of types and values."""

    name: EngineName
    scalar_types: ClassVar[dict[int, str]]
    text: str

    @abstractmethod
    def list_type(self, element: str) -> str:
        """The SQL name of a list of `element`."""

    @abstractmethod
    def struct_type(self, members: Sequence[tuple[str, str]]) -> str:
        """The SQL name of a struct of members (name, type)."""

    @abstractmethod
    def struct(self, members: Sequence[tuple[str, str]]) -> str:
        """A struct of members (name, SQL)."""

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
    def clock_of_micros(self, micros: str) -> str:
        """The time of day that many microseconds after midnight, a day at most: 24:00:00 is a value of its own."""

    @abstractmethod
    def date_of_days(self, days: str) -> str:
        """The date so many days after 1970-01-01."""

    @abstractmethod
    def days_of_date(self, date: str) -> str:
        """The days since 1970 of a date."""

    @abstractmethod
    def moment_of_micros(self, micros: str, oid: int) -> str:
        """The timestamp or timestamptz (`oid` tells which) that many microseconds after 1970."""

    def moment_read(self, number: str, oid: int) -> str:
        """The date, timestamp or timestamptz (`oid` tells which) that is so many days or microseconds after 1970, or
        infinite (`planner.values.datetimes.calendar_days`)."""
        return self.date_of_days(number) if oid == types.DATE else self.moment_of_micros(number, oid)

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

    def dimensioned(self, items: str, dims: str) -> str:
        """An array of any dimensions from SQL of the list of its elements and of its dimensions, or NULL."""
        return self.struct([("items", items), ("dims", f"CAST({dims} AS {self.dimensions})")])

    @property
    def dimensions(self) -> str:
        """The SQL name of the type of an array's dimensions."""
        return self.list_type(self.scalar_types[types.INT4])

    def type_name(self, type: SqlType) -> str:
        """The SQL name of the physical type of `type`."""
        scalar = self.scalar_types.get(type.oid)
        if scalar is not None:
            return scalar
        if type.oid == types.NUMERIC:
            shape = type.shape
            if shape is None or not shape.exact_scale:
                return self.text
            return f"DECIMAL({shape.precision},{shape.scale})"
        if type.oid in OID_TYPES:
            return "BIGINT"
        if range_or_multirange(type.oid) is not None:
            return self.scalar_types[types.BYTEA]
        element = element_type(type)
        if element is not None:
            items = self.list_type(self.type_name(element))
            return self.struct_type([("items", items), ("dims", self.dimensions)]) if type.dimensioned else items
        fields = attributes(type.oid)
        if fields is not None:
            return self.struct_type([(field.physical, self.type_name(field.type)) for field in fields])
        if enum_of(type.oid) is not None:
            return self.scalar_types[types.INT8]
        return self.text

    def cast(self, sql: str, type: SqlType) -> str:
        """The engine's own cast to the physical type of `type`."""
        return f"CAST({sql} AS {self.type_name(type)})"

    def shown(self, sql: str, type: SqlType) -> str:
        """The text of a value of type numeric, or of an integer type."""
        return f"CAST({sql} AS {self.text})"

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
        if isinstance(value, int) and enum_of(oid) is not None:
            return self.integer(value, types.INT8)
        if oid == types.NUMERIC:
            return self._numeric(value, type)
        if oid == types.FLOAT8 and isinstance(value, (int, float)):
            return self.float8(float(value))
        if oid == types.FLOAT4 and isinstance(value, (int, float)):
            return f"CAST({self.float8(float(value))} AS FLOAT)"
        if value in INFINITE and oid in (types.DATE, types.TIMESTAMP, types.TIMESTAMPTZ):
            return self.infinite(oid, value == "-infinity")
        if value == DAY_MICROS and oid == types.TIME:
            return self.clock_of_micros(self.integer(DAY_MICROS, types.INT8))
        if isinstance(value, int) and oid == types.DATE:
            return self.date_of_days(self.integer(value, types.INT4))
        if isinstance(value, int) and oid in (types.TIMESTAMP, types.TIMESTAMPTZ):
            return self.moment_of_micros(self.integer(value, types.INT8), oid)
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
        if isinstance(value, Composite):
            fields = attributes(oid) or ()
            items = [self.literal(item, field.type) for item, field in zip(value.items, fields, strict=True)]
            return self.struct([(field.physical, item) for field, item in zip(fields, items, strict=True)])
        element = element_type(type)
        if element is not None and isinstance(value, (tuple, list, ArrayValue)):
            return self._array(value, type, element)
        if isinstance(value, str):
            return self.string(value)
        raise TypeError(f"a {value.__class__.__name__} for type {oid}")

    def _numeric(self, value: object, type: SqlType) -> str:
        number = value if isinstance(value, Decimal) else Decimal(str(value))
        shape = type.shape
        if shape is None or not shape.exact_scale:
            return self.string(format_numeric(number))
        if number.is_nan():
            raise NanNotHeld
        if number.is_infinite():
            raise numeric_overflow()
        digits = f"{number:f}"
        whole = digits.lstrip("-").split(".")[0].lstrip("0")
        if len(whole) > shape.precision - shape.scale:
            raise numeric_overflow()
        return self.decimal(digits, shape)

    def long_list(self, items: Sequence[object], element: SqlType) -> str | None:
        """A list of very many items, where it is better not written as so many literals; None: it is not."""
        return None

    def _array(self, value: Sequence[object] | ArrayValue, type: SqlType, element: SqlType) -> str:
        dims = value.dims if isinstance(value, ArrayValue) else None
        items = value.items if isinstance(value, ArrayValue) else value
        listed = self.long_list(items, element) if len(items) > LONG_LIST else None
        if listed is None:
            literals = self.array([self.literal(item, element) for item in items])
            listed = f"CAST({literals} AS {self.list_type(self.type_name(element))})"
        if not type.dimensioned:
            if dims is not None:
                raise not_ordinary()
            return listed
        return self.dimensioned(listed, "NULL" if dims is None else self.array([str(number) for number in dims]))


COMMON_TYPES = {
    types.BOOL: "BOOLEAN", types.INT2: "SMALLINT", types.INT8: "BIGINT", types.FLOAT4: "FLOAT", types.FLOAT8: "DOUBLE",
    types.DATE: "DATE",
}  # fmt: skip
"""Names of types that both engines share."""
