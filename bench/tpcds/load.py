"""Generates TPC-DS and loads it through COPY into any server that speaks PostgreSQL's protocol."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PYTHON = ROOT / ".cache" / "tpcds" / "bin" / "python"
BLOCK_BYTES = 1 << 20


def generated(scale_factor: float) -> Path:
    """The folder with data and texts of a scale factor, made where it is not there. Raises CalledProcessError."""
    folder = ROOT / ".cache" / "tpcds" / f"sf{scale_factor}"
    if not (folder / "complete").exists():
        subprocess.run([ROOT / "scripts" / "setup.sh", "tpcds"], check=True, cwd=ROOT)
        script = HERE / "packaged.py"
        subprocess.run([PYTHON, script, folder, "--scale-factor", str(scale_factor)], check=True)
    return folder


def queries(folder: Path) -> Iterator[tuple[int, str]]:
    """The 99 queries: (number, text)."""
    for path in sorted((folder / "queries").glob("*.sql")):
        yield int(path.stem), path.read_text(encoding="utf-8").strip().rstrip("; \n")


def spark_queries(folder: Path) -> Iterator[tuple[str, str]]:
    """Spark's texts: (name, text). The names are q1, q14a and so on."""
    for path in sorted((folder / "spark").glob("*.sql")):
        yield path.stem, path.read_text(encoding="utf-8").strip().rstrip("; \n")


def schema() -> Iterator[tuple[str, str]]:
    """The tables: (name, CREATE TABLE)."""
    for statement in (HERE / "schema.sql").read_text(encoding="utf-8").split(";\n"):
        if found := re.match(r"CREATE TABLE (\w+)", statement):
            yield found[1], statement


def load(connection: psycopg.Connection, folder: Path) -> int:
    """Creates the 24 tables, whoever had them before, and copies their data; returns the number of rows."""
    rows = 0
    for table, statement in schema():
        connection.execute(f"DROP TABLE IF EXISTS {table}".encode())
        connection.execute(statement.encode())
        with connection.cursor() as cursor, (folder / f"{table}.csv").open("rb") as source:
            with cursor.copy(f"COPY {table} FROM STDIN (FORMAT csv, HEADER)".encode()) as copy:
                while block := source.read(BLOCK_BYTES):
                    copy.write(block)
            rows += cursor.rowcount
    connection.execute("ANALYZE")
    return rows
