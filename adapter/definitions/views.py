"""Keeping stored view queries true when what they read is renamed.

A view refers to relations and columns, not to names; its stored query is text, so a rename rewrites it. In the parse
tree each reference to the relation gets the new name with the old one as its alias, or an alias list with the old
column names; everything else in the query then still means what it meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from adapter.definitions.dependents import direct_dependents
from adapter.execution.statement import Running
from planner.definitions.renaming import edited_query
from planner.errors import InternalError, SqlError
from planner.syntax.parse import split_and_parse
from storage.catalog.model import CatalogSnapshot, CatalogUpdate, Relation, Schema


def rename_relation_in_views(
    running: Running, catalog: CatalogSnapshot, relation: Relation, changed: Relation
) -> list[tuple[Relation, Relation]]:
    """The views over `relation` (old, new) once it has the name and schema of `changed`."""
    schema = catalog.get(changed.schema)
    if not isinstance(schema, Schema):
        raise InternalError("a relation without schema")

    def rename(reference: Any) -> None:
        if not reference.alias.aliasname:
            reference.alias.aliasname = reference.relname
        reference.schemaname = schema.name
        reference.relname = changed.name

    return _rewrite(catalog, relation, rename)


def rename_column_in_views(
    running: Running, catalog: CatalogSnapshot, relation: Relation, changed: Relation, old: str, new: str
) -> list[tuple[Relation, Relation]]:
    """The views over `relation` (old, new) once its column `old` is called `new`."""
    names = [column.name for column in relation.live_columns()]

    def rename(reference: Any) -> None:
        if not reference.alias.aliasname:
            reference.alias.aliasname = reference.relname
        given = len(reference.alias.colnames)
        for name in names[given:]:
            reference.alias.colnames.add().string.sval = name

    return _rewrite(catalog, relation, rename)


def drop_column_in_views(
    catalog: CatalogSnapshot, relation: Relation, changed: Relation
) -> list[tuple[Relation, Relation]]:
    """The views over `relation` (old, new) whose alias lists name the column that `changed` has no longer."""
    left = {column.attnum for column in changed.live_columns()}
    positions = [place for place, column in enumerate(relation.live_columns()) if column.attnum not in left]

    def drop(reference: Any) -> None:
        for position in reversed(positions):
            if len(reference.alias.colnames) > position:
                del reference.alias.colnames[position]

    return [(old, new) for old, new in _rewrite(catalog, relation, drop) if old != new]


def rename_schema_in_views(catalog: CatalogSnapshot, schema: Schema, name: str) -> list[tuple[Relation, Relation]]:
    """The views (old, new) that read a relation of `schema` once that is called `name`."""
    changed = []
    for view in catalog.all():
        if not isinstance(view, Relation) or view.definition is None:
            continue
        definition = edited_query(view.definition, lambda reference: _move(reference, schema.name, name))
        if definition != view.definition:
            changed.append((view, msgspec.structs.replace(view, definition=definition)))
    return changed


def _move(reference: Any, old: str, new: str) -> None:
    if reference.schemaname == old:
        reference.schemaname = new


def _rewrite(
    catalog: CatalogSnapshot, relation: Relation, edit: Callable[[Any], None]
) -> list[tuple[Relation, Relation]]:
    schema = catalog.get(relation.schema)
    if not isinstance(schema, Schema):
        raise InternalError("a relation without schema")

    def edit_if_meant(reference: Any) -> None:
        if (reference.schemaname, reference.relname) == (schema.name, relation.name):
            edit(reference)

    changed: list[tuple[Relation, Relation]] = []
    for view in catalog.all():
        if isinstance(view, Relation) and view.definition is not None and relation.oid in view.depends_on:
            definition = edited_query(view.definition, edit_if_meant)
            changed.append((view, msgspec.structs.replace(view, definition=definition)))
    return changed


def broken_views(
    running: Running,
    catalog: CatalogSnapshot,
    relation: Relation,
    changed: Relation,
    edited: Mapping[Relation, Relation],
) -> list[Relation]:
    """The views directly over `relation` whose query (as `edited` has it) does not bind once it is `changed`."""
    after = catalog.apply([CatalogUpdate(record=relation, diff=-1), CatalogUpdate(record=changed, diff=1)], catalog.csn)
    broken = []
    for record in direct_dependents(catalog, relation.oid):
        if isinstance(record, Relation) and record.definition is not None:
            definition = edited.get(record, record).definition or ""
            try:
                running.session.plan(split_and_parse(definition)[0], after)
            except SqlError:
                broken.append(record)
    return broken
