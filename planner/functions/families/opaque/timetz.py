"""time with time zone (PostgreSQL 15, 8.5 and 9.9): order, arithmetic, casts. Its fields are in `datetime.fields`."""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.forms.form import CallSite, Form, both
from planner.functions.forms.spans import overlapping
from planner.functions.forms.zones import of_whole_seconds
from planner.types.signature import COMPARISONS
from planner.types.types import TIMESTAMP, TIMESTAMPTZ


def _compared(symbol: str) -> Form:
    if symbol in ("=", "<>"):
        return both(f"({{0}} {symbol} {{1}})")

    def template(site: CallSite) -> str:
        left, right = (site.dialect.python("tg_timetz_key", side) for side in ("{0}", "{1}"))
        return f"({left} {symbol} {right})"

    return both(template)


def _extreme(name: str) -> Form:
    def template(site: CallSite) -> str:
        key = site.dialect.python("tg_timetz_key", "{0}")
        return f"arg_{name}({{0}}, {key}){{f}}" if site.engine == "local" else f"{name}_by({{0}}, {key}){{f}}"

    return both(template)


def _moved(sign: str) -> Form:
    return both(lambda site: site.dialect.python("tg_timetz_moved", "{0}", f"{sign}({{1}}).micros"))


def _on_day(day: str, time: str) -> Form:
    """The moment at which a clock shows the time on that day (datetimetz_timestamptz)."""

    def template(site: CallSite) -> str:
        micros = site.dialect.python("tg_timetz_micros", time)
        east = site.dialect.python("tg_timetz_east", time)
        midnight = site.dialect.midnight(day)
        since = site.dialect.moment_micros(midnight, TIMESTAMP)
        zoned = site.dialect.scalar_types[TIMESTAMPTZ]
        finite = site.dialect.moment_of_micros(f"({since} + {micros} - {east} * 1000000)", TIMESTAMPTZ)
        endless = f"CASE WHEN {time} IS NOT NULL THEN CAST({midnight} AS {zoned}) END"
        return f"CASE WHEN {site.dialect.is_infinite_moment(day)} THEN {endless} ELSE {finite} END"

    return both(template)


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given = {f"{symbol}(timetz,timetz)": _compared(symbol) for symbol in COMPARISONS}
    for name in ("min", "max"):
        given[f"{name}(timetz)"] = _extreme(name)
    given["overlaps(timetz,timetz,timetz,timetz)"] = both(
        lambda site: overlapping(*(site.dialect.python("tg_timetz_key", f"{{{n}}}") for n in range(4)))
    )
    given["+(timetz,interval)"] = _moved("")
    given["-(timetz,interval)"] = _moved("-")
    given["+(interval,timetz)"] = both(lambda site: site.dialect.python("tg_timetz_moved", "{1}", "({0}).micros"))
    given["+(date,timetz)"] = _on_day("{0}", "{1}")
    given["+(timetz,date)"] = _on_day("{1}", "{0}")
    given["timestamptz(date,timetz)"] = _on_day("{0}", "{1}")
    given["timezone(text,timetz)"] = both(lambda site: site.dialect.python("tg_timetz_at_zone", "{0}", "{1}"))
    given["timezone(interval,timetz)"] = both(
        lambda site: of_whole_seconds(site, site.dialect.python("tg_timetz_at_offset", "({0}).micros", "{1}"))
    )
    return given
