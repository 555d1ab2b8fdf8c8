"""UPDATE and DELETE wait for each other, row by row, and then change what is there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from adapter.queries.locked_rows import LockedRows
from adapter.sessions.server import Server
from planner.errors import SqlError
from tests.adapter.harness import Client, Waiting, blocked

Another = Callable[[], Awaitable[Client]]


@pytest.fixture
async def clients(client: Client, another: Another) -> list[Client]:
    """Three sessions at READ COMMITTED, and a table."""
    await client.run("create table t (k int, v int, w text); insert into t values (1, 10, 'a'), (2, 20, 'b')")
    found = [client, await another(), await another()]
    for one in found:
        await one.run("set default_transaction_isolation = 'read committed'")
    return found


# ------------------------------------------------------------ READ COMMITTED


async def test_a_waiting_update_goes_on_with_the_newest_version(clients: list[Client]) -> None:
    one, two, three = clients
    await one.run("begin; update t set v = v + 1 where k = 1")
    second = await blocked(two, "update t set v = v * 2 where k = 1 returning v")
    third = await blocked(three, "update t set v = v + 100, w = 'c' where k = 1 returning k, v, w")
    await one.run("commit")
    assert await second.result() == [[(22,)]]
    assert await third.result() == [[(1, 122, "c")]]
    assert await one.rows("select k, v, w from t order by k") == [(1, 122, "c"), (2, 20, "b")]


async def test_conditions_are_tested_again(clients: list[Client]) -> None:
    one, two, three = clients
    await one.run("begin; update t set v = 11 where k = 1; update t set v = 10 where k = 2")
    second = await blocked(two, "update t set w = 'x' where v = 10 returning k")
    third = await blocked(three, "delete from t where v in (10, 20)")
    await one.run("commit")
    # Row 2 has the value now, but it had not at the statement's snapshot.
    assert await second.result() == [[]]
    assert await third.result() == ["DELETE 1"]
    assert await one.rows("select k, v, w from t") == [(1, 11, "a")]


async def test_a_deleted_row_is_left_out(clients: list[Client]) -> None:
    one, two, three = clients
    await one.run("begin; delete from t where k = 1")
    second = await blocked(two, "update t set v = 0")
    third = await blocked(three, "delete from t where k = 1")
    await one.run("commit")
    assert await second.result() == ["UPDATE 1"]
    assert await third.result() == ["DELETE 0"]
    assert await one.rows("select k, v from t") == [(2, 0)]


async def test_what_is_rolled_back_was_never_there(clients: list[Client]) -> None:
    one, two, _ = clients
    for end in ("rollback", "rollback to s"):
        await one.run("begin; savepoint s; update t set v = 99 where k = 1")
        second = await blocked(two, "update t set v = v + 1 where k = 1 returning v")
        await one.run(end)
        expected = 11 if end == "rollback" else 12
        assert await second.result() == [[(expected,)]]
    await one.run("commit")


async def test_several_changes_of_a_row_in_one_transaction(clients: list[Client]) -> None:
    one, two, _ = clients
    await one.run("begin; update t set v = v + 1; update t set v = v + 1 where k = 1; update t set v = v + 1")
    second = await blocked(two, "update t set v = v + 1000 returning k, v")
    await one.run("commit")
    assert await second.result() == [[(1, 1013), (2, 1022)]]
    await one.run("begin; update t set v = 0 where k = 1; delete from t where k = 1; insert into t values (1, 5, 'n')")
    second = await blocked(two, "update t set v = v + 1 where k = 1 returning v")
    await one.run("commit")
    assert await second.result() == [[]]


async def test_returning_keeps_the_order_of_rows(clients: list[Client]) -> None:
    one, two, _ = clients
    await one.run("insert into t select n, n, 'x' from generate_series(3, 9) n")
    await one.run("begin; update t set v = -v where k in (4, 8)")
    second = await blocked(two, "update t set w = 'y' where k between 3 and 9 returning k, v, w")
    await one.run("commit")
    assert await second.result() == [[(k, -k if k in (4, 8) else k, "y") for k in range(3, 10)]]


async def test_changes_with_other_tables(clients: list[Client]) -> None:
    one, two, three = clients
    await one.run("create table s (k int, add int); insert into s values (1, 5), (2, 7)")
    await one.run("begin; update t set v = v + 1")
    second = await blocked(two, "update t set v = v + s.add from s where s.k = t.k and t.v < 1000")
    third = await blocked(three, "delete from t using s where s.k = t.k and t.v <= (select max(add) + 10 from s)")
    await one.run("commit")
    assert await second.result() == ["UPDATE 2"]
    assert await third.result() == ["DELETE 1"]
    assert await one.rows("select k, v from t") == [(2, 28)]


async def test_many_rows_and_one(clients: list[Client]) -> None:
    one, two, three = clients
    await one.run("insert into t select n, 0, null from generate_series(3, 3000) n")
    await one.run("begin; update t set v = v + 1")
    second = await blocked(two, "update t set v = v + 10 where k = 2500 returning v")
    third = await blocked(three, "update t set v = v + 100 where k > 2")
    await one.run("commit")
    assert await second.result() == [[(11,)]]
    assert await third.result() == ["UPDATE 2998"]
    assert await one.rows("select v, count(*) from t where k > 2 group by v order by v") == [(101, 2997), (111, 1)]


async def test_other_rows_do_not_wait(clients: list[Client]) -> None:
    one, two, _ = clients
    await one.run("begin; update t set v = 0 where k = 1")
    assert await two.tag("update t set v = 1 where k = 2") == "UPDATE 1"
    assert await two.value("select v from t where k = 1") == 10
    await one.run("commit")


async def test_a_block_goes_on_after_it_waited(clients: list[Client]) -> None:
    one, two, _ = clients
    await one.run("begin; update t set v = v + 1 where k = 1")
    await two.run("begin; select * from t")
    second = await blocked(two, "update t set v = v + 1 where k = 1")
    await one.run("commit")
    await second.result()
    assert await two.rows("select v from t where k = 1") == [(12,)]
    await two.run("update t set v = v + 1 where k = 1; update t set v = v + 1; commit")
    assert await one.rows("select v from t order by k") == [(14,), (21,)]


async def test_when_nobody_knows_the_newest_version(clients: list[Client], server: Server) -> None:
    one, two, _ = clients
    await one.run("begin; update t set v = 30 where k = 1; update t set v = 10 where k = 2")
    second = await blocked(two, "update t set w = 'x' where v = 10 returning k")
    committed = server.services.row_versions.committed

    async def forget(*_: object) -> None:
        return

    server.services.row_versions.committed = forget  # type: ignore[method-assign, assignment]
    await one.run("commit")
    server.services.row_versions.committed = committed  # type: ignore[method-assign]
    # The statement has begun again, at a newer snapshot.
    assert await second.result() == [[(2,)]]


async def test_commits_that_are_answered_early(clients: list[Client]) -> None:
    one, two, three = clients
    for client in clients:
        await client.run("set synchronous_commit = off")

    async def work(client: Client) -> None:
        for _ in range(20):
            await client.run("update t set v = v + 1 where k = 1")

    await asyncio.gather(*map(work, clients))
    assert await three.value("select v from t where k = 1") == 70
    await one.run("begin; update t set v = v + 1 where k = 1")
    second = await blocked(two, "update t set v = v + 1 where k = 1")
    await one.run("commit; update t set v = v + 1 where k = 1")
    await second.result()
    assert await three.value("select v from t where k = 1") == 73


async def test_who_has_defined_something_goes_on_with_the_newest_rows(clients: list[Client]) -> None:
    one, two, _ = clients
    await one.run("begin; update t set v = 11 where k = 1")
    await two.run("begin; create table u (a int)")
    second = await blocked(two, "update t set v = v + 1 where k = 1")
    await one.run("commit")
    assert await second.result() == ["UPDATE 1"]
    await two.run("commit")
    assert await two.value("select v from t where k = 1") == 12


# ------------------------------------------------------------ REPEATABLE READ, SERIALIZABLE


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
@pytest.mark.parametrize(("change", "how"), [("update t set v = 11", "update"), ("delete from t", "delete")])
async def test_who_waited_in_vain_fails(clients: list[Client], level: str, change: str, how: str) -> None:
    one, two, _ = clients
    await one.run(f"begin; {change} where k = 1")
    await two.run(f"begin isolation level {level}")
    second = await blocked(two, "update t set v = 12 where k = 1")
    await one.run("commit")
    error = await second.error()
    assert (error.sqlstate, error.message) == ("40001", f"could not serialize access due to concurrent {how}")
    await two.run("rollback")
    await one.run(f"begin; {change} where k = 2")
    await two.run(f"begin isolation level {level}")
    second = await blocked(two, "update t set v = 12 where k = 2")
    await one.run("rollback")
    assert await second.result() == ["UPDATE 1"]
    await two.run("commit")


async def test_a_row_that_changed_after_the_snapshot(clients: list[Client]) -> None:
    one, two, _ = clients
    await two.run("begin isolation level repeatable read; select * from t")
    await one.run("update t set v = 11 where k = 1")
    assert await two.tag("update t set v = 0 where k = 2") == "UPDATE 1"
    assert (await two.error("update t set v = 0 where k = 1")).sqlstate == "40001"
    await two.run("rollback")


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
async def test_statements_outside_of_blocks_never_fail(clients: list[Client], another: Another, level: str) -> None:
    workers = [*clients, *[await another() for _ in range(9)]]
    for client in workers:
        await client.run(f"set default_transaction_isolation = '{level}'")

    async def work(number: int, client: Client) -> None:
        for turn in range(6):
            await client.run(f"update t set v = v + 1 where k = {1 + (number + turn) % 2}")

    await asyncio.gather(*[work(number, client) for number, client in enumerate(workers)])
    assert await clients[0].value("select sum(v) from t") == 30 + 6 * len(workers)


@pytest.mark.parametrize("level", ["read committed", "serializable"])
async def test_a_long_change_finishes_beside_small_ones(clients: list[Client], level: str) -> None:
    one, two, three = clients
    await one.run("insert into t select n, 0, null from generate_series(3, 2000) n")
    for client in clients:
        await client.run(f"set default_transaction_isolation = '{level}'")
    done = asyncio.Event()

    async def small(client: Client, key: int) -> int:
        count = 0
        while not done.is_set():
            await client.run(f"update t set v = v + 1 where k = {key}")
            count += 1
        return count

    streams = [asyncio.ensure_future(small(client, key)) for client, key in ((two, 7), (three, 1999))]
    await asyncio.sleep(0.05)
    assert await asyncio.wait_for(one.tag("update t set v = v + 100000 where v >= 0"), 30) == "UPDATE 2000"
    done.set()
    counts = [await stream for stream in streams]
    assert await one.rows("select k, v from t where k in (7, 1999) order by k") == [
        (7, 100_000 + counts[0]),
        (1999, 100_000 + counts[1]),
    ]


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
async def test_what_begins_again_keeps_its_rows(
    clients: list[Client], level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However slow a change reads, a stream of small ones gets between its reading and its locking only once."""
    one, two, _ = clients
    for client in (one, two):
        await client.run(f"set default_transaction_isolation = '{level}'")
    lock = LockedRows.lock
    overtaking: list[Waiting] = []

    async def overtaken(rows: LockedRows, *args: Any) -> dict[int, int]:
        if rows._running.session is one.session.state:
            overtaking.append(Waiting(two, "update t set v = v + 1 where k = 2"))
            await overtaking[-1].is_blocked()
        return await lock(rows, *args)

    monkeypatch.setattr(LockedRows, "lock", overtaken)
    assert await asyncio.wait_for(one.tag("update t set v = v + 100"), 30) == "UPDATE 2"
    assert [await small.result() for small in overtaking] == [["UPDATE 1"]] * len(overtaking)
    assert len(overtaking) == (1 if level == "read committed" else 2)
    assert await one.value("select v from t where k = 2") == 120 + len(overtaking)


