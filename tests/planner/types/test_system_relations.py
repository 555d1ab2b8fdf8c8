"""Every built-in relation binds, with PostgreSQL's columns."""

from __future__ import annotations

from planner.catalog_data import content as catalog_data
from planner.types.system_relations import BuiltinRelations
from planner.types.types import INT2, INT2VECTOR, INT4, NAME, OID, TID, VARCHAR, SqlType


def test_pg_index_has_postgresql_columns_in_order() -> None:
    relation = BuiltinRelations().lookup("pg_catalog", "pg_index")
    assert relation is not None
    assert relation.oid == 2610
    assert [name for name, _ in relation.columns][:5] == [
        "indexrelid",
        "indrelid",
        "indnatts",
        "indnkeyatts",
        "indisunique",
    ]
    types = dict(relation.columns)
    assert types["indkey"] == SqlType(INT2VECTOR)
    assert types["indnatts"] == SqlType(INT2)
    assert relation.positions["tableoid"] == -6
    assert ("ctid", -1, SqlType(TID)) in relation.system_columns


def test_information_schema_columns_have_the_types_under_their_domains() -> None:
    relation = BuiltinRelations().lookup("information_schema", "columns")
    assert relation is not None
    types = dict(relation.columns)
    assert types["table_name"] == SqlType(NAME)
    assert types["ordinal_position"] == SqlType(INT4)
    assert types["is_nullable"] == SqlType(VARCHAR, 7)
    assert relation.system_columns == ()


def test_every_relation_binds_and_is_made_of_known_types() -> None:
    relations = BuiltinRelations()
    known = catalog_data.types()
    for schema, name in catalog_data.relations():
        relation = relations.lookup(schema, name)
        assert relation is not None
        assert relation.columns
        assert all(column.oid in known for _, column in relation.columns)


def test_unknown_relations_are_none() -> None:
    assert BuiltinRelations().lookup("pg_catalog", "pg_nope") is None
    assert BuiltinRelations().lookup("public", "pg_class") is None


def test_core_types_and_casts_are_postgresql() -> None:
    assert catalog_data.types()[OID].name == "oid"
    cast = catalog_data.casts()[(INT4, 20)]
    assert (cast.context, cast.method, cast.func) == ("i", "f", 481)
