"""CREATE TABLE with load_from and definition_from."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.adapter.harness import Client


@pytest.fixture
def sales(lake: Path) -> Path:
    """A folder of two files, of one day each."""
    for day in ("2024-01-01", "2024-01-02"):
        (lake / f"sales/day={day}").mkdir(parents=True)
        pq.write_table(
            pa.table({"id": pa.array([1, 2], pa.int32()), "v": ["a", None]}), lake / f"sales/day={day}/x.parquet"
        )
    return lake / "sales"


async def _columns(reader: Client) -> list[tuple[str, str]]:
    return await reader.rows(
        "select attname, format_type(atttypid, atttypmod) from pg_attribute"
        " where attrelid = 't'::regclass and attnum > 0 order by attnum"
    )


async def test_a_table_takes_the_columns_and_rows_of_files(sales: Path, reader: Client) -> None:
    assert await reader.tag(f"create table t () with (load_from = '{sales}', format = 'parquet')") == "CREATE TABLE"
    assert await _columns(reader) == [("id", "integer"), ("v", "text"), ("day", "date")]
    assert await reader.rows("select day::text, count(v) from t group by day order by day") == [
        ("2024-01-01", 1),
        ("2024-01-02", 1),
    ]


async def test_a_table_takes_the_columns_alone(sales: Path, reader: Client) -> None:
    await reader.run(f"create table t () with (definition_from = '{sales}/*/x.parquet')")
    assert await _columns(reader) == [("id", "integer"), ("v", "text"), ("day", "date")]
    assert await reader.value("select count(*) from t") == 0
    await reader.run(f"create table if not exists t () with (load_from = '{sales}/*/x.parquet')")
    assert await reader.value("select count(*) from t") == 0


async def test_files_are_looked_at_anew_for_each_table(lake: Path, reader: Client) -> None:
    (lake / "a.csv").write_text("a\n1\n")
    await reader.run(f"create table t () with (load_from = '{lake}/a.csv'); drop table t")
    (lake / "a.csv").write_text("b,c\n1,2\n")
    await reader.run(f"create table t () with (load_from = '{lake}/a.csv')")
    assert await _columns(reader) == [("b", "bigint"), ("c", "bigint")]


@pytest.mark.parametrize(
    ("statement", "sqlstate"),
    [
        ("create table t () with (load_from = 'LAKE/none.parquet')", "58P01"),
        ("create table t () with (load_from = 'LAKE/what')", "22023"),
        ("create table t () with (load_from = 'LAKE/a.csv', definition_from = 'LAKE/a.csv')", "22023"),
        ("create table t (a int) with (load_from = 'LAKE/a.csv')", "0A000"),
        ("create table t () with (load_from = '/etc/passwd', format = csv)", "42501"),
        ("create role clerk; grant pg_read_server_files to clerk; revoke pg_read_server_files from clerk;"
         " set role clerk; create table t () with (load_from = 'LAKE/a.csv')",
         "42501"),
    ],
)  # fmt: skip
async def test_what_makes_no_table(lake: Path, reader: Client, statement: str, sqlstate: str) -> None:
    (lake / "a.csv").write_text("a\n1\n")
    assert (await reader.error(statement.replace("LAKE", str(lake)))).sqlstate == sqlstate
    await reader.run("reset role")
    assert await reader.value("select to_regclass('t') is null") is True
