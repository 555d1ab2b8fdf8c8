"""New files of rows that this process has: written aside, and all of them there at once when everything is written.

writer = FilesWriter(places, "/lake/out", columns, format, Layout(partition_by=("day",)), tag="x7", scratch=scratch)
writer.write(batch)
writer.finish()        # or abort()
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from storage.lake.output.new_files import NewFiles
from storage.lake.output.row_files import Aside, Layout, OutputFormat, RowFiles, WrittenFile
from storage.lake.places import Places


class FilesWriter:
    """See the module. Belongs to one thread at a time; everything blocks and raises FileTrouble. `files` gives them
    their names; executors may write what gets these instead."""

    def __init__(
        self, places: Places, path: str, schema: pa.Schema, format: OutputFormat, layout: Layout, *,
        tag: str, scratch: Path, beside: bool = False,
    ) -> None:  # fmt: skip
        """See `NewFiles`."""
        self.files = NewFiles(places, path, format, layout, tag=tag, scratch=scratch, beside=beside)
        self.schema = schema
        self.format = format
        self._rows: RowFiles | None = None

    @property
    def bytes(self) -> int:
        """Written so far by `write`."""
        return 0 if self._rows is None else self._rows.bytes

    def write(self, batch: pa.RecordBatch) -> None:
        """Adds rows."""
        if batch.num_rows:  # A file is begun by rows, or by the end.
            self._begun().write(batch)

    def _begun(self) -> RowFiles:
        if self._rows is None:
            files = self.files
            self._rows = RowFiles(self.schema, self.format, files.layout, Aside(files.aside()), shown=files.path)
        return self._rows

    def finish(self, written: Sequence[WrittenFile] = ()) -> None:
        """Ends all files, and puts them where they belong, or those that executors have `written`."""
        if not written:
            if self._rows is None:
                # No rows at all are one file without rows, or a folder without partitions.
                if self.files.layout.partition_by:
                    self.files.remove()
                    return
                self._begun().begin()
            rows = self._begun()
            rows.finish()
            written = rows.whole
        self.files.put(written)

    def abort(self) -> None:
        """Removes what was written, after any error. Raises nothing: what cannot be removed is left aside."""
        if self._rows is not None:
            self._rows.drop()
        self.files.remove()
