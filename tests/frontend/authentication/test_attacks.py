"""Attacks before a client is known: garbage in every state, packets without end, guessed cancel keys, and the work that
a role costs which is not there."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import random
import struct
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from adapter.access.logins import Login
from adapter.access.passwords import scram_of
from frontend.authentication.passwords import knows_password
from frontend.connections.channel import READ_AHEAD_BYTES, STRANGER_BYTES, ClientProtocol
from frontend.protocol import messages as m
from frontend.server.accepting import Server, ServerLimits
from storage.catalog.access import Role
from storage.catalog.model import BOOTSTRAP_SUPERUSER_OID
from tests.frontend import raw_client as raw
from tests.frontend.authentication.scram_client import Exchange, begin, challenged, log_in, response
from tests.frontend.scripted import Script, authenticator, catalog_with

PASSWORD = "open sesame"
ROLE = Role(oid=20000, name="known", password=scram_of(PASSWORD, bytes(16)).text())
SUPERUSER = Role(oid=BOOTSTRAP_SUPERUSER_OID, name="postgres", superuser=True)


@pytest.fixture
async def script() -> Script:
    return Script(catalog=catalog_with(SUPERUSER, ROLE))


@pytest.fixture
async def port(tmp_path: Path, script: Script) -> AsyncIterator[int]:
    hba = tmp_path / "hba"
    hba.write_text("host all all all scram-sha-256\n")
    limits = ServerLimits(max_connections=20, authentication_timeout_s=5.0, drain_timeout_s=0.1)
    server = Server(script, authenticator=authenticator(hba), limits=limits)
    yield await server.start("127.0.0.1", 0)
    await server.stop(drain=False)


def garbage(chance: random.Random) -> bytes:
    """Bytes of every kind: noise, broken frames, frames of other states."""
    kind = chance.randrange(5)
    noise = chance.randbytes(chance.randrange(1, 300))
    if kind == 0:
        return noise
    if kind == 1:
        return struct.pack(">I", chance.choice([0, 1, 7, 8, 9, 10_000, 10_001, 2**31, 2**32 - 1])) + noise
    code = chance.choice("pQPBDESXHCFdcf?\0\xff").encode("latin-1")
    if kind == 2:
        return code + struct.pack(">I", chance.choice([0, 3, 4, 5, 70_000, 2**30, 2**32 - 1])) + noise
    if kind == 3:
        return code + struct.pack(">I", len(noise) + 4) + noise
    return raw.startup({"user": noise.hex()[:20], "database": "x", "_pq_.x": "1"}, chance.choice([0x30000, 0x30002]))


@pytest.mark.parametrize("state", ["start", "ssl", "asked", "challenged"])
async def test_garbage_opens_nothing_and_breaks_nothing(state: str, port: int, script: Script) -> None:
    chance = random.Random(f"garbage {state}")
    for _ in range(60):
        if state == "challenged":
            client, _ = await challenged(port, "known", Exchange("x"))
        elif state == "asked":
            client, _ = await begin(port, "known")
        else:
            client = await raw.RawClient.open(port)
            if state == "ssl":
                client.send(raw.request(m.SSL_REQUEST))
                assert await client.reader.readexactly(1) == b"N"
        client.send(b"".join(garbage(chance) for _ in range(chance.randrange(1, 4))))
        client.writer.write_eof()
        async with asyncio.timeout(4):
            try:
                answer = await client.reader.read()
            except ConnectionError:
                answer = b""
        assert b"R\0\0\0\x08\0\0\0\0" not in answer
        await client.close()
    assert script.sessions == []
    reply = await log_in(port, "known", PASSWORD)
    assert reply is not None
    assert reply.code == "R"


@pytest.mark.parametrize("length", [10_001, 1 << 20, 2**31 - 1, 2**32 - 1])
async def test_enormous_startup_packets_are_not_waited_for(length: int, port: int) -> None:
    client = await raw.RawClient.open(port)
    client.send(struct.pack(">II", length, 0x30000) + b"user\0")
    async with asyncio.timeout(2):
        assert await client.reader.read() == b""


@pytest.mark.parametrize("length", [65_536 + 4, 1 << 20, 2**30])
async def test_enormous_answers_are_not_waited_for(length: int, port: int) -> None:
    client, _ = await begin(port, "known")
    client.send(b"p" + struct.pack(">I", length) + bytes(2000))
    async with asyncio.timeout(2):
        assert await client.reader.read() == b""


class Pausable(asyncio.Transport):
    """A transport that notes whether it is read from."""

    paused = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        self.paused = True


def test_who_sends_ahead_is_held_back() -> None:
    """What is sent before it is asked for is taken in up to a bound, which is wider once the client is known."""
    for known, bound in ((False, STRANGER_BYTES), (True, READ_AHEAD_BYTES)):
        client, transport = ClientProtocol(lambda _: None, max_message_bytes=1 << 20), Pausable()
        client.connection_made(transport)
        if known:
            client.trust()
        taken = 0
        while not transport.paused:
            client.data_received(bytes(1 << 14))
            taken += 1 << 14
        assert bound < taken <= bound + (1 << 14)


async def test_keys_of_cancel_requests_are_not_guessed(port: int, script: Script) -> None:
    exchange = Exchange(PASSWORD)
    client, challenge = await challenged(port, "known", exchange)
    client.send(response(exchange.last(challenge)))
    await client.until("Z")
    pid, secret = client.key
    chance = random.Random("keys")
    wrong = [chance.randbytes(4) for _ in range(100)] + [b"", secret[:3], secret + b"\0", secret[::-1], bytes(4)]
    for guess in wrong:
        if guess != secret:
            asking = await raw.RawClient.open(port)
            asking.send(raw.request(m.CANCEL_REQUEST, struct.pack(">I", pid) + guess))
            assert await asking.reader.read() == b""
    assert script.sessions[0].cancelled == 0
    asking = await raw.RawClient.open(port)
    asking.send(raw.request(m.CANCEL_REQUEST, struct.pack(">I", pid) + secret))
    assert await asking.reader.read() == b""
    assert script.sessions[0].cancelled == 1


class Scripted:
    """A client that answers as it is told, and counts what is written to it."""

    def __init__(self, *answers: bytes) -> None:
        self.certificate_hash: bytes | None = None
        self.written: list[int] = []
        self._answers = list(answers)

    def write(self, data: bytes | memoryview) -> None:
        self.written.append(len(data))

    async def flush(self) -> None:
        pass

    async def receive_answer(self, expected: str, max_bytes: int) -> bytes:
        return self._answers.pop(0)


@pytest.mark.parametrize("plain", [False, True])
async def test_a_role_that_is_not_there_costs_the_same_work(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[str] = Counter()

    def counted(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def count(*args: Any, **options: Any) -> Any:
            counts[name] += 1
            return real(*args, **options)

        monkeypatch.setattr(owner, name, count)

    counted(hmac, "digest")
    counted(hmac, "compare_digest")
    counted(hashlib, "pbkdf2_hmac")
    catalog = catalog_with(SUPERUSER, ROLE, replace_name(ROLE, 20001, "mute"))
    work = []
    for user in ("known", "mute", "nobody"):
        login = Login(user=user, role=catalog.roles.records.get({"known": 20000, "mute": 20001}.get(user, 0)),
                      catalog=catalog, now_us=0)  # fmt: skip
        nonce = "abcdefgh"
        monkeypatch.setattr("secrets.token_bytes", lambda count: bytes(count))
        final = b"c=biws,r=" + nonce.encode() + b"A" * 24 + b",p=" + b"A" * 43 + b"="
        body = b"n,,n=,r=" + nonce.encode()
        answers = (b"wrong\0",) if plain else (b"SCRAM-SHA-256\0" + struct.pack(">i", len(body)) + body, final)
        client = Scripted(*answers)
        counts.clear()
        assert not await knows_password(client, login, plain=plain, md5_allowed=False)
        work.append((dict(counts), client.written))
    assert work[0] == work[1] == work[2]


def replace_name(role: Role, oid: int, name: str) -> Role:
    """A role without a password."""
    return Role(oid=oid, name=name, login=role.login)
