"""DELETE of files of which every row is sure to go: they are not read, and the past has what was there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from adapter.sessions.server import Server
from storage.durable.formats import UNGATED, FormatGate
from storage.shards.part_store import PartStore
from storage.shards.parts import Part
from storage.transactions.txn import Txn
from tests.adapter.harness import Client

DAYS = 4
TABLE = "create table events (day date, n int, label text) with (partition_by = 'day(day)')"
FILL = (
    "insert into events select date '2024-01-01' + (i % 4)::int, i, nullif('label ' || i % 10, 'label 3')"
    " from generate_series(0, 39999) i order by 1"
)
COUNTS = "select day::text, count(*) from events group by day order by day"


@pytest.fixture
def read_files(monkeypatch: pytest.MonkeyPatch) -> list[Part]:
    """The parts in files whose rows are read by this process."""
    found: list[Part] = []
    real = PartStore.read

    async def read(self: PartStore, part: Part, *args: Any, **kwargs: Any) -> Any:
        if part.key is not None:
            found.append(part)
        return await real(self, part, *args, **kwargs)

    monkeypatch.setattr(PartStore, "read", read)
    return found


async def filled(client: Client) -> None:
    """Four days in a file each."""
    await client.run(TABLE)
    await client.run(FILL)
    assert await client.rows(COUNTS) == [(f"2024-01-0{day}", 10_000) for day in range(1, 5)]


WHOLE = {
    "day = '2024-01-02'": 1,
    "day < '2024-01-03'": 2,
    "day <= '2024-01-03' and n >= 0": 3,
    "day in ('2024-01-01', '2024-01-04')": 2,
    "day between '2024-01-02' and '2024-01-03' and day is not null": 2,
    "day <> '2024-01-02'": 3,
    "not day > '2024-01-01'": 1,
    "true": 4,
    "day = '2024-01-01' or day > '2024-01-02' and n >= 0": 3,
    "day not in ('2024-01-01', '2024-01-02')": 2,
    "not (day in ('2024-01-01', '2024-01-02') or day is null)": 2,
    "not (day = '2024-01-01' or n < 0)": 3,
    "date_trunc('month', day::timestamp) = '2024-01-01' and day::timestamp < '2024-01-02 00:00:01'": 2,
    "extract(year from day) = 2024 and not day::timestamp > '2024-01-01'": 1,
    "day = any (array['2024-01-01', '2024-01-02']::date[])": 2,
}


@pytest.mark.parametrize("condition", WHOLE)
async def test_nothing_is_read_or_written(client: Client, read_files: list[Part], condition: str) -> None:
    await filled(client)
    read_files.clear()
    assert await client.tag(f"delete from events where {condition}") == f"DELETE {WHOLE[condition] * 10_000}"
    assert not read_files
    assert await client.value("select count(*) from events") == (DAYS - WHOLE[condition]) * 10_000
    assert await client.value(f"select count(*) from events where {condition}") == 0


async def test_explain_says_so(client: Client, read_files: list[Part]) -> None:
    await filled(client)
    await client.run("create table moments (at timestamptz, label text) with (partition_by = 'day(at)')")
    await client.run("insert into moments select day::timestamp at time zone 'UTC', md5(n::text) from events")
    read_files.clear()
    whole = {
        "events where day < '2024-01-03'": ("0 of 4 read, 2 pruned", "2 of 4, 20000 rows"),
        "events where day < '2024-01-03' or n = 3": ("2 of 4 read, 0 pruned", "2 of 4, 20000 rows"),
        "events": ("0 of 4 read, 0 pruned", "4 of 4, 40000 rows"),
        "events where n < 20000": ("4 of 4 read, 0 pruned", None),
        "events where day < '2024-01-03' returning n": ("2 of 4 read, 2 pruned", None),
        "moments where at < '2024-01-03 00:00+00'": ("0 of 4 read, 2 pruned", "2 of 4, 20000 rows"),
        "moments where at >= '2024-01-01 18:00-06' and at < '2024-01-03 02:00+02'": (
            "0 of 4 read, 3 pruned",
            "1 of 4, 10000 rows",
        ),
        "moments where at::date = '2024-01-02'": ("3 of 4 read, 1 pruned", None),
    }
    await client.run("set timezone = 'America/New_York'")
    for change, (read, deleted) in whole.items():
        lines = [line for (line,) in await client.rows(f"explain delete from {change}")]
        (parts,) = [line for line in lines if line.startswith("Parts of ")]
        assert f": {read}, " in parts, change
        files = [line for line in lines if line.startswith("Files of ")]
        name = change.split()[0]
        assert files == ([] if deleted is None else [f"Files of {name} deleted by metadata alone: {deleted}"]), change
    assert not read_files
    assert await client.value("select count(*) from moments") == 40_000
    assert await client.tag("delete from moments where at < '2024-01-02 19:00'") == "DELETE 20000"


PARTLY = {
    "n < 20000": 20_000,
    "day = '2024-01-02' and n % 2 = 1": 10_000,
    "day = '2024-01-02' and label = 'label 1'": 2_000,
    "day < '2024-01-03' or n = 3": 20_001,
    "label is not null": 36_000,
    "day = '2024-01-02' and (select true)": 10_000,
    "day < '2024-01-03' and n > 0": 19_999,
    "day not in ('2024-01-01', null)": 0,
    "day not in ('2024-01-01') and label not in ('label 2')": 24_000,
    "day = '2024-01-02' and label like 'label%'": 8_000,
    "day = '2024-01-03' and label not like 'x%'": 10_000,
}


@pytest.mark.parametrize("condition", PARTLY)
async def test_what_is_not_sure_is_read(client: Client, condition: str) -> None:
    await filled(client)
    assert await client.tag(f"delete from events where {condition}") == f"DELETE {PARTLY[condition]}"
    assert await client.value("select count(*) from events") == DAYS * 10_000 - PARTLY[condition]


KINDS = f"insert into kinds select (array['east', 'west', null, '{'long ' * 20}'])[1 + i % 4], i"
KEYS = {
    "region = 'east'": 1,
    "region like 'we%'": 1,
    "region like '%'": 3,
    "region is null": 1,
    "region = 'west' or region is null": 2,
    f"region = '{'long ' * 20}'": 1,
    f"region in ('east', '{'long ' * 20}')": 2,
    "region <> 'east'": 2,
    "starts_with(region, 'w') is not null and region is not null": None,
    "region like 'we_t'": None,
    "region like 'we%t%'": None,
    r"region like 'wes\\t'": None,
}


@pytest.mark.parametrize("condition", KEYS)
async def test_partitions_by_text(client: Client, read_files: list[Part], condition: str) -> None:
    await client.run("create table kinds (region text, n int) with (partition_by = 'region')")
    await client.run(f"{KINDS} from generate_series(0, 39999) i order by 1")
    there = await client.value(f"select count(*) from kinds where {condition}")
    read_files.clear()
    assert await client.tag(f"delete from kinds where {condition}") == f"DELETE {there}"
    wanted = KEYS[condition]
    assert wanted is None or (there, read_files) == (wanted * 10_000, [])
    assert await client.value("select count(*) from kinds") == 40_000 - there


async def test_a_key_of_another_type_by_now(client: Client) -> None:
    assert (await client.error("create table d (day date) with (partition_by = '')")).sqlstate == "22023"
    await client.run("create table d (day date, n int) with (partition_by = 'day')")
    await client.run("insert into d select '2024-01-01', i from generate_series(1, 9000) i")
    await client.run("alter table d reset (partition_by); alter table d alter day type timestamp")
    assert await client.tag("delete from d where day = '2024-01-01 12:00'") == "DELETE 0"
    assert await client.tag("delete from d where day = '2024-01-01'") == "DELETE 9000"


async def test_small_files_together(client: Client, read_files: list[Part]) -> None:
    await client.run("create table logs (day date, n int, text text)")
    for day in range(1, 5):
        await client.run(f"insert into logs select '2024-01-0{day}', i, md5(i::text) from generate_series(1, 3000) i")
    read_files.clear()
    assert await client.tag("delete from logs where day <= '2024-01-02'") == "DELETE 6000"
    assert not read_files
    assert await client.tag("delete from logs where day = '2024-01-03'") == "DELETE 3000"
    assert read_files
    assert await client.value("select count(*) from logs") == 3000


async def test_in_a_block(client: Client, another: Callable[[], Awaitable[Client]]) -> None:
    await filled(client)
    other = await another()
    await client.run("begin; savepoint a; delete from events where day = '2024-01-01'")
    assert await client.value("select count(*) from events") == 30_000
    assert await other.value("select count(*) from events") == 40_000
    await client.run("rollback to a")
    assert await client.value("select count(*) from events") == 40_000
    await client.run("delete from events where day >= '2024-01-03'; insert into events values ('2024-01-03', 1, 'new')")
    assert await client.tag("delete from events where day >= '2024-01-03'") == "DELETE 1"
    await client.run("commit")
    assert await other.rows(COUNTS) == [("2024-01-01", 10_000), ("2024-01-02", 10_000)]
    await client.run("begin; delete from events; rollback")
    assert await other.value("select count(*) from events") == 20_000


async def test_what_is_partly_deleted_already(client: Client) -> None:
    await filled(client)
    await client.run("delete from events where n in (4, 8)")
    assert await client.tag("delete from events where day = '2024-01-01'") == "DELETE 9998"
    assert await client.tag("delete from events where day = '2024-01-02'") == "DELETE 10000"
    assert await client.rows(COUNTS) == [("2024-01-03", 10_000), ("2024-01-04", 10_000)]


async def test_history_and_changes_have_the_rows(client: Client) -> None:
    await filled(client)
    before = await client.value("select tidegate.current_csn()")
    await client.run("delete from events where day < '2024-01-03'")
    after = await client.value("select tidegate.current_csn()")
    assert await client.value(f"select count(*) from events as of {before}") == 40_000
    assert await client.value(f"select count(*) from events as of {after}") == 20_000
    changes = f"from tidegate.changes('events', {before}, {after}) c"
    assert await client.rows(f"select count(*), sum(n), min(day)::text, count(label) {changes}") == [
        (20_000, sum(n for n in range(40_000) if n % 4 < 2), "2024-01-01", 18_000)
    ]


async def test_views_follow(client: Client) -> None:
    await filled(client)
    await client.run(
        "create materialized view days with (refresh = 'on commit') as"
        " select day, count(*) as rows, sum(n) as n from events group by day"
    )
    await client.run("delete from events where day in ('2024-01-01', '2024-01-02')")
    left = [("2024-01-03", 10_000), ("2024-01-04", 10_000)]
    assert await client.rows("select day::text, rows from days order by 1") == left


async def test_keys_are_free_again(client: Client) -> None:
    await client.run("create table k (id int primary key, v int)")
    await client.run("insert into k select i, i from generate_series(1, 20000) i")
    await client.run("delete from k where id > 0")
    await client.run("insert into k values (5, 6)")
    assert (await client.error("insert into k values (5, 7)")).sqlstate == "23505"
    assert await client.rows("select * from k where id = 5") == [(5, 6)]
    assert await client.rows("select * from k where id = 6") == []


async def test_referenced_rows_are_looked_at(client: Client) -> None:
    await client.run("create table k (id int primary key); create table r (k int references k on delete cascade)")
    await client.run("insert into k select generate_series(1, 20000); insert into r values (7), (8)")
    assert await client.tag("delete from k where id > 0") == "DELETE 20000"
    assert await client.rows("select * from r") == []


async def test_two_who_delete(client: Client, another: Callable[[], Awaitable[Client]]) -> None:
    await filled(client)
    other = await another()
    await other.run("begin isolation level repeatable read; select count(*) from events")
    await client.run("delete from events where n = 1")
    assert (await other.error("delete from events where day = '2024-01-02'; commit")).sqlstate == "40001"
    await other.run("rollback")
    await other.run("begin isolation level repeatable read; select count(*) from events")
    await client.run("delete from events where day = '2024-01-01'")
    assert (await other.error("delete from events where n = 4; commit")).sqlstate == "40001"
    await other.run("rollback")
    assert await other.value("select count(*) from events") == 29_999


async def test_not_while_older_servers_may_be_at_work(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def not_yet(gate: FormatGate, format: int) -> bool:
        return format <= UNGATED

    def refuse(*_: Any) -> None:
        raise AssertionError("a file was deleted as a whole")

    await filled(client)
    monkeypatch.setattr(FormatGate, "allows", not_yet)
    monkeypatch.setattr(Txn, "delete_whole", refuse)
    assert await client.tag("delete from events where day = '2024-01-02'") == "DELETE 10000"
    assert await client.value("select count(*) from events") == 30_000


async def test_files_go_when_nothing_needs_them(server: Server, client: Client) -> None:
    blob = server.services.env.blob
    await client.run("alter database postgres set retain_history = '0'")
    await filled(client)
    files = {entry.key async for entry in blob.list("parts/")}
    await client.run("delete from events where day <= '2024-01-03'")
    for _ in range(200):
        await client.run("vacuum events")
        await client.run("insert into events values ('2024-01-09', 1, 'new')")
        left = files & {entry.key async for entry in blob.list("parts/")}
        if len(left) <= len(files) // DAYS:
            break
        await asyncio.sleep(0.05)
    assert len(left) == len(files) // DAYS
    assert await client.value("select count(*) from events where day = '2024-01-04'") == 10_000
