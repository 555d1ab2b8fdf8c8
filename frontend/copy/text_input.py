"""COPY FROM STDIN in text and csv format: bytes in any pieces to record batches.

Data gathers to blocks of whole lines. A plain block is cut by NumPy: the separators (delimiters and line ends outside
quotes) are found at once, must fall exactly `columns` to a line, and then column j is every n-th piece; each column is
parsed as a whole (`frontend.decoding.text`). Any doubt (escaped separators, odd line ends, end-of-data markers, broken
UTF-8, an input error) sends the block through `lines`, which knows every rule and says where an error is.

Memory is bounded by the block size, except for a single line longer than that: it is looked at when its end has come,
and has at most `MAX_LINE_BYTES`. What goes over a long line in one call that keeps other threads from running goes over
it in steps of `STEP_BYTES`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from adapter.results import ColumnDescription, CopyFormat, SkippedRow
from frontend.copy.lines import (
    DefaultMark,
    EndOfData,
    Field,
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
from frontend.copy.places import KEPT_BYTES, RowPlaces
from frontend.copy.transcoding import Transcoder, encoding_of
from frontend.decoding.text import parse_column, parse_value, values_to_array
from frontend.encoding.columns import ArrowArray, replace_rows
from frontend.encoding.rows import RecordBatch
from frontend.protocol.codec import decode_utf8
from planner.catalog_data.encodings import UTF8
from planner.errors import BadCopyFileFormat, CharacterNotInRepertoire, ProgramLimitExceeded, SqlError
from planner.values.text_values import Names

BLOCK_BYTES = 4 << 20
"""Data cut at once: large enough that NumPy's fixed costs vanish, small beside the server's memory."""
MAX_LINE_BYTES = (1 << 30) - 1
"""PostgreSQL's limit of a line: what it holds in memory in one piece."""
STEP_BYTES = 4 << 20
"""A millisecond of looking."""
_SLOW_ROWS = 4_096
"""Rows gathered into a batch by the line-by-line path."""


_LONGEST_CHARACTER = 4


class _NotPlain(Exception):
    """The block needs the line-by-line rules."""


