"""Parquet parts that this process writes for an engine: rows in batches, files of bounded size, straight to the blob
store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pyarrow as pa

from adapter.engines.common.engine import RecordBatch, WrittenPart
from storage.environment.environment import Environment
from storage.ids import ShardId
from storage.layouts.layout import TableLayout
from storage.layouts.ordering import laid_out
from storage.shards.footers import footer_of
from storage.shards.parts import ROW_ID, checksum, encode_parquet

PART_BYTES = 64 << 20
"""Arrow bytes gathered for one file; what this process holds of a result that it writes."""


class PartFileWriter:
    """Gathers batches and writes them as parts of `shard`, new rows as `layout` says. The columns at `columns` get the
    `names`."""

    def __init__(
        self,
        env: Environment,
        shard: ShardId,
        columns: Sequence[int],
        names: Sequence[str],
        layout: TableLayout | None = None,
        is_ordered: bool = False,
    ) -> None:
        self._env = env
        self._shard = shard
        self._columns = tuple(columns)
        self._names = tuple(names)
        self._layout = None if ROW_ID in names and not is_ordered else layout
        self._batches: list[RecordBatch] = []
        self._bytes = 0
        self.parts: list[WrittenPart] = []

    async def write(self, batch: RecordBatch) -> None:
        """Takes a batch; writes a file when enough has gathered."""
        if not batch.num_rows:
            return
        picked = pa.RecordBatch.from_arrays([batch.column(index) for index in self._columns], names=list(self._names))
        self._batches.append(picked)
        self._bytes += picked.nbytes
        if self._bytes >= PART_BYTES:
            await self._flush()

    async def finish(self) -> Sequence[WrittenPart]:
        """Writes what is left; returns all parts."""
        if self._batches:
            await self._flush()
        return self.parts

    async def _flush(self) -> None:
        batches, self._batches, self._bytes = self._batches, [], 0
        for data, rows in await asyncio.to_thread(_encode, batches, self._layout):
            key = self._env.parts.new_key(self._shard)
            await self._env.blob.put(key, data)
            self.parts.append(
                WrittenPart(key=key, rows=rows, bytes=len(data), checksum=checksum(data), footer=footer_of(data))
            )


def part_writers(
    env: Environment,
    shard: ShardId,
    columns: Sequence[tuple[int, ...]],
    names: Sequence[Sequence[str]],
    layout: TableLayout | None,
    is_ordered: bool,
) -> list[PartFileWriter]:
    """What writes each set of parts (`Engine.write`)."""
    pairs = zip(columns, names, strict=True)
    return [PartFileWriter(env, shard, *pair, layout, is_ordered) for pair in pairs]


def _encode(batches: Sequence[RecordBatch], layout: TableLayout | None) -> list[tuple[bytes, int]]:
    table = pa.Table.from_batches(batches)
    pieces = [table] if layout is None else laid_out(table, layout)
    return [(encode_parquet(piece), piece.num_rows) for piece in pieces]
