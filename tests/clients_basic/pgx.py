"""pgx: `projects/pgx`, a Go program that prints what it sees."""

from __future__ import annotations

from tests.clients_basic.client import Check, Client
from tests.clients_basic.installing import go_program
from tests.clients_basic.sessions import of_program

CLIENT = Client(
    name="pgx",
    version="5.12.0",
    install=lambda: go_program("pgx"),
    checks=(
        Check("binary rows of many types, in each mode of execution", of_program("types")),
        Check("an inet as a parameter", of_program("networks")),
        Check("batches", of_program("batches")),
        Check("CopyFrom", of_program("copies")),
        Check("upserts from four connections", of_program("upserts")),
        Check("transactions, locks, LISTEN, cancelling", of_program("transactions")),
    ),
)
