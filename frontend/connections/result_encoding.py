"""How results of a connection are encoded: what is known of their shapes."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from adapter.results import ColumnDescription, RecordBatch
from frontend.encoding.rows import OFFLOAD_CELLS, RowEncoder, offload, row_encoder, spread, work_of
from frontend.encoding.settings import format_settings
from frontend.protocol import backend
from frontend.protocol.client_encoding import CLIENT_ENCODING

MAX_ENCODINGS = 64
"""Results of so many shapes are known how to be encoded, by each connection."""


class Encoding(Struct, frozen=True, kw_only=True, eq=False):
    """How results of `columns` are sent with `settings`: what writes their rows, and their RowDescription."""

    columns: tuple[ColumnDescription, ...]
    settings: Mapping[str, str]
    encoder: RowEncoder
    description: bytes

    async def rows(self, batch: RecordBatch) -> bytes | memoryview:
        """The DataRow messages of a batch of a few rows."""
        if not batch.num_rows:
            return b""
        few = self.encoder.few_rows(batch)
        if few is not None:
            return few
        work = work_of(batch, len(self.columns))
        if work < OFFLOAD_CELLS:
            return self.encoder.data_rows(batch)
        data: memoryview = await offload(work, self.encoder.data_rows, batch)
        return data


class Encodings:
    """What one connection knows of the shapes of results."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[int, ...]], Encoding] = {}

    def of(
        self, columns: tuple[ColumnDescription, ...], formats: tuple[int, ...], settings: Mapping[str, str]
    ) -> Encoding:
        """How results of these columns are encoded in these formats now."""
        key = id(columns), formats
        known = self._known.get(key)
        if known is not None and known.columns is columns and known.settings is settings:
            return known
        codes = spread(formats, len(columns))
        made = Encoding(
            columns=columns,
            settings=settings,
            encoder=row_encoder(columns, codes, format_settings(settings)),
            description=backend.row_description(columns, codes, CLIENT_ENCODING.get()),
        )
        if len(self._known) >= MAX_ENCODINGS:
            self._known.clear()
        self._known[key] = made
        return made
