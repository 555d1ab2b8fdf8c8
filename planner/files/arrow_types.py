"""The PostgreSQL types of columns of files, by the Arrow types in which files are read.

What has no counterpart is refused by name: durations, and numbers that no type holds. Nested values other than lists of
plain ones are JSON (`planner.files.nested_values`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from planner.errors import FeatureNotSupported
from planner.ir.physical import ELEMENT_ARRAYS
from planner.types import types as t
from planner.types.types import SqlType, column_type, numeric_typmod

MAX_PRECISION = 38
"""Digits of a decimal that engines compute with."""

MAX_DEPTH = 32
"""Levels of structs, maps and lists in each other: each makes the engines' expression longer."""

_PLAIN: dict[pa.DataType, int] = {
    pa.bool_(): t.BOOL,
    pa.int8(): t.INT2,
    pa.uint8(): t.INT2,
    pa.int16(): t.INT2,
    pa.uint16(): t.INT4,
    pa.int32(): t.INT4,
    pa.uint32(): t.INT8,
    pa.int64(): t.INT8,
    pa.float16(): t.FLOAT4,
    pa.float32(): t.FLOAT4,
    pa.float64(): t.FLOAT8,
    pa.string(): t.TEXT,
    pa.binary(): t.BYTEA,
    pa.date32(): t.DATE,
    pa.date64(): t.DATE,
    pa.null(): t.TEXT,
}


def sql_type(type: pa.DataType, column: str, path: str | None = None) -> SqlType:
    """The type of values that files hold as `type`. Raises 0A000, naming the `column`, and the file at `path`."""
    found = _of(type)
    if found is None and pa.types.is_list(type):
        element = _of(type.value_type)
        if element is not None and element.oid in ELEMENT_ARRAYS:
            found = SqlType(ELEMENT_ARRAYS[element.oid], element.typmod, element.shape)
    if found is None:
        where = "" if path is None else f' of file "{path}"'
        raise FeatureNotSupported(
            f'column "{column}"{where} has type {type}, which is not supported',
            hint="Write the files with a plain type for it, or without it; a foreign table can leave it out.",
        )
    return found


def _of(type: pa.DataType) -> SqlType | None:
    plain = _PLAIN.get(type)
    if plain is not None:
        return column_type(plain)
    if type == pa.uint64():
        return column_type(t.NUMERIC, numeric_typmod(20, 0))
    if pa.types.is_decimal(type) and 0 <= type.scale <= type.precision <= MAX_PRECISION:
        return column_type(t.NUMERIC, numeric_typmod(type.precision, type.scale))
    if pa.types.is_timestamp(type):
        return column_type(t.TIMESTAMP if type.tz is None else t.TIMESTAMPTZ)
    if pa.types.is_time(type):
        return column_type(t.TIME)
    if pa.types.is_fixed_size_binary(type):
        return column_type(t.BYTEA)
    if isinstance(type, pa.UuidType):
        return column_type(t.UUID)
    return None


def check_nested(type: pa.DataType, column: str, path: str | None = None) -> None:
    """Raises 0A000, naming the `column` and the file at `path`, where not all that is in values of `type` is known."""
    where = "" if path is None else f' of file "{path}"'
    for name, held, depth in _leaves(type, column, 0):
        if depth > MAX_DEPTH:
            raise FeatureNotSupported(f'column "{column}"{where} is nested deeper than {MAX_DEPTH} levels')
        if pa.types.is_struct(held):
            raise FeatureNotSupported(f'"{name}" of column "{column}"{where} has fields that differ only in case')
        sql_type(held, name, path)


def _leaves(type: pa.DataType, name: str, depth: int) -> Iterator[tuple[str, pa.DataType, int]]:
    """What is in values of `type`, each with where it is and how deep; so are structs that no engine has."""
    if depth > MAX_DEPTH:
        yield name, type, depth
    elif pa.types.is_struct(type):
        names = [field.name for field in type]
        if not names or len({each.lower() for each in names}) < len(names):
            yield name, type, depth
        for field in type:
            yield from _leaves(field.type, f"{name}.{field.name}", depth + 1)
    elif pa.types.is_map(type):
        yield f"{name}.key", type.key_type, depth
        yield from _leaves(type.item_type, f"{name}.value", depth + 1)
    elif pa.types.is_list(type):
        yield from _leaves(type.value_type, f"{name}.element", depth + 1)
    else:
        yield name, type, depth
