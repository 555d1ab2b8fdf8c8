"""Record batches to DataRow messages and to the bytes of binary COPY.

Lengths and values of all columns are interleaved by one Arrow kernel; neighbouring columns of fixed width become one
NumPy matrix first. `RowEncoder` is made once per result and holds the encoder of each column.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from adapter.results import ColumnDescription
from frontend.encoding.columns import (
    ArrowArray,
    ByteMatrix,
    ColumnEncoder,
    Encoded,
    data_of,
    fixed_to_binary,
    join_pieces,
    lengths_of,
)
from frontend.encoding.encoders import TEXT_FORMAT, column_encoder
from frontend.encoding.settings import FormatSettings
from frontend.encoding.small import (
    SMALL_CELLS,
    SMALL_ROWS,
    CellWriter,
    cell_writers,
    has_long_texts,
    small_data_rows,
)
from planner.calls.record_shapes import RecordShape
from planner.types.types import SqlType
from storage.off_loop import MANY_COLUMNS

RecordBatch: TypeAlias = Any

TARGET_CHUNK_BYTES = 1 << 20
"""Input bytes encoded at once: enough to amortise the kernels' fixed cost, small enough to bound memory."""
OFFLOAD_CELLS = 4_096
"""Rows times columns from which encoding a chunk is moved off the event loop: about half a millisecond of work."""

MAX_CHUNK_ROWS = 16_384
BYTES_OF_A_CELL = 256
WIDE_ROWS = 32
"""What a row of many columns costs, beside one of many rows of few: each column is taken by itself."""
SMALL_BYTES = 64 << 10
"""More than that is not encoded cell by cell, however few there are."""

# NOTE: threads of our own. In the loop's default pool engines may all be waiting for us to take their batches.
_ENCODERS = ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="encode")


def chunks(batch: RecordBatch) -> Iterator[RecordBatch]:
    """The batch in slices that are encoded at once."""
    rows = batch.num_rows
    if rows == 0:
        return
    if rows <= MAX_CHUNK_ROWS and batch.get_total_buffer_size() <= TARGET_CHUNK_BYTES:
        # What a slice takes of its buffers is worked out in a hundred times the time.
        yield batch
        return
    step = max(1, min(MAX_CHUNK_ROWS, int(rows * TARGET_CHUNK_BYTES / max(batch.nbytes, 1))))
    for start in range(0, rows, step):
        yield batch.slice(start, step)


