"""Nested values of files (structs, maps, lists of other than plain values) as JSON texts, made by either engine.

A struct is an object with its fields in their order, a map one of its keys in theirs, a list an array; what is in them
is written as PostgreSQL's to_json writes values of the types that `planner.files.arrow_types` gives, moments in UTC:

    {"id":1,"tags":{"a":"x"},"at":"2024-01-31T12:00:00+00:00","parts":[{"n":1.50},null]}

A NULL in it is null. The texts are the same on both engines, so a column that is declared as json is too.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from planner.dialects.engine_name import EngineName
from planner.files.arrow_types import sql_type
from planner.functions.forms.form import SessionSettings
from planner.ir.physical import arrow_type
from planner.lowering.fragments.context import Context
from planner.lowering.fragments.fragment import simple
from planner.lowering.fragments.templates import fill
from planner.lowering.scalars.texts import json_template
from planner.types import types as t
from planner.values.json.json_text import quote_json

_BARE = frozenset({t.BOOL, t.INT2, t.INT4, t.INT8, t.NUMERIC})
"""Types whose values are written without quotes, whatever they are."""


def json_text(engine: EngineName, type: pa.DataType, value: str, *, maps: bool = False) -> str:
    """SQL of `engine` that makes a JSON text of `value`, which it holds as the Arrow `type`, with lists of entries for
    maps or, where there are `maps`, these; NULL of NULL."""
    return _text(engine, type, maps).replace(_PLACE, value)


_PLACE = "\0"
"""Where the value goes: no name that a file has for anything may hold it."""


@lru_cache(maxsize=1024)
def _text(engine: EngineName, type: pa.DataType, maps: bool) -> str:
    ctx = Context(engine=engine, extendable=frozenset(), params=None, settings=SessionSettings())
    return _json(ctx, type, _PLACE, maps)


def _json(ctx: Context, type: pa.DataType, value: str, maps: bool) -> str:
    dialect = ctx.dialect
    if pa.types.is_struct(type):
        parts = []
        for number, field in enumerate(type):
            start = dialect.string(f"{',' if number else '{'}{quote_json(field.name)}:")
            read = _json(ctx, field.type, f"({value}).{dialect.quoted_name(field.name)}", maps)
            parts.append(f"{start} || coalesce({read}, 'null')")
        return f"CASE WHEN {value} IS NOT NULL THEN {' || '.join(parts)} || '}}' END"
    if pa.types.is_map(type):
        name = ctx.variable()
        key = _json(ctx, type.key_type, f"({name}).key", maps)
        held = sql_type(type.key_type, "").oid
        if held in _BARE:
            key = f"'\"' || {key} || '\"'"
        elif held in (t.FLOAT4, t.FLOAT8):
            key = f"'\"' || replace({key}, '\"', '') || '\"'"
        member = f"{key} || ':' || coalesce({_json(ctx, type.item_type, f'({name}).value', maps)}, 'null')"
        entries = f"map_entries({value})" if maps else value
        members = dialect.join(dialect.transform(entries, name, member), "','")
        return f"('{{' || {members} || '}}')"
    if pa.types.is_list(type):
        name = ctx.variable()
        item = f"coalesce({_json(ctx, type.value_type, name, maps)}, 'null')"
        return f"('[' || {dialect.join(dialect.transform(value, name, item), chr(39) + ',' + chr(39))} || ']')"
    held_as = sql_type(type, "")
    if type != arrow_type(held_as):
        value = dialect.cast(value, held_as)
    return fill(ctx, json_template(ctx, held_as), [simple(value)]).sql
