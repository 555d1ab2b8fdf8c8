"""Bit strings, held as the text that they are shown as: ``10110``.

Such texts compare bytewise as PostgreSQL compares bit strings, so engines and indexes take them as they are.
"""

from __future__ import annotations

from planner.errors import InvalidTextRepresentation, StringDataLengthMismatch, StringDataRightTruncation
from planner.types.types import BIT

_HEXADECIMAL = "0123456789abcdefABCDEF"


def parse_bits(text: str) -> str:
    """bit_in and varbit_in without a length: binary digits, or hexadecimal ones after an x. Raises 22P02."""
    if text[:1] in ("x", "X"):
        for digit in text[1:]:
            if digit not in _HEXADECIMAL:
                raise InvalidTextRepresentation(f'"{digit}" is not a valid hexadecimal digit')
        return "".join([f"{int(digit, 16):04b}" for digit in text[1:]])
    bits = text[1:] if text[:1] in ("b", "B") else text
    for digit in bits:
        if digit not in "01":
            raise InvalidTextRepresentation(f'"{digit}" is not a valid binary digit')
    return bits


def fit_bits(bits: str, oid: int, length: int, *, explicit: bool) -> str:
    """`bits` as bit(length) or bit varying(length). A cast that is `explicit` cuts, and fills with zeros, on the right;
    otherwise 22026 and 22001."""
    if oid == BIT:
        if len(bits) != length and not explicit:
            raise StringDataLengthMismatch(f"bit string length {len(bits)} does not match type bit({length})")
        return bits[:length].ljust(length, "0")
    if len(bits) > length and not explicit:
        raise StringDataRightTruncation(f"bit string too long for type bit varying({length})")
    return bits[:length]
