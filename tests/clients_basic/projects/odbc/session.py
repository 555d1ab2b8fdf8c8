"""A session of psqlODBC through pyodbc, which prints what it sees. Arguments: host, port, database, feature."""

from __future__ import annotations

import datetime
import decimal
import sys
from collections.abc import Callable

import pyodbc

HOST, PORT, DATABASE, FEATURE = sys.argv[1:]


def connect(driver: str = "PostgreSQL Unicode", autocommit: bool = True, **options: object) -> pyodbc.Connection:
    """A connection through the driver of Debian's odbcinst.ini."""
    words = {
        "Driver": f"{{{driver}}}",
        "Server": HOST,
        "Port": PORT,
        "Database": DATABASE,
        "Uid": "postgres",
        **options,
    }
    return pyodbc.connect(";".join(f"{name}={value}" for name, value in words.items()), autocommit=autocommit)


def refused(what: Callable[[], object]) -> None:
    """Show how it fails."""
    try:
        what()
    except pyodbc.Error as error:
        print(type(error).__name__, error.args[0], error.args[1].split(";")[0].splitlines()[0])
        return
    raise AssertionError("it should have failed")


def rows() -> None:
    """Types there and back, with and without server-side prepares, by cursors and in batches."""
    db = connect()
    db.execute(
        "CREATE TABLE things (id serial PRIMARY KEY, name text NOT NULL, price numeric(12,2), raw bytea, fine boolean,"
        " at timestamp, day date, hour time, chip uuid, small smallint, big bigint, part float8)"
    )
    columns = "name, price, raw, fine, at, day, hour, chip, small, big, part"
    insert = f"INSERT INTO things ({columns}) VALUES (?,?,?,?,?,?,CAST(? AS time),CAST(? AS uuid),?,?,?)"
    given = (
        "a 'quoted' \\ näme", decimal.Decimal("12.50"), b"\x00\xff'", True,
        datetime.datetime(2024, 2, 29, 12, 0, 0, 123000),  # noqa: DTZ001 - a timestamp without time zone
        datetime.date(2024, 2, 29), "23:59:59", "7b1c9a52-5b0c-4c5c-8f0e-0123456789ab", -7,
        2**62, 2.5,
    )  # fmt: skip
    for driver, options in (
        ("PostgreSQL Unicode", {}), ("PostgreSQL Unicode", {"UseServerSidePrepare": 0}),
        ("PostgreSQL Unicode", {"UseDeclareFetch": 1, "Fetch": 7}),
        ("PostgreSQL Unicode", {"BoolsAsChar": 0, "ByteaAsLongVarBinary": 1}),
    ):  # fmt: skip
        one = connect(driver, **options)
        if options:
            # Some of these write parameters into the text, but not those of every type.
            one.execute("INSERT INTO things (name, big) VALUES (?, ?)", "it's \\ here", 7)
        else:
            one.execute(insert, given)
        cursor = one.execute("SELECT * FROM things WHERE id = (SELECT max(id) FROM things WHERE name <> ?)", "x")
        print([(column[0], column[1].__name__, *column[3:]) for column in cursor.description])
        print(tuple(cursor.fetchone()))
        print(one.execute("SELECT count(*), sum(i) FROM generate_series(1, ?) i", 1000).fetchone())
        one.close()
    cursor = db.cursor()
    for fast in (False, True):
        cursor.fast_executemany = fast
        cursor.executemany("INSERT INTO things (name, price) VALUES (?, ?)", [(f"name {at}", at) for at in range(100)])
    print(cursor.execute("SELECT count(*), sum(price) FROM things").fetchall())
    print(cursor.execute("UPDATE things SET price = price + 1 WHERE price < ?", 10).rowcount)
    print(cursor.execute("{call pg_catalog.upper(?)}", "called").fetchall())
    print(cursor.execute("SELECT {fn ucase('x')}, {d '2024-02-29'}, {fn length('four')}").fetchall())
    cursor.execute("SELECT 1 AS a; SELECT 'two' AS b")
    print(cursor.fetchall(), cursor.nextset(), cursor.fetchall(), cursor.nextset())
    print(cursor.execute("INSERT INTO things (name) VALUES ('x') RETURNING name").fetchval())


