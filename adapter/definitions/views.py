"""Keeping stored queries of views, functions and policies true when what they read is renamed.

A view refers to relations and columns, not to names; its stored query is text, so a rename rewrites it. In the parse
tree each reference to a relation gets the new name with the old one as its alias, each reference to a column its new
name; everything else in the query then still means what it meant.

There may be a thousand of them, each parsed, bound and laid out: that is done on the threads for planning, so that
other sessions go on meanwhile. The table is locked, and what a statement sees of the catalog stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from adapter.definitions.common.catalog_changes import without_column
from adapter.definitions.policies.upkeep import (
    naming_column,
    with_queries_edited,
    with_relation_moved,
    with_schema_renamed,
)
from adapter.definitions.policies.upkeep import with_column_renamed as policies_with_column_renamed
from adapter.definitions.routines.bodies import Edit, binds, rewritten_bodies
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from planner.definitions.columns.noted import Noted
from planner.definitions.columns.renamed import drop_listed, list_added, rename_column
from planner.definitions.renaming import each_reference, edited_query
from planner.errors import InternalError, SqlError
from planner.resolution.statement import BindContext
from planner.syntax.parse import Parsed, split_and_parse
from planner.types.type_scope import types_of
from storage.catalog.model import CatalogRecord, CatalogSnapshot, CatalogUpdate, Column, Relation, Schema
from storage.catalog.record import Record
from storage.catalog.routines import Function

Edited = list[tuple[CatalogRecord, CatalogRecord]]
"""Views, functions and policies before and after."""


async def rename_relation_in_queries(running: Running, relation: Relation, changed: Relation) -> Edited:
    """The views over `relation`, functions that use it and policies (old, new) once it has the name and schema of
    `changed`."""
    catalog = own_catalog(running)
    schema, context = catalog.get(changed.schema), running.session.bind_context(catalog)
    if not isinstance(schema, Schema):
        raise InternalError("a relation without schema")
    meant = _meaning(catalog, relation)

    def rename(reference: Any) -> None:
        if meant(reference):
            if not reference.alias.aliasname:
                reference.alias.aliasname = reference.relname
            reference.schemaname = schema.name
            reference.relname = changed.name

    def edited() -> Edited:
        views = _edited(context, relation, lambda query, _: each_reference(query.tree, rename))
        return [*views, *with_relation_moved(catalog, relation, changed)]

    return await running.services.plans.aside(edited)


async def rename_column_in_queries(
    running: Running, relation: Relation, changed: Relation, old: str, new: str
) -> Edited:
    """The views over `relation`, functions that use it and policies (old, new) once it is `changed`, its column `old`
    called `new`."""
    context = running.session.bind_context(own_catalog(running))
    return await running.services.plans.aside(_with_column_renamed, context, relation, changed, old, new)


def _with_column_renamed(context: BindContext, relation: Relation, changed: Relation, old: str, new: str) -> Edited:
    def rename(query: Parsed, context: BindContext) -> None:
        rename_column(query, context, relation, old, new)

    policies = policies_with_column_renamed(context, relation, changed, old, new)
    return [*_edited(context, relation, rename), *policies]


async def add_columns_in_queries(running: Running, relation: Relation, added: Sequence[str]) -> Edited:
    """The views over `relation`, functions that use it and policies (old, new) which join it USING columns called as
    some that it gets, or in joins with a name. They call these by names of their own, as PostgreSQL does, so that the
    joins go by the columns that they went by and have those that they had."""

    def add(query: Parsed, context: BindContext) -> None:
        list_added(query, context, relation, added)

    context = running.session.bind_context(own_catalog(running))
    return await running.services.plans.aside(_with_queries_edited, context, relation, add)


async def drop_column_in_queries(running: Running, relation: Relation, column: Column) -> Edited:
    """The views over `relation`, functions that use it and policies (old, new) whose lists of names have the column
    that it will have no longer."""

    def drop(query: Parsed, context: BindContext) -> None:
        drop_listed(query, context, relation, column.attnum)

    context = running.session.bind_context(own_catalog(running))
    return await running.services.plans.aside(_with_queries_edited, context, relation, drop)


def _with_queries_edited(context: BindContext, relation: Relation, edit: Edit) -> Edited:
    return [*with_queries_edited(context, relation, edit), *_edited(context, relation, edit)]


async def rename_schema_in_queries(running: Running, schema: Schema, name: str) -> Edited:
    """The views, functions and policies (old, new) that use a relation of `schema` once that is called `name`."""
    catalog = own_catalog(running)
    context = running.session.bind_context(catalog)

    def move(reference: Any) -> None:
        if reference.schemaname == schema.name:
            reference.schemaname = name

    def edited() -> Edited:
        views = _edited(context, None, lambda query, _: each_reference(query.tree, move))
        return [*views, *with_schema_renamed(catalog, schema, name)]

    return await running.services.plans.aside(edited)


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


def _edited(context: BindContext, relation: Relation | None, edit: Edit) -> Edited:
    """The views over `relation` and the functions that use it, or all of them, that are others with their statements
    passed through `edit`."""
    changed: Edited = [*rewritten_bodies(context, 0 if relation is None else relation.oid, edit)]
    for view in _over(context.catalog, relation):
        definition = edited_query(view.definition or "", lambda query: edit(query, context))
        if definition != view.definition:
            changed.append((view, msgspec.structs.replace(view, definition=definition)))
    return changed


async def users_of_column(running: Running, relation: Relation, column: Column) -> list[Record]:
    """The views that read the column themselves, functions that use it and policies which name it: their statements do
    not bind without it."""
    catalog = own_catalog(running)
    pairs = [(relation, without_column(relation, column)), *await drop_column_in_queries(running, relation, column)]
    updates = [CatalogUpdate(record=old, diff=-1) for old, _ in pairs]
    after = catalog.apply([*updates, *(CatalogUpdate(record=new, diff=1) for _, new in pairs)], catalog.csn)
    context = running.session.bind_context(after)
    before = msgspec.structs.replace(context, catalog=catalog)
    found = await running.services.plans.aside(_bound_before_only, before, context, relation, column)
    running.session.bind_context(catalog)
    return found


def _bound_before_only(before: BindContext, context: BindContext, relation: Relation, column: Column) -> list[Record]:
    """What reads `relation` with a statement that means something in `before`, and nothing in `context`."""
    after = context.catalog
    found: list[Record] = []
    for record in before.catalog.all():
        now = after.get(record.oid)
        if isinstance(record, Relation) and record.definition is not None and relation.oid in record.depends_on:
            assert isinstance(now, Relation)
            found += [] if _binds(now, context) or not _binds(record, before) else [record]
        elif isinstance(record, Function) and record.sql_body is not None and relation.oid in record.depends_on:
            assert isinstance(now, Function)
            found += [] if binds(now, context) or not binds(record, before) else [record]
    return [*found, *naming_column(before, context, relation, column.attnum)]


def _binds(view: Relation, context: BindContext) -> bool:
    """Whether the view's query means something in `context`, whatever the views that it reads do."""
    try:
        with types_of(context.catalog, context.search_path):
            Noted(split_and_parse(view.definition or "")[0], context)
    except SqlError:
        return False
    return True
