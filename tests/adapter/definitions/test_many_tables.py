"""What a definition costs does not grow with the tables that there are."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from adapter.definitions import views
from adapter.definitions.dependents import Dependents
from planner.functions.udfs import regex
from storage.catalog.model import CatalogSnapshot
from tests.adapter.harness import Client

TABLE = """
    create table {} (
        id serial primary key, a text unique, b int check (b > 0), c int references r, exclude (b with =)
    )
"""


async def test_a_table_looks_at_no_other_ones(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await client.run("create table r (id int primary key)")
    looked_at = 0
    get = CatalogSnapshot.get

    def counted(self: CatalogSnapshot, oid: int) -> Any:
        nonlocal looked_at
        looked_at += 1
        return get(self, oid)

    async def cost(name: str) -> int:
        nonlocal looked_at
        looked_at = 0
        await client.run(f"begin; {TABLE.format(name)}; rollback")
        return looked_at

    monkeypatch.setattr(CatalogSnapshot, "get", counted)
    before = await cost("few")
    await client.run(
        "begin; "
        + "; ".join(f"create table t{n} (a int primary key, b int check (b > 0))" for n in range(60))
        + "; commit"
    )
    assert await cost("many") <= before + 20


async def test_names_of_constraints_are_found_in_their_schema(client: Client) -> None:
    await client.run("create schema s; create table s.t (a int constraint t2_a_check check (a > 0))")
    await client.run("create table t2 (a int check (a > 1)); create table s.t2 (a int check (a > 1))")
    names = "select conname from pg_constraint where conrelid = '{}'::regclass"
    assert await client.rows(names.format("t2")) == [("t2_a_check",)]
    assert await client.rows(names.format("s.t2")) == [("t2_a_check1",)]
    await client.run(
        "alter table s.t drop constraint t2_a_check; drop table s.t2; create table s.t2 (a int check (a > 1))"
    )
    assert await client.rows(names.format("s.t2")) == [("t2_a_check",)]


async def test_psqls_look_up_of_a_name_calls_nothing_for_each_relation(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.run("create table t (a int)")
    calls = 0
    compiled = regex.compiled

    def counted(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        return compiled(*given)

    monkeypatch.setattr(regex, "compiled", counted)
    found = await client.rows(
        "select c.relname from pg_catalog.pg_class c left join pg_catalog.pg_namespace n on n.oid = c.relnamespace"
        " where c.relname operator(pg_catalog.~) '^(t)$' collate pg_catalog.default"
        " and pg_catalog.pg_table_is_visible(c.oid)"
    )
    assert found == [("t",)]
    assert calls <= 2


async def test_what_depends_on_a_column_is_looked_for_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0
    made = Dependents.__init__

    def counted(self: Dependents, catalog: CatalogSnapshot) -> None:
        nonlocal looked
        looked += 1
        made(self, catalog)

    monkeypatch.setattr(Dependents, "__init__", counted)
    await client.run("create table b (a int, c int)")
    await client.run("; ".join(f"create view v{n} as select c from b where a > {n}" for n in range(12)))
    looked = 0
    error = await client.error("alter table b drop column c")
    assert (error.sqlstate, len((error.detail or "").splitlines()), looked) == ("2BP01", 12, 1)


async def test_others_go_on_while_views_are_written_anew(
    client: Client, another: Callable[[], Awaitable[Client]], monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.run("create table b (a int, c int, d int)")
    await client.run("; ".join(f"create view v{n} as select b.a, b.c from b" for n in range(3)))
    other = await another()
    begun, answered = threading.Event(), threading.Event()
    waited: list[bool] = []

    def held_up(at: str) -> None:
        known = getattr(views, at)

        def waiting(*given: Any) -> Any:
            begun.set()
            waited.append(answered.wait(10))
            return known(*given)

        monkeypatch.setattr(views, at, waiting)

    async def beside(statement: str) -> None:
        begun.clear()
        answered.clear()
        work = asyncio.create_task(client.run(statement))
        assert await asyncio.to_thread(begun.wait, 10)
        assert await other.value("select 1") == 1
        answered.set()
        await work
        assert all(waited)

    held_up("rename_column")
    held_up("edited_query")
    held_up("_binds")
    await beside("alter table b rename column c to e")
    await beside("alter table b drop column d")
    await beside("alter table b rename to bb")
    await beside("alter table bb add column f int")
    await beside("create schema s; alter schema s rename to s2")
    assert await client.value("select pg_get_viewdef('v1'::regclass)") == " SELECT b.a,\n    b.e AS c\n   FROM bb b;"
