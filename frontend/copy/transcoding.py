"""COPY FROM in other character sets than UTF-8: the data's bytes to UTF-8 before lines are looked for."""

from __future__ import annotations

import re
from bisect import bisect_left

from adapter.results import CopyFormat
from frontend.copy.lines import with_context
from planner.catalog_data.encodings import SQL_ASCII, UTF8, decoded, incomplete_end
from planner.errors import SqlError


def encoding_of(format: CopyFormat, client_encoding: str) -> str:
    """The encoding of the data of a COPY: its own, or the client's, which alone counts in binary."""
    name = client_encoding if format.format == "binary" else format.encoding or client_encoding
    return UTF8 if name == SQL_ASCII else name


class Transcoder:
    """Bytes in `encoding` to UTF-8, in pieces that may end anywhere. `relation` is for the context of errors."""

    def __init__(self, relation: str, encoding: str) -> None:
        self._relation = relation
        self._encoding = encoding
        self._rest = b""
        self._lines = 0

    def convert(self, data: bytes, *, final: bool = False) -> bytes:
        """The next bytes. With `final` nothing more comes. Raises 22021, 22P05."""
        if self._encoding == UTF8:
            return data
        data = self._rest + data
        end = len(data) - (0 if final else incomplete_end(data, self._encoding))
        data, self._rest = data[:end], data[end:]
        if data.isascii() and 0 not in data:
            self._lines += data.count(b"\n")
            return data
        try:
            text = decoded(data, self._encoding)
        except SqlError as error:
            line = self._lines + self._good_lines(data) + 1
            raise with_context(error, f"COPY {self._relation}, line {line}") from None
        self._lines += text.count("\n")
        return text.encode()

    def _good_lines(self, data: bytes) -> int:
        """How many lines of `data` end before what is no text. An end of a line after the first byte of a character is
        none."""
        ends = [found.start() for found in re.finditer(b"\n", data)]

        def is_bad(end: int) -> bool:
            try:
                decoded(data[:end], self._encoding)
            except SqlError:
                return True
            return False

        return bisect_left(ends, True, key=is_bad)
