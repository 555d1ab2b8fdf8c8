"""read_parquet, read_csv and read_json in FROM, on the local engine."""

from __future__ import annotations

import gzip
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adapter.lake.file_rows import FileRows
from adapter.lake.file_tables import file_table
from planner.ir.file_rows import FileTable
from planner.types.types import INT4, TIME, SqlType
from storage.lake.formats import FileFormat
from storage.lake.places import Places
from storage.lake.tables import LakeTables
from tests.adapter.harness import Client

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "name": ["a", None, "c"],
        "price": pa.array([Decimal("1.50"), None, Decimal("3.25")], pa.decimal128(10, 2)),
        "tags": pa.array([[1, 2], None, []], pa.list_(pa.int32())),
    }
)


def _folder(lake: Path, name: str) -> Path:
    folder = lake / name
    folder.mkdir(parents=True)
    return folder


async def test_a_file_is_a_table_of_its_columns(lake: Path, reader: Client) -> None:
    pq.write_table(ROWS, lake / "a.parquet")
    rows = await reader.rows(f"SELECT * FROM read_parquet('{lake}/a.parquet') WHERE id <> 2 ORDER BY id")
    assert rows == [(1, "a", Decimal("1.50"), [1, 2]), (3, "c", Decimal("3.25"), [])]
    await reader.run(f"CREATE TABLE t AS SELECT * FROM read_parquet('{lake}/a.parquet')")
    types = await reader.rows(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum"
    )
    assert types == [("id", "bigint"), ("name", "text"), ("price", "numeric(10,2)"), ("tags", "integer[]")]


async def test_files_that_differ_in_width_and_columns_are_one_table(lake: Path, reader: Client) -> None:
    pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), lake / "a.parquet")
    pq.write_table(pa.table({"id": pa.array([2**40], pa.int64()), "more": ["x"]}), lake / "b.parquet")
    rows = await reader.rows(f"SELECT id, more FROM read_parquet('{lake}/*.parquet') ORDER BY id")
    assert rows == [(1, None), (2**40, "x")]


async def test_folders_are_columns_and_prune(lake: Path, reader: Client) -> None:
    for day in ("2024-01-01", "2024-01-02"):
        pq.write_table(pa.table({"id": [1]}), _folder(lake, f"sales/day={day}") / "x.parquet")
    (lake / "sales/day=2024-01-02/x.parquet").write_bytes(
        _damaged_pages((lake / "sales/day=2024-01-02/x.parquet").read_bytes())
    )
    text = f"SELECT id, day::text FROM read_parquet('{lake}/sales')"
    assert await reader.rows(f"{text} WHERE day = '2024-01-01'") == [(1, "2024-01-01")]
    error = await reader.error(text)
    assert (error.sqlstate, "day=2024-01-02/x.parquet" in error.message) == ("22P04", True)


def _damaged_pages(data: bytes) -> bytes:
    """A Parquet file whose footer is whole and whose first page is not."""
    return data[:4] + b"\xff" * 30 + data[34:]


async def test_text_files_packed_or_not_are_read_by_their_options(lake: Path, reader: Client) -> None:
    (lake / "a.csv").write_text('id;name\n1;"x;y"\n2;\n3;""\n')
    with gzip.open(lake / "b.csv.gz", "wt") as file:
        file.write("id;name\n4;z\n")
    rows = await reader.rows(
        f"SELECT id, name FROM read_csv(ARRAY['{lake}/a.csv', '{lake}/b.csv.gz'], delimiter => ';') ORDER BY id"
    )
    assert rows == [(1, "x;y"), (2, None), (3, ""), (4, "z")]
    with pa.CompressedOutputStream(str(lake / "c.json.zst"), "zstd") as packed:
        packed.write(b'{"id": 1, "on": true}\n{"id": 2, "x": 1.5}\n')
    rows = await reader.rows(f"SELECT * FROM read_json('{lake}/c.json.zst') ORDER BY id")
    assert rows == [(1, True, None), (2, None, 1.5)]


async def test_files_join_tables_and_fill_them(lake: Path, reader: Client) -> None:
    pq.write_table(ROWS, lake / "a.parquet")
    await reader.run("CREATE TABLE t (id bigint PRIMARY KEY, name text)")
    assert await reader.tag(f"INSERT INTO t SELECT id, name FROM read_parquet('{lake}/a.parquet')") == "INSERT 0 3"
    found = f"read_parquet('{lake}/a.parquet') f JOIN t USING (id)"
    assert await reader.value(f"SELECT sum(id) FROM {found}") == 6
    assert await reader.tag(f"DELETE FROM t USING read_parquet('{lake}/a.parquet') f WHERE f.id = t.id") == "DELETE 3"


