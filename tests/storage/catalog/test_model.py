"""The catalog's value: what it finds by relation, and that records of earlier versions are still read."""

from __future__ import annotations

import msgspec
import pytest

from storage.catalog import store
from storage.catalog.model import (
    CatalogRecord,
    CatalogSnapshot,
    CatalogUpdate,
    Column,
    Constraint,
    Index,
    Relation,
    Schema,
)
from storage.errors import NewerFormat
from storage.ids import ShardId
from storage.timestamps.csn import Csn

PRIMARY = Constraint(oid=20001, name="a_pkey", relation=20000, kind="p", columns=(1,))
CHECK = Constraint(oid=20002, name="a_check", relation=20000, kind="c", columns=(1,), expression="x > 0", enforced=True)
FOREIGN = Constraint(
    oid=20003, name="b_fkey", relation=20100, kind="f", columns=(2,), foreign_relation=20000, foreign_columns=(1,)
)
SELF = Constraint(
    oid=20004, name="a_fkey", relation=20000, kind="f", columns=(2,), foreign_relation=20000, foreign_columns=(1,)
)


def catalog(*updates: tuple[Constraint, int]) -> CatalogSnapshot:
    found = CatalogSnapshot.empty()
    for number, (record, diff) in enumerate(updates, 1):
        found = found.apply([CatalogUpdate(record=record, diff=diff)], Csn(number))
    return found


def test_constraints_are_found_by_both_of_their_relations() -> None:
    snapshot = catalog((FOREIGN, 1), (SELF, 1), (CHECK, 1), (PRIMARY, 1))
    assert snapshot.constraints(20000) == (PRIMARY, CHECK, SELF)
    assert snapshot.constraints(20100) == (FOREIGN,)
    assert snapshot.referencing(20000) == (FOREIGN, SELF)
    assert snapshot.referencing(20100) == ()
    assert snapshot.constraints(1) == ()


def test_a_constraint_that_is_gone_is_found_no_more() -> None:
    changed = msgspec.structs.replace(CHECK, name="other")
    snapshot = catalog((CHECK, 1), (FOREIGN, 1), (CHECK, -1), (changed, 1), (FOREIGN, -1))
    assert snapshot.constraints(20000) == (changed,)
    assert snapshot.referencing(20000) == ()
    assert not catalog((CHECK, 1), (CHECK, -1)).constraint_oids


TABLE = Relation(
    oid=20000,
    name="a",
    schema=2200,
    owner=10,
    kind="r",
    columns=(Column(attnum=1, name="x", type_oid=23, not_null=True, default="5"),),
    shard=ShardId("s" + "a" * 26),
)
INDEX = Index(
    oid=20100,
    name="i",
    schema=2200,
    relation=20000,
    columns=(1,),
    options=(0,),
    operator_classes=(1978,),
    collations=(0,),
    unique=True,
)
EARLIER = (
    (
        "8aa474797065a5696e646578a36f6964cd4e84a46e616d65a169a6736368656d61cd0898a872656c6174696f6ecd4e20a763"
        "6f6c756d6e739101a76f7074696f6e739100b06f70657261746f725f636c617373657391cd07baaa636f6c6c6174696f6e73"
        "9100a6756e69717565c3",
        INDEX,
    ),
    (
        "89a474797065aa636f6e73747261696e74a36f6964cd4e21a46e616d65a6615f706b6579a872656c6174696f6ecd4e20a46b"
        "696e64a170a7636f6c756d6e739101aa65787072657373696f6ec0b0666f726569676e5f72656c6174696f6ec0af666f7265"
        "69676e5f636f6c756d6e7390",
        PRIMARY,
    ),
    (
        "89a474797065aa636f6e73747261696e74a36f6964cd4e23a46e616d65a6625f666b6579a872656c6174696f6ecd4e84a46b"
        "696e64a166a7636f6c756d6e739102aa65787072657373696f6ec0b0666f726569676e5f72656c6174696f6ecd4e20af666f"
        "726569676e5f636f6c756d6e739101",
        FOREIGN,
    ),
    (
        "8aa474797065a872656c6174696f6ea36f6964cd4e20a46e616d65a161a6736368656d61cd0898a56f776e65720aa46b696e"
        "64a172a7636f6c756d6e739188a66174746e756d01a46e616d65a178a8747970655f6f696417a67479706d6f64ffa86e6f74"
        "5f6e756c6cc3a764656661756c74a135a76d697373696e67c0a764726f70706564c2a57368617264bb736161616161616161"
        "616161616161616161616161616161616161aa646566696e6974696f6ec0aa646570656e64735f6f6e90",
        TABLE,
    ),
)
"""Records as MessagePack, as they were written before they had all of today's fields; never rewritten."""


@pytest.mark.parametrize(("stored", "record"), EARLIER)
def test_a_record_of_an_earlier_version_is_read(stored: str, record: CatalogRecord) -> None:
    assert msgspec.msgpack.decode(bytes.fromhex(stored), type=CatalogRecord) == record


def test_what_a_later_version_says_of_an_object_is_refused_by_name() -> None:
    known = msgspec.msgpack.encode(Schema(oid=17, name="s", owner=10))
    assert store.decoded(17, known) == Schema(oid=17, name="s", owner=10)
    fields = msgspec.msgpack.decode(known)
    column = msgspec.to_builtins(Column(attnum=1, name="c", type_oid=23))
    relation = msgspec.to_builtins(Relation(oid=17, name="t", schema=1, owner=10, kind="r", columns=()))
    for later in (
        {**fields, "later": 1},
        {**fields, "type": "later"},
        {**relation, "columns": [{**column, "later": 1}]},
    ):
        with pytest.raises(NewerFormat, match=r"object 17 .*later.*upgrade Tidegate"):
            store.decoded(17, msgspec.msgpack.encode(later))