def work_of(chunk: RecordBatch, columns: int) -> int:
    """How much work encoding a chunk is, in cells: a long value is as much as many short ones, and so is
    a row of many columns."""
    rows = int(chunk.num_rows) if columns <= MANY_COLUMNS else max(int(chunk.num_rows), WIDE_ROWS)
    return max(rows * columns, _bytes_of(chunk) // BYTES_OF_A_CELL)


def _bytes_of(batch: RecordBatch) -> int:
    """What a batch takes: its buffers, where these are small, and else its slices of them, which takes a hundred times
    as long to find out."""
    whole = int(batch.get_total_buffer_size())
    return whole if whole <= SMALL_BYTES else int(batch.nbytes)


def _words(values: Any) -> ByteMatrix:
    array = np.ascontiguousarray(values, dtype=">i4")
    return array.view(np.uint8).reshape(len(array), 4)


class _Interleaver:
    """Collects the pieces of every row; adjacent fixed-width pieces are merged."""

    def __init__(self) -> None:
        self._pieces: list[ArrowArray] = []
        self._fixed: list[ByteMatrix] = []

    def add_fixed(self, matrix: ByteMatrix) -> None:
        self._fixed.append(matrix)

    def add_values(self, values: ArrowArray) -> None:
        self._flush()
        self._pieces.append(values)

    def _flush(self) -> None:
        if self._fixed:
            matrix = self._fixed[0] if len(self._fixed) == 1 else np.concatenate(self._fixed, axis=1)
            self._pieces.append(fixed_to_binary(matrix))
            self._fixed = []

    def finish(self) -> ArrowArray:
        if not self._pieces and len(self._fixed) > 0:
            return fixed_to_binary(np.concatenate(self._fixed, axis=1))
        self._flush()
        return self._pieces[0] if len(self._pieces) == 1 else join_pieces(*self._pieces)


class RowEncoder:
    """Encodes batches of one result. `formats` has one format code (0 text, 1 binary) per column, `shapes` what is
    known of its records."""

    def __init__(
        self,
        column_types: Sequence[SqlType],
        formats: Sequence[int],
        settings: FormatSettings,
        shapes: Sequence[RecordShape | None] = (),
    ) -> None:
        self._types = tuple(column_types)
        self._shapes = tuple(shapes) or (None,) * len(self._types)
        self._formats = tuple(formats)
        self._settings = settings
        self._schema: Any = None
        self._encoders: list[ColumnEncoder] = []
        self._writers: tuple[Any, list[CellWriter] | None] | None = None

    def _columns(self, batch: RecordBatch) -> list[Encoded]:
        if self._schema is None or not batch.schema.equals(self._schema):
            self._schema = batch.schema
            self._encoders = [
                column_encoder(sql_type, field.type, code, self._settings, shape)
                for sql_type, field, code, shape in zip(
                    self._types, batch.schema, self._formats, self._shapes, strict=True
                )
            ]
        return [encode(column) for encode, column in zip(self._encoders, batch.columns, strict=True)]

    def _interleave(self, columns: list[Encoded], pieces: _Interleaver) -> None:
        for column in columns:
            if column.fixed is not None and column.nulls is None:
                count, width = column.fixed.shape
                pieces.add_fixed(np.broadcast_to(np.frombuffer(width.to_bytes(4, "big"), np.uint8), (count, 4)))
                pieces.add_fixed(column.fixed)
                continue
            values = column.as_values()
            lengths = lengths_of(values)
            pieces.add_fixed(_words(lengths if column.nulls is None else np.where(column.nulls, -1, lengths)))
            pieces.add_values(values)

    def few_rows(self, batch: RecordBatch) -> memoryview | None:
        """As `data_rows`, for few rows that are slices of long columns; None when that has to be asked."""
        if batch.num_rows > SMALL_ROWS or (writers := self._cell_writers(batch.schema)) is None:
            return None
        columns = batch.columns
        if len(columns) > MANY_COLUMNS:
            return None
        if batch.get_total_buffer_size() > SMALL_BYTES and has_long_texts(columns, writers):
            return None
        return small_data_rows(columns, writers)

    def data_rows(self, batch: RecordBatch) -> memoryview:
        """The DataRow messages of all rows of the batch, one after the other."""
        count = batch.num_rows
        is_small = count <= SMALL_ROWS or count * len(self._types) <= SMALL_CELLS
        if is_small and _bytes_of(batch) <= SMALL_BYTES:
            writers = self._cell_writers(batch.schema)
            if writers is not None:
                return small_data_rows(batch.columns, writers)
        columns = self._columns(batch)
        totals = np.full(count, 4 + 2 + 4 * len(columns), dtype=np.int64)
        for column in columns:
            if column.fixed is None:
                totals += lengths_of(column.values)
            elif column.nulls is None:
                totals += column.fixed.shape[1]
            else:
                totals += np.where(column.nulls, 0, column.fixed.shape[1])
        header = np.empty((count, 7), dtype=np.uint8)
        header[:, 0] = ord("D")
        header[:, 1:5] = _words(totals)
        header[:, 5:7] = np.frombuffer(len(columns).to_bytes(2, "big"), np.uint8)
        pieces = _Interleaver()
        pieces.add_fixed(header)
        self._interleave(columns, pieces)
        return bytes_of(pieces.finish())

    def _cell_writers(self, schema: Any) -> list[CellWriter] | None:
        if self._writers is None or not self._writers[0].equals(schema):
            self._writers = schema, cell_writers(self._types, self._formats, schema, self._settings)
        return self._writers[1]

    def copy_rows(self, batch: RecordBatch) -> ArrowArray:
        """The tuples of binary COPY, one binary value per row: int16 field count, then length and bytes of each."""
        columns = self._columns(batch)
        head = np.broadcast_to(np.frombuffer(len(columns).to_bytes(2, "big"), np.uint8), (batch.num_rows, 2))
        pieces = _Interleaver()
        pieces.add_fixed(head)
        self._interleave(columns, pieces)
        return pieces.finish()

    def columns(self, batch: RecordBatch) -> list[Encoded]:
        """The encoded columns, for formats that interleave them otherwise (COPY text and csv)."""
        return self._columns(batch)


def row_encoder(columns: Sequence[ColumnDescription], formats: Sequence[int], settings: FormatSettings) -> RowEncoder:
    """The encoder of a result with these columns."""
    return RowEncoder([column.type for column in columns], formats, settings, [column.shape for column in columns])


def bytes_of(array: ArrowArray) -> memoryview:
    data, _ = data_of(array)
    return memoryview(data)  # type: ignore[arg-type]


def copy_data_messages(values: ArrowArray) -> memoryview:
    """One CopyData message per value of a binary array."""
    lengths = lengths_of(values)
    header = np.empty((len(lengths), 5), dtype=np.uint8)
    header[:, 0] = ord("d")
    header[:, 1:5] = _words(lengths + 4)
    return bytes_of(join_pieces(fixed_to_binary(header), values))


async def offload(cells: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a pure function, in a thread when it has many cells to do."""
    if cells < OFFLOAD_CELLS:
        return function(*arguments)
    # With the types that the statement knows.
    work = partial(copy_context().run, function, *arguments)
    return await asyncio.get_running_loop().run_in_executor(_ENCODERS, work)


def spread(formats: Sequence[int], count: int) -> tuple[int, ...]:
    """One format code per column: none means text, one is for all."""
    if len(formats) == count:
        return tuple(formats)
    return (formats[0] if formats else TEXT_FORMAT,) * count