async def test_a_prepared_statement_reads_the_files_of_each_execution(lake: Path, reader: Client) -> None:
    pq.write_table(ROWS, lake / "a.parquet")
    await reader.run(f"PREPARE p AS SELECT count(*) FROM read_parquet('{lake}/*.parquet')")
    assert await reader.value("EXECUTE p") == 3
    pq.write_table(ROWS, lake / "b.parquet")
    assert await reader.value("EXECUTE p") == 6


@pytest.mark.parametrize(
    ("call", "sqlstate", "said"),
    [
        ("read_parquet('LAKE/none.parquet')", "58P01", 'no files match "LAKE/none.parquet"'),
        ("read_parquet('LAKE/text.parquet')", "22P04", 'could not read file "LAKE/text.parquet"'),
        ("read_parquet('LAKE/cut.parquet')", "22P04", 'could not read file "LAKE/cut.parquet"'),
        ("read_parquet('LAKE/mixed/*')", "42804", 'column "id" of file "LAKE/mixed/b.parquet" has type string'),
        ("read_parquet('LAKE/case/*')", "42804", 'column "ID" of file "LAKE/case/b.parquet" differs only in case'),
        ("read_csv('LAKE/latin.csv')", "22P04", 'could not read file "LAKE/latin.csv": column "v" is not in UTF-8'),
        ("read_csv('LAKE/open.csv')", "22P04", 'could not read file "LAKE/open.csv": unterminated quoted value'),
        ("read_csv('LAKE/open.csv.gz')", "22P04", 'could not read file "LAKE/open.csv.gz": unterminated quoted value'),
        ("read_csv('LAKE/even.csv')", "22P04", 'could not read file "LAKE/even.csv": unterminated quoted value'),
        ("read_csv('LAKE/open.csv', escape => '!')", "22P04", 'file "LAKE/open.csv": unterminated quoted value'),
        ("read_csv('LAKE/nameless.csv')", "22P04", 'column 1 of file "LAKE/nameless.csv" has no name'),
        ("read_parquet('LAKE/nameless.parquet')", "22P04", 'column 2 of file "LAKE/nameless.parquet" has no name'),
        ("read_csv('LAKE/cut.csv.gz')", "22P04", 'could not read file "LAKE/cut.csv.gz": Truncated compressed stream'),
        ("read_parquet('LAKE/../other.parquet')", "42501", "permission denied for path"),
        ("read_parquet('LAKE/link.parquet')", "42501", "permission denied for path"),
        ("read_parquet('/etc/passwd')", "42501", 'permission denied for path "/etc/passwd"'),
        ("read_parquet('a.parquet')", "42602", 'relative path not allowed: "a.parquet"'),
        ("read_parquet('LAKE/a.parquet', few => 1)", "42601", 'option "few" not recognized'),
        (
            "read_csv('LAKE/a.csv', delimiter => ';;')",
            "22023",
            'option "delimiter" must be a single one-byte character',
        ),
        ("read_csv('LAKE/a.csv', quote => ',')", "22023", 'options "delimiter" and "quote" must be different'),
        ("read_parquet('LAKE/whole.parquet') t(a int)", "42601", "a column definition list is redundant for"),
        ("read_csv(current_user)", "0A000", "the files of read_csv must be constants"),
    ],
)
async def test_what_cannot_be_read_is_named(lake: Path, reader: Client, call: str, sqlstate: str, said: str) -> None:
    pq.write_table(ROWS, lake / "whole.parquet")
    (lake / "text.parquet").write_text("not Parquet at all")
    (lake / "latin.csv").write_bytes(b"id,v\n1,caf\xe9\n")
    unterminated = b'id,v\n1,"a""b"\n2,"abc\n3,d\n'
    (lake / "open.csv").write_bytes(unterminated)
    (lake / "even.csv").write_bytes(b'id,v\n1,5" pipe\n2,"abc\n3,d\n')
    (lake / "nameless.csv").write_bytes(b",v\n0,x\n")
    pq.write_table(pa.table([[1], [2]], names=["id", ""]), lake / "nameless.parquet")
    (lake / "open.csv.gz").write_bytes(gzip.compress(unterminated))
    (lake / "cut.csv.gz").write_bytes(gzip.compress(unterminated + bytes(range(256)))[:-100])
    (lake / "cut.parquet").write_bytes((lake / "whole.parquet").read_bytes()[:200])
    (lake / "link.parquet").symlink_to("/etc/passwd")
    for name, column in (("mixed", "id"), ("case", "ID")):
        folder = _folder(lake, name)
        pq.write_table(pa.table({"id": [1]}), folder / "a.parquet")
        pq.write_table(pa.table({column: ["x"] if column == "id" else [1]}), folder / "b.parquet")
    error = await reader.error(f"SELECT * FROM {call.replace('LAKE', str(lake))}")
    assert error.sqlstate == sqlstate
    assert said.replace("LAKE", str(lake)) in error.message


