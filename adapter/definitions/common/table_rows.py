"""The shard of a new table, and the rows that it begins with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from adapter.changes.constraints.row_checks import check_rows
from adapter.changes.constraints.table_checks import domain_checks
from adapter.changes.constraints.target import target_with
from adapter.changes.rows.laid_out import LaidOutRows, sorted_stream
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.queries.prepared_read import PreparedRead
from planner.common_errors import NanNotHeld
from planner.ir.physical import arrow_type
from planner.types.types import type_of_column
from storage.catalog.model import Column, Relation
from storage.catalog.temporary import is_temporary
from storage.ids import is_temporary as is_temporary_shard
from storage.shards.columns.widening import stored_as


def physical_schema(columns: Iterable[Column]) -> pa.Schema:
    """The Arrow schema of a table's parts."""
    return pa.schema(
        [
            pa.field(
                f"c{column.attnum}",
                arrow_type(type_of_column(column)),
            )
            for column in columns
            if not column.dropped
        ]
    )


def make_shard(running: Running, relation: Relation) -> None:
    """Create the shard of a new table in the transaction. Nobody need know of a temporary table's."""
    assert relation.shard is not None
    if is_temporary(relation.oid):
        return
    txn = running.transaction.writable(running.services.env)
    txn.create_shard(relation.shard, physical_schema(relation.columns))
    running.transaction.created_shards.add(relation.shard)


def alter_shard(running: Running, relation: Relation) -> None:
    """Let the shard have the columns of `relation`; its rows stay as they are. A foreign table has none."""
    if relation.foreign is not None:
        return
    assert relation.shard is not None
    if is_temporary_shard(relation.shard):
        return  # Parts say what their columns are; more is not known of a temporary table's.
    txn = running.transaction.writable(running.services.env)
    txn.alter_schema(relation.shard, physical_schema(relation.columns))


def stored_arrays(relation: Relation, arrays: Sequence[Any], physical: pa.Schema) -> list[Any]:
    """Columns that an engine gives as the shard of `relation`, whose columns are `physical`, has them. Raises
    NanNotHeld with the columns that would get one and hold none."""
    columns = relation.live_columns()
    unheld = [
        column.attnum
        for column, array, field in zip(columns, arrays, physical, strict=True)
        if pa.types.is_decimal(field.type) and pa.types.is_string(array.type) and pc.any(pc.equal(array, "NaN")).as_py()
    ]
    if unheld:
        raise NanNotHeld(columns={relation.oid: frozenset(unheld)})
    return [
        array if array.type == field.type else stored_as(array, field.type)
        for array, field in zip(arrays, physical, strict=True)
    ]


async def fill_table(
    running: Running, relation: Relation, schema_name: str, read: PreparedRead, *, in_order: bool = False
) -> int:
    """Write the rows of `read` (one column per live column, in order) into a new table. Returns their number. They may
    come in another order than they are read in, unless `in_order`."""
    target = target_with(relation, schema_name, domains=domain_checks(running, own_catalog(running), relation))
    txn = running.transaction.writable(running.services.env, target.shard)
    physical = physical_schema(target.columns)
    if target.layout is not None:
        txn.lay_out(target.shard, target.layout.partition)
    given = [arrow_type(field.type) for field in read.query.rel.fields]
    unchecked = not target.not_null and (target.domains is None or target.domains.conditions is None)
    # What comes in another form than it is stored in passes the server.
    if read.writer is not None and target.names and unchecked and given == physical.types:
        (parts,) = await read.writer.write(
            read.query,
            read.resolved.inputs,
            read.params,
            read.context,
            shard=target.shard,
            columns=[tuple(range(len(target.columns)))],
            names=[target.names],
            layout=target.layout,
            extra=read.at_hand,
        )
        for part in parts:
            await txn.write_part(target.shard, part.uploaded())
        return sum(part.rows for part in parts)
    count = 0
    layout, laid_out = target.layout, None
    stream: Any
    if layout is None:
        stream = read.stream()
    else:
        laid_out = LaidOutRows(txn, target.shard, layout)
        threads = running.services.file_threads
        stream = read.stream() if in_order else sorted_stream(read, target.names, layout, threads)
    async with aclosing(stream) as batches:
        async for batch in batches:
            if not batch.num_rows:
                continue
            arrays = stored_arrays(relation, batch.columns, physical)
            rows = pa.record_batch(arrays, schema=physical) if arrays else batch
            await check_rows(running, target, rows)
            if laid_out is not None:
                await laid_out.write(rows)
            else:
                txn.write(target.shard, rows)
            count += batch.num_rows
            await txn.spill()
    if laid_out is not None:
        await laid_out.finish()
    return count
