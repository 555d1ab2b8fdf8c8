"""Loads the tables into any server that speaks PostgreSQL's protocol, and has the 33 queries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg

from bench.job.data import tables

HERE = Path(__file__).parent
FOREIGN_KEYS = (
    ("cast_info", "movie_id"), ("cast_info", "person_id"), ("movie_companies", "movie_id"),
    ("movie_companies", "company_id"), ("movie_info", "movie_id"), ("movie_info_idx", "movie_id"),
    ("movie_keyword", "movie_id"), ("movie_keyword", "keyword_id"), ("movie_link", "movie_id"),
    ("movie_link", "linked_movie_id"), ("aka_name", "person_id"), ("aka_title", "movie_id"),
    ("complete_cast", "movie_id"), ("person_info", "person_id"),
)  # fmt: skip
"""What PostgreSQL is given indexes on, as the benchmark's authors do."""


def queries() -> Iterator[tuple[int, str]]:
    """The queries: (family, text)."""
    for found in re.finditer(r"-- (\d+)\n(.*?);\n", (HERE / "queries.sql").read_text(encoding="utf-8"), re.DOTALL):
        yield int(found[1]), found[2]


def load(connection: psycopg.Connection, movies: int, *, indexes: bool) -> int:
    """Creates the 21 tables, whoever had them before, with the data of so many movies; returns the number of rows."""
    rows = 0
    for statement in (HERE / "schema.sql").read_text(encoding="utf-8").split(";\n"):
        if found := re.match(r"CREATE TABLE (\w+)", statement):
            connection.execute(f"DROP TABLE IF EXISTS {found[1]}".encode())
            connection.execute(statement.encode())
    for table, made in tables(movies):
        with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN".encode()) as copy:
            for row in made:
                copy.write_row(row)
        rows += len(made)
    for table, column in FOREIGN_KEYS if indexes else ():
        connection.execute(f"CREATE INDEX ON {table} ({column})".encode())
    connection.execute("ANALYZE")
    return rows
