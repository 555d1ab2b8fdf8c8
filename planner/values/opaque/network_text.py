"""inet and cidr: their values, read from text and printed as PostgreSQL does.

A value is held as the text that its output function prints: an inet of a single host has no ``/bits``, a cidr always
has. Raises 22P02 where PostgreSQL's input functions do.
"""

from __future__ import annotations

import ipaddress
import re

from msgspec import Struct

from planner.errors import InvalidTextRepresentation

_DOTTED = re.compile(r"(\d+(?:\.\d+)*)(?:/(\d+))?")
_COLONS = re.compile(r"([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)(?:/(\d+))?")


class Network(Struct, frozen=True):
    """An address of 32 (`version` 4) or 128 bits (6) as a number, with the length of its network part."""

    version: int
    address: int
    bits: int

    @property
    def width(self) -> int:
        """How many bits an address of this version has."""
        return 32 if self.version == 4 else 128

    @property
    def mask(self) -> int:
        """The network part's bits set."""
        return ((1 << self.bits) - 1) << (self.width - self.bits)

    @property
    def host_mask(self) -> int:
        """The host part's bits set."""
        return (1 << (self.width - self.bits)) - 1

    def host(self) -> str:
        """The address alone, as PostgreSQL prints it."""
        if self.version == 4:
            return str(ipaddress.IPv4Address(self.address))
        return _ipv6_text(self.address)

    def inet(self) -> str:
        """What inet_out prints."""
        return self.host() if self.bits == self.width else f"{self.host()}/{self.bits}"

    def cidr(self) -> str:
        """What cidr_out prints."""
        return f"{self.host()}/{self.bits}"


def parse_inet(text: str) -> Network:
    """inet_in."""
    found = _parse(text, cidr=False)
    if found is None:
        raise InvalidTextRepresentation(f'invalid input syntax for type inet: "{text}"')
    return found


def parse_cidr(text: str) -> Network:
    """cidr_in. Raises 22P02 also where bits are set right of the mask."""
    found = _parse(text, cidr=True)
    if found is None:
        raise InvalidTextRepresentation(f'invalid input syntax for type cidr: "{text}"')
    if found.address & found.host_mask:
        raise InvalidTextRepresentation(f'invalid cidr value: "{text}"', detail="Value has bits set to right of mask.")
    return found


def _parse(text: str, *, cidr: bool) -> Network | None:
    dotted = _DOTTED.fullmatch(text)
    if dotted is not None:
        return _ipv4(dotted[1], dotted[2], cidr)
    colons = _COLONS.fullmatch(text)
    if colons is None:
        return None
    try:
        address = int(ipaddress.IPv6Address(colons[1]))
    except ValueError:
        return None
    bits = 128 if colons[2] is None else int(colons[2])
    return Network(6, address, bits) if bits <= 128 else None


def _ipv4(digits: str, prefix: str | None, cidr: bool) -> Network | None:
    octets = [int(octet) for octet in digits.split(".")]
    if len(octets) > 4 or any(octet > 255 for octet in octets):
        return None
    if prefix is not None:
        bits = int(prefix)
        if bits > 32 or (not cidr and bits // 8 > len(octets)):
            return None
    elif cidr:
        bits = max(_class_bits(octets[0]), 8 * len(octets))
        if bits == 8 and octets[0] == 224:
            bits = 4
    elif len(octets) == 4:
        bits = 32
    else:
        return None
    octets += [0] * (4 - len(octets))
    return Network(4, int.from_bytes(bytes(octets)), bits)


def _class_bits(first: int) -> int:
    """The network part that the classes of the 1980s give an address."""
    if first >= 240:
        return 32
    if first >= 224:
        return 8
    return 24 if first >= 192 else 16 if first >= 128 else 8


def _ipv6_text(address: int) -> str:
    words = [(address >> shift) & 0xFFFF for shift in range(112, -1, -16)]
    start, length = _longest_zeros(words)
    embedded = start == 0 and (length == 6 or (length == 5 and words[5] == 0xFFFF))
    count = 6 if embedded else 8
    parts = [f"{word:x}" for word in words[:count]]
    if embedded:
        parts.append(str(ipaddress.IPv4Address(address & 0xFFFFFFFF)))
    if length < 2:
        return ":".join(parts)
    return ":".join(parts[:start]) + "::" + ":".join(parts[start + length :])


def _longest_zeros(words: list[int]) -> tuple[int, int]:
    """Where the first of the longest runs of zero words begins, and how long it is."""
    best, run = (-1, 0), (0, 0)
    for index, word in enumerate(words):
        if word:
            continue
        run = (run[0], run[1] + 1) if run[1] and run[0] + run[1] == index else (index, 1)
        if run[1] > best[1]:
            best = run
    return best
