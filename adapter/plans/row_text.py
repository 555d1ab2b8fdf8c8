"""Rows as text for error details: ``Failing row contains (1, null, x).``, as PostgreSQL writes them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

from planner.ir.array_value import ArrayValue
from planner.ir.composite import Composite
from planner.ir.nodes import Interval
from planner.ir.physical import element_type, listed
from planner.types import types as t
from planner.types.types import SqlType, is_wide
from planner.types.user_types import attributes
from planner.values.datetimes.calendar_days import (
    DATE_INFINITY,
    TIMESTAMP_INFINITY,
    clock_of,
    date_of,
    timestamp_of,
    timestamptz_of,
)
from planner.values.text_values import format_text

MAX_FIELD_BYTES = 64
"""PostgreSQL's maxfieldlen: of a longer field the characters that fit."""

_EXACT = Context(prec=100)


def row_text(batch: Any, row: int, types: Sequence[SqlType], settings: Mapping[str, str]) -> str:
    """The values of one row of a record batch, as PostgreSQL lists them in a detail. (A batch of
    rows without columns has one that counts them.)"""
    fields = []
    for text in _texts(batch.columns[: len(types)], row, types, settings):
        encoded = text.encode()
        if len(encoded) > MAX_FIELD_BYTES:
            text = encoded[:MAX_FIELD_BYTES].decode(errors="ignore") + "..."
        fields.append(text)
    return f"({', '.join(fields)})"


def key_text(
    names: Sequence[str], columns: Sequence[Any], row: int, types: Sequence[SqlType], settings: Mapping[str, str]
) -> str:
    """One key, as PostgreSQL names it in a detail: ``(a, b)=(1, x)``."""
    return f"({', '.join(names)})=({', '.join(_texts(columns, row, types, settings))})"


def _texts(columns: Sequence[Any], row: int, types: Sequence[SqlType], settings: Mapping[str, str]) -> Iterator[str]:
    for text in field_texts(columns, row, types, settings):
        yield "null" if text is None else text


def field_texts(
    columns: Sequence[Any], row: int, types: Sequence[SqlType], settings: Mapping[str, str]
) -> Iterator[str | None]:
    """The text of each field of a row, None for NULL."""
    for column, type_ in zip(columns, types, strict=True):
        value = literal_value(column, row, type_)
        yield None if value is None else format_text(_shown(value, type_), type_, settings)


def _shown(value: Any, type_: SqlType) -> Any:
    """The value without zeros that only its column's storage adds."""
    if isinstance(value, tuple):
        element = element_type(type_)
        return value if element is None else tuple(_shown(item, element) for item in value)
    if isinstance(value, Decimal) and type_.typmod < 0 and not is_wide(type_):
        return value.normalize(_EXACT)
    return value


def literal_value(column: Any, row: int, type_: SqlType) -> Any:
    """The value of an Arrow column at `row`, as `ir.Literal` has it."""
    scalar = column[row]
    if not scalar.is_valid:
        return None
    if type_.oid == t.DATE and abs(scalar.value) >= DATE_INFINITY:
        return "infinity" if scalar.value > 0 else "-infinity"
    if type_.oid in (t.TIMESTAMP, t.TIMESTAMPTZ) and abs(scalar.value) >= TIMESTAMP_INFINITY:
        return "infinity" if scalar.value > 0 else "-infinity"
    if type_.oid in _NUMBERED:
        return _NUMBERED[type_.oid](scalar.value)
    return _literal(scalar.as_py(), type_)


_NUMBERED: Mapping[int, Callable[[int], object]] = {
    t.DATE: date_of,
    t.TIME: clock_of,
    t.TIMESTAMP: timestamp_of,
    t.TIMESTAMPTZ: timestamptz_of,
}
"""Types whose values Python may not have."""


def _literal(value: Any, type_: SqlType) -> Any:
    if isinstance(value, dict) and type_.oid == t.INTERVAL:
        return Interval(value["months"], value["days"], value["micros"])
    if isinstance(value, dict) and type_.dimensioned:
        items = _literal(value["items"], listed(type_))
        return items if value["dims"] is None else ArrayValue(items, tuple(value["dims"]))
    if isinstance(value, dict):
        fields = attributes(type_.oid) or ()
        values = (value[field.physical] for field in fields)
        return Composite(
            tuple(
                None if item is None else _literal(item, field.type) for item, field in zip(values, fields, strict=True)
            )
        )
    if isinstance(value, list):
        element = element_type(type_)
        return tuple(value if element is None else (_literal(item, element) for item in value))
    if isinstance(value, datetime.datetime) and type_.oid == t.TIMESTAMPTZ:
        return value.astimezone(datetime.UTC)
    if isinstance(value, str) and type_.oid == t.NUMERIC:
        return Decimal(value)  # A wide one.
    return value
