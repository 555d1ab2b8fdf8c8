"""Keys that an earlier version recorded and did not enforce."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from adapter.sessions.options import ServerOptions
from adapter.sessions.server import Server
from planner.errors import SqlError
from storage.catalog.model import CatalogUpdate, Constraint, Relation
from storage.environment.named_stores import StoreNames
from tests.adapter.harness import connect


async def as_recorded(server: Server) -> None:
    """Make all keys what the earlier version made of them."""
    env = server.env
    catalog = env.catalog.current()
    updates = []
    for record in catalog.all():
        after: Constraint | Relation | None = None
        if isinstance(record, Constraint):
            after = replace(record, enforced=False)
        elif isinstance(record, Relation) and record.constraints:
            after = replace(record, constraints=())
        if after is not None:
            updates += [CatalogUpdate(record=record, diff=-1), CatalogUpdate(record=after, diff=1)]
    txn = env.begin()
    txn.update_catalog(updates, expected=catalog.csn)
    ts = await env.oracle.write_ts("user")
    await env.committer.commit(txn, ts=ts)
    await env.oracle.apply_write("user", ts)


async def test_recorded_keys_are_enforced_and_not_valid(tmp_path: Path) -> None:
    options = ServerOptions(
        stores=StoreNames(data_dir=tmp_path / "data"), warm_spark=False, settings={"engine": "local"}
    )
    server = await Server.open(options)
    client = await connect(server)
    await client.run("create table p (id int primary key); create table c (p int references p)")
    await as_recorded(server)
    await client.run("insert into p values (1), (1); insert into c values (7)")
    await server.close()

    server = await Server.open(options)
    try:
        client = await connect(server)
        valid = "select conname, convalidated from pg_constraint where conname in ('p_pkey', 'c_p_fkey') order by 1"
        assert await client.rows(valid) == [("c_p_fkey", False), ("p_pkey", False)]
        for text, state in [
            ("insert into p values (1)", "23505"),
            ("insert into c values (8)", "23503"),
            ("delete from p where id = 1", "00000"),
            ("alter table c validate constraint c_p_fkey", "23503"),
            ("insert into p values (1), (7)", "00000"),
            ("alter table p validate constraint p_pkey", "00000"),
            ("alter table c validate constraint c_p_fkey", "00000"),
        ]:
            if state == "00000":
                await client.run(text)
            else:
                with pytest.raises(SqlError) as caught:
                    await client.run(text)
                assert caught.value.sqlstate == state
        assert await client.rows(valid) == [("c_p_fkey", True), ("p_pkey", True)]
    finally:
        await server.close()
