"""COPY FROM STDIN in text and csv format: bytes in any pieces to record batches.

Data gathers to blocks of whole lines. A plain block is cut by NumPy: the separators (delimiters and line ends outside
quotes) are found at once, must fall exactly `columns` to a line, and then column j is every n-th piece; each column is
parsed as a whole (`frontend.decoding.text`). Any doubt (escaped separators, odd line ends, end-of-data markers, broken
UTF-8, an input error) sends the block through `lines`, which knows every rule and says where an error is.

Memory is bounded by the block size, except for a single line longer than that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from adapter.results import ColumnDescription, CopyFormat
from frontend.copy.lines import (
    EndOfData,
    Line,
    LineEnding,
    LineError,
    check_header,
    line_fields,
    next_line,
    shown,
    text_fields,
    with_context,
)
from frontend.decoding.text import parse_column, parse_value, values_to_array
from frontend.encoding.columns import ArrowArray, replace_rows
from frontend.encoding.rows import RecordBatch
from frontend.protocol.codec import decode_utf8
from planner.errors import BadCopyFileFormat, CharacterNotInRepertoire, SqlError

BLOCK_BYTES = 4 << 20
"""Data cut at once: large enough that NumPy's fixed costs vanish, small beside the server's memory."""
_SLOW_ROWS = 4_096
"""Rows gathered into a batch by the line-by-line path."""


_LONGEST_CHARACTER = 4


class _NotPlain(Exception):
    """The block needs the line-by-line rules."""


class CopyInput:
    """Decodes one COPY FROM STDIN. `feed` and `finish` yield record batches with the columns' physical types, and raise
    SqlErrors with PostgreSQL's context."""

    def __init__(
        self,
        relation_name: str,
        columns: tuple[ColumnDescription, ...],
        format: CopyFormat,
        settings: Mapping[str, str],
        *,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self._relation = relation_name
        self._columns = columns
        self._format = format
        self._settings = settings
        self._block_bytes = block_bytes
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._ready_bytes = block_bytes
        self._ending = LineEnding()
        self._line_number = 0
        self._header_due = format.header or format.header_match
        self._ended = False
        self._names = [f"c{index + 1}" for index in range(len(columns))]

    @property
    def where(self) -> str:
        """The context of an error that concerns no particular line's content."""
        return f"COPY {self._relation}, line {self._line_number + 1}"

    @property
    def pending_cells(self) -> int:
        """Roughly how much work the next block is, in cells."""
        return self._pending_bytes // 8

    @property
    def block_ready(self) -> bool:
        """Whether enough data has gathered to be worth decoding."""
        return self._pending_bytes >= self._ready_bytes

    def add(self, data: bytes) -> None:
        """Takes received bytes; after the end-of-data marker they are ignored."""
        if not self._ended:
            self._pending.append(data)
            self._pending_bytes += len(data)

    def take(self, *, final: bool = False) -> list[RecordBatch]:
        """The batches in what has been added. With `final` the last line needs no line end."""
        data = b"".join(self._pending)
        self._pending = []
        batches, rest = self._decode(data, final=final)
        if rest and not self._ended:
            self._pending = [rest]
        self._pending_bytes = len(rest)
        # A line that is longer than a block is looked at again when twice as much of it is there.
        self._ready_bytes = max(self._block_bytes, 2 * len(rest))
        return batches

    def _decode(self, data: bytes, *, final: bool) -> tuple[list[RecordBatch], bytes]:
        batches: list[RecordBatch] = []
        start = 0
        if self._header_due or not self._ending.style:
            first = list(self._lines(data, 0, final=final, limit=1, batches=batches))
            start = first[0] if first else 0
        if final and self._header_due and self._format.header_match:
            # No header at all does not match either.
            self._row(Line(b"", 0, last=True), b"\n", b"")
        if self._ended or start >= len(data) or not self._ending.style:
            return batches, data[start:]
        end = self._last_line_end(data, start)
        if final and not data.endswith(b"\n") and self._ending.style == b"\n":
            data += b"\n"
            end = self._last_line_end(data, start)
        if end > start:
            try:
                batches.append(self._plain_block(data[start:end]))
                start = end
            except (_NotPlain, SqlError):
                for position in self._lines(data, start, final=final, limit=None, batches=batches):
                    start = position
        if final and not self._ended and start < len(data):
            for position in self._lines(data, start, final=True, limit=None, batches=batches):
                start = position
        return batches, b"" if self._ended else data[start:]

    # ------------------------------------------------------------ plain blocks

    def _last_line_end(self, data: bytes, start: int) -> int:
        """The position after the last line end that is certainly one, or `start`."""
        end = data.rfind(b"\n", start) + 1
        if end <= start or self._format.format != "csv":
            return max(end, start)
        quote = self._format.quote.encode()
        # A line end inside quotes is none: look for one with an even number of quotes before it.
        count = data.count(quote, start, end)
        while count % 2 and end > start:
            previous = data.rfind(b"\n", start, end - 1) + 1
            if previous <= start:
                return start
            count -= data.count(quote, previous, end)
            end = previous
        return end

    def _plain_block(self, block: bytes) -> RecordBatch:
        if not self._columns or self._ending.style == b"\r" or b"\0" in block:
            raise _NotPlain
        csv = self._format.format == "csv"
        quoted = csv and self._format.quote.encode() in block
        if b"\r" in block:
            if self._ending.style != b"\r\n" or quoted:
                raise _NotPlain
            if block.count(b"\r") != block.count(b"\r\n") or block.count(b"\n") != block.count(b"\r\n"):
                raise _NotPlain
            block = block.replace(b"\r\n", b"\n")
        elif self._ending.style != b"\n":
            raise _NotPlain
        escaped = b"\\" in block
        if escaped and (b"\\." in block or (not csv and self._separator_is_escaped(block))):
            raise _NotPlain
        raw = np.frombuffer(block, dtype=np.uint8)
        width = len(self._columns)
        separators = self._separators(raw, quoted=quoted)
        rows, left = divmod(len(separators), width)
        if left or not (raw[separators[width - 1 :: width]] == 10).all():
            raise _NotPlain
        if width > 1 and (raw[separators.reshape(rows, width)[:, :-1]] == 10).any():
            raise _NotPlain
        offsets = np.zeros(len(separators) + 1, dtype=np.int32)
        offsets[1:] = separators + 1
        pieces = pa.Array.from_buffers(pa.binary(), len(separators), [None, pa.py_buffer(offsets), pa.py_buffer(block)])
        try:
            pieces = pc.binary_slice(pieces, 0, -1)
            pc.cast(pieces, pa.string()).validate(full=True)
        except pa.ArrowInvalid as error:
            raise _NotPlain from error
        positions = np.arange(0, len(separators), width, dtype=np.int64)
        arrays = []
        for index, column in enumerate(self._columns):
            fields = pieces.take(pa.array(positions + index)) if width > 1 else pieces
            fields = self._plain_fields(fields, index, quoted=quoted, escaped=escaped and not csv)
            arrays.append(parse_column(fields, column.type, self._settings))
        batch = pa.record_batch(arrays, names=self._names)
        self._line_number += int((raw == 10).sum()) if quoted else rows
        return batch

    def _separator_is_escaped(self, block: bytes) -> bool:
        delimiter = self._format.delimiter.encode()
        return b"\\" + delimiter in block or b"\\\n" in block

    def _separators(self, raw: npt.NDArray[np.uint8], *, quoted: bool) -> npt.NDArray[np.int64]:
        candidates = (raw == ord(self._format.delimiter)) | (raw == 10)
        if not quoted:
            return np.flatnonzero(candidates)
        if self._format.quote != self._format.escape:
            raise _NotPlain
        # Only the parity counts, so that eight bits may overflow.
        inside = np.cumsum(raw == ord(self._format.quote), dtype=np.uint8) & 1
        return np.flatnonzero(candidates & (inside == 0))

    def _plain_fields(self, fields: ArrowArray, index: int, *, quoted: bool, escaped: bool) -> ArrowArray:
        """The column's texts with NULL where the null marker stands, quotes and escapes removed."""
        format = self._format
        is_null = pc.equal(fields, pa.scalar(format.null.encode(), pa.binary()))
        if quoted:
            fields = self._unquoted(fields)
        if escaped:
            fields = self._unescaped(fields, is_null)
        if index in format.force_not_null:
            is_null = None
        if index in format.force_null:
            is_null = pc.equal(fields, pa.scalar(format.null.encode(), pa.binary()))
        if is_null is None or not pc.any(is_null).as_py():
            return fields
        return pc.if_else(is_null, pa.scalar(None, pa.binary()), fields)

    def _unquoted(self, fields: ArrowArray) -> ArrowArray:
        quote = self._format.quote
        has_quote = pc.match_substring(fields, quote)
        if not pc.any(has_quote).as_py():
            return fields
        enclosed = pc.and_(
            pc.and_(pc.starts_with(fields, quote), pc.ends_with(fields, quote)),
            pc.greater_equal(pc.binary_length(fields), 2),
        )
        inner = pc.binary_slice(fields, 1, -1)
        # Doubled quotes are marked by a byte that no UTF-8 text has; a quote that is left stood alone.
        doubled = pc.match_substring(inner, quote)
        if pc.any(pc.and_(enclosed, doubled)).as_py():
            inner = pc.replace_substring(inner, quote + quote, b"\xff")
            if pc.any(pc.and_(enclosed, pc.match_substring(inner, quote))).as_py():
                raise _NotPlain
            inner = pc.replace_substring(inner, b"\xff", quote)
        if pc.any(pc.and_not(has_quote, enclosed)).as_py():
            raise _NotPlain
        return pc.if_else(enclosed, inner, fields)

    def _unescaped(self, fields: ArrowArray, is_null: ArrowArray) -> ArrowArray:
        rows = pc.and_not(pc.match_substring(fields, "\\"), is_null).to_numpy(zero_copy_only=False)
        if not rows.any():
            return fields
        texts = [next(text_fields(field, self._format)) for field in fields.filter(pa.array(rows)).to_pylist()]
        return replace_rows(fields, rows, [(text or "").encode() for text in texts])

    # ------------------------------------------------------------ line by line

    def _lines(
        self, data: bytes, start: int, *, final: bool, limit: int | None, batches: list[RecordBatch]
    ) -> Iterator[int]:
        """Reads lines by PostgreSQL's rules, appends batches, and yields the position reached after each gathering."""
        rows: list[list[object]] = []
        position = start
        taken = 0
        while not self._ended and (limit is None or taken < limit):
            counted = b"\n" if self._ending.style == b"\n" else b"\r"
            try:
                line = next_line(data, position, self._format, self._ending, final=final)
            except EndOfData as marker:
                self._ended = True
                position += marker.length
                break
            except LineError as error:
                raise with_context(error, self.where) from None
            if line is None:
                break
            position += line.length
            taken += 1
            self._ended = line.last
            row = self._row(line, counted, data[position : position + _LONGEST_CHARACTER])
            if row is not None:
                rows.append(row)
            if len(rows) >= _SLOW_ROWS:
                batches.append(self._batch(rows))
                rows = []
                yield position
        if rows:
            batches.append(self._batch(rows))
        yield position

    def _row(self, line: Line, counted: bytes, following: bytes) -> list[object] | None:
        """The line's values, or None for a header. `following` are the bytes after the line."""
        content = line.content
        try:
            text = decode_utf8(content)
        except CharacterNotInRepertoire:
            raise with_context(_encoding_error(content, line, following), self.where) from None
        self._line_number += 1
        if self._format.format == "csv":
            self._line_number += content.count(counted)
        where = f"COPY {self._relation}, line {self._line_number}"
        try:
            if self._header_due:
                self._header_due = False
                if self._format.header_match:
                    check_header(content, self._format, [column.name for column in self._columns])
                return None
            return self._values(line_fields(content, self._format, len(self._columns)), where)
        except SqlError as error:
            raise with_context(error, f'{where}: "{shown(text)}"') from None

    def _values(self, fields: list[str | None], where: str) -> list[object]:
        if len(fields) > len(self._columns):
            raise BadCopyFileFormat("extra data after last expected column")
        values: list[object] = []
        for index, column in enumerate(self._columns):
            if index >= len(fields):
                raise BadCopyFileFormat(f'missing data for column "{column.name}"')
            field = fields[index]
            try:
                values.append(None if field is None else parse_value(field, column.type, self._settings))
            except SqlError as error:
                error.position = None
                raise with_context(error, f'{where}, column {column.name}: "{shown(field or "")}"') from None
        return values

    def _batch(self, rows: list[list[Any]]) -> RecordBatch:
        if not self._columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        columns = zip(*rows, strict=True)
        arrays = [values_to_array(values, column.type) for column, values in zip(self._columns, columns, strict=True)]
        return pa.record_batch(arrays, names=self._names)


def _encoding_error(content: bytes, line: Line, following: bytes) -> SqlError:
    """PostgreSQL checks whole buffers: the bytes that it shows may reach beyond the line."""
    end = b"\n" if line.length > len(content) else b""
    try:
        decode_utf8(content + end + following)
    except CharacterNotInRepertoire as error:
        return error
    raise AssertionError("the line was not valid")
