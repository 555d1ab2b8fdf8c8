"""What uses a type, and what becomes of it when the type is dropped with CASCADE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from adapter.definitions.columns import drop_column
from adapter.definitions.common.catalog_changes import change, with_column, without_column
from adapter.definitions.constraints.checks import remove_constraints
from adapter.definitions.dependents import Dependents, named
from adapter.definitions.indexes.upkeep import remove_index
from adapter.definitions.views import users_of_column
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import kind_of, shown_name
from adapter.execution.statement import Running
from planner.catalog_data.content import TypeRow
from planner.errors import DependentObjectsStillExist
from planner.statements import records as st
from planner.syntax.identifiers import quote_identifier
from planner.types import derived_oids
from planner.types.operator_classes import extension_of, operator_class_name
from planner.types.type_names import format_type
from planner.types.type_scope import TYPE_SCOPE, UserType, record_of
from planner.types.user_types import mentions
from storage.catalog.model import (
    COMPOSITE,
    CatalogSnapshot,
    Column,
    Constraint,
    DomainType,
    EnumType,
    Index,
    Relation,
    Schema,
)
from storage.catalog.outside import Extension
from storage.catalog.record import Record
from storage.catalog.routines import Function
from storage.catalog.types import BaseType, UserRange


class ColumnUse(Struct, frozen=True, kw_only=True):
    """A column of the type. `default` says that only its default names the type."""

    type_oid: int
    relation: Relation
    column: Column
    default: bool = False

    def described(self, running: Running, catalog: CatalogSnapshot) -> str:
        """What messages call it."""
        of = f"{kind_of(self.relation)} {shown_name(running, catalog, self.relation)}"
        what = f"column {self.column.name} of {of}"
        return f"default value for {what}" if self.default else what

    @property
    def place(self) -> tuple[bool, int, int]:
        """Where PostgreSQL lists it."""
        return derived_oids.owner_of_array_type(self.column.type_oid) is None, self.relation.oid, -self.column.attnum

    def rests_on(self, running: Running, catalog: CatalogSnapshot) -> str:
        """What messages say that it depends on."""
        return _name_of(running, catalog, self.type_oid, self.column.type_oid)


class ExpressionUse(Struct, frozen=True, kw_only=True):
    """A constraint or an index whose expression names the type."""

    type_oid: int
    relation: Relation
    record: Constraint | Index

    def described(self, running: Running, catalog: CatalogSnapshot) -> str:
        """What messages call it."""
        return named(running, catalog, self.record)

    @property
    def place(self) -> tuple[bool, int, int]:
        """Where PostgreSQL lists it."""
        return True, self.record.oid, 0

    def rests_on(self, running: Running, catalog: CatalogSnapshot) -> str:
        """What messages say that it depends on."""
        return _name_of(running, catalog, self.type_oid)


def _name_of(running: Running, catalog: CatalogSnapshot, record_oid: int, array_oid: int = 0) -> str:
    record = catalog.get(record_oid)
    return named(running, catalog, record) if isinstance(record, Function) else _type_name(record_oid, array_oid)


def _type_name(record_oid: int, array_oid: int = 0) -> str:
    type_oid = derived_oids.row_type_oid(record_oid)
    return f"type {format_type(array_oid if array_oid == derived_oids.array_type_oid(record_oid) else type_oid)}"


class ViewUse(Struct, frozen=True, kw_only=True):
    """A view that reads a column of the type, or what depends on such a view (`over`)."""

    column: ColumnUse
    record: Record
    over: Record | None = None

    def described(self, running: Running, catalog: CatalogSnapshot) -> str:
        """What messages call it."""
        return named(running, catalog, self.record)

    @property
    def place(self) -> tuple[bool, int, int]:
        """Where PostgreSQL lists it: behind its column."""
        return self.column.place

    def rests_on(self, running: Running, catalog: CatalogSnapshot) -> str:
        """What messages say that it depends on."""
        if self.over is None:
            return self.column.described(running, catalog)
        return type_rested_on(self.record, self.over) or named(running, catalog, self.over)


def type_rested_on(record: Record, parent: Record) -> str | None:
    """What messages call the type, or the operator class, that `record` needs of the record `parent`; None where it
    needs something else of it."""
    index = TYPE_SCOPE.get().catalog.get(record.index or 0) if isinstance(record, Constraint) else record
    if isinstance(index, Index):
        return _operator_class(index, parent)
    if isinstance(record, Function):
        used = {record.result, *(parameter.type_oid for parameter in record.parameters)}
    elif isinstance(record, DomainType):
        used = {record.base_oid}
    elif isinstance(record, Relation) and isinstance(parent, Relation):
        return None if parent.oid in record.depends_on else _type_name(parent.oid)
    else:
        return None
    types = (derived_oids.row_type_oid(parent.oid), derived_oids.array_type_oid(parent.oid))
    return next((f"type {format_type(oid)}" for oid in types if oid in used), None)


def _operator_class(index: Index, parent: Record) -> str | None:
    if not isinstance(parent, Extension):
        return None
    made = next((oid for oid in index.operator_classes if extension_of(oid) == parent.name), None)
    scope = TYPE_SCOPE.get()
    schema = scope.catalog.get(parent.schema)
    if made is None or not isinstance(schema, Schema):
        return None
    name = operator_class_name(made)
    if schema.name not in scope.search_path:
        name = f"{quote_identifier(schema.name)}.{quote_identifier(name)}"
    return f"operator class {name} for access method {index.method}"


TypeUse: TypeAlias = ColumnUse | ExpressionUse | ViewUse


def droppable_type(running: Running, catalog: CatalogSnapshot, row: TypeRow) -> UserType:
    """The record of a type that DROP TYPE may remove. 2BP01."""
    name = format_type(row.oid)
    if row.elem and row.category == "A":
        element = format_type(row.elem)
        raise DependentObjectsStillExist(
            f"cannot drop type {name} because type {element} requires it", hint=f"You can drop type {element} instead."
        )
    record = record_of(row.oid)
    if record is None:
        raise DependentObjectsStillExist(f"cannot drop type {name} because it is required by the database system")
    if isinstance(record, Relation) and record.kind != COMPOSITE:
        owner = named(running, catalog, record)
        raise DependentObjectsStillExist(
            f"cannot drop type {name} because {owner} requires it", hint=f"You can drop {owner} instead."
        )
    if isinstance(record, UserRange) and record.is_multirange:
        of = format_type(derived_oids.row_type_oid(record.range))
        raise DependentObjectsStillExist(
            f"cannot drop type {name} because type {of} requires it", hint=f"You can drop type {of} instead."
        )
    return record


async def uses_of_types(running: Running, catalog: CatalogSnapshot, doomed: Mapping[int, Record]) -> list[TypeUse]:
    """What of the tables that stay uses a type that goes, that of a relation's rows too, and the views that read such
    columns, with all that depends on these; those that name the type are told by `direct_dependents`."""
    found: list[TypeUse] = []
    seen = set(doomed)
    dependents: Dependents | None = None
    for oid, record in doomed.items():
        if not isinstance(record, (EnumType, DomainType, UserRange, BaseType, Relation, Function)):
            continue
        for use in _uses(catalog, oid, doomed):
            found.append(use)
            if isinstance(use, ColumnUse) and not use.default and use.relation.kind != COMPOSITE:
                views = [
                    view for view in await users_of_column(running, use.relation, use.column) if view.oid not in seen
                ]
                for view in views:
                    found.append(ViewUse(column=use, record=view))
                    dependents = dependents or Dependents(catalog)
                    above = dependents.of({view.oid: view})
                    found.extend(
                        ViewUse(column=use, record=record, over=parent)
                        for record, parent in above
                        if record.oid not in seen and not isinstance(record, (Constraint, Index))
                    )
                    seen.update((view.oid, *(record.oid for record, _ in above)))
    # What goes as a whole is not told of again by its columns.
    return [use for use in found if isinstance(use, ViewUse) or use.relation.oid not in seen]


def _uses(catalog: CatalogSnapshot, oid: int, doomed: Mapping[int, Record]) -> list[TypeUse]:
    types = (derived_oids.row_type_oid(oid), derived_oids.array_type_oid(oid))
    found: list[TypeUse] = []
    tables = [record for record in catalog.all() if isinstance(record, Relation) and record.kind != "v"]
    for table in sorted(tables, key=lambda table: table.oid):
        if table.oid in doomed:
            continue
        gone = set()
        for column in table.live_columns():
            if column.type_oid in types:
                gone.add(column.attnum)
                found.append(ColumnUse(type_oid=oid, relation=table, column=column))
            elif column.default is not None and mentions(column.default, oid):
                found.append(ColumnUse(type_oid=oid, relation=table, column=column, default=not column.generated))
        found.extend(
            ExpressionUse(type_oid=oid, relation=table, record=check)
            for check in catalog.constraints(table.oid)
            if mentions(check.expression or "", oid) and gone.isdisjoint(check.columns)
        )
        for index in catalog.indexes(table.oid):
            texts = (*index.expressions, index.predicate or "")
            if any(mentions(text, oid) for text in texts) and not any(map(index.uses, gone)):
                found.append(ExpressionUse(type_oid=oid, relation=table, record=index))
    return found


async def remove_use(running: Running, use: TypeUse) -> None:
    """What CASCADE does with what uses a dropped type, a view apart."""
    if isinstance(use, ViewUse):
        return
    relation = own_catalog(running).get(use.relation.oid)
    if not isinstance(relation, Relation):
        return
    if isinstance(use, ColumnUse):
        column = relation.column(use.column.name)
        if column is None:
            return
        if relation.kind == COMPOSITE:
            change(running, removed=[relation], added=[without_column(relation, column)])
        elif use.default:
            change(running, removed=[relation], added=[with_column(relation, replace(column, default=None))])
        else:
            await drop_column(running, relation, st.DropColumn(name=column.name, cascade=True))
        return
    record = own_catalog(running).get(use.record.oid)
    if isinstance(record, Constraint):
        remove_constraints(running, relation, [record])
    elif isinstance(record, Index):
        remove_index(running, record)
