"""COPY from and to files of allowed folders."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.adapter.harness import Client

ALL_TYPES = """
create table t (id bigint primary key, name varchar(3), price numeric(10,2), at timestamptz, span interval, n numeric,
    j jsonb, u uuid, tags int[], b bytea, e text);
insert into t values
    (1, 'a', 1.5, '2024-01-01 10:00Z', '1 day', 1.23456789012345678901234567890, '{"a": 1}',
     '00000000-0000-0000-0000-000000000001', '{1,NULL}', '\\x00ff', E'tab\\there "quoted", line\\nnext \\\\'),
    (2, null, null, null, null, null, null, null, null, null, '');
create table copied (like t including all)
"""


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.parquet", ""),
        ("a.pq", "(compression snappy)"),
        ("a.jsonl", ""),
        ("a.json.zst", "(format json)"),
        ("a", "(format json, compression gzip)"),
        ("a.csv.gz", "(format csv, header)"),
        ("a.txt", ""),
        ("a.bin", "(format binary)"),
    ],
)
async def test_what_is_written_is_read_again(lake: Path, reader: Client, name: str, options: str) -> None:
    await reader.run(ALL_TYPES)
    assert await reader.tag(f"copy t to '{lake}/{name}' {options}") == "COPY 2"
    assert _files(lake) == {name}
    back = "(format parquet)" if name.endswith(".pq") else options
    assert await reader.tag(f"copy copied from '{lake}/{name}' {back}") == "COPY 2"
    assert await reader.value("select count(*) from (table t except table copied) d") == 0
    assert await reader.value("select count(*) from copied") == 2


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("format", ["parquet", "csv", "text", "json", "binary"])
async def test_folders_that_are_written_are_read_again(
    lake: Path, reader: Client, format: str, compression: str
) -> None:
    await reader.run(ALL_TYPES)
    how = f"format {format}, compression {compression}, file_size '1MB'"
    assert await reader.tag(f"copy t to '{lake}/out' ({how})") == "COPY 2"
    assert (lake / "out").is_dir()
    assert await reader.tag(f"copy copied from '{lake}/out' (format {format})") == "COPY 2"
    assert await reader.value("select count(*) from (table t except table copied) d") == 0
    other = "csv" if format == "json" else "json"
    error = await reader.error(f"copy copied from '{lake}/out' (format {other})")
    assert (error.sqlstate, f"say (FORMAT {format})" in (error.hint or "")) == ("58P01", True)


async def test_arrays_are_lists_in_files_of_parquet(lake: Path, reader: Client) -> None:
    await reader.run("create table t (id int, tags text[])")
    await reader.run("insert into t values (1, '{a,b}'), (2, null), (3, '{}')")
    await reader.run(f"copy t to '{lake}/a.parquet'")
    assert pq.read_table(lake / "a.parquet").column("tags").to_pylist() == [["a", "b"], None, []]
    await reader.run("insert into t values (4, '{{a,b},{c,d}}')")
    assert (await reader.error(f"copy t to '{lake}/b.parquet'")).sqlstate == "0A000"
    await reader.run(f"copy (select id, tags::text from t) to '{lake}/b.parquet'")


@pytest.mark.parametrize("format", ["parquet", "json", "csv, header"])
async def test_partitions_are_folders(lake: Path, reader: Client, format: str) -> None:
    name = format.partition(",")[0]
    query = "select g as id, g % 2 as k, case when g = 3 then null else 'x/y' end as v from generate_series(1, 4) g"
    await reader.run(f"copy ({query}) to '{lake}/out' (format {format}, partition_by (k, v))")
    assert _files(lake / "out") == {
        f"k=0/v=x%2Fy/part-00000.{name}",
        f"k=1/v=x%2Fy/part-00000.{name}",
        f"k=1/v=__HIVE_DEFAULT_PARTITION__/part-00000.{name}",
    }
    rows = await reader.rows(f"select id, k, v from read_{name}('{lake}/out') order by id")
    assert rows == [(1, 1, "x/y"), (2, 0, "x/y"), (3, 1, None), (4, 0, "x/y")]
    again = await reader.error(f"copy ({query}) to '{lake}/out' (format {format}, partition_by (k, v))")
    assert (again.sqlstate, str(lake / "out") in again.message) == ("58P02", True)


async def test_files_end_at_their_size(lake: Path, reader: Client) -> None:
    query = "select g as id, md5(g::text) as v from generate_series(1, 2000) g"
    await reader.run(f"copy ({query}) to '{lake}/out' (format parquet, file_size '20kB', compression none)")
    sizes = [path.stat().st_size for path in (lake / "out").iterdir()]
    assert len(sizes) > 3
    assert max(sizes) < 45_000
    assert await reader.value(f"select count(distinct id) from read_parquet('{lake}/out')") == 2000


@pytest.mark.parametrize("options", ["format parquet", "format csv, partition_by (k)", "format json, file_size '1kB'"])
async def test_a_copy_that_fails_leaves_nothing_and_what_was_there(lake: Path, reader: Client, options: str) -> None:
    if "," not in options:
        (lake / "out").write_text("as before")
    before = _files(lake)
    error = await reader.error(
        f"copy (select 1 / (3 - g) as v, g as k from generate_series(1, 9) g) to '{lake}/out' ({options})"
    )
    assert error.sqlstate == "22012"
    assert _files(lake) == before
    assert (lake / "out").exists() == bool(before)


async def test_files_with_rows_that_do_not_fit_load_nothing(lake: Path, reader: Client) -> None:
    await reader.run("create table t (id int primary key, v text)")
    (lake / "a.csv").write_text("1,x\n2,y\n")
    (lake / "b.csv").write_text("3,z\noops,z\n")
    error = await reader.error(f"copy t from '{lake}/*.csv' (format csv)")
    assert (error.sqlstate, error.where) == ("22P02", f'COPY t, line 2, column id: "oops", file "{lake}/b.csv"')
    pq.write_table(pa.table({"id": [5, 5], "v": ["a", "b"]}), lake / "c.parquet")
    assert (await reader.error(f"copy t from '{lake}/c.parquet'")).sqlstate == "23505"
    (lake / "d.json").write_text('{"id": 7, "v": "a"}\n{"id": 8,\n')
    error = await reader.error(f"copy t from '{lake}/d.json'")
    assert (error.sqlstate, error.where) == ("22P04", f'COPY t, line 2: "{{"id": 8,", file "{lake}/d.json"')
    assert await reader.value("select count(*) from t") == 0


async def test_columns_go_by_name_with_defaults_and_a_condition(lake: Path, reader: Client) -> None:
    await reader.run("create table t (id int generated always as identity, v text default 'none', k smallint)")
    pq.write_table(pa.table({"k": [1, 2, 3], "other": ["a", "b", "c"]}), lake / "a.parquet")
    error = await reader.error(f"copy t from '{lake}/a.parquet'")
    assert (error.sqlstate, error.message) == ("42703", f'column "id" of table "t" is not in "{lake}/a.parquet"')
    assert await reader.tag(f"copy t (k) from '{lake}/a.parquet' where k > 1") == "COPY 2"
    assert await reader.rows("select id, v, k from t order by k") == [(1, "none", 2), (2, "none", 3)]
    (lake / "a.json").write_text('{"k": 9, "id": 70, "v": null}\n')
    await reader.run(f"copy t from '{lake}/a.json'")
    assert await reader.rows("select id, v from t where k = 9") == [(70, None)]


@pytest.mark.parametrize(
    ("statement", "sqlstate"),
    [
        ("copy t from '/etc/passwd'", "42501"),
        ("copy t to '/etc/passwd'", "42501"),
        ("copy t to 'LAKE/../x.csv'", "42501"),
        ("copy t from 'LAKE/none.csv'", "58P01"),
        ("copy t to 'LAKE/no/such.csv'", "58P01"),
        ("copy t to 'x.csv'", "42602"),
        ("copy t to 'LAKE/x' (format parquet, delimiter ',')", "0A000"),
        ("copy t to 'LAKE/x' (format parquet, compression lzo)", "22023"),
        ("copy t to 'LAKE/x' (format parquet, file_size 'much')", "22023"),
        ("copy t to 'LAKE/x' (format parquet, partition_by (nope))", "42703"),
        ("copy t to 'LAKE/x' (format parquet, partition_by (id))", "22023"),
        ("copy t from 'LAKE/x' (format parquet, partition_by (id))", "0A000"),
        ("copy t to stdout (format parquet, partition_by (id))", "0A000"),
        ("copy (select 1 as a, 2 as a) to 'LAKE/x' (format parquet)", "22023"),
    ],
)
async def test_bad_copies(lake: Path, reader: Client, statement: str, sqlstate: str) -> None:
    await reader.run("create table t (id int)")
    assert (await reader.error(statement.replace("LAKE", str(lake)))).sqlstate == sqlstate
    assert _files(lake) == set()


async def test_only_roles_that_may_use_files_do(lake: Path, reader: Client) -> None:
    await reader.run("create role clerk; create table t (id int); alter table t owner to clerk; set role clerk")
    with gzip.open(lake / "a.csv.gz", "wt") as file:
        file.write("1\n")
    load, unload = f"copy t from '{lake}/a.csv.gz'", f"copy t to '{lake}/b.csv'"
    assert (await reader.error(load)).sqlstate == (await reader.error(unload)).sqlstate == "42501"
    await reader.run("reset role; grant pg_read_server_files, pg_write_server_files to clerk; set role clerk")
    assert [await reader.tag(load), await reader.tag(unload)] == ["COPY 1", "COPY 1"]
    assert (lake / "b.csv").read_text() == "1\n"


@pytest.mark.parametrize("name", ["none.csv", "none.parquet", "none.json"])
async def test_a_table_without_rows_is_a_file_without(lake: Path, reader: Client, name: str) -> None:
    await reader.run("create table none (a int, b text)")
    options = "(format csv, header)" if name.endswith("csv") else ""
    assert await reader.tag(f"copy none to '{lake / name}' {options}") == "COPY 0"
    assert (lake / name).exists()
    assert await reader.tag(f"copy none from '{lake / name}' {options}") == "COPY 0"
