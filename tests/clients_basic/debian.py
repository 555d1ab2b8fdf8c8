"""Clients of Debian's packages: `projects/debian` and `projects/odbc` print what they see."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.clients_basic.client import PROJECTS, Check, Client, Place, ToolError, run_tool
from tests.clients_basic.installing import python_packages

_SCRIPTS = PROJECTS / "debian"
_PACKAGES = {
    "pgbouncer": "pgbouncer",
    "perl": "libdbd-pg-perl",
    "php": "php-cli and php-pgsql",
    "ruby": "ruby-pg, ruby-sequel and ruby-activerecord",
    "odbcinst": "odbc-postgresql and unixodbc",
}


def debian_tools(*commands: str) -> Path:
    """The folder of scripts, once the commands are there. Raises ToolError, which says what to install."""
    for command in commands:
        if shutil.which(command) is None and not Path("/usr/sbin", command).exists():
            raise ToolError(f"{command} is missing: install Debian's {_PACKAGES[command]}")
    return _SCRIPTS


def _by_address(*command: str) -> Callable[[str], Callable[[Place], Sequence[str]]]:
    """A script that takes host, port, database and the feature."""
    return lambda feature: (
        lambda place: run_tool(
            *command[:-1],
            _SCRIPTS / command[-1],
            place.host,
            str(place.port),
            place.database,
            feature,
            cwd=place.folder,
        ).splitlines()
    )


def _by_url(script: str) -> Callable[[str], Callable[[Place], Sequence[str]]]:
    """A Ruby script that takes the URL and the feature."""
    return lambda feature: (
        lambda place: run_tool("ruby", "-W0", _SCRIPTS / script, place.url(), feature, cwd=place.folder).splitlines()
    )


def _odbc(feature: str) -> Callable[[Place], Sequence[str]]:
    script = PROJECTS / "odbc" / "session.py"
    return lambda place: run_tool(
        *(place.installed / "bin" / "python", script, place.host, str(place.port), place.database, feature),
        cwd=place.folder,
    ).splitlines()


def _odbc_install() -> Path:
    debian_tools("odbcinst")
    return python_packages("odbc")


_perl, _php = _by_address("perl", "dbd_pg.pl"), _by_address("php", "pdo.php")
_pg, _sequel, _active = _by_url("pg.rb"), _by_url("sequel.rb"), _by_url("active_record.rb")

CLIENTS = (
    Client(
        name="psqlODBC",
        version="13.02 (pyodbc 5.2.0)",
        install=_odbc_install,
        checks=(
            Check("rows of many types, by each way to prepare and to fetch; batches", _odbc("rows")),
            Check("its catalog: tables, columns, keys, statistics, procedures, types", _odbc("catalog")),
            Check("transactions, errors, rollback by statement, a limit of time", _odbc("transactions")),
        ),
    ),
    Client(
        name="DBD::Pg",
        version="3.16",
        install=lambda: debian_tools("perl"),
        checks=(
            Check("rows of many types, placeholders of each kind, batches", _perl("rows")),
            Check("its catalog: tables, columns, keys, statistics, types", _perl("catalog")),
            Check("COPY in both directions", _perl("copies")),
            Check("transactions, savepoints, errors, LISTEN, asynchronous queries", _perl("transactions")),
        ),
    ),
    Client(
        name="PDO",
        version="PHP 8.2",
        install=lambda: debian_tools("php"),
        checks=(
            Check("rows of many types, ways to prepare, meta data, scrollable cursors", _php("rows")),
            Check("COPY in both directions", _php("copies")),
            Check("transactions, savepoints, errors, LISTEN", _php("transactions")),
        ),
    ),
    Client(
        name="Ruby pg",
        version="1.4.5",
        install=lambda: debian_tools("ruby"),
        checks=(
            Check("rows of many types, type maps, the binary format, row by row", _pg("rows")),
            Check("COPY in both directions", _pg("copies")),
            Check("transactions, errors, LISTEN, cancelling, pipelines", _pg("transactions")),
        ),
    ),
    Client(
        name="Sequel",
        version="5.63",
        install=lambda: debian_tools("ruby"),
        checks=(
            Check("migrations, what it finds of tables, indexes and keys", _sequel("schema")),
            Check("models, queries, upserts, cursors, errors of constraints", _sequel("models")),
            Check("transactions, savepoints, COPY, LISTEN", _sequel("transactions")),
        ),
    ),
    Client(
        name="ActiveRecord",
        version="6.1.7",
        install=lambda: debian_tools("ruby"),
        checks=(
            Check("migrations, forth and back, a dump of the schema", _active("migrations")),
            Check("models, upserts, batches, optimistic locks, errors of constraints", _active("models")),
            Check("transactions, savepoints, row locks, four threads, advisory locks", _active("transactions")),
        ),
    ),
)
