"""Binary input of every type with a receive function here: bytes to the Python value of `planner.ir.nodes.Literal`.

Used for parameters and for COPY ... (FORMAT binary). Too few bytes are 08P01, bytes left over or nonsense 22P03, as in
PostgreSQL.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal

import numpy as np

from frontend.decoding import held_as_text
from frontend.decoding.held_as_text import LeftoverData
from frontend.encoding.ranges import EMPTY, LOWER_INCLUSIVE, LOWER_INFINITE, UPPER_INCLUSIVE, UPPER_INFINITE
from frontend.protocol.codec import decode_text
from planner.errors import (
    DatatypeMismatch,
    DatetimeFieldOverflow,
    FeatureNotSupported,
    InvalidBinaryRepresentation,
    NullValueNotAllowed,
    ProgramLimitExceeded,
    ProtocolViolation,
    UndefinedFunction,
)
from planner.ir.array_value import MAX_DIMENSIONS, MAX_ELEMENTS, array_value, check_size
from planner.ir.composite import Composite
from planner.ir.nodes import Interval
from planner.ir.physical import element_type
from planner.types import types
from planner.types.base_types import HSTORE, kind_of, like_text
from planner.types.ranges import RangeType, range_or_multirange
from planner.types.type_names import element_of, format_type
from planner.types.types import SqlType
from planner.types.user_types import Attribute, attributes, enum_of
from planner.values import range_bounds as rb
from planner.values.datetimes.calendar_days import (
    DATE_INFINITY,
    DAY_MICROS,
    DAYS_1970_TO_2000,
    MICROS_1970_TO_2000,
    TIMESTAMP_INFINITY,
    checked_days,
    checked_micros,
    clock_of,
    date_of,
    timestamp_of,
    timestamptz_of,
)
from planner.values.json.json_text import check_json, normalize_jsonb
from planner.values.json.jsonpath_text import parse_jsonpath, show_jsonpath
from planner.values.opaque.hstore_text import ordered, show_hstore
from planner.values.range_codecs import codec_of, plain_value
from planner.values.range_sets import normalized
from planner.values.text_values import apply_typmod
from planner.values.user_values import enum_position

_NUMERIC_POSITIVE, _NUMERIC_NEGATIVE = 0x0000, 0x4000
_NUMERIC_NAN, _NUMERIC_PINF, _NUMERIC_NINF = 0xC000, 0xD000, 0xF000


class _Input:
    """Reads fields; running short is PostgreSQL's protocol error."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def unpack(self, layout: str) -> tuple[int, ...]:
        size = struct.calcsize(layout)
        return struct.unpack(layout, self.raw(size))

    def raw(self, count: int) -> bytes:
        if count < 0 or self.position + count > len(self.data):
            raise ProtocolViolation("insufficient data left in message")
        self.position += count
        return self.data[self.position - count : self.position]

    def rest(self) -> bytes:
        return self.raw(len(self.data) - self.position)


def _number(layout: str) -> Callable[[_Input], object]:
    return lambda source: source.unpack(layout)[0]


def _bool(source: _Input) -> object:
    return source.raw(1) != b"\0"


def _text(source: _Input) -> object:
    return decode_text(source.rest())


def _bytea(source: _Input) -> object:
    return source.rest()


def _versioned(type_name: str) -> Callable[[_Input], str]:
    """A version byte and a text."""

    def read(source: _Input) -> str:
        version = source.raw(1)[0]
        if version != 1:
            raise InvalidBinaryRepresentation(f"unsupported {type_name} version number {version}")
        return decode_text(source.rest())

    return read


def _jsonb(source: _Input) -> object:
    return normalize_jsonb(_versioned("jsonb")(source))


def _json(source: _Input) -> object:
    text = decode_text(source.rest())
    check_json(text)
    return text


def _jsonpath(source: _Input) -> object:
    return show_jsonpath(parse_jsonpath(_versioned("jsonpath")(source)))


MAX_PAIRS = 0x3FFFFFFF // 40
"""Pairs of an hstore: what PostgreSQL has room for in one allocation."""


def _hstore(source: _Input) -> object:
    """hstore_recv: how many pairs there are, then each text behind its length, which for NULL is negative. Raises 54000
    and 22004."""
    (count,) = source.unpack(">i")
    if not 0 <= count <= MAX_PAIRS:
        raise ProgramLimitExceeded(f"number of pairs ({count}) exceeds the maximum allowed ({MAX_PAIRS})")
    pairs: list[tuple[str, str | None]] = []
    for _ in range(count):
        (length,) = source.unpack(">i")
        if length < 0:
            raise NullValueNotAllowed("null value not allowed for hstore key")
        key = decode_text(source.raw(length))
        (length,) = source.unpack(">i")
        pairs.append((key, None if length < 0 else decode_text(source.raw(length))))
    return show_hstore(ordered(pairs))


