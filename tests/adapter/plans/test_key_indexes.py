"""Keys of tables have durable runs: what one server has written, another finds rows by without reading it all."""

from __future__ import annotations

from adapter.sessions.server import Server
from storage.catalog.model import Relation
from storage.shards.parts import Part
from tests.adapter.harness import Client, connect, open_server


async def files_of(server: Server, table: str) -> list[Part]:
    """The files of a table as they are now."""
    env = server.env
    shards = [r.shard for r in env.catalog.current().all() if isinstance(r, Relation) and r.name == table]
    (shard,) = [shard for shard in shards if shard is not None]
    snapshot = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    return [part for part in snapshot.inserts if part.key is not None]


async def test_files_of_a_table_with_keys_have_key_runs(server: Server, client: Client) -> None:
    await client.run("CREATE TABLE t (id int PRIMARY KEY, code text, n numeric, UNIQUE (code, n))")
    await client.run("INSERT INTO t SELECT g, 'code ' || g, g / 4.0 FROM generate_series(1, 20000) g")
    parts = await files_of(server, "t")
    assert parts
    assert {len(part.runs) for part in parts} == {2}
    before = server.env.keys.sources.runs.made
    assert (await client.error("INSERT INTO t VALUES (777, 'new', 0)")).sqlstate == "23505"
    assert (await client.error("INSERT INTO t VALUES (-1, 'code 5', 1.2500)")).sqlstate == "23505"
    await client.run("INSERT INTO t VALUES (-1, 'code 5', 1.3)")
    assert await client.value("SELECT code FROM t WHERE id = -1") == "code 5"
    assert server.env.keys.sources.runs.made == before
    assert server.env.keys.sources.runs.read >= 2


async def test_files_get_and_lose_runs_with_the_tables_keys(server: Server, client: Client) -> None:
    await client.run("CREATE TABLE t (id int, code text)")
    await client.run("INSERT INTO t SELECT g, 'code ' || g FROM generate_series(1, 20000) g")
    env = server.env
    await env.applier.apply_all()
    assert {len(part.runs) for part in await files_of(server, "t")} == {0}
    await client.run("ALTER TABLE t ADD PRIMARY KEY (id)")
    (shard,) = {part.key.split("/")[1] for part in await files_of(server, "t") if part.key}
    await env.maintenance.run({shard})  # type: ignore[arg-type]
    assert {len(part.runs) for part in await files_of(server, "t")} == {1}
    await client.run("ALTER TABLE t DROP CONSTRAINT t_pkey")
    await env.maintenance.run({shard})  # type: ignore[arg-type]
    assert {len(part.runs) for part in await files_of(server, "t")} == {0}


async def test_a_server_that_starts_reads_the_runs_of_another() -> None:
    async with open_server(shared=True) as first:
        client = await connect(first)
        await client.run("CREATE TABLE t (id bigint PRIMARY KEY, code text)")
        await client.run("INSERT INTO t SELECT g, 'code ' || g FROM generate_series(1, 20000) g")
        async with open_server(blob=first.env.blob, consensus=first.env.consensus, shared=True) as second:
            other = await connect(second)
            assert (await other.error("INSERT INTO t VALUES (20000)")).sqlstate == "23505"
            runs = second.env.keys.sources.runs
            assert (runs.made, runs.read) == (0, len(await files_of(second, "t")))
