"""The system relations' rows are PostgreSQL's, for the built-in objects and for the objects of a small schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from adapter.system_catalogs.relations.contents import SystemCatalogs
from planner.catalog_data import content as catalog_data
from storage.catalog.model import CatalogSnapshot
from storage.catalog.standard_objects import bootstrap_updates
from storage.timestamps.csn import Csn
from tests.adapter.system_catalogs.demo import DDL, demo_catalog
from tests.support.postgres import PostgresServer

DATABASE = "system_catalogs"


@pytest.fixture(scope="module")
def oracle(postgres: PostgresServer) -> Iterator[Any]:
    """A connection to a database with the objects of `DDL`."""
    if postgres.major != 15:
        pytest.skip("the generated data are PostgreSQL 15's")
    with psycopg.connect(postgres.dsn(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {DATABASE} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8'")
        with psycopg.connect(postgres.dsn(DATABASE), autocommit=True) as connection:
            connection.execute(DDL)
            # As the content of our relations, which is the same for every session.
            connection.execute("SET search_path = ''")
            yield connection
        admin.execute(f"DROP DATABASE {DATABASE}")
        admin.execute("DROP ROLE app")


def _text(value: object) -> str | None:
    """A value as the oracle's text."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return "{" + ",".join(_text(item) or "NULL" for item in value) + "}"
    return str(value)


def _expression(name: str, type_name: str) -> str:
    if type_name in ("regproc", "regtype", "regclass"):
        return f'"{name}"::oid::text'
    if type_name in ("int2vector", "oidvector"):
        return f"'{{' || replace(\"{name}\"::text, ' ', ',') || '}}'"
    if type_name == "bool":
        return f"CASE WHEN \"{name}\" THEN 't' WHEN NOT \"{name}\" THEN 'f' END"
    return f'"{name}"::text'


def _both(
    oracle: Any, schema: str, name: str, snapshot: CatalogSnapshot, without: tuple[str, ...] = ()
) -> tuple[list[tuple[str | None, ...]], list[tuple[str | None, ...]], list[str]]:
    catalogs = SystemCatalogs()
    relation = catalogs.relation(schema, name)
    kept = [
        (position, column, catalog_data.types()[type.oid].name)
        for position, (column, type) in enumerate(relation.columns)
        if column not in without and catalog_data.types()[type.oid].name != "pg_node_tree"
    ]
    items = ", ".join(_expression(column, type_name) for _, column, type_name in kept)
    theirs = oracle.execute(f"SELECT {items} FROM {schema}.{name}").fetchall()
    table = catalogs.table(schema, name, snapshot, DATABASE)
    ours = list(zip(*([_text(v) for v in table.column(p).to_pylist()] for p, _, _ in kept), strict=True))
    return theirs, ours, [column for _, column, _ in kept]


STATIC = [
    "pg_aggregate",
    "pg_am",
    "pg_amop",
    "pg_amproc",
    "pg_auth_members",
    "pg_cast",
    "pg_conversion",
    "pg_opclass",
    "pg_operator",
    "pg_opfamily",
    "pg_range",
    "pg_tablespace",
    "pg_ts_config",
    "pg_ts_config_map",
    "pg_ts_dict",
    "pg_ts_parser",
    "pg_ts_template",
]


@pytest.mark.parametrize("name", STATIC)
def test_relations_that_never_change(oracle: Any, name: str) -> None:
    theirs, ours, _ = _both(oracle, "pg_catalog", name, demo_catalog())
    assert sorted(ours, key=str) == sorted(theirs, key=str)


def _user_rows(rows: list[tuple[str | None, ...]], columns: list[str], where: str, wanted: set[str]) -> list[Any]:
    at = columns.index(where)
    return sorted((row for row in rows if row[at] in wanted), key=str)


RELATIONS = {"customer", "orders", "Weird Table", "names", "seq1", "customer_pkey", "customer_email_key", "orders_pkey"}

OID_COLUMNS = {
    "pg_class": (
        *("oid", "relnamespace", "reltype", "relowner", "relfilenode", "reltoastrelid", "relfrozenxid", "relminmxid"),
        *("relpages", "reltuples"),
    ),
    "pg_constraint": (
        "oid",
        "connamespace",
        "conrelid",
        "conindid",
        "confrelid",
        "conpfeqop",
        "conppeqop",
        "conffeqop",
    ),
    "pg_type": ("oid", "typnamespace", "typrelid", "typelem", "typarray"),
}


