"""CSV files whose last quoted value does not end. Arrow takes all that is left of the file for that value, and says
nothing: so the quotes are counted while a file is read, and where their number is odd it is looked at once more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from storage.lake.formats import BLOCK_BYTES, FileFormat
from storage.lake.troubles import FileTrouble, malformed


class QuotedFile:
    """The CSV file at `path`, to be read from beginning to end; `again` opens it anew. Nothing is raised (see
    `storage.lake.opened`): in trouble, of which `noted` is told, it ends."""

    def __init__(
        self, path: str, format: FileFormat, again: Callable[[], Any], noted: Callable[[FileTrouble], None]
    ) -> None:
        self._path = path
        self._format = format
        self._again = again
        self._noted = noted
        self._stream = again()
        self._quote = (format.quote or "").encode()
        self._quotes = 0
        self._ended = False
        self.closed = False

    def readable(self) -> bool:
        """See io.RawIOBase."""
        return True

    def seekable(self) -> bool:
        """See io.RawIOBase."""
        return False

    def writable(self) -> bool:
        """See io.RawIOBase."""
        return False

    def close(self) -> None:
        """See io.RawIOBase."""
        self.closed = True
        self._stream.close()

    def read(self, length: int = -1) -> bytes:
        """The next bytes, at most `length`."""
        if self._ended:
            return b""
        try:
            data: bytes = self._stream.read() if length is None or length < 0 else self._stream.read(length)
            self._quotes += data.count(self._quote)
            self._ended = length is None or length < 0 or (not data and length > 0)
            if self._ended and self._quotes % 2 and self._is_open():
                self._noted(FileTrouble("malformed", f'could not read file "{self._path}": unterminated quoted value'))
        except FileTrouble as trouble:
            self._noted(trouble)
        except (pa.ArrowException, OSError) as error:
            self._noted(malformed(self._path, error))
        else:
            return data
        self._ended = True
        return b""

    def _is_open(self) -> bool:
        """Whether a quoted value has not ended at the end of the file."""
        quotes = _Quotes(self._format)
        with self._again() as stream:
            while data := stream.read(BLOCK_BYTES):
                quotes.read(data)
        return quotes.open


class _Quotes:
    """Where a CSV file stands that is read piece by piece. As to Arrow, a quote counts at the beginning of a value."""

    def __init__(self, format: FileFormat) -> None:
        self._quote = (format.quote or "").encode()
        self._separators = format.delimiter.encode() + b"\r\n"
        self._begins = re.compile(b"[" + re.escape(self._separators) + b"]" + re.escape(self._quote))
        self._at_beginning, self._inside, self._behind_quote = True, False, False

    @property
    def open(self) -> bool:
        """Whether the value that was begun last is still to end."""
        return self._inside and not self._behind_quote

    def read(self, data: bytes) -> None:
        """The next piece."""
        place, quote = 0, self._quote
        while place < len(data):
            if self._behind_quote:
                self._behind_quote = False
                if data[place : place + 1] == quote:  # Twice, which means itself.
                    place += 1
                    continue
                self._inside = False
            if self._inside:
                found = data.find(quote, place)
                if found < 0:
                    return
                place, self._behind_quote = found + 1, True
            elif self._at_beginning and data[place : place + 1] == quote:
                place, self._inside, self._at_beginning = place + 1, True, False
            elif begun := self._begins.search(data, place):
                place, self._inside, self._at_beginning = begun.end(), True, False
            else:
                self._at_beginning = data[-1:] in {bytes([each]) for each in self._separators}
                return
