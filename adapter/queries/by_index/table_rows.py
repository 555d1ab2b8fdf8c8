"""The rows of one table as its indexes find them: by keys and ranges, or the first ones in some order.

A `TableRows` says how the rows that a conjunction needs are found, if that reads less than a scan, and reads them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from adapter.engines.common.engine import TableInput
from adapter.engines.common.scan_sources import scan_columns, scan_schema
from adapter.plans.first_rows import FirstRows, first_rows
from adapter.plans.index_paths import IndexPath, index_paths, ordered_paths
from adapter.plans.key_indexes import expression_columns, stored_columns, usable_indexes
from adapter.plans.predicates import Conjunction
from adapter.queries.by_index.key_scan import rows_by_key_values, rows_in_range, visible_parts
from adapter.queries.by_index.row_queries import filter_of
from adapter.results import RecordBatch
from adapter.transactions.transaction import Transaction
from planner.ir import nodes as ir
from storage.catalog.model import CatalogSnapshot, Relation
from storage.environment.environment import Environment
from storage.shards.indexes.reading.estimates import MOST_ROWS, Estimate
from storage.shards.indexes.reading.found import Found

FEW_ROWS = 64
"""So many rows are worth an index in a table of any size."""

SOME_ROWS = 8
"""So many rows that do not meet a condition are expected at first."""

SCANNED_AT_ONCE = 8
"""A scan reads so many rows while an index finds one."""

ENGINE_ROWS = 65_536
"""So many rows a scan could read before its engine has begun."""

MANY_FOUND = 64
"""What so many searches found takes a millisecond to put together."""

Paths: TypeAlias = tuple[IndexPath, ...]
"""How the rows of one table are found: one path for each conjunction."""


class TableRows:
    """How the rows of one table are found: see the module."""

    def __init__(
        self,
        env: Environment,
        transaction: Transaction,
        table: TableInput,
        catalog: CatalogSnapshot,
        always: bool,
        by: int | None = None,
    ) -> None:
        """`always` and `by`: see `index_scan.IndexScans`."""
        self.env = env
        self.transaction = transaction
        self.table = table
        self.relation = table.relation
        self.indexes = usable_indexes(catalog, table.relation)
        if by is not None:
            self.indexes = tuple([index for index in self.indexes if index.record.oid == by])
        self.columns = stored_columns(table.relation)
        self.expressions = expression_columns(self.indexes)
        """What the indexes compute."""
        self._most = MOST_ROWS if always else 0
        """So many rows are read by an index whatever a scan would cost."""

    async def narrowed(
        self, rel: ir.Rel, params: Sequence[ir.Literal], needed: Sequence[Conjunction], read: bool
    ) -> tuple[Paths | None, pa.Table | None]:
        """The paths to the rows that `rel` needs, or None, and those rows, if they are to be `read`."""
        if not self.indexes:
            return None, None
        paths, rows = await self._paths(needed)
        if paths is None or rows > 1:
            first = first_rows(rel, self.relation.oid)
            ordered = self._ordered(first, needed[0], params, paths, rows) if first else None
            if ordered is not None:
                picked = await self._first(ordered, params, rows if paths else None) if read else None
                if picked is not None or not read:
                    return ordered, picked
        if paths is None or not read:
            return paths, None
        found = await self.found(paths)
        if len(found) > MANY_FOUND:
            return paths, await asyncio.to_thread(as_table, self.relation, found)
        return paths, as_table(self.relation, found)

    @property
    def budget(self) -> Estimate:
        """What reading by indexes may cost before a scan is better."""
        rows = self.table.rows
        return Estimate(rows=max(rows // SCANNED_AT_ONCE, self._most), unread=rows + ENGINE_ROWS + self._most)

    async def _paths(self, needed: Sequence[Conjunction]) -> tuple[Paths | None, int]:
        """A path for each of `needed`, if they cost less than a scan, and how many rows they find at most."""
        chosen = []
        total = 0
        left = self.budget
        for conjunction in needed:
            best = await self.path(conjunction, left)
            if best is None:
                return None, 0
            path, cost = best
            left = Estimate(rows=left.rows - cost.rows, unread=left.unread - cost.unread)
            total += cost.rows
            chosen.append(path)
        return tuple(chosen), total

    async def path(self, conjunction: Conjunction, left: Estimate) -> tuple[IndexPath, Estimate] | None:
        """The path to the rows of `conjunction` that finds the fewest, and its cost, if that is within what is `left`;
        few rows always are."""
        best: tuple[IndexPath, Estimate] | None = None
        for path in index_paths(conjunction, self.indexes):
            cost = await self._cost(path)
            if best is None or cost.rows < best[1].rows:
                best = path, cost
        return best if best is not None and is_within(best[1], left) else None

    async def _cost(self, path: IndexPath) -> Estimate:
        most = path.most_rows
        if most is not None and most <= FEW_ROWS:
            return Estimate(rows=most, unread=0)
        env, transaction = self.env, self.transaction
        parts, local = await visible_parts(env, transaction, self.relation)
        found = await env.keys.estimate(parts, path.index.definition, keys=path.keys, ranges=path.ranges, local=local)
        return found if found.rows <= MOST_ROWS else replace(found, rows=1 << 62)

    async def found(self, paths: Paths) -> list[Found]:
        env, transaction, relation, columns = self.env, self.transaction, self.relation, self.columns
        found: list[Found] = []
        for number, path in enumerate(paths, 1):
            if number % MANY_FOUND == 0:
                await asyncio.sleep(0)
            index = path.index.definition
            if path.keys is None:
                found += [await rows_in_range(env, transaction, relation, index, each, columns) for each in path.ranges]
            elif path.keys:
                found.append(await rows_by_key_values(env, transaction, relation, index, path.keys, columns))
        return found

    def _ordered(
        self,
        first: Sequence[FirstRows],
        needed: Conjunction,
        params: Sequence[ir.Literal],
        paths: Paths | None,
        rows: int,
    ) -> Paths | None:
        """Paths to first rows in order; None when there are none, or the other `paths`, to so many `rows`, are likely
        to be shorter."""
        not_null = frozenset([f"c{column.attnum}" for column in self.relation.columns if column.not_null])
        schema = scan_schema(scan_columns(self.relation))
        found = []
        for each in first:
            wanted = each.rows(params)
            ways = ordered_paths(each, needed, self.indexes, not_null)
            if wanted is None or not ways or filter_of(each.conditions, each.scan, params, schema) is None:
                return None
            way = max(ways, key=lambda path: len(path.conditions))
            if paths is not None and not paths[0].conditions <= way.conditions:
                wanted = wanted * self.table.rows // max(rows, 1)
            if wanted > max(self._most_in_vain(rows if paths else None), FEW_ROWS):
                return None
            found.append(way)
        return tuple(found)

    def _most_in_vain(self, rows: int | None) -> int:
        """How many rows may be read in order before another way, to so many `rows`, or a scan is better."""
        return max(self._most, self.table.rows // SCANNED_AT_ONCE if rows is None else rows)

    async def _first(self, paths: Paths, params: Sequence[ir.Literal], rows: int | None) -> pa.Table | None:
        """The first rows on all `paths`; None when so many have to be read for them that another way is better."""
        found = []
        for path in paths:
            picked = await self._first_of(path, params, max(self._most_in_vain(rows), FEW_ROWS))
            if picked is None:
                return None
            found.append(picked)
        return pa.concat_tables(found).combine_chunks()

    async def _first_of(self, path: IndexPath, params: Sequence[ir.Literal], most: int) -> pa.Table | None:
        """The first rows on the `path`: as many as are wanted meet the conditions, or there are no more. None when that
        would be more than `most`."""
        first = path.first
        assert first is not None
        wanted = first.rows(params) or 0
        passing = filter_of(first.conditions, first.scan, params, scan_schema(scan_columns(self.relation)))
        assert passing is not None
        limit = wanted if path.covers else wanted + SOME_ROWS
        (keys,) = path.ranges
        while True:
            found = await rows_in_range(
                self.env, self.transaction, self.relation, path.index.definition, keys, self.columns,
                descending=path.backward, limit=limit,
            )  # fmt: skip
            rows = as_table(self.relation, [found])
            if rows.num_rows < limit or passing(batch_of_table(rows)).num_rows >= wanted:
                return rows
            if limit >= most:
                return None
            limit = min(8 * limit, most)


def is_within(cost: Estimate, left: Estimate) -> bool:
    """Whether a reading may cost as much."""
    return cost.rows <= FEW_ROWS or (cost.rows <= left.rows and cost.unread <= left.unread)


def as_table(relation: Relation, found: Sequence[Found], *, is_distinct: bool = True) -> pa.Table:
    """The rows `found`, each once, in `scan_schema`. `is_distinct`: none of them has a row twice."""
    schema = scan_schema(scan_columns(relation))
    if not found:
        return schema.empty_table()
    ids = np.concatenate([each.row_ids for each in found])
    pieces = [
        pa.Table.from_arrays([pa.array(each.row_ids, pa.int64()), *each.rows.columns], schema=schema) for each in found
    ]
    rows = pa.concat_tables(pieces)
    if len(found) > 1 or not is_distinct:
        _, first = np.unique(ids, return_index=True)
        if len(first) < len(ids):
            rows = rows.take(pa.array(np.sort(first)))
    return rows.combine_chunks()


def batch_of_table(rows: pa.Table) -> RecordBatch:
    """The rows in one piece."""
    (batch,) = rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]
    return batch
