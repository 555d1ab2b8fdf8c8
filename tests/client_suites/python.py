"""psycopg 3, asyncpg, psycopg2 and SQLAlchemy."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.client_suites.fetching import debian_source, with_tests
from tests.client_suites.suite import Results, Suite, junit_results
from tests.clients_basic.client import PROJECTS, Place, ToolError, run_tool
from tests.clients_basic.installing import python_packages, source

_PSYCOPG, _ASYNCPG, _PSYCOPG2, _SQLALCHEMY = "3.2.6", "0.32.0", "2.9.10", "2.0.44"
_SUITE_S = 7200.0


def _pytest(
    place: Place, home: Path, python: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Results:
    """What pytest makes of the tests below `home`; ToolError when it did not get as far as to report."""
    report = place.folder / "report.xml"
    ours: tuple[str, ...] = ("-q", "-W", "ignore", "-o", f"cache_dir={place.folder / 'cache'}", f"--junitxml={report}")
    wrong = ""
    try:
        run_tool(
            python,
            *("-m", "pytest", *ours, *arguments),
            cwd=home,
            environment=environment,
            timeout_s=_SUITE_S,
        )
    except ToolError as error:
        wrong = str(error)
    if not report.exists():
        raise ToolError(wrong)
    return junit_results([report], _module)


def _module(classname: str) -> str:
    """`tests.types.test_array.TestArray` is about types.test_array."""
    parts = [part for part in classname.split(".") if part not in ("tests", "test")]
    return ".".join(part for part in parts if not part[:1].isupper()) or classname


def _psycopg_install(checkout: Path | None) -> Path:
    return with_tests("psycopg", python_packages("psycopg"), checkout, lambda: debian_source("psycopg3"))


def _psycopg(place: Place) -> Results:
    home = place.installed / "source"
    unwanted = ("--ignore=tests/pool", "--ignore=tests/crdb", "--ignore=tests/test_typing.py")
    chosen = ("-p", "no:randomly", "-m", "not slow and not timing and not subprocess", *unwanted)
    python = place.installed / "environment" / "bin" / "python"
    return _pytest(place, home, python, *chosen, "--test-dsn", place.dsn(), "tests")


def _asyncpg(place: Place) -> Results:
    environment = {
        "PGHOST": place.host,
        "PGPORT": str(place.port),
        "PGUSER": "postgres",
        "PGDATABASE": "postgres",
        "PGSSLMODE": "disable",
    }
    home = _tests_alone("asyncpg", _ASYNCPG, place)
    return _pytest(place, home, place.installed / "bin" / "python", "tests", environment=environment)


def _psycopg2(place: Place) -> Results:
    environment = {
        "PSYCOPG2_TESTDB": place.database,
        "PSYCOPG2_TESTDB_HOST": place.host,
        "PSYCOPG2_TESTDB_PORT": str(place.port),
        "PSYCOPG2_TESTDB_USER": "postgres",
    }
    home = _tests_alone("psycopg2", _PSYCOPG2, place)
    return _pytest(place, home, place.installed / "bin" / "python", "tests", environment=environment)


def _tests_alone(package: str, version: str, place: Place) -> Path:
    """The tests of a source distribution in a folder without its modules, which are not built there."""
    home = place.folder / "source"
    shutil.copytree(source(package, version) / "tests", home / "tests")
    return home


def _sqlalchemy(place: Place) -> Results:
    """Its dialect suite, what it tests of PostgreSQL alone, and those tests of its core and its engine that it runs on
    each database. The set-up goes without the extension hstore."""
    for schema in ("test_schema", "test_schema_2"):
        place.execute(f"CREATE SCHEMA {schema}")
    return _pytest(
        place,
        source("sqlalchemy", _SQLALCHEMY),
        place.installed / "bin" / "python",
        *("-p", "without_hstore", "--dburi", place.url("postgresql+psycopg"), "--maxfail=100000"),
        *("--backend-only", "--nomemory", "--notimingintensive"),
        *("test/dialect/test_suite.py", "test/dialect/postgresql", "test/sql", "test/engine"),
        environment={"PYTHONPATH": str(PROJECTS / "sqlalchemy")},
    )


SUITES = (
    Suite(name="psycopg", version=_PSYCOPG, checkout="psycopg", install=_psycopg_install, run=_psycopg),
    Suite(name="asyncpg", version=_ASYNCPG, install=lambda _: python_packages("asyncpg"), run=_asyncpg),
    Suite(name="psycopg2", version=_PSYCOPG2, install=lambda _: python_packages("psycopg2"), run=_psycopg2),
    Suite(name="SQLAlchemy", version=_SQLALCHEMY, install=lambda _: python_packages("sqlalchemy"), run=_sqlalchemy),
)
