"""Functions about types, sizes and identity that need no catalog.

Functions of the session (current_user, now, current_setting, ...) have no form: the binder makes session
values of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.errors import FeatureNotSupported
from planner.functions.forms.form import NOT_CONSTANT, CallSite, Form, both, local_only
from planner.types.type_names import type_length
from planner.types.types import BYTEA, NUMERIC


def _typeof(site: CallSite) -> str:
    return f"CAST({site.arg_types[0].declared_oid} AS BIGINT)"


def _nulls(sign: str) -> Form:
    def template(site: CallSite) -> str:
        if site.spread:
            counted = site.dialect.filter("{0}", "e", f"e IS {sign}NULL")
            return f"CASE WHEN {{0}} IS NOT NULL THEN CAST({site.dialect.length(counted)} AS {{t}}) END"
        terms = " + ".join(f"CASE WHEN {{{i}}} IS {sign}NULL THEN 1 ELSE 0 END" for i in range(len(site.arg_types)))
        return f"({terms})"

    return both(template)


def _column_size(site: CallSite) -> str:
    """pg_column_size: what PostgreSQL takes for a value of a fixed length, a text, a bytea or a numeric, uncompressed;
    of other types, what their text takes. Before a value that is stored stands one byte that has its length, if that is
    below 127, else four."""
    given, constant = site.arg_types[0], site.constants[0]
    fixed = type_length(given.oid)
    if fixed > 0:
        return f"CASE WHEN {{0}} IS NOT NULL THEN {fixed} END"
    if given.oid == BYTEA:
        size = "octet_length({0})"
    elif given.oid == NUMERIC:
        size = "tg_numeric_size({text:0})"
    else:
        size = "strlen({text:0})"
    head = "4" if constant is not NOT_CONSTANT else f"CASE WHEN {size} <= 126 THEN 1 ELSE 4 END"
    return f"CAST({size} + {head} AS INTEGER)"


def _collation(_: CallSite) -> str:
    """pg_collation_for, whose answer stands in its place where a statement is analyzed as a whole
    (`planner.collations.conflicts`)."""
    raise FeatureNotSupported("pg_collation_for is not supported in expressions of definitions")


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    return {
        "pg_typeof(any)": both(_typeof),
        "num_nulls(any)": _nulls(""),
        "num_nonnulls(any)": _nulls("NOT "),
        "gen_random_uuid()": Form(local="CAST(uuid() AS VARCHAR)", spark="uuid()"),
        "getdatabaseencoding()": both("'UTF8'"),
        "pg_encoding_max_length(int4)": local_only("CASE {0} WHEN 6 THEN 4 WHEN 0 THEN 1 WHEN 8 THEN 1 END"),
        "pg_size_pretty(int8)": local_only("tg_size_pretty({0})"),
        "pg_size_pretty(numeric)": local_only("tg_size_pretty(CAST({0} AS BIGINT))"),
        "pg_tablespace_size(oid)": local_only(
            "CASE {0} WHEN 1663 THEN tg_database_size({token}, 'o5') WHEN 1664 THEN CAST(0 AS BIGINT) END"
        ),
        "pg_tablespace_size(name)": local_only(
            "CASE {0} WHEN 'pg_default' THEN tg_database_size({token}, 'o5') "
            "WHEN 'pg_global' THEN CAST(0 AS BIGINT) END"
        ),
        "pg_column_size(any)": local_only(_column_size),
        "pg_collation_for(any)": both(_collation),
        "pg_size_bytes(text)": local_only("tg_size_bytes({0})"),
    }
