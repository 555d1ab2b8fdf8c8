"""Keeping stored queries of views and functions true when what they read is renamed.

A view refers to relations and columns, not to names; its stored query is text, so a rename rewrites it. In the parse
tree each reference to a relation gets the new name with the old one as its alias, each reference to a column its new
name; everything else in the query then still means what it meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from adapter.definitions.common.catalog_changes import without_column
from adapter.definitions.policies.upkeep import naming_column, with_column_dropped, with_columns_added
from adapter.definitions.routines.bodies import binds, rewritten_bodies, with_column_renamed
from adapter.execution.statement import Running
from planner.definitions.columns.noted import Noted
from planner.definitions.columns.renamed import list_added, rename_column
from planner.definitions.renaming import each_reference, edited_query
from planner.definitions.views import statement_text
from planner.errors import InternalError, SqlError
from planner.resolution.statement import BindContext
from planner.syntax.parse import split_and_parse
from planner.types.type_scope import types_of
from storage.catalog.model import CatalogRecord, CatalogSnapshot, CatalogUpdate, Column, Relation, Schema
from storage.catalog.record import Record
from storage.catalog.routines import Function

Edited = list[tuple[CatalogRecord, CatalogRecord]]
"""Views and functions before and after."""


def rename_relation_in_queries(catalog: CatalogSnapshot, relation: Relation, changed: Relation) -> Edited:
    """The views over `relation` and the functions that use it (old, new) once it has the name and schema of
    `changed`."""
    schema = catalog.get(changed.schema)
    if not isinstance(schema, Schema):
        raise InternalError("a relation without schema")
    meant = _meaning(catalog, relation)

    def rename(reference: Any) -> None:
        if meant(reference):
            if not reference.alias.aliasname:
                reference.alias.aliasname = reference.relname
            reference.schemaname = schema.name
            reference.relname = changed.name

    return _edited(catalog, relation, partial(each_reference, edit=rename))


def rename_column_in_queries(
    running: Running, catalog: CatalogSnapshot, relation: Relation, old: str, new: str
) -> Edited:
    """The views over `relation` and the functions that use it (old, new) once its column `old` is called `new`."""
    context = running.session.bind_context(catalog)
    changed: Edited = [*with_column_renamed(context, relation, old, new)]
    for view in _over(catalog, relation):
        (parsed,) = split_and_parse(view.definition or "")
        rename_column(parsed, context, relation, old, new)
        changed.append((view, msgspec.structs.replace(view, definition=statement_text(parsed))))
    return changed


def add_columns_in_queries(catalog: CatalogSnapshot, relation: Relation, added: Sequence[str]) -> Edited:
    """The views over `relation`, functions that use it and policies (old, new) which join it USING columns called as
    some that it gets. They call these by names of their own, as PostgreSQL does, so that the joins go by the columns
    that they went by."""
    names = [column.name for column in relation.live_columns()]
    meant = _meaning(catalog, relation)
    policies = with_columns_added(catalog, relation, added)
    return [*policies, *_edited(catalog, relation, partial(list_added, meant=meant, names=names, added=added))]


def drop_column_in_queries(catalog: CatalogSnapshot, relation: Relation, column: Column) -> Edited:
    """The views over `relation`, functions that use it and policies (old, new) whose lists of names have the column
    that it will have no longer."""
    position = [each.attnum for each in relation.live_columns()].index(column.attnum)
    meant = _meaning(catalog, relation)

    def drop(reference: Any) -> None:
        if meant(reference) and len(reference.alias.colnames) > position:
            del reference.alias.colnames[position]

    policies = with_column_dropped(catalog, relation, position)
    return [*policies, *_edited(catalog, relation, partial(each_reference, edit=drop))]


def rename_schema_in_queries(catalog: CatalogSnapshot, schema: Schema, name: str) -> Edited:
    """The views and functions (old, new) that use a relation of `schema` once that is called `name`."""

    def move(reference: Any) -> None:
        if reference.schemaname == schema.name:
            reference.schemaname = name

    return _edited(catalog, None, partial(each_reference, edit=move))


def _meaning(catalog: CatalogSnapshot, relation: Relation) -> Callable[[Any], bool]:
    """Whether a reference is to `relation`."""
    schema = catalog.get(relation.schema)
    if not isinstance(schema, Schema):
        raise InternalError("a relation without schema")
    name = schema.name
    return lambda reference: (reference.schemaname, reference.relname) == (name, relation.name)


def _over(catalog: CatalogSnapshot, relation: Relation | None) -> Iterator[Relation]:
    """The views over `relation`, or all of them."""
    for view in catalog.all():
        if not isinstance(view, Relation) or view.definition is None:
            continue
        if relation is None or relation.oid in view.depends_on:
            yield view


def _edited(catalog: CatalogSnapshot, relation: Relation | None, edit: Callable[[Any], None]) -> Edited:
    """The views over `relation` and the functions that use it, or all of them, that are others with the trees of their
    statements passed through `edit`."""
    changed: Edited = [*rewritten_bodies(catalog, 0 if relation is None else relation.oid, edit)]
    for view in _over(catalog, relation):
        if (definition := edited_query(view.definition or "", edit)) != view.definition:
            changed.append((view, msgspec.structs.replace(view, definition=definition)))
    return changed


def users_of_column(running: Running, catalog: CatalogSnapshot, relation: Relation, column: Column) -> list[Record]:
    """The views that read the column themselves, functions that use it and policies which name it: their statements do
    not bind without it."""
    changed = without_column(relation, column)
    edited = drop_column_in_queries(catalog, relation, column)
    pairs = [(relation, changed), *edited]
    updates = [CatalogUpdate(record=old, diff=-1) for old, _ in pairs]
    after = catalog.apply([*updates, *(CatalogUpdate(record=new, diff=1) for _, new in pairs)], catalog.csn)
    context = running.session.bind_context(after)
    before = msgspec.structs.replace(context, catalog=catalog)
    found: list[Record] = []
    for record in catalog.all():
        now = after.get(record.oid)
        if isinstance(record, Relation) and record.definition is not None and relation.oid in record.depends_on:
            assert isinstance(now, Relation)
            found += [] if _binds(now, context) or not _binds(record, before) else [record]
        elif isinstance(record, Function) and record.sql_body is not None and relation.oid in record.depends_on:
            assert isinstance(now, Function)
            found += [] if binds(now, context) or not binds(record, before) else [record]
    found += naming_column(before, context, relation, column.attnum)
    running.session.bind_context(catalog)
    return found


def _binds(view: Relation, context: BindContext) -> bool:
    """Whether the view's query means something in `context`, whatever the views that it reads do."""
    try:
        with types_of(context.catalog, context.search_path):
            Noted(split_and_parse(view.definition or "")[0], context)
    except SqlError:
        return False
    return True
