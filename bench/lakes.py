"""Small changes and reads of lake formats, one client each, in a process of its own: Delta (delta-rs), Iceberg
(PyIceberg, on a catalog in SQLite) and DuckLake (DuckDB's extension, on a catalog in DuckDB).

    python bench/lakes.py delta --rows 10000 --seconds 1

prints, as JSON, for each operation its runs per second, and their median and CPU time in milliseconds. It imports
nothing of the project: DuckLake's extension exists for another version of DuckDB than ours, so it is run by an
interpreter that has only those two (`requirements-ducklake.lock`).
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LAKES = ("delta", "iceberg", "ducklake")
DUCKLAKE_PYTHON = ROOT / ".cache" / "ducklake" / "bin" / "python"
OPERATIONS = ("INSERT", "UPDATE by key", "DELETE by key", "point read", "range of 100", "ON CONFLICT DO UPDATE")
"""As `bench_small` calls them."""

FEWEST_RUNS = 3
LOADED_AT_A_TIME = 1_000_000

Operations = Mapping[str, Callable[[], object]]


class Unavailable(Exception):
    """A lake cannot be run here; the message says why."""


def measure(lake: str, rows: int, seconds: float) -> dict[str, dict[str, float]]:
    """Runs `lake` in a process of its own: for each operation `rate`, `p50_ms` and `cpu_ms`. Raises Unavailable."""
    python = str(DUCKLAKE_PYTHON) if lake == "ducklake" else sys.executable
    if not Path(python).exists():
        raise Unavailable("not installed; scripts/setup.sh ducklake")
    command = [python, str(Path(__file__)), lake, "--rows", str(rows), "--seconds", str(seconds)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise Unavailable((result.stderr.strip().splitlines() or ["failed"])[-1])
    found: dict[str, dict[str, float]] = json.loads(result.stdout.splitlines()[-1])
    return found


def _numbers(rows: int) -> Any:
    import pyarrow as pa

    for first in range(1, rows + 1, LOADED_AT_A_TIME):
        numbers = range(first, min(rows, first + LOADED_AT_A_TIME - 1) + 1)
        yield pa.table(
            {
                "id": pa.array(numbers, pa.int64()),
                "amount": pa.array([number % 7 for number in numbers], pa.int32()),
                "label": pa.array([f"label {number}" for number in numbers]),
            }
        )


def _one_row(id: int, amount: int, schema: Any) -> Any:
    import pyarrow as pa

    return pa.table({"id": [id], "amount": [amount], "label": ["label"]}, schema=schema)


def delta(folder: str, rows: int) -> Operations:
    """Delta by delta-rs. Each operation opens the table anew, as a statement does that must see what others wrote."""
    from deltalake import DeltaTable, write_deltalake

    schema = None
    for table in _numbers(rows):
        schema = table.schema
        write_deltalake(folder, table, mode="append")
    fresh, chance = itertools.count(rows + 1), random.Random(1)
    doomed = iter(chance.sample(range(1, rows + 1), min(rows, 2_000)))

    def any_id() -> int:
        return chance.randint(1, rows)

    def upsert() -> object:
        return (
            DeltaTable(folder)
            .merge(_one_row(any_id(), 1, schema), "s.id = t.id", source_alias="s", target_alias="t")
            .when_matched_update({"amount": "t.amount + 1"})
            .when_not_matched_insert_all()
            .execute()
        )

    def between(low: int, high: int) -> object:
        return DeltaTable(folder).to_pyarrow_table(filters=[("id", ">=", low), ("id", "<=", high)])

    return {
        "INSERT": lambda: write_deltalake(folder, _one_row(next(fresh), 7, schema), mode="append"),
        "UPDATE by key": lambda: DeltaTable(folder).update(
            predicate=f"id = {any_id()}", updates={"amount": "amount + 1"}
        ),
        "DELETE by key": lambda: DeltaTable(folder).delete(f"id = {next(doomed)}"),
        "point read": lambda: DeltaTable(folder).to_pyarrow_table(filters=[("id", "=", any_id())]),
        "range of 100": lambda: between((low := chance.randint(1, rows - 99)), low + 99),
        "ON CONFLICT DO UPDATE": upsert,
    }


def iceberg(folder: str, rows: int) -> Operations:
    """Iceberg by PyIceberg. An update is what the library offers: read the row, and overwrite what has its key."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("bench")
    schema = None
    for loaded in _numbers(rows):
        if schema is None:
            schema = loaded.schema
            catalog.create_table("bench.keyed", schema=schema)
        catalog.load_table("bench.keyed").append(loaded)
    fresh, chance = itertools.count(rows + 1), random.Random(1)
    doomed = iter(chance.sample(range(1, rows + 1), min(rows, 2_000)))

    def table() -> Any:
        return catalog.load_table("bench.keyed")

    def any_id() -> int:
        return chance.randint(1, rows)

    def update() -> object:
        found, key = table(), f"id = {any_id()}"
        old = found.scan(row_filter=key).to_arrow().cast(schema)
        new = old.set_column(1, "amount", pc.add(old.column("amount"), pa.scalar(1, pa.int32())))
        return found.overwrite(new, overwrite_filter=key)

    def between() -> object:
        low = chance.randint(1, rows - 99)
        return table().scan(row_filter=f"id >= {low} AND id <= {low + 99}").to_arrow()

    return {
        "INSERT": lambda: table().append(_one_row(next(fresh), 7, schema)),
        "UPDATE by key": update,
        "DELETE by key": lambda: table().delete(f"id = {next(doomed)}"),
        "point read": lambda: table().scan(row_filter=f"id = {any_id()}").to_arrow(),
        "range of 100": between,
        "ON CONFLICT DO UPDATE": lambda: table().upsert(_one_row(any_id(), 1, schema), join_cols=["id"]),
    }


