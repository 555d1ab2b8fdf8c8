"""Binary input of types whose values are held as their text: the way back of `frontend.encoding.held_as_text`.

Each function takes a value's bytes, as PostgreSQL's receive functions do. Raises 08P01 for too few or too many of them,
22P03 and the types' own errors for nonsense.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from frontend.encoding.held_as_text import INET_FAMILIES
from planner.errors import (
    DatetimeFieldOverflow,
    InvalidBinaryRepresentation,
    InvalidTimeZoneDisplacementValue,
    ProtocolViolation,
)
from planner.types import types
from planner.values.bytea_text import char_of
from planner.values.geometry.numbers import is_zero
from planner.values.geometry.shapes import Circle, Line, Lseg, Path, Point, Polygon, Shape, box_of, show
from planner.values.opaque.address_text import show_address, show_lsn
from planner.values.opaque.money_text import show_money
from planner.values.opaque.network_text import Network
from planner.values.opaque.timetz import DAY_MICROS, show_timetz

MAX_ZONE_SECONDS = 16 * 3600
"""PostgreSQL's TZDISP_LIMIT."""
_VERSIONS = {family: version for version, family in INET_FAMILIES.items()}
_HEADER_OF_NETWORK = 4
_MAX_XID = (1 << 63) - 1
_MAX_POINTS = ((1 << 31) - 1) // 16
"""How many points may be said to follow; PostgreSQL's bound is that of its memory."""


class LeftoverData(InvalidBinaryRepresentation):
    """The value ended before its bytes did; callers say where it stood."""

    def __init__(self) -> None:
        super().__init__("incorrect binary data format")


def fields(layout: str, data: bytes) -> tuple[Any, ...]:
    """The numbers in `data`, which has exactly these."""
    size = struct.calcsize(layout)
    if len(data) < size:
        raise ProtocolViolation("insufficient data left in message")
    if len(data) > size:
        raise LeftoverData
    return struct.unpack(layout, data)


def _timetz(data: bytes) -> str:
    micros, west = fields(">qi", data)
    if not 0 <= micros <= DAY_MICROS:
        raise DatetimeFieldOverflow("time out of range")
    if not -MAX_ZONE_SECONDS < west < MAX_ZONE_SECONDS:
        raise InvalidTimeZoneDisplacementValue("time zone displacement out of range")
    return show_timetz(micros, -west)


def _network(type_name: str) -> Callable[[bytes], str]:
    """network_recv. Whether the sender says inet or cidr does not count."""

    def invalid(what: str) -> InvalidBinaryRepresentation:
        return InvalidBinaryRepresentation(f'invalid {what} in external "{type_name}" value')

    def read(data: bytes) -> str:
        if len(data) < _HEADER_OF_NETWORK:
            raise ProtocolViolation("no data left in message")
        family, bits, _, size = data[:_HEADER_OF_NETWORK]
        if family not in _VERSIONS:
            raise invalid("address family")
        width = 32 if _VERSIONS[family] == 4 else 128
        if bits > width:
            raise invalid("bits")
        if size * 8 != width:
            raise invalid("length")
        address = data[_HEADER_OF_NETWORK:]
        if len(address) < size:
            raise ProtocolViolation("no data left in message")
        network = Network(_VERSIONS[family], int.from_bytes(address[:size]), bits)
        if type_name == "cidr" and network.address & network.host_mask:
            raise InvalidBinaryRepresentation(
                'invalid external "cidr" value', detail="Value has bits set to right of mask."
            )
        if len(address) > size:
            raise LeftoverData
        return network.inet() if type_name == "inet" else network.cidr()

    return read


def _address(width: int) -> Callable[[bytes], str]:
    def read(data: bytes) -> str:
        if len(data) < width:
            raise ProtocolViolation("no data left in message")
        if len(data) > width:
            raise LeftoverData
        return show_address(data)

    return read


def _char(data: bytes) -> str:
    if not data:
        raise ProtocolViolation("no data left in message")
    return char_of(fields(">B", data)[0])


def _row_address(data: bytes) -> str:
    block, offset = fields(">IH", data)
    return f"({block},{offset})"


def _snapshot(data: bytes) -> str:
    """pg_snapshot_recv: ascending xids, of which one that comes twice is taken once."""
    (count,) = fields(">i", data[:4])
    invalid = InvalidBinaryRepresentation("invalid external pg_snapshot data")
    if count < 0 or count > (1 << 27):
        raise invalid
    xmin, xmax, *xids = fields(f">{2 + count}Q", data[4:])
    if not 0 < xmin <= xmax <= _MAX_XID or xids != sorted(xids) or not all(xmin <= xid < xmax for xid in xids):
        raise invalid
    return f"{xmin}:{xmax}:{','.join(map(str, dict.fromkeys(xids)))}"


def _numbers(count: int) -> Callable[[bytes], tuple[float, ...]]:
    return lambda data: fields(f">{count}d", data)


def _line(data: bytes) -> Line:
    line = Line(*_numbers(3)(data))
    if is_zero(line.a) and is_zero(line.b):
        raise InvalidBinaryRepresentation("invalid line specification: A and B cannot both be zero")
    return line


def _circle(data: bytes) -> Circle:
    x, y, radius = _numbers(3)(data)
    if radius < 0.0:
        raise InvalidBinaryRepresentation('invalid radius in external "circle" value')
    return Circle(Point(x, y), radius)


def _points(data: bytes, name: str) -> tuple[Point, ...]:
    """Points behind their number."""
    (count,) = fields(">i", data[:4])
    if not 0 < count < _MAX_POINTS:
        raise InvalidBinaryRepresentation(f'invalid number of points in external "{name}" value')
    numbers = fields(f">{2 * count}d", data[4:])
    return tuple(map(Point, numbers[::2], numbers[1::2]))


def _path(data: bytes) -> Path:
    if not data:
        raise ProtocolViolation("no data left in message")
    return Path(data[0] != 0, _points(data[1:], "path"))


def _corners(data: bytes) -> tuple[Point, Point]:
    x1, y1, x2, y2 = _numbers(4)(data)
    return Point(x1, y1), Point(x2, y2)


_SHAPES: dict[int, Callable[[bytes], Shape]] = {
    types.POINT: lambda data: Point(*_numbers(2)(data)),
    types.LSEG: lambda data: Lseg(*_corners(data)),
    types.BOX: lambda data: box_of(*_corners(data)),
    types.LINE: _line,
    types.PATH: _path,
    types.POLYGON: lambda data: Polygon(_points(data, "polygon")),
    types.CIRCLE: _circle,
}


def _shown(read: Callable[[bytes], Shape]) -> Callable[[bytes], str]:
    return lambda data: show(read(data))


READERS: dict[int, Callable[[bytes], str]] = {
    types.MACADDR: _address(6),
    types.MACADDR8: _address(8),
    types.PG_LSN: lambda data: show_lsn(fields(">Q", data)[0]),
    types.MONEY: lambda data: show_money(fields(">q", data)[0]),
    **{oid: _shown(read) for oid, read in _SHAPES.items()},
    types.TIMETZ: _timetz,
    types.INET: _network("inet"),
    types.CIDR: _network("cidr"),
    types.TID: _row_address,
    types.XID8: lambda data: str(fields(">Q", data)[0]),
    types.PG_SNAPSHOT: _snapshot,
    types.TXID_SNAPSHOT: _snapshot,
    types.CHAR: _char,
}
"""Readers by the oids of the types."""
