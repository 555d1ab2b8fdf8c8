"""Bearer tokens by SASL OAUTHBEARER (RFC 7628), checked as JSON Web Tokens (RFC 7519, 9068) with the issuer's keys.

A rule says whose tokens count (`issuer`), for whom they must be meant (`audience`), what they must allow (`scope`),
where the issuer's keys are (`jwks`: a file, or an https address) and which claim names the user (`claim`, else `sub`).
Only signatures with keys of two halves are taken: a token that is signed with what everybody can read is none.

A client without a token is told where to get one, as PostgreSQL 18 tells it; so is one whose token is no good.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from frontend.authentication.hba import Rule
from frontend.authentication.passwords import Channel, initial_response
from frontend.protocol import backend
from planner.errors import FeatureNotSupported, ProtocolViolation, SqlError

MECHANISM = "OAUTHBEARER"
MAX_TOKEN_BYTES = 65_535
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
LEEWAY_S = 30
"""How far apart the clocks of issuer and server may be."""
FETCH_S = 10.0
MAX_KEYS_BYTES = 1 << 20
KEYS_AGE_S = 3600.0
"""Keys are fetched again when they are so old."""
FETCH_PAUSE_S = 60.0
"""Keys that do not have the one that a token names are fetched again, at most so often."""

Claims = Mapping[str, Any]


class BadToken(Exception):
    """A token lets nobody in; the message says why, for the log."""


class IssuersKeys:
    """The keys of issuers, by where they are. `clock` gives seconds. Its methods block."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._fetched: dict[str, tuple[float, KeySet]] = {}

    def of(self, place: str, *, missing: bool = False) -> KeySet:
        """The keys at `place`. `missing`: those that are known lack one. Raises BadToken when they cannot be had."""
        known = self._fetched.get(place)
        now = self._clock()
        if known is not None and now - known[0] < (FETCH_PAUSE_S if missing else KEYS_AGE_S):
            return known[1]
        try:
            keys = KeySet.import_key_set(json.loads(_read(place)))
        except (OSError, ValueError, JoseError, KeyError, TypeError) as error:
            if known is not None:
                return known[1]
            raise BadToken(f"the keys at {place} cannot be had: {error}") from error
        self._fetched[place] = now, keys
        return keys


def _read(place: str) -> bytes:
    if not place.startswith("https://"):
        return Path(place).read_bytes()
    with urllib.request.urlopen(place, timeout=FETCH_S) as answer:
        data: bytes = answer.read(MAX_KEYS_BYTES + 1)
    if len(data) > MAX_KEYS_BYTES:
        raise ValueError("they are too long")
    return data


def verified_name(token: str, rule: Rule, keys: IssuersKeys, now_s: int) -> str:
    """Who the token says its bearer is. Blocks. Raises BadToken."""
    place = rule.option("jwks") or ""
    try:
        try:
            decoded = jwt.decode(token, keys.of(place), algorithms=ALGORITHMS)
        except InvalidKeyIdError:
            decoded = jwt.decode(token, keys.of(place, missing=True), algorithms=ALGORITHMS)
        wanted = jwt.JWTClaimsRegistry(
            now=now_s,
            leeway=LEEWAY_S,
            iss={"essential": True, "value": rule.option("issuer") or ""},
            aud={"essential": True, "value": rule.option("audience") or ""},
            exp={"essential": True},
        )
        wanted.validate(decoded.claims)
    except (JoseError, ValueError, TypeError) as error:
        raise BadToken(str(error)) from error
    missing = set((rule.option("scope") or "").split()) - _scopes(decoded.claims)
    if missing:
        raise BadToken(f"it does not allow {' '.join(sorted(missing))}")
    claim = rule.option("claim") or "sub"
    name = decoded.claims.get(claim)
    if not isinstance(name, str) or not name:
        raise BadToken(f"it has no claim {claim}")
    return name


def _scopes(claims: Claims) -> set[str]:
    found = claims.get("scope", claims.get("scp", ""))
    if isinstance(found, str):
        return set(found.split())
    return {str(each) for each in found} if isinstance(found, list) else set()


async def bearer_name(channel: Channel, rule: Rule, keys: IssuersKeys, now_s: int) -> str:
    """Who the client's token says that it is. Raises BadToken once the client has been told, and fatal 08P01, 0A000."""
    channel.write(backend.authentication_sasl((MECHANISM,)))
    await channel.flush()
    selected, first = await initial_response(channel, MAX_TOKEN_BYTES)
    if selected != MECHANISM:
        raise ProtocolViolation("client selected an invalid SASL authentication mechanism", fatal=True)
    if first is None:
        channel.write(backend.authentication_sasl_continue(b""))
        await channel.flush()
        first = await channel.receive_answer("SASL", MAX_TOKEN_BYTES)
    token = bearer_token(first)
    try:
        if not token:
            raise BadToken("the client has none yet")
        return await asyncio.to_thread(verified_name, token, rule, keys, now_s)
    except BadToken:
        channel.write(backend.authentication_sasl_continue(_where_to_get_one(rule)))
        await channel.flush()
        if await channel.receive_answer("SASL", MAX_TOKEN_BYTES) != b"\x01":
            raise _malformed("Client did not send a kvsep response.") from None
        raise


def _where_to_get_one(rule: Rule) -> bytes:
    issuer = (rule.option("issuer") or "").rstrip("/")
    return json.dumps(
        {
            "status": "invalid_token",
            "openid-configuration": f"{issuer}/.well-known/openid-configuration",
            "scope": rule.option("scope"),
        }
    ).encode()


def bearer_token(message: bytes) -> str:
    """The token in a client's first message; nothing when it has none. Raises fatal 08P01, 0A000."""
    if not message:
        raise _malformed("The message is empty.")
    header, separator, rest = message.partition(b"\x01")
    if header[:1] == b"p":
        raise ProtocolViolation(
            "malformed OAUTHBEARER message",
            detail="The server does not support channel binding for OAuth, but the client message includes channel "
            "binding data.",
            fatal=True,
        )
    if header[:1] not in (b"n", b"y"):
        raise _malformed("Unexpected channel-binding flag.")
    if header[1:3] == b",a":
        raise FeatureNotSupported("client uses authorization identity, but it is not supported", fatal=True)
    if header[1:] != b",," or not separator:
        raise _malformed("Key-value separator expected.")
    if not rest.endswith(b"\x01\x01"):
        raise _malformed("Message did not contain a final terminator.")
    value: bytes | None = None
    for pair in rest[:-2].split(b"\x01"):
        name, equals, text = pair.partition(b"=")
        if not equals:
            raise _malformed("Message is missing a key or a value.")
        if name == b"auth":
            if value is not None:
                raise _malformed("Message contains multiple auth values.")
            value = text
    if value is None:
        raise _malformed("Message does not contain an auth value.")
    if not value:
        return ""
    scheme, _, token = value.partition(b" ")
    if scheme.lower() != b"bearer" or not token.isascii():
        raise _malformed("Bearer token is not in the correct format.")
    return token.strip().decode()


def _malformed(detail: str) -> SqlError:
    return ProtocolViolation("malformed OAUTHBEARER message", detail=detail, fatal=True)
