"""What a database has published, as one role sees it: for who serves it as an Iceberg catalog."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from adapter.access.logins import Login
from adapter.access.privileges import Rights
from adapter.publishing.published_tables import published_relations
from adapter.publishing.published_views import ViewForOthers
from adapter.publishing.service import Publishing, outside_location
from planner.errors import InsufficientPrivilege, InvalidCatalogName
from storage.catalog.model import CatalogSnapshot, Database, Relation, Schema
from storage.environment.environment import Environment
from storage.publishing.record import PublishedTable, table_uuid
from storage.publishing.views import view_metadata
from storage.timestamps.csn import Csn, csn_ms


class ServedView(Struct, frozen=True, kw_only=True):
    """A published view. `csn` is the newest of the tables that it reads."""

    published: ViewForOthers
    namespace: str
    csn: Csn


class ServedCatalog(Struct, frozen=True):
    """The published tables and views that a role may SELECT from, by namespace and name."""

    tables: dict[str, dict[str, PublishedTable]]
    views: dict[str, dict[str, ServedView]]

    @property
    def namespaces(self) -> list[str]:
        """The namespaces that have a table or a view."""
        return sorted({*self.tables, *self.views})

    def names(self, namespace: str) -> Iterator[str]:
        """The names of a namespace's tables, in order."""
        return iter(sorted(self.tables.get(namespace, ())))

    def view_names(self, namespace: str) -> Iterator[str]:
        """The names of a namespace's views, in order."""
        return iter(sorted(self.views.get(namespace, ())))


class ServedCatalogs:
    """The published tables of an environment."""

    def __init__(self, env: Environment, publishing: Publishing) -> None:
        self._env = env
        self._publishing = publishing

    async def of(self, login: Login, database: str) -> ServedCatalog:
        """What `database` has published, for a role that has come in. Raises 3D000 and 42501, as for a session."""
        found = next(
            (each for each in login.catalog.all() if isinstance(each, Database) and each.name == database), None
        )
        if found is None or login.role is None:
            raise InvalidCatalogName(f'database "{database}" does not exist')
        catalog = self._env.catalog.current(found.oid)
        rights = Rights(catalog, login.role.oid)
        if not found.allows_connections or not rights.may("d", found.oid, "c"):
            raise InsufficientPrivilege(f'permission denied for database "{database}"')
        shown = {relation.oid for relation in published_relations(catalog) if rights.may("r", relation.oid, "r")}
        publications = await self._publishing.published(found.oid)
        tables: dict[str, dict[str, PublishedTable]] = {}
        for table in publications.tables:
            if table.relation in shown:
                tables.setdefault(table.namespace, {})[table.name] = table
        moments = {table.relation: table.csn for table in publications.tables}
        views: dict[str, dict[str, ServedView]] = {}
        for made in (await asyncio.to_thread(self._publishing.views.of, catalog)).values():
            schema = catalog.get(made.view.schema)
            reads = [oid for oid in made.view.depends_on if _is_table(catalog, oid)]
            # What reads a table that is not there yet waits for it.
            if isinstance(schema, Schema) and moments.keys() >= set(reads) and rights.may("r", made.view.oid, "r"):
                csn = max((moments[oid] for oid in reads), default=publications.csn)
                views.setdefault(schema.name, {})[made.view.name] = ServedView(
                    published=made, namespace=schema.name, csn=csn
                )
        return ServedCatalog(tables, views)

    def view(self, view: ServedView) -> tuple[str, dict[str, Any]]:
        """Where the metadata file of a view would be, and the metadata. There is no such file: it is made of the
        definition when it is asked for."""
        made = view.published
        location = outside_location(self._env.blob, f"iceberg/views/{made.view.oid}")
        metadata = view_metadata(
            uuid=table_uuid(self._env.id, made.view.oid),
            location=location,
            namespace=view.namespace,
            version=made.version,
            timestamp_ms=csn_ms(view.csn),
            columns=made.published.columns,
            texts=made.published.texts,
        )
        return f"{location}/metadata/{made.version}.metadata.json", metadata

    def location(self, table: PublishedTable) -> str:
        """Where other programs find the metadata file of a table."""
        return outside_location(self._env.blob, table.metadata)

    async def metadata(self, table: PublishedTable) -> bytes | None:
        """The metadata file of a table; None when a newer one has taken its place."""
        return await self._env.blob.get(table.metadata)


def _is_table(catalog: CatalogSnapshot, oid: int) -> bool:
    record = catalog.get(oid)
    return isinstance(record, Relation) and record.kind == "r"
