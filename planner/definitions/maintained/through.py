"""Queries that give a view as it is, such as ``TABLE v``: what they give is what the view's own query gives.

By the text of that query it can be told how its rows follow from those of tables; of a view in FROM it cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree, split_and_parse

ViewOf = Callable[[str, str], tuple[str, Sequence[str]] | None]
"""The query and the columns' names of the view with that schema and name; None for everything else."""

MAX_VIEWS = 100
"""Views over views that are looked through."""


def through_views(definition: str, view_of: ViewOf) -> str:
    """The `definition` of a query, with every name qualified; or the query of the view that it gives as it is."""
    for _ in range(MAX_VIEWS):
        view = _whole(definition, view_of)
        if view is None:
            break
        definition = view
    return definition


def _whole(definition: str, view_of: ViewOf) -> str | None:
    (parsed,) = split_and_parse(definition)
    select = parsed.tree
    if parsed.kind != "select_stmt" or select.op != pb.SETOP_NONE or len(select.from_clause) != 1:
        return None
    if {field.name for field, _ in select.ListFields()} - {"target_list", "from_clause", "limit_option", "op"}:
        return None
    reference = select.from_clause[0].range_var
    if select.from_clause[0].WhichOneof("node") != "range_var" or reference.alias.colnames:
        return None
    view = view_of(reference.schemaname, reference.relname)
    if view is None:
        return None
    text, columns = view
    name = reference.alias.aliasname or reference.relname
    return text if list(map(_column, select.target_list)) == [(name, column) for column in columns] else None


def _column(target: Tree) -> tuple[str, ...] | None:
    value = target.res_target.val
    if value.WhichOneof("node") != "column_ref":
        return None
    return tuple([field.string.sval for field in value.column_ref.fields])
