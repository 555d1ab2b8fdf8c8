"""COPY FROM STDIN (FORMAT binary): tuples of length-prefixed binary values to record batches.

Values are decoded one at a time and gathered column by column.
"""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa

from adapter.results import ColumnDescription
from frontend.copy.lines import with_context
from frontend.copy.output import BINARY_SIGNATURE
from frontend.copy.places import RowPlaces
from frontend.decoding.binary import parse_binary
from frontend.decoding.held_as_text import LeftoverData
from frontend.decoding.text import values_to_array
from frontend.encoding.rows import RecordBatch
from frontend.protocol.client_encoding import CLIENT_ENCODING, converted_encoding
from planner.catalog_data.encodings import UTF8
from planner.errors import BadCopyFileFormat, InvalidBinaryRepresentation, SqlError

_HAS_OIDS = 1 << 16
_CRITICAL_FLAGS = 0xFFFF0000
_BATCH_ROWS = 8_192
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
        rows: list[list[object]] = []
        noted = self._row_number
        while True:
            parsed = self._tuple(data, position, final=final)
            if parsed is None:
                break
            row, position = parsed
            if row is None:
                continue
            rows.append(row)
            if len(rows) >= _BATCH_ROWS:
                batches.append(self._batch(rows))
                rows = []
        if rows:
            batches.append(self._batch(rows))
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

    def _tuple(self, data: bytes, position: int, *, final: bool) -> tuple[list[object] | None, int] | None:
        """(values, position after them); values are None for the trailer. None until the tuple is complete."""
        size = len(data)
        if self._ended:
            if position < size:
                raise BadCopyFileFormat("received copy data after EOF marker", where=self.where)
            return None
        if position + 2 > size:
            if final and position < size:
                raise BadCopyFileFormat("unexpected EOF in COPY data", where=self.where)
            return None
        (count,) = struct.unpack_from(">h", data, position)
        if count == -1:
            self._ended = True
            return None, position + 2
        if count != len(self._columns):
            raise BadCopyFileFormat(f"row field count is {count}, expected {len(self._columns)}", where=self.where)
        spans: list[tuple[int, int]] = []
        cursor = position + 2
        for _ in range(count):
            if cursor + 4 > size:
                self._check_more(final=final)
                return None
            (length,) = struct.unpack_from(">i", data, cursor)
            cursor += 4
            if length < -1:
                raise BadCopyFileFormat("invalid field size", where=self.where)
            if length >= 0 and cursor + length > size:
                self._check_more(final=final)
                return None
            spans.append((cursor, length))
            cursor += max(length, 0)
        row = [self._value(data, index, start, length) for index, (start, length) in enumerate(spans)]
        self._row_number += 1
        return row, cursor

    def _check_more(self, *, final: bool) -> None:
        if final:
            raise BadCopyFileFormat("unexpected EOF in COPY data", where=self.where)

    def _value(self, data: bytes, index: int, start: int, length: int) -> object:
        if length < 0:
            return None
        column = self._columns[index]
        where = f"{self.where}, column {column.name}"
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
