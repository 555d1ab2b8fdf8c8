"""SQL that the forms of dates, times and intervals share.

An interval is a struct of months, days and microseconds on both engines.
"""

from __future__ import annotations

from planner.dialects.engine_name import EngineName
from planner.functions.forms.form import CallSite
from planner.types.types import TIMESTAMP

MICROS_PER_DAY = 86_400_000_000


def interval_struct(engine: EngineName, months: str, days: str, micros: str) -> str:
    """An interval of these parts (SQL of whole numbers)."""
    if engine == "local":
        return (
            f"{{'months': CAST({months} AS INTEGER), 'days': CAST({days} AS INTEGER), 'micros': CAST({micros} AS"
            " BIGINT)}"
        )
    # A struct of constants would count as never NULL even where the whole struct is.
    months, days, micros = (f"nullif({part}, 1)" if part == "0" else part for part in (months, days, micros))
    return (
        f"named_struct('months', CAST({months} AS INT), 'days', CAST({days} AS INT), 'micros', CAST({micros} AS"
        " BIGINT))"
    )


def unless_null(engine: EngineName, places: str, body: str) -> str:
    """`body` (an interval made of its parts), but NULL when one of the arguments `places` is: a struct is not
    NULL by itself when its members are."""
    tests = " OR ".join(f"{{{place}}} IS NULL" for place in places)
    return f"CASE WHEN {tests} THEN NULL ELSE {body} END"


def timestamp_type(engine: EngineName) -> str:
    """The engine's name of timestamp without time zone."""
    return "TIMESTAMP" if engine == "local" else "TIMESTAMP_NTZ"


def whole_division(engine: EngineName) -> str:
    """The operator that divides whole numbers, towards zero."""
    return "//" if engine == "local" else "div"


def micros_interval(engine: EngineName, micros: str) -> str:
    """That many microseconds as the engine's own interval, to add to a timestamp."""
    if engine == "local":
        return f"to_microseconds({micros})"
    return f"make_dt_interval(0, 0, 0, CAST({micros} / 1000000BD AS DECIMAL(18,6)))"


def moment_micros(site: CallSite, place: str, type: int) -> str:
    """The microseconds since 1970 of a timestamp or timestamptz (`type` tells which)."""
    if site.engine == "local":
        return f"epoch_us({place})"
    if type == TIMESTAMP:
        return f"unix_micros(CAST({place} AS TIMESTAMP))"
    return f"unix_micros({place})"


def time_micros(site: CallSite, place: str) -> str:
    """The microseconds since midnight of a time."""
    if site.engine == "local":
        return f"epoch_us({place})"
    return f"time_diff('MICROSECOND', TIME '00:00:00', {place})"
