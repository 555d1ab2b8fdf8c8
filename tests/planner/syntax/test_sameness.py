"""When two texts are the same statement to PostgreSQL."""

from __future__ import annotations

import pytest

from planner.syntax.parse import parse_tree
from planner.syntax.sameness import means_the_same, same

ALIKE = [
    ("select a from t", "SELECT  a\nFROM t"),
    ("select a != 1", "SELECT a <> 1"),
    ("select x::int", "SELECT CAST(x AS integer)"),
]
EQUAL = [
    ("select + a, - 1, + - 1.5", "SELECT a, -1, -1.5"),
    ("select a not in (1)", "SELECT NOT a IN (1)"),
    ("select a not like 'x', a not ilike 'x'", "SELECT NOT a LIKE 'x', NOT a ILIKE 'x'"),
    ("select a not similar to 'x'", "SELECT NOT a SIMILAR TO 'x'"),
    ("select a not between 1 and 2", "SELECT NOT a BETWEEN 1 AND 2"),
    ("select a not between symmetric 1 and 2", "SELECT NOT a BETWEEN SYMMETRIC 1 AND 2"),
    ("select a !~ 'x', a !~* 'x'", "SELECT NOT a ~ 'x', NOT a ~* 'x'"),
    ("select now(), current_schema()", "SELECT CURRENT_TIMESTAMP, CURRENT_SCHEMA"),
    ("select x::int2", "SELECT CAST(x AS smallint)"),
    ("select not (+ a not in (- 1))", "SELECT NOT NOT a IN (-1)"),
]
DIFFERENT = [
    ("select a", "select b"),
    ("select 1", "select 2"),
    ("select 1", "select '1'"),
    ("select a <> 1", "select not a = 1"),
    ("select - a", "select a"),
    ("select a + b", "select b + a"),
    ("select a not in (1)", "select a in (1)"),
    ("select 1; select 2", "select 1"),
    ("select s.now()", "select current_timestamp"),
    ("select now(1)", "select current_timestamp"),
    ("select x::s.int2", "select x::int2"),
    ("select a from only t", "select a from t"),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_where_it_stands_does_not_matter(one: str, other: str) -> None:
    assert same(parse_tree(one), parse_tree(other))
    assert means_the_same(parse_tree(one), parse_tree(other))


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_other_ways_of_saying_it(one: str, other: str) -> None:
    assert not same(parse_tree(one), parse_tree(other))
    assert means_the_same(parse_tree(one), parse_tree(other))


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_means_something_else(one: str, other: str) -> None:
    assert not same(parse_tree(one), parse_tree(other))
    assert not means_the_same(parse_tree(one), parse_tree(other))
