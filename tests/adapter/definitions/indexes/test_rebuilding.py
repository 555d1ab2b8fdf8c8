"""REINDEX: files get other runs, and rows that break a unique index are found."""

from __future__ import annotations

from adapter.sessions.server import Server
from tests.adapter.definitions.indexes.test_creation import files_of
from tests.adapter.harness import Client


async def test_runs_are_made_anew(server: Server, client: Client) -> None:
    await client.run("create table t (id int primary key, code text); create index c on t (code)")
    await client.run("create unique index l on t (lower(code)) where id > 10")
    await client.run("insert into t select g, 'Code ' || g from generate_series(1, 20000) g")
    (before,) = await files_of(server, "t")
    await client.run("reindex index c")
    (after,) = await files_of(server, "t")
    changed = [oid for oid in before.runs if before.runs[oid].key != after.runs[oid].key]
    (c,) = await client.rows("select 'c'::regclass::oid")
    assert changed == [c[0]]
    assert after.runs[c[0]].checksum == before.runs[c[0]].checksum
    for statement in ("reindex table concurrently t", "reindex schema public", "reindex database postgres"):
        await client.run(statement)
    (last,) = await files_of(server, "t")
    assert not {run.key for run in last.runs.values()} & {
        run.key for run in (*before.runs.values(), *after.runs.values())
    }
    assert (await client.error("insert into t values (0, 'x'), (77, 'y')")).constraint == "t_pkey"
    assert (await client.error("insert into t values (-5, 'CODE 77'), (20001, 'CODE 77')")).constraint == "l"


async def test_in_a_block(server: Server, client: Client) -> None:
    await client.run("create table t (id int primary key); insert into t values (1)")
    await client.run("begin; insert into t values (2); reindex table t; create table u (a int primary key)")
    await client.run("insert into u values (1); reindex table u; commit")
    assert await client.rows("select id from t order by 1") == [(1,), (2,)]
    assert (await client.error("begin; reindex schema public")).sqlstate == "25001"
    await client.run("rollback")
