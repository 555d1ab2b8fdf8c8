"""Keys that an earlier version recorded and did not enforce; what is not written while such a one may be at work."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from adapter.sessions.options import ServerOptions
from adapter.sessions.server import Server
from planner.errors import SqlError
from storage.catalog.model import CatalogUpdate, Constraint, Relation
from storage.catalog.record import BUILTIN_ACLS_FORMAT, COLLATIONS_FORMAT, INDEX_METHODS_FORMAT
from storage.durable.formats import UNGATED, FormatGate
from storage.environment.named_stores import StoreNames
from tests.adapter.harness import connect, open_server


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


async def test_column_options_wait_for_the_upgrade_to_be_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    async def not_yet(gate: FormatGate, format: int) -> bool:
        return format <= UNGATED

    options = "select attoptions, attstattarget from pg_attribute where attrelid = 't'::regclass and attname = 'a'"
    async with open_server() as server:
        client = await connect(server)
        await client.run("create table t (a int, b text)")
        with monkeypatch.context() as patched:
            patched.setattr(FormatGate, "allows", not_yet)
            for action in ("set (n_distinct = 5)", "set statistics 100"):
                with pytest.raises(SqlError, match="finish-upgrade") as caught:
                    await client.run(f"alter table t alter a {action}")
                assert caught.value.sqlstate == "55000"
            await client.run("alter table t alter a reset (n_distinct); alter table t alter a set statistics -1")
            assert await client.rows(options) == [(None, -1)]
        await client.run("alter table t alter a set (n_distinct = 5); alter table t alter a set statistics 100")
        assert await client.rows(options) == [(["n_distinct=5"], 100)]


async def test_collations_are_left_out_until_the_upgrade_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    async def not_yet(gate: FormatGate, format: int) -> bool:
        return format < COLLATIONS_FORMAT

    columns = "select attrelid::regclass::text, attname, attcollation from pg_attribute where attrelid > 16383"
    kept = f"{columns} and attnum > 0 and attcollation = 950 order by 1, 2"
    async with open_server() as server:
        client = await connect(server)
        with monkeypatch.context() as patched:
            patched.setattr(FormatGate, "allows", not_yet)
            await client.run(
                'create table t (a text collate "C", b text); create table s as select a from t;'
                'create view v as select b collate "C" as b from t; create type c as (a text collate "C");'
                'alter table t add d text collate "C"; alter table s alter a type varchar collate "C"'
            )
            assert await client.rows(kept) == []
        await client.run('alter table s alter a type text collate "C"; create view w as select a from s')
        assert await client.rows(kept) == [("s", "a", 950), ("w", "a", 950)]


async def test_privileges_of_two_databases_on_what_is_built_in_wait_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def not_yet(gate: FormatGate, format: int) -> bool:
        return format < BUILTIN_ACLS_FORMAT

    revoke = "revoke execute on function pg_sleep(double precision) from public"
    async with open_server() as server:
        client = await connect(server)
        await client.run("create database other")
        other = await connect(server, database="other")
        with monkeypatch.context() as patched:
            patched.setattr(FormatGate, "allows", not_yet)
            await client.run(revoke)
            with pytest.raises(SqlError, match="finish-upgrade") as caught:
                await other.run(revoke)
            assert caught.value.sqlstate == "55000"
            with pytest.raises(SqlError, match="finish-upgrade"):
                await client.run("create database copy template postgres")
        await other.run(revoke)


async def test_indexes_that_hold_no_keys_wait_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def not_yet(gate: FormatGate, format: int) -> bool:
        return format < INDEX_METHODS_FORMAT

    async with open_server() as server:
        client = await connect(server)
        await client.run("create table t (a int[])")
        with monkeypatch.context() as patched:
            patched.setattr(FormatGate, "allows", not_yet)
            await client.run("create index on t (a); create index on t using hash (a)")
            with pytest.raises(SqlError, match="finish-upgrade") as caught:
                await client.run("create index on t using gin (a)")
            assert caught.value.sqlstate == "55000"
        await client.run("create index on t using gin (a)")
