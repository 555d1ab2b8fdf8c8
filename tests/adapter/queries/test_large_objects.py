"""Large objects between sessions and at length. What the functions answer is in the suite `large_objects`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from adapter.queries.large_objects import pages
from tests.adapter.harness import Client

Another = Callable[[], Awaitable[Client]]

LEVELS = ("serializable", "repeatable read", "read committed")


@pytest.fixture
async def pair(client: Client, another: Another) -> tuple[Client, Client]:
    await client.run("select lo_from_bytea(71, 'one'), lo_from_bytea(72, 'two')")
    return client, await another()


@pytest.mark.parametrize("level", LEVELS)
async def test_writers_of_different_ones_do_not_conflict(pair: tuple[Client, Client], level: str) -> None:
    one, two = pair
    for session, oid in ((one, 71), (two, 72)):
        await session.run(f"begin isolation level {level}; select lo_put({oid}, 0, 'new'), lo_creat(-1)")
    await one.run("commit")
    await two.run("commit")
    assert await one.rows("select lo_get(71), lo_get(72)") == [(b"new", b"new")]
    assert await one.value("select count(*) from pg_largeobject_metadata") == 4


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("second", ["lo_put(71, 5000, 'x')", "lo_unlink(71)"])
async def test_writers_of_one_conflict(pair: tuple[Client, Client], level: str, second: str) -> None:
    one, two = pair
    await one.run(f"begin isolation level {level}; select lo_put(71, 0, 'x')")
    await two.run(f"begin isolation level {level}; select {second}")
    await one.run("commit")
    assert (await two.error("commit")).sqlstate == "40001"
    assert await two.value("select lo_get(71)") == b"xne"


async def test_who_reads_what_others_write_does_not_write_what_they_read(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; select lo_get(72), lo_put(71, 0, 'x')")
    await two.run("begin; select lo_get(71), lo_put(72, 0, 'y')")
    await one.run("commit")
    assert (await two.error("commit")).sqlstate == "40001"


@pytest.mark.parametrize("level", LEVELS)
async def test_two_of_one_oid(pair: tuple[Client, Client], level: str) -> None:
    one, two = pair
    for session in pair:
        await session.run(f"begin isolation level {level}; select lo_create(99)")
    await one.run("commit")
    error = await two.error("commit")
    assert (error.sqlstate, error.detail) == ("23505", "Key (oid)=(99) already exists.")


@pytest.mark.parametrize("level", LEVELS)
async def test_what_is_opened_to_be_read_stays(pair: tuple[Client, Client], level: str) -> None:
    one, two = pair
    await one.run(f"begin isolation level {level}; select lo_open(71, 262144)")
    await two.run("select lo_truncate(lo_open(71, 131072), 0), lo_put(72, 0, 'now')")
    assert await one.value("select loread(0, 100)") == b"one"
    assert await one.value("select lo_get(72)") == (b"now" if level == "read committed" else b"two")
    assert await one.rows("select lo_lseek(0, 1, 0), loread(0, 100)") == [(1, b"ne")]


async def test_pieces_of_any_length(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "WRITTEN_PAGES", 3)
    monkeypatch.setattr(pages, "READ_PAGES", 2)
    expected = bytearray()
    await client.run("begin; select lo_create(80), lo_open(80, 393216)")
    place = 0
    for number, (offset, length) in enumerate([(0, 5000), (4000, 3000), (100, 7), (20000, 2048), (18432, 9000)]):
        data = bytes([number + 1]) * length
        await client.run(f"select lo_lseek64(0, {offset}, 0), lowrite(0, '\\x{data.hex()}')")
        expected.extend(bytes(max(0, offset + length - len(expected))))
        expected[offset : offset + length] = data
        assert await client.value("select lo_get(80)") == bytes(expected), number
    await client.run("commit")
    while place < len(expected):
        piece = await client.value(f"select lo_get(80, {place}, 1777)")
        assert piece == bytes(expected[place : place + 1777])
        place += len(piece)
    for length in (21000, 2048, 100, 0, 10000):
        await client.run(f"begin; select lo_truncate(lo_open(80, 131072), {length}); commit")
        expected = bytearray(expected[:length].ljust(length, b"\0"))
        assert await client.value("select lo_get(80)") == bytes(expected), length


async def test_what_is_appended_is_not_looked_for(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await client.run("begin; select lo_create(81), lo_open(81, 131072)")
    asked = 0

    async def noted(*args: object, **keywords: object) -> None:
        nonlocal asked
        asked += 1

    monkeypatch.setattr(pages, "_rows", noted)
    for _ in range(20):
        await client.run("select lowrite(0, convert_to(repeat('a', 5000), 'UTF8'))")
    assert asked == 0
    monkeypatch.undo()
    assert await client.value("select length(lo_get(81))") == 100_000
    await client.run("commit")
    assert await client.value("select length(lo_get(81))") == 100_000


@pytest.mark.parametrize("statement", ["analyze", "vacuum (analyze)", "vacuum (full)", "reindex database postgres"])
async def test_statements_of_all_tables_leave_the_hidden_ones_out(pair: tuple[Client, Client], statement: str) -> None:
    await pair[0].run("create table notes (id int primary key); insert into notes values (1), (2)")
    await pair[1].run(statement)
    assert await pair[0].value("select count(*) from pg_largeobject_metadata") == 2
