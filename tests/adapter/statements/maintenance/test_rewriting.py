"""VACUUM (FULL): files are laid out anew, in groups; what is done stays done, and who reads an earlier moment is not
disturbed."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from adapter.sessions.server import Server
from adapter.statements.maintenance import rewriting
from planner.errors import SqlError
from storage.durable.formats import FormatGate
from storage.layouts.definition import ZORDER_FORMAT
from storage.transactions.applier import Applier
from storage.upkeep.compactor import Compactor
from tests.adapter.harness import Client, connect, open_server

ROWS = (
    "insert into t select (g * 7919::bigint) % 20011, (g * 104729::bigint) % 20021, date '2026-01-01' + g % 300,"
    " md5(g::text) from generate_series(1, 40000) g"
)
DIGEST = "select count(*), sum(a), sum(b), min(d), max(d), md5(string_agg(s, ',' order by s)) from t"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "SMALL_BYTES", 0)


async def made(client: Client, options: str) -> Any:
    """A table with deletions and changes; what it has."""
    await client.run(f"create table t (a int, b int, d date, s text) with ({options})")
    await client.run(ROWS)
    await client.run("delete from t where a % 17 = 0; update t set s = upper(s) where b % 100 = 7")
    return await client.rows(DIGEST)


async def parts(client: Client, condition: str) -> tuple[int, int]:
    """How many parts of how many a condition leaves to be read."""
    lines = [line for (line,) in await client.rows(f"explain select * from t where {condition}")]
    found = re.search(r"Parts of t: (\d+) of (\d+) read", "\n".join(lines))
    assert found is not None
    return int(found[1]), int(found[2])


async def test_a_curve_prunes_by_each_of_its_columns(client: Client) -> None:
    before = await made(client, "sort_by = 'zorder(a, b)', target_file_size = '64kB'")
    await client.run("vacuum full t")
    assert await client.rows(DIGEST) == before
    for column in "ab":
        read, of = await parts(client, f"{column} between 5000 and 5200")
        assert of > 10
        assert read < of * 0.7
    assert (await parts(client, "a % 17 = 0"))[1] == (await parts(client, "true"))[1]


@pytest.mark.parametrize(
    ("options", "condition", "most"),
    [
        ("sort_by = 'd, a'", "d = '2026-05-05'", 0.2),
        ("sort_by = 's'", "s between 'a' and 'a3'", 0.2),
        ("partition_by = 'month(d)', sort_by = 'a'", "d = '2026-05-05'", 0.2),
        ("partition_by = 'month(d)', sort_by = 'zorder(a, b)'", "d = '2026-05-05'", 0.2),
        ("partition_by = 'bucket(4, a)'", "a = 5000", 0.4),
        ("partition_by = 'truncate(5000, a)'", "a between 5100 and 5200", 0.4),
        ("partition_by = 'truncate(1, s)'", "s between 'a1' and 'a2'", 0.2),
        ("sort_by = 'zorder(d, s, a)'", "s between 'a1' and 'a2'", 0.8),
    ],
)
async def test_a_table_gets_another_layout(client: Client, options: str, condition: str, most: float) -> None:
    before = await made(client, "target_file_size = '64kB'")
    await client.run(f"alter table t set ({options})")
    await client.run("vacuum full t")
    assert await client.rows(DIGEST) == before
    read, of = await parts(client, condition)
    assert read <= most * of


async def test_what_was_committed_just_now_is_rewritten_too(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def later(_: Applier) -> None:
        await asyncio.sleep(0)

    with monkeypatch.context() as patched:
        # The background has not come to it yet.
        patched.setattr(Applier, "apply_all", later)
        before = await made(client, "target_file_size = '64kB'")
        await client.run("alter table t set (sort_by = 'd, a')")
    await client.run("vacuum full t")
    assert await client.rows(DIGEST) == before
    read, of = await parts(client, "d = '2026-05-05'")
    assert read < of * 0.2


async def test_rows_keep_their_ids_and_their_past(client: Client) -> None:
    await client.run("create table t (a int, b int, d date, s text) with (retain_history = '1 hour')")
    await client.run(ROWS)
    before, moment = await client.rows(DIGEST), await client.value("select tidegate.current_csn()")
    await client.run("delete from t where a % 3 = 0; alter table t set (sort_by = 'b', target_file_size = '64kB')")
    after, ids = await client.rows(DIGEST), await client.rows("select ctid, a, b from t order by ctid")
    await client.run("vacuum full t")
    assert await client.rows(DIGEST) == after
    assert await client.rows("select ctid, a, b from t order by ctid") == ids
    await client.run(f"set tidegate.as_of = '{moment}'")
    assert await client.rows(DIGEST) == before


async def test_columns_that_came_and_went(client: Client) -> None:
    await client.run("create table t (a int, gone text, d date, s text)")
    await client.run(
        "insert into t select g, repeat('x', 50), '2026-01-01', md5(g::text) from generate_series(1, 20000) g"
    )
    await client.run(
        "alter table t drop column gone; alter table t add b int default 7; alter table t alter a type bigint"
    )
    await client.run("insert into t select g, '2026-01-02', md5(g::text), 8 from generate_series(20001, 30000) g")
    before = await client.rows(DIGEST)
    await client.run("alter table t set (sort_by = 's')")
    await client.run("vacuum full t")
    assert await client.rows(DIGEST) == before
    await client.run("update t set b = 9 where a = 5")
    assert await client.rows("select a, d::text, b from t where a in (5, 6) order by a") == [
        (5, "2026-01-01", 9), (6, "2026-01-01", 7),
    ]  # fmt: skip


async def test_what_is_done_stays_done(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    before = await made(client, "sort_by = 'zorder(a, b)', target_file_size = '64kB'")
    await client.run("set rewrite_group_size = '300kB'")
    real, groups = Compactor.rewrite, list[Any]()

    async def only_two(compactor: Compactor, *args: Any) -> Any:
        if len(groups) == 2:
            raise OSError("the disk is gone")
        done = await real(compactor, *args)
        groups.append(done)
        return done

    with monkeypatch.context() as patched:
        patched.setattr(Compactor, "rewrite", only_two)
        with pytest.raises((SqlError, OSError)):
            await client.run("vacuum full t")
    assert await client.rows(DIGEST) == before
    first, groups[:] = list(groups), []

    async def counted(compactor: Compactor, *args: Any) -> Any:
        groups.append(await real(compactor, *args))
        return groups[-1]

    monkeypatch.setattr(Compactor, "rewrite", counted)
    await client.run("vacuum full t")
    rewritten = sum(done.bytes for done in groups if done is not None)
    assert len(first) == 2
    assert rewritten > 0
    assert await client.rows(DIGEST) == before
    groups.clear()
    await client.run("vacuum full t")
    assert groups in ([], [None])


async def test_who_reads_an_earlier_moment_is_not_disturbed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "PATIENCE_S", 0.5)
    one, other = await connect(server), await connect(server)
    before = await made(one, "sort_by = 'a'")
    await other.run("begin isolation level repeatable read")
    assert await other.rows(DIGEST) == before
    await one.run("delete from t where a % 5 = 0")
    after = await one.rows(DIGEST)
    await one.run("vacuum full t")
    assert one.notices() == ['WARNING: "t": files that earlier transactions may still read are left as they are']
    assert await other.rows(DIGEST) == before
    await other.run("commit")
    assert await other.rows(DIGEST) == after


async def test_writers_go_on(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "PATIENCE_S", 5.0)
    one, other = await connect(server), await connect(server)
    await made(one, "sort_by = 'zorder(a, b)'")
    await other.run("begin; update t set b = -1 where a = 5000; delete from t where a = 5001")
    await one.run("vacuum full t")
    await other.run("insert into t values (-1, -1, '2026-01-01', 'new'); commit")
    assert await one.rows("select distinct a from t where b = -1 order by a") == [(-1,), (5000,)]
    assert await one.value("select count(*) from t where a = 5001") == 0


async def test_a_curve_waits_for_the_end_of_an_upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    async def not_yet(gate: FormatGate, format: int) -> bool:
        return format < ZORDER_FORMAT

    async with open_server() as server:
        client = await connect(server)
        with monkeypatch.context() as patched:
            patched.setattr(FormatGate, "allows", not_yet)
            await client.run("create table t (a int, b int) with (sort_by = 'a, b')")
            for statement in (
                "alter table t set (sort_by = 'zorder(a, b)')",
                "create table u (a int, b int) with (sort_by = 'zorder(a, b)')",
                "create table u with (sort_by = 'zorder(a, b)') as select 1 as a, 2 as b",
            ):
                with pytest.raises(SqlError, match="finish-upgrade") as caught:
                    await client.run(statement)
                assert caught.value.sqlstate == "55000"
        await client.run("alter table t set (sort_by = 'zorder(a, b)')")


async def test_a_curve_of_long_values(client: Client) -> None:
    await client.run("create table t (a text, b bytea, c numeric(9, 2), d text) with (sort_by = 'zorder(a, b, c)')")
    await client.run(
        "insert into t select md5(g::text) || repeat('''\\x', 500), decode(md5((g * 3)::text), 'hex'), g % 977, null"
        " from generate_series(1, 5000) g"
    )
    await client.run("insert into t values (null, null, null, 'none'), ('', '', 0, 'empty')")
    digest = "select count(*), count(a), min(a), count(b), sum(c), max(d), md5(string_agg(a, '' order by a)) from t"
    before = await client.rows(digest)
    await client.run("alter table t set (target_file_size = '64kB')")
    await client.run("vacuum full t")
    assert await client.rows(digest) == before
