"""What pg8000, ADBC, ConnectorX, polars and pandas see: `session.py URL FEATURE` prints it."""

import datetime as dt
import decimal
import io
import sys

import adbc_driver_postgresql.dbapi as adbc
import connectorx
import pandas as pd
import pg8000.dbapi
import pg8000.native
import polars as pl
import pyarrow as pa
import sqlalchemy as sa

URL = sys.argv[1]
HOST, PORT = URL.split("@")[1].split("/")[0].split(":")
DATABASE = URL.rsplit("/", 1)[1]
MANY = """
    CREATE TABLE IF NOT EXISTS many (
        i int, b bigint, s smallint, f float8, r real, n numeric(10,2), t text, v varchar(10), d date, ts timestamp,
        tz timestamptz, bo boolean, by bytea, u uuid, j json, jb jsonb, ar int[], iv interval, tm time
    );
    TRUNCATE many;
    INSERT INTO many SELECT g, g * 10000000000, g, g / 3.0, g / 4.0, g * 1.25, 't' || g, 'v' || g,
        date '2020-01-01' + g,
        timestamp '2020-01-01 01:02:03' + g * interval '1 h', timestamptz '2020-01-01 01:02:03+02' + g * interval '1 h',
        mod(g, 2) = 0, '\\x01ab', ('00000000-0000-0000-0000-00000000000' || g)::uuid, '{"a": 1}', '{"a": 1}',
        ARRAY[g, g + 1], g * interval '1 day 2 h', time '10:11:12' FROM generate_series(1, 5) g;
    INSERT INTO many (i) VALUES (NULL);
"""
FRAME = {
    "a": [1, 2, None], "b": ["x", "y", None], "c": [1.5, None, 2.5], "e": [True, False, None], "g": [b"x", None, b"z"],
    "d": [dt.datetime.fromisoformat("2020-01-01 01:00"), None, dt.datetime.fromisoformat("2021-01-01")],
}  # fmt: skip


def of_pg8000():
    return pg8000.dbapi.connect(user="postgres", host=HOST, port=int(PORT), database=DATABASE)


def of_sqlalchemy():
    return sa.create_engine(URL.replace("postgresql://", "postgresql+psycopg://"))


def pg8000_rows():
    with of_pg8000() as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT * FROM many ORDER BY i")
        yield cursor.fetchall()
        yield [column[1] for column in cursor.description]
        given = (1, "x", dt.date(2020, 1, 1), decimal.Decimal("1.5"), [1, 2], None)
        cursor.execute("SELECT %s + 1, %s::text, %s, %s, %s, %s", given)
        yield cursor.fetchall()
        cursor.execute("INSERT INTO many (i) VALUES (99)")
        connection.rollback()
        cursor.execute("SELECT count(*) FROM many WHERE i = 99")
        assert cursor.fetchall() == ([0],)
        try:
            cursor.execute("SELECT 1 / 0")
        except pg8000.dbapi.DatabaseError as error:
            yield error.args[0]["C"], error.args[0]["M"]
    native = pg8000.native.Connection("postgres", host=HOST, port=int(PORT), database=DATABASE)
    yield native.run("SELECT :a::int + i AS x FROM many WHERE t = :t", a=1, t="t2"), native.columns[0]["name"]
    native.close()


def pg8000_copies():
    with of_pg8000() as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE copied (a int, b text)")
        cursor.execute("COPY copied FROM STDIN", stream=io.BytesIO(b"1\tx\n2\ty\n"))
        target = io.BytesIO()
        cursor.execute("COPY copied TO STDOUT (FORMAT csv, HEADER)", stream=target)
        yield target.getvalue()


def adbc_tables():
    with adbc.connect(URL) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM many ORDER BY i")
        table = cursor.fetch_arrow_table()
        assert table.num_rows == 6
        yield table.schema, table.to_pylist()
        cursor.execute("SELECT i, t FROM many WHERE i = $1 OR t = $2 ORDER BY i", parameters=(1, "t3"))
        yield cursor.fetchall()
        yield connection.adbc_get_table_schema("many")


def adbc_ingests():
    with adbc.connect(URL) as connection, connection.cursor() as cursor:
        table = pa.table(FRAME)
        yield cursor.adbc_ingest("ingested", table, mode="create"), cursor.adbc_ingest("ingested", table, mode="append")
        cursor.executemany("INSERT INTO ingested (a, b) VALUES ($1, $2)", [(7, "q"), (8, "r")])
        connection.commit()
        cursor.execute("SELECT * FROM ingested ORDER BY a, b")
        yield cursor.fetch_arrow_table().to_pylist()


def connectorx_reads():
    columns = "i, b, s, f, r, n, t, v, d, ts, tz, bo, u::text AS u, j, jb, tm"
    for protocol in ("binary", "csv", "cursor"):
        query = f"SELECT {columns} FROM many WHERE i IS NOT NULL ORDER BY i"
        table = connectorx.read_sql(f"{URL}?cxprotocol={protocol}", query, return_type="arrow")
        yield protocol, table.schema, table.to_pylist()
    query = "SELECT i, t FROM many WHERE i IS NOT NULL"
    table = connectorx.read_sql(URL, query, partition_on="i", partition_num=3, return_type="arrow")
    assert sorted(table.column("i").to_pylist()) == [1, 2, 3, 4, 5]


def polars_reads():
    query = "SELECT i, t, n, ts FROM many ORDER BY i"
    yield pl.read_database_uri(query, URL).rows(), pl.read_database_uri(query, URL, engine="adbc").rows()
    frame = pl.DataFrame({"a": [1, 2], "s": ["x", None], "t": [dt.datetime.fromisoformat("2020-01-01"), None]})
    yield frame.write_database("polars_adbc", URL, engine="adbc")
    yield frame.write_database("polars_adbc", URL, engine="adbc", if_table_exists="append")
    yield frame.write_database("polars_sqlalchemy", of_sqlalchemy())
    yield pl.read_database(
        "SELECT * FROM polars_adbc UNION ALL SELECT * FROM polars_sqlalchemy ORDER BY a", of_sqlalchemy()
    )


def pandas_reads():
    engine = of_sqlalchemy()
    query = "SELECT i, b, n, t, d, ts, tz, bo, iv, ar, jb FROM many WHERE i IS NOT NULL ORDER BY i"
    frame = pd.read_sql(query, engine)
    yield frame.dtypes, frame.values.tolist()
    types = {"ar": sa.ARRAY(sa.Integer), "jb": sa.JSON}
    frame.to_sql("from_pandas", engine, index=False, if_exists="replace", dtype=types)
    yield pd.read_sql_table("from_pandas", engine).dtypes
    days = pd.date_range("2020-01-01", periods=1000, tz="UTC")
    many = pd.DataFrame({"a": range(1000), "b": [f"x{n}" for n in range(1000)], "c": days})
    yield many.to_sql("in_pieces", engine, method="multi", chunksize=200)
    assert sum(len(piece) for piece in pd.read_sql("SELECT * FROM in_pieces", engine, chunksize=300)) == 1000


if __name__ == "__main__":
    with of_sqlalchemy().connect() as connection:
        connection.exec_driver_sql(MANY)
        connection.commit()
    for seen in globals()[sys.argv[2]]():
        print(seen)
