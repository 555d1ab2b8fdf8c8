"""Controllers follow the catalog by themselves: definitions wait for none of them, a statement for the one that it
needs, and one that fails begins again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from adapter.controllers.views import ViewKeeper
from adapter.execution import controllers
from adapter.execution.controllers import Controller
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.environment import background
from storage.upkeep.maintenance import Maintenance
from tests.adapter.harness import Client, Waiting, connect, open_server


async def _until(client: Client, query: str) -> None:
    for _ in range(600):
        if await client.value(query):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"never true: {query}")


async def test_controllers_follow_the_catalog_and_tell_up_to_where() -> None:
    blob, consensus = MemoryBlob(), MemoryConsensus()
    async with (
        open_server(blob=blob, consensus=consensus, shared=True) as one,
        open_server(blob=blob, consensus=consensus, shared=True) as two,
    ):
        client, other = await connect(one), await connect(two)
        await client.run("create table items (id int)")
        await client.run("create materialized view seen with (refresh = 'on commit') as select count(*) from items")
        newest = await client.value("select tidegate.current_csn()")
        assert await client.rows("select distinct controller from tidegate.controllers order by 1") == [
            ("publishing",),
            ("statistics",),
            ("storage",),
            ("views",),
        ]
        for each in (client, other):
            await _until(
                each,
                "select bool_and(catalog_csn > 0 and is_running and restarts = 0 and error is null)"
                " and count(distinct catalog_csn) = 1"
                " from tidegate.controllers where controller in ('views', 'statistics')",
            )
        followed = await client.value("select max(catalog_csn) from tidegate.controllers")
        assert followed <= newest
        # Of all processes one refreshes the view.
        await _until(client, "select sum(owned) = 1 from tidegate.controllers where controller = 'views'")


async def test_a_statement_waits_for_the_controller_that_it_needs_and_for_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_server() as server:
        client, other = await connect(server), await connect(server)
        reached = Controller.reached
        held: list[tuple[Controller, Any]] = []
        monkeypatch.setattr(Controller, "reached", lambda self, csn: held.append((self, csn)))
        # Definitions wait for nobody, and neither do statements that need nobody.
        await client.run("create table items (id int); insert into items values (1)")
        await client.run("create materialized view seen with (refresh = 'on commit') as select id from items")
        await client.run("create extension pg_stat_statements")
        assert await other.rows("select id from seen") == [(1,)]
        waiting = Waiting(client, "select count(*) >= 0 from pg_stat_statements")
        assert not await waiting.is_over(0.3)
        assert await other.rows("select id from items") == [(1,)]
        assert {each.name for each, _ in held} >= {"views", "statistics"}
        monkeypatch.setattr(Controller, "reached", reached)
        for controller, csn in held:
            if controller.name == "views":
                controller.reached(csn)
        assert not await waiting.is_over(0.1)
        for controller, csn in held:
            controller.reached(csn)
        assert await waiting.result() == [[(True,)]]


async def test_a_controller_that_fails_begins_again_from_the_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controllers, "FIRST_PAUSE_S", 0.01)
    looks = 0
    look: Callable[[ViewKeeper], Any] = ViewKeeper._look

    async def failing(self: ViewKeeper) -> float:
        nonlocal looks
        looks += 1
        if looks <= 3:
            raise RuntimeError(f"failure {looks}")
        found: float = await look(self)
        return found

    monkeypatch.setattr(ViewKeeper, "_look", failing)
    async with open_server() as server:
        client = await connect(server)
        await client.run("create table items (id int)")
        await client.run("create materialized view seen with (refresh = 'on commit') as select id from items")
        await client.run("insert into items values (1)")
        await _until(client, "select is_exact from tidegate.materialized_views")
        (row,) = await client.rows(
            "select restarts, failures, error, is_running, failed_at > now() - interval '1 minute'"
            " from tidegate.controllers where controller = 'views'"
        )
        assert row == (3, 3, "failure 3", True, True)
        # It goes on following.
        await client.run("create materialized view also with (refresh = 'on commit') as select count(*) from items")
        await client.run("insert into items values (2)")
        await _until(client, "select bool_and(is_exact) from tidegate.materialized_views")


async def test_a_refresh_that_fails_with_any_error_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapter.controllers.views.FIRST_RETRY_S", 0.01)
    due: Callable[..., Any] = ViewKeeper._due_in
    failures = 0

    async def failing(self: ViewKeeper, catalog: Any, view: Any, at: Any) -> Any:
        nonlocal failures
        if self._running and failures < 2:
            failures += 1
            raise ZeroDivisionError("no view")
        return await due(self, catalog, view, at)

    monkeypatch.setattr(ViewKeeper, "_due_in", failing)
    async with open_server() as server:
        client = await connect(server)
        await client.run("create table items (id int)")
        await client.run("create materialized view seen with (refresh = 'on commit') as select id from items")
        await client.run("insert into items values (1)")
        await _until(client, "select is_exact from tidegate.materialized_views")
        assert failures == 2
        assert await client.value("select failures >= 2 from tidegate.controllers where controller = 'views'") is True


async def test_the_upkeep_of_the_storage_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "FAILURE_PAUSE_S", 0.01)
    monkeypatch.setattr(background, "MAINTENANCE_S", 0.01)
    rounds = 0
    run: Callable[..., Any] = Maintenance.run

    async def failing(self: Maintenance, *given: Any, **named: Any) -> None:
        nonlocal rounds
        rounds += 1
        if rounds <= 2:
            raise AssertionError(f"failure {rounds}")
        await run(self, *given, **named)

    monkeypatch.setattr(Maintenance, "run", failing)
    async with open_server() as server:
        client = await connect(server)
        await client.run("create table items (id int)")
        await _until(client, "select restarts = 2 from tidegate.controllers where controller = 'storage'")
        error = await client.value("select error from tidegate.controllers where controller = 'storage'")
        assert error == "storage-maintenance: failure 2"
        await _until(
            client,
            "select count(distinct catalog_csn) = 1 from tidegate.controllers"
            " where controller in ('storage', 'statistics')",
        )
