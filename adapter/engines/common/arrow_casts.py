"""Casts of Arrow arrays between types of one meaning, as engines give them and as we hold them."""

from __future__ import annotations

import pyarrow as pa


def cast(array: pa.Array, type: pa.DataType) -> pa.Array:
    """`array` as `type`, without losing anything; structs and lists whose parts are declared not null may become
    nullable."""
    if pa.types.is_struct(type) and pa.types.is_struct(array.type):
        # flatten() carries the struct's own nulls into the fields.
        parts = [cast(part, field.type) for part, field in zip(array.flatten(), type, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(type), mask=array.is_null())
    return array.cast(type)
