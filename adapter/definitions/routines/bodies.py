"""Standard bodies of functions, whose relations get other names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from planner.calls.user_functions import statements_of
from planner.definitions.renaming import edited_query
from planner.definitions.routines import standard_body
from planner.definitions.views import statement_text
from storage.catalog.model import CatalogSnapshot
from storage.catalog.routines import Function


def rewritten_bodies(
    catalog: CatalogSnapshot, oid: int, edit: Callable[[Any], None]
) -> list[tuple[Function, Function]]:
    """The functions (old, new) whose standard bodies use the relation `oid`, or whatever they use where it is 0, with
    every reference to a relation passed through `edit`; those that it changes."""
    changed: list[tuple[Function, Function]] = []
    for function in catalog.all():
        if not isinstance(function, Function) or function.sql_body is None:
            continue
        if oid and oid not in function.depends_on:
            continue
        before = [statement_text(each) for each in statements_of(function.body, function.sql_body)]
        texts = [edited_query(text, edit) for text in before]
        if texts != before:
            body = standard_body(texts, is_return=function.sql_body.startswith("RETURN "))
            changed.append((function, msgspec.structs.replace(function, sql_body=body)))
    return changed
