"""Indexes that become constraints: what is known of them stays."""

from __future__ import annotations

from adapter.sessions.server import Server
from tests.adapter.definitions.indexes.test_creation import files_of
from tests.adapter.harness import Client


async def test_a_constraint_keeps_the_comment_and_the_runs_of_its_index(server: Server, client: Client) -> None:
    await client.run("create table t (id int, code text); create unique index u on t (id); comment on index u is 'old'")
    await client.run("insert into t select g, 'code ' || g from generate_series(1, 20000) g")
    (part,) = await files_of(server, "t")
    made = server.env.keys.sources.runs.made
    await client.run("alter table t add constraint pk primary key using index u")
    assert await client.value("select obj_description('pk'::regclass)") == "old"
    assert await client.value("select count(*) from pg_constraint where conname = 'pk' and contype = 'p'") == 1
    assert (await client.error("insert into t values (777)")).constraint == "pk"
    assert await client.value("select code from t where id = 777") == "code 777"
    assert server.env.keys.sources.runs.made == made
    assert len(part.runs) == 1


async def test_a_primary_key_by_an_index_wants_values(client: Client) -> None:
    await client.run("create table t (id int); create unique index u on t (id); insert into t values (null)")
    error = await client.error("alter table t add primary key using index u")
    assert (error.sqlstate, error.message) == ("23502", 'column "id" of relation "t" contains null values')
    assert await client.value("select count(*) from pg_constraint where conrelid = 't'::regclass") == 0
    await client.run("delete from t; alter table t add primary key using index u")
    assert (await client.error("insert into t values (null)")).sqlstate == "23502"
