"""Execution contexts by token: how a catalog function that runs inside an engine finds its session's catalog.

An engine keeps a context entered while a query runs; functions get its token as their first argument. An error that a
function raises is kept in `Entered.error`, because the engine passes on only its text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from adapter.execution_context import ExecutionContext, SessionFacts
from adapter.system_catalogs.objects.objects import CatalogObjects
from adapter.system_catalogs.relations.contents import SystemCatalogs
from planner.errors import SqlError

_entered: dict[str, list[Entered]] = {}


@dataclass(slots=True, kw_only=True, eq=False)
class Entered:
    """What catalog functions know of the statement that calls them."""

    objects: CatalogObjects
    path: tuple[int, ...]
    """Oids of the schemas that names are looked for in (CatalogObjects.effective_path)."""
    user: str
    search_path: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    facts: SessionFacts | None = None
    error: SqlError | None = None
    user_oid: int = field(init=False)

    def __post_init__(self) -> None:
        self.user_oid = next((oid for oid, name in self.objects.role_names.items() if name == self.user), 0)


def entered_for(context: ExecutionContext, catalogs: SystemCatalogs) -> Entered:
    """What catalog functions know of a statement with this context."""
    objects = catalogs.objects(context.catalog, context.database)
    return Entered(
        objects=objects,
        path=objects.effective_path(context.search_path, context.user),
        user=context.user,
        search_path=context.search_path,
        settings=context.settings,
        facts=context.facts,
    )


@contextmanager
def entered(context: ExecutionContext, catalogs: SystemCatalogs) -> Iterator[Entered]:
    """Makes `context` known under its token for the length of the block."""
    found = entered_for(context, catalogs)
    _entered.setdefault(context.token, []).append(found)
    try:
        yield found
    finally:
        same_token = _entered[context.token]
        same_token.remove(found)
        if not same_token:
            del _entered[context.token]


def current(token: str) -> Entered:
    """The context that `token` names; KeyError when its statement is over."""
    return _entered[token][-1]
