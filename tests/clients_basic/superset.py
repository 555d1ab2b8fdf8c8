"""Superset: its own tables, its API, and its pages in Debian's Chromium. `projects/superset` asks the latter two, with
its own tables in SQLite."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.clients_basic.client import PROJECTS, Check, Client, Gap, Place, ToolError, run_tool
from tests.clients_basic.installing import python_packages
from tests.support.postgres import free_port

_START_S, _STEP_S = 240.0, 900.0
_CHROMIUM = "/usr/bin/chromium"


def _environment(place: Place, own_tables: str) -> Mapping[str, str]:
    return {
        "SUPERSET_CONFIG_PATH": str(PROJECTS / "superset" / "superset_config.py"),
        "SUPERSET_HOME": str(place.folder),
        "FLASK_APP": "superset",
        "METADATA_URL": own_tables,
    }


def _run(place: Place, own_tables: str, *arguments: str) -> None:
    program = place.installed / "bin" / "superset"
    run_tool(program, *arguments, cwd=place.folder, environment=_environment(place, own_tables), timeout_s=_STEP_S)


def _migrate(place: Place) -> Sequence[str]:
    """All of its migrations; what there is of its own tables then."""
    _run(place, place.url("postgresql+psycopg2"), "db", "upgrade")
    columns = "table_name, column_name, data_type, is_nullable, character_maximum_length"
    return place.rows(f"SELECT {columns} FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2")


@contextmanager
def _serving(place: Place, own_tables: str) -> Iterator[int]:
    """The port on which it serves for as long as the context lasts."""
    port = free_port()
    command = (str(place.installed / "bin" / "superset"), "run", "-p", str(port), "--with-threads")
    with (place.folder / "superset.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=place.folder, env={**os.environ, **_environment(place, own_tables)}, stdout=log, stderr=log
        )
        try:
            _await(process, port)
            yield port
        finally:
            process.terminate()
            process.wait()


def _await(process: subprocess.Popen[bytes], port: int) -> None:
    ends = time.monotonic() + _START_S
    while time.monotonic() < ends and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise ToolError("superset does not serve")


def _own_tables(place: Place, name: str) -> str:
    """The address of new tables of its own, in SQLite, with a user admin: a copy of those that are made once."""
    empty = place.folder / "empty.db"
    if not empty.exists():
        half = place.folder / "half.db"
        address = f"sqlite:///{half}"
        _run(place, address, "db", "upgrade")
        names = ("--firstname", "a", "--lastname", "b", "--email", "a@example.com")
        _run(place, address, "fab", "create-admin", "--username", "admin", *names, "--password", "admin")
        _run(place, address, "init")
        half.rename(empty)
    shutil.copy(empty, place.folder / name)
    return f"sqlite:///{place.folder / name}"


def _session(place: Place) -> Sequence[str]:
    with _serving(place, _own_tables(place, "api.db")) as port:
        command = (place.installed / "bin" / "python", PROJECTS / "superset" / "session.py")
        address = place.url("postgresql+psycopg2")
        return run_tool(*command, address, str(port), cwd=place.folder, timeout_s=_STEP_S).splitlines()


def _browser(place: Place) -> Sequence[str]:
    """What a browser shows of a query in SQL Lab, of a dataset, and of a chart by itself and on a dashboard."""
    place.execute(
        "CREATE SCHEMA market; CREATE TABLE market.sales (customer text, amount numeric(10, 2), at timestamp);"
        "INSERT INTO market.sales SELECT 'c' || least(g % 7, 2), g * 1.25,"
        " timestamp '2024-01-01' + g * interval '9 hours' FROM generate_series(1, 351) g"
    )
    python = python_packages("browser") / "bin" / "python"
    with _serving(place, _own_tables(place, "browser.db")) as port:
        command = (python, PROJECTS / "superset" / "browser.py", place.url("postgresql+psycopg2"), str(port), _CHROMIUM)
        return run_tool(*command, cwd=place.folder, timeout_s=_STEP_S).splitlines()


def _install() -> Path:
    if not Path(_CHROMIUM).exists():
        raise ToolError(f"{_CHROMIUM} is missing: install Debian's chromium")
    return python_packages("superset")


CLIENT = Client(
    name="Superset",
    version="6.1.0 (psycopg2 2.9.10)",
    install=_install,
    checks=(
        Check(
            "its own tables",
            _migrate,
            Gap(
                shows="functions in language plpgsql are not supported",
                why="One of its migrations makes a function in plpgsql.",
            ),
        ),
        Check("its API: databases, SQL Lab, tables, datasets, charts, dashboards", _session),
        Check("in a browser: SQL Lab, a dataset, a chart, a dashboard", _browser),
    ),
)
