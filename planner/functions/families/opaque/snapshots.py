"""xid8, pg_snapshot and txid_snapshot, held as their text: a number, and ``xmin:xmax:xip,xip,...``."""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.forms.form import Form

_XIP = {
    "local": "string_split(split_part({0}, ':', 3), ',')",
    "spark": "split(split_part({0}, ':', 3), ',')",
}
_EMPTY = {"local": "CAST([] AS VARCHAR[])", "spark": "CAST(array() AS ARRAY<STRING>)"}
_NUMBER = {"local": "HUGEINT", "spark": "DECIMAL(20, 0)"}
_CONTAINS = {"local": "list_contains", "spark": "array_contains"}
_TEXT = {"local": "VARCHAR", "spark": "STRING"}
_BIGINTS = {"local": "BIGINT[]", "spark": "ARRAY<BIGINT>"}
_ENGINES = ("local", "spark")


def _form(**templates: str) -> Form:
    return Form(local=templates["local"], spark=templates["spark"])


def _xip(engine: str, *, big: bool) -> str:
    listed = f"CASE WHEN split_part({{0}}, ':', 3) = '' THEN {_EMPTY[engine]} ELSE {_XIP[engine]} END"
    return f"CAST({listed} AS {_BIGINTS[engine]})" if big else listed


def _visible(engine: str) -> str:
    def number(text: str) -> str:
        return f"CAST({text} AS {_NUMBER[engine]})"

    xid, snapshot = number("{0}"), "{1}"
    xmin, xmax = number(f"split_part({snapshot}, ':', 1)"), number(f"split_part({snapshot}, ':', 2)")
    xip = _XIP[engine].replace("{0}", snapshot)
    listed = f"{_CONTAINS[engine]}({xip}, CAST({{0}} AS {_TEXT[engine]}))"
    return f"({xid} < {xmin} OR ({xid} < {xmax} AND NOT {listed}))"


def _compared(engine: str, symbol: str) -> str:
    return f"(CAST({{0}} AS {_NUMBER[engine]}) {symbol} CAST({{1}} AS {_NUMBER[engine]}))"


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given: dict[str, Form] = {}
    for prefix, snapshot, xid in (("pg_snapshot", "pg_snapshot", "xid8"), ("txid_snapshot", "txid_snapshot", "int8")):
        big = xid == "int8"
        for field, place in (("xmin", 1), ("xmax", 2)):
            text = f"split_part({{0}}, ':', {place})"
            given[f"{prefix}_{field}({snapshot})"] = _form(
                **dict.fromkeys(_ENGINES, f"CAST({text} AS BIGINT)" if big else text)
            )
        given[f"{prefix}_xip({snapshot})"] = _form(**{engine: _xip(engine, big=big) for engine in _ENGINES})
        name = "txid_visible_in_snapshot" if big else "pg_visible_in_snapshot"
        given[f"{name}({xid},{snapshot})"] = _form(**{engine: _visible(engine) for engine in _ENGINES})
    for name in ("min", "max"):
        given[f"{name}(xid8)"] = Form(
            local=f"arg_{name}({{0}}, CAST({{0}} AS {_NUMBER['local']})){{f}}",
            spark=f"{name}_by({{0}}, CAST({{0}} AS {_NUMBER['spark']})){{f}}",
        )
    for symbol in ("=", "<>", "<", ">", "<=", ">="):
        given[f"{symbol}(xid8,xid8)"] = _form(**{engine: _compared(engine, symbol) for engine in _ENGINES})
    return given
