"""VACUUM (FULL): the files of a table are written anew as its layout wants them (`storage.upkeep.rewriting`).

An engine, chosen as for any other reading, sorts the rows: by the partition that they are of, and by `sort_by` or along
the curve of `zorder`. On Spark executors write the files. Nobody waits: readers have the old files until the new ones
are there, writers go on, and what they do meanwhile holds for the new files too, since rows keep their ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from adapter.definitions.common.table_rows import physical_schema, stored_arrays
from adapter.engines.common.engine import TableInput
from adapter.execution.statement import Running
from adapter.plans.plan_cache import make_plan
from adapter.plans.predicates import scan_templates
from adapter.queries.prepared_read import PreparedRead
from adapter.queries.read import prepare_read
from adapter.results import RewriteProgress
from adapter.settings.values import number_of
from adapter.statements.maintenance.looking import looking_as_superuser, name_of
from planner.errors import SerializationFailure
from planner.ir.physical import arrow_type
from planner.syntax.identifiers import quote_identifier, quote_literal
from planner.syntax.parse import split_and_parse
from planner.types import types as t
from planner.types.type_names import format_type
from storage.catalog.model import CatalogSnapshot, Column, Relation
from storage.layouts import zorder
from storage.layouts.definition import layout_of
from storage.layouts.layout import TableLayout
from storage.shards.partitions.transforms import PartitionField
from storage.shards.parts import ROW_ID, Part, arrow_bytes
from storage.upkeep.rewriting import BeatenToIt, Group, StillRead, described, encoded

SMALL_BYTES = 1 << 20
"""So much is left to compaction, which does it sooner or later without being asked."""

PATIENCE_S = 60.0
"""How long a statement waits for those who read an earlier moment."""

LOOK_SECONDS = 0.25

ATTEMPTS = 10
"""So often a group is rewritten when compaction has taken some of its files meanwhile."""

FILE_BYTES = 64 << 20
"""Arrow bytes that this process gathers for one file."""

SAMPLED_PARTS = 32
SAMPLED_ROWS = 30_000
"""The parts of a group, and about how many of their rows, that tell how values are distributed."""

LIMIT_CHARACTERS = 40

BITS = 16
"""Of a place on a curve, all columns together. Two columns have 255 limits each, with which values are compared."""


async def rewrite(running: Running, relation: Relation, patience_s: float) -> float:
    """Write the files of `relation`, a table or materialized view, anew. Those that somebody may still read as they
    were after `patience_s` are left alone, with a warning; what is left of that is given back. Raises 40001 when others
    change the files again and again, 57014."""
    env, transaction = running.services.env, running.transaction
    if relation.shard is None or transaction.looks_back:
        return patience_s
    compactor = env.maintenance.compactor
    # What was committed just now is in the txns shard alone, perhaps.
    await env.applier.apply_all()
    due = await compactor.not_laid_out(relation.shard)
    if due <= SMALL_BYTES:
        return patience_s
    if transaction.snapshot is None:
        await transaction.begin_statement(env)
    # NOTE: not the snapshot itself, which is ahead of what can be told of readers while nobody commits.
    after = max(env.catalog.current().csn, env.reader.last_write(relation.shard))
    found = transaction.catalog.get(relation.oid)
    if not isinstance(found, Relation) or found.shard != relation.shard:
        return patience_s
    progress = RewriteProgress(relation=found.oid, started_at=running.started_at, bytes_total=due)
    running.session.rewriting = progress
    rewriting = _Rewriting(running, transaction.catalog, found, progress)
    most_bytes = number_of("rewrite_group_size", running.session.values.flat["rewrite_group_size"]) * 1024
    failed = 0
    with looking_as_superuser(running):
        while True:
            try:
                if await compactor.rewrite(relation.shard, after, most_bytes, rewriting.write) is None:
                    return patience_s
                rewriting.swapped()
                failed = 0
            except StillRead:
                if patience_s <= 0:
                    message = f'"{relation.name}": files that earlier transactions may still read are left as they are'
                    running.session.warn("01000", message)
                    return 0.0
                await asyncio.sleep(LOOK_SECONDS)
                patience_s -= LOOK_SECONDS
            except BeatenToIt as error:
                failed += 1
                if failed == ATTEMPTS:
                    raise SerializationFailure(
                        f'could not rewrite "{relation.name}" due to concurrent compaction'
                    ) from error


class _Rewriting:
    """One table that is rewritten."""

    def __init__(
        self, running: Running, catalog: CatalogSnapshot, relation: Relation, progress: RewriteProgress
    ) -> None:
        self._running = running
        self._progress = progress
        self._before = (0, 0, 0)
        """Bytes and rows that were read, and rows that were written, of the groups that are done."""
        self._catalog = catalog
        self._relation = relation
        self._columns = relation.live_columns()
        self._names = [f"c{column.attnum}" for column in self._columns]
        self._schema = physical_schema(self._columns)
        self._layout = layout_of(relation)
        self._by_name = dict(zip(self._names, self._columns, strict=True))

    async def write(self, group: Group, made: list[Part]) -> None:
        """Write the rows of `group` as the layout wants them; adds the parts to `made`."""
        table = TableInput(
            relation=self._relation, inserts=group.inserts, deletes=group.deletes, bytes=group.bytes, rows=group.rows
        )
        shown = ["_row_id", *(quote_identifier(column.name) for column in self._columns)]
        progress, (done_bytes, done_rows, done_written) = self._progress, self._before
        # NOTE: from what is done, not from what is shown: a group that others have changed comes again.
        progress.bytes_read, progress.rows_read, progress.rows_written = self._before
        # Others go on to write what is then to be rewritten too.
        progress.bytes_total = max(progress.bytes_total, done_bytes + group.bytes)
        progress.phase = "seq scanning heap"
        order = await self._order(table)
        progress.phase = "sorting tuples" if self._layout is not None else "writing new heap"
        text = f"SELECT {', '.join(shown)} FROM {name_of(self._catalog, self._relation)}"
        read = await self._read(table, f"{text} ORDER BY {', '.join(order)}" if order else text)
        given = [arrow_type(field.type) for field in read.query.rel.fields[1:]]
        if read.writer is not None and given == self._schema.types:
            await self._write_by_engine(read, made)
        else:
            await self._write_here(read, made)
        progress.phase = "swapping relation files"
        progress.bytes_read, progress.rows_read = done_bytes + group.bytes, done_rows + group.rows
        progress.rows_written = done_written + sum(part.rows for part in made)

    def swapped(self) -> None:
        """A group is done: its files have taken the places of the old ones."""
        progress = self._progress
        self._before = (progress.bytes_read, progress.rows_read, progress.rows_written)

    async def _read(self, table: TableInput, text: str) -> PreparedRead:
        session = self._running.session
        context = session.bind_context(self._catalog)
        oid = self._relation.oid
        context = replace(context, numbered=oid, expanded=context.expanded - {oid})
        plan = await self._running.services.plans.aside(make_plan, split_and_parse(text)[0], context, ())
        assert plan.query is not None
        session.brought = {oid: table}
        return await prepare_read(
            self._running, self._catalog, plan.query, scan_templates(plan.query.rel), record=False
        )

    async def _write_by_engine(self, read: PreparedRead, made: list[Part]) -> None:
        assert read.writer is not None
        assert self._relation.shard is not None
        (files,) = await read.writer.write(
            read.query,
            read.resolved.inputs,
            read.params,
            read.context,
            shard=self._relation.shard,
            columns=[tuple(range(1 + len(self._names)))],
            names=[[ROW_ID, *self._names]],
            layout=self._layout,
            is_ordered=True,
            extra=read.at_hand,
        )
        parts = self._running.services.env.parts
        for file in files:
            part = await described(parts, file.uploaded(), self._layout)
            made.append(part)

    async def _write_here(self, read: PreparedRead, made: list[Part]) -> None:
        gathered: list[pa.RecordBatch] = []
        size = 0
        stream: Any = read.stream()
        async with aclosing(stream) as batches:
            async for batch in batches:
                if not batch.num_rows:
                    continue
                stored = stored_arrays(self._relation, batch.columns[1:], self._schema)
                gathered.append(pa.record_batch([batch.column(0), *stored], names=[ROW_ID, *self._names]))
                size += arrow_bytes(gathered[-1])
                if size >= FILE_BYTES:
                    await self._encode(gathered, made)
                    gathered, size = [], 0
        await self._encode(gathered, made)

    async def _encode(self, batches: Sequence[pa.RecordBatch], made: list[Part]) -> None:
        assert self._relation.shard is not None
        if batches:
            rows = pa.Table.from_batches(batches).combine_chunks()
            added = await encoded(self._running.services.env.parts, self._relation.shard, rows, self._layout)
            made += added
            self._progress.phase = "writing new heap"
            self._progress.rows_written += sum(part.rows for part in added)

    # ---------------------------------------------------------------- the order

    async def _order(self, table: TableInput) -> list[str]:
        """The keys by which the rows of `table` are sorted."""
        layout = self._layout
        if layout is None:
            return ["_row_id"]
        keys = [key for field in layout.partition if (key := self._partition_key(field)) is not None]
        keys += [self._key(name) for name in layout.sort]
        if layout.zorder:
            keys.append(await self._curve(table, layout))
        return [*keys, "_row_id"]

    def _key(self, name: str) -> str:
        """A column as what is compared, in the order of files."""
        column = self._by_name[name]
        return f"{quote_identifier(column.name)}{_collate(column)}"

    def _partition_key(self, field: PartitionField) -> str | None:
        """What rows of one partition have in common, in an order; None where SQL has no function for it."""
        column = self._by_name[field.column]
        name = quote_identifier(column.name)
        match field.transform:
            case "identity":
                return self._key(field.column)
            case "year" | "month" | "day" | "hour":
                moment = f"{name} AT TIME ZONE 'UTC'" if column.type_oid == t.TIMESTAMPTZ else f"{name}::timestamp"
                return f"pg_catalog.date_trunc('{field.transform}', {moment})"
            case "truncate" if t.under_domain(column.type_oid) in (t.INT2, t.INT4, t.INT8):
                return f"pg_catalog.floor({name}::numeric / {field.width})"
            case "truncate" if _collate(column):
                return f'pg_catalog.left({name}, {field.width}) COLLATE "C"'
        return None

    async def _curve(self, table: TableInput, layout: TableLayout) -> str:
        """The place on the curve, going by how the values of a sample are distributed."""
        count = len(layout.zorder)
        bits = BITS // count
        limits = await self._limits(_sampled(table), layout.zorder, (1 << bits) - 1)
        codes = []
        for place, name in enumerate(layout.zorder):
            column = self._by_name[name]
            shown = format_type(column.type_oid, -1)
            literals = [f"{quote_literal(limit)}::{shown}" for limit in limits[place]]
            leaves = [str(zorder.spread(number, bits, place, count)) for number in range(len(literals) + 1)]
            codes.append(_searched(self._key(name), literals, leaves))
        return " + ".join(codes)

    async def _limits(self, table: TableInput, names: Sequence[str], number: int) -> list[list[str]]:
        """For each column at most so many values, ascending, that divide its rows into shares of about one size."""
        kept = min(1.0, SAMPLED_ROWS / max(table.rows, 1))
        source = f"{name_of(self._catalog, self._relation)} WHERE pg_catalog.random() < {kept:.9f}"
        found = []
        for name in names:
            value = _beginning(self._by_name[name])
            order = f"{value}{_collate(self._by_name[name])}"
            text = f"SELECT ({value})::text FROM {source} AND {value} IS NOT NULL ORDER BY {order}"
            stream: Any = (await self._read(table, text)).stream()
            async with aclosing(stream) as batches:
                values = [value async for batch in batches for value in batch.column(0).to_pylist()]
            if values:
                values = [values[(at + 1) * len(values) // (number + 1)] for at in range(number)]
            found.append(list(dict.fromkeys(values)))
        return found


def _beginning(column: Column) -> str:
    """A column as what limits are made of: values may be long, and limits need not be."""
    name = quote_identifier(column.name)
    if _collate(column):
        return f"pg_catalog.left({name}, {LIMIT_CHARACTERS})"
    return f"pg_catalog.substr({name}, 1, {LIMIT_CHARACTERS})" if t.under_domain(column.type_oid) == t.BYTEA else name


def _sampled(table: TableInput) -> TableInput:
    """Some of the files of `table`, evenly spread over them."""
    step = -(-len(table.inserts) // SAMPLED_PARTS)
    inserts = table.inserts[::step]
    return replace(
        table, inserts=inserts, rows=sum(part.rows for part in inserts), bytes=sum(part.bytes for part in inserts)
    )


def _searched(key: str, limits: Sequence[str], leaves: Sequence[str]) -> str:
    """The leaf at the place of `key` among the ascending `limits`, found by halving. NULL is behind all of them."""
    if not limits:
        return leaves[0]
    middle = len(limits) // 2
    below = _searched(key, limits[:middle], leaves[: middle + 1])
    above = _searched(key, limits[middle + 1 :], leaves[middle + 1 :])
    return f"CASE WHEN {key} < {limits[middle]} THEN {below} ELSE {above} END"


def _collate(column: Column) -> str:
    return ' COLLATE "C"' if t.under_domain(column.type_oid) in (t.TEXT, t.VARCHAR, t.BPCHAR) else ""
