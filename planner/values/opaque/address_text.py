"""macaddr, macaddr8 and pg_lsn: their values, read from text and printed as PostgreSQL does.

A value is held as the text that its output function prints. Addresses all have one length and lower-case digits, so
their texts compare as they do; positions in the log have not, they compare by `planner.dialects.comparison_keys`.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal

from planner.errors import (
    FeatureNotSupported,
    InvalidParameterValue,
    InvalidTextRepresentation,
    NumericValueOutOfRange,
)

_PAIR = "([0-9a-fA-F]{1,2})"
_FORMS = tuple(
    re.compile(rf"\s*{form}\s*", re.ASCII)
    for form in (
        ":".join([r"([0-9a-fA-F]+)"] * 6),
        "-".join([r"([0-9a-fA-F]+)"] * 6),
        f"{_PAIR * 3}:{_PAIR * 3}",
        f"{_PAIR * 3}-{_PAIR * 3}",
        rf"{_PAIR * 2}\.{_PAIR * 2}\.{_PAIR * 2}",
        f"{_PAIR * 2}-{_PAIR * 2}-{_PAIR * 2}",
        _PAIR * 6,
    )
)
"""The forms that macaddr_in tries, in its order."""

_TID = re.compile(r"\(\s*(\d+),\s*(\d+)\)", re.ASCII)
_LSN = re.compile(r"([0-9a-fA-F]{1,8})/([0-9a-fA-F]{1,8})")
_SPACES = " \t\n\v\f\r"


def show_address(octets: bytes) -> str:
    """What macaddr_out and macaddr8_out print."""
    return octets.hex(":")


def octets_of(address: str) -> bytes:
    """The bytes of a value of macaddr or macaddr8."""
    return bytes.fromhex(address.replace(":", ""))


def parse_macaddr(text: str) -> str:
    """macaddr_in. Raises 22P02, 22003."""
    for form in _FORMS:
        match = form.fullmatch(text)
        if match is not None:
            numbers = [int(digits, 16) for digits in match.groups()]
            if max(numbers) > 255:
                raise NumericValueOutOfRange(f'invalid octet value in "macaddr" value: "{text}"')
            return show_address(bytes(numbers))
    raise InvalidTextRepresentation(f'invalid input syntax for type macaddr: "{text}"')


def parse_macaddr8(text: str) -> str:
    """macaddr8_in: bytes of two digits each, between which the same character stands or none; six of them are made
    eight. Raises 22P02."""
    invalid = InvalidTextRepresentation(f'invalid input syntax for type macaddr8: "{text}"')
    rest = text.lstrip(_SPACES)
    octets: list[int] = []
    spacers: set[str] = set()
    while len(rest) > 1:
        if not re.fullmatch("[0-9a-fA-F]{2}", rest[:2]) or len(octets) == 8:
            raise invalid
        octets.append(int(rest[:2], 16))
        rest = rest[2:]
        if rest[:1] and rest[0] in ":-.":
            spacers.add(rest[0])
            if len(spacers) > 1:
                raise invalid
            rest = rest[1:]
        if len(octets) in (6, 8) and rest[:1] and rest[0] in _SPACES:
            rest = rest.lstrip(_SPACES)
            if rest:
                raise invalid
    if len(octets) == 6:
        return show_address(bytes([*octets[:3], 0xFF, 0xFE, *octets[3:]]))
    if len(octets) != 8:
        raise invalid
    return show_address(bytes(octets))


def macaddr8_of(address: str) -> str:
    """The cast of a macaddr to macaddr8."""
    return f"{address[:8]}:ff:fe:{address[9:]}"


def macaddr_of(address: str) -> str:
    """The cast of a macaddr8 to macaddr. Raises 22003 for what is none."""
    if address[9:14] != "ff:fe":
        raise NumericValueOutOfRange(
            "macaddr8 data out of range to convert to macaddr",
            hint="Only addresses that have FF and FE as values in the 4th and 5th bytes from the left, for example "
            "xx:xx:xx:ff:fe:xx:xx:xx, are eligible to be converted from macaddr8 to macaddr.",
        )
    return address[:8] + address[14:]


def parse_lsn(text: str) -> str:
    """pg_lsn_in. Raises 22P02."""
    match = _LSN.fullmatch(text)
    if match is None:
        raise InvalidTextRepresentation(f'invalid input syntax for type pg_lsn: "{text}"')
    return show_lsn((int(match[1], 16) << 32) | int(match[2], 16))


def parse_tid(text: str) -> str:
    """tid_in. Raises 22P02."""
    match = _TID.match(text)
    if match is None or int(match[1]) >= 1 << 32 or int(match[2]) >= 1 << 16:
        raise InvalidTextRepresentation(f'invalid input syntax for type tid: "{text}"')
    return f"({int(match[1])},{int(match[2])})"


def show_lsn(position: int) -> str:
    """What pg_lsn_out prints."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def lsn_at(number: str) -> str:
    """The value of pg_lsn for a position in the log, a numeric as text (numeric_pg_lsn). Raises 0A000, 22023."""
    position = Decimal(number)
    if not position.is_finite():
        raise FeatureNotSupported(f"cannot convert {'NaN' if position.is_nan() else 'infinity'} to pg_lsn")
    whole = -1 if abs(position) > 1 << 65 else int(position.quantize(Decimal(1), ROUND_HALF_UP))
    if not 0 <= whole < 1 << 64:
        raise InvalidParameterValue("pg_lsn out of range")
    return show_lsn(whole)


def lsn_moved(position: str, bytes_: str, sign: str) -> str:
    """pg_lsn + numeric and pg_lsn - numeric. Raises 0A000, 22023."""
    if Decimal(bytes_).is_nan():
        raise FeatureNotSupported(f"cannot {'add NaN to' if sign == '+' else 'subtract NaN from'} pg_lsn")
    return lsn_at(str(lsn_of(position) + (1 if sign == "+" else -1) * Decimal(bytes_)))


def lsn_of(text: str) -> int:
    """The position in the log that a value of pg_lsn stands for."""
    high, low = text.split("/")
    return (int(high, 16) << 32) | int(low, 16)
