"""What each state of a transaction allows: the table of `adapter.transactions.transaction`, walked through."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeAlias

import pyarrow as pa
import pytest

from adapter.settings.values import SettingValues
from adapter.transactions import transaction as module
from adapter.transactions.claims import Absent
from adapter.transactions.commit_request import Isolation, TableRead
from adapter.transactions.locks.lock import Owner, Patience
from adapter.transactions.locks.lock_table import LockTable, SessionLocks
from adapter.transactions.pending import DeferredKeys, State
from adapter.transactions.transaction import Transaction
from planner.errors import ActiveSqlTransaction, InternalError, UniqueViolation
from storage.catalog.model import CatalogUpdate, Schema
from storage.clock import SystemClock
from storage.doubles.clock import SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.environment.environment import Environment
from storage.environment.opening import open_on_stores
from storage.ids import ShardId
from storage.shards.indexes.definition import IndexDefinition, KeyColumn, StoredColumn
from storage.timestamps.csn import Csn
from tests.adapter.harness import Client

Step: TypeAlias = Callable[[Transaction, Environment], Awaitable[None]]
SETTINGS = SettingValues()
INDEX = IndexDefinition(id=1, columns=(KeyColumn(source=StoredColumn(name="c1", type=pa.int64())),), unique=True)


@pytest.fixture
async def env() -> AsyncIterator[Environment]:
    """An environment in memory."""
    environment = await open_on_stores(
        blob=MemoryBlob(),
        consensus=MemoryConsensus(),
        clock=SystemClock(),
        random=SeededRandomness(1),
        process="test",
        background=False,
    )
    yield environment
    await environment.close()


def begun(isolation: Isolation = Isolation.READ_COMMITTED) -> Transaction:
    return Transaction(
        isolation=isolation,
        read_only=False,
        deferrable=False,
        implicit=False,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        settings_at_start=SETTINGS,
        locks=SessionLocks(LockTable(SystemClock()), Owner(pid=1), Patience),
    )


async def begin_to_read(transaction: Transaction, env: Environment) -> None:
    assert await transaction.begin_statement(env) is transaction.catalog


async def begin_to_add(transaction: Transaction, env: Environment) -> None:
    assert await transaction.begin_statement(env, reads=False) is transaction.catalog


async def renew(transaction: Transaction, env: Environment) -> None:
    transaction.renew()


async def assume(transaction: Transaction, env: Environment) -> None:
    transaction.assume()


async def define(transaction: Transaction, env: Environment) -> None:
    oid = 20_000 + len(transaction.pending.updates)
    schema = Schema(oid=oid, name=f"s{oid}", owner=10)
    transaction.change_catalog([CatalogUpdate(record=schema, diff=1)])
    assert transaction.catalog.get(schema.oid) is schema


async def read(transaction: Transaction, env: Environment) -> None:
    transaction.record_read(TableRead(relation_oid=1, shard=ShardId("s"), as_of=Csn(1), conjunctions=()), always=True)


async def write(transaction: Transaction, env: Environment) -> None:
    transaction.writable(env)
    keys = (pa.array([1]),)
    transaction.defer(DeferredKeys(constraint=1, keys=keys))
    transaction.claim(
        Absent(shard=ShardId("s"), index=INDEX, keys=keys, as_of=Csn(1), violation=lambda _: UniqueViolation(""))
    )


async def savepoint(transaction: Transaction, env: Environment) -> None:
    transaction.notify("channel", "")
    transaction.listen("listen", "channel")
    transaction.set_timings({0: True})
    transaction.define_savepoint("a", SETTINGS)


async def set_isolation(transaction: Transaction, env: Environment) -> None:
    transaction.set_isolation(Isolation.SERIALIZABLE)


async def fail(transaction: Transaction, env: Environment) -> None:
    transaction.fail()


async def commit(transaction: Transaction, env: Environment) -> None:
    transaction.commit_request(env)


OPERATIONS: dict[str, Step] = {
    "to read": begin_to_read,
    "to add": begin_to_add,
    "renew": renew,
    "assume": assume,
    "define": define,
    "read": read,
    "write": write,
    "savepoint": savepoint,
    "isolation": set_isolation,
    "fail": fail,
    "commit": commit,
}


def ended(state: State) -> Step:
    async def end(transaction: Transaction, env: Environment) -> None:
        transaction.end(state)

    return end


WAYS: dict[State, tuple[Step, ...]] = {
    State.NEW: (),
    State.PROVISIONAL: (begin_to_add,),
    State.READING: (begin_to_read,),
    State.DEFINING: (begin_to_read, define),
    State.ASSUMING: (begin_to_add, assume),
    State.FAILED: (begin_to_read, fail),
    State.COMMITTING: (begin_to_read, commit),
    State.COMMITTED: (begin_to_read, commit, ended(State.COMMITTED)),
    State.ROLLED_BACK: (begin_to_read, ended(State.ROLLED_BACK)),
    State.IN_DOUBT: (begin_to_read, commit, ended(State.IN_DOUBT)),
}
"""How to come to each state."""


async def brought_to(state: State, env: Environment, isolation: Isolation = Isolation.READ_COMMITTED) -> Transaction:
    transaction = begun(isolation)
    for step in WAYS[state]:
        await step(transaction, env)
    assert transaction.state is state
    return transaction


def written_table() -> dict[State, dict[str, str]]:
    """The table at the head of the module: state -> operation -> cell."""
    lines = (module.__doc__ or "").splitlines()
    ruler = next(number for number, line in enumerate(lines) if line.strip().startswith("-----"))
    starts = [at for at in range(1, len(lines[ruler])) if lines[ruler][at - 1 : at + 1] == " -"]
    ends = [*starts[1:], None]

    def cells(line: str) -> list[str]:
        return [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]

    _, *operations = cells(lines[ruler - 1])
    table: dict[State, dict[str, str]] = {}
    for line in lines[ruler + 1 :]:
        if not line.strip():
            break
        state, *allowed = cells(line)
        table[State(state)] = dict(zip(operations, allowed, strict=True))
    return table


TABLE = written_table()


def test_the_table_is_whole() -> None:
    assert list(TABLE) == list(State) == list(WAYS)
    assert all(list(row) == list(OPERATIONS) for row in TABLE.values())


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("state", State)
async def test_what_a_state_allows(env: Environment, state: State, operation: str) -> None:
    transaction = await brought_to(state, env)
    match TABLE[state][operation]:
        case ".":
            with pytest.raises(InternalError, match=f"in a transaction that is {state.value}"):
                await OPERATIONS[operation](transaction, env)
            after = state
        case "25001":
            with pytest.raises(ActiveSqlTransaction):
                await OPERATIONS[operation](transaction, env)
            after = state
        case "yes":
            await OPERATIONS[operation](transaction, env)
            after = state
        case leads_to:
            await OPERATIONS[operation](transaction, env)
            after = State(leads_to)
    assert transaction.state is after


@pytest.mark.parametrize("state", State)
async def test_how_a_state_may_end(env: Environment, state: State) -> None:
    unfinished = (State.NEW, State.PROVISIONAL, State.READING, State.DEFINING, State.ASSUMING, State.COMMITTING)
    ends = {
        State.COMMITTED: unfinished,
        State.ROLLED_BACK: (*unfinished, State.FAILED),
        State.IN_DOUBT: (State.COMMITTING,),
    }
    for end, before in ends.items():
        transaction = await brought_to(state, env)
        if state in before:
            transaction.end(end)
            assert transaction.state is end
            assert transaction.hold is None
        else:
            with pytest.raises(InternalError):
                transaction.end(end)


async def test_a_commit_that_was_answered_may_come_into_doubt(env: Environment) -> None:
    transaction = await brought_to(State.COMMITTED, env)
    transaction.doubt()
    assert transaction.state is State.IN_DOUBT
    with pytest.raises(InternalError):
        transaction.doubt()


@pytest.mark.parametrize("isolation", Isolation)
async def test_whose_snapshot_stays(env: Environment, isolation: Isolation) -> None:
    for state in (State.READING, State.DEFINING):
        transaction = await brought_to(state, env, isolation)
        before = transaction.snapshot
        await begin_to_read(transaction, env)
        assert (transaction.snapshot is before) == isolation.keeps_snapshot
        await begin_to_add(transaction, env)
        kept = isolation.keeps_snapshot or state is State.DEFINING
        assert transaction.state is (state if kept else State.PROVISIONAL)


@pytest.mark.parametrize("isolation", Isolation)
async def test_who_may_begin_again(env: Environment, isolation: Isolation) -> None:
    transaction = await brought_to(State.READING, env, isolation)
    await read(transaction, env)
    assert transaction.may_renew
    transaction.renew()
    assert (transaction.state, transaction.snapshot) == (State.NEW, None)
    assert bool(transaction.reads) != isolation.keeps_snapshot
    await begin_to_read(transaction, env)
    await begin_to_read(transaction, env)
    assert transaction.may_renew != isolation.keeps_snapshot


@pytest.mark.parametrize("isolation", Isolation)
async def test_who_has_defined_may_begin_later_statements_again(env: Environment, isolation: Isolation) -> None:
    transaction = await brought_to(State.DEFINING, env, isolation)
    assert not transaction.may_renew
    await begin_to_read(transaction, env)
    assert transaction.may_renew != isolation.keeps_snapshot


@pytest.mark.parametrize("before", [State.NEW, State.PROVISIONAL, State.READING, State.DEFINING])
@pytest.mark.parametrize("since", [(), (begin_to_read,), (begin_to_read, define), (begin_to_read, define, fail)])
async def test_a_savepoint_is_the_old_value(env: Environment, before: State, since: tuple[Step, ...]) -> None:
    transaction = await brought_to(before, env)
    await savepoint(transaction, env)
    old = transaction.pending
    for step in since:
        await step(transaction, env)
    transaction.rollback_to_savepoint("a")
    assert transaction.pending is old
    # The snapshot stays.
    assert transaction.state is (State.READING if since and before is not State.DEFINING else before)


async def test_rolled_back_definitions_leave_the_newest_catalog_that_was_read(
    client: Client, another: Callable[[], Awaitable[Client]]
) -> None:
    """A transaction that keeps its snapshot took it after the savepoint, so going back does not bring back a catalog
    from before it."""
    other = await another()
    await client.run("create table t (a int); insert into t values (1); create table u (a int)")
    await client.run("begin isolation level repeatable read; insert into u values (1); savepoint s")
    await other.run("alter table t add column b int default 5")
    assert await client.rows("select * from t") == [(1, 5)]
    await client.run("rollback to s")
    assert await client.rows("select * from t") == [(1, 5)]
    await client.run("rollback")
