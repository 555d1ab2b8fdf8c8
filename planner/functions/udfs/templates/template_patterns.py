"""Template patterns of dates and times: their fields, and the literal text between them."""

from __future__ import annotations

import calendar
from functools import lru_cache

MONTHS = list(calendar.month_name)[1:]
DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
FIELDS = [
    "SSSSS", "SSSS", "HH24", "HH12", "Y,YYY", "YYYY", "IYYY", "MONTH", "Month", "month", "A.D.", "a.d.", "B.C.",
    "b.c.", "A.M.", "a.m.", "P.M.", "p.m.", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "IDDD", "DDD", "DAY", "Day",
    "day", "MON", "Mon", "mon", "YYY", "IYY", "TZH", "TZM", "HH", "MI", "SS", "MS", "US", "AM", "am", "PM", "pm",
    "YY", "IY", "BC", "bc", "AD", "ad", "MM", "DY", "Dy", "dy", "DD", "ID", "WW", "IW", "CC", "RM", "rm", "TZ",
    "tz", "OF", "Y", "I", "D", "W", "Q", "J",
]  # fmt: skip
"""What a pattern may ask for; of fields that begin alike the longer comes first."""

INSENSITIVE = frozenset({
    "SSSSS", "SSSS", "HH24", "HH12", "Y,YYY", "YYYY", "IYYY", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "IDDD",
    "DDD", "YYY", "IYY", "TZH", "TZM", "HH", "MI", "SS", "MS", "US", "YY", "IY", "MM", "DD", "ID", "WW", "IW", "CC",
    "OF", "Y", "I", "D", "W", "Q", "J",
})  # fmt: skip
"""Fields that may be written in any case. That of the others says the case of what they print."""


@lru_cache(maxsize=512)
def tokens(pattern: str) -> tuple[tuple[str, str, bool, bool], ...]:
    """(kind, text, fill mode, ordinal suffix) of each part; kind is "field" or "text"."""
    found: list[tuple[str, str, bool, bool]] = []
    index = 0
    while index < len(pattern):
        if pattern[index] == '"':
            end = index + 1
            text = ""
            while end < len(pattern) and pattern[end] != '"':
                if pattern[end] == "\\" and end + 1 < len(pattern):
                    end += 1
                text += pattern[end]
                end += 1
            found.append(("quoted", text, False, False))
            index = end + 1
            continue
        fill = False
        start = index
        while pattern[index : index + 2].upper() in ("FM", "TM", "FX"):
            fill = fill or pattern[index : index + 2].upper() == "FM"
            index += 2
        for field in FIELDS:
            part = pattern[index : index + len(field)]
            if part == field or (field in INSENSITIVE and part.upper() == field):
                index += len(field)
                suffix = pattern[index : index + 2] if pattern[index : index + 2] in ("TH", "th") else ""
                index += len(suffix)
                found.append(("field", field, fill, bool(suffix)))
                if suffix:
                    found[-1] = ("field", field + "\0" + suffix, fill, True)
                break
        else:
            if index == start or index < len(pattern):
                char = pattern[index : index + 1]
                if char == "\\" and pattern[index + 1 : index + 2] == '"':
                    index += 1
                    char = '"'
                if char:
                    found.append(("text", char, False, False))
                index += 1
    return tuple(found)


def ordinal(number: str, suffix: str) -> str:
    """`number` with its English ordinal suffix, in capitals for TH."""
    value = abs(int(number))
    word = "th" if 10 < value % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    return number + (word.upper() if suffix == "TH" else word)
