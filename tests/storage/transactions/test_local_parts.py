"""The parts that a transaction's own readers get: what they cost, and that they hold what was written."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.shards.parts import Part, inline_part, read_table
from storage.transactions import local_parts
from storage.transactions.local_parts import LocalParts

WRITES = 1024


def rows_of(part: Part) -> list[dict[str, object]]:
    assert part.inline is not None
    found: list[dict[str, object]] = read_table(part, part.inline, list(part.columns)).to_pylist()
    return found


def test_reading_after_each_write_makes_each_row_a_part_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(kind: str, table: pa.Table) -> Part:
        made.append(table.num_rows)
        return inline_part(kind, table)

    monkeypatch.setattr(local_parts, "inline_part", counted)
    parts, tables = LocalParts("insert"), []
    for number in range(WRITES):
        tables.append(pa.table({"c1": [number]}))
        assert len(parts.of(tables)) <= 11
    assert sum(made) <= WRITES * 11
    assert parts.missing_rows(tables) == 0


@given(st.lists(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=4), max_size=12))
def test_parts_hold_what_was_written_in_order(writes: list[list[tuple[int, bool]]]) -> None:
    parts = LocalParts("insert")
    tables: list[pa.Table] = []
    number = 0
    for write in writes:
        for rows, wide in write:
            values = list(range(number, number + rows))
            number += rows
            tables.append(pa.table({"c1": values, "c2": values} if wide else {"c1": values}))
        assert parts.missing_rows(tables) == sum(rows for rows, _ in write)
        found = [row for part in parts.of(tables) for row in rows_of(part)]
        assert found == [row for table in tables for row in table.to_pylist()]
