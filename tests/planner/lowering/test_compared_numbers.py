"""Averages that are only compared are decimals on Spark."""

from __future__ import annotations

import re

import pytest

from planner.analyze import analyze
from planner.ir.bound import BoundQuery
from planner.lowering.lower import lower
from planner.syntax.parse import split_and_parse
from storage.catalog.model import CatalogSnapshot
from storage.catalog.standard_objects import bootstrap_updates
from storage.timestamps.csn import Csn
from tests.planner.support import context_of, create

CONTEXT = context_of(
    create(
        CatalogSnapshot.empty().apply(bootstrap_updates(), Csn(1)),
        "CREATE TABLE t (k int, v numeric(15, 2), wide numeric, long numeric(38, 2))",
    )
)


def on_spark(condition: str) -> str:
    (parsed,) = split_and_parse(f"SELECT k FROM t WHERE {condition}")
    bound = analyze(parsed, CONTEXT)
    assert isinstance(bound, BoundQuery)
    return lower(bound.rel, "spark", frozenset(), ()).sql


@pytest.mark.parametrize(
    "condition",
    [
        "v > (SELECT avg(v) FROM t)",
        "(SELECT avg(u.v) FROM t AS u WHERE u.k = t.k) >= v",
        "v < (SELECT 0.2 * avg(u.v) FROM t AS u WHERE u.k = t.k)",
        "v <> (SELECT avg(u.v) - 1.5 FROM t AS u WHERE u.k = t.k)",
    ],
)
def test_an_average_that_is_compared_is_a_decimal(condition: str) -> None:
    sql = on_spark(condition)
    assert sql.count("count(") == 2  # One average, named once.
    assert "tg_numeric" not in sql
    assert "try_cast" not in sql


@pytest.mark.parametrize(
    "condition",
    [
        "wide > (SELECT avg(v) FROM t)",
        "v > (SELECT avg(wide) FROM t)",
        "v > (SELECT avg(long) FROM t)",
        "long > (SELECT avg(v) FROM t)",
        "v > (SELECT avg(v) * avg(v) FROM t)",
        "v > (SELECT avg(v) / 3 FROM t)",
        "v > (SELECT avg(v) - 1.5 + max(v) FROM t)",
    ],
)
def test_what_no_decimal_holds_stays_as_it_is(condition: str) -> None:
    assert any(word in on_spark(condition) for word in ("tg_numeric", "translate("))


@pytest.mark.parametrize(
    "condition",
    [
        "long > (SELECT avg(u.long) FROM t AS u WHERE u.k = t.k)",
        "(SELECT 1.2 * avg(u.long) FROM t AS u WHERE u.k = t.k) <= v",
        "wide BETWEEN (SELECT min(u.wide) FROM t AS u WHERE u.k = t.k) AND 7",
        "(SELECT avg(u.long) FROM t AS u WHERE u.k = t.k) IN (1.5, 2)",
        "(SELECT max(u.wide) FROM t AS u WHERE u.k = t.k) + wide > (SELECT min(u.wide) FROM t AS u WHERE u.k = t.k)",
    ],
)
def test_a_subquery_as_a_column_is_named_once(condition: str) -> None:
    """In conditions Spark puts it in the place of the column's name, as often as that stands there."""
    sql = on_spark(condition)
    columns = set(re.findall(r"\) AS (c\d{9,})", sql))
    assert columns
    assert all(len(re.findall(rf"\b\w+\.{column}\b", sql)) == 1 for column in columns)
