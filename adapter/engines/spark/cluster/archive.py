"""This server's code as an archive, which Spark hands to the Python workers of executors."""

from __future__ import annotations

import zipfile
from pathlib import Path

import planner

STOREYS = ("frontend", "adapter", "planner", "storage")


def write_archive(path: Path) -> None:
    """Write the modules that executors may call, and the data that they read, to the zip file `path`."""
    root = Path(planner.__file__).parent.parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for storey in STOREYS:
            for file in sorted((root / storey).rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    archive.write(file, file.relative_to(root))
