"""money (PostgreSQL 15, 8.2): arithmetic, order, aggregates and casts."""

from __future__ import annotations

from collections.abc import Mapping

from planner.dialects.comparison_keys import MONEY_KEY
from planner.functions.forms.form import CallSite, Form, both, strict
from planner.types.signature import COMPARISONS

_SECOND = MONEY_KEY.replace("{0}", "{1}")
_WIDE, _WIDE_SECOND = f"CAST({MONEY_KEY} AS DECIMAL(19,0))", f"CAST({_SECOND} AS DECIMAL(19,0))"
"""For results that a money does not hold: it is their text that says so."""


def _show(cents: str) -> Form:
    return both(lambda site: site.dialect.python("tg_money_show", f"CAST({cents} AS DECIMAL(38,0))"))


def _called(name: str, money: str, other: str) -> Form:
    return both(lambda site: site.dialect.python(name, money, f"CAST({other} AS DOUBLE)"))


def _divided(site: CallSite) -> str:
    fault = site.dialect.raise_sql("22012", "division by zero")
    quotient = f"{MONEY_KEY} {site.dialect.whole_division} {{1}}"
    shown = site.dialect.python("tg_money_show", f"CAST({quotient} AS DECIMAL(38,0))")
    return f"CASE WHEN {{1}} = 0 THEN {strict(site, fault, 0)} ELSE {shown} END"


def _ratio(site: CallSite) -> str:
    fault = site.dialect.raise_sql("22012", "division by zero")
    ratio = f"CAST({MONEY_KEY} AS DOUBLE) / CAST({_SECOND} AS DOUBLE)"
    return f"CASE WHEN {_SECOND} = 0 THEN {strict(site, fault, 0)} ELSE {ratio} END"


def _sum(site: CallSite) -> str:
    return site.dialect.python("tg_money_show", f"CAST(sum({{d}}{_WIDE}){{f}} AS DECIMAL(38,0))")


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given: dict[str, Form] = {}
    for symbol in COMPARISONS:
        given[f"{symbol}(money,money)"] = both(f"({MONEY_KEY} {symbol} {_SECOND})")
    for symbol in ("+", "-"):
        given[f"{symbol}(money,money)"] = _show(f"{_WIDE} {symbol} {_WIDE_SECOND}")
    for type in ("int2", "int4", "int8"):
        given[f"*(money,{type})"] = _show(f"{_WIDE} * CAST({{1}} AS DECIMAL(19,0))")
        given[f"*({type},money)"] = _show(f"{_WIDE_SECOND} * CAST({{0}} AS DECIMAL(19,0))")
        given[f"/(money,{type})"] = both(_divided)
    for type in ("float4", "float8"):
        given[f"*(money,{type})"] = _called("tg_money_times", "{0}", "{1}")
        given[f"*({type},money)"] = _called("tg_money_times", "{1}", "{0}")
        given[f"/(money,{type})"] = _called("tg_money_over", "{0}", "{1}")
    given["/(money,money)"] = both(_ratio)
    given["sum(money)"] = both(_sum)
    for name in ("min", "max"):
        given[f"{name}(money)"] = Form(
            local=f"arg_{name}({{0}}, {MONEY_KEY}){{f}}", spark=f"{name}_by({{0}}, {MONEY_KEY}){{f}}"
        )
    given["cash_words(money)"] = both(lambda site: site.dialect.python("tg_money_words", "{0}"))
    return given
