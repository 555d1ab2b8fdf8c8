"""Parts that executors write as files of a folder that they share with the server, and the ids of their columns.

Field ids in the Parquet files that Spark writes (`storage.shards.field_ids`).

Spark takes a column's id from the metadata of its field. It has no place for the ids of a list's elements, and readers
that go by ids would leave such a column out: a file with lists or structs gets no ids at all, and is read by name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from adapter.engines.spark.result_spool import ROW_GROUP_ROWS, result_files
from planner.ir.bound import BoundQuery
from storage.environment.environment import Environment
from storage.errors import StorageError
from storage.layouts.layout import TableLayout
from storage.shards.field_ids import column_id
from storage.shards.parts import ROW_ID, PartDigest

ABANDONED_AFTER_SECONDS = 24 * 3600
"""No statement writes for longer than this without its folder changing."""

_NESTED = ("array<", "struct<", "map<")

READ_BYTES = 8 << 20
"""How much of a file is read at once for its checksum."""

WRITTEN_ROW_GROUP_BYTES = 32 << 20
"""Row groups of parts that executors write: what each writing task buffers of the driver's heap in local mode."""


def with_column_ids(frame: Any) -> Any:
    """The data frame with the ids of its columns, where all can have one."""
    ids = [(name, column_id(name)) for name, _ in frame.dtypes]
    if any(id is None for _, id in ids) or any(type.startswith(_NESTED) for _, type in frame.dtypes):
        return frame
    return frame.select(*(frame[name].alias(name, metadata={"parquet.field.id": id}) for name, id in ids))


def outputs_of(query: BoundQuery, columns: tuple[int, ...], names: Sequence[str]) -> list[str]:
    """The columns of a set of parts, in Spark's SQL: those of the query's output at `columns`, called `names`."""
    fields = query.rel.fields
    return [f"c{fields[position].id} AS {name}" for position, name in zip(columns, names, strict=True)]


def write_sets(
    frame: Any, scratch: Path, sets: Sequence[Sequence[str]], layout: TableLayout | None, is_ordered: bool
) -> list[Path]:
    """Writes one folder of files for each set of columns. With several, the statement runs once: its rows are kept on
    the executors' disks in between. New rows are laid out as `layout` says, as are all that come in its order. When it
    fails nothing of it is left."""
    folders = [scratch / str(index) for index in range(len(sets))]
    kept = len(sets) > 1
    if kept:
        from pyspark import StorageLevel

        frame = frame.persist(StorageLevel.DISK_ONLY)
    try:
        for folder, outputs in zip(folders, sets, strict=True):
            selected = frame.selectExpr(*outputs)
            most_rows = 0
            is_new = not any(output.endswith(f" AS {ROW_ID}") for output in outputs)
            if layout is not None and (is_new or is_ordered):
                if layout.sort and not is_ordered:
                    selected = selected.sort(*layout.sort)
                most_rows = _most_rows(selected, layout)
            write_parquet(with_column_ids(selected), folder, "zstd", WRITTEN_ROW_GROUP_BYTES, most_rows)
    except BaseException:
        # Whoever asked for it may have left meanwhile.
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    finally:
        if kept:
            frame.unpersist()
    return folders


def _most_rows(frame: Any, layout: TableLayout) -> int:
    """How many rows make a file of the size that `layout` wishes, going by the types of the columns; 0: any number."""
    if layout.target_bytes is None:
        return 0
    widths = [_WIDTHS.get(type, LONG_VALUE_BYTES) for _, type in frame.dtypes]
    return max(1, layout.target_bytes // max(1, round(sum(widths))))


LONG_VALUE_BYTES = 12.0
"""What a text takes in a compressed file, about."""

_WIDTHS = {
    "boolean": 0.1, "smallint": 1.0, "int": 2.0, "bigint": 4.0, "float": 4.0, "double": 7.0, "date": 1.0,
    "timestamp": 5.0, "timestamp_ntz": 5.0, "time(6)": 5.0,
}  # fmt: skip
"""What a value of a type takes in a compressed file, about."""


ZSTD_LEVEL = 1
"""As the local engine has it: that of Spark, 3, takes a twentieth of all the time to write a table, for some percent of
the bytes."""


def write_parquet(frame: Any, folder: Path, codec: str, row_group_bytes: int, most_rows: int = 0) -> None:
    """Let executors write the rows of `frame` to `folder`, `most_rows` to a file unless that is 0."""
    writer = frame.write.option("compression", codec).option("parquet.block.size", str(row_group_bytes))
    writer = writer.option("parquet.compression.codec.zstd.level", str(ZSTD_LEVEL))
    # Repetitive rows encode to next to nothing, so their number has to be bounded too.
    writer = writer.option("maxRecordsPerFile", str(most_rows))
    writer.option("parquet.block.row.count.limit", str(ROW_GROUP_ROWS)).parquet(str(folder))


def file_rows(folder: Path) -> list[tuple[Path, int]]:
    """The files of `folder` that have rows, and how many."""
    counted = [(path, pq.read_metadata(path).num_rows) for path in result_files(folder)]
    return [(path, rows) for path, rows in counted if rows]


def moved(path: Path, target: Path) -> tuple[int, str, bytes]:
    """Give a Parquet file its name; its length, checksum and footer. Reads all of it; blocks."""
    digest, size = PartDigest(), 0
    with path.open("rb") as file:
        while piece := file.read(READ_BYTES):
            digest.add(piece)
            size += len(piece)
        file.seek(size - 8)
        length = int.from_bytes(file.read(4), "little") + 8
        file.seek(size - length)
        tail = file.read(length)
    target.parent.mkdir(parents=True, exist_ok=True)
    os.rename(path, target)
    return size, digest.checksum, tail


def written_folders(env: Environment) -> tuple[Path, ...]:
    """Where executors write what this process makes parts of: on the blob store's file system, in a folder that holds
    no objects (their names never begin with a dot). None when the blob store is no folder."""
    try:
        uri = env.blob.uri("x")
    except StorageError:
        return ()
    return (Path(uri).parent / ".spark" / env.process,) if uri.startswith("/") else ()


def clear_abandoned(env: Environment) -> None:
    """Removes what a server that was killed a day ago or longer left in the blob store's scratch folder. Blocks."""
    limit = env.clock.now_ms() / 1000 - ABANDONED_AFTER_SECONDS
    for own in written_folders(env):
        for folder in own.parent.glob("*/*"):
            if folder.stat().st_mtime < limit:
                shutil.rmtree(folder, ignore_errors=True)
        for process in own.parent.glob("*"):
            # Those of processes that live, and use theirs, are made again.
            if process.stat().st_mtime < limit:
                with suppress(OSError):
                    process.rmdir()
