"""Text files as Arrow reads them: in UTF-8, and with the end of their last line, without which a header is none."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from storage.lake.troubles import FileTrouble, malformed

BLOCK_BYTES = 1 << 20
"""Read at once of a file that is read to its end."""


class ReadOnce:
    """What is made of `stream`, to be read from beginning to end, as Arrow asks of Python's files."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
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


class InUtf8(ReadOnce):
    """The file at `path`, whose content `stream` is in the encoding of Python's `codec`, to be read from beginning to
    end. In trouble it raises FileTrouble, or ends once `noted` is told (see `storage.lake.opened`)."""

    def __init__(self, path: str, stream: Any, codec: str, noted: Callable[[FileTrouble], None] | None = None) -> None:
        super().__init__(stream)
        self._path = path
        self._codec = codec
        self._noted = noted
        self._decoder = codecs.getincrementaldecoder(codec)()
        self._held = b""
        self._ended = False

    def read(self, length: int = -1) -> bytes:
        """The next bytes, at most `length`."""
        whole = length is None or length < 0
        while not self._ended and (whole or len(self._held) < length):
            try:
                data = bytes(self._stream.read(BLOCK_BYTES if whole else length))
                self._ended = not data
                self._held += self._decoder.decode(data, final=self._ended).encode()
            except UnicodeDecodeError as error:
                self._fail(malformed(self._path, ValueError(f"{error.reason} in encoding {self._codec}")))
            except FileTrouble as trouble:
                self._fail(trouble)
            except (pa.ArrowException, OSError) as error:
                self._fail(malformed(self._path, error))
        size = len(self._held) if whole else length
        data, self._held = self._held[:size], self._held[size:]
        return data

    def _fail(self, trouble: FileTrouble) -> None:
        self._ended = True
        if self._noted is None:
            raise trouble
        self._noted(trouble)


class WithLineEnd(ReadOnce):
    """What is in `stream`, to be read from beginning to end, with the end of its last line."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._last = b""

    def read(self, length: int = -1) -> bytes:
        """The next bytes: `length` of them, but at the end."""
        data, ended = b"", False
        while not ended and (length is None or length < 0 or len(data) < length):
            more = bytes(self._stream.read() if length is None or length < 0 else self._stream.read(length - len(data)))
            ended = not more
            data += more
        self._last = data[-1:] or self._last
        if ended and self._last not in (b"", b"\n", b"\r"):
            self._last = b"\n"
            data += self._last
        return data
