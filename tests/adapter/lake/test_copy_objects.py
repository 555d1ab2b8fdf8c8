"""COPY from and to objects of an S3 server, and reading them in FROM."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.adapter.harness import Client, connect, open_server
from tests.storage.store_servers import S3Server


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """An S3 server."""
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture
async def client(s3: S3Server) -> AsyncIterator[Client]:
    """A session of a server that has the keys of the S3 server."""
    options = {
        "endpoint": s3.endpoint, "region": "us-east-1", "access_key_id": "test", "secret_access_key": "test",
    }  # fmt: skip
    async with open_server(blob_options=options) as server:
        yield await connect(server)


@pytest.mark.parametrize("name", ["a.parquet", "a.csv.gz", "a.json.zst"])
async def test_an_object_is_written_and_loaded(client: Client, s3: S3Server, name: str) -> None:
    url = f"s3://{s3.new_bucket()}/out/{name}"
    format = "(format csv)" if "csv" in name else ""
    await client.run("create table t (id int, v text); insert into t values (1, 'a'), (2, null)")
    assert await client.tag(f"copy t to '{url}' {format}") == "COPY 2"
    await client.run("truncate t")
    assert await client.tag(f"copy t from '{url}' {format}") == "COPY 2"
    assert await client.rows("select * from t order by id") == [(1, "a"), (2, None)]


async def test_partitions_are_prefixes_and_an_error_leaves_nothing(client: Client, s3: S3Server) -> None:
    url = f"s3://{s3.new_bucket()}/out"
    options = "(format parquet, partition_by (k))"
    failing = "select 1 / (3 - g) as v, g % 2 as k from generate_series(1, 5) g"
    error = await client.error(f"copy ({failing}) to '{url}' {options}")
    assert error.sqlstate == "22012"
    assert (await client.error(f"select * from read_parquet('{url}')")).sqlstate == "58P01"
    await client.run(f"copy (select g as v, g % 2 as k from generate_series(1, 5) g) to '{url}' {options}")
    assert await client.rows(f"select k, sum(v) from read_parquet('{url}') group by k order by k") == [(0, 6), (1, 9)]


async def test_a_bucket_that_is_not_there_is_named(client: Client) -> None:
    error = await client.error("copy (select 1 as a) to 's3://nowhere-at-all/a.parquet'")
    assert (error.sqlstate, "s3://nowhere-at-all/a.parquet" in error.message) == ("58P01", True)
