"""Comparison operators, and the functions of enums.

bpchar compares without trailing blanks, an interval as a duration in which a month has 30 days; dates compare with
timestamps as midnight, timestamps with timestamptz in the session's time zone. Values of enums are held as the numbers
that order them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, time

from planner.common_errors import UnsafeNewEnumValueUsage
from planner.dialects.comparison_keys import equality_key, number_key, order_key
from planner.dialects.error_text import error_text
from planner.dialects.quoting import quoted
from planner.functions.forms.form import NOT_CONSTANT, CallSite, Form, both, local_only
from planner.ir.physical import element_type
from planner.types.numeric_shapes import shape_of
from planner.types.signature import COMPARISONS
from planner.types.type_names import format_type
from planner.types.type_scope import TYPE_SCOPE
from planner.types.types import DATE, INT8, TIMESTAMP, TIMESTAMPTZ, SqlType, is_wide
from planner.types.user_types import enum_of
from storage.catalog.model import EnumType
from storage.catalog.types import EnumLabel

_EQUALITY = ("=", "<>")
_SAME = [
    "bool",
    "char",
    "name",
    "int2",
    "int4",
    "int8",
    "text",
    "oid",
    "float4",
    "float8",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "uuid",
    "bytea",
    "anyenum",
]
_CROSS = [
    "int2,int4",
    "int4,int2",
    "int2,int8",
    "int8,int2",
    "int4,int8",
    "int8,int4",
    "float4,float8",
    "float8,float4",
    "name,text",
    "text,name",
]
_MOMENTS = [
    "date,timestamp",
    "timestamp,date",
    "date,timestamptz",
    "timestamptz,date",
    "timestamp,timestamptz",
    "timestamptz,timestamp",
]


_AROUND_MIDNIGHT = {"<": "<=", ">=": ">"}
"""What dates are compared by with the day of a moment that is not midnight; the others stay."""
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "<>": "<>"}


def _with_a_day(symbol: str, site: CallSite) -> str | None:
    """A comparison of a date with a constant timestamp as one of dates, by which files are left out as well."""
    place = 0 if site.arg_types[0].oid == DATE else 1
    moment = site.constants[1 - place]
    if {type.oid for type in site.arg_types} != {DATE, TIMESTAMP} or not isinstance(moment, datetime):
        return None
    symbol = symbol if place == 0 else _MIRRORED[symbol]
    if moment.time() != time():
        if symbol in _EQUALITY:
            return None
        symbol = _AROUND_MIDNIGHT.get(symbol, symbol)
    return f"({{{place}}} {symbol} {site.dialect.literal(moment.date(), SqlType(DATE))})"


def _moment(symbol: str) -> Callable[[CallSite], str]:
    def template(site: CallSite) -> str:
        of_dates = _with_a_day(symbol, site)
        if of_dates is not None:
            return of_dates
        zoned = TIMESTAMPTZ in (site.arg_types[0].oid, site.arg_types[1].oid)
        sides: list[str] = []
        for index, type in enumerate(site.arg_types):
            side = f"{{{index}}}"
            if type.oid == DATE:
                side = site.dialect.midnight(side)
            if zoned and type.oid in (DATE, TIMESTAMP):
                side = site.dialect.from_local_time(site.settings.timezone, side)
            sides.append(side)
        return f"({sides[0]} {symbol} {sides[1]})"

    return template


def keyed(symbol: str) -> Callable[[CallSite], str]:
    """A comparison of values that an engine holds in another form than PostgreSQL compares."""
    key = equality_key if symbol in _EQUALITY else order_key

    def template(site: CallSite) -> str:
        left, right = [key(type.without_typmod(), site.dialect) for type in site.arg_types]
        compared = f"({left} {symbol} {right.replace('{0}', '{1}')})"
        if site.engine == "local" and symbol not in _EQUALITY and element_type(site.arg_types[0]) is not None:
            # The engine makes two plain comparisons of one value a BETWEEN, which it has not got for lists.
            return f"CASE {compared} WHEN TRUE THEN TRUE WHEN FALSE THEN FALSE END"
        return compared

    return template


_COMPARED = "DECIMAL(38,20)"
_COMPARED_WHOLE_DIGITS = 18


def _numeric(symbol: str) -> Callable[[CallSite], str]:
    """A comparison of numerics of which one may be wide. With a decimal it is compared as one; the decimals tell all
    but those apart that are equal after rounding, or too large."""

    def template(site: CallSite) -> str:
        if not any(is_wide(type) for type in site.arg_types):
            return f"({{0}} {symbol} {{1}})"
        keys = [number_key(type, site.dialect, equality=symbol in _EQUALITY) for type in site.arg_types]
        keyed = f"({keys[0]} {symbol} {keys[1].replace('{0}', '{1}')})"
        shapes = [shape_of(type) for type in site.arg_types]
        narrow = [shape.exact_scale and shape.precision - shape.scale <= _COMPARED_WHOLE_DIGITS for shape in shapes]
        if not any(narrow):
            return keyed
        left, right = (
            ("{0}", f"try_cast({{1}} AS {_COMPARED})") if narrow[0] else (f"try_cast({{0}} AS {_COMPARED})", "{1}")
        )
        return f"CASE WHEN {left} <> {right} THEN {left} {symbol} {right} ELSE {keyed} END"

    return template


def _enum(site: CallSite) -> EnumType:
    found = enum_of(site.arg_types[0].oid)
    assert found is not None
    return found


def _positions(site: CallSite) -> list[str]:
    return [_position(site, label) for label in _enum(site).labels]


def _position(site: CallSite, label: EnumLabel) -> str:
    """The value of a label; one that the transaction has added may not be used."""
    if label.oid not in TYPE_SCOPE.get().new_labels:
        return site.dialect.integer(label.position, INT8)
    error = UnsafeNewEnumValueUsage(label.name, format_type(site.arg_types[0].oid))
    fault = site.dialect.error(site.dialect.string(error_text(error.sqlstate, str(error), None, error.hint)))
    return f"CAST({quoted(fault)} AS BIGINT)"


def _first(site: CallSite) -> str:
    return next(iter(_positions(site)), "CAST(NULL AS {t})")


def _last(site: CallSite) -> str:
    return next(reversed(_positions(site)), "CAST(NULL AS {t})")


def _all(site: CallSite) -> str:
    return f"CAST({site.dialect.array(_positions(site))} AS {{t}})"


def _between(site: CallSite) -> str:
    """A bound that is NULL is none."""
    new, labels = TYPE_SCOPE.get().new_labels, _enum(site).labels
    positions = [site.dialect.integer(label.position, INT8) for label in labels]
    items = f"CAST({site.dialect.array(positions)} AS {{t}})"
    low, high = ("TRUE" if value is None else f"coalesce(e {op} {{{place}}}, TRUE)" for place, (value, op) in
                 enumerate(zip(site.constants or (NOT_CONSTANT,) * 2, (">=", "<="), strict=True)))  # fmt: skip
    found = f"filter({items}, e -> {low} AND {high})"
    if site.engine == "local":
        found = f"list_filter({items}, lambda e: {low} AND {high})"
    unsafe = [label for label in labels if label.oid in new]
    if not unsafe:
        return found
    whens = "".join(
        f" WHEN {site.dialect.integer(label.position, INT8)} THEN {_position(site, label)}" for label in unsafe
    )
    checked = f"CASE e{whens} ELSE e END"
    if site.engine == "local":
        return f"list_transform({found}, lambda e: {checked})"
    return f"transform({found}, e -> {checked})"


def _compared(site: CallSite) -> str:
    number = f"CASE WHEN {{0}} < {{1}} THEN {-1} WHEN {{0}} > {{1}} THEN 1 WHEN {{0}} = {{1}} THEN 0 END"
    return f"CAST({number} AS {{t}})"


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given: dict[str, Form] = {
        "enum_first(anyenum)": both(_first),
        "enum_last(anyenum)": both(_last),
        "enum_range(anyenum)": both(_all),
        "enum_range(anyenum,anyenum)": both(_between),
        "enum_cmp(anyenum,anyenum)": both(_compared),
        "enum_smaller(anyenum,anyenum)": both("CASE WHEN {0} < {1} THEN {0} ELSE {1} END"),
        "enum_larger(anyenum,anyenum)": both("CASE WHEN {0} > {1} THEN {0} ELSE {1} END"),
    }
    for symbol in COMPARISONS:
        plain = both(f"({{0}} {symbol} {{1}})")
        for name in _SAME:
            given[f"{symbol}({name},{name})"] = plain
        given[f"{symbol}(numeric,numeric)"] = both(_numeric(symbol))
        for pair in _CROSS:
            given[f"{symbol}({pair})"] = plain
        for pair in _MOMENTS:
            given[f"{symbol}({pair})"] = both(_moment(symbol))
        for name in ("bpchar", "interval", "anyarray"):
            given[f"{symbol}({name},{name})"] = both(keyed(symbol))
        # What orders jsonb is a function in Python, which Spark has from the local engine's form.
        given[f"{symbol}(jsonb,jsonb)"] = (both if symbol in _EQUALITY else local_only)(keyed(symbol))
        if symbol not in _EQUALITY:
            # The engines compare texts byte by byte already, as these do in every collation.
            given[f"~{symbol}~(text,text)"] = plain
            given[f"~{symbol}~(bpchar,bpchar)"] = both(keyed(symbol))
        given[f"{symbol}(oidvector,oidvector)"] = Form(local=f"({{0}} {symbol} {{1}})")
        given[f"{symbol}(record,record)"] = plain if symbol in _EQUALITY else Form()
    for symbol in ("=", "<>"):
        given[f"{symbol}(xid,xid)"] = given[f"{symbol}(xid,int4)"] = both(f"({{0}} {symbol} {{1}})")
    return {key: form for key, form in given.items() if form != Form()}
