"""CSV files whose last quoted value does not end. Arrow takes all that is left of the file for that value, and says
nothing: so it is followed, while a file is read, where values in quotes begin and end.

To Arrow a quote begins a value only where the value begins; elsewhere it is a character like others. As long as there
is none elsewhere, each quote but every second follows a separator or another quote, and counting tells the rest. From
the first other one on the file is looked at quote by quote.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from storage.lake.formats import FileFormat
from storage.lake.in_utf8 import ReadOnce
from storage.lake.troubles import FileTrouble, malformed

_MARK = b"\xef\xbb\xbf"
"""What some writers begin files of UTF-8 with, and Arrow leaves out."""


class QuotedFile(ReadOnce):
    """The CSV file at `path`, whose content is `stream`, to be read from beginning to end. Nothing is raised (see
    `storage.lake.opened`): in trouble, of which `noted` is told, it ends."""

    def __init__(self, path: str, format: FileFormat, stream: Any, noted: Callable[[FileTrouble], None]) -> None:
        super().__init__(stream)
        self._path = path
        self._noted = noted
        self._quotes = _Quotes(format)
        self._ended = False

    def read(self, length: int = -1) -> bytes:
        """The next bytes, at most `length`."""
        if self._ended:
            return b""
        try:
            data: bytes = self._stream.read() if length is None or length < 0 else self._stream.read(length)
            self._quotes.read(data)
            self._ended = length is None or length < 0 or (not data and length > 0)
            if self._ended and self._quotes.open:
                self._noted(FileTrouble("malformed", f'could not read file "{self._path}": unterminated quoted value'))
        except FileTrouble as trouble:
            self._noted(trouble)
        except (pa.ArrowException, OSError) as error:
            self._noted(malformed(self._path, error))
        else:
            return data
        self._ended = True
        return b""


class _Quotes:
    """Where a CSV file stands that is read piece by piece."""

    def __init__(self, format: FileFormat) -> None:
        self._quote = (format.quote or "").encode()
        separators = format.delimiter.encode() + b"\r\n"
        self._before = np.zeros(256, bool)
        self._before[list(separators + self._quote)] = True
        self._last = b""
        self._count = 0
        self._each = _EachQuote(self._quote, separators, None if format.is_doubled else format.escape)
        self._is_counted = format.is_doubled

    @property
    def open(self) -> bool:
        """Whether the value that was begun last is still to end."""
        return bool(self._count % 2) if self._is_counted else self._each.open

    def read(self, data: bytes) -> None:
        """The next piece."""
        if not data:
            return
        if self._is_counted and not self._counted(data):
            self._is_counted = False
            self._each.begin(self._last, self._count)
        if not self._is_counted:
            self._each.read(data)
        self._last = data[-1:]

    def _counted(self, data: bytes) -> bool:
        """Whether counting the quotes of the next piece, which is done then, tells all."""
        if not data.count(self._quote):
            return True
        characters = np.frombuffer(data, np.uint8)
        places = np.flatnonzero(characters == self._quote[0])
        beginning = places[self._count % 2 :: 2]
        if len(beginning) and not beginning[0]:
            if self._last and not self._before[self._last[0]]:
                return False
            beginning = beginning[1:]
        if not self._before[characters[beginning - 1]].all():
            return False
        self._count += len(places)
        return True


class _EachQuote:
    """Where a file stands, told quote by quote. `escape` stands before characters that mean themselves; without it a
    quote that is doubled does."""

    def __init__(self, quote: bytes, separators: bytes, escape: str | None) -> None:
        self._quote, self._separators = quote, separators
        self._escape = None if escape is None else escape.encode()
        escaped = b"" if escape is None else re.escape(escape.encode()) + b"(?:.|$)|"
        self._of_note = re.compile(escaped + b"[" + re.escape(separators) + b"]" + re.escape(quote), re.DOTALL)
        self._of_note_inside = re.compile(escaped + re.escape(quote), re.DOTALL)
        self._inside = self._behind_quote = self._is_escaped = False
        self._at_beginning = self._first = True

    @property
    def open(self) -> bool:
        """Whether the value that was begun last is still to end."""
        return self._inside and not self._behind_quote

    def begin(self, last: bytes, count: int) -> None:
        """Go on behind a piece that ends in `last`, and `count` quotes that counting has been enough for."""
        self._behind_quote = last == self._quote and count % 2 == 0
        self._inside = self._behind_quote or count % 2 == 1
        self._at_beginning = not last or last in self._separators
        self._first = not last

    def read(self, data: bytes) -> None:
        """The next piece."""
        place = int(self._is_escaped)
        self._is_escaped = False
        if self._first:
            self._first = False
            place = len(_MARK) if data.startswith(_MARK) else 0
        while place < len(data):
            if self._behind_quote:
                self._behind_quote = False
                if data[place : place + 1] == self._quote and self._escape is None:
                    place += 1
                    continue
                self._inside = False
            begins = not self._inside and self._at_beginning and data[place : place + 1] == self._quote
            found = None if begins else (self._of_note_inside if self._inside else self._of_note).search(data, place)
            if begins:
                place, self._inside, self._at_beginning = place + 1, True, False
            elif found is None:
                self._at_beginning = data[-1] in self._separators
                return
            else:
                place, self._at_beginning = found.end(), False
                if self._inside:
                    self._behind_quote = found[0] == self._quote
                else:
                    self._inside = found[0][0] in self._separators
                self._is_escaped = found[0] == self._escape
