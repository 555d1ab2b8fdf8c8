"""First rows are looked for in so many nodes of a query and no more, since that holds up the event loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from adapter.plans import first_rows
from planner.ir.rewrite import walk
from tests.adapter.harness import Client


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many nodes were looked at, each time."""
    counts: list[int] = []

    def counted(node: Any) -> Iterator[Any]:
        counts.append(0)
        for found in walk(node):
            counts[-1] += 1
            yield found

    monkeypatch.setattr(first_rows, "walk", counted)
    return counts


@pytest.mark.parametrize(("length", "most"), [(20, 200), (20_000, first_rows.MAX_NODES + 1)])
async def test_the_nodes_of_a_long_list(client: Client, seen: list[int], length: int, most: int) -> None:
    await client.run("create table t (k int primary key, n int)")
    await client.run("insert into t select n, n from generate_series(1, 60000) n")
    values = ", ".join([str(3 * number) for number in range(1, length + 1)])
    assert await client.value(f"select max(k) from t where n in ({values})") == 3 * length
    assert seen
    assert max(seen) <= most
