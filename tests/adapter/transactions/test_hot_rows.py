"""Many sessions that want one row take their turns, and none works in vain again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from adapter.sessions.server import Server
from adapter.transactions.row_versions import CommittedChanges
from adapter.transactions.transaction import Transaction
from storage.environment.environment import Environment
from storage.timestamps.csn import Csn
from storage.transactions.txn import Txn
from tests.adapter.harness import Client, connect

CLIENTS = 8
ROUNDS = 10


@pytest.mark.parametrize("level", ["read committed", "serializable"])
async def test_a_statement_begins_again_when_there_is_a_newer_snapshot(
    server: Server, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    """Also where a commit is durable a moment before it is known what became of its rows, and before it is visible."""
    again = 0
    versions = server.services.row_versions
    committed = versions.committed

    async def later(env: Environment, whole: Txn, changes: Iterable[CommittedChanges], csn: Csn) -> None:
        await asyncio.sleep(0.005)
        await committed(env, whole, changes, csn)

    monkeypatch.setattr(versions, "committed", later)
    renew = Transaction.renew

    def counted(transaction: Transaction) -> None:
        nonlocal again
        again += 1
        renew(transaction)

    monkeypatch.setattr(Transaction, "renew", counted)
    clients = [await connect(server, default_transaction_isolation=level) for _ in range(CLIENTS)]
    await clients[0].run("create table t (id int primary key, n int)")
    await clients[0].run("insert into t values (1, 0)")

    async def work(client: Client, number: int) -> None:
        for _ in range(ROUNDS):
            await client.run("update t set n = n + 1 where id = 1")
            await asyncio.sleep(0.001 * number)

    await asyncio.gather(*(work(client, number) for number, client in enumerate(clients)))
    assert await clients[0].value("select n from t") == CLIENTS * ROUNDS
    assert again <= 2 * CLIENTS * ROUNDS
