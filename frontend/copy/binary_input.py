"""COPY FROM STDIN (FORMAT binary): tuples of length-prefixed binary values to record batches.

Values are decoded column by column; where that does not do, such as for errors, one at a time.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa

from adapter.results import ColumnDescription, SkippedRow
from frontend.copy.binary_rows import rows_at_once
from frontend.copy.lines import with_context
from frontend.copy.output import BINARY_SIGNATURE
from frontend.copy.places import RowPlaces
from frontend.decoding.binary import parse_binary
from frontend.decoding.binary_columns import Bytes, Ints, NotPlain, parse_binary_column
from frontend.decoding.held_as_text import LeftoverData
from frontend.decoding.text import values_to_array
from frontend.encoding.rows import RecordBatch
from frontend.protocol.client_encoding import CLIENT_ENCODING, converted_encoding
from planner.catalog_data.encodings import UTF8
from planner.errors import BadCopyFileFormat, InvalidBinaryRepresentation, SqlError

_HAS_OIDS = 1 << 16
_CRITICAL_FLAGS = 0xFFFF0000
_BATCH_ROWS = 8_192
_COUNT = struct.Struct(">h")
_LENGTH = struct.Struct(">i")
_BLOCK_BYTES = 1 << 20


class CopyBinaryInput:
    """Decodes one binary COPY FROM STDIN, whose texts are in `encoding`; the interface is that of `CopyInput`."""

    def __init__(self, relation_name: str, columns: tuple[ColumnDescription, ...], encoding: str = UTF8) -> None:
        self._encoding = converted_encoding(encoding)
        self._relation = relation_name
        self._columns = columns
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._ready_bytes = _BLOCK_BYTES
        self._header_due = True
        self._row_number = 0
        self._ended = False
        self.places = RowPlaces(relation_name)
        """Where rows came from."""
        self._names = [f"c{index + 1}" for index in range(len(columns))]

    @property
    def where(self) -> str:
        """The context of an error that concerns no column."""
        return f"COPY {self._relation}, line {self._row_number + 1}"

    @property
    def pending_cells(self) -> int:
        """Roughly how much work the next block is, in cells."""
        return self._pending_bytes // 8

    @property
    def block_ready(self) -> bool:
        """Whether enough data has gathered to be worth decoding."""
        return self._pending_bytes >= self._ready_bytes

    def add(self, data: bytes) -> None:
        """Takes received bytes."""
        self._pending.append(data)
        self._pending_bytes += len(data)

    def take_skipped(self) -> list[SkippedRow]:
        """None: such data is taken whole."""
        return []

    def take(self, *, final: bool = False) -> list[RecordBatch]:
        """The batches in what has been added. With `final` nothing more comes."""
        before = CLIENT_ENCODING.set(self._encoding)
        try:
            return self._take(final=final)
        finally:
            CLIENT_ENCODING.reset(before)

    def _take(self, *, final: bool) -> list[RecordBatch]:
        data = b"".join(self._pending)
        position = 0
        batches: list[RecordBatch] = []
        if self._header_due:
            length = self._header(data, final=final)
            if length is None:
                self._pending = [data]
                return batches
            position = length
            self._header_due = False
        noted, columns = self._row_number, len(self._columns)
        rows = rows_at_once(data, len(data) if self._ended else position, columns)
        self._row_number += rows.count
        if rows.count:
            position = rows.end
        starts: list[int] = []
        lengths: list[int] = []
        failure: SqlError | None = None
        try:
            position = self._scan(data, position, starts, lengths, final=final)
        except SqlError as error:
            failure = error  # Rows before it may have errors of their own.
        shape = (self._row_number - noted - rows.count, columns)
        all_starts = np.concatenate((rows.starts, np.array(starts, np.int64).reshape(shape)))
        all_lengths = np.concatenate((rows.lengths, np.array(lengths, np.int64).reshape(shape)))
        batches.extend(self._decoded(data, all_starts, all_lengths, noted))
        if failure is not None:
            raise failure
        self.places.note(self._row_number - noted, noted, self._row_number - noted)
        self._pending = [data[position:]]
        self._pending_bytes = len(data) - position
        # A row that is longer than a block is looked at again when twice as much of it is there.
        self._ready_bytes = max(_BLOCK_BYTES, 2 * self._pending_bytes)
        return batches

    def _header(self, data: bytes, *, final: bool) -> int | None:
        """The header's length, or None until it is there."""
        if data[: len(BINARY_SIGNATURE)] != BINARY_SIGNATURE[: len(data)]:
            raise BadCopyFileFormat("COPY file signature not recognized")
        if len(data) < 19:
            if final:
                complete = len(data) >= len(BINARY_SIGNATURE)
                missing = (
                    "invalid COPY file header (missing flags)" if complete else "COPY file signature not recognized"
                )
                raise BadCopyFileFormat(missing)
            return None
        flags, extension = struct.unpack_from(">Ii", data, 11)
        if flags & _HAS_OIDS:
            raise BadCopyFileFormat("invalid COPY file header (WITH OIDS)")
        if flags & _CRITICAL_FLAGS:
            raise BadCopyFileFormat("unrecognized critical flags in COPY file header")
        if extension < 0:
            raise BadCopyFileFormat("invalid COPY file header (missing length)")
        if len(data) < 19 + extension:
            if final:
                raise BadCopyFileFormat("invalid COPY file header (wrong length)")
            return None
        return 19 + int(extension)

    def _scan(self, data: bytes, position: int, starts: list[int], lengths: list[int], *, final: bool) -> int:
        """Notes where the fields of the tuples from `position` on start, and how long they are (-1: NULL), those of
        whole tuples; the position after them. One field after the other, for what `rows_at_once` leaves."""
        size, columns = len(data), len(self._columns)
        count_at, length_at = _COUNT.unpack_from, _LENGTH.unpack_from
        while True:
            if self._ended:
                if position < size:
                    raise BadCopyFileFormat("received copy data after EOF marker", where=self.where)
                return position
            if position + 2 > size:
                if final and position < size:
                    raise BadCopyFileFormat("unexpected EOF in COPY data", where=self.where)
                return position
            (count,) = count_at(data, position)
            if count == -1:
                self._ended = True
                position += 2
                continue
            if count != columns:
                raise BadCopyFileFormat(f"row field count is {count}, expected {columns}", where=self.where)
            cursor, whole = position + 2, len(starts)
            for _ in range(count):
                cursor += 4
                if cursor > size:
                    break
                (length,) = length_at(data, cursor - 4)
                starts.append(cursor)
                lengths.append(length)
                if length > 0:
                    cursor += length
                elif length < -1:
                    del starts[whole:], lengths[whole:]
                    raise BadCopyFileFormat("invalid field size", where=self.where)
            if cursor > size:
                del starts[whole:], lengths[whole:]
                self._check_more(final=final)
                return position
            self._row_number += 1
            position = cursor

    def _check_more(self, *, final: bool) -> None:
        if final:
            raise BadCopyFileFormat("unexpected EOF in COPY data", where=self.where)

    def _decoded(self, data: bytes, all_starts: Ints, all_lengths: Ints, first: int) -> list[RecordBatch]:
        """The rows whose fields are there; `first` is the number of the one before them."""
        count = self._row_number - first
        if not self._columns:
            return [self._batch([[]] * count)] if count else []
        octets = np.frombuffer(data, np.uint8)
        batches = []
        for row in range(0, count, _BATCH_ROWS):
            some = slice(row, row + _BATCH_ROWS)
            try:
                arrays = [
                    self._column(octets, data, all_starts[some, index], all_lengths[some, index], column)
                    for index, column in enumerate(self._columns)
                ]
            except (NotPlain, LeftoverData, SqlError):
                # Value by value, in the order of the rows: which is wrong, and where it stands.
                rows = [
                    [
                        self._value(data, index, start, length, first + row + number)
                        for index, (start, length) in enumerate(zip(at, sizes, strict=True))
                    ]
                    for number, (at, sizes) in enumerate(
                        zip(all_starts[some].tolist(), all_lengths[some].tolist(), strict=True), 1
                    )
                ]
                batches.append(self._batch(rows))
            else:
                batches.append(pa.record_batch(arrays, names=self._names))
        return batches

    def _column(
        self,
        octets: Bytes,
        data: bytes,
        starts: Ints,
        lengths: Ints,
        column: ColumnDescription,
    ) -> Any:
        if self._encoding is None:
            try:
                return parse_binary_column(octets, starts, lengths, column.type)
            except NotPlain:
                pass  # Value by value, but still only this column.
        values = [
            None if length < 0 else parse_binary(data[start : start + length], column.type)
            for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
        ]
        return values_to_array(values, column.type)

    def _value(self, data: bytes, index: int, start: int, length: int, row: int) -> object:
        """Raises the errors of a value in the row of this number."""
        if length < 0:
            return None
        column = self._columns[index]
        where = f"COPY {self._relation}, line {row}, column {column.name}"
        try:
            return parse_binary(data[start : start + length], column.type)
        except LeftoverData:
            raise InvalidBinaryRepresentation("incorrect binary data format", where=where) from None
        except SqlError as error:
            raise with_context(error, where) from None

    def _batch(self, rows: list[list[Any]]) -> RecordBatch:
        if not self._columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        columns = zip(*rows, strict=True)
        arrays = [values_to_array(values, column.type) for column, values in zip(self._columns, columns, strict=True)]
        return pa.record_batch(arrays, names=self._names)
