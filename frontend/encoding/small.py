"""DataRow messages value by value, for results so small that the fixed cost of column kernels is more than the work.

Only for types whose text is one line of Python; everything else, and everything larger, goes column by column
(`frontend.encoding.rows`). Both give the same bytes, which tests hold.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from frontend.encoding.encoders import BINARY_FORMAT, TEXT_FORMAT
from frontend.encoding.numbers import format_float
from frontend.encoding.settings import FormatSettings
from planner.catalog_data.encodings import UTF8
from planner.types import types
from planner.types.types import SqlType

SMALL_CELLS = 400
"""Rows times columns up to which values are written one by one."""
LONG_TEXT_BYTES = 8 << 10
SMALL_ROWS = 8
"""So many rows are, however wide: what a kernel costs for each column is as much as ten values."""

CellWriter: TypeAlias = Callable[[list[Any]], list[bytes]]
"""The cells of a column's values: each has its length before its text."""

_NULL = (-1).to_bytes(4, "big", signed=True)
_LENGTHS = [length.to_bytes(4, "big") for length in range(256)]


def _counted(text: bytes) -> bytes:
    length = len(text)
    return (_LENGTHS[length] if length < len(_LENGTHS) else length.to_bytes(4, "big")) + text


def _integers(values: list[int | None]) -> list[bytes]:
    return [_NULL if value is None else _LENGTHS[len(text := b"%d" % value)] + text for value in values]


def _texts(values: list[str | None]) -> list[bytes]:
    # NOTE: without a call for each value: there are many.
    return [
        _NULL
        if value is None
        else (_LENGTHS[len(text)] if len(text := value.encode()) < 256 else len(text).to_bytes(4, "big")) + text
        for value in values
    ]


def _booleans(values: list[bool | None]) -> list[bytes]:
    return [_NULL if value is None else _counted(b"t" if value else b"f") for value in values]


def _raw_booleans(values: list[bool | None]) -> list[bytes]:
    return [_NULL if value is None else _counted(b"\1" if value else b"\0") for value in values]


def _packed(values: list[Any], *, pack: Callable[[Any], bytes], length: bytes) -> list[bytes]:
    return [_NULL if value is None else length + pack(value) for value in values]


def _packing(form: str) -> CellWriter:
    packed = struct.Struct(form)
    return partial(_packed, pack=packed.pack, length=_LENGTHS[packed.size])


def _floats(values: list[float | None], *, single: bool, extra_float_digits: int) -> list[bytes]:
    return [
        _NULL
        if value is None
        else _counted(format_float(value, single=single, extra_float_digits=extra_float_digits).encode())
        for value in values
    ]


_PLAIN: dict[int, tuple[pa.DataType, CellWriter]] = {
    types.INT2: (pa.int16(), _integers),
    types.INT4: (pa.int32(), _integers),
    types.INT8: (pa.int64(), _integers),
    types.TEXT: (pa.string(), _texts),
    types.VARCHAR: (pa.string(), _texts),
    types.BOOL: (pa.bool_(), _booleans),
}
# NOTE: no float4. Python's own floats are longer, and a NaN comes back from them with other bits.
_BINARY: dict[int, tuple[pa.DataType, CellWriter]] = {
    types.INT2: (pa.int16(), _packing(">h")),
    types.INT4: (pa.int32(), _packing(">i")),
    types.INT8: (pa.int64(), _packing(">q")),
    types.FLOAT8: (pa.float64(), _packing(">d")),
    types.TEXT: (pa.string(), _texts),
    types.VARCHAR: (pa.string(), _texts),
    types.BOOL: (pa.bool_(), _raw_booleans),
}
_FLOATS: dict[int, tuple[pa.DataType, bool]] = {types.FLOAT4: (pa.float32(), True), types.FLOAT8: (pa.float64(), False)}


def cell_writers(
    column_types: Sequence[SqlType], formats: Sequence[int], schema: pa.Schema, settings: FormatSettings
) -> list[CellWriter] | None:
    """The writer of each column, or None when one of them has none, or there are no columns, or
    texts are not sent in UTF-8."""
    if settings.encoding != UTF8:
        return None
    writers: list[CellWriter] = []
    writer: CellWriter
    for sql_type, code, field in zip(column_types, formats, schema, strict=True):
        if code != TEXT_FORMAT:
            found = _BINARY.get(sql_type.oid) if code == BINARY_FORMAT else None
            if found is None:
                return None
            arrow, writer = found
        elif sql_type.oid in _FLOATS:
            arrow, single = _FLOATS[sql_type.oid]
            writer = partial(_floats, single=single, extra_float_digits=settings.extra_float_digits)
        elif sql_type.oid in _PLAIN:
            arrow, writer = _PLAIN[sql_type.oid]
        else:
            return None
        if field.type != arrow:
            return None
        writers.append(writer)
    return writers or None


def has_long_texts(columns: Sequence[Any], writers: Sequence[CellWriter]) -> bool:
    """Whether one of the few values of `columns` is long."""
    for write, column in zip(writers, columns, strict=True):
        if write is _texts:
            for value in column:
                if value.is_valid and value.as_buffer().size > LONG_TEXT_BYTES:
                    return True
    return False


def small_data_rows(columns: Sequence[Any], writers: Sequence[CellWriter]) -> memoryview:
    """The DataRow messages of all rows of the columns of a record batch, one after the other."""
    cells = [write(column.to_pylist()) for write, column in zip(writers, columns, strict=True)]
    count = len(cells).to_bytes(2, "big")
    messages: list[bytes] = []
    for row in map(b"".join, zip(*cells, strict=True)):
        size = len(row) + 6
        messages += (b"D", _LENGTHS[size] if size < 256 else size.to_bytes(4, "big"), count, row)
    return memoryview(b"".join(messages))
