"""Connections over TLS."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from frontend.connections.tls import Certificates
from frontend.protocol import messages as m
from frontend.server.accepting import Server
from planner.types.types import SqlType
from tests.frontend import raw_client as raw
from tests.frontend.raw_client import RawClient, codes
from tests.frontend.scripted import (
    Script,
    authenticator,
)

INT4, TEXT = SqlType(23), SqlType(25)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


async def test_tls(script: Script, certificate: tuple[Path, Path]) -> None:
    server = Server(script, authenticator=authenticator(), certificates=Certificates(*certificate))
    port = await server.start("127.0.0.1", 0)
    client = await RawClient.open(port)
    client.send(raw.request(m.SSL_REQUEST))
    assert await client.reader.readexactly(1) == b"S"
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    await client.writer.start_tls(trusting)
    client.send(raw.startup({"user": "u"}))
    assert codes(await client.until("Z")).endswith("KZ")
    assert codes(await client.ask(raw.query("select 1"))) == "TDCZ"

    injected = await RawClient.open(port)
    injected.send(raw.request(m.SSL_REQUEST) + raw.startup({"user": "u"}))
    (reply,) = await injected.until("Z")
    assert reply.fields["M"] == "received unencrypted data after SSL request"
    await server.stop(drain=False)
