"""The IP addresses of clients."""

from __future__ import annotations

import ipaddress
from typing import TypeAlias

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


def ip_address(text: str) -> IpAddress:
    """An address as the system writes it, without its zone; an IPv4 one that came in through IPv6 is IPv4."""
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
