"""Keeping stored queries of views and functions true when what they read is renamed.

A view refers to relations and columns, not to names; its stored query is text, so a rename rewrites it. In the parse
tree each reference to the relation gets the new name with the old one as its alias, or an alias list with the old
column names; everything else in the query then still means what it meant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

import msgspec

from adapter.definitions.dependents import direct_dependents
from adapter.definitions.routines.bodies import rewritten_bodies
from adapter.execution.statement import Running
from planner.definitions.renaming import edited_query, names_joined_using
from planner.errors import InternalError, SqlError
from planner.syntax.parse import split_and_parse
from storage.catalog.model import CatalogRecord, CatalogSnapshot, CatalogUpdate, Relation, Schema


def rename_relation_in_queries(
    catalog: CatalogSnapshot, relation: Relation, changed: Relation
) -> list[tuple[CatalogRecord, CatalogRecord]]:
    """The views over `relation` and the functions that use it (old, new) once it has the name and schema of
    `changed`."""
    schema = catalog.get(changed.schema)
    if not isinstance(schema, Schema):
        raise InternalError("a relation without schema")

    def rename(reference: Any) -> None:
        if not reference.alias.aliasname:
            reference.alias.aliasname = reference.relname
        reference.schemaname = schema.name
        reference.relname = changed.name

    bodies = rewritten_bodies(catalog, relation.oid, _where_meant(catalog, relation, rename))
    return [*_rewrite(catalog, relation, rename), *bodies]


def rename_column_in_views(
    running: Running, catalog: CatalogSnapshot, relation: Relation, changed: Relation, old: str, new: str
) -> list[tuple[Relation, Relation]]:
    """The views over `relation` (old, new) once its column `old` is called `new`."""
    names = [column.name for column in relation.live_columns()]

    return _rewrite(catalog, relation, partial(_list, names))


def add_columns_in_views(
    catalog: CatalogSnapshot, relation: Relation, added: Sequence[str]
) -> list[tuple[Relation, Relation]]:
    """The views over `relation` (old, new) that join USING columns called as some that it gets. They call these by
    names of their own, as PostgreSQL does, so that the joins go by the columns that they went by."""
    names = [column.name for column in relation.live_columns()]
    changed = []
    for old, joined in _joining(catalog, relation):
        if joined.isdisjoint(added):
            continue
        listed = [*names, *(_unlike(each, (*names, *added)) if each in joined else each for each in added)]
        changed += [pair for pair in _rewrite(catalog, relation, partial(_list, listed)) if pair[0] is old]
    return changed


def _joining(catalog: CatalogSnapshot, relation: Relation) -> Iterator[tuple[Relation, frozenset[str]]]:
    """The views over `relation`, and the columns that joins in them go by."""
    for view in catalog.all():
        if isinstance(view, Relation) and view.definition is not None and relation.oid in view.depends_on:
            yield view, names_joined_using(view.definition)


def _unlike(name: str, taken: Collection[str]) -> str:
    return next(each for number in count(1) if (each := f"{name}_{number}") not in taken)


def _list(names: Sequence[str], reference: Any) -> None:
    if not reference.alias.aliasname:
        reference.alias.aliasname = reference.relname
    for name in names[len(reference.alias.colnames) :]:
        reference.alias.colnames.add().string.sval = name


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


def rename_schema_in_queries(
    catalog: CatalogSnapshot, schema: Schema, name: str
) -> list[tuple[CatalogRecord, CatalogRecord]]:
    """The views and functions (old, new) that use a relation of `schema` once that is called `name`."""
    bodies = rewritten_bodies(catalog, 0, lambda reference: _move(reference, schema.name, name))
    changed: list[tuple[CatalogRecord, CatalogRecord]] = [*bodies]
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


def _where_meant(catalog: CatalogSnapshot, relation: Relation, edit: Callable[[Any], None]) -> Callable[[Any], None]:
    """`edit` for the references to `relation`."""
    schema = catalog.get(relation.schema)
    if not isinstance(schema, Schema):
        raise InternalError("a relation without schema")
    meant = (schema.name, relation.name)

    def edit_if_meant(reference: Any) -> None:
        if (reference.schemaname, reference.relname) == meant:
            edit(reference)

    return edit_if_meant


def _rewrite(
    catalog: CatalogSnapshot, relation: Relation, edit: Callable[[Any], None]
) -> list[tuple[Relation, Relation]]:
    edit_if_meant = _where_meant(catalog, relation, edit)
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
