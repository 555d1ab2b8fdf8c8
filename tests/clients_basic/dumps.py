"""pg_dump and pg_restore in their four forms: what they dump, restored into a new database, dumps the same again."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg

from tests.clients_basic.client import PROJECTS, Check, Client, Place, run_tool
from tests.support.postgres import DEBIAN_POSTGRES_15
from tests.support.server import ROOT

_VARYING = str.maketrans("", "", "()")
"""Tidegate shows the queries of views in the form with fewer parentheses."""
_WITHOUT_TIMES = re.compile(r"^(-- (Dumped|Started on|Completed on)|\\(un)?restrict ).*\n", re.MULTILINE)


def _install() -> Path:
    run_tool(DEBIAN_POSTGRES_15 / "pg_dump", "--version", cwd=ROOT)
    return DEBIAN_POSTGRES_15


def _dump(place: Place, database: str, *options: str) -> str:
    """What pg_dump says of a database, without what changes from run to run."""
    text = run_tool(place.installed / "pg_dump", *options, _address(place, database), cwd=place.folder)
    return _WITHOUT_TIMES.sub("", text)


def _address(place: Place, database: str) -> str:
    return f"host={place.host} port={place.port} user=postgres dbname={database}"


def _psql(place: Place, database: str, file: Path) -> str:
    command = ("-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", file)
    return run_tool(place.installed / "psql", *command, _address(place, database), cwd=place.folder)


def _new_database(place: Place, name: str) -> None:
    with psycopg.connect(place.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())


def _plain(place: Place) -> Sequence[str]:
    _psql(place, place.database, PROJECTS / "dumps" / "schema.sql")
    dumped = _dump(place, place.database)
    file = place.folder / "plain.sql"
    file.write_text(dumped, encoding="utf-8")
    _new_database(place, "from_plain")
    _psql(place, "from_plain", file)
    assert _dump(place, "from_plain") == dumped
    return dumped.translate(_VARYING).splitlines()


def _inserts(place: Place) -> Sequence[str]:
    dumped = _dump(place, place.database, "--column-inserts", "--no-owner")
    file = place.folder / "inserts.sql"
    file.write_text(dumped, encoding="utf-8")
    _new_database(place, "from_inserts")
    _psql(place, "from_inserts", file)
    assert _dump(place, "from_inserts") == _dump(place, place.database)
    return dumped.translate(_VARYING).splitlines()


def _quoted(place: Place) -> Sequence[str]:
    return _dump(place, place.database, "-s", "--quote-all-identifiers").translate(_VARYING).splitlines()


def _archive(form: str, *options: str, jobs: tuple[str, ...] = ()) -> Callable[[Place], Sequence[str]]:
    """A check of an archive: dumped with `options`, listed, restored with `jobs`, dumped again."""

    def check(place: Place) -> Sequence[str]:
        archive = place.folder / f"archive.{form}"
        _dump(place, place.database, f"-F{form}", *options, "-f", str(archive))
        restore = place.installed / "pg_restore"
        listed = run_tool(restore, "-l", archive, cwd=place.folder)
        database = f"from_{form}"
        _new_database(place, database)
        to = ("-d", _address(place, database))
        run_tool(restore, "--exit-on-error", *jobs, *to, archive, cwd=place.folder)
        assert _dump(place, database) == _dump(place, place.database)
        return [re.sub(r"^\d+; \d+ \d+ ", "", line) for line in listed.splitlines() if not line.startswith(";")]

    return check


def _create(place: Place) -> Sequence[str]:
    """`pg_restore -C` makes the database itself, and `--clean --if-exists` makes it anew."""
    archive = place.folder / "archive.c"
    restore = place.installed / "pg_restore"
    before = _dump(place, place.database)
    with psycopg.connect(_address(place, "postgres"), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {place.database} RENAME TO kept".encode())
    for more in ((), ("--clean", "--if-exists")):
        command = (restore, "--exit-on-error", "-C", *more, "-d", _address(place, "postgres"), archive)
        run_tool(*command, cwd=place.folder)
        assert _dump(place, place.database) == before
    created = _dump(place, place.database, "-C", "-s").translate(_VARYING)
    # The collation of either is by bytes; PostgreSQL's is without Unicode's classes of characters.
    return created.replace("LOCALE = 'C.UTF-8'", "LOCALE = 'C'").splitlines()


def _sections(place: Place) -> Sequence[str]:
    """Definitions, data and what comes after, each restored by itself."""
    _new_database(place, "from_parts")
    archive = place.folder / "archive.c"
    restore = place.installed / "pg_restore"
    for section in ("pre-data", "data", "post-data"):
        command = (restore, "--exit-on-error", f"--section={section}", "-d", _address(place, "from_parts"), archive)
        run_tool(*command, cwd=place.folder)
    assert _dump(place, "from_parts") == _dump(place, place.database)
    return place.rows("SELECT name, orders, total::numeric(12,2) FROM shop.totals ORDER BY name")


def _all(place: Place) -> Sequence[str]:
    run_tool(place.installed / "pg_dumpall", "-s", "-d", _address(place, "postgres"), cwd=place.folder)
    return []


CLIENT = Client(
    name="pg_dump",
    version="15",
    install=_install,
    checks=(
        Check("plain text (-Fp), restored by psql", _plain),
        Check("plain text with --column-inserts", _inserts),
        Check("custom format (-Fc)", _archive("c")),
        Check("directory format with two jobs (-Fd -j2)", _archive("d", "-j2", jobs=("-j2",))),
        Check("tar format (-Ft)", _archive("t")),
        Check("in sections", _sections),
        Check("pg_restore -C, and with --clean --if-exists", _create),
        Check("--quote-all-identifiers", _quoted),
        Check("pg_dumpall --schema-only", _all),
    ),
)
