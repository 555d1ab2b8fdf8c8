"""COPY from and to objects of an S3 server, and reading them in FROM."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Iterator
from urllib.parse import quote
from urllib.request import Request, urlopen

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


FOLDERS = {
    "a b": "a b", "x%2Fy": "x/y", "100%25": "100%", "k%3Dv": "k=v", "%C3%A9": "é", "é": "é", "": "", "a#b": "a#b",
    "q?r": "q?r", "a+b": "a+b", "__HIVE_DEFAULT_PARTITION__": None, "[x]": "[x]", "a*b": "a*b", 'dq"q': 'dq"q',
}  # fmt: skip


def _put(s3: S3Server, bucket: str, key: str, data: bytes) -> None:
    # Without a type the server takes the data for a form.
    headers = {"Content-Type": "application/octet-stream"}
    urlopen(Request(f"{s3.endpoint}/{bucket}/{quote(key)}", data, headers, method="PUT")).close()


async def test_folders_of_odd_names_and_types(client: Client, s3: S3Server) -> None:
    bucket = s3.new_bucket()
    for folder in FOLDERS:
        _put(s3, bucket, f"odd/p={folder}/x.csv", b"id\n1\n")
    for moment in ("2024-01-01 00%3A00%3A00", "2024-01-01 10%3A00%3A00.5"):
        _put(s3, bucket, f"ts/at={moment}/x.csv", b"id\n1\n")
    await client.run(
        f"create server s foreign data wrapper lake options (path 's3://{bucket}');"
        "create foreign table odd (id int, p text) server s options (path 'odd', format 'csv');"
        "create foreign table ts (id int, at timestamp) server s options (path 'ts', format 'csv')"
    )
    found = await client.rows('select p from odd order by p collate "C"')
    assert found == [(value,) for value in sorted(value for value in FOLDERS.values() if value is not None)] + [(None,)]
    assert await client.rows(f"select p from read_csv('s3://{bucket}/odd') order by p collate \"C\"") == found
    assert await client.value("select count(*) from odd where p = 'x/y'") == 1
    assert await client.value("select at::text from ts where at > '2024-01-01 05:00'") == "2024-01-01 10:00:00.5"


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ("delimiter '|', quote ''''", [("1", "a|b", "x"), ("2", "it's", None), ("3", None, "N")]),
        ("delimiter '|', quote '''', null 'N'", [("1", "a|b", "x"), ("2", "it's", ""), ("3", "", None)]),
        (
            "delimiter '|', quote '''', null 'N', force_not_null (c)",
            [("1", "a|b", "x"), ("2", "it's", ""), ("3", "", "N")],
        ),
    ],
)
async def test_the_options_of_copy(client: Client, s3: S3Server, options: str, rows: list[object]) -> None:
    bucket = s3.new_bucket()
    _put(s3, bucket, "a.csv", b"1|'a|b'|x\n2|'it''s'|\n3||N\n")
    await client.run("create table t (a text, b text, c text)")
    await client.run(f"copy t from 's3://{bucket}/a.csv' (format csv, {options})")
    assert await client.rows("select * from t order by a") == rows
    if "force" not in options:
        await client.run(f"create server s foreign data wrapper lake options (path 's3://{bucket}')")
        options = f"path 'a.csv', header 'false', {options}"
        await client.run(f"create foreign table f (a text, b text, c text) server s options ({options})")
        assert await client.rows("select * from f order by a") == rows


async def test_texts_in_other_encodings(client: Client, s3: S3Server) -> None:
    bucket = s3.new_bucket()
    _put(s3, bucket, "a.csv", 'id;v\n1;é€\n2;"x\ny"\n'.encode("cp1252"))
    _put(s3, bucket, "b.csv.gz", gzip.compress("id;v\n1;привет\n".encode("cp1251")))
    _put(s3, bucket, "bad.csv", b"id;v\n1;\x81\n")
    call = f"read_csv('s3://{bucket}/NAME', delimiter => ';', encoding => 'ENCODING')"

    def read(name: str, encoding: str) -> str:
        return f"select * from {call} order by id".replace("NAME", name).replace("ENCODING", encoding)

    assert await client.rows(read("a.csv", "win1252")) == [(1, "é€"), (2, "x\ny")]
    assert await client.rows(read("b.csv.gz", "WIN-1251")) == [(1, "привет")]
    await client.run(f"create server s foreign data wrapper lake options (path 's3://{bucket}')")
    for name, encoding, extra, found in (
        ("a.csv", "win1252", "", [(1, "é€"), (2, "x\ny")]),
        ("b.csv.gz", "windows1251", ", quote '~'", [(1, "привет")]),
        ("a.csv", "LATIN1", "", [(1, "é\x80"), (2, "x\ny")]),
    ):
        options = f"path '{name}', delimiter ';', encoding '{encoding}'{extra}"
        await client.run("drop foreign table if exists f")
        await client.run(f"create foreign table f (id int, v text) server s options ({options})")
        assert await client.rows("select * from f order by id") == found
    for name, encoding, sqlstate in (
        ("bad.csv", "win1252", "22P04"),
        ("a.csv", "klingon", "22023"),
        ("a.csv", "sjis", "0A000"),
    ):
        assert (await client.error(read(name, encoding))).sqlstate == sqlstate


@pytest.mark.parametrize("name", ["a\tb.csv", "a\x7fb.csv", "x//b.csv"])
async def test_names_that_are_not_supported_are_named(client: Client, s3: S3Server, name: str) -> None:
    bucket = s3.new_bucket()
    shown = name.replace("\x01", "\\x01").replace("\x7f", "\\x7f").replace("\t", "\\t").replace("\n", "\\n")
    await client.run("create table into_table (id int)")
    for statement in (
        f"select * from read_csv(e's3://{bucket}/{shown}')",
        f"copy into_table from e's3://{bucket}/{shown}'",
        f"copy into_table to e's3://{bucket}/{shown}'",
    ):
        error = await client.error(statement)
        assert (error.sqlstate, shown in error.message) == ("0A000", True), (statement, error.message)
    if "//" in name:
        return  # The S3 server takes none.
    _put(s3, bucket, f"folder/{name}", b"id\n1\n")
    error = await client.error(f"select * from read_csv('s3://{bucket}/folder')")
    assert (error.sqlstate, f"folder/{shown}" in error.message) == ("0A000", True), error.message
