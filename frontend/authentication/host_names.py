"""What rules ask of the host and its network: the client's name, and the networks of the server's own addresses."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress

import psutil

from frontend.authentication.hba import Network
from frontend.connections.addresses import IpAddress, ip_address


def confirmed_name(address: IpAddress) -> str | None:
    """The name of a client's host, if that name has the address: who owns an address can give it any name. Blocks."""
    try:
        name = socket.gethostbyaddr(str(address))[0]
        found = socket.getaddrinfo(name, None)
    except OSError:
        return None
    return name if any(ip_address(str(each[4][0])) == address for each in found) else None


def interfaces() -> Sequence[tuple[IpAddress, Network]]:
    """The addresses of this host, each with its network."""
    found: list[tuple[IpAddress, Network]] = []
    for addresses in psutil.net_if_addrs().values():
        for each in addresses:
            if each.family not in (socket.AF_INET, socket.AF_INET6):
                continue
            with suppress(ValueError):
                address = ip_address(each.address)
                # An interface without a mask is a network of one address.
                mask = int(ip_address(each.netmask)) if each.netmask else (1 << address.max_prefixlen) - 1
                found.append((address, Network(address.version, int(address), mask)))
    return found
