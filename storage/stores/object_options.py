"""What the library of object stores is told, from options as users give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

OBJECT_SCHEMES = frozenset({"s3", "s3a", "gs", "az", "azure", "abfs", "abfss"})
"""Object stores that keep what they have acknowledged and decide conditional writes. The library knows more schemes,
such as the memory of a process."""

CLIENT_OPTIONS = frozenset({"allow_http", "allow_invalid_certificates", "connect_timeout", "proxy_url", "timeout"})
"""Options of the connection and not of the store."""

_PREFIXES: Mapping[str, tuple[str, ...]] = {
    "s3": ("aws_",),
    "gs": ("google_",),
    "az": ("azure_storage_", "azure_"),
}
_SAME: Mapping[str, Mapping[str, str]] = {
    "s3": {"endpoint_url": "endpoint", "default_region": "region", "token": "session_token"},
    "gs": {"service_account_path": "service_account"},
    "az": {
        "access_key": "account_key", "master_key": "account_key", "sas_key": "sas_token", "authority_id": "tenant_id",
    },
}  # fmt: skip
"""Other names that the library takes, below the prefixes that it takes with any name."""


def plain_options(root: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options of the store of the URL `root`, each under one name."""
    scheme = urlsplit(root).scheme
    family = "s3" if scheme in ("s3", "s3a") else "gs" if scheme == "gs" else "az"
    plain = {}
    for given, value in options.items():
        name = given.lower()
        prefix = next((one for one in _PREFIXES[family] if name.startswith(one)), "")
        name = name.removeprefix(prefix)
        plain[_SAME[family].get(name, name)] = value
    return plain


def store_options(root: str, options: Mapping[str, str]) -> dict[str, Any]:
    """The keyword arguments with which the library opens the store of the URL `root`."""
    own: dict[str, Any] = {key: value for key, value in options.items() if key not in CLIENT_OPTIONS}
    client: dict[str, Any] = {
        key: value == "true" if key.startswith("allow_") else value
        for key, value in options.items()
        if key in CLIENT_OPTIONS
    }
    url = urlsplit(root)
    if url.scheme in ("abfs", "abfss") and "@" in url.netloc:
        # The library takes no name of the account beside the one in the URL.
        own = {key: value for key, value in own.items() if "account_name" not in plain_options(root, {key: value})}
    plain = plain_options(root, {key: str(value) for key, value in own.items()})
    if any(plain.get(name, "").startswith("http://") for name in ("endpoint", "base_url")):
        client.setdefault("allow_http", True)
    if client:
        own["client_options"] = client
    return own