async def test_waiters_are_served_in_turn(clients: list[Client], another: Another) -> None:
    one, *_ = clients
    others = [await another() for _ in range(5)]
    await one.run("begin; update t set w = '' where k = 1")
    waiting = []
    for number, client in enumerate(others):
        await client.run("set default_transaction_isolation = 'read committed'")
        waiting.append(await blocked(client, f"update t set w = w || '{number}' where k = 1"))
    await one.run("commit")
    for statement in waiting:
        await statement.result()
    assert await one.value("select w from t where k = 1") == "01234"


# ------------------------------------------------------------ how a wait ends


async def test_deadlock(clients: list[Client]) -> None:
    one, two, _ = clients
    await one.run("set deadlock_timeout = '20ms'")
    await two.run("set deadlock_timeout = '100s'")
    await one.run("begin; update t set v = 1 where k = 1")
    await two.run("begin; update t set v = 2 where k = 2")
    second = await blocked(two, "update t set v = 2 where k = 1")
    error = await one.error("update t set v = 1 where k = 2")
    assert (error.sqlstate, error.message) == ("40P01", "deadlock detected")
    assert error.where == 'while updating tuple (0,2) in relation "t"'
    await second.result()
    await two.run("commit")
    assert await one.run("rollback; select v from t") == ["ROLLBACK", [(2,), (2,)]]


