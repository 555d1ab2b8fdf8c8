"""COPY whose data is bytes as they are: a Parquet file, or lines of JSON.

The session's side has them as batches of one binary column.
"""

from __future__ import annotations

import pyarrow as pa

from frontend.copy.places import RowPlaces
from frontend.encoding.rows import RecordBatch, copy_data_messages

_BLOCK_BYTES = 1 << 20


class RawOutput:
    """Each value is sent as it is."""

    binary = True

    def start(self) -> bytes:
        """Nothing comes before them."""
        return b""

    def rows(self, batch: RecordBatch, first: bool) -> memoryview:
        """The CopyData messages of the batch's values."""
        return copy_data_messages(batch.column(0))

    def finish(self, *, any_rows: bool) -> bytes:
        """Nothing comes after them."""
        return b""


class RawInput:
    """Received bytes are handed on in blocks."""

    pending_cells = 0

    def __init__(self, relation_name: str) -> None:
        self.where = f"COPY {relation_name}"
        self.places = RowPlaces(relation_name)
        self._pending: list[bytes] = []
        self._bytes = 0

    @property
    def block_ready(self) -> bool:
        """Whether enough has come to be handed on."""
        return self._bytes >= _BLOCK_BYTES

    def add(self, data: bytes) -> None:
        """Takes received bytes."""
        self._pending.append(data)
        self._bytes += len(data)

    def take(self, *, final: bool = False) -> list[RecordBatch]:
        """What has been added."""
        batch = pa.record_batch([pa.array(self._pending, pa.binary())], names=["data"])
        self._pending, self._bytes = [], 0
        return [batch]
