"""Flyway: `projects/flyway`, a Java program that prints what it sees, and its migrations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.clients_basic.client import PROJECTS, Check, Client, Place, run_tool
from tests.clients_basic.installing import maven_jars

_PROJECT = PROJECTS / "flyway"


def _session(feature: str) -> Callable[[Place], Sequence[str]]:
    def check(place: Place) -> Sequence[str]:
        url = f"jdbc:postgresql://{place.host}:{place.port}/{place.database}"
        command = ("java", "-cp", f"{place.installed}/*", _PROJECT / "Session.java", url, _PROJECT / "sql", feature)
        printed = run_tool(*command, cwd=place.folder)
        if feature == "together":
            # CREATE SCHEMA IF NOT EXISTS that meets another fails with 23505 in PostgreSQL and finds the schema here:
            # each of them notes that it made it.
            printed = printed.replace("null << Flyway Schema Creation >> SUCCESS\n", "")
        return [
            line for line in printed.splitlines() if not line.startswith(("INFO", "WARNING")) and " org." not in line
        ]

    return check


def _migrated(place: Place) -> Sequence[str]:
    return [*_session("migrate")(place), *place.rows("SELECT * FROM shop.totals ORDER BY name")]


CLIENT = Client(
    name="Flyway",
    version="11.8.2 (pgjdbc 42.7.5)",
    install=lambda: maven_jars("flyway"),
    checks=(
        Check("migrate, twice, and validate", _migrated),
        Check("later migrations, one of them outside a transaction", _session("upgrade")),
        Check("a migration that fails, and repair", _session("failure")),
        Check("three at once", _session("together")),
        Check("clean and baseline", _session("clean")),
    ),
)
