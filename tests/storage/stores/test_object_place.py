"""An object store as executors use it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.errors import InvalidKey, StoreUnavailable
from storage.stores.object_place import ObjectFiles, ObjectPlace
from tests.storage.store_servers import S3Server


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """A local S3 server."""
    server = S3Server()
    yield server
    server.stop()


def place_in(s3: S3Server, bucket: str) -> ObjectPlace:
    options = {"endpoint": s3.endpoint, "region": "us-east-1", "access_key_id": "test", "secret_access_key": "test"}
    return ObjectPlace(root=f"s3://{bucket}/environment", options=options)


@pytest.fixture
def files(s3: S3Server) -> ObjectFiles:
    """A client for an empty bucket, made from a description that was sent."""
    sent: ObjectPlace = pickle.loads(pickle.dumps(place_in(s3, s3.new_bucket())))
    return sent.open()


def test_what_is_put_is_there(files: ObjectFiles, tmp_path: Path) -> None:
    files.put_new("parts/s1/a.parquet", b"one")
    # As the library may repeat it.
    files.put_new("parts/s1/a.parquet", b"one")
    (tmp_path / "file").write_bytes(b"two")
    files.put_file("parts/s1/b.parquet", tmp_path / "file")
    assert files.get("parts/s1/a.parquet") == b"one"
    assert set(files.list("parts/s1/")) == {"parts/s1/a.parquet", "parts/s1/b.parquet"}
    assert list(files.list("parts/s1/b")) == ["parts/s1/b.parquet"]
    files.delete(["parts/s1/a.parquet", "parts/s1/c.parquet"])
    assert list(files.list("parts/")) == ["parts/s1/b.parquet"]


def test_a_name_that_is_taken_is_not_written_over(files: ObjectFiles) -> None:
    files.put_new("parts/s1/a.parquet", b"one")
    with pytest.raises(StoreUnavailable, match="its name is taken"):
        files.put_new("parts/s1/a.parquet", b"other")
    assert files.get("parts/s1/a.parquet") == b"one"


def test_what_fails_says_why(s3: S3Server, files: ObjectFiles) -> None:
    with pytest.raises(InvalidKey):
        files.put_new("../a", b"")
    with pytest.raises(StoreUnavailable, match="could not read blob 'a' at s3://"):
        files.get("a")
    with pytest.raises(StoreUnavailable, match="could not write blob 'a' at s3://nowhere/environment"):
        place_in(s3, "nowhere").open().put_new("a", b"")
