"""Rows that are no Arrow dataset, as an Arrow stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from storage.lake.opened import OpenedFiles
from storage.lake.troubles import FileTrouble, malformed


class RowStream:
    """The rows that `rows` gives of each file, with its path, as an Arrow stream that begins anew each time. It ends at
    the first trouble, which is noted in `opened`: see `storage.lake.opened`."""

    def __init__(
        self,
        schema: pa.Schema,
        opened: OpenedFiles,
        rows: Callable[[], Iterable[tuple[str, Iterable[pa.RecordBatch]]]],
    ) -> None:
        self._schema = schema
        self._opened = opened
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        reader = pa.RecordBatchReader.from_batches(self._schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for path, rows in self._rows():
            try:
                yield from rows
            except FileTrouble as trouble:
                self._opened.trouble = self._opened.trouble or trouble
                return
            except (pa.ArrowException, OSError) as error:
                self._opened.trouble = self._opened.trouble or malformed(path, error)
                return
