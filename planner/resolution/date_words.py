"""The words of date and time literals that stand for a moving time: now, today, tomorrow and yesterday.

A literal with one of them is no constant here: it is worked out from the transaction's time whenever the statement
runs. PostgreSQL fixes it when it parses the statement, which differs for prepared statements, views and defaults.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

from planner.functions.registry import functions, operators
from planner.ir.nodes import Call, Cast, Interval, Literal, Scalar, SessionValue
from planner.types.signature import Signature
from planner.types.types import DATE, INT4, INTERVAL, TEXT, TIME, TIMESTAMP, TIMESTAMPTZ, TIMETZ, SqlType
from planner.values.datetimes.fields import read_fields
from planner.values.datetimes.time_zones import Zone

_WORDS = re.compile(r"now|today|tomorrow|yesterday", re.IGNORECASE)
_DAYS = {"today": 0, "tomorrow": 1, "yesterday": -1}
_TYPE_NAMES = {
    DATE: "date",
    TIME: "time",
    TIMETZ: "time with time zone",
    TIMESTAMP: "timestamp",
    TIMESTAMPTZ: "timestamp with time zone",
}


def moving_time(text: str, oid: int, date_style: str) -> Scalar | None:
    """What the literal `text` of the type `oid` stands for at the transaction's time; None when it has no such word.

    Raises 22007, 22008, 22009, 22023 for what else is in the text.
    """
    if oid not in _TYPE_NAMES or _WORDS.search(text) is None:
        return None
    fields = read_fields(text, _TYPE_NAMES[oid], date_style)
    now = SessionValue(name="now", type=SqlType(TIMESTAMPTZ))
    if fields.special == "now":
        return now if oid == TIMESTAMPTZ else _cast(now, oid)
    if fields.special not in _DAYS:
        return None
    day = _cast(now, DATE)
    if _DAYS[fields.special]:
        day = _add(day, Literal(value=_DAYS[fields.special], type=SqlType(INT4)), DATE)
    if oid == DATE:
        return day
    moment = _cast(day, TIMESTAMP)
    if fields.clock:
        moment = _add(moment, Literal(value=Interval(0, 0, fields.clock), type=SqlType(INTERVAL)), TIMESTAMP)
    if oid == TIMESTAMP:
        return moment
    return _cast(moment, oid) if fields.zone is None else _in_zone(fields.zone, moment)


def _cast(value: Scalar, oid: int) -> Scalar:
    return Cast(arg=value, type=SqlType(oid), explicit=True)


def _add(left: Scalar, right: Scalar, oid: int) -> Scalar:
    return _call(operators("+"), (left, right), oid)


def _in_zone(zone: Zone, wall: Scalar) -> Scalar:
    """The moment at which the clocks of `zone` show `wall`."""
    where = Literal(value=zone.name, type=SqlType(TEXT))
    if zone.offset is not None:
        where = Literal(value=Interval(0, 0, zone.offset // timedelta(microseconds=1)), type=SqlType(INTERVAL))
    return _call(functions("timezone"), (where, wall), TIMESTAMPTZ)


def _call(overloads: Sequence[Signature], args: tuple[Scalar, ...], oid: int) -> Scalar:
    types = tuple(arg.type.oid for arg in args)
    signature = next(found for found in overloads if found.args == types)
    return Call(signature=signature, args=args, type=SqlType(oid))
