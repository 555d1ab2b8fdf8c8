"""The physical form of each type: the Arrow type of a column in storage and in an engine's result.

interval is a struct of months, days and microseconds; uuid is canonical lower-case text; json and jsonb are text;
bpchar is stored padded; a record is its text form; ranges and multiranges are bytes that compare as they do
(planner.values.range_bounds); an array is a list, or, where its type is `dimensioned`, a struct of the list of all its
elements and of the dimensions as `planner.ir.array_value` has them, NULL for an ordinary list; a value of an enum is
the number that orders it, one of a composite type a struct. A numeric without a precision, or whose display scale
depends on the value, is the text that PostgreSQL shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from msgspec.structs import replace

from planner.ir.nodes import Field
from planner.types import types
from planner.types.derived_oids import FIRST_USER_TYPE
from planner.types.ranges import range_arrays, range_or_multirange
from planner.types.type_names import array_of, element_of
from planner.types.types import SqlType, column_type
from planner.types.user_types import attributes, enum_of

INTERVAL = pa.struct([pa.field("months", pa.int32()), pa.field("days", pa.int32()), pa.field("micros", pa.int64())])
"""interval: three numbers that are never normalised across each other."""

DIMENSIONS = pa.list_(pa.int32())
"""The dimensions and lower bounds of an array."""

_SCALARS: dict[int, pa.DataType] = {
    types.BOOL: pa.bool_(),
    types.INT2: pa.int16(),
    types.INT4: pa.int32(),
    types.INT8: pa.int64(),
    types.FLOAT4: pa.float32(),
    types.FLOAT8: pa.float64(),
    types.BYTEA: pa.binary(),
    types.DATE: pa.date32(),
    types.TIME: pa.time64("us"),
    types.TIMESTAMP: pa.timestamp("us"),
    types.TIMESTAMPTZ: pa.timestamp("us", tz="UTC"),
    types.INTERVAL: INTERVAL,
}

OID_TYPES = frozenset(
    {
        types.OID, types.XID, types.REGPROC, types.REGPROCEDURE, types.REGOPER, types.REGOPERATOR, types.REGCLASS,
        types.REGTYPE, types.REGNAMESPACE, types.REGROLE, types.CID, types.REGCONFIG, types.REGDICTIONARY,
        types.REGCOLLATION,
    }
)  # fmt: skip
"""oid and its aliases: unsigned 32-bit numbers, held as int64."""

ARRAY_ELEMENTS: dict[int, int] = {
    1000: types.BOOL, 1001: types.BYTEA, 1002: types.CHAR, 1003: types.NAME, 1016: types.INT8, 1005: types.INT2,
    1006: types.INT2VECTOR, 1007: types.INT4, 1008: types.REGPROC, 1009: types.TEXT, 1028: types.OID, 1010: types.TID,
    1011: types.XID, 1012: types.CID, 1013: types.OIDVECTOR, 199: types.JSON, 1021: types.FLOAT4, 1022: types.FLOAT8,
    1014: types.BPCHAR, 1015: types.VARCHAR, 1182: types.DATE, 1183: types.TIME, 1115: types.TIMESTAMP,
    1185: types.TIMESTAMPTZ, 1187: types.INTERVAL, 1231: types.NUMERIC, 2951: types.UUID, 3807: types.JSONB,
    2210: types.REGCLASS, 2211: types.REGTYPE, 2207: types.REGPROCEDURE, 2208: types.REGOPER, 2209: types.REGOPERATOR,
    4090: types.REGNAMESPACE, 4097: types.REGROLE, 2287: types.RECORD, 1034: types.ACLITEM, 1263: types.CSTRING,
    1041: types.INET, 651: types.CIDR, 1561: types.BIT, 1563: types.VARBIT,
    271: types.XID8, 2949: types.TXID_SNAPSHOT, 5039: types.PG_SNAPSHOT, 4073: types.JSONPATH, 2201: types.REFCURSOR,
    3735: types.REGCONFIG, 3770: types.REGDICTIONARY, 4192: types.REGCOLLATION,
    1040: types.MACADDR, 775: types.MACADDR8, 3221: types.PG_LSN, 791: types.MONEY, 1270: types.TIMETZ,
    1017: types.POINT, 1018: types.LSEG, 1019: types.PATH, 1020: types.BOX, 1027: types.POLYGON, 629: types.LINE,
    719: types.CIRCLE,
    types.INT2VECTOR: types.INT2, types.OIDVECTOR: types.OID, **range_arrays(),
}  # fmt: skip
"""Element type of each array type, by OID; the vectors among them."""

ELEMENT_ARRAYS: dict[int, int] = {
    element: array for array, element in ARRAY_ELEMENTS.items() if array not in (types.INT2VECTOR, types.OIDVECTOR)
}
"""Array type of each element type, by OID."""


def element_type(type: SqlType) -> SqlType | None:
    """The element type of an array type, or None when `type` is no array."""
    if type.oid > FIRST_USER_TYPE:
        inner = element_of(type.oid)
        return column_type(inner, type.typmod) if inner else None
    element = ARRAY_ELEMENTS.get(type.oid)
    return None if element is None else SqlType(element, type.typmod, type.shape)


def listed(type: SqlType) -> SqlType:
    """The type of the elements of an array of `type` as one list, without dimensions."""
    return replace(type, dimensioned=False) if type.dimensioned else type


def array_type(element: SqlType) -> SqlType:
    """The array type over `element`; KeyError when there is none."""
    if element.oid > FIRST_USER_TYPE:
        return SqlType(array_of(element.oid), element.typmod)
    return SqlType(ELEMENT_ARRAYS[element.oid], element.typmod, element.shape)


class _ArrowTypes(dict[SqlType, pa.DataType]):
    """Arrow types by type, those of built-in ones kept: looking one up again is no call in Python."""

    def __missing__(self, type: SqlType) -> pa.DataType:
        if type.oid > FIRST_USER_TYPE:
            return _of_user(type)
        if len(self) >= MAX_KEPT_TYPES:
            self.clear()
        found = self[type] = _of_built_in(type)
        return found


MAX_KEPT_TYPES = 4096
"""Types whose Arrow type is kept: those of the columns and expressions of many statements."""

arrow_type: Callable[[SqlType], pa.DataType] = _ArrowTypes().__getitem__
"""The Arrow type in which values of a type are stored and returned by engines."""


def _array(type: SqlType, element: SqlType) -> pa.DataType:
    items = pa.list_(arrow_type(element))
    if not type.dimensioned:
        return items
    return pa.struct([pa.field("items", items), pa.field("dims", DIMENSIONS)])


def _of_user(type: SqlType) -> pa.DataType:
    element = element_type(type)
    if element is not None:
        return _array(type, element)
    fields = attributes(type.oid)
    if fields is not None:
        return pa.struct([pa.field(field.physical, arrow_type(field.type)) for field in fields])
    if range_or_multirange(type.oid) is not None:
        return pa.binary()
    return pa.int64() if enum_of(type.oid) is not None else pa.string()


def _of_built_in(type: SqlType) -> pa.DataType:
    scalar = _SCALARS.get(type.oid)
    if scalar is not None:
        return scalar
    if type.oid == types.NUMERIC:
        shape = type.shape
        return pa.decimal128(shape.precision, shape.scale) if shape is not None and shape.exact_scale else pa.string()
    if type.oid in OID_TYPES:
        return pa.int64()
    if range_or_multirange(type.oid) is not None:
        return pa.binary()
    element = element_type(type)
    if element is not None:
        return _array(type, element)
    return pa.string()


def arrow_schema(fields: Sequence[Field]) -> pa.Schema:
    """The Arrow schema of a relation's rows: columns ``c<id>`` in order."""
    return pa.schema([pa.field(f"c{field.id}", arrow_type(field.type)) for field in fields])
