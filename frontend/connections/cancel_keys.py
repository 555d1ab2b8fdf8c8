"""Who may cancel what: the secret of each connection, by backend process id."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable

from frontend.protocol.messages import PROTOCOL_3_2

SHORT_SECRET_BYTES = 4
LONG_SECRET_BYTES = 32
"""Protocol 3.0 has room for four bytes; 3.2 allows more, and PostgreSQL 18 sends 32."""


class CancelRegistry:
    """The live connections that a CancelRequest can reach."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[bytes, Callable[[], None]]] = {}

    def register(self, backend_pid: int, version: int, cancel: Callable[[], None]) -> bytes:
        """Adds a connection and returns its new secret."""
        secret = secrets.token_bytes(LONG_SECRET_BYTES if version >= PROTOCOL_3_2 else SHORT_SECRET_BYTES)
        self._entries[backend_pid] = (secret, cancel)
        return secret

    def unregister(self, backend_pid: int) -> None:
        """Forgets a connection that has ended."""
        self._entries.pop(backend_pid, None)

    def cancel(self, backend_pid: int, secret: bytes) -> bool:
        """Cancels the connection's statement if the secret is right; says whether it was."""
        entry = self._entries.get(backend_pid)
        if entry is None or not hmac.compare_digest(entry[0], secret):
            return False
        entry[1]()
        return True
