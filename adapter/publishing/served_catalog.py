"""What a database has published, as one role sees it: for who serves it as an Iceberg catalog."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from adapter.access.logins import Login
from adapter.access.privileges import Rights
from adapter.publishing.published_tables import published_relations
from adapter.publishing.published_views import ServedView, metadata_of_view
from adapter.publishing.service import Publishing, outside_location
from planner.errors import InsufficientPrivilege, InvalidCatalogName
from storage.catalog.model import Database
from storage.environment.environment import Environment
from storage.publishing.record import PublishedTable


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
        views: dict[str, dict[str, ServedView]] = {}
        for view in await self._publishing.served_views(catalog, publications):
            if rights.may("r", view.published.view.oid, "r"):
                views.setdefault(view.namespace, {})[view.published.view.name] = view
        return ServedCatalog(tables, views)

    def view(self, view: ServedView) -> tuple[str, dict[str, Any]]:
        """Where the metadata file of a view would be, and the metadata. There is no such file: it is made of the
        definition when it is asked for."""
        location = outside_location(self._env.blob, f"iceberg/views/{view.published.view.oid}")
        metadata = metadata_of_view(self._env.id, view, location)
        return f"{location}/metadata/{view.published.version}.metadata.json", metadata

    def location(self, table: PublishedTable) -> str:
        """Where other programs find the metadata file of a table."""
        return outside_location(self._env.blob, table.metadata)

    async def metadata(self, table: PublishedTable) -> bytes | None:
        """The metadata file of a table; None when a newer one has taken its place."""
        return await self._env.blob.get(table.metadata)
