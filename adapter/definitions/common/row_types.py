"""Columns whose types are made of a relation's row type or of a composite type, when its fields change.

Fields that are added or dropped leave stored values as they are (`planner.types.composites`); other changes of a type
that a table has values of are refused, as in PostgreSQL.
"""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from adapter.definitions.common.table_rows import alter_shard
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from planner.errors import FeatureNotSupported, InvalidTableDefinition
from planner.ir.array_value import ArrayValue
from planner.ir.composite import Composite
from planner.types.composites import composites_beneath, fields_of, stored_uses, with_forms
from planner.types.type_names import element_of
from planner.types.type_scope import types_of
from planner.types.types import SqlType, type_of_column
from planner.types.user_types import attributes
from planner.values.text_values import format_text, parse_text
from storage.catalog.model import COMPOSITE, CatalogRecord, CatalogSnapshot, CatalogUpdate, Column, Relation


def refuse_stored(catalog: CatalogSnapshot, record: Relation) -> None:
    """0A000 for a relation or composite type of whose type a table has values."""
    for relation, column in stored_uses(catalog, record.oid):
        what = {COMPOSITE: "type", "f": "foreign table"}.get(record.kind, "table")
        its = "it" if record.kind == COMPOSITE else "its row type"
        raise FeatureNotSupported(
            f'cannot alter {what} "{record.name}" because column "{relation.name}.{column.name}" uses {its}'
        )


def refuse_itself(record: Relation, type_oid: int) -> None:
    """42P16 for a column of `record` of a type that is made of the type of its own rows (CheckAttributeType)."""
    if any(beneath.oid == record.oid for beneath in composites_beneath(type_oid)):
        raise InvalidTableDefinition(f"composite type {record.name} cannot be made a member of itself")


def follow_fields(running: Running, before: CatalogSnapshot, old: Relation, new: Relation) -> list[CatalogUpdate]:
    """What becomes of the tables that have values of the type of `old`, whose fields are those of `new` now: `before`
    is the catalog before that."""
    if old.columns is new.columns or fields_of(old) == fields_of(new):
        return []
    catalog = own_catalog(running)
    tables: dict[int, Relation] = {table.oid: table for table, _ in stored_uses(catalog, new.oid)}
    updates: list[CatalogUpdate] = []
    for table in tables.values():
        columns = tuple(_with_value_kept(column, before, catalog) for column in table.columns)
        changed = with_forms(replace(table, columns=columns), catalog)
        updates += _replacing(table, changed)
        with types_of(catalog, ()):
            alter_shard(running, changed)
    return updates


def _replacing(old: CatalogRecord, new: CatalogRecord) -> list[CatalogUpdate]:
    return [CatalogUpdate(record=old, diff=-1), CatalogUpdate(record=new, diff=1)]


def _with_value_kept(column: Column, before: CatalogSnapshot, after: CatalogSnapshot) -> Column:
    """`column` with the value of rows that are older than it, as a text with the fields that its type has now."""
    if column.missing is None or not column.form:
        return column
    with types_of(before, ()):
        type = type_of_column(column)
        value = _by_names(parse_text(column.missing, type), type)
    with types_of(after, ()):
        type = type_of_column(column)
        return replace(column, missing=format_text(_by_places(value, type), type))


def _by_names(value: object, type: SqlType) -> object:
    """A value with the fields of composite values by the names that they keep."""
    match value:
        case Composite(items=items):
            pairs = zip(attributes(type.oid) or (), items, strict=True)
            return {field.physical: _by_names(item, field.type) for field, item in pairs}
        case ArrayValue(items=items):
            return replace(value, items=tuple(map(partial(_by_names, type=SqlType(element_of(type.oid))), items)))
        case tuple():
            return tuple(map(partial(_by_names, type=SqlType(element_of(type.oid))), value))
        case _:
            return value


def _by_places(value: object, type: SqlType) -> object:
    """The inverse of `_by_names`; a field that the value lacks is NULL."""
    match value:
        case dict():
            return Composite(
                tuple(_by_places(value.get(field.physical), field.type) for field in attributes(type.oid) or ())
            )
        case ArrayValue(items=items):
            return replace(value, items=tuple(map(partial(_by_places, type=SqlType(element_of(type.oid))), items)))
        case tuple():
            return tuple(map(partial(_by_places, type=SqlType(element_of(type.oid))), value))
        case _:
            return value
