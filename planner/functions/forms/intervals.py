"""What the forms of dates, times and intervals share, on both engines."""

from __future__ import annotations

MICROS_PER_DAY = 86_400_000_000


def unless_null(places: str, body: str) -> str:
    """`body` (an interval made of its parts), but NULL when one of the arguments `places` is: a struct is not
    NULL by itself when its members are."""
    tests = " OR ".join(f"{{{place}}} IS NULL" for place in places)
    return f"CASE WHEN {tests} THEN NULL ELSE {body} END"
