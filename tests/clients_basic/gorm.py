"""GORM: `projects/gorm`, a Go program that prints what it sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.clients_basic.client import Check, Client, Place, run_tool
from tests.clients_basic.installing import go_program


def _session(feature: str) -> Callable[[Place], Sequence[str]]:
    return lambda place: run_tool(place.installed / "client", place.url(), feature, cwd=place.folder).splitlines()


CLIENT = Client(
    name="GORM",
    version="1.31.1 (pgx 5.6.0)",
    install=lambda: go_program("gorm"),
    checks=(
        Check("migrations: tables of models, nothing left to change, changed models, names", _session("migrate")),
        Check("models with associations, batches, queries, soft deletes, RETURNING", _session("queries")),
        Check("upserts, by prepared statements", _session("upserts")),
        Check("transactions, savepoints, row locks, errors of constraints, cancelling", _session("transactions")),
    ),
)
