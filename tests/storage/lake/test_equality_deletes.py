"""Equality deletes of Iceberg tables, made by hand: which rows they delete of which data files."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType, UUIDType

from storage.lake.places import Places
from storage.lake.snapshots.listings import SnapshotTables, WhichSnapshot
from storage.lake.troubles import FileTrouble

SCHEMA = Schema(
    NestedField(1, "id", IntegerType()), NestedField(2, "kind", StringType()), NestedField(3, "x", DoubleType()),
    NestedField(4, "u", UUIDType()),
)  # fmt: skip
BY_KIND = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "kind"))
UUIDS = [uuid.UUID(int=n).bytes for n in range(10)]


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class Lake:
    """A table, and the newest state of it that `SnapshotTables` reads."""

    def __init__(self, folder: Path, spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC) -> None:
        self.folder = folder
        self.catalog = SqlCatalog("mine", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/w")
        self.catalog.create_namespace("s")
        self.table: Table = self.catalog.create_table("s.t", SCHEMA, partition_spec=spec)
        self.tables = SnapshotTables(Places(folders=[folder]))

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Another data file for each partition."""
        schema = schema_to_pyarrow(self.table.schema(), include_field_ids=False)
        self.table.append(pa.Table.from_pylist(list(rows), schema=schema))

    def delete(
        self, values: Mapping[str, pa.Array], *, kind: str | None = None, format: FileFormat = FileFormat.PARQUET
    ) -> None:
        """A snapshot with a file of equality deletes: of the partition `kind`, else of the spec without fields."""
        metadata = json.loads(Path(self.table.metadata_location.removeprefix("file://")).read_text())
        name = f"{self.folder}/w/s/t/metadata/{uuid.uuid4().hex}"
        ids = [self.table.schema().find_field(column).field_id for column in values]
        fields = [
            pa.field(column, array.type, metadata={b"PARQUET:field_id": str(number).encode()})
            for (column, array), number in zip(values.items(), ids, strict=True)
        ]
        pq.write_table(pa.table(list(values.values()), schema=pa.schema(fields)), f"{name}.parquet")
        spec = UNPARTITIONED_PARTITION_SPEC if kind is None else self.table.spec()
        if kind is None and all(each["fields"] for each in metadata["partition-specs"]):
            spec = PartitionSpec(spec_id=7)
            metadata["partition-specs"].append({"spec-id": 7, "fields": []})
        file = DataFile.from_args(
            content=DataFileContent.EQUALITY_DELETES, file_path=f"file://{name}.parquet", file_format=format,
            partition=Record() if kind is None else Record(kind), record_count=1,
            file_size_in_bytes=Path(f"{name}.parquet").stat().st_size, equality_ids=ids,
        )  # fmt: skip
        file.spec_id = spec.spec_id
        number, sequence = uuid.uuid4().int >> 66, metadata["last-sequence-number"] + 1
        io = PyArrowFileIO()
        output = io.new_output(f"file://{name}.avro")
        with _DeletesWriter(spec, self.table.schema(), output, number, "deflate") as writer:
            writer.add_entry(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=number, sequence_number=sequence,
                    file_sequence_number=sequence, data_file=file,
                )
            )  # fmt: skip
        made = writer.to_manifest_file()
        made.sequence_number = made.min_sequence_number = sequence
        before = self.table.current_snapshot()
        assert before is not None
        listed = io.new_output(f"file://{name}-list.avro")
        with write_manifest_list(2, listed, number, before.snapshot_id, sequence, "deflate") as listing:
            listing.add_manifests([*before.manifests(io), made])
        snapshot = json.loads(before.model_dump_json(by_alias=True))
        snapshot |= {"snapshot-id": number, "sequence-number": sequence, "manifest-list": f"file://{name}-list.avro"}
        metadata["snapshots"].append(snapshot)
        metadata["refs"]["main"]["snapshot-id"] = number
        metadata |= {"current-snapshot-id": number, "last-sequence-number": sequence}
        count = int(Path(self.table.metadata_location).name.partition("-")[0]) + 1
        location = f"{self.folder}/w/s/t/metadata/{count:05}-{uuid.uuid4()}.metadata.json"
        Path(location).write_text(json.dumps(metadata))
        self.catalog.drop_table("s.t")
        self.table = self.catalog.register_table("s.t", f"file://{location}")

    def ids(self) -> list[int | None]:
        """The column of ids, as those see it who read rows, and who scan."""
        table = self.tables.table(f"{self.folder}/w/s/t", "iceberg", WhichSnapshot())
        read = [id for batch in table.batches() for id in batch.column(0).to_pylist()]
        table.opened.check()
        return sorted(read, key=lambda id: (id is None, id))


def _rows(*ids: int | None, kind: str = "a") -> list[dict[str, Any]]:
    return [{"id": id, "kind": kind, "x": None if id is None else id / 2, "u": UUIDS[id or 0]} for id in ids]


def test_rows_go_that_came_before_and_have_the_values(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.add(_rows(1, 2, 3, None))
    lake.delete({"id": pa.array([2, None], pa.int32())})
    assert lake.ids() == [1, 3]
    lake.add(_rows(2, 3, None))
    assert lake.ids() == [1, 2, 3, 3, None]
    # Of several columns all have to be equal.
    lake.delete({"id": pa.array([3, 1], pa.int32()), "x": pa.array([1.5, 7.0])})
    assert lake.ids() == [1, 2, None]
    lake.delete({"u": pa.array([UUIDS[1]], pa.uuid())})
    assert lake.ids() == [2, None]
    lake.add(_rows(8, 9))
    lake.delete({"x": pa.array([1.0, None])})
    assert lake.ids() == [8, 9]


def test_those_of_a_partition_concern_it_alone_those_of_none_all(tmp_path: Path) -> None:
    lake = Lake(tmp_path, BY_KIND)
    lake.add([*_rows(1, 2, kind="a"), *_rows(1, 2, kind="b")])
    lake.delete({"id": pa.array([1], pa.int32())}, kind="b")
    assert lake.ids() == [1, 2, 2]
    lake.delete({"id": pa.array([2], pa.int32())})
    assert lake.ids() == [1]


def test_columns_that_were_changed_since_are_found(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.add(_rows(1, 2))
    with lake.table.update_schema() as update:
        update.update_column("id", LongType())
        update.rename_column("kind", "sort")
        update.add_column("more", IntegerType())
    lake.delete({"id": pa.array([2], pa.int64()), "sort": pa.array(["a"])})
    assert lake.ids() == [1]
    lake.delete({"more": pa.array([5, None], pa.int32()), "id": pa.array([1, 4], pa.int64())})
    assert lake.ids() == [1]
    lake.delete({"more": pa.array([None], pa.int32()), "id": pa.array([1], pa.int64())})
    assert lake.ids() == []


def test_files_of_other_formats_are_refused(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.add(_rows(1))
    lake.delete({"id": pa.array([1], pa.int32())}, format=FileFormat.AVRO)
    with pytest.raises(FileTrouble, match="is of format AVRO, which is not supported"):
        lake.ids()
