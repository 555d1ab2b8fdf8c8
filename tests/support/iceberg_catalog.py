"""A small Iceberg REST catalog that can be written: pyiceberg's catalog on SQLite behind the specification's paths.

Views are kept in memory, and changed as the specification says of `CommitViewRequest`.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from pathlib import Path
from typing import Any

from aiohttp import web
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from pyiceberg.table import CommitTableRequest, Table

TABLE = "/v1/namespaces/{namespace}/tables/{table}"
VIEWS = "/v1/namespaces/{namespace}/views"
VIEW = f"{VIEWS}/{{view}}"
STATUS = {
    NoSuchTableError: 404,
    NoSuchViewError: 404,
    NoSuchNamespaceError: 404,
    NamespaceAlreadyExistsError: 409,
    TableAlreadyExistsError: 409,
    ViewAlreadyExistsError: 409,
    CommitFailedException: 409,
}


def _answer(table: Table) -> web.Response:
    metadata = table.metadata.model_dump_json(by_alias=True, exclude_none=True)
    text = f'{{"metadata-location": "{table.metadata_location}", "metadata": {metadata}, "config": {{}}}}'
    return web.Response(text=text, content_type="application/json")


class WritableCatalog:
    """The catalog at `uri`, from `start` to `stop`; it can be started again. `commits` counts changes of tables.
    `views`: the metadata of each, or None for a catalog that has no views."""

    def __init__(self, folder: Path, port: int, *, takes_views: bool = True) -> None:
        self.views: dict[tuple[str, str], dict[str, Any]] | None = {} if takes_views else None
        self.uri = f"http://127.0.0.1:{port}"
        self.tables = SqlCatalog("sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
        self.commits = 0
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None

    def client(self) -> RestCatalog:
        """What reads from the catalog."""
        return RestCatalog("reader", uri=self.uri, token="known")

    def start(self) -> None:
        """Answer."""
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,))
        self._thread.start()
        assert ready.wait(30)

    def stop(self) -> None:
        """Answer nobody any more."""
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self, ready: threading.Event) -> None:
        app = web.Application(middlewares=[self._guard])
        app.router.add_get("/v1/config", self._config)
        app.router.add_post("/v1/namespaces", self._create_namespace)
        app.router.add_post("/v1/namespaces/{namespace}/register", self._register)
        app.router.add_get(TABLE, self._load)
        app.router.add_post(TABLE, self._commit)
        app.router.add_delete(TABLE, self._drop)
        if self.views is not None:
            app.router.add_post(VIEWS, self._create_view)
            app.router.add_get(VIEW, self._load_view)
            app.router.add_post(VIEW, self._commit_view)
            app.router.add_delete(VIEW, self._drop_view)
        runner = web.AppRunner(app)
        self._loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", self._port, reuse_address=True)
        self._loop.run_until_complete(site.start())
        ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        status, kind, message = 401, "NotAuthorizedException", "who are you?"
        if request.headers.get("Authorization") == "Bearer known":
            try:
                answer: web.StreamResponse = await handler(request)
            except tuple(STATUS) as error:
                status, kind, message = STATUS[type(error)], type(error).__name__, str(error)
            else:
                return answer
        return web.json_response({"error": {"message": message, "type": kind, "code": status}}, status=status)

    async def _config(self, _: web.Request) -> web.Response:
        overrides = {} if self.views is None else {"view-endpoints-supported": "true"}
        return web.json_response({"defaults": {}, "overrides": overrides})

    async def _create_namespace(self, request: web.Request) -> web.Response:
        given = await request.json()
        self.tables.create_namespace(tuple(given["namespace"]))
        return web.json_response({"namespace": given["namespace"], "properties": {}})

    async def _register(self, request: web.Request) -> web.Response:
        given = await request.json()
        name = (request.match_info["namespace"], given["name"])
        return _answer(self.tables.register_table(name, given["metadata-location"]))

    def _named(self, request: web.Request) -> tuple[str, str]:
        return request.match_info["namespace"], request.match_info["table"]

    async def _load(self, request: web.Request) -> web.Response:
        return _answer(self.tables.load_table(self._named(request)))

    async def _commit(self, request: web.Request) -> web.Response:
        given = CommitTableRequest.model_validate_json(await request.read())
        name = self._named(request)
        self.tables.commit_table(self.tables.load_table(name), given.requirements, given.updates)
        self.commits += 1
        return _answer(self.tables.load_table(name))

    async def _drop(self, request: web.Request) -> web.Response:
        self.tables.drop_table(self._named(request))
        return web.Response(status=204)

    def _view(self, request: web.Request) -> dict[str, Any]:
        assert self.views is not None
        name = request.match_info["namespace"], request.match_info["view"]
        if name not in self.views:
            raise NoSuchViewError(f"no view {name}")
        return self.views[name]

    def _view_answer(self, name: str, metadata: dict[str, Any]) -> web.Response:
        return web.json_response({"metadata-location": f"memory://{name}", "metadata": metadata, "config": {}})

    async def _create_view(self, request: web.Request) -> web.Response:
        assert self.views is not None
        given = await request.json()
        name = request.match_info["namespace"], given["name"]
        if name in self.views or self.tables.table_exists(name):
            raise ViewAlreadyExistsError(f"{name} is there")
        if not self.tables.namespace_exists(name[0]):
            raise NoSuchNamespaceError(name[0])
        version = given["view-version"]
        self.views[name] = {
            "view-uuid": str(uuid.uuid4()),
            "format-version": 1,
            "location": f"memory://{name}",
            "schemas": [given["schema"]],
            "current-version-id": version["version-id"],
            "versions": [version],
            "version-log": [{"timestamp-ms": version["timestamp-ms"], "version-id": version["version-id"]}],
            "properties": given["properties"],
        }
        return self._view_answer(given["name"], self.views[name])

    async def _load_view(self, request: web.Request) -> web.Response:
        return self._view_answer(request.match_info["view"], self._view(request))

    async def _commit_view(self, request: web.Request) -> web.Response:
        view, given = self._view(request), await request.json()
        for required in given["requirements"]:
            if required["type"] != "assert-view-uuid" or required["uuid"] != view["view-uuid"]:
                raise CommitFailedException(f"not so: {required}")
        for update in given["updates"]:
            match update["action"]:
                case "add-schema":
                    number = max(schema["schema-id"] for schema in view["schemas"]) + 1
                    view["schemas"].append({**update["schema"], "schema-id": number})
                case "add-view-version":
                    version = update["view-version"]
                    assert version["version-id"] not in [each["version-id"] for each in view["versions"]]
                    if version["schema-id"] == -1:
                        version["schema-id"] = view["schemas"][-1]["schema-id"]
                    view["versions"].append(version)
                case "set-current-view-version":
                    view["current-version-id"] = view["versions"][-1]["version-id"]
                case unknown:
                    raise AssertionError(unknown)
        return self._view_answer(request.match_info["view"], view)

    async def _drop_view(self, request: web.Request) -> web.Response:
        assert self.views is not None
        self._view(request)
        del self.views[request.match_info["namespace"], request.match_info["view"]]
        return web.Response(status=204)
