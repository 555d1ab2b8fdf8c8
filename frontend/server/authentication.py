"""Authentication: who may connect without a password, and from where.

Trust is for loopback addresses only.
"""

from __future__ import annotations

import ipaddress


class ListenRefused(Exception):
    """The server must not listen there; the message says why and what to do."""


def check_trust(host: str) -> None:
    """Raises ListenRefused unless the address is loopback: trust authentication asks nobody for a password."""
    if host == "localhost":
        return
    try:
        if ipaddress.ip_address(host.strip("[]")).is_loopback:
            return
    except ValueError:
        pass
    raise ListenRefused(
        f'refusing to listen on "{host}": connections are trusted without a password, which is for loopback addresses '
        "only; listen on 127.0.0.1 (and reach it through a tunnel)"
    )
