"""Emulators of clouds' object stores: Azurite (npm) and fake-gcs-server (Go), installed below .cache when first needed.

`make clouds` asks for them; a run of all tests does without (`asked_for`).
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import http.client
import itertools
import json
import os
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from storage.stores.object_place import ObjectPlace
from tests.clients_basic.client import run_tool
from tests.support.postgres import free_port
from tests.support.server import ROOT

CACHE = ROOT / ".cache" / "emulators"
AZURITE = "azurite@3.37.0"
FAKE_GCS = "github.com/fsouza/fake-gcs-server@v1.56.1"

ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Of every Azurite there is."""

_INSTALL_S = 1800.0
_START_S = 60.0
_numbers = itertools.count(1)


def asked_for() -> bool:
    """Whether this run is to use the emulators."""
    return "CLOUD_EMULATORS" in os.environ


class _Process:
    """A server on a port of this host."""

    def __init__(self, command: list[str], port: int) -> None:
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + _START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise RuntimeError(f"{command[0]} did not start") from None
                time.sleep(0.1)

    def stop(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


class AzureServer:
    """An Azurite, in memory."""

    def __init__(self) -> None:
        folder = CACHE / AZURITE.replace("@", "-")
        program = folder / "node_modules" / ".bin" / "azurite-blob"
        if not program.exists():
            folder.mkdir(parents=True, exist_ok=True)
            command = ("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), AZURITE)
            run_tool(*command, cwd=folder, timeout_s=_INSTALL_S)
        port = free_port()
        self.endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        options = ["--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck", "--silent"]
        self._server = _Process([str(program), "--blobHost", "127.0.0.1", "--blobPort", str(port), *options], port)

    def new_place(self) -> ObjectPlace:
        """A place in a new container."""
        name = f"container-{next(_numbers)}"
        date = datetime.datetime.now(datetime.UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        headers = {"x-ms-date": date, "x-ms-version": "2023-11-03"}
        lines = "".join(f"{key}:{value}\n" for key, value in headers.items())
        text = "PUT" + "\n" * 12 + lines + f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        digest = hmac.new(base64.b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
        url = f"{self.endpoint}/{name}?restype=container"
        with urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers)):
            pass
        options = {"account_name": ACCOUNT, "account_key": ACCOUNT_KEY, "endpoint": self.endpoint}
        return ObjectPlace(root=f"az://{name}/some/prefix", options=options)

    def stop(self) -> None:
        """End it."""
        self._server.stop()


class GoogleServer:
    """A fake-gcs-server, in memory. It stores objects by the JSON interface alone: what comes by the XML one, which the
    library uses, is handed on in that form."""

    def __init__(self, folder: Path) -> None:
        program = CACHE / "bin" / "fake-gcs-server"
        if not program.exists():
            CACHE.mkdir(parents=True, exist_ok=True)
            environment = {"GOBIN": str(program.parent)}
            run_tool("go", "install", FAKE_GCS, cwd=CACHE, environment=environment, timeout_s=_INSTALL_S)
        port = free_port()
        self.json_endpoint = f"http://127.0.0.1:{port}"
        options = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"]
        addresses = ["-external-url", self.json_endpoint, "-public-host", f"127.0.0.1:{port}"]
        self._server = _Process([str(program), *options, *addresses], port)

        class Handler(_XmlToJson):
            backend = port

        self._front = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._front.serve_forever, daemon=True).start()
        self._key = folder / "key.json"
        account = {"client_email": "", "private_key": "", "private_key_id": "", "disable_oauth": True}
        self._key.write_text(json.dumps({**account, "gcs_base_url": f"http://127.0.0.1:{self._front.server_port}"}))

    def new_place(self) -> ObjectPlace:
        """A place in a new bucket."""
        name = f"bucket-{next(_numbers)}"
        headers = {"Content-Type": "application/json"}
        body = json.dumps({"name": name}).encode()
        url = f"{self.json_endpoint}/storage/v1/b?project=p"
        with urllib.request.urlopen(urllib.request.Request(url, data=body, headers=headers)):
            pass
        options: Mapping[str, str] = {"service_account": str(self._key), "allow_http": "true"}
        return ObjectPlace(root=f"gs://{name}/some/prefix", options=options)

    def stop(self) -> None:
        """End it."""
        self._front.shutdown()
        self._front.server_close()
        self._server.stop()


class _XmlToJson(BaseHTTPRequestHandler):
    """Hands requests on to a fake-gcs-server."""

    backend: int
    protocol_version = "HTTP/1.1"

    def _hand_on(self) -> None:
        method, path = self.command, self.path
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if method == "PUT":
            bucket, _, name = path.removeprefix("/").partition("/")
            query = {"uploadType": "media", "name": urllib.parse.unquote(name)}
            if "x-goog-if-generation-match" in self.headers:
                query["ifGenerationMatch"] = self.headers["x-goog-if-generation-match"]
            method, path = "POST", f"/upload/storage/v1/b/{bucket}/o?{urllib.parse.urlencode(query)}"
        connection = http.client.HTTPConnection("127.0.0.1", self.backend)
        kept = {name: value for name, value in self.headers.items() if name.lower() in ("range", "content-type")}
        connection.request(method, path, body=body or None, headers=kept)
        answer = connection.getresponse()
        data = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        if self.command == "PUT":
            self.send_header("ETag", '"1"')
        length = answer.getheader("Content-Length", "0") if method == "HEAD" else str(len(data))
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(data)
        connection.close()

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _hand_on

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
