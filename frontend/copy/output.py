"""COPY TO: record batches to CopyData messages, one per row, or to the bytes of a file, column by column.

Text escapes and csv quotes are put in by Arrow kernels and NumPy tables; the rules are PostgreSQL's
(CopyAttributeOutText, CopyAttributeOutCSV).
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from adapter.results import ColumnDescription, CopyFormat
from frontend.copy.transcoding import encoding_of
from frontend.encoding.columns import (
    ArrowArray,
    ByteMatrix,
    Encoded,
    as_binary,
    as_text,
    data_of,
    expand_bytes,
    join_pieces,
)
from frontend.encoding.encoders import BINARY_FORMAT, TEXT_FORMAT
from frontend.encoding.rows import RecordBatch, bytes_of, copy_data_messages, row_encoder
from frontend.encoding.settings import FormatSettings
from frontend.encoding.transcoding import converted
from planner.catalog_data.encodings import UTF8

BINARY_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_BINARY_HEADER = BINARY_SIGNATURE + bytes(8)
_BINARY_TRAILER = b"\xff\xff"
_TEXT_ESCAPES = {8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 0x5C: "\\"}


class _Characters:
    """ASCII characters that are looked for in all values of a column at once: an expression takes ten times as long,
    and most columns have none of them."""

    def __init__(self, wanted: str) -> None:
        self._wanted = [letter.encode() for letter in sorted(set(wanted))]

    def are_in(self, values: ArrowArray) -> bool:
        """Whether one of them is in any of the binary `values`."""
        data = data_of(values)[0].tobytes()
        return any(byte in data for byte in self._wanted)


class CopyOutput:
    """Encodes one COPY TO STDOUT; when not `framed` one file, which has no messages."""

    def __init__(
        self,
        columns: tuple[ColumnDescription, ...],
        format: CopyFormat,
        settings: FormatSettings,
        *,
        framed: bool = True,
    ) -> None:
        self._data = copy_data_messages if framed else bytes_of
        self._columns = columns
        self._format = format
        self.binary = format.format == "binary"
        code = BINARY_FORMAT if self.binary else TEXT_FORMAT
        self._encoding = encoding_of(format, settings.encoding)
        # What is special in text is looked for in UTF-8; other encodings have backslashes inside characters.
        settings = replace(settings, encoding=self._encoding if self.binary else UTF8)
        self._encoder = row_encoder(columns, [code] * len(columns), settings)
        self._delimiter = pa.scalar(format.delimiter.encode(), pa.binary())
        self._newline = pa.scalar(b"\n", pa.binary())
        self._escapes, self._escape_widths = self._text_escapes()
        self._text_special = _Characters("".join(map(chr, _TEXT_ESCAPES)) + format.delimiter)
        self._csv_special = _Characters(f"{format.delimiter}{format.quote}\n\r")
        self._csv_quoted = f"[{re.escape(format.delimiter + format.quote)}\\n\\r]"
        self._csv_marks = _Characters(format.quote + format.escape)
        self._csv_escaped = f"([{re.escape(format.quote + format.escape)}])"

    def _text_escapes(self) -> tuple[ByteMatrix, np.ndarray[tuple[int], np.dtype[np.uint8]]]:
        table = np.zeros((256, 2), dtype=np.uint8)
        table[:, 0] = np.arange(256)
        widths = np.ones(256, dtype=np.uint8)
        for byte, letter in _TEXT_ESCAPES.items():
            table[byte] = (0x5C, ord(letter))
            widths[byte] = 2
        delimiter = ord(self._format.delimiter)
        if delimiter not in _TEXT_ESCAPES:
            table[delimiter] = (0x5C, delimiter)
            widths[delimiter] = 2
        return table, widths

    def start(self) -> bytes:
        """What comes before the rows: the header line; the binary header goes with the first row."""
        format = self._format
        if self.binary or not (format.header or format.header_match):
            return b""
        names = pa.array([[column.name.encode()] for column in self._columns], pa.list_(pa.binary())).flatten()
        columns = [Encoded(values=names.slice(index, 1)) for index in range(len(self._columns))]
        return bytes(self._data(self._lines(columns, 1, header=True)))

    def rows(self, batch: RecordBatch, first: bool) -> bytes | memoryview:
        """The data of a batch's rows; `first` says that none have been sent before."""
        if self.binary:
            values = self._encoder.copy_rows(batch)
            if not first:
                return self._data(values)
            head = pa.array([_BINARY_HEADER + values[0].as_py()], pa.binary())
            return b"".join([self._data(head), self._data(values.slice(1))])
        return self._data(self._lines(self._encoder.columns(batch), batch.num_rows, header=False))

    def finish(self, *, any_rows: bool) -> bytes:
        """What comes after the rows."""
        if not self.binary:
            return b""
        end = _BINARY_TRAILER if any_rows else _BINARY_HEADER + _BINARY_TRAILER
        return bytes(self._data(pa.array([end], pa.binary())))

    def _lines(self, columns: list[Encoded], count: int, *, header: bool) -> ArrowArray:
        if not columns:
            return pa.array([b"\n"] * count, pa.binary())
        pieces: list[ArrowArray] = []
        for index, column in enumerate(columns):
            if index:
                pieces.append(self._delimiter)
            if self._format.format == "csv":
                pieces.append(self._csv_field(column, force=not header and index in self._format.force_quote))
            else:
                pieces.append(self._text_field(column))
        pieces.append(self._newline)
        return converted(join_pieces(*pieces), self._encoding)

    def _with_null(self, column: Encoded, values: ArrowArray) -> ArrowArray:
        if column.nulls is None:
            return values
        return pc.if_else(pa.array(column.nulls), pa.scalar(self._format.null.encode(), pa.binary()), values)

    def _text_field(self, column: Encoded) -> ArrowArray:
        values = column.as_values()
        if column.fixed is None and self._text_special.are_in(values):
            values = expand_bytes(values, self._escapes, self._escape_widths)
        return self._with_null(column, values)

    def _csv_field(self, column: Encoded, *, force: bool) -> ArrowArray:
        format = self._format
        values = column.as_values()
        text = as_text(values)
        quoted = pc.equal(text, format.null)
        if self._csv_special.are_in(values):
            quoted = pc.or_(quoted, pc.match_substring_regex(text, self._csv_quoted))
        if len(self._columns) == 1:
            quoted = pc.or_(quoted, pc.equal(text, "\\."))
        if force:
            quoted = pa.array(np.ones(len(text), dtype=np.bool_))
        if pc.any(quoted).as_py():
            escaped = text
            if self._csv_marks.are_in(values):
                escape = format.escape.replace("\\", "\\\\")
                escaped = pc.replace_substring_regex(text, self._csv_escaped, f"{escape}\\1")
            enclosed = pc.binary_join_element_wise(format.quote, escaped, format.quote, "")
            text = pc.if_else(quoted, enclosed, text)
        return self._with_null(column, as_binary(text))
