"""Places of the server's own for files that a statement makes and nobody else sees."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path


class LakeScratch:
    """Folders below the server's scratch folder, or the system's one for temporary files."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = Path(tempfile.gettempdir()) if folder is None else folder
        self._names = itertools.count()

    def new(self) -> Path:
        """A folder that is not there yet; who makes it removes it."""
        return self._folder / f"copy-{id(self):x}-{next(self._names)}"
