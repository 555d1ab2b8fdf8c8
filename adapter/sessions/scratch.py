"""A server's private folder for what does not outlive it: spilled results, Spark's files, copies of objects.

It is removed at the end. A server that was killed cannot do that, so each one removes, when it starts, the folders
whose servers are gone: a lock, which ends with its process, tells.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "tidegate-"
LOCK = "alive.lock"


class Scratch:
    """A folder below the system's one for temporary files. All methods block."""

    def __init__(self, parent: Path | None = None) -> None:
        """Make the folder, and remove those that dead servers left beside it."""
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        # NOTE: locked before it has its name, so that nobody finds it unlocked.
        unnamed = self.path / f"{LOCK}.new"
        self._descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        unnamed.rename(self.path / LOCK)
        for folder in self.path.parent.glob(f"{PREFIX}*"):
            _remove_if_dead(folder)

    def remove(self) -> None:
        """Remove the folder. Idempotent."""
        if self._descriptor >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._descriptor)
            self._descriptor = -1


def _remove_if_dead(folder: Path) -> None:
    # Folders of other users, and those that somebody else is removing, are left alone.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)
