"""Servers of foreign data, user mappings, foreign tables: who may what, what there is, what depends on what."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adapter.sessions.server import Server
from tests.adapter.harness import Client, connect, open_server
from tests.storage.store_servers import S3Server


@pytest.fixture
async def admin(lake: Path, reader: Client) -> Client:
    """A superuser's session with a server of foreign data over a part of the folder."""
    (lake / "open").mkdir()
    (lake / "closed").mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), lake / "open/a.parquet")
    pq.write_table(pa.table({"id": [3]}), lake / "closed/a.parquet")
    (lake / "open/way_out").symlink_to(lake / "closed")
    await reader.run(f"create server s foreign data wrapper lake options (path '{lake}/open')")
    return reader


@pytest.mark.parametrize(
    "path",
    ["../closed/a.parquet", "way_out/a.parquet", "x/../../closed/*.parquet", "../closed/**/*.parquet",
     "LAKE/closed/a.parquet", "file://LAKE/closed/a.parquet", "/etc/*.parquet", "LAKE/open_not/a.parquet"],
)  # fmt: skip
async def test_nothing_is_read_that_is_not_below_the_path(lake: Path, admin: Client, path: str) -> None:
    (lake / "open_not").mkdir()
    pq.write_table(pa.table({"id": [3]}), lake / "open_not/a.parquet")
    path = path.replace("LAKE", str(lake))
    for columns in ("", "id bigint"):
        error = await admin.error(f"create foreign table t ({columns}) server s options (path '{path}')")
        assert error.sqlstate == "42501"


async def test_a_link_that_is_laid_afterwards_leads_nowhere(lake: Path, admin: Client) -> None:
    (lake / "open/x").mkdir()
    await admin.run("create foreign table t (id bigint) server s options (path 'x', format 'parquet')")
    (lake / "open/x").rmdir()
    (lake / "open/x").symlink_to(lake / "closed")
    assert (await admin.error("select * from t")).sqlstate == "42501"


async def test_a_server_is_below_what_the_operator_allows(lake: Path, admin: Client) -> None:
    for path in ("/etc", f"{lake}/..", f"{lake}/../lake2"):
        error = await admin.error(f"create server o foreign data wrapper lake options (path '{path}')")
        assert error.sqlstate == "42501"
    assert (await admin.error("alter server s options (set path '/')")).sqlstate == "42501"
    assert (await admin.error("create server o foreign data wrapper lake options (path 'open')")).sqlstate == "42602"


async def test_usage_makes_tables_and_select_reads_them(lake: Path, admin: Client) -> None:
    await admin.run("create role maker; create role looker; grant create on schema public to maker")
    make = "set role maker; create foreign table t () server s options (path '*.parquet')"
    error = await admin.error(make)
    assert (error.sqlstate, error.message) == ("42501", "permission denied for foreign server s")
    await admin.run("reset role; grant usage on foreign server s to maker")
    await admin.run(make)
    assert await admin.value("select sum(id) from t") == 3
    error = await admin.error("set role looker; select * from t")
    assert error.message == "permission denied for foreign table t"
    await admin.run("set role maker; grant select on t to looker; set role looker")
    assert await admin.value("select sum(id) from t") == 3
    make_server = f"create server o foreign data wrapper lake options (path '{lake}/open')"
    assert (await admin.error(make_server)).message == "permission denied for foreign-data wrapper lake"
    await admin.run("reset role; grant usage on foreign data wrapper lake to looker; set role looker")
    assert (await admin.error(make_server)).sqlstate == "42501"
    await admin.run("reset role; grant pg_read_server_files to looker; set role looker")
    await admin.run(make_server)
    assert await admin.value("select has_server_privilege('maker', 's', 'usage')") is True
    assert await admin.value("select has_server_privilege('maker', 'o', 'usage')") is False
    assert await admin.value("select has_foreign_data_wrapper_privilege('lake', 'usage')") is True