async def test_timeouts_and_cancel(clients: list[Client]) -> None:
    one, two, _ = clients
    await one.run("begin; update t set v = 1 where k = 1")
    await two.run("set lock_timeout = '20ms'")
    error = await two.error("delete from t where k = 1")
    assert (error.sqlstate, error.where) == ("55P03", 'while deleting tuple (0,1) in relation "t"')
    await two.run("set lock_timeout = 0; set statement_timeout = '20ms'")
    assert (await two.error("update t set v = 2")).sqlstate == "57014"
    await two.run("set statement_timeout = 0")
    second = await blocked(two, "update t set v = 2")
    two.session.cancel()
    assert (await second.error()).sqlstate == "57014"
    assert two.session.state.services.locks.waiting() == []
    await one.run("commit")
    assert await one.rows("select v from t order by k") == [(1,), (20,)]


# ------------------------------------------------------------ another server


async def test_another_servers_commits_are_judged_by_the_commit(clients: list[Client], stranger: Another) -> None:
    one, far = clients[0], await stranger()
    await one.run("begin; update t set v = 11 where k = 1")
    await far.run("update t set v = 12 where k = 1")
    error = await one.error("commit")
    assert (error.sqlstate, error.message) == ("40001", "could not serialize access due to concurrent update")

    async def work(client: Client) -> None:
        for _ in range(10):
            await client.run("update t set v = v + 1 where k = 2")

    await asyncio.gather(work(one), work(far), work(clients[1]))
    assert await one.value("select v from t where k = 2") == 50


