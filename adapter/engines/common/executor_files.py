"""Files that the executors of an engine write, each task those of its rows: the task, what it answers, and its errors.

A task writes below a hidden folder, under names of its attempt alone, and answers with what is whole. The files of the
attempts that count get their names from the server, at once (`storage.lake.output.new_files`).

Nothing here needs a server: executors of clusters get this code as an archive.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from msgspec import Struct

from adapter.engines.common.arrow_casts import cast
from adapter.store_errors import sql_error
from planner.dialects.error_text import error_text
from planner.errors import FeatureNotSupported, NotNullViolation, SqlError
from storage.lake.output.new_files import HiddenFolder, task_name, task_stem
from storage.lake.output.row_files import Aside, Layout, OutputFormat, RowFiles, WrittenFile
from storage.lake.places import Places, is_url
from storage.lake.troubles import FileTrouble, trouble_of_store
from storage.stores.object_options import plain_options
from storage.stores.object_place import ObjectPlace

ANSWER = "partition int, values array<string>, path string, rows bigint, bytes bigint"
"""The columns of a task's answer, as Spark spells them: a row for each file, in the order of the task's rows."""

_ANSWER = pa.schema(
    [
        ("partition", pa.int32()),
        ("values", pa.list_(pa.string())),
        ("path", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
    ]
)

OUTLIVES_S = 10.0
"""How long the Python worker of a task may go on after its job has failed or its executor was lost: Spark ends it
within ``spark.python.task.killTimeout``, 2 s, and the upload that it is in ends before it does."""

GATHERED_ROWS = 1 << 16
"""Rows that are divided among files at once: engines give tasks fewer at a time."""


class FileColumn(Struct, frozen=True, kw_only=True):
    """A column of the files: what the engine calls it, its physical type, whether it is an array of any dimensions that
    is written as a list, and the message of the error for a NULL where none may be."""

    name: str
    type: pa.DataType
    listed: bool = False
    null_refused: str | None = None


class FileJob(Struct, frozen=True, kw_only=True):
    """What each task is to do with its rows. `schema` is that of all columns."""

    hidden: HiddenFolder
    columns: tuple[FileColumn, ...]
    schema: pa.Schema
    format: OutputFormat
    layout: Layout


_KEYS = frozenset(
    {
        "access_key_id", "skip_signature", "account_key", "sas_token", "client_secret", "bearer_token",
        "service_account", "service_account_key",
    }
)  # fmt: skip
"""Options that say who asks an object store."""


def reaches_store(url: str, options: Mapping[str, str], place: ObjectPlace | None) -> bool:
    """Whether executors of a cluster, which have the blob store at `place`, can write to the store of `url`: they are
    told who asks, or find that out for themselves as they do with a blob store of the same kind."""
    if not _KEYS.isdisjoint(plain_options(url, options)):
        return True
    return place is not None and not place.options and urlsplit(place.root).scheme == urlsplit(url).scheme


class TaskFailed(Exception):
    """An error of ours, whose text passes the engine."""


def write_rows(job: FileJob, run: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The task: writes its rows, and yields what it has written in the columns of `ANSWER`. No other run of the job
    has the number `run`."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    partition = context.partitionId()
    stem = task_stem(run, partition, context.taskAttemptId())
    aside = _Objects(job.hidden, stem) if is_url(job.hidden.path) else _Folder(job.hidden, stem)
    rows = RowFiles(job.schema, job.format, job.layout, aside, shown=job.hidden.shown)
    try:
        for batch in _gathered(batches):
            rows.write(file_rows(batch, job.columns, job.schema))
        rows.finish()
    except FileTrouble as trouble:
        raise _failed(sql_error(trouble)) from trouble
    except SqlError as error:
        raise _failed(error) from error
    finally:
        rows.drop()
    if rows.whole:
        answer = [
            {"partition": partition, "values": file.values, "path": file.path, "rows": file.rows, "bytes": file.bytes}
            for file in rows.whole
        ]
        yield pa.RecordBatch.from_pylist(answer, schema=_ANSWER)


def written_files(answers: Iterable[pa.RecordBatch]) -> list[WrittenFile]:
    """The files that tasks have answered with, in the order of their rows."""
    rows = [row for batch in answers for row in batch.to_pylist()]
    rows.sort(key=lambda row: row["partition"])
    return [
        WrittenFile(values=tuple(row["values"]), path=row["path"], rows=row["rows"], bytes=row["bytes"]) for row in rows
    ]


def file_rows(batch: pa.RecordBatch, columns: Iterable[FileColumn], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as an engine gives them, as files have them. Raises 23502 and 0A000."""
    arrays = []
    for column in columns:
        array = batch.column(column.name)
        if column.null_refused is not None and array.null_count:
            raise NotNullViolation(column.null_refused)
        if array.type != column.type:
            array = cast(array, column.type)
        arrays.append(as_list(array) if column.listed else array)
    return pa.record_batch(arrays, schema=schema)


def as_list(arrays: Any) -> Any:
    """Arrays of any dimensions as lists. 0A000 for one that is none."""
    items, dims = arrays.flatten()
    if dims.null_count < len(dims):
        hint = "Cast such a column to text."
        raise FeatureNotSupported(
            "arrays of several dimensions, or whose lower bound is not 1, cannot be written", hint=hint
        )
    return items


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if count >= GATHERED_ROWS:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held, count = [], 0
    if count:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()


def _failed(error: SqlError) -> TaskFailed:
    return TaskFailed(error_text(error.sqlstate, error.message, error.detail, error.hint))


class _Folder(Aside):
    """The hidden folder, which executors and the server share."""

    def __init__(self, hidden: HiddenFolder, stem: str) -> None:
        super().__init__(Path(hidden.path))
        self._stem = stem

    def end(self, number: int, rows: int) -> tuple[str, int]:
        """See `Aside.end`."""
        path, size = super().end(number, rows)
        whole = str(self._folder / task_name(self._stem, number, rows))
        os.rename(path, whole)
        return whole, size

    def _path(self, number: int) -> str:
        return str(self._folder / task_name(self._stem, number))


class _Objects(Aside):
    """The hidden folder in an object store: files of no name are sent there when they are whole."""

    def __init__(self, hidden: HiddenFolder, stem: str) -> None:
        super().__init__(Path(tempfile.gettempdir()))
        self._hidden = hidden
        self._stem = stem
        self._places = Places((), hidden.options)
        self._files: dict[int, Any] = {}

    def begin(self, number: int) -> Any:
        """See `Aside.begin`."""
        file = self._files[number] = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it is sent
        return pa.PythonFile(os.fdopen(os.dup(file.fileno()), "wb"), "w")

    def end(self, number: int, rows: int) -> tuple[str, int]:
        """See `Aside.end`."""
        with self._files.pop(number) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            url = f"{self._hidden.path}/{task_name(self._stem, number, rows)}"
            store, key = self._places.store(url)
            try:
                store.put(key, file)
            except Exception as error:
                raise trouble_of_store(self._hidden.shown, error, "could not write object") from error
        return url, size

    def drop(self, number: int) -> None:
        """See `Aside.drop`."""
        file = self._files.pop(number, None)
        if file is not None:
            file.close()
