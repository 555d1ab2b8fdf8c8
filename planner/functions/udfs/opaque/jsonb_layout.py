"""Where a container stands in PostgreSQL's binary form of a jsonb value: jsonpath's keyvalue() numbers objects by it.

A container has a header of 4 bytes, 4 bytes for each key and value, then the keys and values themselves; numbers and
containers among them begin at multiples of 4 bytes.
"""

from __future__ import annotations

from decimal import Decimal

_HEADER = _ENTRY = _ALIGNMENT = 4
_NUMBER_HEADER = 6
_GROUP_DIGITS, _GROUP_BYTES = 4, 2


def offset(base: object, wanted: object) -> int:
    """How many bytes after the beginning of `base` the container `wanted`, a part of it, begins."""
    found, _ = _search(base, wanted, 0)
    assert found is not None, "the container is no part of the base"
    return found


def _search(container: object, wanted: object, start: int) -> tuple[int | None, int]:
    """(where `wanted` begins if it is in `container`, which begins at `start`; where the container ends)."""
    if container is wanted:
        return start, start
    assert isinstance(container, (dict, list))
    parts = [*container, *container.values()] if isinstance(container, dict) else container
    position = start + _HEADER + _ENTRY * len(parts)
    for part in parts:
        if isinstance(part, str):
            position += len(part.encode())
        elif isinstance(part, Decimal):
            position = _aligned(position) + _number_bytes(part)
        elif isinstance(part, (dict, list)):
            found, position = _search(part, wanted, _aligned(position))
            if found is not None:
                return found, position
    return None, position


def _aligned(position: int) -> int:
    return (position + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


def _number_bytes(value: Decimal) -> int:
    """The size of a numeric: its digits in groups of four from the decimal point, without zero groups at the ends."""
    whole, _, fraction = format(abs(value), "f").partition(".")
    whole = whole.zfill(-(-len(whole) // _GROUP_DIGITS) * _GROUP_DIGITS)
    fraction = fraction.ljust(-(-len(fraction) // _GROUP_DIGITS) * _GROUP_DIGITS, "0")
    digits = whole + fraction
    groups = [digits[place : place + _GROUP_DIGITS] for place in range(0, len(digits), _GROUP_DIGITS)]
    while groups and not groups[0].strip("0"):
        groups.pop(0)
    while groups and not groups[-1].strip("0"):
        groups.pop()
    return _NUMBER_HEADER + _GROUP_BYTES * len(groups)
