"""A short text may be about much: a wide table, views of views, many CHECKs. Binding it leaves the event loop then."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from adapter.changes.constraints import table_checks
from adapter.plans import plan_cache
from planner.definitions.row_expressions import bind_conditions
from planner.ir.bound import BoundStatement
from planner.resolution.statement import VIEW_WEIGHT
from tests.adapter.harness import Client

COLUMNS = [f"c{number}" for number in range(plan_cache.AT_ONCE_WEIGHT + 1)]
DEEP = plan_cache.AT_ONCE_WEIGHT // VIEW_WEIGHT + 1

WIDE = [
    "insert into wide select * from wide",
    "select * from wide",
    "select c0 from wide where c1 = 7",
    "update wide set c0 = 1",
    "delete from wide",
    f"select * from v{DEEP}",
    "explain select * from wide",
    "prepare p as select * from wide",
    "create table copied as select * from wide",
    "declare c cursor with hold for select * from wide",
]


def on_the_loop() -> bool:
    """Whether this runs on the event loop's thread."""
    return threading.current_thread() is threading.main_thread()


@pytest.mark.parametrize("statement", WIDE)
async def test_what_is_wide_is_bound_on_a_thread(client: Client, statement: str, monkeypatch: Any) -> None:
    await client.run(f"create table wide ({', '.join(f'{name} int' for name in COLUMNS)})")
    await client.run("create table narrow (a int); create view v0 as select a from narrow")
    for number in range(DEEP):
        await client.run(f"create view v{number + 1} as select a from v{number}")
    bound_at_once: list[bool] = []
    plan_of = plan_cache._plan_of

    def noted(parsed: Any, statement: Any, *given: Any) -> Any:
        if isinstance(statement, BoundStatement):
            bound_at_once.append(on_the_loop())
        return plan_of(parsed, statement, *given)

    monkeypatch.setattr(plan_cache, "_plan_of", noted)
    await client.run("begin")
    await client.run(statement)
    assert bound_at_once
    assert True not in bound_at_once
    bound_at_once.clear()
    await client.run("select a from narrow")
    assert bound_at_once == [True]


async def test_many_checks_are_bound_on_a_thread(client: Client, monkeypatch: Any) -> None:
    bound_at_once: list[bool] = []

    def noted(*given: Any) -> Any:
        bound_at_once.append(on_the_loop())
        return bind_conditions(*given)

    monkeypatch.setattr(table_checks, "bind_conditions", noted)
    for name, number in (("few", 2), ("many", plan_cache.MANY_CONSTRAINTS + 1)):
        checks = ", ".join(f"check (n <> {place})" for place in range(number))
        await client.run(f"create table {name} (n int, {checks})")
    await client.run("insert into few values (7)")
    await client.run("insert into many values (100)")
    assert bound_at_once == [True, False]
    assert (await client.error("insert into many values (3)")).sqlstate == "23514"
    assert (await client.error("update many set n = 4")).sqlstate == "23514"
    assert bound_at_once == [True, False]
