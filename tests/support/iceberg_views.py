"""An Iceberg REST catalog that serves what a test says: tables by their metadata files, views as their JSON."""

from __future__ import annotations

import json
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LISTS_VIEWS = "GET /v1/{prefix}/namespaces/{namespace}/views"


def view_json(
    columns: Mapping[str, str],
    texts: Mapping[str, str],
    *,
    namespace: tuple[str, ...] = ("shop",),
    catalog: str | None = None,
    location: str = "s3://nowhere/view",
) -> dict[str, Any]:
    """The metadata of a view whose query has `texts` by dialect, and whose columns have types of Iceberg's."""
    version: dict[str, Any] = {
        "version-id": 2,
        "timestamp-ms": 1_700_000_000_000,
        "schema-id": 3,
        "summary": {"engine-name": "test"},
        "representations": [{"type": "sql", "sql": sql, "dialect": dialect} for dialect, sql in texts.items()],
        "default-namespace": list(namespace),
    }
    if catalog is not None:
        version["default-catalog"] = catalog
    fields = [
        {"id": place, "name": name, "required": False, "type": type}
        for place, (name, type) in enumerate(columns.items(), 1)
    ]
    older = {
        **version,
        "version-id": 1,
        "representations": [{"type": "sql", "sql": "SELECT broken", "dialect": "spark"}],
    }
    return {
        "view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385",
        "format-version": 1,
        "location": location,
        "schemas": [
            {"type": "struct", "schema-id": 3, "fields": fields},
            {"type": "struct", "schema-id": 1, "fields": []},
        ],
        "current-version-id": 2,
        "versions": [older, version],
        "version-log": [{"timestamp-ms": 1_700_000_000_000, "version-id": 2}],
        "properties": {},
    }


@contextmanager
def rest_catalog(
    tables: Mapping[str, Mapping[str, str]],
    views: Mapping[str, Mapping[str, Any]],
    config: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """Its address. `tables` and `views`: by namespace and name, metadata files and metadata."""
    said = {"defaults": {}, "overrides": {"prefix": "p"}, "endpoints": [LISTS_VIEWS]} if config is None else config

    def answer(path: str) -> Any:
        parts = [urllib.parse.unquote(part) for part in path.split("/")]
        match parts:
            case ["", "v1", "config"]:
                return said
            case ["", "v1", "p", "namespaces", namespace, "tables"] if namespace in tables:
                return {"identifiers": [{"namespace": [namespace], "name": name} for name in tables[namespace]]}
            case ["", "v1", "p", "namespaces", namespace, "views"] if namespace in tables:
                names = views.get(namespace, {})
                return {"identifiers": [{"namespace": [namespace], "name": name} for name in names]}
            case ["", "v1", "p", "namespaces", namespace, "tables", name] if name in tables.get(namespace, {}):
                return {"metadata-location": tables[namespace][name], "metadata": {}}
            case ["", "v1", "p", "namespaces", namespace, "views", name] if name in views.get(namespace, {}):
                return {"metadata-location": "s3://nowhere/v.json", "metadata": views[namespace][name]}
            case _:
                return None

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answer(self.path.partition("?")[0])
            data = json.dumps({} if found is None else found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
