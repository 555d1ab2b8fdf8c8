"""An engine over a blob store that is not a folder: what a statement reads is fetched first.

Engines open the files at `Blob.uri`. `storage.stores.blob_files.BlobFiles` provides those of an object store on this
machine; this keeps them there for as long as the engine reads them. What an engine writes needs nothing more: it
writes to `uri`, and sealing stores it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import pyarrow as pa

from adapter.engines.common.engine import Engine, EngineName, RecordBatch, RowTasks, TableInput, WrittenPart
from adapter.execution_context import ExecutionContext
from planner.ir.bound import BoundQuery
from planner.ir.nodes import Literal
from storage.ids import ShardId
from storage.layouts.layout import TableLayout
from storage.stores.blob_files import BlobFiles


class EngineWithFiles:
    """`Engine` that lets `inner` run with the files of its inputs in place."""

    def __init__(self, inner: Engine, files: BlobFiles) -> None:
        self.inner = inner
        self.name: EngineName = inner.name
        self._files = files

    def unsupported(self, query: BoundQuery) -> str | None:
        """See `Engine.unsupported`."""
        return self.inner.unsupported(query)

    def avoided(self, query: BoundQuery) -> str | None:
        """See `Engine.avoided`."""
        return self.inner.avoided(query)

    def knows(self, query: BoundQuery) -> bool:
        """See `Engine.knows`."""
        return self.inner.knows(query)

    async def execute(
        self,
        query: BoundQuery,
        tables: Mapping[int, TableInput],
        params: Sequence[Literal],
        context: ExecutionContext,
        *,
        extra: Mapping[int, pa.Table] | None = None,
    ) -> AsyncIterator[RecordBatch]:
        """See `Engine.execute`."""
        stream: Any = self.inner.execute(query, tables, params, context, extra=extra)
        async with self._files.holding(_keys(tables)), aclosing(stream) as batches:
            async for batch in batches:
                yield batch

    async def write(
        self,
        query: BoundQuery,
        tables: Mapping[int, TableInput],
        params: Sequence[Literal],
        context: ExecutionContext,
        *,
        shard: ShardId,
        columns: Sequence[tuple[int, ...]],
        names: Sequence[Sequence[str]],
        layout: TableLayout | None = None,
        is_ordered: bool = False,
        extra: Mapping[int, pa.Table],
    ) -> Sequence[Sequence[WrittenPart]]:
        """See `Engine.write`."""
        async with self._files.holding(_keys(tables)):
            return await self.inner.write(
                query, tables, params, context,
                shard=shard, columns=columns, names=names, layout=layout, is_ordered=is_ordered, extra=extra,
            )  # fmt: skip

    def reaches(self, path: str, options: Mapping[str, str]) -> bool:
        """See `Engine.reaches`."""
        return self.inner.reaches(path, options)

    async def hand_over(
        self,
        query: BoundQuery,
        tables: Mapping[int, TableInput],
        params: Sequence[Literal],
        context: ExecutionContext,
        *,
        tasks: RowTasks,
        extra: Mapping[int, pa.Table],
    ) -> Sequence[RecordBatch]:
        """See `Engine.hand_over`."""
        async with self._files.holding(_keys(tables)):
            return await self.inner.hand_over(query, tables, params, context, tasks=tasks, extra=extra)

    async def cancel(self, token: str) -> None:
        """See `Engine.cancel`."""
        await self.inner.cancel(token)

    async def close(self) -> None:
        """See `Engine.close`."""
        await self.inner.close()


def _keys(tables: Mapping[int, TableInput]) -> list[str]:
    """The objects of the parts that are read."""
    return [part.key for table in tables.values() for part in (*table.inserts, *table.deletes) if part.key is not None]
