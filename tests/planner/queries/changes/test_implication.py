"""Which conditions follow from others: what makes a partial index one that ON CONFLICT may mean."""

from __future__ import annotations

import pytest

from planner.definitions.index_expressions import bind_row_value
from planner.queries.changes.implication import implied
from planner.types import types as t
from storage.catalog.model import Column, Relation

TABLE = Relation(
    oid=20000,
    name="t",
    schema=2200,
    owner=10,
    kind="r",
    columns=(
        Column(attnum=1, name="a", type_oid=t.INT4),
        Column(attnum=2, name="b", type_oid=t.TEXT),
        Column(attnum=3, name="c", type_oid=t.BOOL),
    ),
)


def follows(predicate: str, *known: str) -> bool:
    """Whether `predicate` follows from all of `known`: columns have the same ids in all."""
    first, *rest = [bind_row_value(TABLE, text, condition=True).scalar for text in (predicate, *known)]
    return implied(first, rest)


@pytest.mark.parametrize(
    ("predicate", "known"),
    [
        ("c", "c"),
        ("a is not null", "a > 5"),
        ("a is not null", "5 >= a"),
        ("b is not null", "b in ('x', 'y')"),
        ("a > 5", "a > 5"),
        ("a > 5", "a > 6"),
        ("a > 5", "a = 6"),
        ("a > 5", "7 < a"),
        ("a >= 5", "a > 5"),
        ("a <= 5", "a < 5"),
        ("a <> 5", "a > 5"),
        ("a <> 5", "a = 6"),
        ("a <> 5", "a <> 5"),
        ("b = 'x'", "b = 'x'"),
        ("b <> 'y'", "b = 'x'"),
        ("a > 5 or c", "a > 7"),
        ("a > 5", "a > 6 or a = 9"),
        ("a is not null and c", "a = 1 and c"),
    ],
)
def test_what_follows(predicate: str, known: str) -> None:
    assert follows(predicate, known)


@pytest.mark.parametrize(
    ("predicate", "known"),
    [
        ("c", "not c"),
        ("a is not null", "a is distinct from 5"),
        ("a is not null", "coalesce(a, 1) = 1"),
        ("a is not null", "a > 5 or c"),
        ("a > 5", "a >= 5"),
        ("a > 5", "a <> 7"),
        ("a > 5", "a < 5"),
        ("a = 5", "a >= 5"),
        ("a < 5", "a <= 5"),
        ("a <> 5", "a >= 5"),
        ("b > 'a'", "b > 'b'"),
        ("b = 'x'", "b = 'y'"),
        ("a > 5", "a > 6 or c"),
        ("a > 5 and c", "a > 6"),
    ],
)
def test_what_does_not_follow(predicate: str, known: str) -> None:
    assert not follows(predicate, known)
