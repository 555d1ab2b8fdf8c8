"""What the library of object stores is told, from options as users give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OBJECT_SCHEMES = frozenset({"s3", "s3a", "gs", "az", "azure", "abfs", "abfss"})
"""Object stores that keep what they have acknowledged and decide conditional writes. The library knows more schemes,
such as the memory of a process."""

EXECUTOR_SCHEMES = frozenset({"s3", "s3a"})
"""Those that the executors of a cluster reach by themselves."""

CLIENT_OPTIONS = frozenset({"allow_http", "allow_invalid_certificates", "connect_timeout", "proxy_url", "timeout"})
"""Options of the connection and not of the store."""


def store_options(options: Mapping[str, str]) -> dict[str, Any]:
    """The keyword arguments with which the library opens a store."""
    own: dict[str, Any] = {key: value for key, value in options.items() if key not in CLIENT_OPTIONS}
    client: dict[str, Any] = {
        key: value == "true" if key.startswith("allow_") else value
        for key, value in options.items()
        if key in CLIENT_OPTIONS
    }
    if own.get("endpoint", "").startswith("http://"):
        client.setdefault("allow_http", True)
    if client:
        own["client_options"] = client
    return own
