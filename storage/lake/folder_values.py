"""The values that names of folders (``column=text``) give: of what type they are, and as what they are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_DIGITS_ALONE = re.compile(r"-?[0-9]{1,18}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DECIMAL = re.compile(r"-?([0-9]+)(?:\.([0-9]+))?")
_FLOAT = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|inf|Infinity)|nan|NaN")
_ZONE = r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)"
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?" + f"{_ZONE}?")
_TRUTHS = {"true": True, "false": False}


def type_of(texts: set[str]) -> pa.DataType:
    """What values are that nobody has declared: whole numbers, dates or texts."""
    if texts and all(map(_WHOLE.fullmatch, texts)):
        return pa.int32() if all(-(2**31) <= int(text) < 2**31 for text in texts) else pa.int64()
    if texts and all(is_value(text, pa.date32()) for text in texts):
        return pa.date32()
    return pa.string()


def is_plain(type: pa.DataType) -> bool:
    """Whether all readers take the same values of `type` from folders."""
    return bool(pa.types.is_integer(type) or type in (pa.date32(), pa.string(), pa.bool_()))


def is_value(text: str, type: pa.DataType) -> bool:
    """Whether `text` is a value of the declared `type`, as it is."""
    try:
        _read(text, type)
    except ValueError:
        return False
    return True


def value_of(text: str | None, type: pa.DataType) -> Any:
    """The value of `type`, of which `text` is one. None for NULL."""
    return None if text is None else _read(text, type)


def _read(text: str, type: pa.DataType) -> Any:
    if pa.types.is_integer(type):
        bits = type.bit_width - 1
        return _checked(text, _DIGITS_ALONE, int, lambda value: -(2**bits) <= value < 2**bits)
    if type == pa.date32():
        return _checked(text, _DATE, date.fromisoformat)
    if pa.types.is_string(type):
        return text
    if pa.types.is_boolean(type):
        return _TRUTHS[text.lower()] if text.lower() in _TRUTHS else _refuse(text)
    if pa.types.is_decimal(type):
        found = _DECIMAL.fullmatch(text)
        if found is None or len(found[2] or "") > type.scale or len(found[1].lstrip("0")) > type.precision - type.scale:
            _refuse(text)
        return Decimal(text)
    if pa.types.is_floating(type):
        return _checked(text, _FLOAT, float)
    if pa.types.is_timestamp(type):
        moment = _checked(text, _MOMENT, datetime.fromisoformat)
        if (moment.tzinfo is None) != (type.tz is None):
            _refuse(text)
        return moment if moment.tzinfo is None else moment.astimezone(UTC)
    return _refuse(text)


def _checked(
    text: str, pattern: re.Pattern[str], read: Callable[[str], Any], holds: Callable[[Any], bool] = lambda _: True
) -> Any:
    if pattern.fullmatch(text) is None:
        _refuse(text)
    value = read(text)
    return value if holds(value) else _refuse(text)


def _refuse(text: str) -> Any:
    raise ValueError(text)
