"""Who may compute: slots, queues, and what statements are told of them through SQL."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from adapter.admission.admission import Admission, Lane, Place
from adapter.admission.classes import CLASSES, limits_on
from adapter.admission.machine import Machine, this_machine
from adapter.sessions.server import Server
from tests.adapter.harness import Client, connect

NEVER_ENDS = "select sum(a.i * b.i % 7) from generate_series(1, 1000000) a(i), generate_series(1, 1000000) b(i)"
"""Heavy by its plan."""
MANY = "generate_series(1, length(repeat('x', 1000000)))"
SEEMS_SHORT = f"select sum(a.i * b.i % 7) from {MANY} a(i), {MANY} b(i)"
"""As long, and nothing in its plan says so."""

CANCEL = "select pg_cancel_backend(pid) from tidegate.statements where pid <> pg_backend_pid()"


def place(user: str = "u") -> Place:
    return Place("1.1", user, "heavy")


async def test_a_free_slot_goes_to_the_role_with_the_fewest_and_to_who_came_first() -> None:
    lane, order = Lane(1), list[str]()
    first = place("a")
    assert lane.enter(first)

    async def run(name: str, user: str) -> None:
        mine = place(user)
        await lane.wait(mine)
        order.append(name)
        await asyncio.sleep(0)
        lane.leave(mine)

    waiting = []
    for name, user in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        waiting.append(asyncio.create_task(run(name, user)))
        await asyncio.sleep(0)
    assert (lane.running, lane.waiting) == (1, 3)
    lane.join(place("a"))  # What computes already counts, also where the lane is full.
    lane.leave(first)
    assert order == []
    lane.leave(first)
    await asyncio.gather(*waiting)
    assert order == ["a1", "a2", "b1"]
    lane = Lane(2)
    busy = place("a")
    assert lane.enter(busy)
    assert lane.enter(place("c"))
    waiting = []
    for name, user in (("a1", "a"), ("b1", "b")):
        waiting.append(asyncio.create_task(run(name, user)))
        await asyncio.sleep(0)
    order.clear()
    lane.leave(place("c"))
    await asyncio.gather(*waiting)
    assert order == ["b1", "a1"]


async def test_who_is_cancelled_while_it_waits_takes_no_slot() -> None:
    lane = Lane(1)
    first = place()
    assert lane.enter(first)
    waiting = [asyncio.create_task(lane.wait(place())) for _ in range(2)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    lane.leave(first)
    waiting[1].cancel()  # It has been given the slot, and cannot take it any more.
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (lane.running, lane.waiting) == (0, 0)
    assert lane.enter(first)


@pytest.mark.parametrize("machine", [Machine(cores=1, memory=1 << 30), Machine(cores=64, memory=1 << 38)])
def test_all_databases_together_stay_within_their_part(machine: Machine) -> None:
    limits = limits_on(machine)
    whole = sum(each.memory * each.databases for each in {id(each): each for each in limits.values()}.values())
    assert whole <= max(machine.memory // 4, len(CLASSES) * 2 * (64 << 20))
    assert all(1 <= each.threads <= machine.cores for each in limits.values())


def test_there_is_a_machine() -> None:
    assert this_machine().cores >= 1
    assert this_machine().memory > 1 << 28


def narrowed(server: Server, monkeypatch: pytest.MonkeyPatch) -> Admission:
    """One heavy statement at a time."""
    admission = server.services.admission
    monkeypatch.setattr(admission.local["heavy"], "slots", 1)
    return admission


async def until_waiting(admission: Admission, count: int) -> None:
    for _ in range(3000):
        if admission.local["heavy"].waiting == count and admission.local["heavy"].running == 1:
            return
        await asyncio.sleep(0.01)
    lanes = {name: (lane.running, lane.waiting) for name, lane in admission.local.items()}
    raise AssertionError(f"nobody waits: {lanes}")


async def test_heavy_statements_wait_and_others_do_not(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    admission = narrowed(server, monkeypatch)
    await client.run("create table t (a int primary key); insert into t values (1)")
    one, two = await connect(server), await connect(server)
    running = [asyncio.create_task(each.error(NEVER_ENDS)) for each in (one, two)]
    await until_waiting(admission, 1)
    waits = await client.rows(
        "select workload_class, waits_for_slot, queued > '0' from tidegate.statements where statement like '%sum(%'"
        " and pid <> pg_backend_pid() order by 2"
    )
    assert waits == [("heavy", False, False), ("heavy", True, True)]
    events = "select wait_event_type, wait_event from pg_stat_activity where wait_event = 'WorkloadClass'"
    assert await client.rows(events) == [("Extension", "WorkloadClass")]
    assert await client.value("select a from t where a = 1") == 1
    assert await client.value("select count(*) from generate_series(1, 100000) g") == 100000
    await client.run("set workload_class = 'heavy'; set statement_timeout = '100ms'")
    assert (await client.error("select count(*) from generate_series(1, 1000) g")).sqlstate == "57014"
    await client.run("set statement_timeout = 0; set workload_class = 'auto'")
    began = asyncio.get_running_loop().time()
    await client.run(CANCEL)
    errors = await asyncio.gather(*running)
    assert {error.sqlstate for error in errors} == {"57014"}
    assert asyncio.get_running_loop().time() - began < 5
    assert admission.local["heavy"].running == 0


async def test_what_runs_longer_than_expected_goes_on_as_a_heavier_one(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    admission = narrowed(server, monkeypatch)
    limits = admission.limits
    impatient = replace(limits["interactive"], allowed_s=0.2)
    monkeypatch.setattr(admission, "limits", {**limits, "interactive": impatient})
    one, two = await connect(server), await connect(server)
    running = [asyncio.create_task(each.error(SEEMS_SHORT)) for each in (one, two)]
    await until_waiting(admission, 1)
    assert admission.moved >= 2
    await client.run(CANCEL)
    assert {error.sqlstate for error in await asyncio.gather(*running)} == {"57014"}
    lanes = admission.local
    assert [lanes[name].running for name in ("point", "interactive", "heavy")] == [0, 0, 0]


async def test_the_class_is_a_setting_of_roles_and_databases(client: Client, server: Server) -> None:
    await client.run("create role nightly login; alter role nightly set workload_class = 'load'")
    assert (await client.error("set workload_class = 'huge'")).sqlstate == "22023"
    nightly = await connect(server, user="nightly")
    assert await nightly.value("show workload_class") == "load"
    await client.run("drop role nightly")


AT_ONE_TIME = "select length(string_agg(md5(i::text), '')) from generate_series(1, 1000000) g(i)"
"""A text of 32 MB: what a group is made of is not spilled."""


async def test_what_finds_no_memory_in_its_class_begins_anew_with_memory_of_its_own(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    admission = narrowed(server, monkeypatch)
    databases = server.engines._local_engine._databases
    little = {name: replace(limit, memory=32 << 20) for name, limit in admission.limits.items()}
    enough = replace(little["heavy"], memory=1 << 30)
    monkeypatch.setattr(databases, "_limits", {**little, "heavy": enough})
    await client.run("set engine = 'local'; set workload_class = 'interactive'")
    before = admission.moved
    assert await client.value(AT_ONE_TIME) == 32_000_000
    assert admission.moved == before + 1
    await client.run("set workload_class = 'load'")
    assert (await client.error(AT_ONE_TIME)).sqlstate == "53200"
    assert await client.value("select 1 + count(*) from generate_series(1, 10) g") == 11
    assert all(lane.running == 0 for lane in admission.local.values())
