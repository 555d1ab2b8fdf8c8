"""The two servers that clients are run against, and a client's place on one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.clients_basic.client import Place
from tests.support.postgres import start_postgres
from tests.support.server import AS_SHIPPED, TidegateServer

Servers = Sequence[tuple[str, int]]
"""Names and ports: of PostgreSQL first."""


@contextmanager
def both_servers(folder: Path, settings: Sequence[str]) -> Iterator[Servers]:
    """A PostgreSQL 15 and Tidegate with `settings`, as shipped, for as long as the context lasts."""
    ours = [word for setting in settings for word in ("--set", setting)]
    with start_postgres(settings=tuple(settings)) as postgres:
        arguments = ("--spark-start", "lazy", *ours)
        server = TidegateServer(folder / "server", arguments=arguments, environment=AS_SHIPPED)
        server.start()
        try:
            yield ("postgresql", postgres.port), ("tidegate", server.port)
        finally:
            server.kill()


def make_place(client: str, folder: Path, port: int, installed: Path) -> Place:
    """A database and a folder for the client of this name."""
    database = "".join(letter if letter.isalnum() else "_" for letter in client.lower())
    place = Place(
        host="127.0.0.1", port=port, database=database, folder=folder / "clients" / database, installed=installed
    )
    place.folder.mkdir(parents=True)
    address = f"host={place.host} port={port} user=postgres dbname=postgres"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}".encode())
    return place
