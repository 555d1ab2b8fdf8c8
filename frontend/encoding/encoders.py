"""Which encoder a column of a type and format gets.

`column_encoder` is the only entry. A type without a binary form here raises PostgreSQL's error for a type without a
send function.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from adapter.plans.computed.constant_rows import array_of
from adapter.system_catalogs.functions.reg_columns import REG_VALUE
from frontend.encoding import composites, datetimes, held_as_text, intervals, numbers, scalars
from frontend.encoding.columns import ArrowArray, ColumnEncoder, Encoded, encoded_values, null_mask
from frontend.encoding.ranges import range_binary_encoder, range_text_encoder
from frontend.encoding.settings import FormatSettings
from frontend.encoding.transcoding import transcoded
from planner.calls.record_shapes import RecordShape
from planner.common_errors import unsupported_format
from planner.errors import FeatureNotSupported, UndefinedFunction
from planner.ir import physical
from planner.ir.physical import ELEMENT_ARRAYS
from planner.types import types
from planner.types.base_types import HSTORE, kind_of
from planner.types.ranges import range_or_multirange
from planner.types.type_names import format_type
from planner.types.types import SqlType
from planner.types.user_types import attributes, enum_of
from planner.values.array_text import delimiter_of
from planner.values.geometry.shapes import GEOMETRY
from planner.values.record_text import record_items
from planner.values.text_values import parse_text

TEXT_FORMAT = 0
BINARY_FORMAT = 1

_TEXT_LIKE = {
    types.CHAR, types.NAME, types.TEXT, types.JSON, types.XML, types.PG_NODE_TREE, types.UNKNOWN, types.BPCHAR,
    types.VARCHAR, types.REFCURSOR,
}  # fmt: skip
_OID_LIKE = {
    types.OID, types.XID, types.REGPROC, types.REGPROCEDURE, types.REGOPER, types.REGOPERATOR, types.REGCLASS,
    types.REGTYPE, types.REGNAMESPACE, types.REGROLE, types.REGCONFIG, types.REGDICTIONARY, types.REGCOLLATION,
    types.CID,
}  # fmt: skip
"""oid and its aliases, regconfig, regdictionary and regcollation among them. A value of an alias is an oid or, with
the name of the object, a struct of oid and name."""
_UNQUOTED_ELEMENTS = {
    types.BOOL, types.INT2, types.INT4, types.INT8, types.OID, types.FLOAT4, types.FLOAT8, types.NUMERIC,
    types.TIME, types.UUID, types.BOX,
}  # fmt: skip


_OID_BINARY = scalars.fixed_binary_encoder(pa.int64(), ">u4")


@lru_cache(maxsize=1024)
def column_encoder(
    sql_type: SqlType, arrow_type: Any, format_code: int, settings: FormatSettings, shape: RecordShape | None = None
) -> ColumnEncoder:
    """The encoder for a column of this type, whose arrays have this Arrow type, in text (0) or binary (1). Encoders are
    stateless, so results share them; the labels of enums are looked up when values are encoded. `shape` is what is
    known of records held as text. Raises 22023 for another format."""
    if format_code not in (TEXT_FORMAT, BINARY_FORMAT):
        raise unsupported_format(format_code)
    if pa.types.is_null(arrow_type):
        return _all_null
    if format_code == BINARY_FORMAT:
        return _binary(sql_type, arrow_type, settings, shape)
    return transcoded(_text(sql_type, arrow_type, settings), settings.encoding)


def _is_reg_value(arrow_type: Any) -> bool:
    """An oid alias with the name that stands for it (adapter.system_catalogs.functions.reg_columns)."""
    return bool(arrow_type == REG_VALUE)


def _reg_field(array: ArrowArray, name: str) -> ArrowArray:
    """A field of the struct, NULL where the struct is."""
    field = array.field(name)
    return field if array.null_count == 0 else pc.if_else(array.is_valid(), field, pa.scalar(None, field.type))


def _reg_name(array: ArrowArray) -> Encoded:
    return encoded_values(_reg_field(array, "name"))


def _reg_oid(array: ArrowArray) -> Encoded:
    return _OID_BINARY(_reg_field(array, "oid"))


def _all_null(array: ArrowArray) -> Encoded:
    return encoded_values(array.cast(pa.binary()))


def _element_type(array_oid: int, sql_type: SqlType) -> SqlType:
    element = physical.element_type(sql_type)
    return SqlType(types.TEXT if element is None else element.oid, sql_type.typmod, sql_type.shape)


_VECTORS = (types.INT2VECTOR, types.OIDVECTOR)


def _element_arrow_type(arrow_type: Any, element: SqlType | None = None) -> Any:
    if element is not None and element.oid in _VECTORS:
        return arrow_type.value_type
    while pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type) or pa.types.is_fixed_size_list(arrow_type):
        arrow_type = arrow_type.value_type
    return arrow_type


def _is_text(arrow_type: Any) -> bool:
    if pa.types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    return bool(
        pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type) or pa.types.is_string_view(arrow_type)
    )


def _text(sql_type: SqlType, arrow_type: Any, settings: FormatSettings) -> ColumnEncoder:
    oid = sql_type.oid
    if oid in GEOMETRY and settings.extra_float_digits < 1:
        return held_as_text.shape_text_encoder(oid, settings.extra_float_digits)
    if _is_text(arrow_type):
        return encoded_values
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type) or pa.types.is_fixed_size_list(arrow_type):
        if oid in _VECTORS:
            return composites.vector_text_encoder(numbers.integer_text)
        element = _element_type(oid, sql_type)
        encode = _text(element, _element_arrow_type(arrow_type, element), settings)
        return composites.array_text_encoder(
            encode,
            quoted=element.oid not in _UNQUOTED_ELEMENTS,
            separator=delimiter_of(element.oid),
            of_lists=element.oid in _VECTORS,
        )
    if sql_type.dimensioned and pa.types.is_struct(arrow_type):
        element = _element_type(oid, sql_type)
        encode = _text(element, arrow_type.field("items").type.value_type, settings)
        if oid in _VECTORS:
            return composites.only_lists(composites.vector_text_encoder(encode), format_type(oid))
        return composites.dimensioned_text_encoder(
            encode,
            quoted=element.oid not in _UNQUOTED_ELEMENTS,
            separator=delimiter_of(element.oid),
            of_lists=element.oid in _VECTORS,
        )
    if oid in _OID_LIKE and pa.types.is_struct(arrow_type):
        return _object_name
    if _is_reg_value(arrow_type):
        return _reg_name
    if pa.types.is_struct(arrow_type) and oid != types.INTERVAL:
        declared = attributes(oid)
        if declared is not None:
            return composites.record_text_encoder(
                [_text(field.type, arrow_type.field(index).type, settings) for index, field in enumerate(declared)]
            )
        fields = [
            _text(inferred_type(arrow_type.field(index).type), arrow_type.field(index).type, settings)
            for index in range(arrow_type.num_fields)
        ]
        return composites.record_text_encoder(fields)
    simple: dict[int, ColumnEncoder] = {
        types.BOOL: scalars.bool_text,
        types.TIME: datetimes.time_text,
        types.UUID: scalars.uuid_text,
        types.VOID: scalars.void_value,
    }
    built: dict[int, Callable[[], ColumnEncoder]] = {
        types.FLOAT4: lambda: numbers.float_text_encoder(single=True, extra_float_digits=settings.extra_float_digits),
        types.FLOAT8: lambda: numbers.float_text_encoder(single=False, extra_float_digits=settings.extra_float_digits),
        types.NUMERIC: lambda: numbers.numeric_text,
        types.BYTEA: lambda: scalars.bytea_text_encoder(settings.bytea_output),
        types.DATE: lambda: datetimes.date_text_encoder(settings),
        types.TIMESTAMP: lambda: datetimes.timestamp_text_encoder(settings, with_zone=False),
        types.TIMESTAMPTZ: lambda: datetimes.timestamp_text_encoder(settings, with_zone=True),
        types.INTERVAL: lambda: intervals.interval_text_encoder(settings),
    }
    if oid in simple:
        return simple[oid]
    if oid in built:
        return built[oid]()
    if range_or_multirange(oid) is not None:
        return range_text_encoder(sql_type, settings)
    if enum_of(oid) is not None:
        return scalars.enum_encoder(oid)
    if pa.types.is_integer(arrow_type):
        return numbers.integer_text
    return encoded_values


def _object_name(array: ArrowArray) -> Encoded:
    return encoded_values(pc.struct_field(array, [1]))


def _object_oid(array: ArrowArray) -> Encoded:
    return scalars.fixed_binary_encoder(pa.int64(), ">u4")(pc.struct_field(array, [0]))


def _binary(
    sql_type: SqlType, arrow_type: Any, settings: FormatSettings, shape: RecordShape | None = None
) -> ColumnEncoder:
    oid = sql_type.oid
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type) or pa.types.is_fixed_size_list(arrow_type):
        if oid in _VECTORS:
            element, lower_bound = SqlType(types.INT2 if oid == types.INT2VECTOR else types.OID), 0
        else:
            element, lower_bound = _element_type(oid, sql_type), 1
        return composites.array_binary_encoder(
            _binary(element, _element_arrow_type(arrow_type, element), settings, shape),
            element_oid=element.oid,
            lower_bound=lower_bound,
            of_lists=element.oid in _VECTORS,
        )
    if sql_type.dimensioned and pa.types.is_struct(arrow_type):
        element = _element_type(oid, sql_type)
        encode = _binary(element, arrow_type.field("items").type.value_type, settings)
        return composites.dimensioned_binary_encoder(encode, element_oid=element.oid, of_lists=element.oid in _VECTORS)
    if oid in _OID_LIKE and pa.types.is_struct(arrow_type):
        return _object_oid
    if _is_reg_value(arrow_type):
        return _reg_oid
    if pa.types.is_struct(arrow_type) and oid != types.INTERVAL:
        declared = attributes(oid)
        if declared is not None:
            return composites.record_binary_encoder(
                [
                    (field.type.declared_oid, _binary(field.type, arrow_type.field(index).type, settings))
                    for index, field in enumerate(declared)
                ]
            )
        fields = []
        for index in range(arrow_type.num_fields):
            field_type = inferred_type(arrow_type.field(index).type)
            fields.append((field_type.oid, _binary(field_type, arrow_type.field(index).type, settings)))
        return composites.record_binary_encoder(fields)
    if oid in _OID_LIKE and not _is_text(arrow_type):
        return _OID_BINARY
    simple: dict[int, ColumnEncoder] = {
        types.BOOL: scalars.bool_binary,
        types.INT2: scalars.fixed_binary_encoder(pa.int16(), ">i2"),
        types.INT4: scalars.fixed_binary_encoder(pa.int32(), ">i4"),
        types.INT8: scalars.fixed_binary_encoder(pa.int64(), ">i8"),
        types.FLOAT4: scalars.fixed_binary_encoder(pa.float32(), ">f4"),
        types.FLOAT8: scalars.fixed_binary_encoder(pa.float64(), ">f8"),
        types.NUMERIC: numbers.wide_numeric_binary if _is_text(arrow_type) else numbers.numeric_binary,
        types.BYTEA: encoded_values,
        types.DATE: datetimes.date_binary,
        types.TIME: datetimes.time_binary,
        types.TIMESTAMP: datetimes.timestamp_binary,
        types.TIMESTAMPTZ: datetimes.timestamp_binary,
        types.INTERVAL: intervals.interval_binary,
        types.UUID: scalars.uuid_binary,
        types.JSONB: transcoded(scalars.versioned_binary, settings.encoding),
        types.JSONPATH: transcoded(scalars.versioned_binary, settings.encoding),
        **held_as_text.BINARY,
        types.VOID: scalars.void_value,
        types.BIT: scalars.bits_binary,
        types.VARBIT: scalars.bits_binary,
    }
    if oid in simple:
        return simple[oid]
    if range_or_multirange(oid) is not None:
        return range_binary_encoder(sql_type)
    if enum_of(oid) is not None:
        return transcoded(scalars.enum_encoder(oid), settings.encoding)
    if kind_of(oid) == HSTORE:
        return held_as_text.hstore_binary(settings.encoding)
    if oid == types.RECORD:
        if shape is None:
            return _record_without_shape
        return _record_of_text(shape, settings)
    if oid == types.ACLITEM:
        raise UndefinedFunction("no binary output function available for type aclitem")
    if oid in _TEXT_LIKE or (oid not in _OID_LIKE and _is_text(arrow_type)):
        return transcoded(encoded_values, settings.encoding)
    raise UndefinedFunction(f"no binary output function available for type {format_type(oid)}")


def _record_without_shape(array: ArrowArray) -> Encoded:
    """NULL alone: what a row's fields are is not in its text. Raises 0A000 for all else."""
    if array.null_count != len(array):
        raise FeatureNotSupported(
            "binary output of rows whose fields are not known is not supported",
            hint="Ask for the row's fields, or cast it to text.",
        )
    return encoded_values(array)


