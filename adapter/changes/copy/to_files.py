"""COPY TO files, whole or not at all, and Parquet and JSON to the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from adapter.changes.copy.copy_options import begin_progress, copied_from, copy_format
from adapter.changes.copy.copy_out import plan_copied
from adapter.changes.executor_files import ended, is_for_executors, may_be_for_executors, write_by_executors
from adapter.changes.with_changes import run_rows
from adapter.engines.common.executor_files import FileColumn, as_list
from adapter.execution.relation_names import find_relation
from adapter.execution.statement import Outcome, Running
from adapter.plans.plan_cache import Plan
from adapter.queries.prepared_read import PreparedRead
from adapter.queries.read import run_query
from adapter.results import ColumnDescription, Command, CopyFormat, CopyOut, CopyProgress, RecordBatch
from adapter.store_errors import sql_error
from adapter.threads import Workers
from planner.common_errors import NotHeld, unknown_column
from planner.copies.copy_texts import is_held, rows_text
from planner.errors import InternalError, InvalidParameterValue
from planner.ir.physical import arrow_type, listed
from planner.statements import records as st
from planner.syntax.parse import split_and_parse
from planner.types.derived_oids import FIRST_USER_TYPE
from storage.lake.formats import packing_of
from storage.lake.output.row_files import Encoder, Layout, Lines, OutputFormat
from storage.lake.output.writing import FilesWriter
from storage.lake.places import Places
from storage.lake.troubles import FileTrouble

SENT_BYTES = 1 << 20
"""Read of a finished file at once, to be sent to the client."""


async def run_copy_to_files(running: Running, statement: st.Copy, path: str) -> Command:
    """COPY table TO 'path' and COPY (query) TO 'path'. Raises BeginAgain."""
    plan = await plan_copied(running, statement)
    try:
        rows = await _write(running, statement, plan, running.services.lake.places, path, by_executors=True)
        return Command(tag=f"COPY {rows}")
    except FileTrouble as trouble:
        raise sql_error(trouble) from trouble


async def run_copy_to_client(running: Running, statement: st.Copy) -> CopyOut:
    """COPY ... TO STDOUT as a Parquet file, made aside, or as lines of JSON. Raises BeginAgain."""
    plan = await plan_copied(running, statement)
    folder = running.services.lake_scratch.new()
    rows = 0

    async def sent() -> AsyncIterator[RecordBatch]:
        nonlocal rows
        threads = running.services.file_threads
        path = folder / f"stdout.{statement.options.format}"
        try:
            await threads.run(partial(path.parent.mkdir, parents=True))
            rows = await _write(running, statement, plan, Places((folder,)), str(path))
            with await threads.run(partial(open, path, "rb")) as file:
                while data := await threads.run(partial(file.read, SENT_BYTES)):
                    yield pa.record_batch([pa.array([data], pa.binary())], names=["data"])
        except FileTrouble as trouble:
            raise sql_error(trouble) from trouble
        finally:
            await threads.run(partial(_remove, folder))

    return CopyOut(columns=(), format=CopyFormat(format="raw"), batches=sent(), count=lambda: rows)


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


async def _write(
    running: Running, statement: st.Copy, plan: Plan, places: Places, path: str, *, by_executors: bool = False
) -> int:
    """Write the rows of `plan` to files at `path`, or let executors do it; their number. Raises FileTrouble."""
    options, threads = statement.options, running.services.file_threads
    assert plan.columns is not None
    columns: Sequence[ColumnDescription] = plan.columns
    layout = Layout(partition_by=options.partition_by, file_size=options.file_size)
    _check_partitions(columns, layout)
    compression = options.compression
    if compression is None and options.format != "parquet":
        compression = packing_of(path)
    encoder: Callable[[], Encoder] | None = None
    if options.format == "parquet":
        plan, names, types = _held_columns(running, statement, plan)
        schema = pa.schema([pa.field(name, type) for name, type in zip(names, types, strict=True)])
    elif options.format == "json":
        plan = _other_plan(running, statement, plan)
        assert plan.columns is not None
        names = ["", *layout.partition_by]
        schema = pa.schema([pa.field(n, arrow_type(c.type)) for n, c in zip(names, plan.columns, strict=True)])
        encoder = Lines
    else:
        schema = pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])
        encoder = _text_encoder(running, statement, [c for c in columns if c.name not in layout.partition_by])
    codec = {"gzip": "gzip", "none": "none" if options.format == "parquet" else None}.get(
        compression or "", compression
    )
    output = OutputFormat(name=options.format, compression=codec, encoder=encoder)
    lists = [options.format == "parquet" and column.type.dimensioned for column in plan.columns or ()]
    new_writer = partial(
        FilesWriter, places, path, schema, output, layout,
        tag=str(running.services.env.new_shard_id()), scratch=running.services.lake_scratch.new(),
    )  # fmt: skip
    progress = begin_progress(running, statement, copied_from(running, statement))
    outcome: Outcome
    if by_executors and may_be_for_executors(plan) and _is_known_to_executors(output, columns):
        outcome = await run_query(running, plan)
        read: PreparedRead | None = outcome.read
        if read is not None and read.writer is not None:
            made = [
                FileColumn(name=f"c{field.id}", type=arrow_type(field.type), listed=listing)
                for field, listing in zip(read.query.rel.fields, lists, strict=True)
            ]
            rows = await _write_by_executors(threads, read, new_writer, made, progress)
            if rows is not None:
                return rows
    else:
        outcome = await run_rows(running, plan)
    stream: Any = getattr(outcome, "batches", None)
    assert stream is not None
    count = 0
    async with aclosing(stream) as batches:
        writer = await threads.run(new_writer)
        try:
            async for batch in batches:
                held = [
                    as_list(array) if listing else array for array, listing in zip(batch.columns, lists, strict=True)
                ]
                await threads.run(partial(writer.write, pa.record_batch(held, schema=schema)))
                count += batch.num_rows
                progress.tuples_processed, progress.bytes_processed = count, writer.bytes
            await ended(threads, writer.finish)
        except BaseException:
            # NOTE: also when the statement is cancelled: what was written aside goes in any case.
            await asyncio.shield(threads.run(writer.abort))
            raise
    return count


def _is_known_to_executors(output: OutputFormat, columns: Sequence[ColumnDescription]) -> bool:
    """Whether tasks can encode the values: they have this server's code, but not the types that users have made."""
    if output.name in ("parquet", "json"):
        return True
    return output.name != "binary" and all(
        column.type.without_domain().oid < FIRST_USER_TYPE and column.shape is None for column in columns
    )


