"""The note of a prepared transaction comes back as it was."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import numpy as np
import pytest
from pyroaring import BitMap64

from adapter.plans.predicates import Comparison
from adapter.transactions.claims import Unchanged
from adapter.transactions.locks import tags
from adapter.transactions.locks.modes import FOR_UPDATE, Mode
from adapter.transactions.two_phase.note import Note, Read, conditions_of
from storage.ids import ShardId
from storage.timestamps.csn import Csn

SHARD = ShardId("s" + "b" * 26)


@pytest.mark.parametrize(
    "value",
    [
        True, 5, -(2**62), 1.5, float("inf"), "it's", b"\x00\xff", Decimal("1.230"), date(2026, 1, 2),
        datetime(2026, 1, 2, 3, 4, 5, 6, UTC), datetime(2026, 1, 2),  # noqa: DTZ001 - a timestamp without one
        time(3, 4, 5), UUID(int=7), None,
        (1, "a", None), [Decimal("NaN")],
    ],
)  # fmt: skip
def test_conditions_come_back(value: object) -> None:
    comparison = Comparison("c1", "=", value, Comparison("c2", ">", 3))
    note = _note(reads=(Read(relation_oid=7, shard=SHARD, conjunctions=conditions_of([(comparison,), ()])),))
    (read,) = note.table_reads(Csn(9))
    assert (read.relation_oid, read.shard, read.as_of) == (7, SHARD, Csn(9))
    assert repr(read.conjunctions) == repr(((comparison,), ()))


def test_what_is_not_known_makes_more_rows_count_as_read() -> None:
    odd, known = Comparison("c1", "=", object()), Comparison("c2", "=", 1)
    assert [len(conjunction) for conjunction in conditions_of([(odd, known), (odd,)])] == [1, 0]
    assert conditions_of([(Comparison("c1", ">=", 1, odd),)]) == ((),)


def test_locks_and_rows_come_back() -> None:
    note = _note(
        locks=(("relation", 16384, 0, 3), ("advisory", 5, (0, 42, 1), 7)),
        rows=((16384, int(FOR_UPDATE), BitMap64([1, 2**44]).serialize()),),
        held=((SHARD, BitMap64([3, 4]).serialize()),),
    )
    assert note.lock_list() == [
        (tags.relation(16384), Mode.ROW_EXCLUSIVE),
        (tags.advisory(5, 0, 42, 1), Mode.EXCLUSIVE),
    ]
    ((relation, mode, ids),) = note.row_lists()
    assert (relation, mode, ids.tolist()) == (16384, FOR_UPDATE, [1, 2**44])
    (claim,) = note.claims(Csn(5))
    assert isinstance(claim, Unchanged)
    assert (claim.shard, claim.row_ids.tolist(), claim.as_of) == (SHARD, [3, 4], Csn(5))
    assert claim.row_ids.dtype == np.int64


def _note(**fields: object) -> Note:
    given = {"user": "u", "database": "d", "database_oid": 5, "prepared_us": 1, **fields}
    return Note.decoded(Note(**given).encoded())  # type: ignore[arg-type]
