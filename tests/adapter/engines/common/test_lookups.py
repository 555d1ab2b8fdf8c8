"""Lookups beside the database: which queries are lookups is held by tests/differential; here are their indexes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from adapter.engines.common import lookups
from adapter.engines.common.lookups import Indexes, Lookup, lookup_of
from adapter.engines.local.engine import LocalEngine
from planner.ir import nodes as ir
from planner.types import types
from planner.types.types import SqlType
from tests.adapter.engines.harness import BOOL, INT8, World, equal, literal, query, scan


def table(*values: int | None) -> pa.Table:
    return pa.table({"c1": pa.array(values, pa.int64())})


def test_an_index_is_made_for_the_second_lookup() -> None:
    indexes, rows = Indexes(), table(7, None, 8, 7)
    assert indexes.get(rows, "c1") is None
    assert indexes.get(rows, "c1") == {7: [0, 3], 8: [2]}
    assert indexes.get(table(7, None, 8, 7), "c1") is None, "another table, though it looks the same"


def test_no_more_indexes_are_kept_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "MAX_INDEXES", 2)
    indexes, tables = Indexes(), [table(number) for number in range(3)]
    for rows in tables:
        indexes.get(rows, "c1")
        assert indexes.get(rows, "c1") is not None
    assert indexes.get(tables[0], "c1") is None
    assert indexes.get(tables[2], "c1") is not None


@pytest.mark.parametrize("same", [3, lookups.MAX_TESTED_ONE_BY_ONE + 1])
async def test_other_conditions_hold_too(world: World, local: LocalEngine, same: int) -> None:
    relation = await world.table(("a", INT8), ("b", INT8))
    await world.insert(relation, [(number % 2, number if number % 5 else None) for number in range(2 * same)])
    found = scan(relation)
    both = ir.BoolOp(
        op="and",
        args=(equal(found.fields[0], literal(1)), equal(found.fields[1], ir.Param(index=1, type=INT8))),
        type=BOOL,
    )
    reading = query(ir.Filter(input=found, condition=both, fields=found.fields), relation)
    assert lookup_of(reading.rel) is not None
    tables = {relation.oid: await world.input(relation)}
    for _ in range(3):
        assert await world.rows(local, reading, tables, [literal(3)]) == [(1, 3)]
        assert await world.rows(local, reading, tables, [literal(2)]) == []
        assert await world.rows(local, reading, tables, [literal(5)]) == []
        assert await world.rows(local, reading, tables, [literal(None)]) == []


@pytest.mark.parametrize(("length", "looked_up"), [(lookups.MAX_CONSTANT_LENGTH, True), (10**6, False)])
def test_long_constants_are_left_to_an_engine(length: int, looked_up: bool) -> None:
    text = literal("x" * length, SqlType(types.TEXT))
    lookup = Lookup(relation_oid=1, conditions=(), outputs=(text, "c1"))
    picked = lookup.answer(table(*range(10)), (), Indexes())
    assert (picked is not None) == looked_up


async def test_an_index_is_not_older_than_its_table(world: World, local: LocalEngine) -> None:
    relation = await world.table(("a", INT8), ("b", INT8))
    found = scan(relation)
    reading = query(ir.Filter(input=found, condition=equal(found.fields[0], literal(1)), fields=found.fields), relation)
    expected = []
    for number in range(5):
        await world.insert(relation, [(1, number), (2, number)])
        expected.append((1, number))
        tables = {relation.oid: await world.input(relation)}
        for _ in range(3):
            assert await world.rows(local, reading, tables) == expected
