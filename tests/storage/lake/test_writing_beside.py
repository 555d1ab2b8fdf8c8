"""New files beside those that are there, of which none is replaced."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage.lake.places import Places
from storage.lake.troubles import FileTrouble
from storage.lake.writing import FilesWriter, Layout, OutputFormat

SCHEMA = pa.schema([pa.field("a", pa.int64())])


def _write(folder: Path, scratch: Path, tag: str, rows: list[int]) -> None:
    layout = Layout(file_size=1 << 20)
    places, format = Places((folder,)), OutputFormat(name="parquet")
    writer = FilesWriter(places, str(folder / "t"), SCHEMA, format, layout, scratch, beside=tag)
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
