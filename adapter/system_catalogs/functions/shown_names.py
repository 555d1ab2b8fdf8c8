"""Columns of catalog views that show names as the session's search_path finds them: texts of views and defaults.

A relation's table is the same for all sessions, with every name qualified; these columns of it are shown anew.
"""

from __future__ import annotations

from collections.abc import Mapping

from adapter.system_catalogs.functions.contexts import Entered
from adapter.system_catalogs.functions.reg_names import reg_output
from adapter.system_catalogs.objects.definitions import shown_expression, view_definition
from planner.types.types import REG_TYPES
from storage.catalog.model import Relation

_POLICY = ("tg_shown_condition", ("schemaname", "tablename"))

SHOWN: Mapping[tuple[str, str], Mapping[str, tuple[str, tuple[str, ...]]]] = {
    ("pg_catalog", "pg_views"): {"definition": ("tg_shown_view", ("schemaname", "viewname"))},
    ("pg_catalog", "pg_matviews"): {"definition": ("tg_shown_view", ("schemaname", "matviewname"))},
    ("pg_catalog", "pg_policies"): {"qual": _POLICY, "with_check": _POLICY},
    ("information_schema", "views"): {"view_definition": ("tg_shown_view", ("table_schema", "table_name"))},
    ("information_schema", "columns"): {
        "column_default": ("tg_shown_default", ("table_schema", "table_name", "column_name")),
    },
}
"""By relation and column: the function that shows it, and the columns that the function takes before it."""


def shown_view(context: Entered, schema: str, name: str, known: str) -> str | None:
    """The query of a view; `known` where the view is built in."""
    relation = _relation(context, schema, name)
    if relation is None:
        return known
    return view_definition(context.objects, relation.oid, context.path, names=lambda *of: _named(context, *of))


def shown_default(context: Entered, schema: str, name: str, column: str, known: str) -> str | None:
    """The default of a column; `known` where the relation is built in."""
    relation = _relation(context, schema, name)
    found = None if relation is None else relation.column(column)
    if relation is None or found is None or found.default is None:
        return known
    return shown_expression(context.objects, relation.oid, found.default, names=lambda *of: _named(context, *of))


def shown_condition(context: Entered, schema: str, name: str, known: str) -> str | None:
    """A condition of a policy, which `known` is as the catalog keeps it."""
    relation = _relation(context, schema, name)
    if relation is None:
        return known
    objects, path = context.objects, context.path
    return shown_expression(objects, relation.oid, known, names=lambda *of: _named(context, *of), path=path)


def _named(context: Entered, type_oid: int, oid: int) -> str:
    return reg_output(context, REG_TYPES[type_oid], oid)


def _relation(context: Entered, schema: str, name: str) -> Relation | None:
    namespace = context.objects.snapshot.schema(schema)
    found = None if namespace is None else context.objects.relation_by_name.get((namespace.oid, name))
    relation = None if found is None else context.objects.snapshot.get(found.oid)
    return relation if isinstance(relation, Relation) else None