def _void(source: _Input) -> object:
    """void_recv, which takes nothing: bytes are left over."""
    return ""


def _vector(element_oid: int) -> Callable[[_Input], object]:
    """int2vectorrecv and oidvectorrecv: an array of one dimension that begins at 0 and has no NULL."""
    name = format_type(types.INT2VECTOR if element_oid == types.INT2 else types.OIDVECTOR)

    def read(source: _Input) -> object:
        dimensions, flags, oid = source.unpack(">iiI")
        if dimensions < 0 or dimensions > MAX_DIMENSIONS:
            raise _wrong_dimensions(dimensions)
        if flags not in (0, 1):
            raise InvalidBinaryRepresentation("invalid array flags")
        if oid != element_oid:
            raise array_of_another_type(oid, element_oid)
        if dimensions != 1:
            raise InvalidBinaryRepresentation(f"invalid {name} data")
        count, lower = source.unpack(">ii")
        if count < 0:
            raise ProgramLimitExceeded(f"array size exceeds the maximum allowed ({MAX_ELEMENTS})")
        items: list[object] = []
        for _ in range(count):
            (length,) = source.unpack(">i")
            items.append(None if length == -1 else parse_binary(source.raw(length), SqlType(element_oid)))
        if lower != 0 or None in items:
            raise InvalidBinaryRepresentation(f"invalid {name} data")
        return tuple(items)

    return read


def _whole(read: Callable[[bytes], object]) -> Callable[[_Input], object]:
    return lambda source: read(source.rest())


