"""What runs in the Python workers of executors: rows become Parquet files of an object store.

A task writes its files under names that no other attempt uses, and answers with their descriptions. Spark takes the
answer of one attempt for each partition; the files of the others are removed by the driver, which knows the beginning
of all names. So a file is never half there, and a task that is repeated, or runs twice, leaves no row twice.

Nothing here needs a server: executors get this code as an archive (`adapter.engines.spark.cluster.archive`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from msgspec import Struct

from adapter.engines.common.arrow_casts import cast
from storage.layouts.layout import TableLayout
from storage.layouts.ordering import laid_out
from storage.shards.footers import footer_of
from storage.shards.parts import arrow_bytes, checksum, encode_parquet
from storage.stores.object_place import ObjectFiles, ObjectPlace

FILE_BYTES = 64 << 20
"""Arrow bytes gathered for one file: what a task holds of each set."""

DESCRIPTION = (
    "place int, partition int, number int, key string, row_count bigint, byte_count bigint, checksum string,"
    " footer binary"
)
"""The columns of a task's answer, as Spark spells them."""


class FileSet(Struct, frozen=True, kw_only=True):
    """Which columns of the input make files, by name, the schema of these: names and physical types, and how they are
    laid out."""

    columns: tuple[str, ...]
    schema: pa.Schema
    layout: TableLayout | None = None

    @property
    def order(self) -> tuple[str, ...]:
        """The columns of the input by which the rows are to be in order."""
        by_name = dict(zip(self.schema.names, self.columns, strict=True))
        return () if self.layout is None else tuple(by_name[name] for name in self.layout.order)


class WriteJob(Struct, frozen=True, kw_only=True):
    """What each task of a job is to do. `stem` begins the names of all files that any of its tasks writes."""

    place: ObjectPlace
    stem: str
    sets: tuple[FileSet, ...]


class WrittenFile(Struct, frozen=True, kw_only=True):
    """A file that a task has written: of which set, and where in the order of the rows."""

    place: int
    partition: int
    number: int
    key: str
    row_count: int
    byte_count: int
    checksum: str
    footer: bytes


class WrittenSets(Struct, frozen=True, kw_only=True):
    """The files of each set of a job, in the order of their rows."""

    sets: tuple[tuple[WrittenFile, ...], ...]


def write_files(job: WriteJob, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The task: writes its rows, and yields what it has written in the columns of `DESCRIPTION`."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    files = job.place.open()
    partition = context.partitionId()
    stem = f"{job.stem}.{partition}.{context.taskAttemptId()}"
    writers = [_SetWriter(files, index, partition, stem, file_set) for index, file_set in enumerate(job.sets)]
    for batch in batches:
        for writer in writers:
            writer.add(batch)
    for writer in writers:
        written = writer.finish()
        if written:
            yield pa.RecordBatch.from_pylist(
                [{name: getattr(file, name) for name in WrittenFile.__struct_fields__} for file in written],
                schema=_DESCRIPTION,
            )


_DESCRIPTION = pa.schema(
    [
        ("place", pa.int32()),
        ("partition", pa.int32()),
        ("number", pa.int32()),
        ("key", pa.string()),
        ("row_count", pa.int64()),
        ("byte_count", pa.int64()),
        ("checksum", pa.string()),
        ("footer", pa.binary()),
    ]
)


class _SetWriter:
    """Gathers the rows of one set and writes them as files of bounded size."""

    def __init__(self, files: ObjectFiles, place: int, partition: int, stem: str, file_set: FileSet) -> None:
        self._files = files
        self._place = place
        self._partition = partition
        self._stem = stem
        self._set = file_set
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._written: list[WrittenFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        arrays = [
            cast(batch.column(name), field.type)
            for name, field in zip(self._set.columns, self._set.schema, strict=True)
        ]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._set.schema)
        self._batches.append(rows)
        self._bytes += arrow_bytes(rows)
        if self._bytes >= FILE_BYTES:
            self._flush()

    def finish(self) -> list[WrittenFile]:
        if self._batches:
            self._flush()
        return self._written

    def _flush(self) -> None:
        batches, self._batches, self._bytes = self._batches, [], 0
        table, layout = pa.Table.from_batches(batches), self._set.layout
        for piece in [table] if layout is None else laid_out(table, layout):
            self._write(piece)

    def _write(self, table: pa.Table) -> None:
        data = encode_parquet(table)
        number = len(self._written)
        key = f"{self._stem}.{self._place}.{number}.parquet"
        self._files.put_new(key, data)
        self._written.append(
            WrittenFile(
                place=self._place,
                partition=self._partition,
                number=number,
                key=key,
                row_count=table.num_rows,
                byte_count=len(data),
                checksum=checksum(data),
                footer=footer_of(data),
            )
        )
