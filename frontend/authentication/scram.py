"""The server's side of SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, 7677, 5929), without I/O.

`ScramExchange.first` answers client-first-message, `last` checks client-final-message; each message is taken once, so
that nothing can be replayed into an exchange, and each exchange has a nonce of its own. Complaints are PostgreSQL 15's
(auth-scram.c). A role that is not there, or has no verifier, goes through the same steps with a verifier that no proof
fits (`doomed`), whose salt is always the same for its name.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from enum import Enum

from adapter.access.passwords import KEY_BYTES, ScramVerifier
from planner.errors import FeatureNotSupported, InvalidAuthorizationSpecification, ProtocolViolation, SqlError

SCRAM = "SCRAM-SHA-256"
SCRAM_PLUS = "SCRAM-SHA-256-PLUS"
CHANNEL_BINDING = "tls-server-end-point"
NONCE_BYTES = 18
MAX_MESSAGE_BYTES = 1024
"""PostgreSQL's PG_MAX_SASL_MESSAGE_LENGTH."""


class _State(Enum):
    START = 1
    CHALLENGED = 2
    OVER = 3


def _malformed(detail: str) -> SqlError:
    return ProtocolViolation("malformed SCRAM message", detail=detail, fatal=True)


class ScramExchange:
    """One exchange. `server_nonce` is fresh text; `certificate_hash` is what the channel is bound to, None without TLS
    (or without a hash that binds); `plus`: the client has selected SCRAM-SHA-256-PLUS."""

    def __init__(
        self,
        verifier: ScramVerifier,
        *,
        doomed: bool,
        server_nonce: str,
        plus: bool,
        certificate_hash: bytes | None,
    ) -> None:
        self._verifier = verifier
        self._doomed = doomed
        self._server_nonce = server_nonce
        self._plus = plus
        self._certificate_hash = certificate_hash
        self._state = _State.START
        self._flag = ""
        self._nonce = ""
        self._first_bare = self._server_first = ""

    def first(self, message: bytes) -> bytes:
        """The challenge for a client-first-message. Raises 08P01, 0A000, 28000."""
        assert self._state is _State.START
        reader = _Reader(_text(message))
        self._read_flag(reader)
        self._first_bare = reader.rest
        if reader.next_is("m"):
            raise FeatureNotSupported("client requires an unsupported SCRAM extension", fatal=True)
        reader.value("n")  # The role is that of the start-up packet.
        client_nonce = reader.value("r")
        if not all(0x21 <= ord(char) <= 0x7E for char in client_nonce):
            raise ProtocolViolation("non-printable characters in SCRAM nonce", fatal=True)
        while not reader.at_end:
            reader.attribute()
        self._nonce = client_nonce + self._server_nonce
        salt = base64.b64encode(self._verifier.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        self._state = _State.CHALLENGED
        return self._server_first.encode()

    def _read_flag(self, reader: _Reader) -> None:
        self._flag = reader.char()
        if self._flag in ("n", "y"):
            if self._plus:
                raise _malformed(
                    "The client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding "
                    "data."
                )
            if self._flag == "y" and self._certificate_hash is not None:
                raise InvalidAuthorizationSpecification(
                    "SCRAM channel binding negotiation error",
                    detail="The client supports SCRAM channel binding but thinks the server does not.  However, this "
                    "server does support channel binding.",
                    fatal=True,
                )
            reader.comma()
        elif self._flag == "p":
            if not self._plus:
                raise _malformed(
                    "The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel "
                    "binding data."
                )
            reader.back()
            kind = reader.value("p")
            if kind != CHANNEL_BINDING:
                raise ProtocolViolation(f'unsupported SCRAM channel-binding type "{kind}"', fatal=True)
        else:
            raise _malformed(f'Unexpected channel-binding flag "{_shown(self._flag)}".')
        if reader.next_is("a"):
            message = "client uses authorization identity, but it is not supported"
            raise FeatureNotSupported(message, fatal=True)
        following = reader.char()
        if following != ",":
            raise _malformed(f'Unexpected attribute "{_shown(following)}" in client-first-message.')

    def last(self, message: bytes) -> bytes | None:
        """The server's own proof when the client's in client-final-message is right, None when it is not. Raises 08P01,
        28000."""
        assert self._state is _State.CHALLENGED
        self._state = _State.OVER
        reader = _Reader(_text(message))
        self._check_binding(reader.value("c"))
        nonce = reader.value("r")
        while True:
            without_proof = reader.before
            attribute, value = reader.attribute()
            if attribute == "p":
                break
        try:
            proof = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            proof = b""
        if len(proof) != KEY_BYTES:
            raise _malformed("Malformed proof in client-final-message.")
        if not reader.at_end:
            raise _malformed("Garbage found at the end of client-final-message.")
        if not hmac.compare_digest(nonce.encode("latin-1"), self._nonce.encode()):
            raise ProtocolViolation("invalid SCRAM response", detail="Nonce does not match.", fatal=True)
        signed = f"{self._first_bare},{self._server_first},{without_proof}".encode("latin-1")
        signature = hmac.digest(self._verifier.stored_key, signed, "sha256")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        fits = hmac.compare_digest(hashlib.sha256(client_key).digest(), self._verifier.stored_key)
        answer = hmac.digest(self._verifier.server_key, signed, "sha256")
        if not fits or self._doomed:
            return None
        return b"v=" + base64.b64encode(answer)

    def _check_binding(self, given: str) -> None:
        if self._plus:
            assert self._certificate_hash is not None
            bound = f"p={CHANNEL_BINDING},,".encode() + self._certificate_hash
            if not hmac.compare_digest(given.encode("latin-1"), base64.b64encode(bound)):
                raise InvalidAuthorizationSpecification("SCRAM channel binding check failed", fatal=True)
        elif given != base64.b64encode(f"{self._flag},,".encode()).decode():
            raise ProtocolViolation("unexpected SCRAM channel-binding attribute in client-final-message", fatal=True)


def mock_verifier(role: str, secret: bytes, iterations: int) -> ScramVerifier:
    """The verifier of a role that has none: nobody who asks twice sees it change."""
    salt = hmac.digest(secret, role.encode(), "sha256")[:16]
    return ScramVerifier(iterations=iterations, salt=salt, stored_key=bytes(KEY_BYTES), server_key=bytes(KEY_BYTES))


def _text(message: bytes) -> str:
    if not message:
        raise _malformed("The message is empty.")
    if 0 in message:
        raise _malformed("Message length does not match input length.")
    return message.decode("latin-1")


def _shown(char: str) -> str:
    """PostgreSQL's sanitize_char."""
    return f"'{char}'" if 0x21 <= ord(char or "\0") <= 0x7E else f"0x{ord(char or chr(0)):02x}"


class _Reader:
    """Reads `attribute=value` pairs with commas between them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    @property
    def rest(self) -> str:
        return self._text[self._position :]

    @property
    def before(self) -> str:
        """What has been read, without the comma at its end."""
        return self._text[: self._position - 1]

    @property
    def at_end(self) -> bool:
        return self._position >= len(self._text)

    def next_is(self, char: str) -> bool:
        return self._text.startswith(char, self._position)

    def char(self) -> str:
        """The next character; nothing at the end."""
        char = self._text[self._position : self._position + 1]
        self._position += 1
        return char

    def back(self) -> None:
        self._position -= 1

    def comma(self) -> None:
        char = self.char()
        if char != ",":
            raise _malformed(f'Comma expected, but found character "{_shown(char)}".')

    def value(self, name: str) -> str:
        """The value of the next attribute, which must be this one."""
        char = self.char()
        if char != name:
            raise _malformed(f'Expected attribute "{name}" but found "{_shown(char)}".')
        return self._value(name)

    def attribute(self) -> tuple[str, str]:
        """The next attribute, whichever it is, and its value."""
        char = self.char()
        if not char:
            raise _malformed("Attribute expected, but found end of string.")
        if not (char.isascii() and char.isalpha()):
            raise _malformed(f'Attribute expected, but found invalid character "{_shown(char)}".')
        return char, self._value(char)

    def _value(self, name: str) -> str:
        if self.char() != "=":
            raise _malformed(f'Expected character "=" for attribute "{name}".')
        end = self._text.find(",", self._position)
        end = len(self._text) if end < 0 else end
        value = self._text[self._position : end]
        self._position = end + 1
        return value
