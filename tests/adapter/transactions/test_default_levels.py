"""The isolation level that a session begins with: the server's, its database's, its role's, or what it asks for."""

from __future__ import annotations

from adapter.sessions.server import Server
from tests.adapter.harness import Client, connect


async def level(server: Server, user: str = "postgres") -> object:
    """The level of a new session's transactions."""
    return await (await connect(server, user=user)).value("show transaction_isolation")


async def test_the_nearest_default_holds(client: Client, server: Server) -> None:
    await client.run("create role clerk login")
    assert await level(server, "clerk") == "serializable"
    await client.run("alter database postgres set default_transaction_isolation = 'repeatable read'")
    assert await level(server, "clerk") == "repeatable read"
    await client.run("alter role clerk set default_transaction_isolation = 'read committed'")
    assert await level(server, "clerk") == "read committed"
    assert await level(server) == "repeatable read"
    await client.run("alter role clerk in database postgres set default_transaction_isolation = 'serializable'")
    assert await level(server, "clerk") == "serializable"
    asking = await connect(server, user="clerk", default_transaction_isolation="read committed")
    assert await asking.value("show transaction_isolation") == "read committed"


async def test_a_default_that_is_reset(client: Client, server: Server) -> None:
    await client.run("alter database postgres set default_transaction_isolation = 'read committed'")
    session = await connect(server)
    await session.run("set default_transaction_isolation = 'repeatable read'; reset default_transaction_isolation")
    assert await session.value("show transaction_isolation") == "read committed"
    await client.run("alter database postgres reset default_transaction_isolation")
    assert await level(server) == "serializable"


async def test_there_are_four_levels(client: Client) -> None:
    error = await client.error("alter role postgres set default_transaction_isolation = 'chaos'")
    assert error.sqlstate == "22023"
