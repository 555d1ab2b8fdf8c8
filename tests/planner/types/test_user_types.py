"""Types of users: found by name and oid in the catalog in force, and called by number in what the catalog keeps."""

from __future__ import annotations

import pyarrow as pa

from planner.ir.physical import arrow_type, element_type
from planner.types import derived_oids
from planner.types.type_names import array_of, element_of, format_type
from planner.types.type_scope import names_to_keep, types_of
from planner.types.types import INT4, INT8, TEXT, SqlType
from planner.types.user_types import (
    attributes,
    find_type,
    held_as,
    mentioned,
    types_used,
    value_to_keep,
    with_names_shown,
)
from storage.catalog.model import (
    COMPOSITE,
    PUBLIC_SCHEMA_OID,
    CatalogSnapshot,
    CatalogUpdate,
    Column,
    EnumType,
    Relation,
)
from storage.catalog.standard_objects import bootstrap_updates
from storage.catalog.types import ENUM_SPACING, EnumLabel
from storage.timestamps.csn import Csn

MOOD = EnumType(
    oid=20000,
    name="mood",
    schema=PUBLIC_SCHEMA_OID,
    owner=10,
    labels=(
        EnumLabel(oid=20001, name="sad", position=ENUM_SPACING),
        EnumLabel(oid=20002, name="o'k", position=2 * ENUM_SPACING),
    ),
)
PAIR = Relation(
    oid=20010,
    name="Pair",
    schema=PUBLIC_SCHEMA_OID,
    owner=10,
    kind=COMPOSITE,
    columns=(
        Column(attnum=1, name="a", type_oid=INT4),
        Column(attnum=2, name="gone", type_oid=INT4, dropped=True),
        Column(attnum=3, name="m", type_oid=derived_oids.row_type_oid(20000)),
    ),
)
MOOD_OID, PAIR_OID = derived_oids.row_type_oid(MOOD.oid), derived_oids.row_type_oid(PAIR.oid)


def catalog() -> CatalogSnapshot:
    updates = [*bootstrap_updates(), CatalogUpdate(record=MOOD, diff=1), CatalogUpdate(record=PAIR, diff=1)]
    return CatalogSnapshot.empty().apply(updates, Csn(1))


def test_names_are_found_along_the_path() -> None:
    with types_of(catalog(), ("public",)):
        assert find_type(("mood",)) == MOOD_OID
        assert find_type(("_mood",)) == array_of(MOOD_OID)
        assert find_type(("public", "Pair")) == PAIR_OID
        assert find_type(("pair",)) == 0
        assert (format_type(MOOD_OID), format_type(array_of(PAIR_OID))) == ("mood", '"Pair"[]')
    with types_of(catalog(), ()):
        assert find_type(("mood",)) == 0
        assert format_type(array_of(MOOD_OID)) == "public.mood[]"
    assert format_type(MOOD_OID) == "???"


def test_arrays_and_their_elements() -> None:
    with types_of(catalog(), ()):
        assert element_of(array_of(MOOD_OID)) == MOOD_OID
        assert element_type(SqlType(array_of(PAIR_OID))) == SqlType(PAIR_OID)
        assert element_of(MOOD_OID) == 0


def test_values_are_held_as_numbers_and_structs() -> None:
    with types_of(catalog(), ()):
        assert arrow_type(SqlType(MOOD_OID)) == pa.int64()
        assert arrow_type(SqlType(array_of(MOOD_OID))) == pa.list_(pa.int64())
        assert arrow_type(SqlType(PAIR_OID)) == pa.struct([pa.field("a1", pa.int32()), pa.field("a3", pa.int64())])
        assert held_as(SqlType(MOOD_OID)) == SqlType(INT8)
        assert held_as(SqlType(TEXT)) == SqlType(TEXT)
        assert [field.name for field in attributes(PAIR_OID) or ()] == ["a", "m"]
        assert attributes(MOOD_OID) is None


def test_what_is_kept_says_numbers_and_is_shown_with_names() -> None:
    with types_of(catalog(), ("public",)):
        assert value_to_keep(ENUM_SPACING, SqlType(MOOD_OID)) is None
        with names_to_keep():
            assert format_type(MOOD_OID) == 'tidegate."20000"'
            kept = value_to_keep(2 * ENUM_SPACING, SqlType(MOOD_OID))
            several = value_to_keep((ENUM_SPACING, None), SqlType(array_of(MOOD_OID)))
        assert kept is not None
        assert several is not None
        assert with_names_shown(f"(m = {kept})") == "(m = 'o''k'::mood)"
        assert with_names_shown(several) == "'{sad,NULL}'::mood[]"
        assert find_type(("tidegate", "20000")) == MOOD_OID
        assert mentioned(f'{kept} = x::tidegate."20010"') == (20000, 20010)


def test_a_relation_needs_the_types_of_its_columns() -> None:
    assert types_used(PAIR) == (MOOD.oid,)
