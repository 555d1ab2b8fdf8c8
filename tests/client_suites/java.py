"""pgjdbc, from the sources that it publishes for distributions."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.client_suites.suite import Results, Suite, junit_results
from tests.clients_basic.client import CACHE, Place, ToolError, run_tool

_PGJDBC = "42.7.7"
_SUREFIRE = "-Dmaven-surefire-plugin.version=3.5.2"
"""The version that its sources name does not find the tests that are written for JUnit 5."""
_SUITE_S = 7200.0


def _install(_: Path | None) -> Path:
    folder = CACHE / f"pgjdbc-{_PGJDBC}"
    home = folder / f"postgresql-{_PGJDBC}-jdbc-src"
    if not home.exists():
        folder.mkdir(parents=True, exist_ok=True)
        artifact = f"-Dartifact=org.postgresql:postgresql:{_PGJDBC}:tar.gz:jdbc-src"
        run_tool("mvn", "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={folder}", cwd=CACHE)
        (archive,) = folder.glob("*.tar.gz")
        shutil.unpack_archive(archive, folder, filter="data")
    return home


def _run(place: Place) -> Results:
    """Its own set-up: a role test with a password, who owns the database test."""
    home = place.folder / "source"
    shutil.copytree(place.installed, home)
    settings = {
        "test.url.PGHOST": place.host,
        "test.url.PGPORT": str(place.port),
        "test.url.PGDBNAME": "test",
        "user": "test",
        "password": "test",
        "privilegedUser": "postgres",
        "privilegedPassword": "",
    }
    with (home / "build.properties").open("a", encoding="utf-8") as file:
        file.write("".join(f"{name}={value}\n" for name, value in settings.items()))
    place.execute("CREATE ROLE test LOGIN PASSWORD 'test'")
    place.execute("CREATE DATABASE test OWNER test")
    wrong = ""
    try:
        run_tool("mvn", "-q", "-B", "-Dmaven.test.failure.ignore=true", _SUREFIRE, "test", cwd=home, timeout_s=_SUITE_S)
    except ToolError as error:
        wrong = str(error)
    reports = sorted((home / "target" / "surefire-reports").glob("TEST-*.xml"))
    if not reports:
        raise ToolError(wrong)
    return junit_results(reports, lambda name: name.removeprefix("org.postgresql.").removeprefix("test."))


SUITES = (Suite(name="pgjdbc", version=_PGJDBC, install=_install, run=_run),)
