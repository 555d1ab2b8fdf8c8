"""Iceberg catalogs of others: which metadata file a table has now, which tables and which views there are.

Two kinds: REST (apache/iceberg, open-api/rest-catalog-open-api.yaml), and the tables that Iceberg's JDBC catalog keeps
in a PostgreSQL database. Everything blocks, for `TIMEOUT_S` at most. pyiceberg's own clients wait for ever.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias, TypeVar
from urllib.parse import quote

from msgspec import Struct

from storage.lake.troubles import FileTrouble, malformed

CatalogKind: TypeAlias = Literal["rest", "postgresql"]

TIMEOUT_S = 15.0
"""How long one question may take."""

_Found = TypeVar("_Found")


class IcebergCatalog(Struct, frozen=True, kw_only=True):
    """A catalog and who asks it. `uri` is that of the REST server, or of the database; `name` is what a JDBC catalog is
    called. `credential` is ``ID:SECRET``, for which `token_uri` gives a token."""

    kind: CatalogKind
    uri: str
    warehouse: str | None = None
    name: str | None = None
    token_uri: str | None = None
    credential: str | None = None
    token: str | None = None
    user: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"IcebergCatalog({self.kind}, {self.uri})"  # Without the secrets.


def metadata_location(catalog: IcebergCatalog, namespace: str, table: str) -> str:
    """Where the metadata file of a table is. Raises FileTrouble."""
    if catalog.kind == "rest":
        path = f"namespaces/{_path(namespace)}/tables/{quote(table, safe='')}"
        found = _asked(catalog, lambda: _rest(catalog, path, {})) if namespace else None  # All tables there have one.
        location = None if found is None else found.get("metadata-location")
    else:
        rows = _asked(catalog, lambda: _location(catalog, namespace, table))
        location = rows[0][0] if rows else None
    if not location:
        name = f"{namespace}.{table}" if namespace else table
        raise FileTrouble("missing", f'Iceberg catalog "{catalog.uri}" has no table "{name}"')
    return str(location)


def table_names(catalog: IcebergCatalog, namespace: str) -> list[str]:
    """The tables of a namespace. Raises FileTrouble."""
    if catalog.kind == "postgresql":
        # Views are among them in catalogs that know any; others have no column for the kind.
        rows = _asked(catalog, lambda: _select(catalog, f"{_NAMES} IS DISTINCT FROM 'VIEW'", namespace))
        text = "SELECT namespace FROM iceberg_namespace_properties WHERE namespace = $1"
        if not rows and not _asked(catalog, lambda: _select(catalog, text, namespace)):
            raise _no_namespace(catalog, namespace)
        return sorted(str(row[0]) for row in rows)
    return _identifiers(catalog, namespace, "tables")


def view_names(catalog: IcebergCatalog, namespace: str) -> list[str]:
    """The views of a namespace; none of a catalog that knows no views. Raises FileTrouble."""
    if catalog.kind == "postgresql":
        rows = _asked(catalog, lambda: _select(catalog, f"{_NAMES} = 'VIEW'", namespace))
        return sorted(str(row[0]) for row in rows)
    return _identifiers(catalog, namespace, "views") if _asked(catalog, lambda: _has_views(catalog)) else []


def view_metadata(catalog: IcebergCatalog, namespace: str, view: str, content: Callable[[str], bytes]) -> Any:
    """The metadata of a view as JSON has it; `content` reads a file. Raises FileTrouble."""
    what = f'Iceberg catalog "{catalog.uri}" has no view "{namespace}.{view}"'
    if catalog.kind == "rest":
        path = f"namespaces/{_path(namespace)}/views/{quote(view, safe='')}"
        found = _asked(catalog, lambda: _rest(catalog, path, {}))
        if found is None:
            raise FileTrouble("missing", what)
        return found.get("metadata")
    rows = _asked(catalog, lambda: _location(catalog, namespace, view))
    if not rows or not rows[0][0]:
        raise FileTrouble("missing", what)
    try:
        return json.loads(content(rows[0][0]))
    except ValueError as error:
        raise malformed(rows[0][0], error) from error


_NAMES = (
    "SELECT table_name FROM iceberg_tables WHERE table_namespace = $1 AND (to_jsonb(iceberg_tables) ->> 'iceberg_type')"
)
"""The names of a namespace's tables and views, up to what their kind is to be."""


def _identifiers(catalog: IcebergCatalog, namespace: str, what: str) -> list[str]:
    """The tables or the views of a namespace of a REST catalog."""
    names: list[str] = []
    page: Mapping[str, str] = {}
    while True:
        asked = dict(page)
        found = _asked(catalog, lambda: _rest(catalog, f"namespaces/{_path(namespace)}/{what}", asked))  # noqa: B023
        if found is None:
            raise _no_namespace(catalog, namespace)
        names += [each["name"] for each in found["identifiers"]]
        if not found.get("next-page-token"):
            return sorted(names)
        page = {"pageToken": found["next-page-token"]}


def _no_namespace(catalog: IcebergCatalog, namespace: str) -> FileTrouble:
    return FileTrouble("missing", f'Iceberg catalog "{catalog.uri}" has no namespace "{namespace}"')


