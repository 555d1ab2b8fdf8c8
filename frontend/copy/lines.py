"""COPY text and csv input, line by line: PostgreSQL's own rules in full.

The reference for what COPY FROM accepts and the way its errors look. `text_input` reads plain blocks of data column
by column instead and comes here for the header, for unusual input, and to find the exact place of an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from adapter.results import CopyFormat
from frontend.protocol.codec import decode_utf8
from planner.errors import BadCopyFileFormat, SqlError

MAX_SHOWN = 100
"""PostgreSQL's MAX_COPY_DATA_DISPLAY: bytes of data shown in an error's context."""

_ESCAPES = {
    ord("b"): 8,
    ord("f"): 12,
    ord("n"): 10,
    ord("r"): 13,
    ord("t"): 9,
    ord("v"): 11,
}
_OCTAL = b"01234567"
_HEX = b"0123456789abcdefABCDEF"


def shown(text: str) -> str:
    """Data as an error's context shows it."""
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."


@lru_cache(maxsize=64)
def _any_of(special: bytes) -> re.Pattern[bytes]:
    return re.compile(b"[" + b"".join([re.escape(bytes((byte,))) for byte in special]) + b"]")


_TEXT_ENDS = _any_of(b"\\\n\r")
"""What a line of text is looked at for."""


def _next(special: re.Pattern[bytes], data: bytes, position: int) -> int:
    """The first place from `position` on that has a special byte, or the end."""
    found = special.search(data, position)
    return len(data) if found is None else found.start()


class LineEnding(Struct):
    """The style of line ends, which the first line decides: "\\n", "\\r\\n" or "\\r"; empty until known."""

    style: bytes = b""


class Line(Struct, frozen=True):
    """One line without its end. `last` is set on a line that the end-of-data marker ends."""

    content: bytes
    length: int
    """Bytes that the line and its end take."""
    last: bool


class EndOfData(Exception):
    """The end-of-data marker was read; `length` bytes were consumed up to and including it."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length


class LineError(BadCopyFileFormat):
    """A line that cannot be cut; `content` is what was read of it."""

    def __init__(self, message: str, content: bytes, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.content = content


def next_line(data: bytes, start: int, format: CopyFormat, ending: LineEnding, *, final: bool) -> Line | None:
    """The line at `start`, or None when its end has not arrived. Raises EndOfData and LineError."""
    if format.format == "csv":
        return _next_csv_line(data, start, format, ending, final=final)
    return _next_text_line(data, start, ending, final=final)


def _next_text_line(data: bytes, start: int, ending: LineEnding, *, final: bool) -> Line | None:
    size = len(data)
    position = _next(_TEXT_ENDS, data, start)
    while position < size:
        byte = data[position]
        if byte == 0x5C:
            if position + 1 >= size:
                if not final:
                    return None
                position += 1
                continue
            if data[position + 1] == ord("."):
                return _end_marker(data, start, position, ending, final=final)
            position = _next(_TEXT_ENDS, data, position + 2)
            continue
        return _line_end(data, start, position, ending, final=final, csv=False)
    if not final or position == start:
        return None
    return Line(data[start:size], size - start, last=False)


def _end_marker(data: bytes, start: int, position: int, ending: LineEnding, *, final: bool) -> Line | None:
    after = position + 2
    if after >= len(data) and not final:
        return None
    tail = data[after : after + 2]
    if tail[:1] not in (b"\n", b"\r"):
        raise LineError("end-of-copy marker corrupt", data[start:position])
    if ending.style == b"\r\n" and tail == b"\r" and not final:
        return None
    actual = b"\r\n" if tail == b"\r\n" else tail[:1]
    if ending.style and actual != ending.style:
        raise LineError("end-of-copy marker does not match previous newline style", data[start:position])
    if position == start:
        raise EndOfData(after - start + len(actual))
    return Line(data[start:position], after - start + len(actual), last=True)


def _line_end(data: bytes, start: int, position: int, ending: LineEnding, *, final: bool, csv: bool) -> Line | None:
    """The line that the \\n or \\r at `position` ends."""
    if data[position] == 13:
        if position + 1 >= len(data) and not final:
            return None
        actual = b"\r\n" if data[position + 1 : position + 2] == b"\n" else b"\r"
    else:
        actual = b"\n"
    if not ending.style:
        ending.style = actual
    if actual != ending.style:
        which = "newline" if actual == b"\n" else "carriage return"
        if csv:
            raise LineError(
                f"unquoted {which} found in data",
                data[start:position],
                hint=f"Use quoted CSV field to represent {which}.",
            )
        escape = "\\n" if actual == b"\n" else "\\r"
        raise LineError(
            f"literal {which} found in data", data[start:position], hint=f'Use "{escape}" to represent {which}.'
        )
    return Line(data[start:position], position - start + len(actual), last=False)


def _next_csv_line(data: bytes, start: int, format: CopyFormat, ending: LineEnding, *, final: bool) -> Line | None:
    quote, escape = ord(format.quote), ord(format.escape)
    if quote == escape:
        escape = 0
    in_quote = last_was_escape = False
    ends = _any_of(bytes((quote, escape, 10, 13)))
    position = start
    size = len(data)
    while position < size:
        if position > start:
            special = _next(ends, data, position)
            if special > position:
                position, last_was_escape = special, False
                continue
        byte = data[position]
        if in_quote and byte == escape:
            last_was_escape = not last_was_escape
        if byte == quote and not last_was_escape:
            in_quote = not in_quote
        if byte != escape:
            last_was_escape = False
        if not in_quote:
            if byte == 0x5C and position == start:
                if position + 1 >= size and not final:
                    return None
                if data[position + 1 : position + 2] == b".":
                    after = data[position + 2 : position + 4]
                    if not after and not final:
                        return None
                    # At the end of the data, without a line end, it is a field.
                    if after[:1] in (b"\n", b"\r"):
                        raise EndOfData(2 + (2 if after == b"\r\n" else len(after[:1])))
            if byte in (10, 13):
                return _line_end(data, start, position, ending, final=final, csv=True)
        position += 1
    if not final or position == start:
        return None
    return Line(data[start:size], size - start, last=False)


class DefaultMark(Enum):
    """What is found in place of a value where the mark for a column's default stands."""

    DEFAULT = "default"