class _LeftOut(Exception):
    """A value is none of its column's type, and the COPY goes on without its row."""

    def __init__(self, column: str, text: str) -> None:
        super().__init__(column)
        self.column = column
        self.text = text


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
        names: Names | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self._relation = relation_name
        self._columns = columns
        self._format = format
        self._settings = settings
        self._objects = names
        self._block_bytes = block_bytes
        encoding = encoding_of(format, settings.get("client_encoding", UTF8))
        self._transcoder = Transcoder(relation_name, encoding)
        self._pending = bytearray()
        self._pending_has_end = False
        self._ready_bytes = block_bytes
        special = "\\\\\r\n" + (re.escape(format.quote + format.escape) if format.format == "csv" else "")
        self._special = re.compile(f"[{special}]".encode())
        self._ending = LineEnding()
        self._line_number = 0
        self._header_due = format.header or format.header_match
        self._ended = False
        self._default = None if format.default is None else pa.scalar(format.default.encode(), pa.binary())
        self._skipped: list[SkippedRow] = []
        self.places = RowPlaces(relation_name)
        """Where rows came from."""
        self._names = [f"c{index + 1}" for index in range(len(columns))]

    @property
    def where(self) -> str:
        """The context of an error that concerns no particular line's content."""
        return f"COPY {self._relation}, line {self._line_number + 1}"

    @property
    def pending_cells(self) -> int:
        """Roughly how much work the next block is, in cells."""
        return len(self._pending) // 8

    @property
    def block_ready(self) -> bool:
        """Whether enough data has gathered to be worth decoding."""
        return len(self._pending) >= self._ready_bytes and self._pending_has_end

    def add(self, data: bytes) -> None:
        """Takes received bytes; after the end-of-data marker they are ignored. Raises 54000 for a line that is too
        long, 22021 and 22P05 for what is no text."""
        if self._ended:
            return
        data = self._transcoder.convert(data)
        self._pending_has_end = self._pending_has_end or b"\n" in data or b"\r" in data
        if len(self._pending) + len(data) > MAX_LINE_BYTES and not self._pending_has_end:
            raise with_context(
                ProgramLimitExceeded(
                    "out of memory",
                    detail=f"Cannot enlarge string buffer containing {len(self._pending)} bytes by {len(data)} more "
                    "bytes.",
                ),
                self.where,
            )
        self._pending += data

    def take_skipped(self) -> list[SkippedRow]:
        """The rows that have been left out since this was last asked."""
        skipped, self._skipped = self._skipped, []
        return skipped

    def take(self, *, final: bool = False) -> list[RecordBatch]:
        """The batches in what has been added. With `final` the last line needs no line end."""
        data = self._pending
        self._pending = bytearray()
        if final:
            data += self._transcoder.convert(b"", final=True)
        self.places.forget_data()
        batches, rest = self._decode(data, final=final)
        if not self._ended:
            self._pending = rest
        self._pending_has_end = False
        # A line that is longer than a block, with line ends inside quotes, is looked at again when twice as much of it
        # is there.
        self._ready_bytes = max(self._block_bytes, min(2 * len(rest), MAX_LINE_BYTES))
        return batches

    def _decode(self, data: bytearray, *, final: bool) -> tuple[list[RecordBatch], bytearray]:
        batches: list[RecordBatch] = []
        start = 0
        if not self._ending.style and not self._header_due:
            self._recognise_ending(data)
        if self._header_due or not self._ending.style:
            first = list(self._lines(bytes(data), 0, final=final, limit=1, batches=batches))
            start = first[0] if first else 0
        if final and self._header_due and self._format.header_match:
            # No header at all does not match either.
            self._row(Line(b"", 0, last=True), b"\n", b"")
        if self._ended or start >= len(data) or not self._ending.style:
            return batches, data[start:] if start else data
        end = self._last_line_end(data, start)
        if final and not data.endswith(b"\n") and self._ending.style == b"\n":
            data += b"\n"
            end = self._last_line_end(data, start)
        if end > start:
            try:
                batches.append(self._plain_block(data, start, end))
                start = end
            except (_NotPlain, SqlError):
                for position in self._lines(bytes(data), start, final=final, limit=None, batches=batches):
                    start = position
        if final and not self._ended and start < len(data):
            for position in self._lines(bytes(data), start, final=True, limit=None, batches=batches):
                start = position
        return batches, bytearray() if self._ended else data[start:]

    def _recognise_ending(self, data: bytearray) -> None:
        """Knows how lines end where the first of them has nothing that takes the rules to read."""
        for start in range(0, len(data), STEP_BYTES):
            found = self._special.search(data, start, start + STEP_BYTES)
            if found is not None:
                if found[0] == b"\n":
                    self._ending.style = b"\n"
                return

    # ------------------------------------------------------------ plain blocks

    def _last_line_end(self, data: bytearray, start: int) -> int:
        """The position after the last line end that is certainly one, or `start`."""
        end = data.rfind(b"\n", start) + 1
        if end <= start or self._format.format != "csv":
            return max(end, start)
        quote = self._format.quote.encode()
        # A line end inside quotes is none: look for one with an even number of quotes before it.
        count = _count(data, quote, start, end)
        while count % 2 and end > start:
            previous = data.rfind(b"\n", start, end - 1) + 1
            if previous <= start:
                return start
            count -= _count(data, quote, previous, end)
            end = previous
        return end

    def _plain_block(self, data: bytes | bytearray, start: int, end: int) -> RecordBatch:
        if not self._columns or self._ending.style == b"\r" or _has(data, b"\0", start, end):
            raise _NotPlain
        csv = self._format.format == "csv"
        quoted = csv and _has(data, self._format.quote.encode(), start, end)
        if _has(data, b"\r", start, end):
            if self._ending.style != b"\r\n" or quoted:
                raise _NotPlain
            block = bytes(memoryview(data)[start:end])
            if block.count(b"\r") != block.count(b"\r\n") or block.count(b"\n") != block.count(b"\r\n"):
                raise _NotPlain
            data = block.replace(b"\r\n", b"\n")
            start, end = 0, len(data)
        elif self._ending.style != b"\n":
            raise _NotPlain
        escaped = _has(data, b"\\", start, end)
        if escaped and (_has(data, b"\\.", start, end) or (not csv and self._separator_is_escaped(data, start, end))):
            raise _NotPlain
        raw = np.frombuffer(data, np.uint8, end - start, start)
        width = len(self._columns)
        separators = self._separators(raw, quoted=quoted)
        rows, left = divmod(len(separators), width)
        if left or not (raw[separators[width - 1 :: width]] == 10).all():
            raise _NotPlain
        if width > 1 and (raw[separators.reshape(rows, width)[:, :-1]] == 10).any():
            raise _NotPlain
        offsets = np.zeros(len(separators) + 1, dtype=np.int32)
        offsets[1:] = separators + 1
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(raw)]
        pieces = pa.Array.from_buffers(pa.binary(), len(separators), buffers)
        try:
            pieces = pc.binary_slice(pieces, 0, -1)
            pc.cast(pieces, pa.string()).validate(full=True)
        except pa.ArrowInvalid as error:
            raise _NotPlain from error
        positions = np.arange(0, len(separators), width, dtype=np.int64)
        arrays = []
        for index, column in enumerate(self._columns):
            fields = pieces.take(pa.array(positions + index)) if width > 1 else pieces
            if self._default is not None and pc.any(pc.equal(fields, self._default)).as_py():
                raise _NotPlain
            fields = self._plain_fields(fields, index, quoted=quoted, escaped=escaped and not csv)
            arrays.append(parse_column(fields, column.type, self._settings, self._objects))
        batch = pa.record_batch(arrays, names=self._names)
        lines = _count(data, b"\n", start, end) if quoted else rows
        self._note(rows, self._line_number, lines, data, start)
        self._line_number += lines
        return batch

    def _note(
        self,
        rows: int,
        before: int,
        lines: int,
        data: bytes | bytearray,
        start: int,
        ordinals: Sequence[int] | None = None,
    ) -> None:
        """Remember where `rows` were read: in so many `lines`, `before` them others, from `start` on. `ordinals` say
        the how many-th line (from 0) each row was, where lines between were left out."""
        counted = b"\n" if self._ending.style == b"\n" else b"\r"

        def read(row: int) -> tuple[str, int]:
            position, number, content, text = start, 0, b"", bytes(data)
            for _ in range((row if ordinals is None else ordinals[row]) + 1):
                line = next_line(text, position, self._format, self._ending, final=True)
                assert line is not None
                position, content = position + line.length, line.content
                number += 1 + (content.count(counted) if self._format.format == "csv" else 0)
            return shown(decode_utf8(content)), number

        self.places.note(rows, before, lines, read if len(data) <= KEPT_BYTES else None)

    def _separator_is_escaped(self, data: bytes | bytearray, start: int, end: int) -> bool:
        delimiter = self._format.delimiter.encode()
        return _has(data, b"\\" + delimiter, start, end) or _has(data, b"\\\n", start, end)

    def _separators(self, raw: npt.NDArray[np.uint8], *, quoted: bool) -> npt.NDArray[np.int64]:
        if quoted and self._format.quote != self._format.escape:
            raise _NotPlain
        found = []
        outside = 0
        for start in range(0, len(raw), STEP_BYTES):
            step = raw[start : start + STEP_BYTES]
            candidates = (step == ord(self._format.delimiter)) | (step == 10)
            if quoted:
                # Only the parity counts, so that eight bits may overflow.
                parity = np.cumsum(step == ord(self._format.quote), dtype=np.uint8) & 1
                candidates &= parity == outside
                outside ^= int(parity[-1])
            found.append(np.flatnonzero(candidates) + start)
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _plain_fields(self, fields: ArrowArray, index: int, *, quoted: bool, escaped: bool) -> ArrowArray:
        """The column's texts with NULL where the null marker stands, quotes and escapes removed."""
        format = self._format
        is_null = pc.equal(fields, pa.scalar(format.null.encode(), pa.binary()))
        if quoted:
            fields = self._unquoted(fields)
        if escaped:
            fields = self._unescaped(fields, is_null)
        if index in format.force_null:
            # One that is not quoted is what FORCE_NOT_NULL is about.
            marked = pc.equal(fields, pa.scalar(format.null.encode(), pa.binary()))
            is_null = pc.and_not(marked, is_null) if index in format.force_not_null else marked
        elif index in format.force_not_null:
            is_null = None
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
        return replace_rows(fields, rows, [text.encode() if isinstance(text, str) else b"" for text in texts])

    # ------------------------------------------------------------ line by line

    def _lines(
        self, data: bytes, start: int, *, final: bool, limit: int | None, batches: list[RecordBatch]
    ) -> Iterator[int]:
        """Reads lines by PostgreSQL's rules, appends batches, and yields the position reached after each gathering."""
        rows: list[list[object]] = []
        ordinals: list[int] = []
        seen = 0
        position = began = start

        def note() -> None:
            left_out = seen != len(rows)
            self._note(len(rows), before, self._line_number - before, data, began, ordinals if left_out else None)

        before = self._line_number
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
            if not rows:
                began, before, ordinals, seen = position, self._line_number, [], 0
            position += line.length
            taken += 1
            self._ended = line.last
            row = self._row(line, counted, data[position : position + _LONGEST_CHARACTER])
            seen += 1
            if row is not None:
                rows.append(row)
                ordinals.append(seen - 1)
            if len(rows) >= _SLOW_ROWS:
                note()
                batches.append(self._batch(rows))
                rows = []
                yield position
        if rows:
            note()
            batches.append(self._batch(rows))
        yield position

    def _row(self, line: Line, counted: bytes, following: bytes) -> list[object] | None:
        """The line's values, or None for a header and for a row that is left out. `following` are the bytes after the
        line."""
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
        except _LeftOut as row:
            self._skipped.append(SkippedRow(line=self._line_number, column=row.column, text=shown(row.text)))
            return None
        except SqlError as error:
            raise with_context(error, f'{where}: "{shown(text)}"') from None

    def _values(self, fields: list[Field], where: str) -> list[object]:
        if len(fields) > len(self._columns):
            raise BadCopyFileFormat("extra data after last expected column")
        values: list[object] = []
        for index, column in enumerate(self._columns):
            if index >= len(fields):
                raise BadCopyFileFormat(f'missing data for column "{column.name}"')
            field = fields[index]
            if isinstance(field, DefaultMark):
                if index not in self._format.with_default:
                    raise BadCopyFileFormat(
                        "unexpected default marker in COPY data", detail=f'Column "{column.name}" has no default value.'
                    )
                values.append(field)
                continue
            try:
                value = None if field is None else parse_value(field, column.type, self._settings, self._objects)
                values.append(value)
            except SqlError as error:
                if self._format.ignores_errors:
                    raise _LeftOut(column.name, field or "") from None
                error.position = None
                raise with_context(error, f'{where}, column {column.name}: "{shown(field or "")}"') from None
        return values

    def _batch(self, rows: list[list[Any]]) -> RecordBatch:
        if not self._columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        arrays, marks = [], {}
        for index, (column, values) in enumerate(zip(self._columns, zip(*rows, strict=True), strict=True)):
            marked = [value is DefaultMark.DEFAULT for value in values] if self._format.default is not None else ()
            if any(marked):
                marks[f"default {index}"] = pa.array(marked, pa.bool_())
                values = tuple(None if value is DefaultMark.DEFAULT else value for value in values)
            arrays.append(values_to_array(values, column.type))
        return pa.record_batch([*arrays, *marks.values()], names=[*self._names, *marks])


def _has(data: bytes | bytearray, wanted: bytes, start: int, end: int) -> bool:
    """Whether `wanted` is in data[start:end]."""
    return any(
        data.find(wanted, at, min(at + STEP_BYTES + len(wanted) - 1, end)) >= 0 for at in range(start, end, STEP_BYTES)
    )


def _count(data: bytes | bytearray, byte: bytes, start: int, end: int) -> int:
    """How often `byte` is in data[start:end]."""
    return sum([data.count(byte, at, min(at + STEP_BYTES, end)) for at in range(start, end, STEP_BYTES)])


def _encoding_error(content: bytes, line: Line, following: bytes) -> SqlError:
    """PostgreSQL checks whole buffers: the bytes that it shows may reach beyond the line."""
    end = b"\n" if line.length > len(content) else b""
    try:
        decode_utf8(content + end + following)
    except CharacterNotInRepertoire as error:
        return error
    raise AssertionError("the line was not valid")
