"""dbt-postgres with four threads: `projects/dbt`, built twice, fully refreshed beside another tool's migrations."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

import psycopg

from tests.clients_basic.client import PROJECTS, Check, Client, Place, run_tool
from tests.clients_basic.installing import python_packages

_WITHOUT = ("--exclude", "config.materialized:materialized_view")
_MIGRATIONS = 12
_NOW = {"customers_history": ("dbt_scd_id", "dbt_updated_at", "dbt_valid_from", "dbt_valid_to")}
"""Columns that depend on the time of the run."""


def _dbt(place: Place, *arguments: str) -> list[str]:
    """Run dbt and return what became of each node, in the order of their names."""
    home = place.folder / "project"
    if not home.exists():
        shutil.copytree(PROJECTS / "dbt", home)
    environment = {
        "SHOP_HOST": place.host,
        "SHOP_PORT": str(place.port),
        "SHOP_DATABASE": place.database,
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
    }
    run_tool(place.installed / "bin" / "dbt", *arguments, "--profiles-dir", home, cwd=home, environment=environment)
    return _results(home / "target" / "run_results.json")


def _results(file: Path) -> list[str]:
    results = json.loads(file.read_text(encoding="utf-8"))["results"]
    return sorted(f"{result['unique_id']} {result['status']} {result['message']}" for result in results)


def _content(place: Place) -> list[str]:
    """Every relation of the schema: its kind, its columns with their types, its rows, its indexes and comments."""
    lines = place.rows(
        "SELECT c.relname, c.relkind, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, "
        "obj_description(c.oid, 'pg_class'), col_description(c.oid, a.attnum) FROM pg_class c "
        "JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relnamespace = 'shop'::regnamespace AND a.attnum > 0 "
        "AND c.relkind IN ('r', 'v') AND NOT attisdropped ORDER BY c.relname, a.attnum"
    )
    lines += place.rows(
        "SELECT conrelid::regclass, contype, pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE connamespace = 'shop'::regnamespace ORDER BY conrelid::regclass::text, 2, 3"
    )
    lines += place.rows(
        "SELECT tablename, regexp_replace(indexdef, 'INDEX \\S+ ON', 'INDEX ON') FROM pg_indexes "
        "WHERE schemaname = 'shop' ORDER BY 1, 2"
    )
    for relation in _tables(place):
        left_out = ",".join(_NOW.get(relation, ()))
        row = f"(to_jsonb(r) - '{{{left_out}}}'::text[])::text"
        lines += place.rows(f"SELECT {row} FROM shop.{relation} AS r ORDER BY 1")
    return lines


def _tables(place: Place) -> list[str]:
    with psycopg.connect(place.dsn()) as connection:
        found = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'shop'::regnamespace AND relkind IN ('r', 'v') "
            "ORDER BY 1"
        )
        return [name for (name,) in found]


def _seed(place: Place) -> Sequence[str]:
    return [*_dbt(place, "seed"), *_content(place)]


def _run(place: Place) -> Sequence[str]:
    return [*_dbt(place, "run", *_WITHOUT), *_content(place)]


def _increment(place: Place) -> Sequence[str]:
    place.execute(
        "UPDATE shop.orders SET amount = amount + 1, changed_at = '2024-04-01' WHERE id IN (3, 55);"
        "INSERT INTO shop.orders VALUES (61, 1, 'A-1', 5, '2024-04-02'), (62, 2, 'A-2', 6, '2024-04-03')"
    )
    return [*_dbt(place, "run", *_WITHOUT, "--vars", "{factor: 2}"), *_content(place)]


def _new_column(place: Place) -> Sequence[str]:
    return [*_dbt(place, "run", "--select", "incremental_*", "--vars", "{more: true}"), *_content(place)]


def _full_refresh(place: Place) -> Sequence[str]:
    return [*_dbt(place, "run", "--full-refresh", *_WITHOUT), *_content(place)]


def _snapshot(place: Place) -> Sequence[str]:
    lines = _dbt(place, "snapshot")
    _dbt(place, "run-operation", "touch")
    place.execute("UPDATE shop.orders SET amount = 0, changed_at = '2024-05-01' WHERE id = 7")
    lines += _dbt(place, "snapshot")
    (ended,) = place.rows("SELECT count(*) FROM shop.customers_history WHERE dbt_valid_to IS NOT NULL")
    assert ended == "(2,)", ended
    return [*lines, *_content(place)]


def _tests(place: Place) -> Sequence[str]:
    return _dbt(place, "test", "--select", "test_type:data")


def _unit_tests(place: Place) -> Sequence[str]:
    lines = _dbt(place, "test", "--select", "test_type:unit")
    assert len(lines) == 2, lines
    return lines


def _docs(place: Place) -> Sequence[str]:
    _dbt(place, "docs", "generate", *_WITHOUT)
    catalog = json.loads((place.folder / "project" / "target" / "catalog.json").read_text(encoding="utf-8"))
    assert not catalog["errors"], catalog["errors"]
    return json.dumps([catalog["nodes"], catalog["sources"]], indent=1, sort_keys=True).splitlines()


def _materialized_view(place: Place) -> Sequence[str]:
    return _dbt(place, "run", "--select", "totals_materialized")


def _beside_migrations(place: Place) -> Sequence[str]:
    """Two full refreshes of all seeds, each with four threads, while another tool migrates tables and views."""
    stop, failures, done = threading.Event(), list[str](), list[int]()

    def migrate() -> None:
        try:
            with psycopg.connect(place.dsn()) as connection:
                number = 0
                while not stop.is_set() or number < _MIGRATIONS:
                    _migration(connection, number)
                    number += 1
                    done.append(number)
        except psycopg.Error as error:
            failures.append(f"{error.sqlstate}: {error}")

    other = threading.Thread(target=migrate)
    other.start()
    try:
        lines = _dbt(place, "seed", "--full-refresh")
        lines += _dbt(place, "build", "--full-refresh", *_WITHOUT)
    finally:
        stop.set()
        other.join()
    assert not failures, failures
    assert len(done) >= _MIGRATIONS, done
    return [*lines, *_content(place)]


def _migration(connection: psycopg.Connection, number: int) -> None:
    """One migration, in a transaction, its number kept in a table: what Alembic and Flyway do."""
    table = f"shop_migrated.stock_{number % 3}"
    for sql in (
        "CREATE SCHEMA IF NOT EXISTS shop_migrated",
        "CREATE TABLE IF NOT EXISTS shop_migrated.version (number int PRIMARY KEY)",
        f"DROP TABLE IF EXISTS {table} CASCADE",
        f"CREATE TABLE {table} (id serial PRIMARY KEY, sku text NOT NULL)",
        f"ALTER TABLE {table} ADD COLUMN pieces int NOT NULL DEFAULT 0",
        f"CREATE INDEX ON {table} (sku)",
        f"INSERT INTO {table} (sku) VALUES ('A-1')",
        f"CREATE VIEW {table}_seen AS SELECT sku, pieces FROM {table}",
        f"INSERT INTO shop_migrated.version VALUES ({number})",
    ):
        connection.execute(sql.encode())
    connection.commit()


CLIENT = Client(
    name="dbt-postgres",
    version="1.11.0 (dbt-core 1.11.16)",
    install=lambda: python_packages("dbt"),
    checks=(
        Check("seed, four threads", _seed),
        Check("seed again", _seed),
        Check("run: views, tables, a contract with constraints, an ephemeral model, indexes, comments", _run),
        Check("run again: incremental by append, delete+insert and merge", _increment),
        Check("incremental with a new column (on_schema_change)", _new_column),
        Check("run --full-refresh", _full_refresh),
        Check("snapshots by timestamp and by check, with deleted rows", _snapshot),
        Check("data tests", _tests),
        Check("unit tests", _unit_tests),
        Check("docs generate", _docs),
        Check("seed and build --full-refresh, four threads, beside another tool's migrations", _beside_migrations),
        Check("a materialized view", _materialized_view),
    ),
)
