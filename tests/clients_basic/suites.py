"""SQLAlchemy and Django by tests of their own, unmodified, from their source distributions."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.clients_basic.client import PROJECTS, Check, Client, Gap, Place, ToolError, run_tool
from tests.clients_basic.installing import python_packages, source

_SQLALCHEMY, _SQLALCHEMY_1, _DJANGO = "2.0.44", "1.4.54", "5.2.8"
_SUITE_S = 1800.0


def _sqlalchemy(version: str, driver: str) -> Callable[[Place], Sequence[str]]:
    """What became of each test of the dialect suite of a version."""
    return lambda place: _dialect_suite(place, source("sqlalchemy", version), driver)


def _dialect_suite(place: Place, home: Path, driver: str) -> Sequence[str]:
    for schema in ("test_schema", "test_schema_2"):
        place.execute(f"CREATE SCHEMA {schema}")
    report = place.folder / "report.xml"
    command = (place.installed / "bin" / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore")
    ours = ("--dburi", place.url(f"postgresql+{driver}"), f"--junitxml={report}")
    wrong = ""
    try:
        run_tool(*command, *ours, "test/dialect/test_suite.py", cwd=home, timeout_s=_SUITE_S)
    except ToolError as error:
        wrong = str(error)
    if not report.exists():
        raise ToolError(wrong)
    return _outcomes(report)


def _outcomes(report: Path) -> list[str]:
    lines = []
    # NOTE: what pytest has just written.
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        lines.append(f"{case.get('classname')}.{case.get('name')}: {', '.join(kinds) or 'passed'}")
    return sorted(lines)


def _django(*labels: str) -> Callable[[Place], Sequence[str]]:
    """Django's tests of these labels, all of which have to pass."""

    def check(place: Place) -> Sequence[str]:
        home = source("django", _DJANGO) / "tests"
        printed = run_tool(
            place.installed / "bin" / "python",
            "runtests.py",
            "--settings=tests_settings",
            "--parallel=1",
            "--noinput",
            *labels,
            cwd=home,
            environment={
                "PYTHONPATH": str(PROJECTS / "django"),
                "TESTS_HOST": place.host,
                "TESTS_PORT": str(place.port),
                "TESTS_DATABASE": place.database,
            },
            timeout_s=_SUITE_S,
        )
        return [line.split(" in ")[0] for line in printed.splitlines() if line.startswith(("Ran ", "OK"))]

    return check


CLIENTS = (
    Client(
        name="SQLAlchemy",
        version=f"{_SQLALCHEMY} (psycopg 3.2.13)",
        install=lambda: python_packages("sqlalchemy"),
        checks=(Check("its dialect suite, 1,614 tests", _sqlalchemy(_SQLALCHEMY, "psycopg")),),
    ),
    Client(
        name="SQLAlchemy 1.4",
        version=f"{_SQLALCHEMY_1} (psycopg2 2.9.10)",
        install=lambda: python_packages("sqlalchemy14"),
        checks=(
            Check(
                "its dialect suite",
                _sqlalchemy(_SQLALCHEMY_1, "psycopg2"),
                Gap(
                    shows="test_default_isolation_level: failure",
                    why="All but two pass, for which transactions are READ COMMITTED where nothing is said; they are "
                    "SERIALIZABLE here.",
                ),
            ),
        ),
    ),
    Client(
        name="Django",
        version=f"{_DJANGO} (psycopg 3.2.13)",
        install=lambda: python_packages("django"),
        checks=(
            Check(
                "its tests basic, bulk_create, update, lookup, ordering",
                _django("basic", "bulk_create", "update", "lookup", "ordering"),
            ),
            Check("its tests introspection, constraints, indexes", _django("introspection", "constraints", "indexes")),
            Check(
                "its tests aggregation, annotations, expressions", _django("aggregation", "annotations", "expressions")
            ),
            Check("its tests transactions, select_for_update", _django("transactions", "select_for_update")),
            Check("its tests queries", _django("queries")),
            Check(
                "its tests migrations",
                _django("migrations"),
                Gap(
                    shows="FAILED (errors=2",
                    why="All but two pass, which make or use collations of ICU: `CREATE COLLATION` is refused.",
                ),
            ),
            Check(
                "its tests schema",
                _django("schema"),
                Gap(
                    shows="FAILED (errors=16",
                    why="All but 16 of 220 pass, which make or use collations of ICU: `CREATE COLLATION` is refused.",
                ),
            ),
            Check(
                "its tests postgres_tests",
                _django("postgres_tests"),
                Gap(shows='extension "bloom" is not available', why="Their set-up makes the extension `bloom`."),
            ),
        ),
    ),
)
