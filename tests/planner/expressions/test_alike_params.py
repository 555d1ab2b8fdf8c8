"""Parameters by the thousand are bound as each of them alone is."""

from __future__ import annotations

import pytest

from planner.analyze import analyze
from planner.errors import AmbiguousParameter, DatatypeMismatch, SqlError
from planner.ir.bound import BoundInsert
from planner.ir.nodes import Cast, Param, Values
from planner.syntax.parse import split_and_parse
from planner.types.types import INT2, INT4, INT8, TEXT
from storage.catalog.model import CatalogSnapshot
from storage.catalog.standard_objects import bootstrap_updates
from storage.timestamps.csn import Csn
from tests.planner.support import context_of, create

CONTEXT = context_of(
    create(
        CatalogSnapshot.empty().apply(bootstrap_updates(), Csn(1)),
        "create table t (a int, b text); create table u (a int, b varchar(3))",
    )
)


def bound(text: str, *declared: int) -> BoundInsert:
    (parsed,) = split_and_parse(text)
    statement = analyze(parsed, CONTEXT, declared)
    assert isinstance(statement, BoundInsert)
    return statement


def values(statement: BoundInsert) -> Values:
    rel = statement.source.rel
    while not isinstance(rel, Values):
        rel = rel.input  # type: ignore[union-attr]
    return rel


def test_rows_are_alike_but_for_their_numbers() -> None:
    statement = bound("insert into t values ($1, $2), ($3, $4), ($5, $6)")
    assert [type_.oid for type_ in statement.source.param_types] == [INT4, TEXT] * 3
    first, _, last = values(statement).rows
    assert [param.index for param in last if isinstance(param, Param)] == [5, 6]
    assert [item.type for item in first] == [item.type for item in last]


def test_declared_types_are_cast_each_as_it_is() -> None:
    statement = bound("insert into t values ($1, $2), ($3, $4), ($5, $6)", INT8, 0, INT4, 0, INT8, 0)
    assert [type_.oid for type_ in statement.source.param_types] == [INT8, TEXT, INT4, TEXT, INT8, TEXT]
    one, other, again = [row[0] for row in values(statement).rows]
    assert isinstance(one, Cast)
    assert isinstance(again, Cast)
    assert other == Param(index=3, type=other.type)
    assert again.arg == Param(index=5, type=again.arg.type)


@pytest.mark.parametrize(
    ("text", "declared", "error"),
    [
        ("insert into t values ($1, $2), ($2, $1)", (), DatatypeMismatch),
        ("insert into t values (1, $1), ($1, 'b')", (), DatatypeMismatch),
        ("insert into t values ($1, 'a'), ($2, 'b')", (INT4, 600), DatatypeMismatch),
    ],
)
def test_what_does_not_fit_is_refused(text: str, declared: tuple[int, ...], error: type[SqlError]) -> None:
    with pytest.raises((error, AmbiguousParameter)):
        bound(text, *declared)


def test_lengths_are_checked_in_every_row() -> None:
    statement = bound("insert into u values ($1, $2), ($3, $4)", INT2, 0, INT2, 0)
    (first, length), (second, other) = values(statement).rows
    assert first.type == second.type
    assert length.type == other.type
    assert isinstance(length, Cast) is isinstance(other, Cast)
