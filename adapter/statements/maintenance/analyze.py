"""ANALYZE: what it finds out of a table's columns, for pg_stats.

A table of up to 300 rows for each unit of the statistics target is looked at row by row, so that everything is exact;
of a larger one so many rows are picked by chance, as PostgreSQL picks them (std_typanalyze). Of one with more than
`MAX_READ_ROWS` rows only some files, also picked by chance, are read. The local engine sorts, one column after the
other; a cancel request ends it between any two batches.

NOTE: what is read is not validated at the commit. Rows that others write meanwhile make the statistics old, not wrong.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from adapter.engines.common.engine import TableInput
from adapter.execution.statement import Running
from adapter.plans.plan_cache import make_plan
from adapter.plans.predicates import scan_templates
from adapter.queries.extents.gathered import replace_gathered
from adapter.queries.read import prepare_read
from adapter.statements.maintenance.looking import looking_as_superuser, name_of
from adapter.statistics.column_statistics import (
    MAX_WIDTH,
    ColumnStatistics,
    SampledValues,
    counted_statistics,
    scalar_statistics,
)
from adapter.transactions.snapshots import resolve
from planner.syntax.identifiers import quote_identifier
from planner.syntax.parse import split_and_parse
from planner.types import types as t
from planner.types.operator_classes import default_operator_class
from planner.types.ranges import range_of, range_or_multirange
from planner.types.type_names import element_of, type_length
from storage.catalog.model import CatalogSnapshot, Column, Relation

ROWS_PER_TARGET = 300
"""Rows that are enough for a statistics target of 1 (Chaudhuri, Motwani and Narasayya, as analyze.c explains)."""

MAX_READ_ROWS = 3_000_000
"""A hundred times what the default target needs: more files are not read, once those picked have so many rows."""


async def gather(running: Running, relation: Relation, names: Sequence[str]) -> None:
    """Find out about the columns called `names`, or all, of a table or materialized view. Raises QueryCanceled."""
    if relation.shard is None or running.transaction.looks_back:
        return
    columns = [(column, target) for column in relation.live_columns() if (target := _target(running, column))]
    columns = [(column, target) for column, target in columns if not names or column.name in names]
    if not columns:
        return
    if running.transaction.snapshot is None:
        await running.transaction.begin_statement(running.services.env)
    catalog = running.transaction.catalog
    with looking_as_superuser(running, "local"):
        read, total = await _what_to_read(running, catalog, relation)
        wanted = ROWS_PER_TARGET * max(target for _, target in columns)
        found: dict[int, ColumnStatistics] = {}
        if read.rows:
            share = min(wanted / total, 1.0) * (total / max(_left(read), 1)) if total else 1.0
            for column, target in columns:
                statistics = await _column(running, catalog, read, column, target, total, min(share, 1.0))
                if statistics is not None:
                    found[column.attnum] = _as_said(column, statistics)
    if found:
        await replace_gathered(running, relation.oid, found)


def _target(running: Running, column: Column) -> int:
    default = int(running.session.values.flat["default_statistics_target"])
    return default if column.statistics < 0 else column.statistics


def _as_said(column: Column, statistics: ColumnStatistics) -> ColumnStatistics:
    """With ALTER COLUMN ... SET (n_distinct = ...)."""
    for option in column.options:
        name, _, value = option.partition("=")
        if name == "n_distinct" and float(value):
            return replace(statistics, n_distinct=float(value))
    return statistics


async def _what_to_read(running: Running, catalog: CatalogSnapshot, relation: Relation) -> tuple[TableInput, int]:
    """The files of the table, or some of them, and how many rows it has."""
    env, transaction = running.services.env, running.transaction
    resolved = await resolve(env, transaction, catalog, frozenset({relation.oid}), (), (), record=False)
    whole = resolved.inputs[relation.oid]
    total = _left(whole)
    if whole.rows <= MAX_READ_ROWS:
        return whole, total
    parts = list(whole.inserts)
    picked, rows = [], 0
    while parts and rows < MAX_READ_ROWS:
        at = env.random.randrange(len(parts))
        parts[at], parts[-1] = parts[-1], parts[at]
        picked.append(parts.pop())
        rows += picked[-1].rows
    picked.sort(key=lambda part: part.first_row_id)
    inserts = tuple(picked)
    spans = [part.row_id_bounds for part in inserts]
    low, high = spans[0][0], max(last for _, last in spans)
    deletes = tuple(part for part in whole.deletes if part.row_id_bounds[0] <= high and part.row_id_bounds[1] >= low)
    return replace(whole, inserts=inserts, deletes=deletes, rows=rows, bytes=sum(part.bytes for part in inserts)), total


def _left(table: TableInput) -> int:
    deleted: int = sum(part.rows for part in table.deletes)
    return max(table.rows - deleted, 0)


async def _column(
    running: Running, catalog: CatalogSnapshot, read: TableInput, column: Column, target: int, total: int, share: float
) -> ColumnStatistics | None:
    """What a column has in a `share` of the rows of `read`; None when there are none."""
    base = t.under_domain(column.type_oid)
    name, fixed = quote_identifier(column.name), type_length(base)
    sample = name_of(catalog, read.relation)
    if share < 1.0:
        sample += f" WHERE pg_catalog.random() < {share:.17g}"
    width = _width(base, fixed)
    is_range = range_or_multirange(base) is not None
    if is_range or default_operator_class(base) is None:
        counted = f"pg_catalog.count(*), pg_catalog.count(v), pg_catalog.avg({width})::float8"
        text = f"SELECT {counted} FROM (SELECT {name} FROM {sample}) x(v)"
        row = [value async for batch in _batches(running, catalog, read, text) for value in batch.to_pylist()]
        rows, values, average = row[0].values()
        # PostgreSQL takes all ranges to be different (compute_range_stats), and of other types knows nothing.
        distinct = -1.0 if is_range else 0.0
        average = max(fixed, 0) if average is None else average
        return counted_statistics(column.type_oid, rows, values, average, distinct) if rows else None
    shown = _shown(base)
    numbered = f"SELECT {name}, pg_catalog.row_number() OVER (ORDER BY ctid) FROM {sample}"
    text = (
        f"SELECT pg_catalog.dense_rank() OVER (ORDER BY v), p, w, CASE WHEN w <= {MAX_WIDTH} THEN {shown} END"
        f" FROM (SELECT v, p, {width} FROM ({numbered}) x(v, p)) y(v, p, w) ORDER BY v, p"
    )
    found = [batch async for batch in _batches(running, catalog, read, text)]
    table = pa.Table.from_batches(found) if found else None
    if table is None or not table.num_rows:
        return None
    filled = table.filter(table.column(2).is_valid())
    groups, places, widths = (np.asarray(filled.column(n).combine_chunks(), np.int64) for n in range(3))
    sampled = SampledValues(
        rows=table.num_rows, groups=groups, places=places, widths=widths, texts=filled.column(3).combine_chunks()
    )
    known = table.num_rows if share >= 1.0 and read.rows == total else max(total, table.num_rows)
    return scalar_statistics(column.type_oid, fixed, sampled, known, target)


async def _batches(running: Running, catalog: CatalogSnapshot, table: TableInput, text: str) -> AsyncIterator[Any]:
    session = running.session
    plan = make_plan(split_and_parse(text)[0], session.bind_context(catalog), ())
    assert plan.query is not None
    session.brought = {table.relation.oid: table}
    read = await prepare_read(running, catalog, plan.query, scan_templates(plan.query.rel))
    stream: Any = read.stream()
    async with aclosing(stream) as batches:
        async for batch in batches:
            yield batch


def _shown(type_oid: int) -> str:
    """The text that the type's output function gives, where that is another than the cast's."""
    return "pg_catalog.concat(v)" if type_oid in (t.BOOL, t.BPCHAR, t.INET) else "v::text"


def _width(type_oid: int, fixed: int) -> str:
    """The bytes that PostgreSQL takes for a value `v` of a row, if it does not compress it: of a text, a number, a bit
    string, an address, and a range or array of values of a fixed length exactly, of others about."""
    if fixed > 0:
        return f"CASE WHEN v IS NOT NULL THEN {fixed} END"
    if type_oid in (t.INET, t.CIDR):
        return "CASE pg_catalog.family(v) WHEN 4 THEN 7 WHEN 6 THEN 19 END"
    length = type_length(element_of(type_oid)) if element_of(type_oid) else 0
    over = range_of(type_oid)
    if over is not None and type_length(over.subtype) > 0:
        ends = "(NOT pg_catalog.lower_inf(v))::int + (NOT pg_catalog.upper_inf(v))::int"
        size = f"9 + CASE WHEN pg_catalog.isempty(v) THEN 0 ELSE {type_length(over.subtype)} * ({ends}) END"
    elif type_oid in (t.BIT, t.VARBIT):
        size = "8 + (pg_catalog.length(v) + 7) / 8"
    elif length > 0:
        size = f"16 + 8 * coalesce(pg_catalog.array_ndims(v), 0) + {length} * pg_catalog.cardinality(v)"
    else:
        return "pg_catalog.pg_column_size(v)"
    # A short value has one byte for its length in place of four.
    return f"CASE WHEN {size} <= 130 THEN {size} - 3 ELSE {size} END"