async def _write_by_executors(
    threads: Workers,
    read: PreparedRead,
    new_writer: Callable[[], FilesWriter],
    columns: Sequence[FileColumn],
    progress: CopyProgress,
) -> int | None:
    """Let executors write the rows of `read`; their number. None when this process is to do it. Raises FileTrouble."""
    writer = await threads.run(new_writer)
    if not is_for_executors(read, writer.files):
        return None
    try:
        return await write_by_executors(threads, read, writer, columns, progress=progress)
    except NotHeld:
        await threads.run(writer.abort)
        return None
    except BaseException:
        await asyncio.shield(threads.run(writer.abort))
        raise


def _check_partitions(columns: Sequence[ColumnDescription], layout: Layout) -> None:
    names = [column.name for column in columns]
    for name in layout.partition_by:
        if name not in names:
            raise unknown_column(name)
        if names.count(name) > 1:
            raise InvalidParameterValue(f'column "{name}" of PARTITION_BY is there twice')
    if layout.partition_by and len(layout.partition_by) == len(names):
        raise InvalidParameterValue("PARTITION_BY leaves no column for the files")


def _held_columns(running: Running, statement: st.Copy, plan: Plan) -> tuple[Plan, list[str], list[pa.DataType]]:
    assert plan.columns is not None
    names = [column.name for column in plan.columns]
    for name in names:
        if names.count(name) > 1:
            raise InvalidParameterValue(f'a file cannot have two columns "{name}"', hint="Give one another name.")
    if not all(is_held(column.type) for column in plan.columns):
        plan = _other_plan(running, statement, plan)
    assert plan.columns is not None
    return plan, names, [arrow_type(listed(c.type) if c.type.dimensioned else c.type) for c in plan.columns]


def _other_plan(running: Running, statement: st.Copy, plan: Plan) -> Plan:
    """The plan that gives the rows of `plan` as files hold them."""
    assert plan.columns is not None
    options = statement.options
    columns = [(column.name, column.type) for column in plan.columns]
    (parsed,) = split_and_parse(rows_text(plan.parsed, columns, options.format, options.partition_by))
    return running.session.plan(parsed, running.transaction.catalog)


def _text_encoder(running: Running, statement: st.Copy, columns: Sequence[ColumnDescription]) -> Callable[[], Encoder]:
    codec = running.services.copy_codec
    if codec is None:
        raise InternalError("this server was opened without the formats of COPY")
    relation = None
    if statement.table is not None:
        relation = find_relation(running, running.transaction.catalog, statement.table)
    format = copy_format(statement.options, [column.name for column in columns], relation)
    settings = dict(running.session.values.flat)
    return partial(codec.encoder, tuple(columns), format, settings)
