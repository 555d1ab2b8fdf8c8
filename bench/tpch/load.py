"""Generates TPC-H data and loads it through COPY into any server that speaks PostgreSQL's protocol."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg

HERE = Path(__file__).parent
TABLES = ("region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem")
BLOCK_BYTES = 1 << 20

Progress = Callable[[str, int, int, float], None]
"""Called with table, bytes sent, bytes in all, seconds since the table's start."""


def queries() -> Iterator[tuple[int, str]]:
    """The 22 queries: (number, text)."""
    for path in sorted((HERE / "queries").glob("q*.sql")):
        yield int(path.stem[1:]), path.read_text()


def generate(folder: Path, scale_factor: float) -> None:
    """Writes one CSV file with header for each table into `folder`, unless they are there already."""
    folder.mkdir(parents=True, exist_ok=True)
    if all((folder / f"{table}.csv").exists() for table in TABLES):
        return
    command = str(Path(sys.executable).with_name("tpchgen-cli"))
    subprocess.run([command, "csv", "-s", str(scale_factor), "--output-dir", str(folder)], check=True)


def show_progress(table: str, done: int, total: int, seconds: float) -> None:
    """One line for each table, rewritten in place on a terminal."""
    share = done / total if total else 1.0
    rate = done / seconds / 1e6 if seconds > 0 else 0.0
    line = f"  {table:10} {'#' * int(share * 30):30} {share:6.1%}  {done / 1e6:8.1f} MB  {rate:6.1f} MB/s"
    end = "\n" if done >= total else ""
    if sys.stderr.isatty():
        print(f"\r{line}", end=end, file=sys.stderr, flush=True)
    elif end:
        print(line, file=sys.stderr, flush=True)


def create_tables(connection: psycopg.Connection) -> None:
    """Drops the eight tables if they exist and creates them."""
    for table in TABLES:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    for statement in (HERE / "schema.sql").read_text().split(";\n"):
        if statement.strip():
            connection.execute(statement)


def copy_tables(connection: psycopg.Connection, folder: Path, progress: Progress = show_progress) -> dict[str, int]:
    """Loads each table's CSV file with COPY ... FROM STDIN; returns the row counts that the server reported."""
    counts: dict[str, int] = {}
    for table in TABLES:
        path = folder / f"{table}.csv"
        total, done, start = path.stat().st_size, 0, time.monotonic()
        with connection.cursor() as cursor, path.open("rb") as source:
            with cursor.copy(f"COPY {table} FROM STDIN (FORMAT csv, HEADER)") as copy:
                while block := source.read(BLOCK_BYTES):
                    copy.write(block)
                    done += len(block)
                    if done < total:
                        progress(table, done, total, time.monotonic() - start)
            counts[table] = cursor.rowcount
        progress(table, total, total, time.monotonic() - start)
    return counts