async def test_deadlocked_statements_outside_of_blocks(clients: list[Client]) -> None:
    """Rows are locked in one order, so two changes of the same rows never wait for each other."""
    one, two, _ = clients
    await one.run("insert into t select n, n, null from generate_series(3, 400) n")

    async def work(client: Client, order: str) -> None:
        for _ in range(5):
            await client.run(f"update t set v = v + 1 where k in (select k from t order by k {order} limit 300)")

    await asyncio.gather(work(one, "asc"), work(two, "desc"))
    assert await one.value("select sum(v) from t") == sum(range(3, 401)) + 30 + 3000


async def test_a_change_that_fails_lets_go(clients: list[Client]) -> None:
    one, two, _ = clients
    await one.run("begin")
    with pytest.raises(SqlError):
        await one.run("update t set v = 1 / (k - 2)")
    assert await two.tag("update t set v = 3") == "UPDATE 2"
    await one.run("rollback")


async def test_waiting_is_shown(clients: list[Client]) -> None:
    one, two, three = clients
    await one.run("begin; update t set v = 1 where k = 2")
    second = await blocked(two, "update t set v = 2 where k = 2")
    shown = await three.rows(
        "select locktype, relation::regclass::text, page, tuple, mode, granted, pid from pg_locks"
        " where locktype = 'tuple' order by granted"
    )
    pids = [client.session.backend_pid for client in (two, one)]
    assert shown == [
        ("tuple", "t", 0, 2, "ExclusiveLock", False, pids[0]),
        ("tuple", "t", 0, 2, "ExclusiveLock", True, pids[1]),
    ]
    event = await three.rows(f"select wait_event_type, wait_event from pg_stat_activity where pid = {pids[0]}")
    assert event == [("Lock", "tuple")]
    await one.run("commit")
    await second.result()
    assert isinstance(second, Waiting)
