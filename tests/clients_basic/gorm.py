"""GORM: `projects/gorm`, a Go program that prints what it sees."""

from __future__ import annotations

from tests.clients_basic.client import Check, Client
from tests.clients_basic.installing import go_program
from tests.clients_basic.sessions import of_program

CLIENT = Client(
    name="GORM",
    version="1.31.1 (pgx 5.6.0)",
    install=lambda: go_program("gorm"),
    checks=(
        Check("migrations: tables of models, nothing left to change, changed models, names", of_program("migrate")),
        Check("models with associations, batches, queries, soft deletes, RETURNING", of_program("queries")),
        Check("upserts, by prepared statements", of_program("upserts")),
        Check("transactions, savepoints, row locks, errors of constraints, cancelling", of_program("transactions")),
    ),
)
