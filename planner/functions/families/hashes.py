"""Hash functions that users call: hashtext, hashint8, uuid_hash and their forms with a seed."""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.forms.form import Form, local_only


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
    ):
        given[f"{name}({type})"] = local_only(f"tg_hash_{kind}({value})")
        given[f"{extended}({type},int8)"] = local_only(f"tg_hash_{kind}_extended({value}, {{1}})")
    return given
