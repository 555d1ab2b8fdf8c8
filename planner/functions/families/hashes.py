"""Hash functions that users call: hashtext, hashint8, uuid_hash and their forms with a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.functions.forms.form import CallSite, Form, both, local_only
from planner.types.types import INT8, TIMESTAMP
from planner.values.datetimes.calendar_days import MICROS_1970_TO_2000


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given: dict[str, Form] = {}
    # PostgreSQL's name of the function and of the one with a seed, its argument, how we hash it, and that as SQL.
    for name, extended, type, kind, value in (
        ("hashtext", "hashtextextended", "text", "text", "{0}"),
        ("hashbpchar", "hashbpcharextended", "bpchar", "text", "rtrim({text:0}, ' ')"),
        ("hashint2", "hashint2extended", "int2", "int8", "CAST({0} AS BIGINT)"),
        ("hashint4", "hashint4extended", "int4", "int8", "CAST({0} AS BIGINT)"),
        ("hashint8", "hashint8extended", "int8", "int8", "{0}"),
        ("hashoid", "hashoidextended", "oid", "int8", "CAST({0} AS BIGINT)"),
        ("hashfloat4", "hashfloat4extended", "float4", "float8", "CAST({0} AS DOUBLE)"),
        ("hashfloat8", "hashfloat8extended", "float8", "float8", "{0}"),
        ("uuid_hash", "uuid_hash_extended", "uuid", "uuid", "{text:0}"),
        ("hashname", "hashnameextended", "name", "text", "{0}"),
        ("hash_numeric", "hash_numeric_extended", "numeric", "numeric", "{text:0}"),
        ("hashinet", "hashinetextended", "inet", "inet", "{text:0}"),
        ("hashmacaddr", "hashmacaddrextended", "macaddr", "mac", "{text:0}"),
        ("hashmacaddr8", "hashmacaddr8extended", "macaddr8", "mac", "{text:0}"),
        ("timetz_hash", "timetz_hash_extended", "timetz", "timetz", "{text:0}"),
        ("interval_hash", "interval_hash_extended", "interval", "interval", "{0}"),
    ):
        given[f"{name}({type})"] = local_only(f"tg_hash_{kind}({value})")
        given[f"{extended}({type},int8)"] = local_only(f"tg_hash_{kind}_extended({value}, {{1}})")
    for kind, micros in (("time", _time), ("timestamp", _timestamp)):
        given[f"{kind}_hash({kind})"] = both(_of_micros("tg_hash_int8", micros))
        given[f"{kind}_hash_extended({kind},int8)"] = both(_of_micros("tg_hash_int8_extended", micros, "{1}"))
    return given


def _of_micros(function: str, micros: Callable[[CallSite], str], *seed: str) -> Callable[[CallSite], str]:
    def template(site: CallSite) -> str:
        return site.dialect.python(function, micros(site), *seed)

    return template


def _time(site: CallSite) -> str:
    return site.dialect.time_micros("{0}")


def _timestamp(site: CallSite) -> str:
    """Microseconds since 2000; the infinite ones are the ends of what 64 bits hold."""
    since = f"({site.dialect.moment_micros('{0}', TIMESTAMP)} - {MICROS_1970_TO_2000})"
    low, high = (site.dialect.integer(end, INT8) for end in (-(2**63), 2**63 - 1))
    endless = f"CASE WHEN {{0}} > {site.dialect.infinite(TIMESTAMP, True)} THEN {high} ELSE {low} END"
    return f"CASE WHEN {site.dialect.is_infinite_moment('{0}')} THEN {endless} ELSE {since} END"
