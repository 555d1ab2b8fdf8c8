"""Standard bodies of functions when what they use gets another name, or goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from planner.calls.user_functions import returns_of, statements_of
from planner.definitions.columns.noted import Noted
from planner.definitions.routines import standard_body, with_arguments
from planner.definitions.views import statement_text
from planner.errors import SqlError
from planner.resolution.statement import BindContext
from planner.syntax.parse import Parsed, split_and_parse
from planner.types.type_scope import types_of
from storage.catalog.model import CatalogSnapshot
from storage.catalog.routines import Function

Edit: TypeAlias = Callable[[Parsed, BindContext], None]
"""Writes into the tree of a stored statement, which means in this context what it does."""

Changed = list[tuple[Function, Function]]
"""Functions before and after."""


def rewritten_bodies(context: BindContext, oid: int, edit: Edit) -> Changed:
    """The functions whose standard bodies use the relation `oid`, or whatever they use where it is 0, with each
    statement passed through `edit`; those that it alters."""
    changed: Changed = []
    for function in _using(context.catalog, oid):
        sql_body, own = function.sql_body or "", with_arguments(function, context)
        before = [statement_text(each) for each in statements_of(function.body, sql_body)]
        try:
            texts = [_with_edit(text, own, edit) for text in before]
        except SqlError:
            # It has been broken by something else.
            continue
        if texts != before:
            body = standard_body(texts, returns_of(sql_body), is_return=sql_body.startswith("RETURN "))
            changed.append((function, msgspec.structs.replace(function, sql_body=body)))
    return changed


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


def _with_edit(text: str, context: BindContext, edit: Edit) -> str:
    (parsed,) = split_and_parse(text)
    edit(parsed, context)
    return statement_text(parsed)
