"""A small Iceberg REST catalog that can be written: pyiceberg's catalog on SQLite behind the specification's paths."""

from __future__ import annotations

import asyncio
import threading
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
    TableAlreadyExistsError,
)
from pyiceberg.table import CommitTableRequest, Table

TABLE = "/v1/namespaces/{namespace}/tables/{table}"
STATUS = {
    NoSuchTableError: 404,
    NoSuchNamespaceError: 404,
    NamespaceAlreadyExistsError: 409,
    TableAlreadyExistsError: 409,
    CommitFailedException: 409,
}


def _answer(table: Table) -> web.Response:
    metadata = table.metadata.model_dump_json(by_alias=True, exclude_none=True)
    text = f'{{"metadata-location": "{table.metadata_location}", "metadata": {metadata}, "config": {{}}}}'
    return web.Response(text=text, content_type="application/json")


class WritableCatalog:
    """The catalog at `uri`, from `start` to `stop`; it can be started again. `commits` counts changes of tables."""

    def __init__(self, folder: Path, port: int) -> None:
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
        return web.json_response({"defaults": {}, "overrides": {}})

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
