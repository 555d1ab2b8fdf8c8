"""New rows on their way into a transaction in the order that the layout of their table asks for (`storage.layouts`).

Rows gather up to a budget, are divided by partition and sorted, cut into pieces that make files of the right size, and
written; so each file is in order, and a change of any size runs in bounded memory: no file stays open. Rows that come
in order, as an engine has sorted them, make files that are in order one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from adapter.lake.file_rows import FileRows, checked
from adapter.queries.prepared_read import PreparedRead
from adapter.results import RecordBatch
from adapter.threads import Workers
from planner.ir import nodes as ir
from storage.ids import ShardId
from storage.layouts.layout import TableLayout
from storage.layouts.ordering import laid_out
from storage.off_loop import AT_ONCE_ROWS
from storage.shards.parts import arrow_bytes
from storage.transactions.txn import Txn

RUN_BYTES = 24 << 20
"""Arrow bytes that are sorted at a time."""


class LaidOutRows:
    """What a statement adds to one shard."""

    def __init__(self, txn: Txn, shard: ShardId, layout: TableLayout) -> None:
        self._txn = txn
        self._shard = shard
        self._layout = layout
        self._gathered: list[RecordBatch] = []
        self._bytes = 0

    async def write(self, rows: RecordBatch) -> None:
        """Add rows."""
        if not rows.num_rows:
            return
        self._gathered.append(rows)
        self._bytes += arrow_bytes(rows)
        if self._bytes >= RUN_BYTES:
            await self.finish()
            await self._txn.spill()

    async def finish(self) -> None:
        """No more rows come, or what has come is to be seen in the transaction."""
        if not self._gathered:
            return
        rows = pa.Table.from_batches(self._gathered)
        self._gathered, self._bytes = [], 0
        work = partial(laid_out, rows, self._layout)
        for piece in await asyncio.to_thread(work) if rows.num_rows > AT_ONCE_ROWS else work():
            self._txn.end_run(self._shard)
            self._txn.write(self._shard, piece)


def sorted_stream(
    read: PreparedRead, columns: list[str], layout: TableLayout, threads: Workers
) -> AsyncIterator[RecordBatch]:
    """The rows of `read`, sorted by the engine that reads them, if one does. `columns` are the names that its fields
    get. Not for rows that are locked or acted upon in the order in which they come."""
    query = read.query
    if not layout.order or read.engine is None:
        return read.stream()
    fields = dict(zip(columns, query.rel.fields, strict=True))
    keys = [
        ir.SortKey(expr=ir.ColumnRef(id=fields[name].id, type=fields[name].type), descending=False, nulls_first=False)
        for name in layout.order
    ]
    query = replace(query, rel=ir.Sort(input=query.rel, keys=tuple(keys), fields=query.rel.fields))
    stream: Any = partial(
        read.engine.execute, query, read.resolved.inputs, read.params, read.context, extra=read.at_hand
    )
    files = tuple(rows for rows in read.at_hand.values() if isinstance(rows, FileRows))
    if files:
        stream = partial(checked, stream, files, threads)
    batches: AsyncIterator[RecordBatch] = stream()
    return batches