async def test_secrets_are_shown_to_those_to_whom_postgresql_shows_them(admin: Client) -> None:
    await admin.run(
        "create role a; create role b; grant usage on foreign server s to a;"
        "create user mapping for a server s options (access_key_id 'i', secret_access_key 'secret');"
        "create user mapping for public server s options (access_key_id 'p')"
    )
    shown = "select usename, umoptions from pg_user_mappings order by 1"
    all_of_them = [("a", ["access_key_id=i", "secret_access_key=secret"]), ("public", ["access_key_id=p"])]
    assert await admin.rows(shown) == all_of_them
    options = (
        "select authorization_identifier, option_name, option_value from information_schema.user_mapping_options"
        " where foreign_server_name = 's' and foreign_server_catalog = current_database() order by 1, 2"
    )
    told = [("a", "access_key_id", "i"), ("a", "secret_access_key", "secret"), ("PUBLIC", "access_key_id", "p")]
    assert sorted(await admin.rows(options)) == sorted(told)
    await admin.run("create role c in role a; set role c")  # A member is not the role itself.
    assert [value for *_, value in await admin.rows(options)] == [None, None, None]
    await admin.run("set role a")
    assert sorted(await admin.rows(options), key=str) == sorted([*told[:2], ("PUBLIC", "access_key_id", None)], key=str)
    assert await admin.rows(shown) == [all_of_them[0], ("public", None)]
    await admin.run("set role b")
    assert await admin.rows(shown) == [("a", None), ("public", None)]
    assert (await admin.error("select * from pg_user_mapping")).sqlstate == "42501"
    for change in ("create user mapping for b server s", "alter user mapping for a server s options (drop x)"):
        assert (await admin.error(change)).sqlstate in ("42501", "42704")
    assert (await admin.error("drop user mapping for a server s")).message == "must be owner of foreign server s"
    await admin.run("reset role")
    error = await admin.error("revoke usage on foreign server s from a; drop role a")
    assert error.detail == "owner of user mapping for a on server s"
    await admin.run("revoke usage on foreign server s from a; drop owned by a; drop role a")
    assert await admin.rows(shown) == [all_of_them[1]]


async def test_dependencies(admin: Client) -> None:
    await admin.run(
        "create foreign table t () server s options (path '*.parquet'); create view v as select * from t;"
        "create user mapping for public server s"
    )
    error = await admin.error("drop server s")
    assert error.sqlstate == "2BP01"
    assert error.detail == (
        "user mapping for public on server s depends on server s\nforeign table t depends on server s\n"
        "view v depends on foreign table t"
    )
    assert (await admin.error("drop table t")).hint == "Use DROP FOREIGN TABLE to remove a foreign table."
    assert (await admin.error("drop foreign table t")).sqlstate == "2BP01"
    await admin.run("drop server s cascade")
    assert await admin.value("select count(*) from pg_foreign_table") == 0
    assert await admin.value("select to_regclass('v') is null") is True
    await admin.run(
        "drop server if exists s; drop foreign table if exists t; drop user mapping if exists for a server s"
    )


