"""The rules of pg_hba.conf: what a line says, and PostgreSQL 15's complaint when it says nothing (hba.c).

Pure. Two methods have meanings of their own: `password` never asks without TLS or a Unix socket, and `oauth` is
PostgreSQL 18's with the options that it needs to check tokens itself (`issuer`, `scope`, `jwks`, `audience`,
`claim`). Methods that need a library of the host (gss, ldap, pam, ...) are refused as by a server built without them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from frontend.authentication.tokens import Field, Line, Token

IpNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

CONNECTION_TYPES = ("local", "host", "hostssl", "hostnossl", "hostgssenc", "hostnogssenc")
METHODS = ("trust", "reject", "scram-sha-256", "md5", "password", "peer", "cert", "oauth")
_NOT_BUILT = ("gss", "sspi", "pam", "bsd", "ldap", "radius")
_MAP_METHODS = ("peer", "cert", "oauth")
_OAUTH_OPTIONS = ("issuer", "scope", "jwks", "audience", "claim")


class Network(Struct, frozen=True):
    """Addresses with one prefix. The mask of a file need not be a prefix: `mask` and `base` as numbers."""

    version: int
    base: int
    mask: int

    def covers(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
        return address.version == self.version and int(address) & self.mask == self.base & self.mask


class Address(Struct, frozen=True, kw_only=True):
    """Where a rule's clients come from. `kind` is network, all, samehost, samenet or hostname; `name` is the host's,
    with a dot before it for all hosts below."""

    kind: str
    network: Network | None = None
    name: str = ""


class Rule(Struct, frozen=True, kw_only=True):
    """A line of pg_hba.conf. `address` is None for `local`. `options` are its name=value pairs, in order."""

    line: int
    type: str
    databases: Field
    roles: Field
    address: Address | None
    method: str
    options: tuple[tuple[str, str], ...] = ()
    futile: str | None = None
    """Why no client can match it, if so."""

    def option(self, name: str) -> str | None:
        """The value of an option that the line has."""
        return dict(self.options).get(name)


class BadLine(Struct, frozen=True, kw_only=True):
    """A line that is no rule, and why."""

    line: int
    error: str


class _Refused(Exception):
    """The line is no rule; the message says why."""


class TlsUse(Struct, frozen=True):
    """Whether the server has a certificate, and whether it verifies those of clients."""

    offered: bool = False
    verifies_clients: bool = False


def rules(lines: Sequence[Line], *, tls: TlsUse) -> list[Rule | BadLine]:
    """What the lines of a file say, in order."""
    found: list[Rule | BadLine] = []
    for line in lines:
        try:
            if line.error is not None:
                raise _Refused(line.error)
            found.append(_rule(line, tls=tls))
        except _Refused as error:
            found.append(BadLine(line=line.number, error=str(error)))
    return found


def _rule(line: Line, *, tls: TlsUse) -> Rule:
    fields = list(line.fields)
    kind = _only(fields.pop(0), "multiple values specified for connection type").text
    if kind not in CONNECTION_TYPES:
        raise _Refused(f'invalid connection type "{kind}"')
    futile = None
    if kind == "hostgssenc":
        futile = "hostgssenc record cannot match because GSSAPI is not supported by this build"
    elif kind == "hostssl" and not tls.offered:
        futile = "hostssl record cannot match because SSL is disabled"
    databases = _next(fields, "end-of-line before database specification")
    roles = _next(fields, "end-of-line before role specification")
    address = None if kind == "local" else _address(fields)
    method = _method(fields, kind)
    options = _options(fields, kind, method)
    if futile is None and "clientcert" in options and not tls.verifies_clients:
        raise _Refused("client certificates can only be checked if a root certificate store is available")
    return Rule(
        line=line.number,
        type=kind,
        databases=databases,
        roles=roles,
        address=address,
        method=method,
        options=tuple(options.items()),
        futile=futile,
    )


def _next(fields: list[Field], complaint: str) -> Field:
    if not fields:
        raise _Refused(complaint)
    return fields.pop(0)


def _only(field: Field, complaint: str) -> Token:
    if len(field) != 1:
        raise _Refused(complaint)
    return field[0]


def _address(fields: list[Field]) -> Address:
    field = _next(fields, "end-of-line before IP address specification")
    token = _only(field, "multiple values specified for host address")
    for keyword in ("all", "samehost", "samenet"):
        if token.is_keyword(keyword):
            return Address(kind=keyword)
    text, slash, prefix = token.text.partition("/")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        if slash:
            complaint = f'specifying both host name and CIDR mask is invalid: "{token.text}"'
            raise _Refused(complaint) from None
        if not text or set(text) <= set("0123456789.") or ":" in text:
            raise _Refused(f'invalid IP address "{text}": Name or service not known') from None
        return Address(kind="hostname", name=text)
    if slash:
        if not prefix.isascii() or not prefix.isdecimal() or int(prefix) > address.max_prefixlen:
            raise _Refused(f'invalid CIDR mask in address "{token.text}"')
        size = address.max_prefixlen
        mask = (1 << size) - (1 << (size - int(prefix)))
        return Address(kind="network", network=Network(address.version, int(address), mask))
    field = _next(fields, "end-of-line before netmask specification")
    text = _only(field, "multiple values specified for netmask").text
    try:
        mask_address = ipaddress.ip_address(text)
    except ValueError:
        raise _Refused(f'invalid IP mask "{text}": Name or service not known') from None
    if mask_address.version != address.version:
        raise _Refused("IP address and mask do not match")
    return Address(kind="network", network=Network(address.version, int(address), int(mask_address)))


def _method(fields: list[Field], kind: str) -> str:
    field = _next(fields, "end-of-line before authentication method")
    method = _only(field, "multiple values specified for authentication type").text
    if method == "ident" and kind == "local":
        method = "peer"
    if method in _NOT_BUILT or method == "ident":
        raise _Refused(f'invalid authentication method "{method}": not supported by this build')
    if method not in METHODS:
        raise _Refused(f'invalid authentication method "{method}"')
    if method == "peer" and kind != "local":
        raise _Refused("peer authentication is only supported on local sockets")
    if method == "cert" and kind != "hostssl":
        raise _Refused("cert authentication is only supported on hostssl connections")
    if method in ("password", "oauth") and kind == "hostnossl":
        raise _Refused(f"{method} authentication is only supported on encrypted connections")
    return method


def _options(fields: list[Field], kind: str, method: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for token in (token for field in fields for token in field):
        name, equals, value = token.text.partition("=")
        if not equals:
            raise _Refused(f"authentication option not in name=value format: {token.text}")
        _check_option(name, value, kind, method)
        options[name] = value
    if method == "cert":
        # What the method says anyway, so that one place asks for it.
        options.setdefault("clientcert", "verify-full")
    if method == "oauth":
        for name in ("issuer", "scope", "jwks", "audience"):
            if not options.get(name):
                raise _Refused(f'authentication method "oauth" requires argument "{name}" to be set')
        if "://" in options["jwks"] and not options["jwks"].startswith("https://"):
            raise _Refused(f'keys are fetched by https or read from a file: jwks="{options["jwks"]}"')
    return options


def _check_option(name: str, value: str, kind: str, method: str) -> None:
    if name == "map":
        if method not in _MAP_METHODS:
            _only_for(name, ", ".join(_MAP_METHODS))
    elif name == "clientcert":
        if kind != "hostssl":
            raise _Refused('clientcert can only be configured for "hostssl" rows')
        if value not in ("verify-full", "verify-ca"):
            raise _Refused(f'invalid value for clientcert: "{value}"')
        if value == "verify-ca" and method == "cert":
            raise _Refused('clientcert only accepts "verify-full" when using "cert" authentication')
    elif name == "clientname":
        if kind != "hostssl":
            raise _Refused('clientname can only be configured for "hostssl" rows')
        if value not in ("CN", "DN"):
            raise _Refused(f'invalid value for clientname: "{value}"')
    elif name in _OAUTH_OPTIONS:
        if method != "oauth":
            _only_for(name, "oauth")
    else:
        raise _Refused(f'unrecognized authentication option name: "{name}"')


def _only_for(name: str, methods: str) -> None:
    raise _Refused(f'authentication option "{name}" is only valid for authentication methods {methods}')


def shown_address(address: Address | None) -> tuple[str | None, str | None]:
    """The columns address and netmask of pg_hba_file_rules."""
    if address is None:
        return None, None
    if address.network is None:
        return address.name or address.kind, None
    of = ipaddress.IPv4Address if address.network.version == 4 else ipaddress.IPv6Address
    return str(of(address.network.base)), str(of(address.network.mask))
