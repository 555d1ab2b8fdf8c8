"""What a database has published, pushed to an external Iceberg REST catalog (``--iceberg-catalog``).

One register of the consensus store for each database names the tables that the catalog may have of ours; it is written
before a name is used there, so no process that dies leaves a table behind in the catalog that nobody removes. A table
whose push has failed is pushed again. What the catalog has of all tables is compared with what is published when a
process begins, after each failure and every now and then: it may have been restored from a backup.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Set
from functools import partial
from typing import TYPE_CHECKING

import structlog

from adapter.publishing.service import Publishing, outside_location
from storage.environment.environment import Environment
from storage.errors import Determinate, missing_blob
from storage.publishing.record import PublishedTable, Pushed, PushedTable, pushed_tables, table_uuid

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
        self._shown: dict[int, PublishedTable] = {}
        """By relation: what this process knows the catalog to show."""
        self._pushes = 0
        self.database = options.get(DATABASE, DEFAULT_DATABASE)

    async def push(self, database: int) -> None:
        """Let the catalog have what the database with that oid has published now.

        All tables are tried before Determinate is raised for those that failed; raises what the stores raise too.
        """
        self._pushes += 1
        if self._pushes % COMPARE_EVERY == 0:
            self._shown.clear()
        wanted = (await self._publishing.published(database)).by_relation()
        register = pushed_tables(self._env.consensus, self._env.clock, database)
        found = await register.read() or Pushed()
        names = {PushedTable(table.relation, table.namespace, table.name) for table in wanted.values()}
        if found.tables == names and self._shown == wanted:
            return
        if not names <= found.tables:
            found = await register.change(partial(_changed, begun=names))
        catalog = await self._opened()
        failed: list[Determinate] = []
        removed: set[PushedTable] = set()
        shown: set[PushedTable] = set()
        for gone in sorted(found.tables - names):
            try:
                table = table_uuid(self._env.id, gone.relation)
                was_shown = gone in found.shown
                await asyncio.to_thread(catalog.remove, gone.namespace, gone.name, table, was_shown=was_shown)
            except Determinate as error:
                failed.append(error)
            else:
                removed.add(gone)
                if gone.relation not in wanted:
                    self._shown.pop(gone.relation, None)
        for relation, published in wanted.items():
            if self._shown.get(relation) == published:
                continue
            name = PushedTable(relation, published.namespace, published.name)
            try:
                is_shown = await self._show(catalog, published, was_shown=name in found.shown)
            except Determinate as error:
                failed.append(error)
            else:
                self._shown[relation] = published
                if is_shown:
                    shown.add(name)
                else:
                    log.warning("the external Iceberg catalog has another table", table=f"{name.namespace}.{name.name}")
        if removed or not shown <= found.shown:
            await register.change(partial(_changed, shown=shown, removed=removed))
        if failed:
            self._shown.clear()
            raise failed[0]

    async def _show(self, catalog: ExternalCatalog, table: PublishedTable, *, was_shown: bool) -> bool:
        from storage.publishing.metadata import parsed

        data = await self._env.blob.get(table.metadata)
        if data is None:
            raise missing_blob(table.metadata)
        metadata = await asyncio.to_thread(parsed, data)
        location = outside_location(self._env.blob, table.metadata)
        return await asyncio.to_thread(
            catalog.show, table.namespace, table.name, location, metadata, was_shown=was_shown
        )

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
    begun: Set[PushedTable] = frozenset(),
    shown: Set[PushedTable] = frozenset(),
    removed: Set[PushedTable] = frozenset(),
) -> Pushed:
    now = now or Pushed()
    return Pushed(tables=(now.tables | begun) - removed, shown=(now.shown | shown) - removed)
