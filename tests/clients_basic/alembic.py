"""Alembic: `projects/alembic`, whose session prints what it sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.clients_basic.client import Check, Client, Place
from tests.clients_basic.installing import python_packages
from tests.clients_basic.sessions import of_script


def _session(feature: str) -> Callable[[Place], Sequence[str]]:
    return of_script("alembic", "session.py", feature)


CLIENT = Client(
    name="Alembic",
    version="1.17.1 (SQLAlchemy 2.0.44, psycopg 3.2.13)",
    install=lambda: python_packages("sqlalchemy"),
    checks=(
        Check("a first migration from models, and nothing left to change", _session("migrate")),
        Check("a migration from changed models", _session("change")),
        Check(
            "operations: renames, data, enums, batches, exclusion, indexes built concurrently",
            _session("operations"),
        ),
        Check("a migration that fails", _session("failure")),
        Check("branches, a merge, stamps, history", _session("branches")),
        Check("back to the beginning", _session("back")),
        Check("migrations as SQL", _session("offline")),
    ),
)
