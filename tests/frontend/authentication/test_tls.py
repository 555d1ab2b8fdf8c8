"""TLS, certificates of clients, channel binding and Unix sockets, with real clients."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import pwd
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from frontend.protocol import messages as m
from tests.frontend import raw_client as raw
from tests.frontend.authentication.scram_client import Exchange, initial, response
from tests.support.server import TidegateServer, run_server


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@dataclass(frozen=True)
class Authority:
    """Signs certificates."""

    folder: Path

    @classmethod
    def made(cls, folder: Path, name: str = "authority") -> Authority:
        folder.mkdir(exist_ok=True)
        _openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"),
            *("-keyout", str(folder / "ca.key"), "-out", str(folder / "ca.pem")),
        )
        return cls(folder)

    def sign(self, name: str, subject: str, *, key: tuple[str, ...] = ("rsa:2048",)) -> tuple[Path, Path]:
        """A certificate with its key."""
        certificate, private, request = (self.folder / f"{name}{end}" for end in (".pem", ".key", ".csr"))
        extension = self.folder / "extension"
        extension.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        _openssl(
            *("req", "-newkey", *key, "-nodes", "-subj", subject),
            *("-keyout", str(private), "-out", str(request)),
        )
        _openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.folder / "ca.pem")),
            *("-CAkey", str(self.folder / "ca.key"), "-CAcreateserial", "-days", "2"),
            *("-extfile", str(extension), "-out", str(certificate)),
        )
        private.chmod(0o600)
        return certificate, private


RULES = """
local all all peer map=host
hostssl all ada all cert
hostssl all dora all cert clientname=DN map=dn
hostssl all twice all scram-sha-256 clientcert=verify-full
hostssl all signed all trust clientcert=verify-ca
hostssl all word all password
hostssl all bound all scram-sha-256
host all postgres 127.0.0.1/32 trust
"""


@dataclass(frozen=True)
class Place:
    """A server, and who signs for it and its clients."""

    server: TidegateServer
    authority: Authority
    folder: Path

    def dsn(self, user: str, more: str = "", *, certificate: str = "") -> str:
        dsn = f"host=127.0.0.1 port={self.server.port} user={user} dbname=postgres sslmode=verify-full"
        dsn += f" sslrootcert={self.authority.folder}/ca.pem {more}"
        if certificate:
            dsn += f" sslcert={self.folder}/{certificate}.pem sslkey={self.folder}/{certificate}.key"
        return dsn

    def attempt(self, user: str, more: str = "", *, certificate: str = "") -> str:
        """`in`, or the error that libpq shows."""
        try:
            psycopg.connect(self.dsn(user, more, certificate=certificate)).close()
        except psycopg.OperationalError as error:
            return str(error).partition("FATAL:")[2].strip() or str(error)
        return "in"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority.made(folder)
    certificate, key = authority.sign("server", "/CN=localhost")
    authority.sign("ada", "/O=Org/CN=ada")
    authority.sign("nameless", "/O=Org")
    Authority.made(folder / "other", "nobody's").sign("stranger", "/CN=ada")
    (folder / "hba").write_text(RULES)
    me = pwd.getpwuid(os.getuid()).pw_name
    (folder / "ident").write_text(f'host {me} postgres\nhost "/^(r?)oo[t]$" \\1ole\ndn "/^CN=ada,O=(.*)$" dora\n')
    sockets = folder / "s"
    sockets.mkdir()
    arguments = (
        *("--spark-start", "lazy", "--workers", "2", "--unix-socket-dir", str(sockets)),
        *("--hba-file", str(folder / "hba"), "--ident-file", str(folder / "ident")),
        *("--tls-cert", str(certificate), "--tls-key", str(key), "--tls-client-ca", str(folder / "ca.pem")),
    )
    with run_server(folder / "data", arguments=arguments) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            for role in ("ada", "dora", "signed", "role"):
                connection.execute(f"CREATE ROLE {role} LOGIN")
            for role in ("twice", "word", "bound"):
                connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'pw'")
        yield Place(server, authority, folder)
        server.stop()
        assert list(sockets.iterdir()) == []


def test_certificates_open_what_they_name(place: Place) -> None:
    assert place.attempt("ada", certificate="ada") == "in"
    assert place.attempt("dora", certificate="ada") == "in"
    assert place.attempt("ada") == "connection requires a valid client certificate"
    assert place.attempt("ada", certificate="nameless") == 'certificate authentication failed for user "ada"'
    assert place.attempt("dora", certificate="nameless") == 'certificate authentication failed for user "dora"'
    assert "unknown ca" in place.attempt("ada", certificate="other/stranger")
    assert place.attempt("signed", certificate="nameless") == "in"
    assert place.attempt("signed") == "connection requires a valid client certificate"
    failed = 'password authentication failed for user "twice"'
    assert place.attempt("twice", "password=pw", certificate="ada") == failed
    assert place.attempt("twice", "password=pw") == "connection requires a valid client certificate"


def test_without_tls_nothing_fits(place: Place) -> None:
    answer = place.attempt("ada", "sslmode=disable")
    assert answer == 'no pg_hba.conf entry for host "127.0.0.1", user "ada", database "postgres", no encryption'
    answer = place.attempt("nobody")
    assert answer == 'no pg_hba.conf entry for host "127.0.0.1", user "nobody", database "postgres", SSL encryption'


def test_passwords_go_through_tls(place: Place) -> None:
    assert place.attempt("word", "password=pw") == "in"
    assert place.attempt("word", "password=wrong") == 'password authentication failed for user "word"'
    assert place.attempt("bound", "password=pw channel_binding=require") == "in"
    assert place.attempt("bound", "password=pw channel_binding=disable") == "in"
    assert place.attempt("bound", "password=wrong channel_binding=require").startswith("password authentication failed")


def test_tls_may_come_at_once(place: Place) -> None:
    assert place.attempt("bound", "password=pw sslnegotiation=direct channel_binding=require") == "in"


def test_what_encrypts_is_shown(place: Place) -> None:
    with (
        psycopg.connect(place.dsn("ada", certificate="ada")) as one,
        psycopg.connect(place.dsn("bound", "password=pw")) as two,
        psycopg.connect(place.server.dsn() + " sslmode=disable") as three,
    ):
        rows = three.execute(
            "SELECT pid, ssl, version, cipher IS NOT NULL, bits >= 128, client_dn, client_serial > 0, issuer_dn"
            " FROM pg_stat_ssl ORDER BY pid"
        ).fetchall()
        pids = [each.info.backend_pid for each in (one, two, three)]
        text = three.execute("SHOW ssl").fetchone()
    assert sorted(row for row in rows if row[0] in pids) == sorted(
        [
            (pids[0], True, "TLSv1.3", True, True, "/O=Org/CN=ada", True, "/CN=authority"),
            (pids[1], True, "TLSv1.3", True, True, None, None, None),
            (pids[2], False, None, False, None, None, None, None),
        ]
    )
    assert text == ("on",)


def test_much_goes_both_ways(place: Place) -> None:
    with psycopg.connect(place.dsn("bound", "password=pw"), autocommit=True) as connection:
        long = "x" * 3_000_000
        assert connection.execute("SELECT %s::text || 'y'", (long,)).fetchone() == (long + "y",)
        count = connection.execute(
            "SELECT sum(length(x)) FROM (SELECT repeat('x', 100) FROM generate_series(1, 100000)) t(x)"
        )
        assert count.fetchone() == (10_000_000,)
        rows = connection.execute("SELECT repeat('x', 100) FROM generate_series(1, 100000)").fetchall()
        assert len(rows) == 100_000


def test_the_host_s_user_comes_in_by_the_socket(place: Place) -> None:
    dsn = f"host={place.folder}/s port={place.server.port} dbname=postgres"
    with psycopg.connect(f"{dsn} user=postgres") as connection:
        row = connection.execute(
            "SELECT client_addr, client_port, inet_client_addr(), inet_server_addr(), inet_server_port()"
            " FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        ).fetchone()
        assert row == (None, -1, None, None, None)
        maps = connection.execute("SELECT line_number, map_name, error FROM pg_ident_file_mappings").fetchall()
        assert maps == [(1, "host", None), (2, "host", None), (3, "dn", None)]
    with pytest.raises(psycopg.OperationalError, match='Peer authentication failed for user "ada"'):
        psycopg.connect(f"{dsn} user=ada")
    if pwd.getpwuid(os.getuid()).pw_name == "root":
        psycopg.connect(f"{dsn} user=role").close()


def test_a_new_certificate_is_taken_at_sighup(place: Place) -> None:
    def serial() -> int:
        context = ssl.create_default_context(cafile=str(place.folder / "ca.pem"))
        context.set_alpn_protocols(["postgresql"])
        with (
            socket.create_connection(("127.0.0.1", place.server.port)) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as encrypted,
        ):
            found = encrypted.getpeercert()
            assert found is not None
            return int(str(found["serialNumber"]), 16)

    before = serial()
    with psycopg.connect(place.dsn("bound", "password=pw")) as connection:
        place.authority.sign("server", "/CN=localhost")
        assert place.server.process is not None
        place.server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 10
        while serial() == before:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert connection.execute("SELECT 1").fetchone() == (1,)
    (place.folder / "server.pem").write_text("nothing\n")
    place.server.process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert place.attempt("bound", "password=pw channel_binding=require") == "in"
    assert "the certificates were not read again" in place.server.output()


# ---------------------------------------------------------------- attacks


async def encrypted(place: Place, *, alpn: str | None = None, direct: bool = False) -> raw.RawClient:
    context = ssl.create_default_context(cafile=str(place.folder / "ca.pem"))
    if alpn is not None:
        context.set_alpn_protocols([alpn])
    if direct:
        return raw.RawClient(
            *await asyncio.open_connection("127.0.0.1", place.server.port, ssl=context, server_hostname="localhost")
        )
    client = await raw.RawClient.open(place.server.port)
    client.send(raw.request(m.SSL_REQUEST))
    assert await client.reader.readexactly(1) == b"S"
    await client.writer.start_tls(context, server_hostname="localhost")
    return client


async def test_what_is_sent_before_tls_is_not_taken_for_what_is_sent_through_it(place: Place) -> None:
    injected = await raw.RawClient.open(place.server.port)
    injected.send(raw.request(m.SSL_REQUEST) + raw.startup({"user": "postgres"}))
    reply = await injected.receive()
    assert reply is not None
    assert (reply.code, reply.fields["C"]) == ("E", "08P01")
    assert reply.fields["M"] == "received unencrypted data after SSL request"
    assert await injected.receive() is None


async def test_a_connection_that_begins_with_tls_names_its_protocol(place: Place) -> None:
    for alpn in (None, "http/1.1"):
        reply = None
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            client = await encrypted(place, alpn=alpn, direct=True)
            client.send(raw.startup({"user": "postgres"}))
            reply = await client.receive()
        assert reply is None
    client = await encrypted(place, alpn="postgresql", direct=True)
    client.send(raw.startup({"user": "bound"}))
    reply = await client.receive()
    assert reply is not None
    assert reply.body[4:] == b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"


async def test_old_versions_are_refused(place: Place) -> None:
    context = ssl.create_default_context(cafile=str(place.folder / "ca.pem"))
    context.set_alpn_protocols(["postgresql"])
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", place.server.port, ssl=context, server_hostname="localhost")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    _, writer = await asyncio.open_connection("127.0.0.1", place.server.port, ssl=context, server_hostname="localhost")
    assert writer.get_extra_info("ssl_object").version() == "TLSv1.2"
    writer.close()


async def test_nobody_in_between_takes_the_binding_away(place: Place) -> None:
    """Who relays an exchange through a channel of his own cannot bind it to ours, nor say that the client did not know
    of binding."""
    for flag, mechanism, binding, message in (
        ("p=tls-server-end-point", "SCRAM-SHA-256-PLUS", b"another certificate", "SCRAM channel binding check failed"),
        ("p=tls-server-end-point", "SCRAM-SHA-256-PLUS", b"", "SCRAM channel binding check failed"),
        ("y", "SCRAM-SHA-256", b"", "SCRAM channel binding negotiation error"),
        ("p=tls-unique", "SCRAM-SHA-256-PLUS", b"", 'unsupported SCRAM channel-binding type "tls-unique"'),
        ("n", "SCRAM-SHA-256-PLUS", b"", "malformed SCRAM message"),
        ("p=tls-server-end-point", "SCRAM-SHA-256", b"", "malformed SCRAM message"),
    ):
        client = await encrypted(place)
        client.send(raw.startup({"user": "bound"}))
        await client.receive()
        exchange = Exchange("pw", flag=flag, binding=binding)
        client.send(initial(exchange.first, mechanism))
        reply = await client.receive()
        assert reply is not None
        if reply.code == "R":
            client.send(response(exchange.last(reply.body[4:])))
            reply = await client.receive()
        assert reply is not None
        assert (reply.code, reply.fields["M"]) == ("E", message)


async def test_garbage_in_the_place_of_a_handshake_ends_it(place: Place) -> None:
    for garbage in (b"\x16\x03\x01\xff\xff" + bytes(100), b"\x16" + b"A" * 200, base64.b64encode(bytes(300))):
        direct = await raw.RawClient.open(place.server.port)
        direct.send(garbage)
        direct.writer.write_eof()
        await direct.reader.read()
        asked = await raw.RawClient.open(place.server.port)
        asked.send(raw.request(m.SSL_REQUEST))
        assert await asked.reader.readexactly(1) == b"S"
        asked.send(garbage)
        asked.writer.write_eof()
        await asked.reader.read()
    assert place.attempt("bound", "password=pw") == "in"