def _record_of_text(shape: RecordShape, settings: FormatSettings) -> ColumnEncoder:
    """Records that are held as text, in binary. Raises 0A000 where their texts have names of objects."""
    if any((physical.element_type(field) or field).oid in types.REG_TYPES for field in shape.fields):
        raise FeatureNotSupported("binary output of rows with names of objects is not supported")
    fields = [
        (field.declared_oid, _binary(field, physical.arrow_type(field), settings, inner))
        for field, inner in zip(shape.fields, shape.nested, strict=True)
    ]

    written = {
        "DateStyle": f"{settings.date_style}, {settings.date_order}",
        "TimeZone": settings.time_zone,
        "IntervalStyle": settings.interval_style,
    }

    def value(text: str | None, field: SqlType) -> object:
        return None if text is None else parse_text(text, field, written)

    def encode(array: ArrowArray) -> Encoded:
        rows = [None if text is None else tuple(record_items(text, len(fields))) for text in array.to_pylist()]
        columns = [
            array_of(field, [None if row is None else value(row[index], field) for row in rows])
            for index, field in enumerate(shape.fields)
        ]
        return composites.records_binary(fields, columns, null_mask(array), len(array))

    return encode


def inferred_type(arrow_type: Any) -> SqlType:
    """The PostgreSQL type of a record's field, of which only the Arrow type is known."""
    if pa.types.is_decimal(arrow_type):
        return types.numeric_type(arrow_type.precision, arrow_type.scale)
    if pa.types.is_struct(arrow_type):
        names = [arrow_type.field(index).name for index in range(arrow_type.num_fields)]
        return SqlType(types.INTERVAL if names == ["months", "days", "micros"] else types.RECORD)
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        element = inferred_type(_element_arrow_type(arrow_type))
        return SqlType(ELEMENT_ARRAYS.get(element.oid, ELEMENT_ARRAYS[types.TEXT]), shape=element.shape)
    if pa.types.is_timestamp(arrow_type):
        return SqlType(types.TIMESTAMPTZ if arrow_type.tz is not None else types.TIMESTAMP)
    by_arrow = {
        pa.bool_(): types.BOOL,
        pa.int16(): types.INT2,
        pa.int32(): types.INT4,
        pa.int64(): types.INT8,
        pa.float32(): types.FLOAT4,
        pa.float64(): types.FLOAT8,
        pa.date32(): types.DATE,
        pa.time64("us"): types.TIME,
        pa.binary(): types.BYTEA,
    }
    return SqlType(by_arrow.get(arrow_type, types.TEXT))
