"""Tables that say themselves which files they have: objects of an S3 server, deletion vectors, damaged metadata."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import LongType, NestedField, StringType, StructType
from pyroaring import BitMap64

from storage.lake.places import Places
from storage.lake.snapshots.iceberg import partition_stats
from storage.lake.snapshots.listings import SnapshotTables, WhichSnapshot
from storage.lake.snapshots.tables import SnapshotTable
from storage.lake.troubles import FileTrouble
from tests.storage.store_servers import S3Server

NEWEST = WhichSnapshot()


def _ids(table: SnapshotTable) -> list[Any]:
    """The values of the first column, as a scan of the pieces and as a reader of all rows see them."""
    found = sorted(value for batch in table.batches() for value in batch.column(0).to_pylist())
    scanned = []
    for piece in table.pieces():
        read = piece.source
        rows = read.to_table() if hasattr(read, "to_table") else pa.RecordBatchReader.from_stream(read).read_all()
        scanned += rows.column(piece.names[0]).to_pylist()
    assert sorted(scanned) == found
    table.opened.check()
    return found


def _iceberg(folder: Path, schema: Schema) -> Any:
    folder.mkdir(exist_ok=True)
    catalog = SqlCatalog("mine", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace_if_not_exists("n")
    return catalog.create_table("n.t", schema)


def test_tables_of_an_object_store(s3: S3Server) -> None:
    options = {
        "endpoint": s3.endpoint, "region": "us-east-1", "access_key_id": "test", "secret_access_key": "test",
        "allow_http": "true",
    }  # fmt: skip
    bucket = f"s3://{s3.new_bucket()}"
    delta = {f"aws_{name}": value for name, value in options.items()} | {"aws_s3_allow_unsafe_rename": "true"}
    write_deltalake(f"{bucket}/delta", pa.table({"id": [1, 2, 3]}), storage_options=delta)
    DeltaTable(f"{bucket}/delta", storage_options=delta).delete("id = 2")
    properties = {
        "warehouse": f"{bucket}/iceberg", "s3.endpoint": s3.endpoint, "s3.region": "us-east-1",
        "s3.access-key-id": "test", "s3.secret-access-key": "test",
    }  # fmt: skip
    catalog = SqlCatalog("mine", uri="sqlite:///:memory:", **properties)
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", Schema(NestedField(1, "id", LongType())))
    table.append(pa.table({"id": [7, 8]}))
    places = Places(options=options)
    below = SnapshotTables(places.within(bucket, {}, ()))
    assert _ids(below.table(f"{bucket}/delta", "delta", NEWEST)) == [1, 3]
    assert _ids(below.table(f"{bucket}/iceberg/n/t", "iceberg", NEWEST)) == [7, 8]
    # Data and metadata of a table lie where its server may look.
    elsewhere = SnapshotTables(places.within(f"{bucket}/iceberg/n/t/metadata", {}, ()))
    with pytest.raises(FileTrouble, match="is not below"):
        _ids(elsewhere.table(table.metadata_location, "iceberg", NEWEST))


def test_rows_of_deletion_vectors_are_gone(tmp_path: Path) -> None:
    """Delta protocol, "Deletion Vectors": an inline one, as Spark writes it for few rows."""
    folder = tmp_path / "t"
    write_deltalake(str(folder), pa.table({"id": list(range(100))}))
    log = folder / "_delta_log"
    first = log / f"{0:020}.json"
    (add,) = [json.loads(line)["add"] for line in first.read_text().splitlines() if '"add"' in line]
    data = struct.pack("<i", 1681511377) + BitMap64([0, 3, 99]).serialize()
    data += b"\0" * (-len(data) % 4)
    vector = {
        "storageType": "i",
        "pathOrInlineDv": _z85(data),
        "sizeInBytes": len(data),
        "cardinality": 3,
    }
    features = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
    actions = [
        {"protocol": {**features, "writerFeatures": ["deletionVectors"]}},
        {"remove": {"path": add["path"], "dataChange": True, "deletionTimestamp": 1}},
        {"add": {**add, "deletionVector": vector}},
    ]
    (log / f"{1:020}.json").write_text("\n".join(json.dumps(action) for action in actions))
    table = SnapshotTables(Places((tmp_path,))).table(str(folder), "delta", NEWEST)
    assert _ids(table) == [n for n in range(100) if n not in (0, 3, 99)]


def _z85(data: bytes) -> str:
    """The encoding of ZeroMQ's RFC 32: Python's base 85 over another alphabet."""
    python = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    zeromq = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    return base64.b85encode(data).translate(bytes.maketrans(python, zeromq)).decode()


@pytest.mark.parametrize("content", [b"", b"{}", b'{"format-version": 2', b"\xff\xfe", b'{"format-version": 99}'])
def test_damaged_metadata_is_named(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "t" / "metadata"
    folder.mkdir(parents=True)
    (folder / "v1.metadata.json").write_bytes(content)
    with pytest.raises(FileTrouble, match=r"v1\.metadata\.json") as raised:
        SnapshotTables(Places((tmp_path,))).table(str(folder.parent), "iceberg", NEWEST)
    assert raised.value.kind == "malformed"


def test_a_damaged_log_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    write_deltalake(str(folder), pa.table({"id": [1]}))
    (folder / "_delta_log" / f"{0:020}.json").write_text("{")
    with pytest.raises(FileTrouble, match=str(folder)) as raised:
        SnapshotTables(Places((tmp_path,))).table(str(folder), "delta", NEWEST)
    assert raised.value.kind == "malformed"


def test_the_newest_metadata_is_read_and_each_once(tmp_path: Path) -> None:
    table = _iceberg(tmp_path, Schema(NestedField(1, "id", LongType())))
    for number in range(12):
        table.append(pa.table({"id": [number]}))
    tables, path = SnapshotTables(Places((tmp_path,))), table.location().removeprefix("file://")
    first = tables.table(path, "iceberg", NEWEST)
    assert _ids(first) == list(range(12))
    assert tables.table(path, "iceberg", NEWEST)._listing is first._listing
    table.append(pa.table({"id": [12]}))
    assert _ids(tables.table(path, "iceberg", NEWEST)) == list(range(13))


def test_columns_that_cannot_be_read_do_not_hide_the_others(tmp_path: Path) -> None:
    inner = StructType(NestedField(3, "x", LongType()))
    table = _iceberg(tmp_path, Schema(NestedField(1, "id", LongType()), NestedField(2, "s", inner)))
    table.append(pa.table({"id": [1], "s": [{"x": 2}]}))
    found = SnapshotTables(Places((tmp_path,))).table(
        table.location().removeprefix("file://"), "iceberg", NEWEST, declared=[pa.field("id", pa.int64())]
    )
    assert _ids(found) == [1]


def test_partitions_prune_where_there_are_no_bounds(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "kind", StringType()))
    catalog = SqlCatalog("mine", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "kind"))
    without = {"write.metadata.metrics.default": "none"}
    table = catalog.create_table("n.t", schema, partition_spec=spec, properties=without)
    table.append(pa.table({"id": [1, 2, 3], "kind": ["a", "b", None]}))
    found = SnapshotTables(Places((tmp_path,))).table(table.location().removeprefix("file://"), "iceberg", NEWEST)
    kinds = sorted((each.known.stats["kind"] for each in found._files), key=str)
    found_kinds = [(each.min, each.max, each.null_count) for each in kinds]
    assert found_kinds == [("a", "a", None), ("b", "b", None), (None, None, 1)]


def test_what_partitions_by_transforms_say() -> None:
    for transform, value, type, low, high in (
        (MonthTransform(), 1, pa.date32(), 31, 58),
        (YearTransform(), -1, pa.date32(), -365, -1),
        (DayTransform(), 1, pa.timestamp("us"), 86_400_000_000, 2 * 86_400_000_000 - 1),
        (HourTransform(), 1, pa.timestamp("us", "UTC"), 3_600_000_000, 7_200_000_000 - 1),
        (TruncateTransform(10), 20, pa.int64(), 20, 29),
        (TruncateTransform(1), "a", pa.string(), None, None),
        (BucketTransform(4), 1, pa.int64(), None, None),
        (MonthTransform(), 1, pa.timestamp("ns"), None, None),
    ):
        found = partition_stats(transform, value, type, 7, None)
        assert (found.min, found.max, found.null_count) == (low, high, None)
    assert partition_stats(DayTransform(), None, pa.date32(), 7, None).null_count == 7


def test_an_engine_may_read_the_files_where_they_have_everything(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "kind", StringType()))
    (tmp_path / "a").mkdir()
    catalog = SqlCatalog("mine", uri=f"sqlite:///{tmp_path}/a/catalog.db", warehouse=f"file://{tmp_path}/a")
    catalog.create_namespace("n")
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "kind"))
    table = catalog.create_table("n.t", schema, partition_spec=spec)
    table.append(pa.table({"id": [1, 2], "kind": ["a", "b"]}))
    tables, path = SnapshotTables(Places((tmp_path,))), table.location().removeprefix("file://")
    assert tables.table(path, "iceberg", NEWEST).plain
    with table.update_schema() as update:
        update.rename_column("id", "number")
    assert not tables.table(path, "iceberg", NEWEST).plain
    write_deltalake(str(tmp_path / "d"), pa.table({"id": [1, 2], "kind": ["a", "b"]}), partition_by=["kind"])
    assert not tables.table(str(tmp_path / "d"), "delta", NEWEST).plain
    only_ids = [pa.field("id", pa.int64())]
    assert tables.table(str(tmp_path / "d"), "delta", NEWEST, declared=only_ids).plain
