"""Columns of bytes: the shape in which encoders hand over values, and the tools to make them.

`Encoded` is one column: either `fixed` (an n x w matrix of bytes, every value w bytes long) or `values` (an Arrow
binary array), and `nulls` (true where the value is NULL; those rows' bytes are ignored or empty). Every array here is
32-bit-offset binary without an Arrow validity buffer, so that its buffers can be used as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

ArrowArray: TypeAlias = Any
"""A pyarrow.Array (pyarrow ships no type information)."""
ByteMatrix: TypeAlias = npt.NDArray[np.uint8]
BoolVector: TypeAlias = npt.NDArray[np.bool_]
Int64Vector: TypeAlias = npt.NDArray[np.int64]

EMPTY_BINARY = pa.scalar(b"", pa.binary())


class Encoded(Struct, kw_only=True):
    """The bytes of one column; exactly one of `fixed` and `values` is set."""

    fixed: ByteMatrix | None = None
    values: ArrowArray = None
    nulls: BoolVector | None = None

    def __post_init__(self) -> None:
        """NULL rows of `values` are made empty, whatever the encoder left there."""
        if self.nulls is not None and self.values is not None and lengths_of(self.values)[self.nulls].any():
            self.values = pc.if_else(pa.array(self.nulls), EMPTY_BINARY, self.values)

    def as_values(self) -> ArrowArray:
        """The column as a binary array in which NULL rows are empty."""
        if self.fixed is None:
            return self.values
        count, width = self.fixed.shape
        if self.nulls is None:
            return fixed_to_binary(self.fixed)
        kept = np.ascontiguousarray(self.fixed[~self.nulls])
        lengths = np.where(self.nulls, 0, width)
        return binary_from_lengths(lengths, kept, count)

    def as_nullable(self) -> ArrowArray:
        """The column as a binary array with Arrow nulls."""
        values = self.as_values()
        if self.nulls is None:
            return values
        return pc.if_else(pa.array(self.nulls), pa.scalar(None, pa.binary()), values)


ColumnEncoder: TypeAlias = Callable[[ArrowArray], Encoded]


def null_mask(array: ArrowArray) -> BoolVector | None:
    """Where the array is NULL, or None when nowhere."""
    if array.null_count == 0:
        return None
    mask: BoolVector = array.is_null().to_numpy(zero_copy_only=False)
    return mask


def numpy_values(array: ArrowArray, dtype: Any) -> Any:
    """The values buffer of a primitive array as NumPy sees it; NULL rows hold arbitrary values."""
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), dtype=dtype)
    return np.frombuffer(buffer, dtype=dtype, count=array.offset + len(array))[array.offset :]


def fixed_to_binary(matrix: ByteMatrix) -> ArrowArray:
    """A binary array whose i-th value is the i-th row of the matrix."""
    count, width = matrix.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32) if width else np.zeros(count + 1, np.int32)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(matrix))]
    )


def binary_from_lengths(lengths: npt.NDArray[Any], data: npt.NDArray[Any], count: int) -> ArrowArray:
    """A binary array over contiguous `data`, cut into values of these lengths."""
    offsets = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def offsets_of(array: ArrowArray) -> npt.NDArray[np.int32]:
    """The n + 1 offsets of a 32-bit binary array."""
    count = len(array)
    if count == 0:
        return np.zeros(1, dtype=np.int32)
    return np.frombuffer(array.buffers()[1], dtype=np.int32, count=count + 1, offset=4 * array.offset)


def data_of(array: ArrowArray) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """(bytes, offsets into them) of a 32-bit binary array, starting at its first value."""
    offsets = offsets_of(array)
    first, last = int(offsets[0]), int(offsets[-1])
    buffer = array.buffers()[2]
    if buffer is None or last == first:
        return np.zeros(0, dtype=np.uint8), offsets - first
    data = np.frombuffer(buffer, dtype=np.uint8, count=last)[first:]
    return data, (offsets - first).astype(np.int32) if first else offsets


def lengths_of(array: ArrowArray) -> npt.NDArray[np.int32]:
    """The length in bytes of each value of a 32-bit binary array."""
    offsets = offsets_of(array)
    return offsets[1:] - offsets[:-1]


def as_binary(array: ArrowArray) -> ArrowArray:
    """Any string-like or binary-like array as 32-bit binary (nulls kept)."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return as_binary(array.dictionary_decode())
    if pa.types.is_string(kind):
        return array.view(pa.binary())
    if pa.types.is_binary(kind):
        return array
    return pc.cast(array, pa.binary())


def without_nulls(array: ArrowArray) -> ArrowArray:
    """The binary array with NULL replaced by the empty value."""
    return array if array.null_count == 0 else pc.fill_null(array, EMPTY_BINARY)


def encoded_values(array: ArrowArray) -> Encoded:
    """A string-like or binary-like array as it is."""
    binary = as_binary(array)
    return Encoded(values=without_nulls(binary), nulls=null_mask(array))


def join_pieces(*pieces: ArrowArray) -> ArrowArray:
    """Concatenate binary arrays (or scalars) row by row."""
    return pc.binary_join_element_wise(*pieces, EMPTY_BINARY)


def as_text(array: ArrowArray) -> ArrowArray:
    """A binary array of valid UTF-8, as Arrow's string kernels want it."""
    return array.view(pa.string())


def map_distinct(array: ArrowArray, function: Callable[[Any], bytes]) -> ArrowArray:
    """Apply a Python function once per distinct value; NULL stays NULL."""
    encoded = array.dictionary_encode()
    values = pa.array([function(value) for value in encoded.dictionary.to_pylist()], pa.binary())
    return values.take(encoded.indices)


def replace_rows(array: ArrowArray, rows: BoolVector, replacements: list[bytes]) -> ArrowArray:
    """The binary array with the rows of the mask replaced, in order."""
    return pc.replace_with_mask(array, pa.array(rows), pa.array(replacements, pa.binary()))


def expand_bytes(array: ArrowArray, table: ByteMatrix, widths: npt.NDArray[np.uint8]) -> ArrowArray:
    """Replace each byte b of each value by the first `widths[b]` bytes of `table[b]` (256 rows)."""
    data, offsets = data_of(array)
    byte_widths = widths[data]
    expanded = table[data][np.arange(table.shape[1], dtype=np.uint8)[None, :] < byte_widths[:, None]]
    positions = np.zeros(len(data) + 1, dtype=np.int64)
    np.cumsum(byte_widths, out=positions[1:])
    new_offsets = positions[offsets].astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(array), [None, pa.py_buffer(new_offsets), pa.py_buffer(np.ascontiguousarray(expanded))]
    )
