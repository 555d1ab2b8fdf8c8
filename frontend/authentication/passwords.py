"""The methods that ask for a password: SCRAM, md5 and the password itself.

Each says whether the client knows it; what the client is told when it does not is the caller's. A role that is not
there costs as much work as one that is: the same messages, the same digests.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from base64 import b64encode
from typing import Protocol

from adapter.access.logins import Login
from adapter.access.passwords import SCRAM_ITERATIONS, ScramVerifier, is_md5, is_password, scram_verifier
from frontend.authentication.scram import (
    MAX_MESSAGE_BYTES,
    NONCE_BYTES,
    SCRAM,
    SCRAM_PLUS,
    ScramExchange,
    mock_verifier,
)
from frontend.protocol import backend
from frontend.protocol.codec import BodyReader
from planner.errors import InvalidPassword, ProtocolViolation, SqlError

MAX_PASSWORD_BYTES = 65_535
"""PostgreSQL's PG_MAX_AUTH_TOKEN_LENGTH."""


class Channel(Protocol):
    """The client's end, as authentication sees it."""

    def write(self, data: bytes | memoryview) -> None: ...

    async def flush(self) -> None: ...

    async def receive_answer(self, expected: str, max_bytes: int) -> bytes: ...

    certificate_hash: bytes | None
    """What SCRAM-SHA-256-PLUS binds to; None without TLS, or for a certificate that nothing binds to."""


async def knows_password(channel: Channel, login: Login, *, plain: bool, md5_allowed: bool) -> bool:
    """Whether the client knows the role's password. `plain`: it is to send it as it is. Raises fatal 08P01, 28000,
    28P01, 0A000, FramingError, ConnectionLost."""
    if plain:
        return await _plain(channel, login)
    if md5_allowed and login.verifier is not None and is_md5(login.verifier):
        return await _md5(channel, login.user, login.verifier)
    return await _scram(channel, login)


async def _plain(channel: Channel, login: Login) -> bool:
    channel.write(backend.AUTHENTICATION_CLEARTEXT_PASSWORD)
    await channel.flush()
    return await is_password_of(login, _password(await channel.receive_answer("password", MAX_PASSWORD_BYTES)))


async def is_password_of(login: Login, password: str) -> bool:
    """Whether it is the role's password: the same work for roles that are not there, or have none."""
    verifier, doomed = _verifier(login)
    text = login.verifier if login.verifier is not None and is_md5(login.verifier) else verifier.text()
    fits = await asyncio.to_thread(is_password, text, password, role=login.user)
    return fits and (not doomed or text == login.verifier)


async def _md5(channel: Channel, role: str, verifier: str) -> bool:
    salt = secrets.token_bytes(4)
    channel.write(backend.authentication_md5_password(salt))
    await channel.flush()
    given = _password(await channel.receive_answer("password", MAX_PASSWORD_BYTES))
    digest = hashlib.md5(verifier.removeprefix("md5").encode() + salt, usedforsecurity=False)
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), b"md5" + digest.hexdigest().encode())


def _password(body: bytes) -> str:
    """The text of a PasswordMessage."""
    if not body.endswith(b"\0") or body.count(0) > 1:
        raise ProtocolViolation("invalid password packet size", fatal=True)
    if body == b"\0":
        raise InvalidPassword("empty password returned by client", fatal=True)
    return body[:-1].decode("utf-8", "surrogateescape")


async def _scram(channel: Channel, login: Login) -> bool:
    binding = channel.certificate_hash
    mechanisms = (SCRAM,) if binding is None else (SCRAM_PLUS, SCRAM)
    channel.write(backend.authentication_sasl(mechanisms))
    await channel.flush()
    selected, first = await initial_response(channel, MAX_MESSAGE_BYTES)
    if selected not in mechanisms:
        raise ProtocolViolation("client selected an invalid SASL authentication mechanism", fatal=True)
    verifier, doomed = _verifier(login)
    exchange = ScramExchange(
        verifier,
        doomed=doomed,
        server_nonce=b64encode(secrets.token_bytes(NONCE_BYTES)).decode(),
        plus=selected == SCRAM_PLUS,
        certificate_hash=binding,
    )
    if first is None:
        first = await _further(channel, b"")
    final = exchange.last(await _further(channel, exchange.first(first)))
    if final is None:
        return False
    channel.write(backend.authentication_sasl_final(final))
    return True


async def initial_response(channel: Channel, max_bytes: int) -> tuple[str, bytes | None]:
    """The mechanism that the client selects, and what it says first, if anything."""
    reader = BodyReader(await channel.receive_answer("SASL", max_bytes))
    try:
        mechanism = reader.string()
        length = reader.int32()
        first = None if length == -1 else reader.raw(length)
        reader.end()
    except SqlError as error:
        error.fatal = True
        raise
    return mechanism, first


async def _further(channel: Channel, challenge: bytes) -> bytes:
    channel.write(backend.authentication_sasl_continue(challenge))
    await channel.flush()
    return await channel.receive_answer("SASL", MAX_MESSAGE_BYTES)


def _verifier(login: Login) -> tuple[ScramVerifier, bool]:
    """What the client's proof is held against, and whether it must fail all the same."""
    verifier = None if login.verifier is None else scram_verifier(login.verifier)
    mock = mock_verifier(login.user, login.secret, SCRAM_ITERATIONS)
    return (mock, True) if verifier is None else (verifier, False)
