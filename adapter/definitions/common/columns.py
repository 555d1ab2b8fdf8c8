"""The catalog's columns, by the types that are asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from adapter.execution.statement import Running
from planner.errors import InvalidTableDefinition
from planner.types import types as t
from planner.types.composites import form_of
from planner.types.operator_classes import key_collation
from planner.types.type_names import collation_oid, format_type
from planner.types.types import SqlType, holds_nan
from storage.catalog.model import Column, Relation
from storage.catalog.record import COLLATIONS_FORMAT, NEEDED_KEYS_FORMAT


def stored_type(name: str, type_: SqlType) -> SqlType:
    """The column type for an expression's type. 42P16 for pseudo-types."""
    if type_.oid == t.UNKNOWN:
        return SqlType(t.TEXT)
    refuse_pseudo_type(name, type_)
    return type_


def refuse_pseudo_type(name: str, type_: SqlType) -> None:
    """42P16 for a column that would be of a type that nothing is stored as."""
    if type_.oid in (t.RECORD, t.RECORD_ARRAY, t.VOID, t.ANYARRAY, t.ANYELEMENT):
        raise InvalidTableDefinition(f'column "{name}" has pseudo-type {format_type(type_.oid)}')


def stored_columns(fields: Iterable[tuple[str, SqlType]], collations: Iterable[int]) -> tuple[Column, ...]:
    """The columns of a view or table with these names, types and collations. 42P16 for pseudo-types."""
    return tuple(
        column_of_type(attnum, name, stored_type(name, type_), collation=collation)
        for attnum, ((name, type_), collation) in enumerate(zip(fields, collations, strict=True), 1)
    )


def collation_of(type_: SqlType, name: str | None) -> int:
    """`Column.collation` for a column of this type that is declared with the collation `name`, None for none."""
    oid = 0 if name is None else collation_oid(name)
    return 0 if oid == key_collation(type_.declared_oid) else oid


async def with_kept_fields(running: Running, relation: Relation) -> Relation:
    """`relation` with the collations of its columns and the keys that its query needs, if these may be kept: as long as
    servers of an earlier version may be at work, which cannot read them, they are left out, as those leave them out."""
    formats = running.services.env.formats
    if relation.needs_keys and not await formats.allows(NEEDED_KEYS_FORMAT):
        relation = replace(relation, needs_keys=())
    if not any(column.collation for column in relation.columns) or await formats.allows(COLLATIONS_FORMAT):
        return relation
    return replace(relation, columns=tuple(replace(column, collation=0) for column in relation.columns))


def column_of_type(attnum: int, name: str, type_: SqlType, **more: Any) -> Column:
    """A column of this type; `more` are other fields of its record."""
    return Column(
        attnum=attnum,
        name=name,
        type_oid=type_.declared_oid,
        typmod=type_.declared_typmod,
        dimensioned=type_.dimensioned,
        holds_nan=holds_nan(type_),
        form=form_of(type_.declared_oid),
        **more,
    )


def retyped(column: Column, type_: SqlType, **more: Any) -> Column:
    """`column` once it is of another type; `more` are other fields of its record."""
    return replace(
        column,
        type_oid=type_.declared_oid,
        typmod=type_.declared_typmod,
        dimensioned=type_.dimensioned,
        holds_nan=holds_nan(type_),
        form=form_of(type_.declared_oid),
        **more,
    )