@pytest.mark.parametrize(
    ("statement", "sqlstate", "message"),
    [
        ("create server s foreign data wrapper lake options (path 'x')", "42710", 'server "s" already exists'),
        ("create server o foreign data wrapper nope", "42704", 'foreign-data wrapper "nope" does not exist'),
        ("create server o foreign data wrapper lake", "22023", None),
        ("create server o foreign data wrapper lake options (path 'x', path 'y')", "42710",
         'option "path" provided more than once'),
        ("create server o foreign data wrapper lake options (pth 'x')", "HV00D", 'invalid option "pth"'),
        ("create user mapping for nobody server s", "42704", 'role "nobody" does not exist'),
        ("create user mapping for public server o", "42704", 'server "o" does not exist'),
        ("create user mapping for public server s options (path 'x')", "HV00D", 'invalid option "path"'),
        ("alter user mapping for public server s options (add access_key_id 'x')", "42704",
         'user mapping for "public" does not exist for server "s"'),
        ("alter server s options (set region 'x')", "42704", 'option "region" not found'),
        ("alter server s options (add path 'x')", "42710", 'option "path" provided more than once'),
        ("alter server s options (drop path)", "22023", None),
        ("create foreign table t () server o options (path 'x')", "42704", 'server "o" does not exist'),
        ("create foreign table t () server s", "22023", None),
        ("create foreign table t () server s options (path 'x')", "22023", None),
        ("create foreign table t () server s options (path 'x', format 'word')", "22023", None),
        ("create foreign table t () server s options (path 'x.parquet', delimiter ';')", "22023", None),
        ("create foreign table t () server s options (path 'x.csv', delimiter ';;')", "22023", None),
        ("create foreign table t (id int primary key) server s options (path 'x.csv')", "0A000",
         "primary key constraints are not supported on foreign tables"),
        ("create foreign table t (id int default 1) server s options (path 'x.csv')", "0A000", None),
        ("create foreign table t (id int options (nope 'x')) server s options (path 'x.csv')", "HV00D", None),
        ("create foreign data wrapper o", "0A000", None),
        ("import foreign schema x from server s into public", "3F000",
         'folder "x" of foreign server "s" has no files'),
        ('import foreign schema ".." from server s into public', "42501", None),
        ('import foreign schema "." from server s into nowhere', "3F000", 'schema "nowhere" does not exist'),
        ('import foreign schema "." from server s into public options (path \'x\')', "HV00D", None),
        ("insert into f values (1)", "0A000", 'cannot insert into foreign table "f"'),
        ("insert into f values (1) returning id", "0A000", None),
        ("insert into f values (1) on conflict do nothing", "0A000", None),
        ("with a as (insert into f values (1)) select 1", "0A000", None),
        ("create view v as select * from f; insert into v values (1)", "55000", 'cannot insert into view "v"'),
        ("update f set id = 1", "0A000", 'cannot update foreign table "f"'),
        ("delete from f", "0A000", 'cannot delete from foreign table "f"'),
        ("merge into f using f g on true when matched then delete", "0A000",
         'cannot execute MERGE on relation "f"'),
        ("truncate f", "0A000", 'cannot truncate foreign table "f"'),
        ("copy f from stdin", "0A000", 'cannot insert into foreign table "f"'),
        ("copy f to stdout", "42809", 'cannot copy from foreign table "f"'),
        ("create index on f (id)", "42809", None),
        ("alter table f add primary key (id)", "42809", None),
        ("alter table f enable row level security", "42809", None),
        ("create table o (id bigint references f)", "42809", 'referenced relation "f" is not a table'),
        ("create materialized view m with (refresh = 'on commit') as select * from f", "0A000", None),
        ("select * from f tablesample system (10)", "0A000", None),
        ("subscribe to (select * from f)", "0A000", None),
        ("call tidegate.publish('f')", "42809", None),
        ("alter foreign table f alter id type int using 1", "0A000", None),
        ("alter table o options (add path 'x')", "42P01", None),
    ],
)  # fmt: skip
async def test_what_is_refused(admin: Client, statement: str, sqlstate: str, message: str | None) -> None:
    await admin.run("create foreign table f () server s options (path '*.parquet')")
    error = await admin.error(statement)
    assert (error.sqlstate, error.message) == (sqlstate, message or error.message)
    assert await admin.value("select sum(id) from f") == 3


async def test_catalogs(lake: Path, admin: Client) -> None:
    await admin.run(
        "create foreign table t (n bigint options (column_name 'id') not null) server s options (path '*.parquet');"
        "comment on server s is 'x'; comment on foreign table t is 'y'; alter server s version '2'"
    )
    assert await admin.rows(
        "select srvname, fdwname, srvversion, srvoptions, obj_description(s.oid, 'pg_foreign_server')"
        " from pg_foreign_server s join pg_foreign_data_wrapper w on w.oid = srvfdw"
    ) == [("s", "lake", "2", [f"path={lake}/open"], "x")]
    assert await admin.rows(
        "select relkind, ftoptions, obj_description(c.oid, 'pg_class'), attfdwoptions from pg_class c"
        " join pg_foreign_table on ftrelid = c.oid join pg_attribute on attrelid = c.oid and attnum = 1"
    ) == [("f", ["path=*.parquet"], "y", ["column_name=id"])]
    assert await admin.rows(
        "select foreign_table_name, foreign_server_name from information_schema.foreign_tables"
    ) == [("t", "s")]
    assert await admin.rows("select table_type from information_schema.tables where table_name = 't'") == [("FOREIGN",)]
    assert await admin.rows("select column_name from information_schema.columns where table_name = 't'") == [("n",)]
    await admin.run(
        "alter server s rename to r; alter foreign table t rename n to m; alter foreign table t rename to u"
    )
    assert await admin.rows("select m from u order by m") == [(1,), (2,)]
    await admin.run("create role keeper superuser; alter server r owner to keeper")
    await admin.run("alter foreign table u owner to keeper")
    assert await admin.value("select srvowner::regrole::text from pg_foreign_server") == "keeper"