def ducklake(folder: str, rows: int) -> Operations:
    """DuckLake in DuckDB: its SQL as it is written for it."""
    import duckdb

    package = importlib.util.find_spec("duckdb_extension_ducklake")
    assert package is not None
    assert package.origin is not None
    (extension,) = Path(package.origin).parent.glob("extensions/*/ducklake.duckdb_extension")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    connection.execute(f"ATTACH 'ducklake:{folder}/catalog.ducklake' AS lake (DATA_PATH '{folder}/data')")
    connection.execute("USE lake")
    connection.execute("CREATE TABLE keyed (id bigint, amount int, label varchar)")
    for first in range(1, rows + 1, LOADED_AT_A_TIME):
        after = min(rows, first + LOADED_AT_A_TIME - 1) + 1
        connection.execute(f"INSERT INTO keyed SELECT n, n % 7, 'label ' || n FROM range({first}, {after}) r(n)")
    fresh, chance = itertools.count(rows + 1), random.Random(1)
    doomed = iter(chance.sample(range(1, rows + 1), min(rows, 2_000)))

    def run(text: str, *values: int) -> object:
        return connection.execute(text, values).fetchall()

    def any_id() -> int:
        return chance.randint(1, rows)

    merged = (
        "MERGE INTO keyed t USING (SELECT CAST(? AS bigint) AS id) s ON s.id = t.id"
        " WHEN MATCHED THEN UPDATE SET amount = t.amount + 1"
        " WHEN NOT MATCHED THEN INSERT VALUES (s.id, 1, 'label')"
    )
    return {
        "INSERT": lambda: run("INSERT INTO keyed VALUES (?, 7, 'label')", next(fresh)),
        "UPDATE by key": lambda: run("UPDATE keyed SET amount = amount + 1 WHERE id = ?", any_id()),
        "DELETE by key": lambda: run("DELETE FROM keyed WHERE id = ?", next(doomed)),
        "point read": lambda: run("SELECT id, amount, label FROM keyed WHERE id = ?", any_id()),
        "range of 100": lambda: run(
            "SELECT id, amount, label FROM keyed WHERE id BETWEEN ? AND ?", (low := any_id()), low + 99
        ),
        "ON CONFLICT DO UPDATE": lambda: run(merged, any_id()),
    }


def _runs(operation: Callable[[], object], seconds: float) -> dict[str, float]:
    """Run `operation` for so long, after once that does not count."""
    operation()
    times: list[float] = []
    cpu = time.process_time()
    while len(times) < FEWEST_RUNS or sum(times) < seconds:
        before = time.perf_counter()
        operation()
        times.append(time.perf_counter() - before)
    spent = time.process_time() - cpu
    return {
        "rate": len(times) / sum(times),
        "p50_ms": sorted(times)[len(times) // 2] * 1000,
        "cpu_ms": spent * 1000 / len(times),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The process that `measure` starts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lake", choices=LAKES)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tidegate-lake-") as folder:
        make = {"delta": delta, "iceberg": iceberg, "ducklake": ducklake}[options.lake]
        operations = make(folder, options.rows)
        # Reads first: they are to be of the table as it was loaded.
        order = sorted(OPERATIONS, key=lambda name: name not in ("point read", "range of 100"))
        print(json.dumps({name: _runs(operations[name], options.seconds) for name in order}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
