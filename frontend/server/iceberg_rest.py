"""The read side of Iceberg's REST catalog (apache/iceberg, open-api/rest-catalog-open-api.yaml), below ``/iceberg``.

A database is a warehouse, which clients have for a prefix of the paths; schemas are namespaces of one level. What is
not read is answered as the specification says of what a server does not support. Who asks comes in by the rules of
pg_hba.conf, with a password or a token that was given for one, and sees the tables and views on which its role has
SELECT. Who says nothing is the role postgres, which only a rule that trusts lets in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from adapter.access.logins import Login
from adapter.publishing.served_catalog import ServedCatalog, ServedCatalogs
from frontend.authentication.login import Authenticator
from frontend.authentication.matching import Client
from frontend.server.http_access import (
    TOKEN_LIFE_S,
    LoginSource,
    basic_credentials,
    bearer_token,
    client_address,
    is_good,
    new_token,
    user_of_token,
)
from planner.errors import InsufficientPrivilege, InvalidCatalogName, SqlError
from storage.errors import StorageError
from storage.publishing.record import PublishedTable

ROOT = "/iceberg/v1"
DEFAULT = "postgres"
"""The database without a warehouse, and the role of who says nothing."""

_TABLE = "/namespaces/{namespace}/tables/{table}"
_VIEW = "/namespaces/{namespace}/views/{view}"
_READS = (
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "GET /v1/{prefix}/namespaces/{namespace}/views",
    "GET /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/views/{view}",
)
"""What there is, as a client is told."""

MOST_ON_A_PAGE = 1000

_Answer: TypeAlias = Callable[[web.Request, ServedCatalog], Awaitable[web.Response]]


class _Refused(Exception):
    """An error of the specification's model."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message


