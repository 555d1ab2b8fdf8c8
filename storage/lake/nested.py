"""Nested values of files: structs, maps, and lists of other than plain values. They are read as JSON."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc


def is_nested(type: pa.DataType) -> bool:
    """Whether values of `type` are structs, maps, or lists of lists or of such."""
    if pa.types.is_list(type):
        return bool(pa.types.is_nested(type.value_type))
    return bool(pa.types.is_struct(type) or pa.types.is_map(type))


def with_leaves(type: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """`type` with another type for each plain one in it."""
    if pa.types.is_struct(type):
        return pa.struct([pa.field(field.name, with_leaves(field.type, leaf)) for field in type])
    if pa.types.is_map(type):
        return pa.map_(with_leaves(type.key_type, leaf), with_leaves(type.item_type, leaf))
    if pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type):
        return pa.list_(with_leaves(type.value_type, leaf))
    return leaf(type)


def with_entries(type: pa.DataType) -> pa.DataType:
    """`type` with a list of entries, structs of a key and a value, for each map in it. As such maps are read: a key may
    be there twice, which no engine's maps know."""
    if pa.types.is_map(type):
        entry = [pa.field("key", type.key_type), pa.field("value", with_entries(type.item_type))]
        return pa.list_(pa.struct(entry))
    if pa.types.is_struct(type):
        return pa.struct([pa.field(field.name, with_entries(field.type)) for field in type])
    return pa.list_(with_entries(type.value_type)) if pa.types.is_list(type) else type


def united(
    one: pa.DataType, other: pa.DataType, common: Callable[[pa.DataType, pa.DataType], pa.DataType | None]
) -> pa.DataType | None:
    """The type of both nested types: structs have the fields of either, and `common` is the type of two plain ones, or
    None where there is none."""
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        found = {field.name: field.type for field in one}
        for field in other:
            both = united(found[field.name], field.type, common) if field.name in found else field.type
            if both is None:
                return None
            found[field.name] = both
        return pa.struct([pa.field(name, type) for name, type in found.items()])
    if pa.types.is_map(one) and pa.types.is_map(other):
        key, item = common(one.key_type, other.key_type), united(one.item_type, other.item_type, common)
        return None if key is None or item is None else pa.map_(key, item)
    if pa.types.is_list(one) and pa.types.is_list(other):
        value = united(one.value_type, other.value_type, common)
        return None if value is None else pa.list_(value)
    return one if one == other else common(one, other)


def leaves(type: pa.DataType) -> list[pa.DataType]:
    """The plain types in `type`."""
    if pa.types.is_struct(type):
        return [leaf for field in type for leaf in leaves(field.type)]
    if pa.types.is_map(type):
        return leaves(type.key_type) + leaves(type.item_type)
    return leaves(type.value_type) if pa.types.is_list(type) else [type]


def converted_leaves(
    array: pa.Array, type: pa.DataType, convert: Callable[[pa.Array, pa.DataType], pa.Array]
) -> pa.Array:
    """`array`, which has no maps, as `type`, which has plain types of its own where `array` has others."""
    if array.type == type:
        return array
    if not (pa.types.is_struct(type) or pa.types.is_list(type)):
        return convert(array, type)
    if array.offset:
        array = pc.take(array, pa.array(range(len(array)), pa.int64()))  # Masks do not go with parts of arrays.
    missing = array.is_null()
    if pa.types.is_struct(type):
        fields = [converted_leaves(array.field(n), type.field(n).type, convert) for n in range(type.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(type), mask=missing)
    values = converted_leaves(array.values, type.value_type, convert)
    return pa.ListArray.from_arrays(array.offsets, values, type=type, mask=missing)
