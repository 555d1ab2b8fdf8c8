"""Who asks over HTTP: basic authentication (RFC 7617), or a token that was given for it (RFC 6750).

A token is signed with the environment's secret, so that every server knows it, and with the role's verifier, so that it
ends when the password changes. It says who it is for and until when.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from ipaddress import ip_address
from typing import Protocol

import msgspec
from aiohttp import web

from adapter.access.logins import Login
from frontend.connections.addresses import IpAddress

TOKEN_LIFE_S = 3600
"""How long a token is good."""


class LoginSource(Protocol):
    """Who knows the roles."""

    async def login(self, user: str) -> Login:
        """What is known of a role. Raises SqlError during a stop."""


class _Claims(msgspec.Struct, frozen=True, array_like=True):
    user: str
    until_us: int


def client_address(request: web.Request) -> IpAddress | None:
    """Where a request comes from."""
    peer = None if request.transport is None else request.transport.get_extra_info("peername")
    return ip_address(peer[0]) if isinstance(peer, tuple) else None


def basic_credentials(header: str) -> tuple[str, str] | None:
    """The user and the password of a header ``Authorization``, if it has them."""
    scheme, _, rest = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (user, password) if colon and user else None


def bearer_token(header: str) -> str | None:
    """The token of a header ``Authorization``, if it has one."""
    scheme, _, rest = header.partition(" ")
    # "None" is what pyiceberg says where it was given nothing to say.
    return rest.strip() if scheme.lower() == "bearer" and rest != "None" else None


def new_token(login: Login) -> str:
    """A token for who has come in as the role."""
    claims = msgspec.json.encode(_Claims(login.user, login.now_us + TOKEN_LIFE_S * 1_000_000))
    return f"{_text(claims)}.{_text(_signature(login, claims))}"


def user_of_token(token: str) -> str | None:
    """Whose a token says it is; None when it is none."""
    found = _parts(token)
    return None if found is None else found[0].user


def is_good(token: str, login: Login) -> bool:
    """Whether a token was given for the role, and is still good."""
    found = _parts(token)
    if found is None:
        return False
    claims, encoded, signature = found
    signed = hmac.compare_digest(signature, _signature(login, encoded))
    return signed and claims.user == login.user and claims.until_us > login.now_us


def _signature(login: Login, claims: bytes) -> bytes:
    key = hashlib.sha256(login.secret + b"\0http token\0" + (login.verifier or "").encode()).digest()
    return hmac.digest(key, claims, "sha256")


def _parts(token: str) -> tuple[_Claims, bytes, bytes] | None:
    encoded, _, signature = token.partition(".")
    try:
        claims = _bytes(encoded)
        return msgspec.json.decode(claims, type=_Claims), claims, _bytes(signature)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        return None


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text.encode("ascii"))
