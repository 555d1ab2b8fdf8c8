"""The catalog functions inside the local engine give what PostgreSQL's give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pytest

from adapter.engines.common.scan_sources import scan_needs
from adapter.execution_context import ExecutionContext, Row
from adapter.system_catalogs.local_engine import LocalCatalog, Scope
from planner.ir import nodes as ir
from planner.types.system_relations import BuiltinRelations
from planner.types.types import OID, SqlType
from storage.catalog.model import CatalogSnapshot
from tests.adapter.system_catalogs.demo import CUSTOMER, NAMES, ORDERS, SEQUENCE, demo_catalog


class ShownSettings:
    """What a session knows, of which the settings are asked for here."""

    def rows(self, relation: str) -> Sequence[Row]:
        row = {"name": "TimeZone", "setting": "Europe/Berlin", "vartype": "string"}
        return [row] if relation == "pg_settings" else []

    def relation_size(self, oid: int) -> int:
        return 0

    knows_extents = False

    def relation_rows(self, oid: int) -> int | None:
        return None

    def database_size(self, oid: int) -> int:
        return 0

    def setting(self, name: str) -> str | None:
        return {"timezone": "Europe/Berlin"}.get(name.lower())

    def blocking_pids(self, pid: int) -> Sequence[int]:
        return []

    def listening_channels(self) -> Sequence[str]:
        return []

    def now_ms(self) -> int:
        return 0


def context_of(catalog: CatalogSnapshot, user: str = "postgres") -> ExecutionContext:
    return ExecutionContext(
        token="t1",
        catalog=catalog,
        search_path=("$user", "public"),
        user=user,
        database="postgres",
        settings={"TimeZone": "Europe/Berlin"},
        facts=ShownSettings(),
    )


def scan_of(name: str, attnum: int = 1) -> ir.SystemScan:
    relation = BuiltinRelations().lookup("pg_catalog", name)
    assert relation is not None
    origin = ir.Origin(relation_oid=relation.oid, attnum=attnum)
    column = ir.Field(id=1, name="x", type=SqlType(OID), origin=origin)
    return ir.SystemScan(schema="pg_catalog", name=name, relation_oid=relation.oid, fields=(column,))


@pytest.fixture
def engine() -> Iterator[tuple[Any, Scope]]:
    connection = duckdb.connect()
    catalog = LocalCatalog(connection)
    with catalog.entered(scan_needs(scan_of("pg_class")).system, context_of(demo_catalog()), connection) as scope:
        yield connection, scope
    connection.close()


CASES = {
    "tg_regclass_out('t1', 16400)": "customer",
    "tg_regclass_out('t1', 16410)": "sales.orders",
    "tg_regclass_out('t1', 16420)": '"Weird Table"',
    "tg_regclass_out('t1', 99)": "99",
    "tg_regclass_out('t1', 0)": "-",
    "tg_regclass_in('t1', 'sales.orders')": ORDERS,
    "tg_regclass_in('t1', '\"Weird Table\"')": 16420,
    "tg_regclass_in('t1', 'postgres.public.customer')": CUSTOMER,
    "tg_regclass_in('t1', 'pg_class')": 1259,
    "tg_regclass_in('t1', 'seq1')": SEQUENCE,
    "tg_to_regclass('t1', 'nosuch')": None,
    "tg_regtype_in('t1', 'int4[]')": 1007,
    "tg_regtype_in('t1', 'character varying(10)')": 1043,
    "tg_regtype_out('t1', 1184)": "timestamp with time zone",
    "tg_regproc_out('t1', 1397)": "pg_catalog.abs",
    "tg_regproc_out('t1', 750)": "array_in",
    "tg_regprocedure_out('t1', 1397)": "abs(integer)",
    "tg_regprocedure_in('t1', 'abs(int4)')": 1397,
    "tg_regoperator_in('t1', '+(int4,int4)')": 551,
    "tg_regoperator_out('t1', 551)": "+(integer,integer)",
    "tg_regnamespace_in('t1', 'sales')": 16391,
    "tg_regrole_out('t1', 10)": "postgres",
    "tg_format_type('t1', 1043, 84)": "character varying(80)",
    "tg_format_type('t1', 99999, -1)": "???",
    "tg_format_type('t1', NULL, -1)": None,
    "tg_get_userbyid('t1', 99)": "unknown (OID=99)",
    "tg_get_constraintdef('t1', 16401, FALSE)": "PRIMARY KEY (id)",
    "tg_get_constraintdef('t1', 16403, FALSE)": "CHECK ((balance >= (0)::numeric))",
    "tg_get_constraintdef('t1', 16403, TRUE)": "CHECK (balance >= 0::numeric)",
    "tg_current_setting('t1', 'timezone', FALSE)": "Europe/Berlin",
    "tg_current_setting('t1', 'nosuch', TRUE)": None,
    "tg_get_constraintdef('t1', 16412, FALSE)": "FOREIGN KEY (customer_id) REFERENCES customer(id)",
    "tg_get_indexdef('t1', 400016401, 0, FALSE)": (
        "CREATE UNIQUE INDEX customer_pkey ON public.customer USING btree (id)"
    ),
    "tg_get_indexdef('t1', 400016401, 1, FALSE)": "id",
    "tg_get_viewdef('t1', 16430, FALSE, 0)": " SELECT customer.name\n   FROM customer;",
    "tg_get_viewdef('t1', 1259, FALSE, 0)": None,
    "tg_get_ruledef('t1', 1600016430, FALSE)": (
        'CREATE RULE "_RETURN" AS\n    ON SELECT TO public.names DO INSTEAD  SELECT customer.name\n   FROM customer;'
    ),
    "tg_get_function_arguments('t1', 3060, FALSE)": "text, integer",
    "tg_get_function_result('t1', 1397)": "integer",
    "tg_is_visible('t1', 'table', 16410)": False,
    "tg_is_visible('t1', 'table', 16400)": True,
    "tg_is_visible('t1', 'table', 999999)": None,
    "tg_obj_description('t1', 16400, 'pg_class')": "customers",
    "tg_col_description('t1', 16400, 2)": "full name",
    "tg_obj_description('t1', 1397, 'pg_proc')": "absolute value",
    "tg_shobj_description('t1', 5, 'pg_database')": "default administrative connection database",
    "tg_describe_object('t1', 1259, 16400, 2)": "column name of table customer",
    "tg_has_privilege('t1', 'table', 'c', 'ncustomer', 'SELECT')": True,
    "tg_has_privilege('t1', 'table', 'napp', 'ncustomer', 'SELECT')": False,
    "tg_has_privilege('t1', 'schema', 'napp', 'npublic', 'USAGE')": True,
    "tg_has_privilege('t1', 'table', 'c', 'o99999', 'SELECT')": None,
    "tg_acldefault('t1', 'd', 10)": ["=Tc/postgres", "postgres=CTc/postgres"],
    "tg_oidvectortypes('t1', [23, 25])": "integer, text",
    "tg_encoding_to_char(6)": "UTF8",
    "tg_char_to_encoding('utf-8')": 6,
    "tg_quote_ident('Weird')": '"Weird"',
}


@pytest.mark.parametrize("expression", CASES)
def test_results(engine: tuple[Any, Scope], expression: str) -> None:
    connection, _ = engine
    assert connection.execute(f"SELECT {expression}").fetchall()[0][0] == CASES[expression]


ERRORS = {
    "tg_regclass_in('t1', 'nosuch')": ("42P01", 'relation "nosuch" does not exist'),
    "tg_regclass_in('t1', 'nosuch.t')": ("3F000", 'schema "nosuch" does not exist'),
    "tg_regclass_in('t1', 'a b')": ("42602", "invalid name syntax"),
    "tg_regtype_in('t1', 'nosuch')": ("42704", 'type "nosuch" does not exist'),
    "tg_regproc_in('t1', 'abs')": ("42725", 'more than one function named "abs"'),
    "tg_regprocedure_in('t1', 'nosuch(int4)')": ("42883", 'function "nosuch(int4)" does not exist'),
    "tg_regrole_in('t1', 'nosuch')": ("42704", 'role "nosuch" does not exist'),
    "tg_has_privilege('t1', 'table', 'c', 'ncustomer', 'FLY')": ("22023", 'unrecognized privilege type: "FLY"'),
}


@pytest.mark.parametrize("expression", ERRORS)
def test_errors_are_kept_for_the_engine(engine: tuple[Any, Scope], expression: str) -> None:
    connection, scope = engine
    with pytest.raises(duckdb.Error):
        connection.execute(f"SELECT {expression}")
    error = scope.context.error
    assert error is not None
    assert (error.sqlstate, error.message) == ERRORS[expression]


def test_system_columns_are_there_when_asked_for() -> None:
    connection = duckdb.connect()
    catalog = LocalCatalog(connection)
    with catalog.entered(scan_needs(scan_of("pg_class", -6)).system, context_of(demo_catalog()), connection) as scope:
        source = scope.sources[1259].sql
        row = connection.execute(f"SELECT s6, s2, s1 FROM {source} WHERE c2 = 'pg_class'").fetchall()[0]
        assert row[0] == 1259
        assert row[2].startswith("(0,")


def test_settings_are_the_sessions() -> None:
    connection = duckdb.connect()
    catalog = LocalCatalog(connection)
    scan = scan_of("pg_settings")
    with catalog.entered(scan_needs(scan).system, context_of(demo_catalog()), connection) as scope:
        (source,) = scope.sources.values()
        rows = connection.execute(f"SELECT c1, c2, c8 FROM {source.sql}").fetchall()
    assert rows == [("TimeZone", "Europe/Berlin", "string")]


def test_each_snapshot_has_tables_of_its_own() -> None:
    from storage.catalog.model import CatalogUpdate, Schema
    from storage.timestamps.csn import Csn

    connection = duckdb.connect()
    catalog = LocalCatalog(connection)
    first = demo_catalog()
    added = CatalogUpdate(record=Schema(oid=16500, name="later", owner=10), diff=1)
    second = first.apply([added], Csn(3))
    seen = []
    for snapshot in (first, second, first):
        with catalog.entered(scan_needs(scan_of("pg_namespace")).system, context_of(snapshot), connection) as scope:
            (source,) = scope.sources.values()
            names = connection.execute(f"SELECT c2 FROM {source.sql}").fetchall()
            seen.append(("later",) in names)
    assert seen == [False, True, False]
    assert NAMES in {relation.oid for relation in catalog.catalogs.objects(first, "postgres").relations}


def test_tables_of_old_snapshots_are_dropped() -> None:
    from adapter.system_catalogs.relations.contents import MAX_SNAPSHOTS
    from storage.catalog.model import CatalogUpdate, Schema
    from storage.timestamps.csn import Csn

    connection = duckdb.connect()
    catalog = LocalCatalog(connection)
    snapshot = demo_catalog()
    for number in range(MAX_SNAPSHOTS + 5):
        added = CatalogUpdate(record=Schema(oid=17000 + number, name=f"s{number}", owner=10), diff=1)
        snapshot = snapshot.apply([added], Csn(3 + number))
        with catalog.entered(scan_needs(scan_of("pg_namespace")).system, context_of(snapshot), connection) as scope:
            (source,) = scope.sources.values()
            assert (f"s{number}",) in connection.execute(f"SELECT c2 FROM {source.sql}").fetchall()
    (count,) = connection.execute("SELECT count(*) FROM duckdb_tables() WHERE schema_name = 'tg_system'").fetchall()[0]
    assert count == MAX_SNAPSHOTS
