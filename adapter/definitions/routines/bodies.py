"""Standard bodies of functions when what they use gets another name, or goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from planner.calls.user_functions import returns_of, statements_of
from planner.definitions.columns.noted import Noted
from planner.definitions.columns.renamed import rename_column
from planner.definitions.routines import standard_body, with_arguments
from planner.definitions.views import statement_text
from planner.errors import SqlError
from planner.resolution.statement import BindContext
from planner.syntax.parse import Parsed, split_and_parse
from planner.types.type_scope import types_of
from storage.catalog.model import CatalogSnapshot, Relation
from storage.catalog.routines import Function

Changed = list[tuple[Function, Function]]
"""Functions before and after."""


def rewritten_bodies(catalog: CatalogSnapshot, oid: int, edit: Callable[[Any], None]) -> Changed:
    """The functions whose standard bodies use the relation `oid`, or whatever they use where it is 0, with the tree of
    each statement passed through `edit`; those that it alters."""
    return _edited(catalog, oid, lambda _, parsed: edit(parsed.tree))


def with_column_renamed(context: BindContext, relation: Relation, old: str, new: str) -> Changed:
    """The functions whose standard bodies name the column `old` of `relation`, once it is called `new`."""

    def rename(function: Function, parsed: Parsed) -> None:
        rename_column(parsed, with_arguments(function, context), relation, old, new)

    return _edited(context.catalog, relation.oid, rename)


def binds(function: Function, context: BindContext) -> bool:
    """Whether the statements of its standard body mean something in `context`."""
    try:
        with types_of(context.catalog, context.search_path):
            for statement in statements_of(function.body, function.sql_body):
                Noted(statement, with_arguments(function, context))
    except SqlError:
        return False
    return True


def _using(catalog: CatalogSnapshot, oid: int) -> Iterator[Function]:
    for function in catalog.all():
        if isinstance(function, Function) and function.sql_body is not None and (not oid or oid in function.depends_on):
            yield function


def _edited(catalog: CatalogSnapshot, oid: int, edit: Callable[[Function, Parsed], None]) -> Changed:
    changed: Changed = []
    for function in _using(catalog, oid):
        sql_body = function.sql_body or ""
        before = [statement_text(each) for each in statements_of(function.body, sql_body)]
        try:
            texts = [_with_edit(text, function, edit) for text in before]
        except SqlError:
            # It has been broken by something else.
            continue
        if texts != before:
            body = standard_body(texts, returns_of(sql_body), is_return=sql_body.startswith("RETURN "))
            changed.append((function, msgspec.structs.replace(function, sql_body=body)))
    return changed


def _with_edit(text: str, function: Function, edit: Callable[[Function, Parsed], None]) -> str:
    (parsed,) = split_and_parse(text)
    edit(function, parsed)
    return statement_text(parsed)
