"""interval as text in its four IntervalStyles and in binary.

Physical values: struct<months: int32, days: int32, micros: int64>. Text is written once per distinct value.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from frontend.encoding.columns import ArrowArray, ColumnEncoder, Encoded, null_mask, numpy_values
from frontend.encoding.settings import FormatSettings
from planner.ir.nodes import Interval
from planner.values.interval_text import format_interval


def _parts(array: ArrowArray) -> Iterable[ArrowArray]:
    return (array.field(name) for name in ("months", "days", "micros"))


def _table(array: ArrowArray) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    months, days, micros = _parts(array)
    table = np.empty((len(array), 3), dtype=np.int64)
    table[:, 0] = numpy_values(months, np.int32)
    table[:, 1] = numpy_values(days, np.int32)
    table[:, 2] = numpy_values(micros, np.int64)
    return table


def interval_text_encoder(settings: FormatSettings) -> ColumnEncoder:
    """interval as text."""

    def encode(array: ArrowArray) -> Encoded:
        nulls = null_mask(array)
        table = _table(array)
        if nulls is not None:
            table[nulls] = 0
        distinct, inverse = np.unique(table, axis=0, return_inverse=True)
        texts = [
            format_interval(Interval(months, days, micros), settings.interval_style).encode()
            for months, days, micros in distinct.tolist()
        ]
        values = pa.array(texts, pa.binary()).take(pa.array(inverse.reshape(-1)))
        return Encoded(values=values, nulls=nulls)

    return encode


def interval_binary(array: ArrowArray) -> Encoded:
    """interval in binary: int64 microseconds, int32 days, int32 months."""
    table = _table(array)
    packed = np.empty(len(array), dtype=[("micros", ">i8"), ("days", ">i4"), ("months", ">i4")])
    packed["micros"], packed["days"], packed["months"] = table[:, 2], table[:, 1], table[:, 0]
    return Encoded(fixed=packed.view(np.uint8).reshape(len(array), 16), nulls=null_mask(array))
