"""New files beside those that are there, of which none is replaced."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage.lake.output.new_files import NewFiles, task_name, task_stem
from storage.lake.output.row_files import Layout, OutputFormat, WrittenFile
from storage.lake.output.writing import FilesWriter
from storage.lake.places import Places
from storage.lake.troubles import FileTrouble

SCHEMA = pa.schema([pa.field("a", pa.int64())])


def _write(folder: Path, scratch: Path, tag: str, rows: list[int]) -> None:
    layout = Layout(file_size=1 << 20)
    places, format = Places((folder,)), OutputFormat(name="parquet")
    writer = FilesWriter(places, str(folder / "t"), SCHEMA, format, layout, tag=tag, scratch=scratch, beside=True)
    try:
        writer.write(pa.record_batch([rows], schema=SCHEMA))
        writer.finish()
    except BaseException:
        writer.abort()
        raise


def test_files_are_put_beside_others(tmp_path: Path) -> None:
    for tag in ("one", "two"):
        _write(tmp_path, tmp_path / "scratch", tag, [1])
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == [
        "part-one-00000.parquet", "part-two-00000.parquet",
    ]  # fmt: skip


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    _write(tmp_path, tmp_path / "scratch", "one", [1])
    with pytest.raises(FileTrouble) as failed:
        _write(tmp_path, tmp_path / "scratch", "one", [2])
    assert failed.value.kind == "exists"
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["part-one-00000.parquet"]
    assert pq.read_table(tmp_path / "t/part-one-00000.parquet").column("a").to_pylist() == [1]


def test_attempts_that_do_not_count_get_no_names(tmp_path: Path) -> None:
    files = NewFiles(
        Places((tmp_path,)), str(tmp_path / "t"), OutputFormat(name="parquet"), Layout(partition_by=("a",)),
        tag="one", scratch=tmp_path / "scratch",
    )  # fmt: skip
    hidden = Path(files.hidden().path)
    for run, partition, attempt, rows in ((0, 0, 0, 100), (1, 0, 0, 5), (1, 0, 3, 7), (1, 1, 1, 1), (1, 2, 2, None)):
        (hidden / task_name(task_stem(run, partition, attempt), 0, rows)).write_bytes(b"x" * 10)
    # Those of the newest run, of each task the attempt that is furthest; a file that is not whole has bytes alone.
    assert files.progress() == (8, 30)
    counted = hidden / task_name(task_stem(1, 0, 3), 0, 7)
    files.put([WrittenFile(values=(value,), path=str(counted), rows=7, bytes=10) for value in ("x/y",)])
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == [
        "t", "t/a=x%2Fy", "t/a=x%2Fy/part-00000.parquet",
    ]  # fmt: skip
    files.remove()
    assert list(tmp_path.iterdir()) == []