async def test_ddl_is_undone_with_its_transaction(admin: Client) -> None:
    await admin.run(
        "begin; create user mapping for public server s; create foreign table t () server s options (path '*.parquet')"
    )
    assert await admin.value("select sum(id) from t") == 3
    await admin.run("rollback")
    assert await admin.value("select count(*) from pg_user_mappings") == 0
    assert await admin.value("select to_regclass('t') is null") is True


# ---------------------------------------------------------------- object stores


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """An S3 server."""
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture
async def stranger() -> AsyncIterator[Server]:
    """A server that has no keys of its own."""
    async with open_server() as server:
        yield server


async def test_user_mappings_open_an_object_store(s3: S3Server, stranger: Server) -> None:
    bucket = s3.new_bucket()
    options = {
        "endpoint": s3.endpoint, "region": "us-east-1", "access_key_id": "test", "secret_access_key": "test",
    }  # fmt: skip
    async with open_server(blob_options=options) as writing:
        writer = await connect(writing)
        for place in ("in", "out"):
            await writer.run(f"copy (select 1 as id, '{place}' as v) to 's3://{bucket}/{place}/k=1/a.parquet'")
    client = await connect(stranger)
    await client.run(
        f"create server s foreign data wrapper lake options (path 's3://{bucket}/in', endpoint '{s3.endpoint}',"
        " region 'us-east-1');"
        "create user mapping for public server s options (access_key_id 'test', secret_access_key 'test');"
        "create foreign table t () server s options (path '', format 'parquet')"
    )
    assert await client.rows("select * from t") == [(1, "in", 1)]
    await client.run("insert into t select g, repeat(md5(g::text), 9), 1 + g % 2 from generate_series(2, 40000) g")
    assert await client.rows("select k, count(*), sum(id) from t group by k order by k") == [
        (1, 20001, 400020001), (2, 19999, 399999999),
    ]  # fmt: skip
    for path in (f"s3://{bucket}/out/k=1/a.parquet", "../out/k=1/a.parquet", f"s3://{bucket}/in/../out/k=1/a.parquet"):
        error = await client.error(f"create foreign table o (id int) server s options (path '{path}')")
        assert error.sqlstate == "42501"
    await client.run(
        f"create server nowhere foreign data wrapper lake options (path 's3://no-such-bucket',"
        f" endpoint '{s3.endpoint}', region 'us-east-1', skip_signature 'true');"
        "create server silent foreign data wrapper lake options (path 's3://b', endpoint 'http://127.0.0.1:9',"
        " region 'us-east-1', skip_signature 'true')"
    )
    for server, path, sqlstate, said in (
        ("nowhere", "a.parquet", "58P01", "s3://no-such-bucket/a.parquet"),
        ("nowhere", "*.parquet", "58P01", 'the bucket of "s3://no-such-bucket/*.parquet" does not exist'),
        ("silent", "a.parquet", "08001", "s3://b/a.parquet"),
    ):
        await client.run("drop foreign table if exists f")
        await client.run(f"create foreign table f (id int) server {server} options (path '{path}')")
        error = await client.error("select * from f")
        assert (error.sqlstate, said in error.message, "\n" in error.message) == (sqlstate, True, False), error.message


async def test_a_store_of_others_is_asked_by_nobody(
    s3: S3Server, stranger: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "operator")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "operator")
    client = await connect(stranger)
    await client.run(
        f"create server s foreign data wrapper lake options (path 's3://{s3.new_bucket()}', endpoint '{s3.endpoint}',"
        " region 'us-east-1'); create foreign table t (id int) server s options (path 'a.parquet')"
    )
    error = await client.error("select * from t")
    assert (error.sqlstate, "there are no credentials" in error.message) == ("42501", True)
    assert error.hint == "Create a user mapping for the server, or set its option skip_signature to true."


