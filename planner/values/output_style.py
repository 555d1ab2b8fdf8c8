"""How definitions are written for the session that asks for them: constants as its DateStyle, IntervalStyle and
TimeZone have them, and with every name in quotes if quote_all_identifiers is on.

What the catalog keeps is in one form, which that of most sessions is too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

from planner.syntax.identifiers import QUOTES_ALL
from planner.values.text_values import date_style, interval_style, time_zone

_KEPT: Mapping[str, str] = MappingProxyType({})
_SETTINGS: ContextVar[Mapping[str, str]] = ContextVar("output_settings", default=_KEPT)


@contextmanager
def written_for(settings: Mapping[str, str]) -> Iterator[None]:
    """Definitions are written as a session with these settings has them for the length of the block."""
    known = _SETTINGS.set(settings)
    quoting = QUOTES_ALL.set(settings.get("quote_all_identifiers", "off") == "on")
    try:
        yield
    finally:
        QUOTES_ALL.reset(quoting)
        _SETTINGS.reset(known)


def output_settings() -> Mapping[str, str]:
    """The settings by which constants are written."""
    return _SETTINGS.get()


def is_as_kept() -> bool:
    """Whether definitions are written in the form in which the catalog keeps them."""
    settings = _SETTINGS.get()
    if QUOTES_ALL.get():
        return False
    return (
        date_style(settings).startswith("ISO")
        and interval_style(settings) == interval_style(_KEPT)
        and time_zone(settings) == time_zone(_KEPT)
    )
