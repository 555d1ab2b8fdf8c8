"""The columns of what is made of a query."""

from __future__ import annotations

from collections.abc import Iterable

from planner.errors import InvalidTableDefinition
from planner.types import types as t
from planner.types.type_names import format_type
from planner.types.types import SqlType
from storage.catalog.model import Column


def stored_type(name: str, type_: SqlType) -> SqlType:
    """The column type for an expression's type. 42P16 for pseudo-types."""
    if type_.oid == t.UNKNOWN:
        return SqlType(t.TEXT)
    if type_.oid in (t.RECORD, t.RECORD_ARRAY, t.VOID, t.ANYARRAY, t.ANYELEMENT):
        raise InvalidTableDefinition(f'column "{name}" has pseudo-type {format_type(type_.oid)}')
    return type_


def stored_columns(fields: Iterable[tuple[str, SqlType]]) -> tuple[Column, ...]:
    """The columns of a view or table with these names and types. 42P16 for pseudo-types."""
    return tuple(
        Column(
            attnum=attnum,
            name=name,
            type_oid=(stored := stored_type(name, type_)).declared_oid,
            typmod=stored.declared_typmod,
            dimensioned=stored.dimensioned,
        )
        for attnum, (name, type_) in enumerate(fields, 1)
    )
