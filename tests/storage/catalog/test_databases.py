"""The catalog of an environment and those of its databases."""

from __future__ import annotations

from msgspec.structs import replace

from storage.catalog.access import Role
from storage.catalog.model import (
    POSTGRES_DATABASE_OID,
    WHOLE,
    CatalogRecord,
    CatalogSnapshot,
    CatalogUpdate,
    Comment,
    Constraint,
    Database,
    Relation,
    Schema,
)
from storage.catalog.standard_objects import TEMPLATE0_DATABASE_OID, TEMPLATE1_DATABASE_OID, bootstrap_updates
from storage.timestamps.csn import Csn

DATABASE = Database(oid=20_000, name="d", owner=10)
SCHEMA = Schema(oid=20_001, name="public", owner=10, database=DATABASE.oid)
TABLE = Relation(oid=20_002, name="t", schema=SCHEMA.oid, owner=10, kind="r", columns=())
CHECK = Constraint(oid=20_003, name="c", relation=TABLE.oid, kind="c")
COMMENT = Comment(oid=20_004, object_oid=CHECK.oid, text="why", database=DATABASE.oid)
OWN = (SCHEMA, TABLE, CHECK, COMMENT)


def added(*records: CatalogRecord) -> list[CatalogUpdate]:
    return [CatalogUpdate(record=record, diff=1) for record in records]


def removed(*records: CatalogRecord) -> list[CatalogUpdate]:
    return [CatalogUpdate(record=record, diff=-1) for record in records]


BEFORE = CatalogSnapshot.empty().apply(bootstrap_updates(), Csn(1))
# Children before what they are in: the order of updates says nothing.
AFTER = BEFORE.apply(added(COMMENT, CHECK, TABLE, SCHEMA, DATABASE), Csn(2))


def oids(catalog: CatalogSnapshot) -> set[int]:
    return {record.oid for record in catalog.all()}


def test_each_database_sees_its_own_objects_and_what_all_share() -> None:
    shared = oids(AFTER.databases[WHOLE])
    assert DATABASE.oid in shared
    assert oids(AFTER.databases[DATABASE.oid]) - shared == {record.oid for record in OWN}
    assert set(AFTER.databases) == {
        WHOLE, POSTGRES_DATABASE_OID, TEMPLATE0_DATABASE_OID, TEMPLATE1_DATABASE_OID, DATABASE.oid
    }  # fmt: skip
    whole = set().union(*(oids(catalog) for catalog in AFTER.databases.values()))
    assert oids(AFTER) == whole


def test_names_are_those_of_a_database() -> None:
    here, there = AFTER.databases[DATABASE.oid], AFTER.databases[POSTGRES_DATABASE_OID]
    assert here.schema("public") == SCHEMA
    assert there.schema("public") != SCHEMA
    assert here.schema("pg_catalog") == there.schema("pg_catalog") is not None
    assert here.relation(SCHEMA.oid, "t") == TABLE
    assert there.get(TABLE.oid) is None


def test_a_database_takes_no_notice_of_changes_to_others() -> None:
    there = AFTER.databases[POSTGRES_DATABASE_OID]
    role = Role(oid=20_010, name="r")
    after = there.apply([*removed(*OWN), *added(role)], Csn(3))
    assert oids(after) - oids(there) == {role.oid}
    again = AFTER.apply(added(role), Csn(3))
    assert all(role.oid in oids(catalog) for catalog in again.databases.values())


def test_what_is_shared_with_others_reaches_a_new_database_too() -> None:
    role = Role(oid=20_010, name="r")
    later = AFTER.apply(added(role), Csn(3))
    second = Database(oid=20_020, name="e", owner=10)
    assert role.oid in oids(later.apply(added(second), Csn(4)).databases[second.oid])


def test_a_database_that_is_renamed_keeps_its_objects_and_one_that_is_dropped_goes() -> None:
    renamed = AFTER.apply([*removed(DATABASE), *added(replace(DATABASE, name="e"))], Csn(3))
    assert renamed.databases[DATABASE.oid].relation(SCHEMA.oid, "t") == TABLE
    dropped = AFTER.apply(removed(DATABASE, *OWN), Csn(3))
    assert DATABASE.oid not in dropped.databases
    assert oids(dropped) == oids(BEFORE)


def test_all_catalogs_are_as_of_the_same_csn() -> None:
    assert {catalog.csn for catalog in AFTER.databases.values()} == {AFTER.csn}
    assert {catalog.next_oid for catalog in AFTER.databases.values()} == {AFTER.next_oid}
