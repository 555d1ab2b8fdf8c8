"""The large statements, each for a fresh connection to a server that has `TABLES`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import psycopg
from msgspec import Struct

Connection: TypeAlias = "psycopg.Connection[Any]"

TABLES = (
    "CREATE TABLE t (k int PRIMARY KEY, v int, w text)",
    "INSERT INTO t SELECT n, n, n::text FROM generate_series(1, 20000) n",
    "CREATE TABLE parent (k int PRIMARY KEY)",
    "INSERT INTO parent SELECT n FROM generate_series(1, 300000) n",
    "CREATE TABLE long_values (id int, v text)",
    "CREATE TABLE long_bytes (id int, v bytea)",
)
"""What every server has from the start."""

MIB = 1 << 20


class Case(Struct, frozen=True, kw_only=True):
    """A large statement: what `run` sends is measured, `before` and `after` are not."""

    name: str
    run: Callable[[Connection], object]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def listed(count: int, item: Callable[[int], str] = str, between: str = ", ") -> str:
    """`item` of the numbers from 0 on."""
    return between.join([item(number) for number in range(count)])


def nested(opening: str, inside: str, closing: str, depth: int) -> str:
    """`inside` between so many."""
    return opening * depth + inside + closing * depth


def text(statement: str) -> Callable[[Connection], object]:
    """The simple protocol with `statement`, and its rows."""

    def run(connection: Connection) -> object:
        found = connection.execute(statement.encode())
        return found.fetchall() if found.description else None

    return run


def texts(statements: list[str]) -> Callable[[Connection], object]:
    """Several statements, one after the other."""

    def run(connection: Connection) -> object:
        for statement in statements:
            connection.execute(statement.encode())
        return None

    return run


def prepared(statement: str, values: list[Any]) -> Callable[[Connection], object]:
    """The extended protocol with `values`."""

    def run(connection: Connection) -> object:
        with psycopg.RawCursor(connection) as cursor:
            cursor.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else None

    return run


def copy_in(statement: str, pieces: Callable[[], Any]) -> Callable[[Connection], object]:
    """COPY FROM STDIN of `pieces`."""

    def run(connection: Connection) -> object:
        with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            for piece in pieces():
                copy.write(piece)
        return None

    return run


def copy_out(statement: str) -> Callable[[Connection], object]:
    """COPY TO STDOUT; its bytes are counted."""

    def run(connection: Connection) -> object:
        with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            return sum(len(piece) for piece in copy)

    return run


def one_value(megabytes: int) -> Callable[[], Any]:
    """A row with a text of so many MiB, in pieces of one."""

    def pieces() -> Any:
        yield b"1\t"
        for _ in range(megabytes):
            yield b"x" * MIB
        yield b"\n"

    return pieces


def numbered(count: int) -> Callable[[], Any]:
    """Rows of one number."""

    def pieces() -> Any:
        for start in range(1, count + 1, 10_000):
            yield "".join([f"{n}\t{n}\n" for n in range(start, min(start + 10_000, count + 1))]).encode()

    return pieces


WIDE = 1_600
COLUMNS = listed(WIDE, "c{} int".format)
VIEWS = 300
CASES = [
    Case(name="IN (50,000 integers)", run=text(f"SELECT count(*) FROM t WHERE v IN ({listed(50_000)})")),
    Case(
        name="IN (50,000 texts)",
        run=text(f"""SELECT count(*) FROM t WHERE w IN ({listed(50_000, "'{}'".format)})"""),
    ),
    Case(
        name="VALUES of 20,000 rows",
        run=text(f"""SELECT count(*), sum(a) FROM (VALUES {listed(20_000, "({0}, 'x{0}')".format)}) q (a, b)"""),
    ),
    Case(
        name="INSERT of 20,000 rows",
        before=("CREATE TABLE written (a int, b text)",),
        run=text(f"""INSERT INTO written VALUES {listed(20_000, "({0}, 'x{0}')".format)}"""),
        after=("DROP TABLE written",),
    ),
    Case(
        name="IN ($1 ... $32767)",
        run=prepared(
            f"SELECT count(*) FROM t WHERE v IN ({listed(32_767, lambda n: f'${n + 1}')})", list(range(32_767))
        ),
    ),
    Case(
        name="INSERT with 32,766 parameters",
        before=("CREATE TABLE written (a int, b text, c int)",),
        run=prepared(
            "INSERT INTO written VALUES " + listed(10_922, lambda n: f"(${n * 3 + 1}, ${n * 3 + 2}, ${n * 3 + 3})"),
            [value for n in range(10_922) for value in (n, f"x{n}", n)],
        ),
        after=("DROP TABLE written",),
    ),
    Case(
        name="5,000 ORs",
        run=text(f"SELECT count(*) FROM t WHERE {listed(5_000, 'v = {}'.format, ' OR ')}"),
    ),
    Case(
        name="1,000 ORs of two columns",
        run=text(f"SELECT count(*) FROM t WHERE {listed(1_000, '(v = {0} AND k > {0} - 5)'.format, ' OR ')}"),
    ),
    Case(name="a constant of 10 MB", run=text(f"SELECT length('{'x' * 10_000_000}')")),
    Case(name="a parameter of 100 MB", run=prepared("SELECT length($1::text)", ["x" * 100_000_000])),
    Case(
        name="INSERT with a parameter of 100 MB",
        run=prepared("INSERT INTO long_values VALUES (2, $1)", ["x" * 100_000_000]),
        after=("TRUNCATE long_values",),
    ),
    Case(
        name="60-way join",
        run=text("SELECT count(*) FROM t t0 " + listed(59, lambda n: f"JOIN t t{n + 1} ON t{n + 1}.k = t{n}.k", " ")),
    ),
    Case(
        name="CREATE TABLE of 1,600 columns",
        run=text(f"CREATE TABLE wide ({COLUMNS})"),
    ),
    Case(
        name="INSERT into 1,600 columns",
        run=text(f"INSERT INTO wide VALUES ({listed(WIDE)})"),
    ),
    Case(name="INSERT ... SELECT of 1,600 columns", run=text("INSERT INTO wide SELECT * FROM wide")),
    Case(name="SELECT * of 1,600 columns", run=text("SELECT * FROM wide")),
    Case(name="UPDATE of one of 1,600 columns", run=text("UPDATE wide SET c7 = 8")),
    Case(name="UPDATE of all of 1,600 columns", run=text(f"UPDATE wide SET {listed(WIDE, 'c{0} = {0}'.format)}")),
    Case(
        name="psql's \\d of 1,600 columns",
        run=text(
            "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), "
            "(SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid, true) "
            "FROM pg_catalog.pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND "
            "a.atthasdef), a.attnotnull, (SELECT c.collname FROM pg_catalog.pg_collation c, pg_catalog.pg_type t WHERE "
            "c.oid = a.attcollation AND t.oid = a.atttypid AND a.attcollation <> t.typcollation) AS attcollation, "
            "a.attidentity, a.attgenerated FROM pg_catalog.pg_attribute a WHERE a.attrelid = 'wide'::regclass AND "
            "a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
        ),
    ),
    Case(name="ALTER TABLE of 1,600 columns", run=text("ALTER TABLE wide ALTER c3 SET DEFAULT 7")),
    Case(name="COPY TO of 1,600 columns", run=copy_out("COPY wide TO STDOUT")),
    Case(
        name="COPY FROM of 1,600 columns",
        run=copy_in("COPY wide FROM STDIN", lambda: ["\t".join(map(str, range(WIDE))).encode() + b"\n"] * 100),
        after=("DROP TABLE wide",),
    ),
    Case(name="1,601 columns", run=text(f"CREATE TABLE wider ({listed(1_601, 'c{} int'.format)})")),
    Case(name="SELECT of 1,664 entries", run=text(f"SELECT {listed(1_664)}")),
    Case(name="SELECT of 1,665 entries", run=text(f"SELECT {listed(1_665)}")),
    Case(name="parentheses 1,000 deep", run=text(f"SELECT {nested('(', '1', ')', 1_000)}")),
    Case(name="calls 1,000 deep", run=text(f"SELECT {nested('abs(', '1', ')', 1_000)}")),
    Case(
        name="subqueries in FROM 1,000 deep",
        run=text(f"SELECT * FROM {nested('(SELECT * FROM ', '(SELECT 1 a) q', ') q', 1_000)}"),
    ),
    Case(name="too deep: calls 6,000 deep", run=text(f"SELECT {nested('abs(', '1', ')', 6_000)}")),
    Case(
        name=f"CREATE VIEW {VIEWS} deep",
        run=texts(
            [
                "CREATE VIEW v0 AS SELECT 1 a, 2 b",
                *(f"CREATE VIEW v{n} AS SELECT a, b FROM v{n - 1} WHERE a > 0" for n in range(1, VIEWS)),
            ]
        ),
    ),
    Case(
        name=f"SELECT of views {VIEWS} deep",
        run=text(f"SELECT * FROM v{VIEWS - 1}"),
        after=("DROP VIEW v0 CASCADE",),
    ),
    Case(
        name="COPY FROM of a value of 100 MB",
        run=copy_in("COPY long_values FROM STDIN", one_value(100)),
    ),
    Case(name="COPY TO of a value of 100 MB", run=copy_out("COPY long_values TO STDOUT")),
    Case(
        name="SELECT of a value of 100 MB",
        run=text("SELECT length(v) FROM long_values"),
        after=("TRUNCATE long_values",),
    ),
    Case(
        name="COPY FROM of a value of 1 GB - 1 kB",
        run=copy_in("COPY long_values FROM STDIN", one_value(1_023)),
    ),
    Case(name="COPY TO of a value of 1 GB - 1 kB", run=copy_out("COPY long_values TO STDOUT")),
    Case(
        name="SELECT length of 1 GB - 1 kB",
        run=text("SELECT length(v) FROM long_values"),
        after=("TRUNCATE long_values",),
    ),
    Case(
        name="COPY FROM of a value of 1 GB",
        run=copy_in("COPY long_values FROM STDIN", one_value(1_025)),
        after=("TRUNCATE long_values",),
    ),
    Case(
        name="COPY FROM of 300,000 rows",
        before=("CREATE TABLE loaded (a int PRIMARY KEY, b int)",),
        run=copy_in("COPY loaded FROM STDIN", numbered(300_000)),
    ),
    Case(
        name="ON CONFLICT DO UPDATE of 300,000 rows",
        run=text(
            "INSERT INTO loaded SELECT n, 0 FROM generate_series(1, 300000) n "
            "ON CONFLICT (a) DO UPDATE SET b = excluded.b"
        ),
    ),
    Case(
        name="UPDATE of 300,000 rows",
        run=text("UPDATE loaded SET b = b + 1"),
    ),
    Case(
        name="UPDATE of 300,000 keys",
        run=text("UPDATE loaded SET a = a + 1000000"),
    ),
    Case(
        name="DELETE of 300,000 rows",
        run=text("DELETE FROM loaded"),
        after=("DROP TABLE loaded",),
    ),
    Case(
        name="INSERT of 300,000 rows with a foreign key",
        before=("CREATE TABLE child (k int PRIMARY KEY, p int REFERENCES parent)",),
        run=text("INSERT INTO child SELECT n, n FROM generate_series(1, 300000) n"),
        after=("DROP TABLE child",),
    ),
    Case(
        name="INSERT of 300,000 rows, deferred keys",
        before=(
            "CREATE TABLE child (k int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED,"
            " p int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
        ),
        run=text("INSERT INTO child SELECT n, n FROM generate_series(1, 300000) n"),
        after=("DROP TABLE child",),
    ),
    Case(name="LIMIT 10 OFFSET 19,000", run=text("SELECT * FROM t ORDER BY v DESC LIMIT 10 OFFSET 19000")),
    Case(
        name="CASE of 5,000 arms",
        run=text(f"SELECT sum(CASE {listed(5_000, 'WHEN v = {0} THEN {0}'.format, ' ')} END) FROM t"),
    ),
    Case(
        name="CASE v of 5,000 arms",
        run=text(f"SELECT sum(CASE v {listed(5_000, 'WHEN {0} THEN {0}'.format, ' ')} END) FROM t"),
    ),
    Case(name="ARRAY of 5,000 elements", run=text(f"SELECT ARRAY[{listed(5_000)}]")),
    Case(
        name="ARRAY of 5,000 expressions",
        run=text(f"SELECT count(ARRAY[{listed(5_000, 'v + {}'.format)}]) FROM t WHERE k < 10"),
    ),
    Case(
        name="1,000 UNION ALLs",
        run=text(f"SELECT count(*) FROM ({listed(1_000, 'SELECT {} a'.format, ' UNION ALL ')}) q"),
    ),
    Case(
        name="1,000 UNION ALLs of a table",
        run=text(f"SELECT count(*) FROM ({listed(1_000, 'SELECT k FROM t WHERE k = {}'.format, ' UNION ALL ')}) q"),
    ),
    Case(
        name="1,000 CTEs",
        run=text(
            f"WITH {listed(1_000, 'c{0} AS (SELECT {0} a)'.format)} SELECT count(*) FROM "
            f"({listed(1_000, 'SELECT a FROM c{}'.format, ' UNION ALL ')}) q"
        ),
    ),
    Case(
        name="CUBE of 8 columns",
        run=text(
            "SELECT count(*) FROM (SELECT count(*) FROM t GROUP BY CUBE "
            f"({listed(8, '(v % {0} + 1)'.format).replace('% 0', '% 9')})) q"
        ),
    ),
    Case(
        name="CUBE of 13 columns",
        run=text(f"SELECT count(*) FROM t GROUP BY CUBE ({listed(13, '(v % {} + 1)'.format)})"),
    ),
    Case(
        name="500 GROUPING SETS",
        run=text(
            "SELECT count(*) FROM (SELECT v, count(*) FROM t WHERE k < 100 GROUP BY GROUPING SETS "
            f"({listed(500, lambda n: '(v, w)' if n % 2 else '(w, k)')})) q"
        ),
    ),
    Case(
        name="300 indexes",
        before=("CREATE TABLE indexed (" + listed(300, "c{} int".format) + ")",),
        run=texts([f"CREATE INDEX ON indexed (c{n})" for n in range(300)]),
    ),
    Case(
        name="INSERT with 300 indexes",
        run=text(f"INSERT INTO indexed SELECT {listed(300, 'n + {}'.format)} FROM generate_series(1, 1000) n"),
    ),
    Case(
        name="UPDATE with 300 indexes",
        run=text("UPDATE indexed SET c5 = 0 WHERE c7 < 20"),
        after=("DROP TABLE indexed",),
    ),
    Case(
        name="1,000 CHECKs",
        run=text("CREATE TABLE checked (v int, " + listed(1_000, "CONSTRAINT c{0} CHECK (v > -{0})".format) + ")"),
    ),
    Case(
        name="INSERT with 1,000 CHECKs",
        run=text("INSERT INTO checked SELECT n FROM generate_series(1, 1000) n"),
        after=("DROP TABLE checked",),
    ),
    Case(name="a function of 101 arguments", run=text(f"SELECT concat({listed(101)})")),
    Case(name="a function of 100 arguments", run=text(f"SELECT concat({listed(100)})")),
    Case(name="an identifier of 10 kB", run=text(f"SELECT 1 AS {'x' * 10_000}")),
    Case(name="a table's name of 10 kB", run=text(f"SELECT * FROM {'x' * 10_000}")),
    Case(name="ORDER BY of 1,000", run=text(f"SELECT k FROM t ORDER BY {listed(1_000, 'v + {}'.format)} LIMIT 1")),
    Case(
        name="GROUP BY of 1,000", run=text(f"SELECT count(*) FROM t GROUP BY {listed(1_000, 'v + {}'.format)} LIMIT 1")
    ),
    Case(name="a string of 1 GB by repeat", run=text("SELECT length(repeat('x', 1073741824))")),
]