@pytest.mark.parametrize(
    ("name", "key"), [("pg_class", "relname"), ("pg_constraint", "conname"), ("pg_type", "typname")]
)
def test_rows_of_user_objects_but_for_oids(oracle: Any, name: str, key: str) -> None:
    theirs, ours, columns = _both(oracle, "pg_catalog", name, demo_catalog(), OID_COLUMNS[name])
    wanted = RELATIONS | {"orders_customer_fkey", "customer_balance_check"} | {f"_{relation}" for relation in RELATIONS}
    expected = _user_rows(theirs, columns, key, wanted)
    assert len(expected) >= 5
    assert _user_rows(ours, columns, key, wanted) == expected


def test_columns_of_user_relations(oracle: Any) -> None:
    theirs = oracle.execute(
        "SELECT c.relname, a.attname, a.attnum, a.atttypid::int8, a.attlen, a.attndims, a.atttypmod, a.attbyval,"
        " a.attalign::text, a.attstorage::text, a.attnotnull, a.atthasdef, a.attidentity::text, a.attisdropped,"
        " a.attcollation::int8 FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
        " WHERE c.relname = ANY(%s) AND c.relkind <> 'i' ORDER BY 1, 3",
        (list(RELATIONS),),
    ).fetchall()
    catalogs, snapshot = SystemCatalogs(), demo_catalog()
    names = {named.oid: named.name for named in catalogs.objects(snapshot, DATABASE).user_relations.values()}
    relation = catalogs.relation("pg_catalog", "pg_attribute")
    wanted = (
        "attrelid attname attnum atttypid attlen attndims atttypmod attbyval attalign attstorage attnotnull atthasdef "
        "attidentity attisdropped attcollation"
    )
    table = catalogs.table("pg_catalog", "pg_attribute", snapshot, DATABASE)
    values = zip(*(table.column(f"c{relation.positions[c]}").to_pylist() for c in wanted.split()), strict=True)
    ours = [
        (names[row[0]], *row[1:])
        for row in values
        if names.get(row[0]) in RELATIONS and not names[row[0]].endswith(("_pkey", "_key"))
    ]
    assert sorted(ours, key=lambda row: (row[0], row[2])) == theirs


INFORMATION_SCHEMA = {
    "columns": (("is_updatable",), "table_name"),
    "tables": ((), "table_name"),
    "table_constraints": ((), "constraint_name"),
    "key_column_usage": ((), "constraint_name"),
    "constraint_column_usage": ((), "constraint_name"),
    "referential_constraints": ((), "constraint_name"),
    "check_constraints": ((), "constraint_name"),
    "sequences": ((), "sequence_name"),
    "views": (("is_updatable", "is_insertable_into"), "table_name"),
    "view_table_usage": ((), "view_name"),
}


@pytest.mark.parametrize("name", INFORMATION_SCHEMA)
def test_information_schema_of_user_objects(oracle: Any, name: str) -> None:
    without, key = INFORMATION_SCHEMA[name]
    if name == "tables":
        without = ("is_insertable_into",)
    theirs, ours, columns = _both(oracle, "information_schema", name, demo_catalog(), without)
    wanted = RELATIONS | {"orders_customer_fkey", "customer_balance_check"}
    expected = _user_rows(theirs, columns, key, wanted)
    assert expected
    assert _user_rows(ours, columns, key, wanted) == expected


def test_information_schema_columns_of_built_in_relations(oracle: Any) -> None:
    empty = CatalogSnapshot.empty().apply(bootstrap_updates(), Csn(1))
    theirs, ours, columns = _both(oracle, "information_schema", "columns", empty, ("is_updatable",))
    at = columns.index("table_schema")
    system = [row for row in theirs if row[at] in ("pg_catalog", "information_schema")]
    shared = [row for row in ours if row[at] != "tidegate"]
    assert sorted(shared, key=str) == sorted(system, key=str)


def test_views_over_the_catalogs(oracle: Any) -> None:
    for name, key in (("pg_tables", "tablename"), ("pg_views", "viewname"), ("pg_indexes", "tablename")):
        theirs, ours, columns = _both(oracle, "pg_catalog", name, demo_catalog())
        assert _user_rows(ours, columns, key, RELATIONS) == _user_rows(theirs, columns, key, RELATIONS), name
