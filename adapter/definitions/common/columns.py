"""The columns of what is made of a query."""

from __future__ import annotations

from planner.errors import InvalidTableDefinition
from planner.types import types as t
from planner.types.type_names import format_type
from planner.types.types import SqlType


def stored_type(name: str, type_: SqlType) -> SqlType:
    """The column type for an expression's type. 42P16 for pseudo-types."""
    if type_.oid == t.UNKNOWN:
        return SqlType(t.TEXT)
    if type_.oid in (t.RECORD, t.VOID, t.ANYARRAY, t.ANYELEMENT):
        raise InvalidTableDefinition(f'column "{name}" has pseudo-type {format_type(type_.oid)}')
    return type_
