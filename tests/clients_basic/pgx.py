"""pgx: `projects/pgx`, a Go program that prints what it sees."""

from __future__ import annotations

from collections.abc import Callable

from tests.clients_basic.client import Check, Client, Place, run_tool
from tests.clients_basic.installing import go_program


def _session(feature: str) -> Callable[[Place], str]:
    return lambda place: run_tool(place.installed / "client", place.url(), feature, cwd=place.folder)


CLIENT = Client(
    name="pgx",
    version="5.12.0",
    install=lambda: go_program("pgx"),
    checks=(
        Check("binary rows of many types, in each mode of execution", _session("types")),
        Check("an inet as a parameter", _session("networks")),
        Check("batches", _session("batches")),
        Check("CopyFrom", _session("copies")),
        Check("upserts from four connections", _session("upserts")),
        Check("transactions, locks, LISTEN, cancelling", _session("transactions")),
    ),
)
