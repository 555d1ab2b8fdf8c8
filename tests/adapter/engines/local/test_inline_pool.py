"""Tables of inline parts stay right when a statement that fills one is interrupted, wherever it was."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from adapter.engines.common.scan_sources import PartIdentity, ScanColumn
from adapter.engines.local.database import LocalDatabase
from adapter.engines.local.inline_pool import InlinePool
from planner.ir.nodes import Literal
from storage.ids import ShardId
from tests.adapter.engines.harness import INT8

COLUMN = ScanColumn(name="c1", type=INT8, missing=Literal(value=None, type=INT8))


class Interrupted:
    """A connection that is interrupted once, before or after its statement `number` has done its work."""

    def __init__(self, connection: Any, number: int, before: bool) -> None:
        self._connection = connection
        self._left = number
        self._before = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, text: str) -> Any:
        self._left -= 1
        if self._left == 0 and self._before:
            raise duckdb.InterruptException
        result = self._connection.execute(text)
        if self._left == 0:
            raise duckdb.InterruptException
        return result


@pytest.fixture
def database(tmp_path: Path) -> Iterator[LocalDatabase]:
    database = LocalDatabase(directories=(), scratch=tmp_path, memory_limit="256MB")
    yield database
    database.close()


def part(name: str, *values: int) -> dict[PartIdentity, pa.Table]:
    rows = pa.table({"_row_id": pa.array(range(len(values)), pa.int64()), "c1": pa.array(values, pa.int64())})
    return {(name, 0, ()): rows}


@pytest.mark.parametrize(("number", "before"), [*itertools.product((1, 2), (True, False))])
def test_an_interrupt_while_parts_are_added(database: LocalDatabase, number: int, before: bool) -> None:
    pool = InlinePool(database)
    cursor = database.acquire()
    generation = pool.lease(ShardId("s1"), (COLUMN,), ())
    with pytest.raises(duckdb.InterruptException):
        generation.add(Interrupted(cursor.connection, number, before), part("a", 1, 2))
    generation.add(cursor.connection, part("b", 3))
    generation.add(cursor.connection, part("a", 1, 2))
    numbers = ", ".join(map(str, generation.numbers.values()))
    found = cursor.connection.execute(f"SELECT c1 FROM {generation.name} WHERE _part IN ({numbers}) ORDER BY c1")
    assert found.fetchall() == [(1,), (2,), (3,)]
    database.release(cursor)


@pytest.mark.parametrize(("number", "before"), [*itertools.product((1, 2), (True, False))])
def test_an_interrupt_while_tables_are_dropped(database: LocalDatabase, number: int, before: bool) -> None:
    pool = InlinePool(database)
    cursor = database.acquire()
    for shard in ("s1", "s2"):
        generation = pool.lease(ShardId(shard), (COLUMN,), ())
        generation.add(cursor.connection, part("a", 1))
        generation.condemned = True
        pool.release(generation)
    with pytest.raises(duckdb.InterruptException):
        pool.drop_unused(Interrupted(cursor.connection, number, before))
    pool.drop_unused(cursor.connection)
    assert not pool.has_unused
    assert cursor.connection.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
    database.release(cursor)