def _path(namespace: str) -> str:
    """A namespace in a path: the levels of a dotted one are apart by the unit separator, as the specification says."""
    return quote("\x1f".join(namespace.split(".")), safe="")


def _asked(catalog: IcebergCatalog, ask: Callable[[], Awaitable[_Found]]) -> _Found:
    async def bounded() -> _Found:
        async with asyncio.timeout(TIMEOUT_S):
            return await ask()

    try:
        return asyncio.run(bounded())
    except FileTrouble:
        raise
    except TimeoutError as error:
        what = f'Iceberg catalog "{catalog.uri}" does not answer'
        raise FileTrouble("unreachable", what) from error
    except (OSError, ssl.SSLError, ValueError, KeyError, TypeError) as error:
        raise FileTrouble("unreachable", f'could not ask Iceberg catalog "{catalog.uri}": {error}') from error


# ---------------------------------------------------------------- REST


async def _rest(catalog: IcebergCatalog, path: str, query: Mapping[str, str]) -> Any:
    """The answer about `path`; None when there is no such thing."""
    async with _session(catalog) as session:
        config = await _config(session, catalog)
        prefix = {**config.get("defaults", {}), **config.get("overrides", {})}.get("prefix")
        return await _get(session, catalog, _root(catalog) + (f"{prefix}/" if prefix else "") + path, query)


async def _has_views(catalog: IcebergCatalog) -> bool:
    """Whether the catalog says that it knows views."""
    async with _session(catalog) as session:
        config = await _config(session, catalog)
    if config.get("endpoints"):
        return _LISTS_VIEWS in config["endpoints"]
    # What servers said before they listed what they answer.
    said = {**config.get("defaults", {}), **config.get("overrides", {})}.get("view-endpoints-supported")
    return str(said).lower() == "true"


_LISTS_VIEWS = "GET /v1/{prefix}/namespaces/{namespace}/views"


def _root(catalog: IcebergCatalog) -> str:
    return catalog.uri.rstrip("/") + "/v1/"


@asynccontextmanager
async def _session(catalog: IcebergCatalog) -> AsyncIterator[Any]:
    import aiohttp

    try:
        async with aiohttp.ClientSession(headers=await _headers(catalog)) as session:
            yield session
    except aiohttp.ClientError as error:
        raise FileTrouble("unreachable", f'could not ask Iceberg catalog "{catalog.uri}": {error}') from error


async def _config(session: Any, catalog: IcebergCatalog) -> Any:
    warehouse = {} if catalog.warehouse is None else {"warehouse": catalog.warehouse}
    config = await _get(session, catalog, _root(catalog) + "config", warehouse)
    if config is None and catalog.warehouse is None:
        raise FileTrouble("unreachable", f'there is no Iceberg catalog at "{catalog.uri}"')
    if config is None:
        raise FileTrouble("missing", f'Iceberg catalog "{catalog.uri}" has no warehouse "{catalog.warehouse}"')
    return config


async def _headers(catalog: IcebergCatalog) -> Mapping[str, str]:
    """Who asks."""
    import aiohttp

    if catalog.token is not None:
        return {"Authorization": f"Bearer {catalog.token}"}
    if catalog.credential is None:
        return {}
    user, _, secret = catalog.credential.partition(":")
    form = {"grant_type": "client_credentials", "client_id": user, "client_secret": secret, "scope": "catalog"}
    uri = catalog.token_uri or catalog.uri.rstrip("/") + "/v1/oauth/tokens"
    async with aiohttp.ClientSession() as session, session.post(uri, data=form) as answer:
        if answer.status in (400, 401, 403):
            raise FileTrouble("forbidden", f'Iceberg catalog "{catalog.uri}" refuses the credential')
        answer.raise_for_status()
        return {"Authorization": f"Bearer {(await answer.json(content_type=None))['access_token']}"}


async def _get(session: Any, catalog: IcebergCatalog, url: str, query: Mapping[str, str]) -> Any:
    async with session.get(url, params=dict(query)) as answer:
        if answer.status == 404:
            return None
        if answer.status in (401, 403):
            raise FileTrouble("forbidden", f'Iceberg catalog "{catalog.uri}" refuses access')
        answer.raise_for_status()
        return await answer.json(content_type=None)


# ---------------------------------------------------------------- JDBC's tables


async def _location(catalog: IcebergCatalog, namespace: str, name: str) -> Any:
    text = "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = $1 AND table_name = $2"
    return await _select(catalog, text, namespace, name)


async def _select(catalog: IcebergCatalog, text: str, *values: str) -> Any:
    import asyncpg

    if catalog.name is not None:
        text, values = f"{text} AND catalog_name = ${len(values) + 1}", (*values, catalog.name)
    given = {"user": catalog.user, "password": catalog.password}
    try:
        connection = await asyncpg.connect(
            catalog.uri, timeout=TIMEOUT_S, **{name: value for name, value in given.items() if value is not None}
        )
        try:
            return await connection.fetch(text, *values)
        finally:
            connection.terminate()
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InsufficientPrivilegeError) as error:
        raise FileTrouble("forbidden", f'Iceberg catalog "{catalog.uri}" refuses access: {error}') from error
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise FileTrouble("unreachable", f'could not ask Iceberg catalog "{catalog.uri}": {error}') from error
