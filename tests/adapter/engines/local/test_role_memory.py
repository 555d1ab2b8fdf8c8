"""`role_memory_limit`: what the statements of a role take of the local engine's memory together."""

from __future__ import annotations

import asyncio

from adapter.sessions.server import Server
from tests.adapter.harness import Client, connect

COLLECTED = "select length(string_agg(repeat(i::text, 20), ',')) from generate_series(1, {rows}) g(i)"
SORTED = "select count(*) from (select i from generate_series(1, 1500000) g(i) order by i % 1009, i::text offset 1) s"
SET = "set engine = 'local'; set workload_class = 'interactive'"


async def limited(server: Server, user: str, limit: str) -> Client:
    admin = await connect(server)
    await admin.run(f"create role {user} login")
    await admin.run(f"alter role {user} set role_memory_limit = '{limit}'")
    client = await connect(server, user=user)
    await client.run(SET)
    return client


async def test_what_spills_goes_on_within_the_limit(server: Server) -> None:
    client = await limited(server, "small", "64MB")
    assert await client.value("show role_memory_limit") == "64MB"
    assert await client.value(SORTED) == 1499999


async def test_beyond_the_limit_a_statement_fails_and_others_go_on(server: Server) -> None:
    client, other = await limited(server, "small", "32MB"), await connect(server)
    await other.run(SET)
    error = await client.error(COLLECTED.format(rows=1_000_000))
    assert (error.sqlstate, error.message) == ("53200", "out of memory")
    assert error.detail == 'The statements of role "small" have role_memory_limit together.'
    assert await client.value("select sum(i) from generate_series(1, 300000) g(i)") == 45000150000
    assert await other.value(COLLECTED.format(rows=1_000_000)) > 100_000_000


async def test_statements_of_a_role_share_its_memory(server: Server) -> None:
    first = await limited(server, "small", "64MB")
    second = await connect(server, user="small")
    await second.run(SET)
    counts = await asyncio.gather(first.value(SORTED), second.value(SORTED))
    assert list(counts) == [1499999, 1499999]
    assert len(list(server._scratch.path.glob("local/role*"))) == 1


async def test_another_limit_takes_effect_in_new_sessions(server: Server) -> None:
    client = await limited(server, "small", "32MB")
    error = await client.error(COLLECTED.format(rows=1_000_000))
    assert error.sqlstate == "53200"
    admin = await connect(server)
    await admin.run("alter role small set role_memory_limit = '1GB'")
    again = await connect(server, user="small")
    await again.run(SET)
    assert await again.value(COLLECTED.format(rows=1_000_000)) > 100_000_000


async def test_a_role_cannot_raise_its_own_limit(server: Server) -> None:
    client = await limited(server, "small", "32MB")
    error = await client.error("set role_memory_limit = '1GB'")
    assert error.sqlstate == "42501"


async def test_no_class_is_a_way_out_of_the_limit(server: Server) -> None:
    client = await limited(server, "small", "32MB")
    for name in ("point", "catalog", "heavy", "load", "maintenance"):
        await client.run(f"set workload_class = '{name}'")
        error = await client.error(COLLECTED.format(rows=1_000_000))
        assert error.detail == 'The statements of role "small" have role_memory_limit together.', name
