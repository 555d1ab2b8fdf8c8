"""The words of date and time literals that stand for a moving time: now, today, tomorrow and yesterday.

A literal with one of them is no constant here: it is worked out from the transaction's time whenever the statement
runs. PostgreSQL fixes it when it parses the statement, which differs for prepared statements, views and defaults.
"""

from __future__ import annotations

import re

from planner.common_errors import datetime_field_overflow
from planner.errors import DatetimeFieldOverflow, InvalidDatetimeFormat
from planner.functions.registry import operators
from planner.ir.nodes import Call, Cast, Literal, Scalar, SessionValue
from planner.types.types import DATE, INT4, TIME, TIMESTAMP, TIMESTAMPTZ, SqlType
from planner.values.datetime_text import parse_time

_WORDS = re.compile(r"\s*(now|today|tomorrow|yesterday)(?:\s+(\S.*?))?\s*\Z", re.IGNORECASE)
_DAYS = {"today": 0, "tomorrow": 1, "yesterday": -1}


def moving_time(text: str, oid: int, date_style: str) -> Scalar | None:
    """What the literal `text` of the type `oid` stands for at the transaction's time; None when it has no such word.

    A time of day may follow the word. Raises 22008 for one that is out of range.
    """
    if oid not in (DATE, TIME, TIMESTAMP, TIMESTAMPTZ):
        return None
    match = _WORDS.match(text)
    if match is None:
        return None
    word, clock = match[1].lower(), match[2]
    now = SessionValue(name="now", type=SqlType(TIMESTAMPTZ))
    if word == "now":
        if clock is not None:
            return None
        return now if oid == TIMESTAMPTZ else _cast(now, oid)
    if oid == TIME:
        return None
    day = _cast(now, DATE)
    if _DAYS[word]:
        day = _add(day, Literal(value=_DAYS[word], type=SqlType(INT4)), DATE)
    if clock is not None:
        try:
            time = parse_time(clock, date_style)
        except InvalidDatetimeFormat:
            return None
        except DatetimeFieldOverflow:
            raise datetime_field_overflow(text) from None
        if oid != DATE:
            moment = _add(day, Literal(value=time, type=SqlType(TIME)), TIMESTAMP)
            return moment if oid == TIMESTAMP else _cast(moment, oid)
    return day if oid == DATE else _cast(day, oid)


def _cast(value: Scalar, oid: int) -> Scalar:
    return Cast(arg=value, type=SqlType(oid), explicit=True)


def _add(left: Scalar, right: Scalar, oid: int) -> Scalar:
    types = (left.type.oid, right.type.oid)
    signature = next(found for found in operators("+") if found.args == types)
    return Call(signature=signature, args=(left, right), type=SqlType(oid))
