"""Subscriptions: the snapshot, then every change once and in order, whatever the query."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from adapter.results import CopyOut
from adapter.subscriptions import deltas
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from tests.adapter.harness import Client, connect, open_server, rows_of
from tests.adapter.transactions.test_looking_back import fold

HOUR_MS = 3_600_000

QUERIES = {
    "table": "t",
    "filter": "(SELECT id, n * 2 AS twice, label FROM t WHERE n % 3 <> 0 ORDER BY id)",
    "union": "(SELECT id, n FROM t WHERE n > 5 UNION ALL SELECT id, -m FROM u)",
    "view": "v",
    "join": "(SELECT t.id, u.m FROM t LEFT JOIN u USING (id))",
    "left": "(SELECT t.id, t.label, u.m FROM t LEFT JOIN u ON u.id = t.id AND t.n > 2)",
    "aggregate": "(SELECT n % 4 AS k, count(*), sum(n), array_agg(id ORDER BY id) FROM t GROUP BY 1)",
    "sums": "(SELECT label, count(*), sum(n), avg(m) FROM t JOIN u ON u.id = t.id GROUP BY label HAVING count(*) > 0)",
    "distinct": "(SELECT DISTINCT n, n FROM t)",
    "exists": "(SELECT id FROM t WHERE NOT EXISTS (SELECT FROM u WHERE u.id = t.id) AND n IN (SELECT 1 + n FROM t))",
    "overall": "(SELECT count(*), max(n) FROM t)",
    "subquery": "(SELECT id, (SELECT max(m) FROM u WHERE u.id = t.id) FROM t WHERE EXISTS (SELECT FROM u))",
    "union_join": "(SELECT id, n FROM t WHERE id > 3 UNION ALL SELECT a.id, b.id FROM u a JOIN u b USING (id))",
    "constants": "(SELECT id FROM t UNION ALL VALUES (1), (2))",
    "on_commit": "shown",
    "over_on_commit": "above",
    "join_on_commit": "joined",
    "whole_on_commit": "ids",
    "view_of_sums": "(SELECT * FROM summed)",
}


async def _tables(client: Client) -> None:
    await client.run("CREATE TABLE t (id int, n int, label text); CREATE TABLE u (id int, m numeric)")
    await client.run("CREATE VIEW v AS SELECT upper(label) AS label, n FROM t WHERE id < 20")
    await client.run("INSERT INTO t SELECT g, g % 7, 'row ' || g FROM generate_series(1, 30) g")


async def _views(client: Client) -> None:
    """Views whose stored rows are not what they give, until they are refreshed."""
    for name, text in (
        ("shown", "SELECT id, n FROM t WHERE n > 2"),
        ("above", "SELECT s.id, s.n, u.m FROM shown s LEFT JOIN u ON u.id = s.id"),
        ("joined", "SELECT t.id, t.n, u.m FROM t LEFT JOIN u ON u.id = t.id"),
    ):
        await client.run(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'on commit') AS {text}")
    await client.run("CREATE MATERIALIZED VIEW ids (a, b, c) WITH (refresh = 'on commit') AS TABLE joined")
    await client.run("CREATE VIEW sums AS SELECT n, count(*) AS rows, max(id) FROM t GROUP BY n")
    await client.run("CREATE VIEW summed (k, rows, newest) AS SELECT n, rows, max FROM sums s")


async def _change(client: Client, chance: random.Random, step: int) -> None:
    action, key = chance.random(), chance.randint(0, 35)
    if action < 0.3:
        await client.run(f"INSERT INTO t VALUES ({key}, {step}, 'x{step}')")
    elif action < 0.45:
        await client.run(f"INSERT INTO u VALUES ({key}, {step}.5)")
    elif action < 0.65:
        await client.run(f"UPDATE t SET n = n + 1, label = label WHERE id % 5 = {key % 5}")
    elif action < 0.75:
        await client.run(f"DELETE FROM t WHERE id = {key}")
    elif action < 0.8:
        await client.run("BEGIN; INSERT INTO t VALUES (99, 1, 'gone'); DELETE FROM t WHERE id = 99; COMMIT")
    elif action < 0.9:
        await client.run(f"BEGIN; DELETE FROM u WHERE id = {key}; UPDATE t SET id = id WHERE id = {key}; COMMIT")
    elif action < 0.93:
        await client.run("TRUNCATE u")
    else:
        await client.run(f"CREATE TABLE other{step} (id int)")


async def received(client: Client, text: str) -> list[tuple[Any, ...]]:
    """The rows of a COPY TO STDOUT."""
    stream: Any = client.session.execute_simple(text)
    found: list[tuple[Any, ...]] = []
    async for result in stream:
        assert isinstance(result, CopyOut)
        found += [row async for row in rows_of(result)]
    return found


def summed(rows: list[tuple[Any, ...]], csn: int) -> Counter[str]:
    """What the changes up to `csn` add up to."""
    total: Counter[str] = Counter()
    for at, diff, *values in rows:
        if at <= csn:
            total[repr(tuple(values))] += diff
    assert all(count >= 0 for count in total.values())
    return +total


OVER_VIEWS = {"on_commit", "over_on_commit", "join_on_commit", "whole_on_commit", "view_of_sums"}

FOLLOWED = {
    "left", "aggregate", "sums", "distinct", "exists", "union_join",
    "join_on_commit", "whole_on_commit", "view_of_sums",
}  # fmt: skip
"""Those whose changes are worked out from what commits have written, without their results being kept."""


@pytest.mark.parametrize("kind", QUERIES)
async def test_the_sum_of_all_changes_is_what_the_query_gives_at_each_moment(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed: list[bool] = []
    between = deltas.Deltas.between

    async def counted(*given: Any) -> Any:
        found = await between(*given)
        followed.append(found is not None)
        return found

    monkeypatch.setattr(deltas.Deltas, "between", counted)
    query, chance = QUERIES[kind], random.Random(kind)
    select = f"SELECT * FROM {query}" + (" q" if query.startswith("(") else "")
    async with open_server(retain_ms=HOUR_MS, background=False) as server:
        writer, reader = await connect(server), await connect(server)
        await _tables(writer)
        if kind in OVER_VIEWS:
            await _views(writer)
        first = await writer.value("SELECT tidegate.current_csn()")
        moments = [first]
        for step in range(40):
            await _change(writer, chance, step)
            if kind in OVER_VIEWS and step % 4 == 0:
                await writer.run("REFRESH MATERIALIZED VIEW shown")
                await writer.run("REFRESH MATERIALIZED VIEW above")
            moments.append(await writer.value("SELECT tidegate.current_csn()"))
            if step == 20:
                server.env.leases._marks.clear()
                await server.env.leases.keep_alive()
                await fold(server)
        last = moments[-1]
        rows = await received(reader, f"COPY (SUBSCRIBE {query} AS OF {first} UP TO {last}) TO STDOUT")
        assert [row[0] for row in rows] == sorted(row[0] for row in rows)
        for csn in chance.sample(moments, 10):
            expected = Counter(map(repr, await reader.rows(f"{select} AS OF {csn}")))
            assert summed(rows, csn) == expected
        # Begun again in the middle, nothing is missed and nothing comes twice.
        middle = moments[17]
        rest = await received(
            reader, f"COPY (SUBSCRIBE {query} WITH (SNAPSHOT = false) AS OF {middle} UP TO {last}) TO STDOUT"
        )
        assert Counter(map(repr, rest)) == Counter(repr(row) for row in rows if row[0] > middle)
        assert set(followed) == ({True} if kind in FOLLOWED else set())


async def test_a_cursor_waits_for_the_first_change_and_no_longer_than_it_is_told() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        writer, reader = await connect(server), await connect(server)
        await _tables(writer)
        await reader.run("BEGIN; DECLARE c CURSOR FOR SUBSCRIBE TO u WITH (SNAPSHOT = false)")
        assert await reader.rows("FETCH 5 FROM c WITH (timeout = '20ms')") == []
        waiting = asyncio.ensure_future(reader.rows("FETCH ALL FROM c"))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await writer.run("INSERT INTO u VALUES (1, 1), (2, 2)")
        rows = await asyncio.wait_for(waiting, 10)
        assert [row[1:3] for row in rows] == [(1, 1), (1, 2)]
        await writer.run("DELETE FROM u WHERE id = 1")
        assert [row[1:3] for row in await reader.rows("FETCH 1 FROM c")] == [(-1, 1)]
        assert (await reader.error("FETCH BACKWARD 1 FROM c")).sqlstate == "55000"
        await reader.run("ROLLBACK")
        await reader.run("BEGIN; DECLARE c CURSOR FOR SUBSCRIBE u")
        assert [row[1:3] for row in await reader.rows("FETCH ALL FROM c")] == [(1, 2)]
        failing = asyncio.ensure_future(reader.error("FETCH ALL FROM c"))
        await asyncio.sleep(0.05)
        reader.session.cancel()
        assert (await asyncio.wait_for(failing, 10)).sqlstate == "57014"
        await reader.run("ROLLBACK")


async def test_progress_goes_on_while_nothing_happens() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        await _tables(client)
        await client.run("BEGIN; DECLARE c CURSOR FOR SUBSCRIBE u WITH (PROGRESS)")
        seen = [row for _ in range(3) for row in await client.rows("FETCH 1 FROM c WITH (timeout = '10s')")]
        assert [row[1:] for row in seen] == [(True, None, None, None)] * 3
        assert seen[0][0] < seen[1][0] < seen[2][0]
        await client.run("COMMIT")
        now = await client.value("SELECT now() + interval '200 milliseconds'")
        assert await received(client, f"COPY (SUBSCRIBE u UP TO '{now}') TO STDOUT") == []


async def test_a_subscription_ends_where_its_definition_changes() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        writer, reader = await connect(server), await connect(server)
        await _tables(writer)
        first = await writer.value("SELECT tidegate.current_csn()")
        await writer.run("INSERT INTO u VALUES (1, 1)")
        await writer.run("ALTER TABLE u ADD COLUMN more int")
        await writer.run("INSERT INTO u VALUES (2, 2, 2)")
        await reader.run(f"BEGIN; DECLARE c CURSOR FOR SUBSCRIBE u AS OF {first}")
        assert [row[1:3] for row in await reader.rows("FETCH 1 FROM c")] == [(1, 1)]
        assert (await reader.error("FETCH ALL FROM c")).sqlstate == "55000"
        await reader.run("ROLLBACK")
        await writer.run("DROP TABLE u")
        await reader.run(f"BEGIN; DECLARE c CURSOR FOR SUBSCRIBE u AS OF {first}")
        assert [row[1:3] for row in await reader.rows("FETCH 1 FROM c")] == [(1, 1)]
        assert (await reader.error("FETCH ALL FROM c")).sqlstate == "55000"


@pytest.mark.parametrize(("before", "after"), [("on commit", "manual"), ("manual", "on commit"), ("manual", None)])
async def test_a_subscription_ends_where_a_view_is_kept_in_another_way(before: str, after: str | None) -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        writer, reader = await connect(server), await connect(server)
        await _tables(writer)
        await writer.run(f"CREATE MATERIALIZED VIEW k WITH (refresh = '{before}') AS SELECT id FROM t WHERE id < 3")
        await reader.run("BEGIN; DECLARE c CURSOR FOR SUBSCRIBE k")
        assert len(await reader.rows("FETCH ALL FROM c")) == 2
        await writer.run("INSERT INTO t VALUES (0, 0, '0'); REFRESH MATERIALIZED VIEW k")
        if after is None:
            await writer.run("REFRESH MATERIALIZED VIEW k WITH NO DATA")
        else:
            await writer.run(f"ALTER MATERIALIZED VIEW k SET (refresh = '{after}')")
        await writer.run("INSERT INTO t VALUES (1, 1, '1')")
        assert [row[1:] for row in await reader.rows("FETCH 1 FROM c")] == [(1, 0)]
        assert (await reader.error("FETCH ALL FROM c")).sqlstate == "55000"


async def test_what_cannot_be_subscribed_to() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        await _tables(client)
        await client.run("CREATE MATERIALIZED VIEW empty AS SELECT id FROM t WITH NO DATA")
        await client.run(
            "CREATE MATERIALIZED VIEW empty_on_commit WITH (refresh = 'on commit') AS SELECT id FROM t WITH NO DATA"
        )
        for text, sqlstate in (
            ("SUBSCRIBE t", "0A000"),
            ("COPY (SUBSCRIBE pg_class) TO STDOUT", "0A000"),
            ("COPY (SUBSCRIBE (SELECT nextval('s'))) TO STDOUT", "42P01"),
            ("COPY (SUBSCRIBE (SELECT * FROM t FOR UPDATE)) TO STDOUT", "0A000"),
            ("COPY (SUBSCRIBE (SELECT random() FROM t)) TO STDOUT", "0A000"),
            ("COPY (SUBSCRIBE empty) TO STDOUT", "55000"),
            ("COPY (SUBSCRIBE empty_on_commit) TO STDOUT", "55000"),
            ("COPY (SUBSCRIBE nothing) TO STDOUT", "42P01"),
            ("COPY (SUBSCRIBE t AS OF '2999-01-01') TO STDOUT", "22023"),
            ("COPY (SUBSCRIBE t UP TO 5) TO STDOUT", "22023"),
            ("COPY (SUBSCRIBE t WITH (SNAPSHOTS)) TO STDOUT", "42601"),
            ("COPY (SUBSCRIBE t AS OF) TO STDOUT", "42601"),
            ("COPY (SUBSCRIBE t) TO '/tmp/x'", "0A000"),
            ("DECLARE c CURSOR FOR SUBSCRIBE t", "25P01"),
            ("BEGIN; DECLARE c CURSOR WITH HOLD FOR SUBSCRIBE t", "42P11"),
        ):
            assert (await client.error(text)).sqlstate == sqlstate, text
            await client.run("ROLLBACK")
        await client.run("CREATE ROLE stranger; SET ROLE stranger")
        assert (await client.error("COPY (SUBSCRIBE t) TO STDOUT")).sqlstate == "42501"
        now = await client.value("SELECT tidegate.current_csn()")
        assert (await client.error(f"SELECT * FROM t AS OF {now}")).sqlstate == "42501"
        await client.run("RESET ROLE")
        await client.run("BEGIN; DECLARE c CURSOR FOR SELECT 1")
        assert (await client.error("FETCH 1 FROM c WITH (timeout = '1s')")).sqlstate == "0A000"
        for time in ("soon", "-1s"):
            await client.run("ROLLBACK; BEGIN; DECLARE c CURSOR FOR SUBSCRIBE t")
            error = await client.error(f"FETCH 1 FROM c WITH (timeout = '{time}')")
            assert (error.sqlstate, error.message) == ("22023", f'invalid value for option "timeout": "{time}"')


async def test_another_server_goes_on_where_one_has_stopped() -> None:
    blob, consensus = MemoryBlob(), MemoryConsensus()
    async with open_server(blob=blob, consensus=consensus, shared=True, retain_ms=HOUR_MS) as first:
        writer = await connect(first)
        await _tables(writer)
        await writer.run("BEGIN; DECLARE c CURSOR FOR SUBSCRIBE (SELECT n % 2 AS odd, count(*) FROM t GROUP BY 1)")
        seen = await writer.rows("FETCH ALL FROM c")
        await writer.run("COMMIT")
        csn = max(row[0] for row in seen)
        await writer.run("UPDATE t SET n = n + 1 WHERE id = 1")
    async with open_server(blob=blob, consensus=consensus, shared=True, retain_ms=HOUR_MS) as second:
        reader = await connect(second)
        now = await reader.value("SELECT tidegate.current_csn()")
        query = "(SELECT n % 2 AS odd, count(*) FROM t GROUP BY 1)"
        text = f"COPY (SUBSCRIBE {query} WITH (SNAPSHOT = false) AS OF {csn} UP TO {now}) TO STDOUT"
        rows = await received(reader, text)
        assert len(rows) == 4
        assert sum(row[1] for row in rows) == 0
        total = Counter({row[2:]: row[1] for row in seen})
        for row in rows:
            total[row[2:]] += row[1]
        assert +total == Counter(await reader.rows("SELECT n % 2, count(*) FROM t GROUP BY 1"))


async def test_a_subscriber_that_is_late_finds_what_is_kept_and_then_an_error() -> None:
    async with open_server(retain_ms=1, background=False) as server:
        writer, reader = await connect(server), await connect(server)
        await _tables(writer)
        await reader.run("BEGIN; DECLARE c CURSOR FOR SUBSCRIBE t WITH (SNAPSHOT = false)")
        for _ in range(20):
            await writer.run("UPDATE t SET n = n + 1")
        server.env.leases._marks.clear()
        await server.env.leases.keep_alive()
        await writer.run("SELECT pg_sleep(0.01); INSERT INTO u VALUES (1, 1)")
        await fold(server)
        error = await reader.error("FETCH ALL FROM c")
        assert error.sqlstate == "72000"
        assert "earliest moment" in (error.detail or "")