Field: TypeAlias = str | DefaultMark | None
"""A field of a line; None is NULL."""


def text_fields(line: bytes, format: CopyFormat) -> Iterator[Field]:
    """The fields of a text line, unescaped. Raises 22021."""
    delimiter = ord(format.delimiter)
    special = _any_of(bytes((delimiter, 0x5C)))
    null, default = format.null.encode(), _default_mark(format)
    position, size = 0, len(line)
    while True:
        start = position
        output = bytearray()
        while True:
            end = _next(special, line, position)
            output += line[position:end]
            position = end
            if position >= size or line[position] == delimiter:
                break
            position += 1
            if position < size:
                position = _unescape(line, position, output)
        raw = line[start:position]
        yield None if raw == null else DefaultMark.DEFAULT if raw == default else decode_utf8(bytes(output))
        if position >= size:
            return
        position += 1


def _default_mark(format: CopyFormat) -> bytes | None:
    return None if format.default is None else format.default.encode()


def _unescape(line: bytes, position: int, output: bytearray) -> int:
    """Appends the byte that an escape stands for; returns the position after it."""
    byte = line[position]
    if byte in _OCTAL:
        end = position
        while end < min(position + 3, len(line)) and line[end] in _OCTAL:
            end += 1
        output.append(int(line[position:end], 8) & 0xFF)
        return end
    if byte == ord("x"):
        end = position + 1
        while end < min(position + 3, len(line)) and line[end] in _HEX:
            end += 1
        if end > position + 1:
            output.append(int(line[position + 1 : end], 16))
            return end
    output.append(_ESCAPES.get(byte, byte))
    return position + 1


def csv_fields(line: bytes, format: CopyFormat) -> Iterator[tuple[Field, bool]]:
    """(value, whether it was quoted) of the fields of a csv line; None is an unquoted NULL marker. Raises 22P04."""
    delimiter, quote, escape = ord(format.delimiter), ord(format.quote), ord(format.escape)
    outside, inside = _any_of(bytes((delimiter, quote))), _any_of(bytes((quote, escape)))
    null, default = format.null.encode(), _default_mark(format)
    position, size = 0, len(line)
    while True:
        start = position
        output = bytearray()
        quoted = False
        while True:
            end = _next(outside, line, position)
            output += line[position:end]
            position = end
            if position >= size or line[position] == delimiter:
                break
            position += 1
            quoted = True
            while True:
                end = _next(inside, line, position)
                output += line[position:end]
                position = end
                if position >= size:
                    raise BadCopyFileFormat("unterminated CSV quoted field")
                byte = line[position]
                position += 1
                if byte == escape and position < size and line[position] in (quote, escape):
                    output.append(line[position])
                    position += 1
                elif byte == quote:
                    break
                else:
                    output.append(byte)
        raw = None if quoted else line[start:position]
        yield (
            (
                None
                if raw == null
                else DefaultMark.DEFAULT
                if raw is not None and raw == default
                else decode_utf8(bytes(output))
            ),
            quoted,
        )
        if position >= size:
            return
        position += 1


def line_fields(line: bytes, format: CopyFormat, column_count: int) -> list[Field]:
    """The fields of a line, with force_null and force_not_null applied."""
    if not line and column_count == 0:
        return []
    if format.format == "text":
        return list(text_fields(line, format))
    fields: list[Field] = []
    for index, (value, quoted) in enumerate(csv_fields(line, format)):
        if value is None and index in format.force_not_null:
            value = format.null
        elif quoted and value == format.null and index in format.force_null:
            value = None
        fields.append(value)
    return fields


def check_header(line: bytes, format: CopyFormat, names: list[str]) -> None:
    """HEADER MATCH: the first line must name the columns. Raises 22P04."""
    fields = line_fields(line, format, len(names))
    if len(fields) != len(names):
        raise BadCopyFileFormat(f"wrong number of fields in header line: got {len(fields)}, expected {len(names)}")
    for number, (field, name) in enumerate(zip(fields, names, strict=True), start=1):
        if field is None:
            raise BadCopyFileFormat(
                f'column name mismatch in header line field {number}: got null value ("{format.null}"), '
                f'expected "{name}"'
            )
        if field != name:
            raise BadCopyFileFormat(
                f'column name mismatch in header line field {number}: got "{field}", expected "{name}"'
            )


def with_context(error: SqlError, where: str) -> SqlError:
    """The error with its place in the data, unless it has one; behind the place in a value, where that is known."""
    source = where.partition(",")[0]
    if error.where is None:
        error.where = where
    elif source not in error.where:
        error.where = f"{error.where}\n{where}"
    return error
