"""What can be done to the rows of a relation, as the catalogs tell it (pg_relation_is_updatable)."""

from __future__ import annotations

from collections.abc import Collection

from planner.queries.changes.updatable_views import NO_COLUMNS, UpdatableView, updatable_view
from planner.queries.grammar import new_statement
from planner.queries.relations import parse_view
from planner.resolution.statement import BindContext
from storage.catalog.model import Relation

INSERT, UPDATE, DELETE = 8, 4, 16
"""Bits of what can be done, as PostgreSQL has them."""

ALL = INSERT | UPDATE | DELETE


def _analyzed(view: Relation, context: BindContext) -> UpdatableView | str:
    return updatable_view(new_statement(parse_view(view.definition or ""), context), view)


def why_not_updatable(view: Relation, context: BindContext) -> str | None:
    """Why rows cannot be inserted and updated through `view`; None when they can."""
    analyzed = _analyzed(view, context)
    if isinstance(analyzed, str):
        return analyzed
    return None if analyzed.has_updatable_columns else NO_COLUMNS


def updatable_places(relation: Relation, context: BindContext) -> frozenset[int] | None:
    """The columns (places among the live ones) of a table or view that can be changed; None when not even rows can be
    deleted."""
    if relation.kind != "v":
        return frozenset(range(len(relation.live_columns()))) if relation.kind == "r" else None
    analyzed = _analyzed(relation, context)
    below = None if isinstance(analyzed, str) else updatable_places(analyzed.base, context)
    if isinstance(analyzed, str) or below is None:
        return None
    return frozenset(place for place, column in enumerate(analyzed.columns) if column.below in below)


def events(places: Collection[int] | None) -> int:
    """What can be done where the columns `places` can be changed, as `updatable_places` has them."""
    if places is None:
        return 0
    return ALL if places else DELETE