async def test_lock_table_is_for_tables(admin: Client) -> None:
    await admin.run("create foreign table f () server s options (path '*.parquet')")
    assert (await admin.error("begin; lock table f")).message == 'cannot lock relation "f"'


async def test_folders_and_files_are_imported_as_tables(lake: Path, admin: Client) -> None:
    for name in ("all/one/k=1", "all/one/k=2", "all/two"):
        (lake / "open" / name).mkdir(parents=True)
        pq.write_table(pa.table({"id": [1]}), lake / f"open/{name}/x.parquet")
    (lake / "open/all/Three.csv").write_text("a;b\n1;2\n")
    imported = "import foreign schema \"all\" {} from server s into public options (hive_partitioning 'true')"
    await admin.run(imported.format('except (two, "Three")'))
    assert await admin.rows("select relname from pg_class where relkind = 'f'") == [("one",)]
    assert await admin.rows("select sum(id), sum(k) from one") == [(2, 3)]
    assert (await admin.error(imported.format("limit to (one)"))).sqlstate == "42P07"
    await admin.run("drop foreign table one")
    await admin.run('import foreign schema "all" from server s into public')
    assert await admin.rows('select * from "Three"') == [("1;2",)]
    text = "select srvname, ftoptions from pg_foreign_table join pg_foreign_server s on s.oid = ftserver"
    assert await admin.rows(text) == [
        ("s", ["path=all/Three.csv", "format=csv"]), ("s", ["path=all/one", "format=parquet"]),
        ("s", ["path=all/two", "format=parquet"]),
    ]  # fmt: skip
    (lake / "open/all/two/y.csv").write_text("a\n1\n")
    await admin.run('drop foreign table one, two, "Three"')
    error = await admin.error('import foreign schema "all" from server s into public')
    assert (error.sqlstate, "all/two" in error.message) == ("42804", True)
    assert await admin.value("select count(*) from pg_foreign_table") == 0


