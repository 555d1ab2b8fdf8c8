"""What it takes to bring one changed row into a view: counted, not timed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from adapter.definitions.materialized import increments
from adapter.engines.local.engine import LocalEngine
from planner.ir import nodes as ir
from planner.ir.rewrite import walk
from tests.adapter.harness import Client, connect, open_server

HOUR_MS = 3_600_000

COSTS = [
    ("SELECT id, amount FROM items WHERE amount > 5", [("came", 0, 0)], 0),
    ("SELECT grp, count(*) AS n, sum(amount) AS total FROM items GROUP BY grp", [("replaced", 1, 0)], 1),
    (
        "SELECT o.region, count(*) AS n, sum(i.amount) AS total FROM items i JOIN owners o ON o.id = i.owner"
        " GROUP BY o.region",
        [("replaced", 1, 0)],
        1,
    ),
]
"""Queries; the forms that are read, with how often they read the view, and with how many windows; and the statements
that the engine's database is given for them."""


class _Counted:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.forms: list[tuple[str, int, int]] = []
        self.statements = 0
        plan, begin = increments._plan, LocalEngine._begin

        async def planned(reading: increments._Reading, form: str) -> Any:
            found = await plan(reading, form)
            if found is not None and found.query is not None:
                nodes = list(walk(found.query.rel))
                own = sum(isinstance(node, ir.Scan) and node.relation_oid == reading.view.oid for node in nodes)
                self.forms.append((form, own, sum(isinstance(node, ir.Window) for node in nodes)))
            return found

        def begun(engine: LocalEngine, *given: Any) -> Any:
            self.statements += 1
            return begin(engine, *given)

        monkeypatch.setattr(increments, "_plan", planned)
        monkeypatch.setattr(LocalEngine, "_begin", begun)

    def clear(self) -> None:
        self.forms, self.statements = [], 0


async def _tables(client: Client) -> None:
    await client.run("CREATE TABLE items (id int NOT NULL, grp int NOT NULL, owner int NOT NULL, amount int NOT NULL)")
    await client.run("CREATE TABLE owners (id int NOT NULL, region int NOT NULL)")
    await client.run("INSERT INTO items SELECT g, g % 10, g % 10, g FROM generate_series(1, 100) g")
    await client.run("INSERT INTO owners SELECT g, g % 3 FROM generate_series(0, 9) g")


@pytest.mark.parametrize(("query", "forms", "statements"), COSTS)
async def test_one_row_takes_what_it_touches(
    monkeypatch: pytest.MonkeyPatch, query: str, forms: Sequence[tuple[str, int, int]], statements: int
) -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        await _tables(client)
        await client.run(f"CREATE MATERIALIZED VIEW v WITH (refresh = 'every 10 hours') AS {query}")
        counted = _Counted(monkeypatch)
        for number in range(3):
            await client.run(f"INSERT INTO items VALUES ({1000 + number}, 3, {number}, 50)")
            counted.clear()
            await client.run("REFRESH MATERIALIZED VIEW v")
            assert (counted.forms, counted.statements) == (forms, statements)
            assert await client.value("SELECT method FROM tidegate.materialized_views") == "incremental"
            assert await client.rows(f"({query}) EXCEPT ALL TABLE v") == []
            assert await client.rows(f"TABLE v EXCEPT ALL ({query})") == []


async def test_what_went_is_found_and_what_stays_the_same_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        await _tables(client)
        for name, (query, *_) in enumerate(COSTS):
            await client.run(f"CREATE MATERIALIZED VIEW v{name} WITH (refresh = 'every 10 hours') AS {query}")
        counted = _Counted(monkeypatch)
        for change, changed in (
            ("UPDATE items SET owner = owner + 3 WHERE id = 6", (0, 0, 0)),
            ("UPDATE items SET amount = 90 WHERE id = 60", (2, 2, 2)),
            ("UPDATE items SET amount = -2147483648 WHERE id = 7", (1, 2, 2)),
            ("DELETE FROM items WHERE grp = 7", (9, 1, 2)),
        ):
            await client.run(change)
            for name, rows in enumerate(changed):
                counted.clear()
                await client.run(f"REFRESH MATERIALIZED VIEW v{name}")
                read = f"SELECT changed_rows FROM tidegate.materialized_views WHERE viewname = 'v{name}'"
                assert await client.value(read) == rows, (change, name)
                query = COSTS[name][0]
                assert await client.rows(f"({query}) EXCEPT ALL TABLE v{name}") == [], (change, name)
                assert await client.rows(f"TABLE v{name} EXCEPT ALL ({query})") == [], (change, name)
