"""Ranges and multiranges: operators, functions, constructors and aggregates (PostgreSQL 15, 9.20 and 9.21)."""

from __future__ import annotations

from collections.abc import Mapping

from planner.dialects.comparison_keys import order_key
from planner.functions.engines.spark import checked, portable
from planner.functions.forms.form import CallSite, Form, local_only
from planner.types.ranges import range_name, range_or_multirange
from planner.types.signature import COMPARISONS
from planner.types.types import BYTEA, DATE, TIMESTAMP, TIMESTAMPTZ
from planner.values.datetimes.calendar_days import DATE_INFINITY, TIMESTAMP_INFINITY

_BOTH = ("anyrange", "anymultirange")
_RANGES = ("int4", "int8", "num", "date", "ts", "tstz")
_SUBTYPES = {"int4": "int4", "int8": "int8", "num": "numeric", "date": "date", "ts": "timestamp", "tstz": "timestamptz"}

_FACTS = ("isempty", "lower_inc", "upper_inc", "lower_inf", "upper_inf")
_RELATIONS = {
    "&&": "overlaps", "@>": "contains", "<@": "contained_by", "<<": "before", ">>": "after", "&<": "overleft",
    "&>": "overright", "-|-": "adjacent",
}  # fmt: skip
"""By operator: the name of its function."""
_COMBINATIONS = {"+": "union", "-": "minus", "*": "intersect"}
_ORDERS = {"=": "eq", "<>": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_SHORT = {"anyrange": "range", "anymultirange": "multirange"}


def _named(template: str) -> Form:
    """A template in which ``{name}`` is the range or multirange type of the first argument that is one, or of the
    result."""

    def named(site: CallSite) -> str:
        types = (*site.arg_types, site.type)
        return template.replace("{name}", next(range_name(type.oid) for type in types if range_or_multirange(type.oid)))

    return local_only(named)


def _bound(upper: str) -> Form:
    """lower() and upper(); what Spark has no value for is an error there."""

    def value(site: CallSite) -> str | None:
        name, local = range_name(site.arg_types[0].oid), site.engine == "local"
        oid = site.type.oid
        if oid not in (DATE, TIMESTAMP, TIMESTAMPTZ):
            made = f"CAST(tg_range_value({{0}}, '{name}', {upper}) AS {{t}})"
            if oid == BYTEA:
                made = f"unhex(substr(tg_range_value({{0}}, '{name}', {upper}), 3))"
            return made if local else portable(made)
        number = f"{'tg_range_number' if local else 'tg_range_finite_number'}({{0}}, '{name}', {upper})"
        if not local:
            portable_number = portable(number)
            if portable_number is None:
                return None
            days = f"CAST({portable_number} AS INT)"
            moment = site.dialect.moment_of_micros(portable_number, oid)
            return site.dialect.date_of_days(days) if oid == DATE else moment
        infinity = DATE_INFINITY if oid == DATE else TIMESTAMP_INFINITY
        days = f"CAST({number} AS INTEGER)"
        finite = site.dialect.date_of_days(days) if oid == DATE else site.dialect.moment_of_micros(number, oid)
        return (
            f"CASE {number} WHEN {infinity} THEN {site.dialect.infinite(oid, False)} "
            f"WHEN -{infinity} THEN {site.dialect.infinite(oid, True)} ELSE {finite} END"
        )

    return Form(local=value, spark=value)


def _compared(symbol: str) -> Form:
    return _of_keys("({0} %s {1})".replace("%s", symbol))


def _of_keys(template: str) -> Form:
    def keyed(site: CallSite) -> str | None:
        key = order_key(site.arg_types[0], site.dialect)
        made = template.replace("{0}", key).replace("{1}", key.replace("{0}", "{1}"))
        return portable(made) if "tg_" in made and site.engine == "spark" else made

    return Form(local=keyed, spark=keyed)


def _aggregate(name: str) -> Form:
    def collected(site: CallSite) -> str:
        of = range_name(site.arg_types[0].oid)
        if site.engine == "local":
            return f"{name}(list({{d}}{{0}}){{f}}, '{of}')"
        return checked(f"{name}(collect_list({{d}}{{0}}){{f}}, '{of}')")

    return Form(local=collected, spark=collected)


def _relations() -> dict[str, Form]:
    given: dict[str, Form] = {}
    for symbol, name in _RELATIONS.items():
        form = _named("tg_range_relates({0}, {1}, '{name}', '%s')".replace("%s", symbol))
        for left in _BOTH:
            for right in _BOTH:
                given[f"{symbol}({left},{right})"] = form
                one, other = _SHORT[left], _SHORT[right]
                called = f"{one}_{name}" if left == right == "anyrange" else f"{one}_{name}_{other}"
                given[f"{called}({left},{right})"] = form
    for of in _BOTH:
        has = _named("tg_range_has({0}, {iso:1}, '{name}')")
        within = _named("tg_range_has({1}, {iso:0}, '{name}')")
        given[f"@>({of},anyelement)"] = given[f"{_SHORT[of]}_contains_elem({of},anyelement)"] = has
        given[f"<@(anyelement,{of})"] = given[f"elem_contained_by_{_SHORT[of]}(anyelement,{of})"] = within
        for symbol, name in _COMBINATIONS.items():
            form = _named("tg_range_combine({0}, {1}, '{name}', '%s')".replace("%s", symbol))
            given[f"{symbol}({of},{of})"] = given[f"{_SHORT[of]}_{name}({of},{of})"] = form
        for symbol in COMPARISONS:
            form = _compared(symbol)
            given[f"{symbol}({of},{of})"] = given[f"{_SHORT[of]}_{_ORDERS[symbol]}({of},{of})"] = form
        given[f"{_SHORT[of]}_cmp({of},{of})"] = local_only(
            lambda site: (
                "tg_range_compare({0}, {1})"
                if order_key(site.arg_types[0], site.dialect) == "{0}"
                else "tg_range_compare(tg_range_key({0}), tg_range_key({1}))"
            )
        )
    return given


def _no_ranges(site: CallSite) -> str:
    return site.dialect.binary(b"")


_NOTHING = Form(local=_no_ranges, spark=_no_ranges)
"""The multirange of no ranges."""


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given = _relations()
    for of in _BOTH:
        for name in _FACTS:
            given[f"{name}({of})"] = _named("tg_range_is({0}, '{name}', '%s')".replace("%s", name))
        for name, upper in (("lower", "FALSE"), ("upper", "TRUE")):
            given[f"{name}({of})"] = _bound(upper)
        given[f"range_agg({of})"] = _aggregate("tg_range_agg")
        given[f"range_intersect_agg({of})"] = _aggregate("tg_range_intersect_agg")
    given["range_merge(anyrange,anyrange)"] = _named("tg_range_merge({0}, {1}, '{name}')")
    given["range_merge(anymultirange)"] = _named("tg_range_merge({0}, {0}, '{name}')")
    one, several = local_only("tg_multirange_of({0})"), _named("tg_multirange({0}, '{name}')")
    given["multirange(anyrange)"] = one
    given["unnest(anymultirange)"] = _named("tg_multirange_parts({0}, '{name}')")
    for name in _RANGES:
        subtype = _SUBTYPES[name]
        between = _named("tg_range_between({iso:0}, {iso:1}, '{name}')")
        made = _named("tg_range_make({iso:0}, {iso:1}, {2}, '{name}')")
        given[f"{name}range({subtype},{subtype})"] = between
        given[f"{name}range({subtype},{subtype},text)"] = made
        given[f"{name}multirange()"] = _NOTHING
        given[f"{name}multirange({name}range)"] = one
        given[f"{name}multirange({name}range[])"] = several
    return given
