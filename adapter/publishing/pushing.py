"""What a database has published, pushed to an external Iceberg REST catalog (``--iceberg-catalog``).

One register of the consensus store for each database names the tables and views that the catalog may have of ours; it
is written before a name is used there, so no process that dies leaves one behind in the catalog that nobody removes.
What failed to be pushed is pushed again. What the catalog has of all of them is compared with what is published when a
process begins, after each failure and every now and then: it may have been restored from a backup.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Set
from functools import partial
from typing import TYPE_CHECKING

import structlog

from adapter.publishing.published_views import ServedView, metadata_of_view
from adapter.publishing.service import Publishing, outside_location
from storage.catalog.model import CatalogSnapshot
from storage.environment.environment import Environment
from storage.errors import Determinate, missing_blob
from storage.publishing.record import PublishedTable, Pushed, PushedRelation, pushed_relations, table_uuid

if TYPE_CHECKING:
    from storage.publishing.external import ExternalCatalog

log = structlog.get_logger(__name__)

DATABASE = "database"
"""Our own option beside pyiceberg's: the database whose tables are pushed."""
DEFAULT_DATABASE = "postgres"

COMPARE_EVERY = 60
"""Pushes between two looks at tables that have not changed."""


class Pusher:
    """The pushing of one process. `options`: properties of the catalog as pyiceberg has them, and `DATABASE`."""

    def __init__(self, env: Environment, publishing: Publishing, options: Mapping[str, str]) -> None:
        self._env = env
        self._publishing = publishing
        self._properties = {name: value for name, value in options.items() if name != DATABASE}
        self._catalog: ExternalCatalog | None = None
        self._shown: dict[PushedRelation, PublishedTable | int] = {}
        """What this process knows the catalog to show: a table, or the version of a view."""
        self._pushes = 0
        self._refuses_views = False
        self.database = options.get(DATABASE, DEFAULT_DATABASE)

    async def push(self, catalog: CatalogSnapshot) -> None:
        """Let the external catalog have what a database, whose newest catalog is `catalog`, has published now.

        All tables and views are tried before Determinate is raised for those that failed; raises what the stores raise
        too.
        """
        self._pushes += 1
        if self._pushes % COMPARE_EVERY == 0:
            self._shown.clear()
        tables, views = await self._wanted(catalog)
        wanted: dict[PushedRelation, PublishedTable | int] = dict(tables)
        wanted.update((name, view.published.version) for name, view in views.items())
        register = pushed_relations(self._env.consensus, self._env.clock, catalog.database)
        found = await register.read() or Pushed()
        if found.tables == wanted.keys() and self._shown == wanted:
            return
        if not wanted.keys() <= found.tables:
            found = await register.change(partial(_changed, begun=wanted.keys()))
        external = await self._opened()
        failed: list[Determinate] = []
        removed: set[PushedRelation] = set()
        shown: set[PushedRelation] = set()
        for gone in sorted(found.tables - wanted.keys()):
            try:
                await self._remove(external, gone, was_shown=gone in found.shown)
            except Determinate as error:
                failed.append(error)
            else:
                removed.add(gone)
                self._shown.pop(gone, None)
        for name, state in wanted.items():  # The tables first: views read them.
            if self._shown.get(name) == state:
                continue
            try:
                if name in tables:
                    is_shown = await self._show(external, tables[name], was_shown=name in found.shown)
                else:
                    is_shown = await self._show_view(external, name, views[name])
            except Determinate as error:
                failed.append(error)
            else:
                self._shown[name] = state
                if is_shown:
                    shown.add(name)
        if removed or not shown <= found.shown:
            await register.change(partial(_changed, shown=shown, removed=removed))
        if failed:
            self._shown.clear()
            raise failed[0]

    async def _wanted(
        self, catalog: CatalogSnapshot
    ) -> tuple[dict[PushedRelation, PublishedTable], dict[PushedRelation, ServedView]]:
        published = await self._publishing.published(catalog.database)
        tables = {PushedRelation(each.relation, each.namespace, each.name): each for each in published.tables}
        views = {}
        for view in await self._publishing.served_views(catalog, published):
            record = view.published.view
            views[PushedRelation(record.oid, view.namespace, record.name, is_view=True)] = view
        return tables, views

    async def _remove(self, external: ExternalCatalog, gone: PushedRelation, *, was_shown: bool) -> None:
        known_as = table_uuid(self._env.id, gone.relation)
        if gone.is_view:
            await asyncio.to_thread(external.remove_view, gone.namespace, gone.name, known_as)
        else:
            await asyncio.to_thread(external.remove, gone.namespace, gone.name, known_as, was_shown=was_shown)

    async def _show(self, external: ExternalCatalog, table: PublishedTable, *, was_shown: bool) -> bool:
        from storage.publishing.metadata import parsed

        data = await self._env.blob.get(table.metadata)
        if data is None:
            raise missing_blob(table.metadata)
        metadata = await asyncio.to_thread(parsed, data)
        location = outside_location(self._env.blob, table.metadata)
        is_shown = await asyncio.to_thread(
            external.show, table.namespace, table.name, location, metadata, was_shown=was_shown
        )
        if not is_shown:
            log.warning("the external Iceberg catalog has another table", table=f"{table.namespace}.{table.name}")
        return is_shown

    async def _show_view(self, external: ExternalCatalog, name: PushedRelation, view: ServedView) -> bool:
        if not await asyncio.to_thread(external.takes_views):
            if not self._refuses_views:
                self._refuses_views = True
                log.warning("the external Iceberg catalog takes no views", view=f"{name.namespace}.{name.name}")
            return False
        metadata = metadata_of_view(self._env.id, view, "")
        is_shown = await asyncio.to_thread(external.show_view, name.namespace, name.name, metadata)
        if not is_shown:
            log.warning("the external Iceberg catalog has another table or view", view=f"{name.namespace}.{name.name}")
        return is_shown

    async def _opened(self) -> ExternalCatalog:
        if self._catalog is None:
            self._catalog = (await asyncio.to_thread(_catalog_class))(self._properties)
        return self._catalog


def _catalog_class() -> type[ExternalCatalog]:
    # NOTE: what it imports takes half a second, which servers without a catalog save.
    from storage.publishing.external import ExternalCatalog

    return ExternalCatalog


async def _changed(
    now: Pushed | None,
    *,
    begun: Set[PushedRelation] = frozenset(),
    shown: Set[PushedRelation] = frozenset(),
    removed: Set[PushedRelation] = frozenset(),
) -> Pushed:
    now = now or Pushed()
    return Pushed(tables=(now.tables | begun) - removed, shown=(now.shown | shown) - removed)
