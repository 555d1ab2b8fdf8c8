"""ANALYZE: what it gathers outlives the server, larger tables are sampled, and nobody's writing makes it fail."""

from __future__ import annotations

import pytest

from adapter.sessions.server import Server
from adapter.statements.maintenance import analyze
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.ids import STATISTICS_SHARD
from tests.adapter.harness import Client, connect, open_server


async def test_what_was_gathered_outlives_the_server() -> None:
    blob, consensus = MemoryBlob(), MemoryConsensus()
    async with open_server(blob=blob, consensus=consensus) as server:
        client = await connect(server)
        await client.run("create table t (a int); insert into t values (1), (1), (2)")
        await client.run("analyze t")
    async with open_server(blob=blob, consensus=consensus) as server:
        client = await connect(server)
        assert await client.rows("select attname, most_common_vals from pg_stats") == [("a", "{1}")]


async def test_a_large_table_is_sampled(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    # Six files, of which so many are read that they have 12,000 rows.
    monkeypatch.setattr(analyze, "MAX_READ_ROWS", 12_000)
    await client.run("create table t (a int, b int, c int)")
    for part in range(6):
        await client.run(
            f"insert into t select {part} * 5000 + g, g % 10, case when g % 2 = 0 then 1 else g end"
            " from generate_series(1, 5000) g"
        )
    await client.run("set default_statistics_target = 10; analyze t")
    rows = await client.rows(
        "select attname, n_distinct, array_length(most_common_freqs, 1), most_common_freqs[1], correlation"
        " from pg_stats where tablename = 't' order by attname"
    )
    (_, unique, none, _, sorted_), (_, ten, _, _, _), (_, _, common, half, _) = rows
    assert unique == -1.0
    assert none is None
    assert sorted_ == 1.0
    assert ten == 10.0
    assert common == 1
    assert 0.4 < half < 0.6


async def test_writers_do_not_make_it_fail(server: Server) -> None:
    one, other = await connect(server), await connect(server)
    await one.run("create table t (a int); insert into t values (1)")
    await one.run("begin isolation level serializable; analyze t")
    await other.run("insert into t values (2)")
    await one.run("commit")
    assert await one.value("select avg_width from pg_stats where tablename = 't'") == 4


async def test_rows_of_tables_that_are_gone_are_taken_out(client: Client) -> None:
    await client.run("create table t (a int); create table u (a int)")
    await client.run("insert into t values (1); insert into u values (1)")
    await client.run("analyze t, u")
    await client.run("drop table t")
    await client.run("analyze u")
    env = client.session.state.services.env
    snapshot = await env.reader.snapshot(STATISTICS_SHARD, await env.oracle.read_ts("user"))
    gone = sum(part.rows for part in snapshot.deletes)
    assert snapshot.rows - gone <= 1