async def test_quotes_inside_of_csv_values_are_themselves(lake: Path, reader: Client) -> None:
    """An odd number of quotes is no value that does not end; one that ends the file is closed."""
    (lake / "inches.csv").write_bytes(b'id,v\n1,5" pipe\n2,"a""b"\n3,"c"')
    found = f"read_csv('{lake}/inches.csv')"
    assert await reader.rows(f"SELECT v FROM {found} ORDER BY id") == [('5" pipe',), ('a"b',), ("c",)]


async def test_columns_that_engines_have_not_as_such_are_compared(lake: Path, reader: Client) -> None:
    held = {
        "raw": pa.array([b"ab", b"cd", None], pa.binary(2)),
        "half": pa.array([1.5, -2, None], pa.float16()),
        "halves": pa.array([[1.5], [], None], pa.list_(pa.float16())),
        "pair": pa.array([[1, 2], [3, 4], None], pa.list_(pa.int32(), 2)),
    }
    pq.write_table(pa.table(held), lake / "a.parquet")
    found = f"read_parquet('{lake}/a.parquet')"
    assert await reader.rows(f"SELECT * FROM {found} WHERE raw = 'ab' AND half > 1 AND pair[2] = 2") == [
        (b"ab", 1.5, [1.5], [1, 2])
    ]
    assert await reader.value(f"SELECT count(*) FROM {found} WHERE raw > 'ab' OR half IS NULL OR pair = '{{3,4}}'") == 2


async def test_only_roles_that_may_read_files_do(lake: Path, reader: Client) -> None:
    pq.write_table(ROWS, lake / "a.parquet")
    text = f"SELECT count(*) FROM read_parquet('{lake}/a.parquet')"
    await reader.run("CREATE ROLE clerk; SET ROLE clerk")
    assert (await reader.error(text)).sqlstate == "42501"
    await reader.run("RESET ROLE; GRANT pg_read_server_files TO clerk; SET ROLE clerk")
    assert await reader.value(text) == 3


async def test_a_view_reads_no_files(lake: Path, reader: Client) -> None:
    pq.write_table(ROWS, lake / "a.parquet")
    error = await reader.error(f"CREATE VIEW v AS SELECT * FROM read_parquet('{lake}/a.parquet')")
    assert (error.sqlstate, error.message) == ("0A000", "read_parquet cannot be used in a stored definition")


async def test_texts_with_zero_bytes_are_refused(lake: Path, reader: Client) -> None:
    pq.write_table(pa.table({"id": [1, 2], "t": ["a", "b\0c"], "l": [["x"], None]}), lake / "a.parquet")
    (lake / "b.csv").write_bytes(b"id,t\n1,b\0c\n")
    (lake / "c.json").write_bytes(b'{"id": 1, "t": ["b\\u0000c"]}\n')
    for name, read in (("a.parquet", "parquet"), ("b.csv", "csv"), ("c.json", "json")):
        error = await reader.error(f"CREATE TABLE made AS SELECT id, t FROM read_{read}('{lake}/{name}')")
        assert (error.sqlstate, error.where) == ("22021", f'file "{lake}/{name}"')
    assert await reader.rows(f"SELECT t, l FROM read_parquet('{lake}/a.parquet') WHERE id = 1") == [("a", ["x"])]


async def test_copy_from_a_folder_of_another_format_says_which(lake: Path, reader: Client) -> None:
    await reader.run("CREATE TABLE t (id bigint)")
    pq.write_table(pa.table({"id": [1]}), _folder(lake, "rows") / "a.parquet")
    error = await reader.error(f"COPY t FROM '{lake}/rows'")
    assert (error.sqlstate, error.hint) == ("58P01", "There are Parquet files: say (FORMAT parquet).")


