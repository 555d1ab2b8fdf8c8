"""Encoded columns in the client's character set instead of UTF-8."""

from __future__ import annotations

import pyarrow as pa

from frontend.encoding.columns import ArrowArray, ColumnEncoder, Encoded, as_text, data_of
from planner.catalog_data.encodings import UTF8, encoded

_FIRST_BEYOND_ASCII = 0x80


def transcoded(encode: ColumnEncoder, encoding: str) -> ColumnEncoder:
    """`encode`, whose values are UTF-8, with values in `encoding`. Raises 22P05 where they are encoded."""
    if encoding == UTF8:
        return encode

    def encode_and_convert(array: ArrowArray) -> Encoded:
        column = encode(array)
        if column.fixed is not None:
            return column  # Numbers and dates, which are ASCII.
        return Encoded(values=converted(column.values, encoding), nulls=column.nulls)

    return encode_and_convert


def converted(values: ArrowArray, encoding: str) -> ArrowArray:
    """The values of a binary array of UTF-8 in `encoding`. Raises 22P05."""
    data, _ = data_of(values)
    if encoding == UTF8 or not (data >= _FIRST_BEYOND_ASCII).any():
        return values
    return pa.array([encoded(text, encoding) for text in as_text(values).to_pylist()], pa.binary())
