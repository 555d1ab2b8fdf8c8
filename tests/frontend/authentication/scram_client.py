"""A client's side of SCRAM-SHA-256, written for tests: what each message is can be chosen."""

from __future__ import annotations

import hashlib
import hmac
import struct
from base64 import b64decode, b64encode

from tests.frontend.raw_client import RawClient, Reply, cstring, message, startup

MECHANISM = "SCRAM-SHA-256"


def initial(first: bytes | None, mechanism: str = MECHANISM) -> bytes:
    """SASLInitialResponse."""
    if first is None:
        return message("p", cstring(mechanism) + struct.pack(">i", -1))
    return message("p", cstring(mechanism) + struct.pack(">i", len(first)) + first)


def response(data: bytes) -> bytes:
    """SASLResponse."""
    return message("p", data)


class Exchange:
    """The messages of one exchange; `flag` is the GS2 header without its commas."""

    def __init__(
        self, password: str, *, nonce: str = "abcdefghijklmnop", flag: str = "n", binding: bytes = b""
    ) -> None:
        self._password = password.encode()
        self._header = f"{flag},,"
        self._binding = binding
        self.first_bare = f"n=,r={nonce}"

    @property
    def first(self) -> bytes:
        return (self._header + self.first_bare).encode()

    def last(self, server_first: bytes) -> bytes:
        """client-final-message for this challenge."""
        fields = dict(field.split("=", 1) for field in server_first.decode().split(","))
        salted = hashlib.pbkdf2_hmac("sha256", self._password, b64decode(fields["s"]), int(fields["i"]))
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        bare = f"c={b64encode(self._header.encode() + self._binding).decode()},r={fields['r']}"
        signed = f"{self.first_bare},{server_first.decode()},{bare}".encode()
        signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", "sha256")
        self.server_final = b"v=" + b64encode(hmac.digest(server_key, signed, "sha256"))
        return f"{bare},p={b64encode(proof).decode()}".encode()


async def begin(port: int, user: str) -> tuple[RawClient, Reply]:
    """A connection that asks to come in as `user`, and what the server says to it."""
    client = await RawClient.open(port)
    client.send(startup({"user": user, "database": "postgres"}))
    reply = await client.receive()
    assert reply is not None
    return client, reply


async def challenged(port: int, user: str, exchange: Exchange) -> tuple[RawClient, bytes]:
    """The same, up to the server's challenge."""
    client, reply = await begin(port, user)
    assert reply.body.startswith(struct.pack(">I", 10)), reply
    client.send(initial(exchange.first))
    reply = await client.receive()  # type: ignore[assignment]
    assert reply is not None
    assert reply.body[:4] == struct.pack(">I", 11), reply
    return client, reply.body[4:]


async def log_in(port: int, user: str, password: str) -> Reply | None:
    """How an attempt with this password ends: the server's last proof, or its error."""
    exchange = Exchange(password)
    client, challenge = await challenged(port, user, exchange)
    client.send(response(exchange.last(challenge)))
    reply = await client.receive()
    if reply is not None and reply.code == "R":
        assert reply.body == struct.pack(">I", 12) + exchange.server_final
    await client.close()
    return reply
