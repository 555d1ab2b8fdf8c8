"""Blocks of sequence numbers that the workers of one server share: a small file for each sequence in their folder.

Who holds the file's lock may read the block and replace it; a lock ends with its process. A block is replaced by one
write before any of its numbers is given out, so a process that is killed loses numbers and gives none twice. The folder
is made anew when the server starts: what was reserved then is a gap.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from storage.catalog.sequences import Block, Place
from storage.clock import Clock

TRY_AGAIN_S = 0.001
"""Pause before a lock is tried again that another process has, mostly for microseconds, or for one write to the
consensus store."""

MAX_BLOCK_BYTES = 1 << 20
"""More than any block takes: what is left of one are 32 numbers at most."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Block)


class BlockFiles:
    """`Blocks` in the files of `folder`."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._locks: dict[str, asyncio.Lock] = {}
        folder.mkdir(exist_ok=True)

    @contextlib.asynccontextmanager
    async def place(self, key: str) -> AsyncIterator[Place]:
        """See `Blocks.place`."""
        async with self._locks.setdefault(key, asyncio.Lock()):
            descriptor = os.open(self._folder / key, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                while not _try_lock(descriptor):
                    await self._clock.sleep(TRY_AGAIN_S)
                data = os.pread(descriptor, MAX_BLOCK_BYTES, 0)
                place = Place(_decoder.decode(data) if data else None)
                try:
                    yield place
                finally:
                    _replace(descriptor, data, b"" if place.block is None else _encoder.encode(place.block))
            finally:
                os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _replace(descriptor: int, before: bytes, after: bytes) -> None:
    if after == before:
        return
    if len(after) < len(before):
        # NOTE: emptied first. A process that is killed between the two loses the block, and tears none.
        os.ftruncate(descriptor, 0)
    if after:
        os.pwrite(descriptor, after, 0)
