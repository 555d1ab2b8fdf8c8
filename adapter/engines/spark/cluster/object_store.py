"""The object store of an environment as the executors of a cluster use it: by themselves, past the server.

They read it through Hadoop's file systems (`connectors`). They write it in Python tasks (`executor_writes`): Hadoop
gives files their names by renaming them, which an object store does by copying them, and not at once.

Everything that is written has a name of `PartStore.new_key` at its beginning, so that the files of a job that failed,
or whose server died, are found and removed by whoever collects orphans.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import structlog

from adapter.engines.common.executor_files import OUTLIVES_S
from adapter.engines.spark.cluster.connectors import hadoop_url
from adapter.engines.spark.cluster.executor_writes import (
    DESCRIPTION,
    FileSet,
    WriteJob,
    WrittenFile,
    WrittenSets,
    write_files,
)
from planner.ir.bound import BoundQuery
from planner.ir.physical import arrow_type
from storage.errors import StorageError
from storage.ids import ShardId
from storage.layouts.layout import TableLayout
from storage.shards.part_store import PartStore
from storage.shards.parts import ROW_ID
from storage.stores.blob import Blob
from storage.stores.object_place import ObjectFiles, ObjectPlace

log = structlog.get_logger(__name__)

SIDE_FILES = ShardId("spark")
"""Files beside the tables' own are kept as if they were of this shard, which there is not: nothing refers to them for
longer than their process lives."""


class ClusterStore:
    """See the module's contract. All but `uri` and `url` blocks."""

    def __init__(self, place: ObjectPlace, parts: PartStore) -> None:
        self._place = place
        self._parts = parts
        self._files: ObjectFiles | None = None

    @property
    def files(self) -> ObjectFiles:
        """This process's own client."""
        if self._files is None:
            self._files = self._place.open()
        return self._files

    def uri(self, key: str) -> str:
        """What executors open to read the object `key`."""
        return self.url(f"{self._place.root.rstrip('/')}/{key}")

    def url(self, url: str) -> str:
        """What executors open to read the object `url`, of this store or of another one of its kind."""
        return hadoop_url(url, self._place.options)

    def write(
        self, sets: Sequence[FileSet], shard: ShardId, run: Callable[[Any, str], list[pa.RecordBatch]]
    ) -> WrittenSets:
        """Let executors write the rows of a statement once, as files of `shard`. `run` hands them a function of their
        batches, and has its answers in the columns that it is told. Whatever else was written is removed a while later,
        since tasks may outlive the job for a moment; when the job fails, at once as well."""
        stem = self._parts.new_key(shard)
        job = WriteJob(place=self._place, stem=stem.removesuffix(".parquet"), sets=tuple(sets))
        kept: list[WrittenFile] = []
        try:
            answers = run(_task(job), DESCRIPTION)
            kept = [WrittenFile(**row) for batch in answers for row in batch.to_pylist()]
            self._parts.take_over(file.key for file in kept)
        except BaseException:
            self._remove_but(job.stem, set())
            raise
        finally:
            names = {file.key for file in kept}
            later = threading.Timer(OUTLIVES_S, self._end_job, [stem, job.stem, names])
            later.daemon = True
            later.start()
        kept.sort(key=lambda file: (file.partition, file.number))
        places = range(len(sets))
        return WrittenSets(sets=tuple(tuple(file for file in kept if file.place == place) for place in places))

    def put_table(self, table: pa.Table) -> str:
        """Store `table` as a file beside the tables' own; its key."""
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="snappy", row_group_size=1 << 20)
        key = self._parts.new_key(SIDE_FILES)
        self.files.put_new(key, bytes(sink.getvalue().to_pybytes()))
        return key

    def put_file(self, path: Path) -> str:
        """Store the file `path` beside the tables' own; its key."""
        key = self._parts.new_key(SIDE_FILES)
        self.files.put_file(key, path)
        return key

    def remove(self, keys: Iterable[str]) -> None:
        """Remove files that nothing refers to."""
        gone = list(keys)
        self.files.delete(gone)
        self._parts.release(gone)

    def _end_job(self, key: str, stem: str, kept: set[str]) -> None:
        """Remove what tasks have written since their job ended; from here on its names belong to whoever collects
        orphans."""
        try:
            self._remove_but(stem, kept)
        except StorageError as error:
            log.warning("spark.files_not_removed", stem=stem, reason=str(error))
        finally:
            self._parts.release([key])

    def _remove_but(self, stem: str, kept: set[str]) -> None:
        self.files.delete([key for key in self.files.list(stem + ".") if key not in kept])


def store_in_folder(blob: Blob, parts: PartStore) -> ClusterStore | None:
    """The folder of a blob store as the Python workers of executors write to it; None when it is no folder."""
    try:
        uri = blob.uri("x")
    except StorageError:
        return None
    return ClusterStore(ObjectPlace(root=Path(uri).parent.as_uri()), parts) if uri.startswith("/") else None


def file_set(
    query: BoundQuery,
    columns: tuple[int, ...],
    names: Sequence[str],
    layout: TableLayout | None = None,
    is_ordered: bool = False,
) -> FileSet:
    """The files of the query's output at `columns`, called `names`; new rows are laid out as `layout` says, and all
    that come in its order (`is_ordered`)."""
    fields = [query.rel.fields[position] for position in columns]
    schema = pa.schema([(name, arrow_type(field.type)) for name, field in zip(names, fields, strict=True)])
    kept = None if ROW_ID in names and not is_ordered else layout
    return FileSet(columns=tuple(f"c{field.id}" for field in fields), schema=schema, layout=kept)


def _task(job: WriteJob) -> Any:
    task = partial(write_files, job)
    task.__name__ = write_files.__name__  # type: ignore[attr-defined]
    task.__module__ = write_files.__module__
    return task
