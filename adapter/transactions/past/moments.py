"""Moments of the past, as users write them: a CSN, or a point in time.

A CSN is a number. A point in time means everything that was committed up to and with its millisecond, which is how
exactly CSNs tell the time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from planner.errors import InvalidParameterValue, SqlError
from planner.types import types as t
from planner.types.types import SqlType
from planner.values.text_values import parse_text
from storage.timestamps.csn import COUNTER_MASK, Csn, csn_from_ms, csn_ms

_NUMBER = re.compile(r"\s*[0-9]{1,19}\s*")
_MAX_CSN = (1 << 63) - 1


def csn_at(time: datetime) -> Csn:
    """The CSN at which everything is read that was committed up to `time`."""
    return csn_from_ms(int(time.timestamp() * 1000), COUNTER_MASK)


def time_of(csn: Csn) -> datetime:
    """When `csn` was given out, to the millisecond."""
    return datetime.fromtimestamp(csn_ms(csn) / 1000, UTC)


def moment(text: str, time_zone: str, parameter: str = "tidegate.as_of") -> Csn:
    """The CSN that `text` means: a CSN, or a time in the session's `time_zone` unless it names one. Raises 22023."""
    if _NUMBER.fullmatch(text) is not None:
        number = int(text)
        if number <= _MAX_CSN:
            return Csn(number)
    try:
        value = parse_text(text, SqlType(t.TIMESTAMPTZ), {"TimeZone": time_zone})
    except SqlError as error:
        value = None
        reason: SqlError | None = error
    else:
        reason = None
    if not isinstance(value, datetime):
        raise InvalidParameterValue(
            f'invalid value for parameter "{parameter}": "{text}"',
            hint="Give a CSN, as tidegate.current_csn() returns it, or a time.",
        ) from reason
    return csn_at(value)
