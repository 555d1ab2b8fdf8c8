"""Indexes as the offline commands see them."""

from __future__ import annotations

from adapter.sessions.server import Server
from storage.catalog.model import CatalogUpdate, Index, Relation
from storage.clock import SystemRandomness
from storage.offline.admin import Inspector
from storage.offline.export import clone_table, commit_alone
from storage.offline.fsck import fsck
from tests.adapter.definitions.indexes.test_creation import table
from tests.adapter.harness import Client


def inspector(server: Server) -> Inspector:
    """What looks at the server's environment from outside."""
    env = server.env
    return Inspector(blob=env.blob, consensus=env.consensus, clock=env.clock, random=SystemRandomness())


async def test_fsck_knows_what_tables_name(server: Server, client: Client) -> None:
    await client.run("create table t (a int primary key, b text, exclude (b with =))")
    await client.run("create unique index u on t (lower(b)); create index i on t (a desc) where b is null")
    await client.run("insert into t select g, 'x' || g from generate_series(1, 20000) g")
    assert (await fsck(inspector(server))).problems == ()
    env = server.env
    catalog = env.catalog.current()
    (unique,) = [record for record in catalog.all() if isinstance(record, Index) and record.unique]
    txn = env.begin()
    txn.update_catalog([CatalogUpdate(record=unique, diff=-1)], expected=catalog.csn)
    await commit_alone(env, txn)
    (problem,) = (await fsck(inspector(server))).problems
    assert (problem.where, problem.what) == ("table t", f"it names what is not there: [{unique.oid}]")


async def test_a_clone_has_no_constraints(server: Server, client: Client) -> None:
    await client.run("create table t (a int primary key, b text); create unique index u on t (lower(b))")
    await client.run("insert into t values (1, 'x')")
    env = server.env
    now = await env.oracle.read_ts("user")
    await clone_table(env, table(server, "t"), now, "c", table(server, "t").schema, {})
    copies = [r for r in env.catalog.current().all() if isinstance(r, Relation) and r.name == "c"]
    assert [copy.constraints for copy in copies] == [()]
    await client.run("insert into c values (1, 'X')")
    assert await client.rows("select a, b from c order by b") == [(1, "X"), (1, "x")]