def _bits(source: _Input) -> object:
    (length,) = source.unpack(">i")
    if length < 0:
        raise InvalidBinaryRepresentation("invalid length in external bit string")
    data = source.raw((length + 7) // 8)
    return "".join([f"{byte:08b}" for byte in data])[:length]


def _uuid(source: _Input) -> object:
    return str(uuid.UUID(bytes=source.raw(16)))


def _date(source: _Input) -> object:
    (days,) = source.unpack(">i")
    if days == DATE_INFINITY:
        return "infinity"
    if days == -DATE_INFINITY - 1:
        return "-infinity"
    return date_of(checked_days(days + DAYS_1970_TO_2000))


def _time(source: _Input) -> object:
    (micros,) = source.unpack(">q")
    if not 0 <= micros <= DAY_MICROS:
        raise DatetimeFieldOverflow("time out of range")
    return clock_of(micros)


def _timestamp(of: Callable[[int], object]) -> Callable[[_Input], object]:
    def read(source: _Input) -> object:
        (micros,) = source.unpack(">q")
        if micros == TIMESTAMP_INFINITY:
            return "infinity"
        if micros == -TIMESTAMP_INFINITY - 1:
            return "-infinity"
        return of(checked_micros(micros + MICROS_1970_TO_2000))

    return read


def _interval(source: _Input) -> object:
    micros, days, months = source.unpack(">qii")
    return Interval(months=months, days=days, micros=micros)


def _numeric(source: _Input) -> object:
    count, weight, sign, scale = source.unpack(">HhHH")
    digits = source.unpack(f">{count}H")
    if sign == _NUMERIC_NAN:
        return Decimal("NaN")
    if sign == _NUMERIC_PINF:
        return Decimal("Infinity")
    if sign == _NUMERIC_NINF:
        return Decimal("-Infinity")
    if sign not in (_NUMERIC_POSITIVE, _NUMERIC_NEGATIVE):
        raise InvalidBinaryRepresentation('invalid sign in external "numeric" value')
    if scale > 0x3FFF:
        raise InvalidBinaryRepresentation('invalid scale in external "numeric" value')
    if any(digit > 9999 for digit in digits):
        raise InvalidBinaryRepresentation('invalid digit in external "numeric" value')
    whole = "".join([f"{digit:04d}" for digit in digits])
    # Shift the digits so that exactly `scale` of them remain behind the point; the sender may have sent more.
    shift = 4 * (weight - count + 1) + scale
    unscaled = whole + "0" * shift if shift >= 0 else whole[:shift]
    negative = sign == _NUMERIC_NEGATIVE and unscaled.strip("0") != ""
    return Decimal((negative, tuple(map(int, unscaled or "0")), -scale))


_PLAIN_NUMBERS = {
    types.INT2: ">i2", types.INT4: ">i4", types.INT8: ">i8", types.FLOAT4: ">f4", types.FLOAT8: ">f8", types.OID: ">u4",
}  # fmt: skip


def _plain_numbers(source: _Input, oid: int, count: int) -> tuple[object, ...] | None:
    """The next `count` items of an array of the type `oid`, all at once, when they are numbers without a NULL among
    them and nothing follows; otherwise None, and nothing is read."""
    layout = _PLAIN_NUMBERS.get(oid)
    if layout is None:
        return None
    items = np.dtype([("length", ">i4"), ("value", layout)])
    size = len(source.data) - source.position
    if count <= 0 or size != count * items.itemsize:
        return None
    found = np.frombuffer(source.data, items, count, source.position)
    if (found["length"] != items["value"].itemsize).any():
        return None
    source.position += size
    return tuple(found["value"].tolist())


def _wrong_dimensions(count: int) -> InvalidBinaryRepresentation | ProgramLimitExceeded:
    if count < 0:
        return InvalidBinaryRepresentation(f"invalid number of dimensions: {count}")
    return ProgramLimitExceeded(f"number of array dimensions ({count}) exceeds the maximum allowed ({MAX_DIMENSIONS})")


_MADE_AT_START = 10_000
"""Oids from here on are not the same in every database."""


def _is_another(oid: int, expected: int) -> bool:
    """Whether what is sent says to be of another type than is `expected`. What is said of a type that is not
    PostgreSQL's own, a domain for one, counts for nothing."""
    return oid != expected and oid < _MADE_AT_START and expected < _MADE_AT_START


def array_of_another_type(oid: int, expected: int) -> DatatypeMismatch:
    """The error for an array whose elements say that they are of another type."""
    return DatatypeMismatch(
        f"binary data has array element type {oid} ({format_type(oid)}) instead of expected {expected} "
        f"({format_type(expected)})"
    )


def _array(sql_type: SqlType, element_oid: int) -> Callable[[_Input], object]:
    element = SqlType(element_oid, sql_type.typmod, sql_type.shape)
    declared = element_of(sql_type.declared_oid) or element_oid  # a domain, in the array over one

    def read(source: _Input) -> object:
        dimensions, flags, oid = source.unpack(">iiI")
        if dimensions < 0 or dimensions > MAX_DIMENSIONS:
            raise _wrong_dimensions(dimensions)
        if flags not in (0, 1):
            raise InvalidBinaryRepresentation("invalid array flags")
        if _is_another(oid, declared):
            raise array_of_another_type(oid, declared)
        pairs = [source.unpack(">ii") for _ in range(dimensions)]
        lengths, lower_bounds = [length for length, _ in pairs], [lower for _, lower in pairs]
        if any(length < 0 for length in lengths):
            raise ProgramLimitExceeded(f"array size exceeds the maximum allowed ({MAX_ELEMENTS})")
        count = check_size(lengths, lower_bounds) if lengths else 0
        if not count:
            return ()
        items = _plain_numbers(source, element_oid, count)
        if items is None:
            items = tuple([item(source) for _ in range(count)])
        return array_value(items, lengths, lower_bounds)

    def item(source: _Input) -> object:
        (length,) = source.unpack(">i")
        return None if length == -1 else parse_binary(source.raw(length), element)

    return read


def _bounds(range_type: RangeType, source: _Input) -> rb.Bounds | None:
    subtype = SqlType(range_type.subtype)
    # Flags that PostgreSQL does not know are none.
    flags = source.raw(1)[0]

    def bound(infinite: int) -> object:
        if flags & (EMPTY | infinite):
            return None
        (length,) = source.unpack(">i")
        return plain_value(parse_binary(source.raw(length), subtype), subtype.oid)

    lower, upper = bound(LOWER_INFINITE), bound(UPPER_INFINITE)
    if flags & EMPTY:
        return None
    lower_inc, upper_inc = bool(flags & LOWER_INCLUSIVE), bool(flags & UPPER_INCLUSIVE)
    return rb.bounds_of(range_type, lower, upper, lower_inc=lower_inc, upper_inc=upper_inc)


def _range(range_type: RangeType) -> Callable[[_Input], object]:
    return lambda source: rb.encode_range(_bounds(range_type, source))


def _multirange(range_type: RangeType) -> Callable[[_Input], object]:
    def read(source: _Input) -> object:
        found: list[rb.Bounds] = []
        for _ in range(source.unpack(">I")[0]):
            (length,) = source.unpack(">i")
            part = _Input(source.raw(length))
            bounds = _bounds(range_type, part)
            found += [] if bounds is None else [bounds]
        return rb.encode_multirange(normalized(codec_of(range_type), found))

    return read


def _record(source: _Input, fields: Sequence[Attribute]) -> Composite:
    """record_recv."""
    (count,) = source.unpack(">i")
    if count != len(fields):
        raise DatatypeMismatch(f"wrong number of columns: {count}, expected {len(fields)}")
    items: list[object] = []
    for number, field in enumerate(fields, 1):
        oid, length = source.unpack(">Ii")
        expected = field.type.declared_oid
        if _is_another(oid, expected):
            raise DatatypeMismatch(
                f"binary data has type {oid} ({format_type(oid)}) instead of expected {expected} "
                f"({format_type(expected)}) in record column {number}"
            )
        items.append(None if length == -1 else parse_binary(source.raw(length), field.type))
    if source.rest():
        raise LeftoverData
    return Composite(tuple(items))


_NUMBERS = {
    types.INT2: struct.Struct(">h"),
    types.INT4: struct.Struct(">i"),
    types.INT8: struct.Struct(">q"),
    types.FLOAT4: struct.Struct(">f"),
    types.FLOAT8: struct.Struct(">d"),
}

_READERS: dict[int, Callable[[_Input], object]] = {
    **{oid: _number(packed.format) for oid, packed in _NUMBERS.items()},
    types.BOOL: _bool,
    types.NUMERIC: _numeric,
    types.BYTEA: _bytea,
    types.DATE: _date,
    types.TIME: _time,
    types.TIMESTAMP: _timestamp(timestamp_of),
    types.TIMESTAMPTZ: _timestamp(timestamptz_of),
    types.INTERVAL: _interval,
    types.UUID: _uuid,
    types.BIT: _bits,
    types.VARBIT: _bits,
    types.JSON: _json,
    types.JSONB: _jsonb,
    types.JSONPATH: _jsonpath,
    types.INT2VECTOR: _vector(types.INT2),
    types.OIDVECTOR: _vector(types.OID),
    types.VOID: _void,
    **{oid: _whole(read) for oid, read in held_as_text.READERS.items()},
}
for _oid in (
    types.TEXT, types.VARCHAR, types.BPCHAR, types.NAME, types.UNKNOWN, types.REFCURSOR,
):  # fmt: skip
    _READERS[_oid] = _text
for _oid in (
    types.OID, types.XID, types.REGPROC, types.REGPROCEDURE, types.REGOPER, types.REGOPERATOR, types.REGCLASS,
    types.REGTYPE, types.REGNAMESPACE, types.REGROLE, types.REGCONFIG, types.REGDICTIONARY, types.REGCOLLATION,
    types.CID,
):  # fmt: skip
    _READERS[_oid] = _number(">I")


def has_binary_input(sql_type: SqlType) -> bool:
    """Whether `parse_binary` knows the type."""
    oid = like_text(sql_type).oid
    if oid in _READERS or kind_of(oid) is not None or range_or_multirange(oid) is not None:
        return True
    inner = element_of(oid)
    if inner and has_binary_input(SqlType(inner)):
        return True
    inner = inner or oid
    return enum_of(inner) is not None or attributes(inner) is not None


def parse_binary(data: bytes, sql_type: SqlType) -> object:
    """The value of a literal of this type, with its length or precision enforced as a receive function of PostgreSQL
    does. Raises 08P01, 22P03, 22021, 22008, 42883, 22001, 22003, 22026."""
    sql_type = like_text(sql_type)
    number = _NUMBERS.get(sql_type.oid)
    if number is not None and len(data) == number.size:
        return number.unpack(data)[0]
    reader = _READERS.get(sql_type.oid)
    range_type = range_or_multirange(sql_type.oid)
    if range_type is not None:
        reader = _range(range_type) if range_type.oid == sql_type.oid else _multirange(range_type)
    if reader is None and kind_of(sql_type.oid) == HSTORE:
        reader = _hstore
    if reader is None:
        enum = enum_of(sql_type.oid)
        if enum is not None:
            return enum_position(enum, decode_text(data))
        if sql_type.oid == types.RECORD:
            raise FeatureNotSupported("input of anonymous composite types is not implemented")
        fields = attributes(sql_type.oid)
        if fields is not None:
            return _record(_Input(data), fields)
        element = element_type(sql_type)
        element_oid = 0 if element is None else element.oid
        if not element_oid:
            raise UndefinedFunction(f"no binary input function available for type {format_type(sql_type.oid)}")
        reader = _array(sql_type, element_oid)
    source = _Input(data)
    value = reader(source)
    if source.position != len(data):
        raise LeftoverData()
    return value if sql_type.typmod < 0 else apply_typmod(value, sql_type, explicit=False)
