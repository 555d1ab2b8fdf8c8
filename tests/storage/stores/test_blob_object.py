"""What the object store's blob promises beyond the common contract: its errors and its paths."""

from __future__ import annotations

import pytest

from storage.doubles.clock import SeededRandomness
from storage.doubles.memory_consensus import MemoryConsensus
from storage.environment.identity import identify
from storage.errors import Determinate, Indeterminate, StorageClosed, StoreUnavailable
from storage.stores.blob_object import ObjectBlob
from tests.storage.store_servers import S3Server
from tests.support.postgres import free_port


def unreachable() -> ObjectBlob:
    return ObjectBlob(
        "s3://bucket/environment",
        {
            "endpoint": f"http://127.0.0.1:{free_port()}",
            "region": "us-east-1",
            "access_key_id": "test",
            "secret_access_key": "test",
            "client_options": {"allow_http": True},
            "retry_config": {"max_retries": 0},
        },
    )


async def test_a_write_to_a_store_that_does_not_answer_is_indeterminate() -> None:
    blob = unreachable()
    with pytest.raises(Indeterminate, match="could not write blob 'a'"):
        await blob.put("a", b"")
    with pytest.raises(Indeterminate):
        await blob.put_if_absent("a", b"")


async def test_a_read_from_a_store_that_does_not_answer_is_not_absence() -> None:
    blob = unreachable()
    with pytest.raises(StoreUnavailable):
        await blob.get("a")
    with pytest.raises(StoreUnavailable):
        _ = [entry async for entry in blob.list()]


async def test_a_missing_bucket_is_named(s3: S3Server) -> None:
    blob = s3.open("no-such-bucket")
    with pytest.raises(StoreUnavailable, match=r"no-such-bucket.*: the bucket does not exist"):
        await blob.put("a", b"")
    with pytest.raises(StoreUnavailable, match=r"no-such-bucket.*: the bucket does not exist"):
        _ = [entry async for entry in blob.list()]


@pytest.mark.parametrize("how", ["ignored", "refused"])
async def test_a_store_without_conditional_writes_gets_no_environment(s3: S3Server, how: str) -> None:
    blob = s3.open(s3.new_bucket(), {"max_retries": 0})
    s3.without_conditions = how
    try:
        with pytest.raises(StoreUnavailable, match="has no conditional writes"):
            await identify(MemoryConsensus(), SeededRandomness(1), blob)
    finally:
        s3.without_conditions = None


async def test_engines_get_the_object_url(s3: S3Server) -> None:
    bucket = s3.new_bucket()
    assert s3.open(bucket).uri("parts/p.parquet") == f"s3://{bucket}/environment/parts/p.parquet"
    with pytest.raises(Determinate):
        ObjectBlob("memory:///").uri("a")


async def test_two_environments_share_a_bucket(s3: S3Server) -> None:
    bucket = s3.new_bucket()
    one = s3.open(bucket)
    await one.put("a", b"1")
    root = one.uri("a").removesuffix("/environment/a")
    assert root == f"s3://{bucket}"
    assert [entry.key async for entry in one.list()] == ["a"]


async def test_a_closed_store_says_so() -> None:
    blob = ObjectBlob("memory:///")
    await blob.close()
    with pytest.raises(StorageClosed):
        await blob.get("a")
