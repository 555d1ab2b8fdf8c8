"""Columns as Iceberg describes them: schemas, types, and the names by which files without field ids are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from storage.publishing.columns import PublishedColumn
from storage.shards.field_ids import ROW_ID_FIELD, column_id, nested_ids
from storage.shards.parts import ROW_ID

_TYPES: dict[pa.DataType, IcebergType] = {
    pa.bool_(): BooleanType(),
    pa.int16(): IntegerType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.date32(): DateType(),
    pa.time64("us"): TimeType(),
    pa.timestamp("us"): TimestampType(),
    pa.timestamp("us", tz="UTC"): TimestamptzType(),
}


def iceberg_schema(columns: Iterable[PublishedColumn], schema_id: int = 0) -> Schema:
    """The schema of a table with these columns, all of which may be NULL: our files do not promise more."""
    return Schema(
        *(
            NestedField(
                column.attnum, column.name, iceberg_type(column.type, nested_ids(column.attnum)), required=False
            )
            for column in columns
        ),
        schema_id=schema_id,
    )


def iceberg_type(type: pa.DataType, ids: list[int]) -> IcebergType:
    """Iceberg's type for what is stored as `type`; `ids` are for what is inside it. Raises ValueError without one."""
    if pa.types.is_decimal(type):
        return DecimalType(type.precision, type.scale)
    if pa.types.is_list(type):
        number = ids.pop()
        return ListType(number, iceberg_type(type.value_type, ids), element_required=False)
    found = _TYPES.get(type)
    if found is None:
        raise ValueError(f"Iceberg has no type for {type}")
    return found


def name_mapping(schemas: Iterable[pa.Schema], others: Mapping[str, str] | None = None) -> NameMapping:
    """How files whose columns have no field ids are read: each physical name that any of `schemas` has, by its id, and
    the names that files of others have for them (`others`, with the physical ones)."""
    named: dict[str, list[str]] = {}
    for other, name in (others or {}).items():
        named.setdefault(name, []).append(other)
    fields = {field.name: field for schema in schemas for field in schema}
    mapped = [_mapped(ROW_ID_FIELD, [ROW_ID])]
    for name, field in fields.items():
        number = column_id(name)
        if number is not None:
            names = [name, *(each for each in named.get(name, ()) if each != name)]
            mapped.append(_mapped(number, names, _mapped_inside(field.type, nested_ids(number))))
    return NameMapping(mapped)


def _mapped(number: int, names: list[str], fields: Sequence[MappedField] = ()) -> MappedField:
    return MappedField.model_validate({"field-id": number, "names": names, "fields": list(fields)})


def _mapped_inside(type: pa.DataType, ids: list[int]) -> list[MappedField]:
    if pa.types.is_list(type):
        number = ids.pop()
        return [_mapped(number, ["element"], _mapped_inside(type.value_type, ids))]
    if pa.types.is_struct(type):
        numbers = [ids.pop() for _ in range(type.num_fields)]
        return [
            _mapped(number, [type.field(index).name], _mapped_inside(type.field(index).type, ids))
            for index, number in enumerate(numbers)
        ]
    return []


def is_promoted(stored: pa.DataType, type: pa.DataType) -> bool:
    """Whether readers of Iceberg take a file's column of the type `stored` for one of `type` (schema evolution)."""
    if stored == type:
        return True
    if pa.types.is_signed_integer(stored) and pa.types.is_signed_integer(type):
        return bool(stored.bit_width < type.bit_width)
    if pa.types.is_decimal(stored) and pa.types.is_decimal(type):
        return bool(stored.scale == type.scale and stored.precision < type.precision)
    return bool(pa.types.is_float32(stored) and pa.types.is_float64(type))