def test_spark_reads_parquet_files_itself_however_arrow_lays_out_their_texts(lake: Path) -> None:
    """Nothing is copied for it, which would take as long as the load."""
    texts = pa.array(["a", "b", "a", None])
    for name, laid_out in (
        ("plain", texts),
        ("view", texts.cast(pa.string_view())),
        ("large", texts.cast(pa.large_string())),
        ("dictionary", texts.dictionary_encode()),
        ("bytes", pa.array([b"a", None, b"", b"b"]).cast(pa.binary_view())),
        ("list", pa.array([["a"], None, [], ["b"]], pa.large_list(pa.string()))),
    ):
        pq.write_table(pa.table({"id": [1, 2, 3, 4], "v": laid_out}), lake / f"{name}.parquet")
        table = LakeTables(Places((lake,))).table((f"{lake}/{name}.parquet",), FileFormat(name="parquet"))
        assert FileRows(file_table(table)).native, name
    pq.write_table(pa.table({"at": pa.array([1], pa.timestamp("ns"))}), lake / "ns.parquet")
    table = LakeTables(Places((lake,))).table((f"{lake}/ns.parquet",), FileFormat(name="parquet"))
    assert not FileRows(file_table(table)).native


async def test_lines_of_csv_without_text_are_rows_where_there_is_one_column(lake: Path, reader: Client) -> None:
    """As COPY writes and reads them."""
    await reader.run(f"COPY (SELECT NULL::int AS a UNION ALL SELECT 1) TO '{lake}/one.csv' (FORMAT csv, HEADER)")
    assert await reader.rows(f"SELECT a FROM read_csv('{lake}/one.csv') ORDER BY a") == [(1,), (None,)]
    (lake / "two.csv").write_text("a,b\n1,2\n\n3,4\n")
    assert await reader.rows(f"SELECT a FROM read_csv('{lake}/two.csv') ORDER BY a") == [(1,), (3,)]
    (lake / "late.csv").write_text("\na\n1\n")
    assert await reader.rows(f"SELECT a FROM read_csv('{lake}/late.csv')") == [(1,)]


async def test_a_header_is_one_without_the_end_of_its_line(lake: Path, reader: Client) -> None:
    for number, text in enumerate(("a,b", "a,b\n", '"a","b"')):
        (lake / f"{number}.csv").write_text(text)
        assert await reader.rows(f"SELECT a, b FROM read_csv('{lake}/{number}.csv')") == []
    with gzip.open(lake / "x.csv.gz", "wt") as file:
        file.write("a,b\n1,2")
    assert await reader.rows(f"SELECT * FROM read_csv('{lake}/x.csv.gz')") == [(1, 2)]


async def test_names_of_columns_that_are_too_long_are_cut_as_in_statements(lake: Path, reader: Client) -> None:
    name = "é" + "x" * 70
    pq.write_table(pa.table({name: [7]}), lake / "a.parquet")
    assert await reader.value(f"SELECT \"{name}\" FROM read_parquet('{lake}/a.parquet')") == 7
    await reader.run(f"CREATE SERVER s FOREIGN DATA WRAPPER lake OPTIONS (path '{lake}')")
    await reader.run("CREATE FOREIGN TABLE t () SERVER s OPTIONS (path 'a.parquet')")
    assert await reader.value(f'SELECT "{name}" FROM t') == 7
    assert await reader.value(
        "SELECT attfdwoptions[1] FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum = 1"
    ) == (f"column_name={name}")


async def test_a_table_of_files_has_no_columns_called_as_those_of_the_system(lake: Path, reader: Client) -> None:
    pq.write_table(pa.table({"ctid": [7]}), lake / "a.parquet")
    error = await reader.error(f"CREATE TABLE t () WITH (load_from = '{lake}/a.parquet')")
    assert (error.sqlstate, error.message) == ("42701", 'column name "ctid" conflicts with a system column name')


def test_what_is_copied_for_spark_is_what_the_local_engine_reads(lake: Path) -> None:
    """Times are rounded to microseconds; numbers stay what they are, since one that is out of range is an error only
    where it is asked for."""
    held = {"t": pa.array([1999, 86399999999999], pa.time64("ns")), "n": pa.array([1, 2**40], pa.int64())}
    pq.write_table(pa.table(held), lake / "a.parquet")
    declared = [pa.field("t", pa.time64("us")), pa.field("n", pa.int32())]
    table = LakeTables(Places((lake,))).table((f"{lake}/a.parquet",), FileFormat(name="parquet"), declared=declared)
    columns = (("t", SqlType(TIME)), ("n", SqlType(INT4)))
    (batch,) = FileRows(FileTable(columns=columns, bytes=table.bytes, content=table)).batches()
    assert batch["t"].cast(pa.int64()).to_pylist() == [2, 86400000000]
    assert batch["n"].to_pylist() == [1, 2**40]
