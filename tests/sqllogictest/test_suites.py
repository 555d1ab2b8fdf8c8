"""Our suites over real connections: on PostgreSQL, so that the suites are right, and on both engines.

The files under tests/data/sqlite are those of SQLite's public-domain sqllogictest corpus that PostgreSQL passes too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqllogictest.report import failure_text
from sqllogictest.runner import FileRun, Target
from tests.support.postgres import PostgresServer
from tests.support.server import TidegateServer, run_server

ROOT = Path(__file__).resolve().parents[2]
SUITES = sorted((ROOT / "sqllogictest" / "suites").glob("*.slt"))
ENGINES = ("local", "spark")
CORPUS = sorted((ROOT / "tests" / "data" / "sqlite").glob("*.test"))


def name_of(path: Path) -> str:
    return path.stem


def run(path: Path, server: PostgresServer | TidegateServer, engine: str | None) -> None:
    """Runs one file; fails with the differences."""
    labels = {"postgresql", "postgres"} | ({"tidegate", engine} if engine is not None else set())
    target = Target(
        host=server.host,
        port=server.port,
        user="postgres",
        database="postgres",
        engine=engine,
        labels=frozenset(labels),
        timeout_s=300.0,
        own_schema=True,
    )
    report = FileRun(path, target, complete=False).run()
    assert report.ok, failure_text(report)
    assert report.passed > 0


@pytest.mark.parametrize("path", SUITES, ids=name_of)
def test_suite_on_postgresql(path: Path, postgres: PostgresServer) -> None:
    if postgres.major != 15:
        pytest.skip("the suites promise PostgreSQL 15's answers; CI has it")
    run(path, postgres, None)


LONG_ON_SPARK = frozenset(
    {
        "absent_rows", "array_columns", "array_dimension_columns", "array_dimensions", "array_parts",
        "changes_by_functions", "compared_averages", "composites", "deferred_keys", "distinct_collected",
        "hstore_rows", "hstore_tables", "index_types", "json_populate_sets", "jsonpath_datetime", "lateral_lists",
        "long_numerics", "many_rows_in_order", "nan_numerics", "numbered_lists", "python_joins", "quotients",
        "row_security", "rows_as_they_come", "wide_numerics",
    }
)  # fmt: skip
"""Suites that take Spark 10 to 30 s each, 5 minutes together, and whose rules the differential cases try on it as well:
`make slt` runs them there."""


def suites_of(engine: str) -> list[Path]:
    """The suites that are run on an engine."""
    long = bool(os.environ.get("LONG_TESTS"))
    return [path for path in SUITES if engine != "spark" or long or path.stem not in LONG_ON_SPARK]


@pytest.mark.parametrize(
    ("path", "engine"),
    [pytest.param(path, engine, id=f"{path.stem}-{engine}") for engine in ENGINES for path in suites_of(engine)],
)
def test_suite(path: Path, engine: str, server: TidegateServer) -> None:
    run(path, server, engine)


ON_WORKERS = ("transactions", "locking", "keys", "identity", "on_conflict", "cursors", "ddl", "settings")
"""Suites of what the processes of a server have to agree on."""


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    """A server of two workers."""
    folder = tmp_path_factory.mktemp("workers") / "data"
    with run_server(folder, arguments=("--spark-start", "lazy", "--workers", "2")) as running:
        yield running


@pytest.mark.parametrize("name", ON_WORKERS)
def test_suite_on_workers(name: str, workers: TidegateServer) -> None:
    run(ROOT / "sqllogictest" / "suites" / f"{name}.slt", workers, "local")


@pytest.mark.parametrize("path", CORPUS, ids=name_of)
def test_corpus(path: Path, server: TidegateServer) -> None:
    run(path, server, "local")
