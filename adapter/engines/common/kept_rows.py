"""Rows that a query goes on with, as those of the rounds of a recursive one: in memory while they are few, in a file
beyond.

The file holds Arrow's own bytes and is mapped into memory, so that the system takes from memory what nobody reads; it
has no name from the moment that it is open.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from planner.ir.nodes import Field
from planner.ir.physical import arrow_schema
from storage.shards.parts import arrow_bytes

MEMORY_BYTES = 32 << 20
"""Rows are in memory up to this size."""


class KeptRows:
    """Rows of the columns `fields`, which can only become more. Everything blocks but `table` and `rows`."""

    def __init__(self, fields: Sequence[Field], folder: Path) -> None:
        self._schema = pa.schema([(f"c{n}", field.type) for n, field in enumerate(arrow_schema(fields), 1)])
        self._folder = folder
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._written: list[pa.RecordBatch] = []
        self.rows = 0

    def append(self, batch: pa.RecordBatch) -> None:
        """Adds the rows of `batch`."""
        if not batch.num_rows:
            return
        self._batches.append(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))
        self.rows += batch.num_rows
        self._bytes += arrow_bytes(batch)
        if self._bytes > MEMORY_BYTES:
            self._write()

    def add(self, others: KeptRows) -> None:
        """Adds all rows of `others`, which have the same columns."""
        self._written += others._written
        for batch in others._batches:
            self.append(batch)
        self.rows += sum(batch.num_rows for batch in others._written)

    def table(self) -> pa.Table:
        """All rows."""
        return pa.Table.from_batches([*self._written, *self._batches], self._schema)

    def _write(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self._folder, prefix="rows-") as file:
            with pa.ipc.new_file(file.name, self._schema) as writer:
                for batch in self._batches:
                    writer.write_batch(batch)
            with pa.memory_map(file.name) as mapped:
                reader = pa.ipc.open_file(mapped)
                self._written += [reader.get_batch(index) for index in range(reader.num_record_batches)]
        self._batches.clear()
        self._bytes = 0
