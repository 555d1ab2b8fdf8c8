"""The temporary objects of a session, over the shared catalog."""

from __future__ import annotations

import pytest

from storage.catalog.model import CatalogSnapshot, CatalogUpdate, Column, Comment, Relation, Schema
from storage.catalog.standard_objects import bootstrap_updates
from storage.catalog.temporary import FIRST_TEMPORARY_OID, TemporaryObjects, is_temporary
from storage.timestamps.csn import Csn

OID = FIRST_TEMPORARY_OID
SCHEMA = Schema(oid=OID, name="pg_temp_3", owner=10)
COLUMNS = (Column(attnum=1, name="a", type_oid=23),)
TABLE = Relation(oid=OID + 1, name="t", schema=OID, owner=10, kind="r", columns=COLUMNS)
VIEW = Relation(
    oid=OID + 2, name="v", schema=OID, owner=10, kind="v", columns=COLUMNS, definition="", depends_on=(OID + 1,)
)
COMMENT = Comment(oid=OID + 3, object_oid=OID + 2, text="seen")
SHARED = CatalogSnapshot.empty().apply(bootstrap_updates(), Csn(1))


def as_it_is(relation: Relation, catalog: CatalogSnapshot) -> Relation:
    return relation


def of(*records: Schema | Relation | Comment) -> TemporaryObjects:
    return TemporaryObjects().apply(CatalogUpdate(record, 1) for record in records)


def test_they_are_found_in_their_schema_by_either_name() -> None:
    seen = of(SCHEMA, TABLE).over(SHARED, as_it_is)
    for name in ("pg_temp", "pg_temp_3"):
        schema = seen.schema(name)
        assert schema is not None
        assert seen.relation(schema.oid, "t") == TABLE
    assert seen.schema("public") == SHARED.schema("public")
    assert SHARED.schema("pg_temp") is None
    assert seen.csn == SHARED.csn


def test_the_same_two_make_the_same_value() -> None:
    objects = of(SCHEMA, TABLE)
    seen = objects.over(SHARED, as_it_is)
    assert objects.over(SHARED, as_it_is) is seen
    later = SHARED.apply([], Csn(2))
    assert objects.over(later, as_it_is) is not seen
    assert objects.over(later, as_it_is).csn == Csn(2)


def test_updates_have_to_fit() -> None:
    objects = of(SCHEMA, TABLE)
    with pytest.raises(ValueError, match="is taken"):
        objects.apply([CatalogUpdate(TABLE, 1)])
    with pytest.raises(ValueError, match="not there"):
        objects.apply([CatalogUpdate(VIEW, -1)])
    assert objects.apply([CatalogUpdate(TABLE, -1)]).records == of(SCHEMA).records


def test_what_goes_takes_along_what_depends_on_it() -> None:
    objects = of(SCHEMA, TABLE, VIEW, COMMENT).at_commit(TABLE.oid, "delete")
    assert objects.without([]).records == objects.records
    left = objects.without([VIEW.oid])
    assert set(left.records) == {SCHEMA.oid, TABLE.oid}
    assert dict(left.on_commit) == {TABLE.oid: "delete"}
    left = objects.without([TABLE.oid])
    assert set(left.records) == {SCHEMA.oid}
    assert left.is_empty
    assert not left.on_commit
    assert not objects.is_empty


def test_an_oid_tells_what_is_temporary() -> None:
    assert is_temporary(TABLE.oid)
    assert not is_temporary(16384)
    assert not is_temporary(FIRST_TEMPORARY_OID - 1)
