"""CREATE INDEX as text: pg_get_indexdef."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from adapter.system_catalogs.objects.definitions import (
    bind_context,
    column_list,
    column_name,
    key_options,
    name_of_object,
    order_text,
    parameter_text,
    qualified_relation_name,
    shown_expression,
)
from adapter.system_catalogs.objects.objects import CatalogObjects, static_row
from planner.catalog_data import content as catalog_data
from planner.definitions.expression_text import ObjectNames
from planner.definitions.index_expressions import key_texts
from planner.syntax.identifiers import quote_identifier
from planner.types.table_indexes import find_index
from storage.catalog.model import Relation


def index_definition(
    objects: CatalogObjects,
    oid: int,
    column: int = 0,
    path: tuple[int, ...] | None = None,
    *,
    pretty: bool = False,
    names: ObjectNames | None = None,
) -> str | None:
    """pg_get_indexdef: the CREATE INDEX command, or one `column` of it (1-based; '' when out of range). None when there
    is no such index. `names` is what regclass and the like show."""
    index = find_index(objects.snapshot, oid)
    if index is None:
        return _builtin_index_definition(objects, oid, column, path)
    relation = objects.snapshot.get(index.relation)
    assert isinstance(relation, Relation)
    context, shown = bind_context(objects), names or partial(name_of_object, objects)
    keys = list(key_texts(relation, index.columns, index.expressions, context, pretty=pretty, objects=shown))
    include = [quote_identifier(column_name(objects, relation.oid, attnum) or "???") for attnum in index.include]
    if column:
        return [*keys, *include][column - 1] if 1 <= column <= len(keys) + len(include) else ""
    text = (
        f"CREATE {'UNIQUE ' if index.unique else ''}INDEX {quote_identifier(index.name)}"
        f" ON {qualified_relation_name(objects, relation.oid, path)} USING {quote_identifier(index.method)}"
        f" ({', '.join(map(str.__add__, keys, key_options(objects, relation, index)))})"
    )
    if include:
        text += f" INCLUDE ({', '.join(include)})"
    if index.nulls_not_distinct:
        text += " NULLS NOT DISTINCT"
    if index.parameters:
        text += f" WITH ({', '.join(map(parameter_text, index.parameters))})"
    if index.predicate is not None:
        text += f" WHERE {shown_expression(objects, relation.oid, index.predicate, pretty=pretty, names=names)}"
    return text


def _builtin_index_definition(
    objects: CatalogObjects, oid: int, column: int, path: tuple[int, ...] | None
) -> str | None:
    parts = _builtin_index(oid)
    index = objects.relation(oid)
    if parts is None or index is None:
        return None
    table, unique, keys, options = parts
    if column:
        return column_list(objects, table, [keys[column - 1]]) if 1 <= column <= len(keys) else ""
    items = [
        column_list(objects, table, [attnum]) + order_text(option) for attnum, option in zip(keys, options, strict=True)
    ]
    return (
        f"CREATE {'UNIQUE ' if unique else ''}INDEX {quote_identifier(index.name)}"
        f" ON {qualified_relation_name(objects, table, path)} USING {quote_identifier('btree')} ({', '.join(items)})"
    )


def _builtin_index(oid: int) -> tuple[int, bool, Sequence[int], Sequence[int]] | None:
    """Table, uniqueness, key columns and their options of an index of PostgreSQL's."""
    position = static_row("pg_index", "indexrelid").get(oid)
    if position is None:
        return None
    data = catalog_data.columns("pg_index")
    return (
        data["indrelid"][position],
        data["indisunique"][position],
        data["indkey"][position],
        data["indoption"][position],
    )
