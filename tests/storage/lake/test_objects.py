"""Objects of an S3 server as tables: listed, read in ranges, and what goes wrong."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage.lake.formats import FileFormat
from storage.lake.places import Places
from storage.lake.tables import LakeTables
from storage.lake.troubles import FileTrouble
from tests.storage.store_servers import S3Server

PARQUET = FileFormat(name="parquet")


def _places(s3: S3Server) -> Places:
    options = {
        "endpoint": s3.endpoint, "region": "us-east-1", "access_key_id": "test", "secret_access_key": "test",
    }  # fmt: skip
    return Places(options=options)


def _put(places: Places, url: str, ids: list[int]) -> None:
    store: Any
    store, key = places.store(url)
    data = io.BytesIO()
    pq.write_table(pa.table({"id": ids}), data)
    store.put(key, data.getvalue())


def test_objects_are_listed_by_patterns_and_their_folders_are_columns(s3: S3Server) -> None:
    places, bucket = _places(s3), f"s3://{s3.new_bucket()}"
    _put(places, f"{bucket}/in/year=2023/a.parquet", [1])
    _put(places, f"{bucket}/in/year=2024/b.parquet", [2, 3])
    _put(places, f"{bucket}/in/_temporary/c.parquet", [4])
    table = LakeTables(places).table((f"{bucket}/in",), PARQUET)
    assert table.dataset().to_table().to_pydict() == {"id": [1, 2, 3], "year": [2023, 2024, 2024]}
    one = LakeTables(places).table((f"{bucket}/in/*/b.parquet",), PARQUET, hive=False)
    assert one.dataset().to_table().to_pydict() == {"id": [2, 3]}


def test_an_object_that_is_replaced_while_it_is_read_is_named(s3: S3Server) -> None:
    places, url = _places(s3), f"s3://{s3.new_bucket()}/a.parquet"
    _put(places, url, [1])
    table = LakeTables(places).table((url,), PARQUET)
    _put(places, url, [1, 2, 3])
    with pytest.raises(FileTrouble) as raised:
        table.check_unchanged()
    assert (raised.value.kind, url in raised.value.message) == ("changed", True)


def test_what_is_not_there_is_missing(s3: S3Server) -> None:
    with pytest.raises(FileTrouble) as raised:
        _places(s3).files((f"s3://{s3.new_bucket()}/*.parquet",), (".parquet",))
    assert raised.value.kind == "missing"


def test_a_store_that_does_not_answer_is_unreachable() -> None:
    places = Places(options={"endpoint": "http://127.0.0.1:1", "region": "us-east-1", "access_key_id": "a",
                             "secret_access_key": "b"})  # fmt: skip
    with pytest.raises(FileTrouble) as raised:
        places.files(("s3://nowhere/a.parquet",), (".parquet",))
    assert (raised.value.kind, "s3://nowhere/a.parquet" in raised.value.message) == ("unreachable", True)


def test_json_lines_are_read_from_beginning_to_end(s3: S3Server) -> None:
    """Their scan would read the object while it holds the lock that reading needs."""
    bucket = s3.new_bucket()
    places = _places(s3)
    store: Any
    store, key = places.store(f"s3://{bucket}/a.json")
    store.put(key, b'{"id": 1}\n{"id": 2}\n')
    table = LakeTables(places).table((f"s3://{bucket}/a.json",), FileFormat(name="json"))
    assert table.streamed
    assert [id for batch in table.batches() for id in batch.column(0).to_pylist()] == [1, 2]
