"""Bytes that are seldom asked for, in files of the process's scratch folder instead of its memory.

What is set aside is written behind what was set aside before, into a file that is unlinked at once; a file is gone when
nobody needs any of its pieces, however the process ends. They are read and not mapped, so that they count for nobody's
memory. Without a scratch folder, and where the disk takes no more, bytes stay in memory.

Scratch is a process's affair, so this is kept for the process. Belongs to the event loop; any thread reads.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO, TypeAlias

from msgspec import Struct

FILE_BYTES = 8 << 20
"""A file that has so many bytes gets no more: the disk has it for as long as one piece is needed."""


class Piece(Struct, frozen=True, eq=False):
    """Some bytes of `file`, which is closed with the last piece of it."""

    file: IO[bytes]
    start: int
    size: int

    def read(self) -> bytes:
        """The bytes. Raises OSError."""
        data = os.pread(self.file.fileno(), self.size, self.start)
        if len(data) != self.size:
            raise OSError(f"a scratch file has {len(data)} bytes where {self.size} were written")
        return data


Aside: TypeAlias = bytes | Piece
"""Bytes, wherever they are."""


class _Scratch:
    """Where this process writes."""

    folder: Path | None = None
    file: IO[bytes] | None = None
    end = 0


def use_scratch(folder: Path | None) -> None:
    """Set bytes aside in `folder`, which exists, from now on; None: nowhere."""
    _Scratch.folder, _Scratch.file = folder, None


def set_aside(data: bytes) -> Aside:
    """`data`, in a file if there is room for it."""
    if _Scratch.folder is None:
        return data
    try:
        if _Scratch.file is None or _Scratch.end >= FILE_BYTES:
            _Scratch.file = tempfile.TemporaryFile(dir=_Scratch.folder, prefix="aside-", buffering=0)  # noqa: SIM115
            _Scratch.end = 0
        start, left = _Scratch.end, memoryview(data)
        while left:
            left = left[os.pwrite(_Scratch.file.fileno(), left, start + len(data) - len(left)) :]
    except OSError:
        # Memory has what the disk does not take: all that was asked for is to save some.
        return data
    _Scratch.end = start + len(data)
    return Piece(_Scratch.file, start, len(data))


def read(aside: Aside) -> bytes:
    """The bytes. Raises OSError."""
    return aside if isinstance(aside, bytes) else aside.read()
