"""Field ids of the columns of Parquet files: what Iceberg and its like know a column by, whatever its name.

The column ``c<attnum>`` has its attnum. What is inside a column (the elements of a list, the fields of a struct) has
ids above `NESTED`, in the order in which it is met from the outside in. ``_row_id`` has the id that Iceberg reserves
for a row's id.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

FIELD_ID = b"PARQUET:field_id"
"""The key of a field's metadata that Arrow writes as its id, and reads it into."""

ROW_ID_FIELD = 2147483540
"""Iceberg's reserved id of the column ``_row_id`` (table specification, "Reserved Field IDs")."""

NESTED = 1 << 20
"""The ids of what is inside columns begin here; those of columns are lower."""

NESTED_OF_COLUMN = 256
"""Ids that the inside of one column may take."""


def column_id(name: str) -> int | None:
    """The field id of the physical column `name`; None for one that is no column of a table."""
    if name == "_row_id":
        return ROW_ID_FIELD
    number = name[1:]
    return int(number) if name[:1] == "c" and number.isdecimal() and number != "0" else None


@lru_cache(maxsize=1024)
def with_field_ids(schema: pa.Schema) -> pa.Schema:
    """`schema` with the ids of its columns in their metadata; as it is when one of them has none."""
    ids = [column_id(field.name) for field in schema]
    if None in ids or any(number >= NESTED for number in ids if number is not None and number != ROW_ID_FIELD):
        return schema
    return pa.schema(
        [_numbered(field, number) for field, number in zip(schema, ids, strict=True) if number is not None]
    )


def _numbered(field: pa.Field, number: int) -> pa.Field:
    inner = nested_ids(number)
    return pa.field(field.name, _inside(field.type, inner), field.nullable, {FIELD_ID: str(number).encode()})


def nested_ids(number: int) -> list[int]:
    """The ids for the inside of the column with the id `number`, the last one first: to be taken with ``pop``."""
    first = NESTED + number * NESTED_OF_COLUMN
    return list(range(first + NESTED_OF_COLUMN - 1, first - 1, -1))


def _inside(type: pa.DataType, ids: list[int]) -> pa.DataType:
    if pa.types.is_list(type):
        number = ids.pop()
        element = type.value_field
        return pa.list_(pa.field(element.name, _inside(element.type, ids), element.nullable, _metadata(number)))
    if pa.types.is_struct(type):
        numbers = [ids.pop() for _ in range(type.num_fields)]
        fields = [type.field(index) for index in range(type.num_fields)]
        return pa.struct(
            [
                pa.field(field.name, _inside(field.type, ids), field.nullable, _metadata(number))
                for field, number in zip(fields, numbers, strict=True)
            ]
        )
    return type


def _metadata(number: int) -> dict[bytes, bytes]:
    return {FIELD_ID: str(number).encode()}
