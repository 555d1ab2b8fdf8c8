"""The binary form of types whose values are held as their text: addresses, networks, log positions, money, times with
time zone, what counts transactions and rows, and "char".

`BINARY` has an encoder for each. The layouts are those of PostgreSQL's send functions; `frontend.decoding.held_as_text`
is the way back.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable

import pyarrow as pa

from frontend.encoding.columns import ArrowArray, ColumnEncoder, Encoded, encoded_values
from planner.catalog_data.encodings import encoded
from planner.types import types
from planner.values.bytea_text import char_byte
from planner.values.geometry.shapes import GEOMETRY, Box, Circle, Lseg, Path, Polygon, parse, show
from planner.values.opaque.address_text import lsn_of, octets_of
from planner.values.opaque.hstore_text import pairs_of
from planner.values.opaque.money_text import cents_of
from planner.values.opaque.network_text import Network, parse_cidr, parse_inet
from planner.values.opaque.timetz import fields_of

INET_FAMILIES = {4: 2, 6: 3}
"""What PostgreSQL calls the versions of addresses on the wire, whatever the system calls them."""

_TIMETZ = struct.Struct(">qi")


def _timetz(text: str) -> bytes:
    micros, east = fields_of(text)
    return _TIMETZ.pack(micros, -east)


def _network(network: Network, *, is_cidr: bool) -> bytes:
    width = network.width // 8
    return bytes((INET_FAMILIES[network.version], network.bits, is_cidr, width)) + network.address.to_bytes(width)


def _row_address(text: str) -> bytes:
    block, offset = text.strip("()").split(",")
    return struct.pack(">IH", int(block), int(offset))


def _snapshot(text: str) -> bytes:
    xmin, xmax, running = text.split(":")
    xids = [int(xid) for xid in running.split(",")] if running else []
    return struct.pack(f">i{2 + len(xids)}Q", len(xids), int(xmin), int(xmax), *xids)


def hstore_binary(encoding: str) -> ColumnEncoder:
    """hstore: how many pairs there are, then each text behind its length, which for NULL is -1."""

    def packed(text: str) -> bytes:
        pairs = pairs_of(text)
        parts = [struct.pack(">i", len(pairs))]
        for item in itertools.chain.from_iterable(pairs.items()):
            data = b"" if item is None else encoded(item, encoding)
            parts.append(struct.pack(">i", -1 if item is None else len(data)) + data)
        return b"".join(parts)

    return _encoder(packed)


def _shape(name: str) -> Callable[[str], bytes]:
    """A geometric value: its numbers, those of a path behind whether it is closed and how many points it has, those of
    a polygon behind the latter."""

    def packed(text: str) -> bytes:
        match parse(text, name):
            case Path(closed, points):
                return struct.pack(f">bi{2 * len(points)}d", closed, len(points), *itertools.chain(*points))
            case Polygon(points):
                return struct.pack(f">i{2 * len(points)}d", len(points), *itertools.chain(*points))
            case Circle((x, y), radius):
                return struct.pack(">3d", x, y, radius)
            case Lseg(one, other) | Box(one, other):
                return struct.pack(">4d", *one, *other)
            case numbers:
                return struct.pack(f">{len(numbers)}d", *numbers)

    return packed


def _encoder(value: Callable[[str], bytes]) -> ColumnEncoder:
    def encode(array: ArrowArray) -> Encoded:
        texts = array.to_pylist()
        return encoded_values(pa.array([None if text is None else value(text) for text in texts], pa.binary()))

    return encode


def shape_text_encoder(oid: int, extra_float_digits: int) -> ColumnEncoder:
    """Geometric values with fewer digits than they have."""
    name = GEOMETRY[oid]

    def encode(array: ArrowArray) -> Encoded:
        texts = array.to_pylist()
        shown = [None if text is None else show(parse(text, name), extra_float_digits) for text in texts]
        return encoded_values(pa.array(shown, pa.string()))

    return encode


BINARY: dict[int, ColumnEncoder] = {
    types.MACADDR: _encoder(octets_of),
    types.MACADDR8: _encoder(octets_of),
    types.PG_LSN: _encoder(lambda text: lsn_of(text).to_bytes(8)),
    types.MONEY: _encoder(lambda text: cents_of(text).to_bytes(8, signed=True)),
    **{oid: _encoder(_shape(name)) for oid, name in GEOMETRY.items()},
    types.TIMETZ: _encoder(_timetz),
    types.INET: _encoder(lambda text: _network(parse_inet(text), is_cidr=False)),
    types.CIDR: _encoder(lambda text: _network(parse_cidr(text), is_cidr=True)),
    types.TID: _encoder(_row_address),
    types.XID8: _encoder(lambda text: int(text).to_bytes(8)),
    types.PG_SNAPSHOT: _encoder(_snapshot),
    types.TXID_SNAPSHOT: _encoder(_snapshot),
    types.CHAR: _encoder(lambda text: char_byte(text).to_bytes()),
}
"""Encoders by the oids of the types."""