class IcebergRest:
    """See the module's contract."""

    def __init__(self, catalogs: ServedCatalogs, logins: LoginSource, authenticator: Authenticator) -> None:
        self._catalogs = catalogs
        self._logins = logins
        self._authenticator = authenticator

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Answer at these paths."""
        router.add_get(f"{ROOT}/config", self._config)
        router.add_post(f"{ROOT}/oauth/tokens", self._token)
        within = ROOT + "/{prefix}"
        for path, answer in (
            ("/namespaces", self._namespaces),
            ("/namespaces/{namespace}", self._namespace),
            ("/namespaces/{namespace}/tables", self._tables),
            ("/namespaces/{namespace}/views", self._views),
            (_TABLE, self._table),
            (_VIEW, self._view),
        ):
            router.add_get(within + path, self._answering(answer))
        router.add_post(within + _TABLE + "/metrics", self._answering(self._metrics))
        router.add_route("*", ROOT + "/{rest:.*}", self._unsupported)

    # ------------------------------------------------------------ answers

    async def _config(self, request: web.Request) -> web.Response:
        database = request.query.get("warehouse") or DEFAULT
        try:
            await self._catalog(request, database)
        except _Refused as refused:
            return _error(refused)
        return _json({"defaults": {}, "overrides": {"prefix": database}, "endpoints": _READS})

    async def _namespaces(self, request: web.Request, catalog: ServedCatalog) -> web.Response:
        parent = request.query.get("parent")
        if parent:
            _known(catalog, parent)
        page, more = _page(request, [] if parent else catalog.namespaces)
        return _json({"namespaces": [[name] for name in page], "next-page-token": more})

    async def _namespace(self, request: web.Request, catalog: ServedCatalog) -> web.Response:
        name = _known(catalog, request.match_info["namespace"])
        if request.method == "HEAD":
            return web.Response(status=204)
        return _json({"namespace": [name], "properties": {}})

    async def _tables(self, request: web.Request, catalog: ServedCatalog) -> web.Response:
        namespace = _known(catalog, request.match_info["namespace"])
        page, more = _page(request, list(catalog.names(namespace)))
        named = [{"namespace": [namespace], "name": name} for name in page]
        return _json({"identifiers": named, "next-page-token": more})

    async def _views(self, request: web.Request, catalog: ServedCatalog) -> web.Response:
        namespace = _known(catalog, request.match_info["namespace"])
        page, more = _page(request, list(catalog.view_names(namespace)))
        named = [{"namespace": [namespace], "name": name} for name in page]
        return _json({"identifiers": named, "next-page-token": more})

    async def _view(self, request: web.Request, catalog: ServedCatalog) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["view"]
        view = catalog.views.get(namespace, {}).get(name)
        if view is None:
            raise _Refused(404, "NoSuchViewException", f"View does not exist: {namespace}.{name}")
        if request.method == "HEAD":
            return web.Response(status=204)
        location, metadata = self._catalogs.view(view)
        return _json({"metadata-location": location, "metadata": metadata, "config": {}})

    @staticmethod
    def _found(request: web.Request, catalog: ServedCatalog) -> PublishedTable:
        """The table of a path. Raises _Refused."""
        namespace, name = request.match_info["namespace"], request.match_info["table"]
        table = catalog.tables.get(namespace, {}).get(name)
        if table is None:
            raise _Refused(404, "NoSuchTableException", f"Table does not exist: {namespace}.{name}")
        return table

    async def _table(self, request: web.Request, catalog: ServedCatalog) -> web.Response:
        table = self._found(request, catalog)
        if request.method == "HEAD":
            return web.Response(status=204)
        tag = f'"{hashlib.sha256(table.metadata.encode()).hexdigest()[:32]}"'
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304)
        data = await self._catalogs.metadata(table)
        if data is None:
            raise _Refused(
                503, "ServiceUnavailableException", f"Table {table.namespace}.{table.name} has just been published anew"
            )
        loaded = {
            "metadata-location": self._catalogs.location(table),
            "metadata": msgspec.Raw(data),
            "config": {},
        }
        answer = _json(loaded)
        answer.headers["ETag"] = tag
        return answer

    async def _metrics(self, request: web.Request, catalog: ServedCatalog) -> web.Response:
        """What a client reports of its scans; nobody here asks for it."""
        self._found(request, catalog)
        return web.Response(status=204)

    async def _unsupported(self, request: web.Request) -> web.Response:
        what = f"{request.method} {request.path} is not supported: tables are changed by SQL"
        return _error(_Refused(406, "UnsupportedOperationException", what))

    # ------------------------------------------------------------ who asks

    def _answering(self, answer: _Answer) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def run(request: web.Request) -> web.Response:
            try:
                return await answer(request, await self._catalog(request, request.match_info["prefix"]))
            except _Refused as refused:
                return _error(refused)
            except StorageError as error:
                return _error(_Refused(503, "ServiceUnavailableException", str(error)))

        return run

    async def _catalog(self, request: web.Request, database: str) -> ServedCatalog:
        """What who asks sees of a database. Raises _Refused."""
        try:
            return await self._catalogs.of(await self._come_in(request, database), database)
        except InvalidCatalogName as error:
            raise _Refused(404, "NotFoundException", error.message) from error
        except InsufficientPrivilege as error:
            raise _Refused(403, "ForbiddenException", error.message) from error
        except SqlError as error:
            raise _Refused(503, "ServiceUnavailableException", error.message) from error

    async def _come_in(self, request: web.Request, database: str) -> Login:
        header = request.headers.get("Authorization", "")
        token, basic = bearer_token(header), basic_credentials(header)
        user, password = basic or (DEFAULT, None)
        if token is not None:
            user = user_of_token(token) or ""
        login = await self._logins.login(user)
        known = token is not None and is_good(token, login)
        if (token is not None and not known) or not await self._admits(request, login, database, password, known=known):
            raise _Refused(401, "NotAuthorizedException", "wrong user, password or token, or one that may not come in")
        return login

    async def _admits(
        self, request: web.Request, login: Login, database: str, password: str | None, *, known: bool = False
    ) -> bool:
        address = client_address(request)
        if address is not None and not address.is_loopback and not request.secure:
            raise _Refused(403, "ForbiddenException", "this needs TLS: start the server with --tls-cert and --tls-key")
        client = Client(address=address, tls=request.secure, user=login.user, database=database)
        may_log_in = login.role is not None and login.role.login
        return await self._authenticator.admits_request(client, login, password, known=known) and may_log_in

    async def _token(self, request: web.Request) -> web.Response:
        """A token for a password, or for a token that is still good (RFC 6749, RFC 8693)."""
        try:
            form = await request.post()
        except web.HTTPException:
            raise
        except (ValueError, LookupError, web.RequestPayloadError, HttpProcessingError):  # Whatever else it was to be.
            return _json({"error": "invalid_request", "error_description": "this is no form"}, status=400)
        user, password = _field(form, "client_id"), _field(form, "client_secret")
        basic = basic_credentials(request.headers.get("Authorization", ""))
        if not user and basic is not None:
            user, password = basic
        subject = _field(form, "subject_token")
        kind = _field(form, "grant_type")
        exchanged = kind == "urn:ietf:params:oauth:grant-type:token-exchange"
        if exchanged:
            user = user_of_token(subject) or ""
        elif kind != "client_credentials":
            return _json({"error": "unsupported_grant_type"}, status=400)
        try:
            login = await self._logins.login(user)
            known = exchanged and is_good(subject, login)
            good = known or not exchanged
            if not good or not await self._admits(request, login, DEFAULT, password, known=known):
                return _json({"error": "invalid_client", "error_description": "wrong role or password"}, status=401)
        except _Refused as refused:
            return _json({"error": "invalid_request", "error_description": refused.message}, status=400)
        except SqlError as error:
            return _json({"error": "invalid_request", "error_description": error.message}, status=400)
        return _json(
            {
                "access_token": new_token(login),
                "token_type": "bearer",
                "expires_in": TOKEN_LIFE_S,
                "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            }
        )


def _field(form: Any, name: str) -> str:
    value = form.get(name, "")
    return value if isinstance(value, str) else ""


def _known(catalog: ServedCatalog, namespace: str) -> str:
    if namespace not in catalog.tables and namespace not in catalog.views:
        raise _Refused(404, "NoSuchNamespaceException", f"Namespace does not exist: {namespace}")
    return namespace


def _page(request: web.Request, names: Sequence[str]) -> tuple[Sequence[str], str | None]:
    """The names of the page that is asked for, and what the next one is asked for with: the last name before it. Who
    asks for no page gets all."""
    if "pageToken" not in request.query:
        return names, None
    size = request.query.get("pageSize", "")
    most = min(int(size), MOST_ON_A_PAGE) if size.isdecimal() and int(size) else MOST_ON_A_PAGE
    after = request.query["pageToken"]
    left = [name for name in names if name > after] if after else list(names)
    return left[:most], left[most - 1] if len(left) > most else None


def _json(content: Any, *, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(content), status=status, content_type="application/json")


def _error(refused: _Refused) -> web.Response:
    answer = _json(
        {"error": {"message": refused.message, "type": refused.kind, "code": refused.status}}, status=refused.status
    )
    if refused.status == 401:
        answer.headers["WWW-Authenticate"] = 'Basic realm="tidegate", charset="UTF-8"'
    return answer
