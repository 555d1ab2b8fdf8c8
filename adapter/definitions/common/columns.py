"""The catalog's columns, by the types that are asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from planner.errors import InvalidTableDefinition
from planner.types import types as t
from planner.types.composites import form_of
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
        column_of_type(attnum, name, stored_type(name, type_)) for attnum, (name, type_) in enumerate(fields, 1)
    )


def column_of_type(attnum: int, name: str, type_: SqlType, **more: Any) -> Column:
    """A column of this type; `more` are other fields of its record."""
    return Column(
        attnum=attnum,
        name=name,
        type_oid=type_.declared_oid,
        typmod=type_.declared_typmod,
        dimensioned=type_.dimensioned,
        form=form_of(type_.declared_oid),
        **more,
    )


def retyped(column: Column, type_: SqlType) -> Column:
    """`column` once it is of another type."""
    return replace(
        column,
        type_oid=type_.declared_oid,
        typmod=type_.declared_typmod,
        dimensioned=type_.dimensioned,
        form=form_of(type_.declared_oid),
    )
