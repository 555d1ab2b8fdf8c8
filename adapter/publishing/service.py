"""The publishing of a process: everything that a database has to publish, at one CSN."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import structlog

from adapter.access.privileges import Rights
from adapter.publishing.published_tables import publishable, published_relations
from adapter.publishing.published_views import PublishedViews, ServedView, served_views
from planner.errors import FeatureNotSupported, SqlError
from planner.types.type_scope import types_of
from storage.catalog.model import CatalogSnapshot, Database, Relation
from storage.environment.environment import Environment
from storage.errors import Determinate
from storage.publishing.columns import PublishableTable
from storage.publishing.record import Publications, publications
from storage.stores.blob import Blob
from storage.stores.blob_files import BlobFiles
from storage.timestamps.csn import Csn

if TYPE_CHECKING:
    from storage.publishing.publisher import Publisher

log = structlog.get_logger(__name__)

TRIES = 10
"""How often other processes may be faster than one publication."""


def outside_location(blob: Blob, key: str) -> str:
    """Where programs that are not ours find the object `key`. Raises Determinate for a store in memory."""
    uri = blob.inner.uri(key) if isinstance(blob, BlobFiles) else blob.uri(key)
    return f"file://{uri}" if uri.startswith("/") else uri


class Publishing:
    """See the module's contract."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._publisher: Publisher | None = None
        self._loading = asyncio.Lock()
        self.views = PublishedViews()
        self._unpublishable: dict[int, str] = {}
        """Tables that could not be published last time, by their oids, and why: the log says it once."""
        self.publications = 0
        """How often this process has published what a database has to publish."""
        self.seconds = 0.0
        """How long that took, all together."""

    async def _loaded(self) -> Publisher:
        """The publisher. NOTE: what it imports takes half a second, which servers without published tables save."""
        async with self._loading:
            if self._publisher is None:
                make = await asyncio.to_thread(_publisher_class)
                env = self._env
                self._publisher = make(
                    environment=env.id,
                    process=env.process,
                    blob=env.blob,
                    location=lambda key: outside_location(env.blob, key),
                    consensus=env.consensus,
                    clock=env.clock,
                    random=env.random,
                    reader=env.reader,
                    parts=env.parts,
                    leases=env.leases,
                    is_alive=lambda process: process in env.cache.state.leases and not env.leases.is_dead(process),
                )
            return self._publisher

    async def published(self, database: int) -> Publications:
        """What the database with the oid `database` has published."""
        register = publications(self._env.consensus, self._env.clock, database)
        return await register.read() or Publications()

    async def served_views(self, catalog: CatalogSnapshot, publications: Publications) -> list[ServedView]:
        """The views of a database that others can read where its tables are as `publications` say."""
        return list(served_views(catalog, await asyncio.to_thread(self.views.of, catalog), publications))

    async def publish(self, catalog: CatalogSnapshot, csn: Csn, *, required: Relation | None = None) -> Publications:
        """Publish the tables of a database, whose catalog at `csn` is `catalog`, as they were at `csn`.

        A table that cannot be published stays as it was; 0A000 when it is the one `required`. Raises 0A000 for an
        environment that nobody else can read, and what the stores raise.
        """
        tables: list[PublishableTable] = []
        failed: set[int] = set()
        with types_of(catalog, ()):  # The publisher that runs by itself is no session: nobody else says what a type is.
            for relation in published_relations(catalog):
                try:
                    tables.append(publishable(catalog, relation, self._env.retention))
                except SqlError as error:
                    if required is not None and required.oid == relation.oid:
                        raise
                    failed.add(relation.oid)
                    why = f"{error} {error.detail or ''}".strip()
                    if self._unpublishable.get(relation.oid) != why:
                        self._unpublishable[relation.oid] = why
                        log.warning("a table cannot be published", table=relation.name, error=why)
                else:
                    self._unpublishable.pop(relation.oid, None)
        await asyncio.to_thread(self.views.of, catalog)  # The log names those that cannot be.
        if not tables and not (await self.published(catalog.database)).tables:
            return Publications()
        self._check_readable()
        publisher = await self._loaded()
        shown = failed.union(table.relation for table in tables)
        overtaken = await asyncio.to_thread(_overtaken_class)
        for attempt in range(TRIES):
            found = await self.published(catalog.database)
            gone = frozenset(table.relation for table in found.tables) - shown
            try:
                began = self._env.clock.monotonic()
                made = await publisher.publish(catalog.database, tables, csn, gone=gone)
                self.publications += 1
                self.seconds += self._env.clock.monotonic() - began
                return made
            except overtaken:
                if attempt == TRIES - 1:
                    raise Determinate("could not publish: other processes were always faster") from None
        raise AssertionError("unreachable")

    def _check_readable(self) -> None:
        try:
            outside_location(self._env.blob, "iceberg")
        except Determinate as error:
            raise FeatureNotSupported("tables in memory cannot be published", detail=str(error)) from error


def _publisher_class() -> type[Publisher]:
    from storage.publishing.publisher import Publisher

    return Publisher


def _overtaken_class() -> type[Exception]:
    from storage.publishing.publisher import OvertakenPublication

    return OvertakenPublication


def catalog_rows(
    catalog: CatalogSnapshot, published: Publications, env: Environment, rights: Rights
) -> dict[str, list[Mapping[str, Any]]]:
    """The rows of tidegate.iceberg_tables and tidegate.iceberg_namespace_properties, as Iceberg's JDBC catalog has
    them; the catalog's name is that of the database. They are of the tables that the role may SELECT from."""
    database = catalog.get(catalog.database)
    name = database.name if isinstance(database, Database) else None
    shown = {relation.oid for relation in published_relations(catalog) if rights.may("r", relation.oid, "r")}

    def location(key: str | None) -> str | None:
        return None if key is None else outside_location(env.blob, key)

    tables: list[Mapping[str, Any]] = [
        {
            "catalog_name": name,
            "table_namespace": table.namespace,
            "table_name": table.name,
            "metadata_location": location(table.metadata),
            "previous_metadata_location": None
            if table.previous is None
            else outside_location(env.blob, table.previous),
            "iceberg_type": "TABLE",
        }
        for table in published.tables
        if table.relation in shown
    ]
    namespaces: list[Mapping[str, Any]] = [
        {"catalog_name": name, "namespace": namespace, "property_key": "exists", "property_value": "true"}
        for namespace in sorted({table.namespace for table in published.tables if table.relation in shown})
    ]
    return {"iceberg_tables": tables, "iceberg_namespace_properties": namespaces}
