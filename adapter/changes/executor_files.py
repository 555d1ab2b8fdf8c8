"""Files that executors write: of what Spark reads and may be large, past this process.

Rows that are known to be few pass this process, so that they are one file; so do those of one file in an order.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

import structlog

from adapter.engines.common.engine import RowTasks
from adapter.engines.common.executor_files import ANSWER, OUTLIVES_S, FileColumn, FileJob, write_rows, written_files
from adapter.plans.plan_cache import Plan
from adapter.queries.prepared_read import PreparedRead
from adapter.results import CopyProgress
from adapter.threads import Workers
from planner.ir.bound import BoundQuery
from storage.lake.output.new_files import NewFiles
from storage.lake.output.writing import FilesWriter
from storage.lake.troubles import FileTrouble

log = structlog.get_logger(__name__)

T = TypeVar("T")

PROGRESS_S = 1.0
"""So often the files that tasks have written are looked at while somebody may ask how far it is."""


def may_be_for_executors(plan: Plan) -> bool:
    """Whether the rows of a query are those that its engine gives, without more that this process does to them."""
    return isinstance(plan.statement, BoundQuery) and not plan.steps and not plan.reg_columns


def is_for_executors(read: PreparedRead, files: NewFiles) -> bool:
    """Whether the rows of `read` become `files` by the executors of its engine."""
    engine = read.writer
    if engine is None or not engine.reaches(files.path, files.options):
        return False
    # NOTE: imported here, so that a server loads it with the engine whose rows these are.
    from adapter.engines.common.result_size import is_ordered, size_bound

    if not files.layout.is_folder and is_ordered(read.query.rel):
        return False
    return not size_bound(read.query, read.resolved.inputs, read.params).collectable


async def write_by_executors(
    threads: Workers,
    read: PreparedRead,
    writer: FilesWriter,
    columns: Sequence[FileColumn],
    *,
    progress: CopyProgress | None = None,
    empty: bool = True,
) -> int:
    """Let executors write the rows of `read`, whose columns are `columns`, as the files of `writer`; their number. No
    rows make no file unless `empty`. Whoever calls aborts the writer when this raises FileTrouble or something else."""
    files, engine = writer.files, read.writer
    assert engine is not None
    hidden = await ended(threads, files.hidden)
    job = FileJob(
        hidden=hidden, columns=tuple(columns), schema=writer.schema, format=writer.format, layout=files.layout
    )
    by = tuple(writer.schema.get_field_index(name) for name in files.layout.partition_by)
    tasks = RowTasks(task=partial(write_rows, job), answers=ANSWER, by=by, at_once=not files.layout.is_folder)
    watching = None if progress is None else asyncio.ensure_future(_watch(threads, files, progress))
    try:
        answers = await engine.hand_over(
            read.query, read.resolved.inputs, read.params, read.context, tasks=tasks, extra=read.at_hand
        )
        written = written_files(answers)
        if written or empty:
            await ended(threads, partial(writer.finish, written))
        else:
            await ended(threads, writer.abort)
    finally:
        if watching is not None:
            watching.cancel()
        if files.is_url:
            # A task may outlive its job for a moment, and put an object there that nobody asks for.
            later = threading.Timer(OUTLIVES_S, files.sweep)
            later.daemon = True
            later.start()
    rows, size = sum(file.rows for file in written), sum(file.bytes for file in written)
    if progress is not None:
        progress.tuples_processed, progress.bytes_processed = rows, size
    log.info("files.written_by_executors", files=len(written), rows=rows, bytes=size)
    return rows


async def ended(threads: Workers, work: Callable[[], T]) -> T:
    """What `work` gives on a thread. Who is cancelled meanwhile hears of it when it has ended."""
    future = threads.run(work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        with suppress(Exception):
            await future
        raise


async def _watch(threads: Workers, files: NewFiles, progress: CopyProgress) -> None:
    with suppress(FileTrouble):
        while True:
            await asyncio.sleep(PROGRESS_S)
            rows, size = await threads.run(files.progress)
            progress.tuples_processed = max(progress.tuples_processed, rows)
            progress.bytes_processed = max(progress.bytes_processed, size)
