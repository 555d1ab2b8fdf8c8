"""pg_dump, pg_restore and pg_dumpall, there and back: what PostgreSQL has is dumped, restored here, dumped from here
and restored into PostgreSQL, where it must be what it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from tests.clients_basic.client import ToolError, run_tool
from tests.support.postgres import PostgresServer, bundled_binaries, start_postgres
from tests.support.server import TidegateServer, run_server

SCHEMA = Path(__file__).parent / "dumps" / "schema.sql"
_CHANGING = re.compile(r"^(-- (Dumped|Started on|Completed on)|\\(un)?restrict ).*\n", re.MULTILINE)
"""What differs from run to run."""


@dataclass
class Pair:
    """A PostgreSQL with the database `rich`, and a server of ours into which it has been restored."""

    postgres: PostgresServer
    server: TidegateServer
    folder: Path
    made: int = field(default=0)

    def tool(self, name: str, *arguments: str | Path, binaries: Path | None = None) -> str:
        return run_tool((binaries or self.postgres.binaries) / name, *arguments, cwd=self.folder)

    def dump(
        self, where: PostgresServer | TidegateServer, database: str, *options: str, binaries: Path | None = None
    ) -> str:
        text = self.tool("pg_dump", *options, "-d", where.dsn(database), binaries=binaries)
        return _CHANGING.sub("", text)

    def archive(self, where: PostgresServer | TidegateServer, database: str, *options: str) -> Path:
        self.made += 1
        path = self.folder / f"archive{self.made}"
        self.tool("pg_dump", *options, "-f", path, "-d", where.dsn(database))
        return path

    def restore(self, where: PostgresServer | TidegateServer, database: str, archive: Path, *options: str) -> None:
        self.tool("pg_restore", "--exit-on-error", *options, "-d", where.dsn(database), archive)

    def run(self, where: PostgresServer | TidegateServer, database: str, script: str) -> None:
        file = self.folder / "script.sql"
        file.write_text(script, encoding="utf-8")
        self.tool("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", file, "-d", where.dsn(database))

    def new(self, where: PostgresServer | TidegateServer) -> str:
        """An empty database there."""
        self.made += 1
        name = f"made{self.made}"
        self.execute(where, f"CREATE DATABASE {name}")
        return name

    def execute(self, where: PostgresServer | TidegateServer, statement: str) -> None:
        with psycopg.connect(where.dsn(), autocommit=True) as connection:
            connection.execute(statement.encode())


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("dumps")
    with start_postgres() as postgres, run_server(folder / "data", arguments=("--spark-start", "lazy")) as server:
        made = Pair(postgres, server, folder)
        made.execute(postgres, "CREATE DATABASE rich")
        made.run(postgres, "rich", SCHEMA.read_text(encoding="utf-8"))
        # Roles and databases are restored from a dump too.
        made.run(server, "postgres", _globals(made, postgres).replace("CREATE ROLE postgres;\n", ""))
        made.execute(server, "CREATE DATABASE rich")
        made.run(server, "rich", made.dump(postgres, "rich"))
        yield made


def _globals(pair: Pair, where: PostgresServer | TidegateServer) -> str:
    return _CHANGING.sub("", pair.tool("pg_dumpall", "--globals-only", "-d", where.dsn()))


def _back(pair: Pair, database: str) -> str:
    """What PostgreSQL dumps when it has been given what our server dumps."""
    target = pair.new(pair.postgres)
    pair.run(pair.postgres, target, pair.dump(pair.server, database))
    return pair.dump(pair.postgres, target)


def test_plain_there_and_back(pair: Pair) -> None:
    original = pair.dump(pair.postgres, "rich")
    assert original.count("\nCREATE ") > 45
    assert _back(pair, "rich") == original


@pytest.mark.parametrize(
    ("form", "dumping", "restoring"),
    [("c", (), ()), ("c", (), ("-j2",)), ("d", ("-j2",), ("-j2",)), ("t", (), ())],
    ids=["custom", "custom-j2", "directory-j2", "tar"],
)
def test_archives_there_and_back(pair: Pair, form: str, dumping: tuple[str, ...], restoring: tuple[str, ...]) -> None:
    here = pair.new(pair.server)
    pair.restore(pair.server, here, pair.archive(pair.postgres, "rich", f"-F{form}", *dumping), *restoring)
    assert pair.dump(pair.server, here) == pair.dump(pair.server, "rich")
    back = pair.new(pair.postgres)
    pair.restore(pair.postgres, back, pair.archive(pair.server, here, f"-F{form}", *dumping), *restoring)
    assert pair.dump(pair.postgres, back) == pair.dump(pair.postgres, "rich")


@pytest.mark.parametrize(
    "options",
    [
        ("--inserts",),
        ("--column-inserts", "--rows-per-insert=2", "--on-conflict-do-nothing"),
        ("--schema-only",),
        ("--no-owner", "--no-acl"),
        ("--no-comments", "--exclude-table-data=r.child"),
        ("-n", '"odd Schema"'),
        ("-t", '"odd Schema".*'),
        ("-T", "r.fast", "--schema=r", "--extension=*"),
        ("--quote-all-identifiers",),
        ("-E", "UTF8", "--serializable-deferrable"),
    ],
    ids=lambda options: " ".join(options),
)
def test_options(pair: Pair, options: tuple[str, ...]) -> None:
    """What either server dumps with the options makes the same database, in PostgreSQL and here."""
    texts = [pair.dump(where, "rich", *options) for where in (pair.postgres, pair.server)]
    for where in (pair.postgres, pair.server):
        found = []
        for text in texts:
            target = pair.new(where)
            if options[0] == "-t":
                pair.run(where, target, 'CREATE SCHEMA "odd Schema"')
            pair.run(where, target, text)
            found.append(pair.dump(where, target))
        assert found[0] == found[1]
        assert "CREATE TABLE" in found[0]


@pytest.mark.parametrize(
    "options",
    [("--data-only",), ("--data-only", "--inserts"), ("--data-only", "--disable-triggers"), ("-a", "-t", "r.parent*")],
    ids=" ".join,
)
def test_data_alone_is_the_same_text(pair: Pair, options: tuple[str, ...]) -> None:
    text = pair.dump(pair.server, "rich", *options)
    assert text == pair.dump(pair.postgres, "rich", *options)
    assert "parent" in text


def test_data_into_a_schema_that_is_there(pair: Pair) -> None:
    here = pair.new(pair.server)
    for section in ("pre-data", "data", "post-data"):
        archive = pair.archive(pair.postgres, "rich", "-Fc", f"--section={section}")
        pair.restore(pair.server, here, archive)
    assert _back(pair, here) == pair.dump(pair.postgres, "rich")


def test_selected_entries(pair: Pair) -> None:
    """pg_restore --list, --use-list, --schema and --table."""
    archive = pair.archive(pair.server, "rich", "-Fc")
    listed = pair.tool("pg_restore", "--list", archive).splitlines()
    wanted = [line for line in listed if " odd Schema " in line or " SCHEMA - odd" in line]
    assert len(wanted) > 3
    chosen = pair.folder / "chosen"
    chosen.write_text("\n".join(wanted) + "\n", encoding="utf-8")
    dumps = []
    for where in (pair.postgres, pair.server):
        target = pair.new(where)
        pair.restore(where, target, archive, "--schema-only", f"--use-list={chosen}")
        pair.restore(where, target, archive, "--data-only", "--schema=odd Schema")
        dumps.append(pair.dump(where, target))
    assert dumps[0] == dumps[1]
    assert dumps[0].count("\n1\t\\\\.\n") == 1


def test_clean_over_what_is_there(pair: Pair) -> None:
    """--clean --if-exists, in one transaction."""
    here = pair.new(pair.server)
    archive = pair.archive(pair.postgres, "rich", "-Fc")
    pair.restore(pair.server, here, archive)
    pair.run(pair.server, here, pair.dump(pair.server, here, "--clean", "--if-exists"))
    for _ in range(2):
        pair.restore(pair.server, here, archive, "--clean", "--if-exists", "--single-transaction")
    assert pair.dump(pair.server, here) == pair.dump(pair.server, "rich")


def test_create_database(pair: Pair) -> None:
    """-C: the database with its owner, comment, settings and grants."""
    for statement in (
        "CREATE DATABASE made_whole OWNER dump_owner",
        "COMMENT ON DATABASE made_whole IS 'whole'",
        "ALTER DATABASE made_whole SET search_path = r, public",
        "ALTER ROLE dump_reader IN DATABASE made_whole SET work_mem = '8MB'",
        "REVOKE CONNECT ON DATABASE made_whole FROM PUBLIC",
        "GRANT CONNECT, TEMPORARY ON DATABASE made_whole TO dump_reader WITH GRANT OPTION",
        "ALTER DATABASE made_whole CONNECTION LIMIT 9",
    ):
        pair.execute(pair.postgres, statement)
    original = pair.dump(pair.postgres, "made_whole", "-C")
    pair.restore(pair.server, "postgres", pair.archive(pair.postgres, "made_whole", "-Fc"), "-C")
    archive = pair.archive(pair.server, "made_whole", "-Fc")
    pair.restore(pair.postgres, "postgres", archive, "-C", "--clean", "--if-exists")
    # The collation of either is by bytes; PostgreSQL's is without Unicode's classes of characters.
    assert pair.dump(pair.postgres, "made_whole", "-C").replace("LOCALE = 'C.UTF-8'", "LOCALE = 'C'") == original
    assert "WITH GRANT OPTION" in original
    assert "work_mem" in original


GLOBALS = [
    ("--globals-only",),
    ("--roles-only",),
    ("--globals-only", "--no-role-passwords"),
    ("--globals-only", "--clean", "--if-exists"),
]


@pytest.mark.parametrize("options", GLOBALS, ids=" ".join)
def test_globals(pair: Pair, options: tuple[str, ...]) -> None:
    """Roles with their attributes, settings, comments and memberships: the same text from either."""
    texts = [
        _CHANGING.sub("", pair.tool("pg_dumpall", *options, "-d", where.dsn()))
        for where in (pair.postgres, pair.server)
    ]
    assert texts[0] == texts[1]
    assert "GRANT dump_owner TO dump_admin WITH ADMIN OPTION" in texts[0]


def test_everything_into_a_new_environment(pair: Pair, tmp_path: Path) -> None:
    """pg_dumpall of our server into another: its databases and roles are there. The copies that other tests have made
    of the one that is rich are left out."""
    pair.execute(pair.server, "CREATE DATABASE small CONNECTION LIMIT 7")
    pair.run(pair.server, "small", "CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'x');")
    whole = pair.tool("pg_dumpall", "-d", pair.server.dsn(), "--exclude-database", "made*")
    with run_server(tmp_path / "data", arguments=("--spark-start", "lazy")) as other:
        pair.run(other, "postgres", whole.replace("CREATE ROLE postgres;\n", ""))
        assert _globals(pair, other) == _globals(pair, pair.server)
        for database in ("rich", "small"):
            assert pair.dump(other, database, "-C") == pair.dump(pair.server, database, "-C")


def test_version_18(pair: Pair) -> None:
    """pg_dump of PostgreSQL 18 dumps the same from either, and what it dumps is restored."""
    binaries = bundled_binaries()
    if binaries is None:
        pytest.skip("the package with PostgreSQL 18 is not installed")
    # The parameter is of PostgreSQL 17; 15 does not know it either.
    text = pair.dump(pair.server, "rich", binaries=binaries).replace("SET transaction_timeout = 0;\n", "")
    original = pair.dump(pair.postgres, "rich", binaries=binaries).replace("SET transaction_timeout = 0;\n", "")
    back, here = pair.new(pair.postgres), pair.new(pair.server)
    pair.run(pair.postgres, back, text)
    pair.run(pair.server, here, original)
    assert pair.dump(pair.postgres, back) == pair.dump(pair.postgres, "rich")
    assert pair.dump(pair.server, here) == pair.dump(pair.server, "rich")


REFUSED = {
    "CREATE TABLE p (k int) PARTITION BY RANGE (k)": "partitioned tables are not supported",
    "CREATE TABLE h (z int) INHERITS (t)": "table inheritance is not supported",
    "CREATE TABLE g (p tsvector)": "type tsvector is not supported",
    "CREATE TABLE x (x xml)": "type xml is not supported",
    "CREATE AGGREGATE a (int) (SFUNC = int4pl, STYPE = int)": "CREATE AGGREGATE is not supported",
    "CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq)": "CREATE OPERATOR is not supported",
    "CREATE OPERATOR FAMILY f USING btree": "CREATE OPERATOR FAMILY is not supported",
    "CREATE CAST (two AS text) WITH INOUT": "CREATE CAST is not supported",
    "CREATE COLLATION c (provider = libc, locale = 'C')": "CREATE COLLATION is not supported",
    "CREATE TEXT SEARCH DICTIONARY d (TEMPLATE = simple)": "CREATE TEXT SEARCH DICTIONARY is not supported",
    "CREATE TEXT SEARCH CONFIGURATION c (COPY = simple)": "CREATE TEXT SEARCH CONFIGURATION is not supported",
    "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1; END'": "language plpgsql are not supported",
    "CREATE RULE u AS ON INSERT TO t DO ALSO NOTHING": "CREATE RULE is not supported",
    "CREATE PUBLICATION p FOR TABLE t": "CREATE PUBLICATION is not supported",
}


@pytest.mark.parametrize(("statement", "message"), REFUSED.items())
def test_what_is_not_there_is_refused_by_name(pair: Pair, statement: str, message: str) -> None:
    """A dump with what PostgreSQL alone has fails at it; in one transaction it leaves nothing behind."""
    source = pair.new(pair.postgres)
    pair.run(pair.postgres, source, "CREATE TYPE two AS (a int); CREATE TABLE t (a int, b int);" + statement)
    target = pair.new(pair.server)
    empty = pair.dump(pair.server, target)
    with pytest.raises(ToolError, match=re.escape(message)):
        pair.restore(pair.server, target, pair.archive(pair.postgres, source, "-Fc"), "--single-transaction")
    assert pair.dump(pair.server, target) == empty
