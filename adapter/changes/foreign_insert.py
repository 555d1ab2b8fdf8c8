"""INSERT INTO a foreign table: new Parquet files in its folder, which are there at once when all are whole, or not at
all. Files that are there are never touched.

Files know no transactions: they are there when the statement ends, so it has to be one by itself.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial
from typing import Any

import pyarrow as pa

from adapter.changes.executor_files import ended, is_for_executors, write_by_executors
from adapter.engines.common.executor_files import FileColumn
from adapter.execution.guards import prevent_in_block
from adapter.execution.statement import Running
from adapter.lake.databases import is_database
from adapter.lake.foreign_files import ForeignFiles, flag, format_of_snapshots, format_of_table, pattern_of
from adapter.plans.plan_cache import Plan
from adapter.queries.read import may_skip_engines, prepare_plan
from adapter.results import Command
from adapter.store_errors import sql_error
from planner.copies.copy_texts import is_held
from planner.errors import FeatureNotSupported, InsufficientPrivilege, NotNullViolation
from planner.files.foreign_tables import file_names
from planner.ir.bound import BoundInsert
from planner.ir.physical import arrow_type
from planner.syntax.file_names import format_of
from planner.types.type_names import format_type
from planner.types.types import type_of_column
from storage.catalog.model import Column, Relation
from storage.catalog.outside import ForeignServer
from storage.lake.formats import SUFFIXES
from storage.lake.output.row_files import Layout, OutputFormat
from storage.lake.output.writing import FilesWriter
from storage.lake.tables import folder_columns
from storage.lake.troubles import FileTrouble

FILE_BYTES = 256 << 20
"""About how large the files get."""


async def insert_into_files(running: Running, plan: Plan) -> Command:
    """Write the rows of an INSERT into a foreign table. 42501, 25001, 25006, 0A000, 23502 and what writing files
    raises."""
    if plan.denied is not None:
        raise InsufficientPrivilege(plan.denied)
    running.transaction.check_writable("INSERT")
    prevent_in_block(running, "INSERT into a foreign table")
    if running.depth:
        raise FeatureNotSupported("functions cannot INSERT into foreign tables")
    await running.transaction.lock(plan.locks)
    running.transaction.rely_on(plan.relied_on, to_read=True)
    assert isinstance(plan.statement, BoundInsert)
    relation = plan.catalog.get(plan.statement.relation_oid)
    assert isinstance(relation, Relation)
    try:
        rows = await _write(running, plan, relation)
    except FileTrouble as trouble:
        raise sql_error(trouble) from trouble
    return Command(tag=f"INSERT 0 {rows}")


def _check_columns(columns: tuple[Column, ...]) -> None:
    for column in columns:
        type = type_of_column(column)
        if not is_held(type) or type.domain:
            shown = format_type(column.type_oid, column.typmod)
            raise FeatureNotSupported(f'column "{column.name}" of type {shown} cannot be written to files')


async def _write(running: Running, plan: Plan, relation: Relation) -> int:
    threads, columns = running.services.file_threads, relation.live_columns()
    names = file_names(relation)
    schema = pa.schema(
        [pa.field(name, arrow_type(type_of_column(column))) for name, column in zip(names, columns, strict=True)]
    )
    writer = await threads.run(
        partial(
            _writer,
            running.services.foreign_files,
            plan,
            relation,
            schema,
            running.session.values.identity.current,
            scratch=running.services.lake_scratch.new(),
            tag=str(running.services.env.new_shard_id()),
        )
    )
    refused = [
        f'null value in column "{column.name}" of relation "{relation.name}" violates not-null constraint'
        if column.not_null
        else None
        for column in columns
    ]
    count = 0
    try:
        _check_columns(columns)  # Not before it is known that the table is one of files at all.
        read = await prepare_plan(running, plan, constants=may_skip_engines(running))
        if is_for_executors(read, writer.files):
            made = [
                FileColumn(name=f"c{field.id}", type=arrow_type(field.type), null_refused=refusal)
                for field, refusal in zip(read.query.rel.fields, refused, strict=True)
            ]
            return await write_by_executors(threads, read, writer, made, empty=False)
        stream: Any = read.stream()
        async with aclosing(stream) as batches:
            async for batch in batches:
                for array, refusal in zip(batch.columns, refused, strict=True):
                    if refusal is not None and array.null_count:
                        raise NotNullViolation(refusal)
                if batch.num_rows:
                    await threads.run(partial(writer.write, pa.record_batch(batch.columns, schema=schema)))
                    count += batch.num_rows
        if count:
            await ended(threads, writer.finish)
    except BaseException:
        # NOTE: also when the statement is cancelled: what was written aside goes in any case.
        await asyncio.shield(threads.run(writer.abort))
        raise
    return count


def _writer(
    files: ForeignFiles, plan: Plan, relation: Relation, schema: pa.Schema, role: int, *, scratch: Any, tag: str
) -> FilesWriter:
    """What writes into the folder of the table, in folders as those that are there; blocks."""
    assert relation.foreign is not None
    server, options = plan.catalog.get(relation.foreign.server), relation.foreign.options
    assert isinstance(server, ForeignServer)
    if is_database(server):
        raise FeatureNotSupported(
            f'cannot insert into foreign table "{relation.name}"', detail="Tables of other databases are only read."
        )
    snapshots = format_of_snapshots(options)
    if snapshots is not None:
        raise FeatureNotSupported(
            f'cannot insert into foreign table "{relation.name}"',
            detail=f"Tables of format {snapshots[0]} are written by others.",
        )
    path = pattern_of(server, options)
    if format_of_table(options).name != "parquet":
        raise FeatureNotSupported(f'cannot insert into foreign table "{relation.name}": its files are not Parquet')
    if any(char in path for char in "*?[") or format_of(path):
        raise FeatureNotSupported(
            f'cannot insert into foreign table "{relation.name}"', detail=f'"{path}" is not a folder.'
        )
    below = files.below(server, role).files
    places = below.places
    partitions: tuple[str, ...] = ()
    try:
        there = places.files((path,), SUFFIXES["parquet"])
    except FileTrouble as trouble:
        if trouble.kind != "missing":
            raise
    else:
        if flag(dict(options), "hive_partitioning", default=True):
            partitions = folder_columns(there[0].path)
        own = [field for field in schema if field.name not in partitions]
        below.check_beside(there, format_of_table(options), pa.schema(own))
    for name in partitions:
        if name not in schema.names:
            raise FeatureNotSupported(
                f'cannot insert into foreign table "{relation.name}"',
                detail=f'It has no column for the folders "{name}=...".',
            )
    if len(partitions) == len(schema):
        raise FeatureNotSupported(
            f'cannot insert into foreign table "{relation.name}"', detail="All of its columns are those of folders."
        )
    layout = Layout(partition_by=partitions, file_size=FILE_BYTES)
    return FilesWriter(
        places, path, schema, OutputFormat(name="parquet"), layout, tag=tag, scratch=scratch, beside=True
    )
