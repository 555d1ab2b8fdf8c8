"""Temporary files of a session that there is none of."""

from __future__ import annotations

from pathlib import Path

from adapter.spilling.temporary_files import TemporaryFileCounts, TemporaryFiles


def temporary_files(
    counts: TemporaryFileCounts | None = None,
    *,
    work_mem: str = "4096",
    limit: str = "-1",
    log: str = "-1",
    folder: Path | None = None,
) -> TemporaryFiles:
    """In `folder`, or the system's one; budgets in kB."""
    settings = {"work_mem": work_mem, "temp_file_limit": limit, "log_temp_files": log}
    return TemporaryFiles(folder, counts or TemporaryFileCounts(), 5, lambda: settings)