async def test_explain_says_how_many_files_are_read(lake: Path, admin: Client) -> None:
    for day in (1, 2, 3):
        (lake / f"open/d/day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [day]}), lake / f"open/d/day={day}/x.parquet")
    (lake / "open/d/day=__HIVE_DEFAULT_PARTITION__").mkdir()
    pq.write_table(pa.table({"id": [4]}), lake / "open/d/day=__HIVE_DEFAULT_PARTITION__/x.parquet")
    await admin.run("create foreign table f (id bigint, day int) server s options (path 'd', format 'parquet')")
    for condition, read, ids in (
        ("day = 2", 1, [2]),
        ("day > 1 and day < 9", 2, [2, 3]),
        ("day in (1, 3, 7)", 2, [1, 3]),
        ("day is null", 1, [4]),
        ("day = 7", 0, []),
        ("day = 1 or day = 2", 2, [1, 2]),
        ("id = 2", 4, [2]),
        ("day + 0 = 2", 4, [2]),
    ):
        lines = [line for (line,) in await admin.rows(f"explain select id from f where {condition}")]
        assert f"Files of f: {read} of 4 read, {4 - read} pruned" in "\n".join(lines), (condition, lines)
        assert await admin.rows(f"select id from f where {condition} order by id") == [(id,) for id in ids]
    assert await admin.rows("select a.id, b.id from f a join f b on a.day = b.day where a.day = 2") == [(2, 2)]
    assert await admin.rows("select f.id from (values (1)) v(x) left join f on f.day = 2") == [(2,)]


async def test_nulls_of_csv_are_forced_as_by_copy(lake: Path, admin: Client) -> None:
    (lake / "open/f.csv").write_text('a,b,c,d\n1,"",,x\n2,,"",\n"3",n,"n","n"\n')
    await admin.run(
        "create foreign table f (a int, b text options (force_null 'true'), c text options (force_not_null 'true'),"
        " d text options (force_null 'true', force_not_null 'true')) server s options (path 'f.csv', header 'match')"
    )
    assert await admin.rows("select * from f order by a") == [
        (1, None, "", "x"),
        (2, None, "", ""),
        (3, "n", "n", "n"),
    ]
    await admin.run("alter foreign table f options (add null 'n')")
    assert await admin.rows("select * from f order by a") == [(1, "", "", "x"), (2, "", "", ""), (3, None, "n", None)]
    (lake / "open/g.csv").write_text('a,b\n1,""\n2,\n')
    await admin.run("create foreign table g (a int, b int options (force_null 'true')) server s options (path 'g.csv')")
    assert await admin.rows("select * from g order by a") == [(1, None), (2, None)]
    await admin.run("alter foreign table g alter b options (drop force_null, add force_not_null 'true')")
    assert (await admin.error("select * from g")).sqlstate == "22P02"
    for columns, message in (
        ("a int, x int", 'column name mismatch in header line field 2 of file "{}": got "b", expected "x"'),
        ("b int, a int", 'column name mismatch in header line field 1 of file "{}": got "a", expected "b"'),
        ("a int", 'wrong number of fields in header line of file "{}": got 2, expected 1'),
    ):
        await admin.run(f"create foreign table h ({columns}) server s options (path 'g.csv', header 'match')")
        error = await admin.error("select * from h")
        assert (error.sqlstate, error.message) == ("22P04", message.format(lake / "open/g.csv"))
        await admin.run("drop foreign table h")
    for options, of_table, sqlstate in (
        ("force_null 'maybe'", "path 'g.csv'", "42601"), ("force_null 'true'", "path 'g.parquet'", "22023"),
    ):  # fmt: skip
        text = f"create foreign table h (a int options ({options})) server s options ({of_table})"
        assert (await admin.error(text)).sqlstate == sqlstate


async def test_numbers_and_arrays_are_read_as_they_are_declared(lake: Path, admin: Client) -> None:
    numbers = {
        "n": pa.array([1, 2**40], pa.int64()),
        "d": pa.array([Decimal("1.5"), Decimal("99.5")], pa.decimal128(10, 1)),
        "w": pa.array([Decimal(7), Decimal(2**20)], pa.decimal128(20, 0)),
        "l": pa.array([[1], None], pa.list_(pa.int32())),
        "m": pa.array([[Decimal("1.50"), None], []], pa.list_(pa.decimal128(5, 2))),
    }
    (lake / "open/numbers").mkdir()
    pq.write_table(pa.table(numbers), lake / "open/numbers/a.parquet")
    options = "server s options (path 'numbers', format 'parquet')"
    await admin.run(f"create foreign table t (n int, d numeric(3, 1), w smallint, l bigint[], m numeric[]) {options}")
    first = "from (select *, row_number() over () as r from t) x where r = 1"
    assert await admin.rows(f"select d, l, m::text {first}") == [(Decimal("1.5"), [1], "{1.50,NULL}")]
    for column, said in (("n", "integer"), ("w", "smallint")):
        error = await admin.error(f"select {column} from t")
        assert (error.sqlstate, error.message) == ("22003", f"{said} out of range")
    await admin.run(f"create foreign table u () {options}")
    assert await admin.value("select count(*) from u where m = '{1.5,null}'") == 1
    await admin.run(f"create foreign table v (d numeric(10, 0)) {options}")
    assert (await admin.error("select d from v")).sqlstate == "42804"


async def test_nothing_is_written_that_does_not_go_with_the_files_that_are_there(lake: Path, admin: Client) -> None:
    (lake / "open/kept").mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), lake / "open/kept/a.parquet")
    options = "server s options (path 'kept', format 'parquet')"
    await admin.run(f"create foreign table t (id text) {options}; create foreign table u (id smallint) {options}")
    error = await admin.error("insert into t values ('x')")
    assert error.sqlstate == "42804"
    assert f'column "id" of file "{lake}/open/kept/a.parquet" has type int64' in error.message
    assert await admin.tag("insert into u values (3)") == "INSERT 0 1"
    assert await admin.value("select sum(id) from u") == 6
