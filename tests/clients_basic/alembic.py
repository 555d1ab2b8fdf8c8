"""Alembic: `projects/alembic`, whose session prints what it sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.clients_basic.client import PROJECTS, Check, Client, Place, run_tool
from tests.clients_basic.installing import python_packages


def _session(feature: str) -> Callable[[Place], Sequence[str]]:
    script = PROJECTS / "alembic" / "session.py"
    python = "bin/python"
    return lambda place: run_tool(place.installed / python, script, place.url(), feature, cwd=place.folder).splitlines()


CLIENT = Client(
    name="Alembic",
    version="1.17.1 (SQLAlchemy 2.0.44, psycopg 3.2.13)",
    install=lambda: python_packages("sqlalchemy"),
    checks=(
        Check("a first migration from models, and nothing left to change", _session("migrate")),
        Check("a migration from changed models", _session("change")),
        Check(
            "operations: renames, data, enums, batches, exclusion, indexes built concurrently", _session("operations")
        ),
        Check("a migration that fails", _session("failure")),
        Check("branches, a merge, stamps, history", _session("branches")),
        Check("back to the beginning", _session("back")),
        Check("migrations as SQL", _session("offline")),
    ),
)
