"""How Spark's and Trino's SQL writes names, types and constants, for the queries that `published` makes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal

from msgspec import Struct

from planner.errors import FeatureNotSupported
from planner.types import types as t
from planner.types.type_names import format_type
from planner.types.types import MAX_DECIMAL_PRECISION, SqlType

TEXTS = frozenset({t.TEXT, t.VARCHAR})
WHOLE = frozenset({t.INT2, t.INT4, t.INT8})
FLOATS = frozenset({t.FLOAT4, t.FLOAT8})

_ICEBERG: Mapping[int, str] = {
    t.BOOL: "boolean", t.INT2: "int", t.INT4: "int", t.INT8: "long", t.FLOAT4: "float", t.FLOAT8: "double",
    t.TEXT: "string", t.VARCHAR: "string", t.DATE: "date", t.TIMESTAMP: "timestamp", t.TIMESTAMPTZ: "timestamptz",
    t.BYTEA: "binary",
}  # fmt: skip


def not_vouched(what: str) -> FeatureNotSupported:
    """0A000: `what` has no counterpart that surely means the same."""
    return FeatureNotSupported(f"{what} has no certain counterpart in the dialects of Spark and Trino")


def digits(type: SqlType) -> tuple[int, int]:
    """Precision and scale of a numeric. Raises 0A000 for one whose values have no common scale."""
    shape = type.shape
    if shape is None or not shape.exact_scale or shape.precision > MAX_DECIMAL_PRECISION or shape.scale < 0:
        raise not_vouched("a numeric without a precision")
    return shape.precision, shape.scale


def iceberg_type(type: SqlType) -> str:
    """Iceberg's name of a type. Raises 0A000."""
    if type.oid == t.NUMERIC:
        precision, scale = digits(type)
        return f"decimal({precision}, {scale})"
    known = _ICEBERG.get(type.oid)
    if known is None or type.domain:
        raise not_vouched(f"type {format_type(type.declared_oid, type.typmod)}")
    return known


class Dialect(Struct, frozen=True, kw_only=True):
    """One of the two dialects."""

    name: str
    quote: str
    types: Mapping[str, str]
    escapes: tuple[tuple[str, str], ...]
    plain_time: str

    @property
    def is_spark(self) -> bool:
        return self.name == "spark"

    def identifier(self, name: str) -> str:
        """A name in quotes."""
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def type(self, type: SqlType) -> str:
        """The name of a type. Raises 0A000."""
        if type.oid == t.NUMERIC:
            return "DECIMAL({}, {})".format(*digits(type))
        return self.types[iceberg_type(type)]

    def text(self, value: str) -> str:
        """A constant text."""
        for found, written in self.escapes:
            value = value.replace(found, written)
        return f"'{value}'"

    def constant(self, value: object, type: SqlType) -> str:
        """A constant. Raises 0A000."""
        name = self.type(type)
        match value:
            case None:
                return f"CAST(NULL AS {name})"
            case bool():
                return "TRUE" if value else "FALSE"
            case int() if type.oid in WHOLE:
                return str(value) if type.oid == t.INT4 and value >= 0 else f"CAST({value} AS {name})"
            case Decimal() if value.is_finite():
                return f"CAST('{value:f}' AS {name})"
            case float():
                return f"CAST('{_SPECIAL.get(str(value), repr(value))}' AS {name})"
            case str() if type.oid in TEXTS:
                return self.text(value)
            case datetime() if value.year >= 1:
                zone = " UTC" if type.oid == t.TIMESTAMPTZ else ""
                moment = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
                word = self.plain_time if type.oid == t.TIMESTAMP else "TIMESTAMP"
                return f"CAST({word} '{moment.isoformat(' ', 'microseconds')}{zone}' AS {name})"
            case date():
                return f"DATE '{value.isoformat()}'"
        raise not_vouched(f"a constant of type {format_type(type.oid, type.typmod)} ({value})")


_SPECIAL = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}

SPARK = Dialect(
    name="spark",
    quote="`",
    types={
        "boolean": "BOOLEAN", "int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE", "string": "STRING",
        "date": "DATE", "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP", "binary": "BINARY",
    },
    escapes=(("\\", "\\\\"), ("'", "\\'")),
    plain_time="TIMESTAMP_NTZ",
)  # fmt: skip
TRINO = Dialect(
    name="trino",
    quote='"',
    types={
        "boolean": "BOOLEAN", "int": "INTEGER", "long": "BIGINT", "float": "REAL", "double": "DOUBLE",
        "string": "VARCHAR", "date": "DATE", "timestamp": "TIMESTAMP(6)",
        "timestamptz": "TIMESTAMP(6) WITH TIME ZONE", "binary": "VARBINARY",
    },
    escapes=(("'", "''"),),
    plain_time="TIMESTAMP",
)  # fmt: skip
