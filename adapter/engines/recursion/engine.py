"""An engine whose recursive queries are run in rounds where its own WITH RECURSIVE cannot run them.

A round is an execution of the engine like any other, so that it is admitted, watched and cancelled as one. Its rows
come here, and go back to the engine as rows at hand for the next round.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from adapter.engines.common.engine import ArrowTable, Engine, EngineName, RecordBatch, RowTasks, TableInput, WrittenPart
from adapter.engines.common.kept_rows import KeptRows
from adapter.execution_context import ExecutionContext
from planner.dialects.of_engine import dialect_of
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.nodes import Literal
from planner.ir.rewrite import walk
from planner.lowering.rounds import RecursiveTable, Rounds, rounds_of
from storage.bounded_map import BoundedMap
from storage.cache_memory import aging
from storage.ids import ShardId
from storage.layouts.layout import TableLayout

MAX_QUERIES = 512
"""Queries whose rounds are known, as many as an engine knows."""


class EngineInRounds:
    """`Engine` that runs in rounds what `inner` cannot run at once. `folder` takes rows that are many."""

    def __init__(self, inner: Engine, folder: Path) -> None:
        self.inner = inner
        self.name: EngineName = inner.name
        self._folder = folder
        self._known: BoundedMap[int, tuple[BoundQuery, Rounds | None]] = aging(BoundedMap(max_entries=MAX_QUERIES))

    def unsupported(self, query: BoundQuery) -> str | None:
        """See `Engine.unsupported`."""
        rounds = self._rounds(query)
        if rounds is None:
            return self.inner.unsupported(query)
        queries = [one for table in rounds.tables for one in (table.first, table.further)]
        return next((why for one in (*queries, rounds.body) if (why := self.inner.unsupported(one))), None)

    def avoided(self, query: BoundQuery) -> str | None:
        """See `Engine.avoided`."""
        return self.inner.avoided(query) if self._rounds(query) is None else None

    def knows(self, query: BoundQuery) -> bool:
        """See `Engine.knows`."""
        known = self._known.get(id(query))
        if known is None or known[0] is not query or known[1] is None:
            return self.inner.knows(query)
        return self.inner.knows(known[1].body)

    async def execute(
        self,
        query: BoundQuery,
        tables: Mapping[int, TableInput],
        params: Sequence[Literal],
        context: ExecutionContext,
        *,
        extra: Mapping[int, ArrowTable] | None = None,
    ) -> AsyncIterator[RecordBatch]:
        """See `Engine.execute`."""
        rounds = self._rounds(query)
        if rounds is not None:
            query, extra = rounds.body, await self._rows(rounds, tables, params, context, extra or {})
        stream: Any = self.inner.execute(query, tables, params, context, extra=extra)
        async with aclosing(stream) as batches:
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
        extra: Mapping[int, ArrowTable],
    ) -> Sequence[Sequence[WrittenPart]]:
        """See `Engine.write`."""
        rounds = self._rounds(query)
        if rounds is not None:
            query, extra = rounds.body, await self._rows(rounds, tables, params, context, extra or {})
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
        extra: Mapping[int, ArrowTable],
    ) -> Sequence[RecordBatch]:
        """See `Engine.hand_over`."""
        rounds = self._rounds(query)
        if rounds is not None:
            query, extra = rounds.body, await self._rows(rounds, tables, params, context, extra or {})
        return await self.inner.hand_over(query, tables, params, context, tasks=tasks, extra=extra)

    async def cancel(self, token: str) -> None:
        """See `Engine.cancel`."""
        await self.inner.cancel(token)

    async def close(self) -> None:
        """See `Engine.close`."""
        await self.inner.close()

    def _rounds(self, query: BoundQuery) -> Rounds | None:
        known = self._known.get(id(query))
        if known is None or known[0] is not query:
            known = (query, rounds_of(query, dialect_of(self.name)))
            self._known.put(id(query), known)
        return known[1]

    async def _rows(
        self,
        rounds: Rounds,
        tables: Mapping[int, TableInput],
        params: Sequence[Literal],
        context: ExecutionContext,
        extra: Mapping[int, ArrowTable],
    ) -> dict[int, ArrowTable]:
        """What `rounds.body` reads besides: the rows of the recursive tables."""
        at_hand = dict(extra)

        async def run(query: BoundQuery, fields: Sequence[ir.Field]) -> KeptRows:
            read = {node.cte for node in walk(query.rel) if isinstance(node, ir.CteScan)}
            kept = KeptRows(fields, self._folder)
            given = {key: rows for key, rows in at_hand.items() if key in read}
            stream: Any = self.inner.execute(query, tables, params, context, extra=given or None)
            async with aclosing(stream) as batches:
                async for batch in batches:
                    await asyncio.to_thread(kept.append, batch)
            return kept

        for table in rounds.tables:
            fields = table.first.rel.fields
            added = await run(table.first, fields)
            so_far = KeptRows(fields, self._folder)
            so_far.add(added)
            while added.rows and not _has_enough(table, so_far):
                at_hand |= {table.added: added.table(), table.so_far: so_far.table()}
                added = await run(table.further, fields)
                await asyncio.to_thread(so_far.add, added)
            at_hand.pop(table.added, None)
            at_hand[table.so_far] = so_far.table()
        return at_hand


def _has_enough(table: RecursiveTable, rows: KeptRows) -> bool:
    return table.enough is not None and rows.rows >= table.enough
