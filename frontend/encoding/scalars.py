"""The remaining scalar types: bool, bytea, uuid, jsonb, and fixed-width numbers in binary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frontend.encoding.columns import (
    ArrowArray,
    ByteMatrix,
    ColumnEncoder,
    Encoded,
    as_binary,
    data_of,
    encoded_values,
    expand_bytes,
    fixed_to_binary,
    join_pieces,
    map_distinct,
    null_mask,
    numpy_values,
    without_nulls,
)
from planner.types.user_types import enum_of

_HEX_DIGITS = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_HEX_PAIRS: ByteMatrix = np.stack([_HEX_DIGITS[np.arange(256) >> 4], _HEX_DIGITS[np.arange(256) & 15]], axis=1)
_NIBBLES = np.zeros(256, dtype=np.uint8)
for _index, _digit in enumerate(b"0123456789abcdef"):
    _NIBBLES[_digit] = _index
    _NIBBLES[ord(chr(_digit).upper())] = _index
_UUID_DIGIT_POSITIONS = np.array([place for place in range(36) if place not in (8, 13, 18, 23)])
_UUID_TEXT_LENGTH = 36
_NIL_UUID = b"00000000-0000-0000-0000-000000000000"


def _bytea_escape_table() -> tuple[ByteMatrix, np.ndarray[tuple[int], np.dtype[np.uint8]]]:
    table = np.zeros((256, 4), dtype=np.uint8)
    widths = np.ones(256, dtype=np.uint8)
    for byte in range(256):
        if byte == ord("\\"):
            text = b"\\\\"
        elif byte < 0x20 or byte > 0x7E:
            text = b"\\%03o" % byte
        else:
            text = bytes([byte])
        table[byte, : len(text)] = np.frombuffer(text, dtype=np.uint8)
        widths[byte] = len(text)
    return table, widths


_BYTEA_ESCAPES, _BYTEA_ESCAPE_WIDTHS = _bytea_escape_table()


def enum_encoder(oid: int) -> ColumnEncoder:
    """Values of the enum with this oid as their labels, in text and in binary."""

    def encode(array: ArrowArray) -> Encoded:
        enum = enum_of(oid)
        assert enum is not None
        positions = pa.array([label.position for label in enum.labels], pa.int64())
        labels = pa.array([label.name.encode() for label in enum.labels], pa.binary())
        return encoded_values(labels.take(pc.index_in(array, positions)))

    return encode


def bool_bits(array: ArrowArray) -> ByteMatrix:
    """An n x 1 matrix of 0 and 1; NULL is 0."""
    filled = pc.fill_null(array, False) if array.null_count else array
    return pc.cast(filled, pa.uint8()).to_numpy().reshape(len(array), 1)  # type: ignore[no-any-return]


def bool_text(array: ArrowArray) -> Encoded:
    """bool as t and f."""
    return Encoded(fixed=np.where(bool_bits(array), np.uint8(ord("t")), np.uint8(ord("f"))), nulls=null_mask(array))


def bool_binary(array: ArrowArray) -> Encoded:
    """bool as one byte, 1 or 0."""
    return Encoded(fixed=bool_bits(array), nulls=null_mask(array))


def fixed_binary_encoder(arrow_type: Any, wire: str) -> ColumnEncoder:
    """Numbers as big-endian bytes; `wire` is the NumPy type that goes out, `arrow_type` what the array is cast to."""
    width = np.dtype(wire).itemsize

    def encode(array: ArrowArray) -> Encoded:
        typed = array if array.type == arrow_type else pc.cast(array, arrow_type)
        values = numpy_values(typed, arrow_type.to_pandas_dtype())
        return Encoded(fixed=values.astype(wire).view(np.uint8).reshape(len(values), width), nulls=null_mask(array))

    return encode


def bytea_text_encoder(output: str) -> ColumnEncoder:
    """bytea under bytea_output: hex or escape."""

    def encode_hex(array: ArrowArray) -> Encoded:
        binary = without_nulls(as_binary(array))
        data, offsets = data_of(binary)
        digits = pa.Array.from_buffers(
            pa.binary(), len(array), [None, pa.py_buffer(offsets * 2), pa.py_buffer(_HEX_PAIRS[data])]
        )
        return Encoded(values=join_pieces(pa.scalar(b"\\x", pa.binary()), digits), nulls=null_mask(array))

    def encode_escape(array: ArrowArray) -> Encoded:
        binary = without_nulls(as_binary(array))
        return Encoded(values=expand_bytes(binary, _BYTEA_ESCAPES, _BYTEA_ESCAPE_WIDTHS), nulls=null_mask(array))

    return encode_escape if output == "escape" else encode_hex


def bits_binary(array: ArrowArray) -> Encoded:
    """bit and bit varying: the number of bits as int32, then the bits in bytes, zeros after them."""
    return encoded_values(map_distinct(array, _bits))


def _bits(text: str) -> bytes:
    size = -(-len(text) // 8)
    return len(text).to_bytes(4) + int(text.ljust(8 * size, "0") or "0", 2).to_bytes(size)


def uuid_text(array: ArrowArray) -> Encoded:
    """uuid in canonical lower-case text; 16-byte values are written out."""
    if not pa.types.is_fixed_size_binary(array.type):
        return encoded_values(array)
    count = len(array)
    matrix = _fixed_matrix(array, 16)
    digits = _HEX_PAIRS[matrix].reshape(count, 32)
    text = np.full((count, _UUID_TEXT_LENGTH), ord("-"), dtype=np.uint8)
    text[:, _UUID_DIGIT_POSITIONS] = digits
    return Encoded(fixed=text, nulls=null_mask(array))


def _fixed_matrix(array: ArrowArray, width: int) -> ByteMatrix:
    if len(array) == 0:
        return np.zeros((0, width), dtype=np.uint8)
    data = np.frombuffer(array.buffers()[1], dtype=np.uint8, count=(array.offset + len(array)) * width)
    return data.reshape(-1, width)[array.offset :]


def uuid_binary(array: ArrowArray) -> Encoded:
    """uuid as 16 bytes."""
    nulls = null_mask(array)
    if pa.types.is_fixed_size_binary(array.type):
        return Encoded(fixed=_fixed_matrix(array, 16), nulls=nulls)
    binary = as_binary(array)
    if nulls is not None:
        binary = pc.fill_null(binary, pa.scalar(_NIL_UUID, pa.binary()))
    data, _ = data_of(binary)
    nibbles = _NIBBLES[data.reshape(len(array), _UUID_TEXT_LENGTH)[:, _UUID_DIGIT_POSITIONS]]
    return Encoded(fixed=((nibbles[:, 0::2] << 4) | nibbles[:, 1::2]).astype(np.uint8), nulls=nulls)


def versioned_binary(array: ArrowArray) -> Encoded:
    """jsonb and jsonpath in binary: a version byte, then the text."""
    encoded = encoded_values(array)
    return Encoded(values=join_pieces(pa.scalar(b"\x01", pa.binary()), encoded.values), nulls=encoded.nulls)


def void_value(array: ArrowArray) -> Encoded:
    """void: always the empty value."""
    return Encoded(values=fixed_to_binary(np.zeros((len(array), 0), dtype=np.uint8)), nulls=null_mask(array))
