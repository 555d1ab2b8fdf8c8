"""A column's DEFAULT, bound as the query of one value that gives it."""

from __future__ import annotations

from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from planner.definitions.defaults import bind_default
from planner.ir.bound import BoundQuery
from planner.queries.changes.column_values import default_text
from planner.syntax.parse import Parsed
from planner.types.types import type_of_column
from storage.catalog.model import Column


def default_query(running: Running, column: Column, written: Parsed | None = None) -> BoundQuery:
    """The column's DEFAULT, or that of its domain, as a query of one value. Raises the binder's errors for a bad one;
    they have positions where `written` gives it as it stands in the statement."""
    text = default_text(column)
    assert text is not None
    type_ = type_of_column(column)
    context = running.session.bind_context(own_catalog(running))
    return bind_default(text, column.name, type_, context, written)