def catalog() -> None:
    """What the driver says of tables, columns, keys, procedures and itself."""
    db = connect()
    cursor = db.cursor()
    cursor.execute("CREATE SCHEMA shop")
    cursor.execute("CREATE TABLE shop.maker (id int PRIMARY KEY, name varchar(40) NOT NULL DEFAULT 'x' UNIQUE)")
    cursor.execute(
        "CREATE TABLE shop.item (maker int REFERENCES shop.maker ON DELETE CASCADE, no int, note text,"
        " price numeric(8,2), PRIMARY KEY (maker, no))"
    )
    cursor.execute("CREATE VIEW shop.cheap AS SELECT * FROM shop.item WHERE price < 10")
    cursor.execute("COMMENT ON TABLE shop.item IS 'what is sold'")
    cursor.execute("CREATE FUNCTION shop.twice(x int) RETURNS int LANGUAGE sql AS 'SELECT 2 * x'")
    for found in (
        cursor.tables(schema="shop"), cursor.columns(schema="shop"), cursor.primaryKeys("item", schema="shop"),
        cursor.foreignKeys("maker", schema="shop"), cursor.statistics("item", schema="shop"),
        cursor.rowIdColumns("item", schema="shop"), cursor.procedures("twice", schema="shop"),
        cursor.procedureColumns("twice", schema="shop"),
    ):  # fmt: skip
        print(*(tuple(row) for row in found.fetchall()), sep="\n")
    print([row[0] for row in cursor.getTypeInfo().fetchall()])
    for what in (pyodbc.SQL_DBMS_NAME, pyodbc.SQL_TXN_CAPABLE, pyodbc.SQL_MAX_IDENTIFIER_LEN):
        print(db.getinfo(what))


def transactions() -> None:
    """Transactions, savepoints by statement, errors, cancelling by a limit of time."""
    db = connect(autocommit=False)
    db.execute("CREATE TABLE accounts (id int PRIMARY KEY, amount int CHECK (amount >= 0))")
    db.execute("INSERT INTO accounts VALUES (1, 10), (2, 20)")
    db.commit()
    db.execute("UPDATE accounts SET amount = amount - 5")
    refused(lambda: db.execute("UPDATE accounts SET amount = amount - 15"))
    db.commit()
    print(db.execute("SELECT * FROM accounts ORDER BY id").fetchall())
    whole = connect(autocommit=False, Protocol="7.4-1")
    whole.execute("UPDATE accounts SET amount = 0")
    refused(lambda: whole.execute("SELECT 1/0"))
    whole.rollback()
    print(whole.execute("SELECT sum(amount) FROM accounts").fetchval())
    whole.rollback()
    for statement in (
        "INSERT INTO accounts VALUES (1, 1)", "SELECT nothing FROM accounts", "SELEKT 1",
        "INSERT INTO accounts VALUES ('x', 1)",
    ):  # fmt: skip
        refused(lambda statement=statement: db.execute(statement))
        db.rollback()
    refused(lambda: db.execute("INSERT INTO accounts VALUES (?, ?)", "x", 1))
    db.rollback()
    db.execute("DELETE FROM accounts")
    db.rollback()
    print(db.execute("SELECT count(*) FROM accounts").fetchval())
    db.execute("SET statement_timeout = '1s'")
    db.commit()
    refused(lambda: db.execute("SELECT pg_sleep(20)"))
    db.rollback()
    db.execute("SET statement_timeout = 0")
    db.commit()
    db.set_attr(pyodbc.SQL_ATTR_TXN_ISOLATION, pyodbc.SQL_TXN_SERIALIZABLE)
    print(db.execute("SHOW transaction_isolation").fetchval())
    db.rollback()


{"rows": rows, "catalog": catalog, "transactions": transactions}[FEATURE]()
