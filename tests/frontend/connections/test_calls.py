"""What applications send most, from its bytes to those of the answer, costs so many calls of Python functions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from frontend.connections.channel import ClientProtocol
from frontend.connections.client_log import ClientLog
from frontend.connections.connection import Connection
from tests.adapter.harness import connect, open_server
from tests.frontend.raw_client import SYNC, bind, describe, execute, parse, query
from tests.support.python_calls import CountedCalls

READY = b"Z\0\0\0\5"
RUNS = 10

# A number may go down.
MOST_CALLS = {
    "prepared": ([bind("", "s", [b"7"]), execute(), SYNC], 128),
    "prepared, described": ([bind("", "s", [b"7"]), describe("P"), execute(), SYNC], 129),
    "binary": ([bind("", "s", [b"\0\0\0\7"], [1], [1]), execute(), SYNC], 125),
    "text": ([query("select id, n, label from t where id = 8")], 140),
}

# What of a block is sent at once, one after the other.
BLOCK = {
    "begin": 80,
    "update t set n = n + 1 where id = $1": 346,
    "select id, n, label from t where id = $1": 398,
    "insert into u values ($1, 1, 'new')": 164,
    "commit": 494,
}


class Transport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_extra_info(self, name: str) -> None:
        return None


class Client:
    """One connection without a socket."""

    def __init__(self) -> None:
        self.transport = Transport()
        self.channel = ClientProtocol(lambda channel: None, max_message_bytes=1 << 20)
        self.channel.connection_made(cast(Any, self.transport))

    async def send(self, *messages: bytes) -> bytes:
        """The reply up to ReadyForQuery."""
        self.transport.written = b""
        self.channel.data_received(b"".join(messages))
        while not self.transport.written[:-1].endswith(READY):  # noqa: ASYNC110 - nobody tells what was written
            await asyncio.sleep(0)
        return bytes(self.transport.written)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with open_server() as server:
        setup = await connect(server)
        await setup.run("create table t (id int primary key, n int, label text)")
        await setup.run("create table u (id int, n int, label text)")
        await setup.run("insert into t select g, 0, 'label' || g from generate_series(1, 1000) g")
        for number in (7, 8):
            await setup.run(f"select id, n, label from t where id = {number}")
        client = Client()
        session = (await connect(server)).session
        unlogged = ClientLog(session.settings, session.backend_pid, "postgres", "postgres", None)
        task = asyncio.ensure_future(Connection(client.channel, session, unlogged).run())
        yield client
        client.channel.eof_received()
        await task


@pytest.mark.parametrize("name", MOST_CALLS)
async def test_a_point_read_takes_few_calls(client: Client, name: str) -> None:
    messages, most = MOST_CALLS[name]
    await client.send(parse("s", "select id, n, label from t where id = $1"), SYNC)
    for _ in range(20):
        await client.send(*messages)
    counts = []
    for _ in range(RUNS):
        with CountedCalls() as count:
            reply = await client.send(*messages)
        counts.append(count.total)
        assert b"label" in reply
    assert min(counts) <= most, sorted(counts)


async def test_the_statements_of_a_block_take_few_calls(client: Client) -> None:
    await client.send(query("set default_transaction_isolation = 'read committed'"))
    for name in BLOCK:
        await client.send(parse(name, name), SYNC)
    counts: dict[str, list[int]] = {name: [] for name in BLOCK}
    for number in range(RUNS):
        for name in BLOCK:
            values = [str(number + 1).encode()] if "$1" in name else []
            with CountedCalls() as count:
                reply = await client.send(bind("", name, values), execute(), SYNC)
            counts[name].append(count.total)
            assert b"ERROR" not in reply, reply
    for name, most in BLOCK.items():
        assert min(counts[name]) <= most, (name, sorted(counts[name]))
