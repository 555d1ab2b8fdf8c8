"""Clients in Rust: `projects/rust`, one program that prints what each of them sees. diesel needs Debian's libpq-dev."""

from __future__ import annotations

from tests.clients_basic.client import Check, Client
from tests.clients_basic.installing import rust_program
from tests.clients_basic.sessions import of_program


def _client(name: str, version: str, *checks: tuple[str, str]) -> Client:
    return Client(
        name=name,
        version=version,
        install=lambda: rust_program("rust"),
        checks=[Check(feature, of_program(session)) for feature, session in checks],
    )


CLIENTS = (
    _client(
        "tokio-postgres",
        "0.7.18",
        ("binary rows of many types, prepared and simple statements, streams", "tokio_rows"),
        ("COPY in both directions, text, csv and binary", "tokio_copies"),
        ("transactions, savepoints, portals, pipelines, LISTEN, cancelling, errors", "tokio_transactions"),
    ),
    _client(
        "sqlx",
        "0.8.6",
        ("migrations, forth and back, one that fails, one that was changed", "sqlx_migrations"),
        ("binary rows of many types, an enum and its arrays, upserts, COPY", "sqlx_rows"),
        ("transactions, savepoints, LISTEN, a pool, errors of constraints", "sqlx_transactions"),
    ),
    _client(
        "diesel",
        "2.3.14",
        ("models with associations, queries, upserts, rows one by one", "diesel_models"),
        ("transactions, savepoints, row locks, a pool, errors of constraints", "diesel_transactions"),
    ),
)
