"""Index scans: a table of which an index finds the rows that a query needs is read by that index.

What a query needs of a table is known from its conditions (`adapter.plans.predicates`), whatever else it does: joins,
groups, changes rows. So its rows are found first (`adapter.plans.index_paths` says how), and the query runs over them
as over a small table: often without any engine. It does so when that reads less than a scan, which is known before a
row is read: indexes know how many rows they have where, and which of them are at hand. Small tables are read whole.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from adapter.engines.common.engine import RecordBatch, TableInput
from adapter.engines.common.result_batches import ResultShape
from adapter.engines.common.scan_sources import scan_columns, scan_schema
from adapter.plans.predicates import ScanTemplate, bind_templates, scan_templates
from adapter.queries.by_index.join_scan import Keys, rows_of_partners
from adapter.queries.by_index.row_queries import row_query
from adapter.queries.by_index.table_rows import SCANNED_AT_ONCE, Paths, TableRows, batch_of_table
from adapter.transactions.snapshots import ResolvedTables, is_small
from adapter.transactions.transaction import Transaction
from planner.definitions.expression_columns import with_expressions
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.past_rows import PAST_ROWS
from storage.catalog.model import CatalogSnapshot
from storage.environment.environment import Environment

MAX_PARTNERS = 100_000
"""Rows of one side of a join whose values are looked up in a table on the other."""

WORTH_A_QUERY = 32_768
"""A smaller table is joined sooner than another query tells which of its rows are needed."""

MAX_ROUNDS = 3
"""So often tables that are still read whole are tried again, since others have become small."""

MAX_DEPTH = 2
"""A side of a join is looked at like this for the join itself and for a side of it."""

Run: TypeAlias = Callable[[BoundQuery, ResolvedTables], AsyncIterator[RecordBatch]]
"""Runs a query that is part of another one, over some of its tables."""


class Narrowed(Struct, frozen=True, kw_only=True):
    """What a query reads, some tables by indexes: `paths` by their oids. Their rows have been `picked` unless it was
    only asked what would be done."""

    tables: ResolvedTables
    paths: Mapping[int, Paths]


class IndexScans(Struct, frozen=True, kw_only=True):
    """For whom tables are read by indexes. `always`: wherever they can be, whatever a scan would cost. `read`: else it
    is only found out what would be read. `by`: the oid of the only index that is used, which small tables are read by
    too."""

    env: Environment
    transaction: Transaction
    catalog: CatalogSnapshot
    params: Sequence[ir.Literal]
    read: bool
    always: bool
    by: int | None = None

    async def narrowed(
        self, query: BoundQuery, templates: Sequence[ScanTemplate], tables: ResolvedTables, run: Run, depth: int = 0
    ) -> Narrowed | None:
        """`tables` of `query` with those read by indexes where it pays; None when it pays nowhere. The smaller sides of
        joins are `run` by themselves, and so are theirs, to some `depth`."""
        paths: dict[int, Paths] = {}
        inputs = dict(tables.inputs)
        whole: list[TableRows] = []
        for oid, table in tables.inputs.items():
            if (is_small(table) and self.by is None) or table.picked is not None or oid <= PAST_ROWS:
                continue  # NOTE: indexes find the rows of the transaction's own snapshot.
            rows = TableRows(self.env, self.transaction, table, self.catalog, self.always, self.by)
            rel, needed = query.rel, tables.needed.get(oid, ((),))
            if rows.expressions:
                rel = with_expressions(rel, oid, rows.expressions)
                needed = bind_templates(scan_templates(rel), self.params).get(oid, needed)
            found, picked = await rows.narrowed(rel, self.params, needed, self.read)
            if found is not None:
                paths[oid] = found
                if picked is not None:
                    inputs[oid] = with_rows(table, picked)
            elif rows.indexes and (table.rows >= WORTH_A_QUERY or self.always):
                whole.append(rows)
        if whole and depth < MAX_DEPTH:
            await self._join(query, templates, whole, inputs, paths, run, depth)
        return Narrowed(tables=replace(tables, inputs=inputs), paths=paths) if paths else None

    async def _join(
        self,
        query: BoundQuery,
        templates: Sequence[ScanTemplate],
        whole: list[TableRows],
        inputs: dict[int, TableInput],
        paths: dict[int, Paths],
        run: Run,
        depth: int,
    ) -> None:
        """Narrow those of the tables that are `whole` whose rows are joined to few."""

        async def keys_of(inner: BoundQuery, rows: int) -> Keys | None:
            return await self._keys(inner, inputs, paths, rows // SCANNED_AT_ONCE, run, depth)

        for _ in range(MAX_ROUNDS):
            left = []
            for rows in sorted(whole, key=lambda each: each.table.rows):
                found = await rows_of_partners(rows, query, templates, self.params, keys_of, read=self.read)
                if found is None:
                    left.append(rows)
                    continue
                oid = rows.relation.oid
                paths[oid], picked = found
                if picked is not None:
                    inputs[oid] = with_rows(rows.table, picked)
            if not left or len(left) == len(whole):
                return
            whole = left

    async def _keys(
        self,
        query: BoundQuery,
        inputs: Mapping[int, TableInput],
        paths: Mapping[int, Paths],
        most: int,
        run: Run,
        depth: int,
    ) -> Keys | None:
        """The rows of `query` by columns; None when it reads more than `most` rows, or gives too many."""
        templates = scan_templates(query.rel)
        oids = {template.relation_oid for template in templates}
        if not oids <= inputs.keys():
            return None
        tables = ResolvedTables(
            inputs={oid: inputs[oid] for oid in oids}, total_parts={}, needed=bind_templates(templates, self.params)
        )
        found = await self.narrowed(query, templates, tables, run, depth + 1)
        by_index = {*paths, *(() if found is None else found.paths)}
        if found is not None:
            tables = found.tables
        rows = [table.rows for oid, table in tables.inputs.items() if self.read or oid not in by_index]
        if sum(rows) > (MAX_PARTNERS if self.always else most):
            return None
        shape = ResultShape(query.rel.fields)
        batches = [shape.conform(pa.RecordBatch.from_pylist([], shape.schema))]
        if self.read:
            stream: Any = run(query, tables)
            async with aclosing(stream) as results:
                async for batch in results:
                    batches.append(batch)
                    if sum([each.num_rows for each in batches]) > MAX_PARTNERS:
                        return None
        table = pa.Table.from_batches(batches).combine_chunks()
        return tuple([_array(column) for column in table.columns])


def _array(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def with_rows(table: TableInput, rows: pa.Table) -> TableInput:
    """`table`, of which nothing but `rows` is read."""
    return replace(table, inserts=(), deletes=(), bytes=rows.nbytes, rows=rows.num_rows, picked=rows)


def answer(
    query: BoundQuery, params: Sequence[ir.Literal], found: Narrowed, *, read: bool
) -> tuple[bool, RecordBatch | None]:
    """Whether `query` needs no engine over the rows of its only table, and if they have been `read` its result."""
    if len(found.tables.inputs) != 1:
        return False, None
    ((_, table),) = found.tables.inputs.items()
    ((path, *_),) = found.paths.values()
    schema = scan_schema(scan_columns(table.relation))
    simple = row_query(query.rel, params, schema, ordered=path.first is not None)
    if simple is None or not read:
        return simple is not None, None
    result = simple.answer(batch_of_table(table.picked))
    return result is not None, None if result is None else ResultShape(query.rel.fields).conform(result)
