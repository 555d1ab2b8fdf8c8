"""Room on a disk that is kept for what frees room: a file that is removed once the disk is full.

A full disk would otherwise stop everything: a lease cannot be renewed without a few bytes, so nothing may be read, and
nothing can be dropped. While the reserve is gone, whoever adds data is refused (`Consensus.is_low`). It is set up again
when there is room for it twice. Processes that share the folder share the file.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

RESERVE_BYTES = 8 << 20
"""Some thousand writes of what is small: leases, drops, what has been applied."""


class DiskReserve:
    """The file `path`. All of it blocks for as long as the file system takes for a small file."""

    def __init__(self, path: Path, size: int = RESERVE_BYTES) -> None:
        self._path = path
        self._size = size

    @property
    def is_there(self) -> bool:
        """Whether the room is kept."""
        return self._path.exists()

    def release(self) -> bool:
        """Give the room to others; whether there was any."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def set_up(self) -> None:
        """Keep the room, if it is not kept and there is more than enough."""
        found = os.statvfs(self._path.parent)
        if self.is_there or found.f_bavail * found.f_frsize < 2 * self._size:
            return
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, self._size)
            except OSError:
                # Somebody else has taken it in the meantime.
                self.release()
            finally:
                os.close(descriptor)
