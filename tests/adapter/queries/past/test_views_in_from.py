"""tidegate.as_of and tidegate.changes of views, against what the views showed at each moment."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.adapter.harness import Client, connect, open_server

HOUR_MS = 3_600_000

VIEWS = {
    "plain": "CREATE VIEW plain AS SELECT id, v * 2 AS w FROM a WHERE v > 10",
    "joined": "CREATE VIEW joined AS SELECT n, sum(v) AS s, count(*) AS c FROM a JOIN b USING (g) GROUP BY n",
    "ranked": "CREATE VIEW ranked AS SELECT id, rank() OVER (ORDER BY v) AS r FROM a",
    "kept": "CREATE MATERIALIZED VIEW kept WITH (refresh = 'on commit') AS SELECT g, sum(v) AS s FROM a GROUP BY g",
    "above": "CREATE MATERIALIZED VIEW above WITH (refresh = 'on commit') AS SELECT g, s FROM kept WHERE s > 5",
    "manual": "CREATE MATERIALIZED VIEW manual AS SELECT g, count(*) AS c FROM a GROUP BY g",
    "through": "CREATE VIEW through AS SELECT g FROM manual",
}

HISTORY = (
    "INSERT INTO a SELECT n, n % 3, n * 3 FROM generate_series(1, 12) n",
    "REFRESH MATERIALIZED VIEW manual",
    "UPDATE a SET v = v + 1 WHERE id < 5",
    "REFRESH MATERIALIZED VIEW kept",
    "DELETE FROM a WHERE g = 1; INSERT INTO a VALUES (100, 1, 7)",
    "TRUNCATE a",
    "INSERT INTO a VALUES (1, 1, 50), (2, 2, 60); REFRESH MATERIALIZED VIEW manual",
)


async def _shown(client: Client) -> tuple[int, dict[str, Counter[Any]]]:
    csn = await client.value("SELECT tidegate.current_csn()")
    return csn, {view: Counter(await client.rows(f"SELECT * FROM {view}")) for view in VIEWS}


async def _history(client: Client) -> list[tuple[int, dict[str, Counter[Any]]]]:
    await client.run("CREATE TABLE a (id int PRIMARY KEY, g int, v int); CREATE TABLE b (g int PRIMARY KEY, n text)")
    await client.run("INSERT INTO b VALUES (0, 'zero'), (1, 'one'), (2, 'two')")
    for text in VIEWS.values():
        await client.run(text)
    shown = [await _shown(client)]
    for text in HISTORY:
        await client.run(text)
        shown.append(await _shown(client))
    return shown


async def test_views_are_read_as_they_were() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        history = await _history(client)
        for csn, shown in history:
            for view, rows in shown.items():
                assert Counter(await client.rows(f"SELECT * FROM tidegate.as_of('{view}', {csn})")) == rows, (view, csn)
        await client.run("DROP TABLE a CASCADE")
        csn, shown = history[3]
        together = await client.rows(
            f"SELECT k.g, b.n FROM tidegate.as_of('kept', {csn}) k JOIN b USING (g) ORDER BY k.g"
        )
        assert together == [(0, "zero"), (1, "one"), (2, "two")]


async def test_the_changes_of_views_lead_from_what_they_showed_to_what_they_showed_later() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        history = await _history(client)
        for place, (since, before) in enumerate(history):
            for until, after in history[place::2]:
                for view in VIEWS:
                    changes = await client.rows(f"SELECT * FROM tidegate.changes('{view}', {since}, {until})")
                    assert all(since < csn <= until for csn, *_ in changes)
                    rows = Counter(before[view])
                    for _, diff, *row in changes:
                        rows[tuple(row)] += diff
                    assert {row: n for row, n in rows.items() if n} == dict(after[view]), (view, since, until)


async def test_the_changes_of_a_view_begin_with_it_and_end_where_it_is_another() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        await client.run("CREATE TABLE a (id int); INSERT INTO a VALUES (1), (2)")
        before = await client.value("SELECT tidegate.current_csn()")
        await client.run("CREATE VIEW v AS SELECT id FROM a WHERE id > 1")
        made = await client.value("SELECT tidegate.current_csn()")
        await client.run("INSERT INTO a VALUES (3)")
        now = await client.value("SELECT tidegate.current_csn()")
        changes = f"SELECT tidegate_diff, id FROM tidegate.changes('v', {before}, {now}) ORDER BY id"
        assert await client.rows(changes) == [(1, 2), (1, 3)]
        await client.run("CREATE OR REPLACE VIEW v AS SELECT id FROM a")
        assert await client.rows(changes) == [(1, 2), (1, 3)]
        error = await client.error(f"SELECT * FROM tidegate.changes('v', {made}, tidegate.current_csn())")
        assert error.sqlstate == "55000"
        assert len(await client.rows(f"SELECT * FROM tidegate.as_of('v', {now})")) == 2


async def test_privileges_of_then_and_of_today_count_for_views() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        owner = await connect(server)
        await owner.run("CREATE TABLE a (id int); INSERT INTO a VALUES (1); CREATE VIEW v AS TABLE a")
        await owner.run("CREATE ROLE eve LOGIN")
        never = await owner.value("SELECT tidegate.current_csn()")
        await owner.run("GRANT SELECT ON v TO eve")
        then = await owner.value("SELECT tidegate.current_csn()")
        await owner.run("INSERT INTO a VALUES (2)")
        now = await owner.value("SELECT tidegate.current_csn()")
        eve = await connect(server, user="eve")
        assert await eve.rows(f"SELECT * FROM tidegate.as_of('v', {then})") == [(1,)]
        assert await eve.rows(f"SELECT tidegate_diff, id FROM tidegate.changes('v', {then}, {now})") == [(1, 2)]
        for source in (f"tidegate.as_of('v', {never})", f"tidegate.changes('v', {never}, {now})"):
            assert (await eve.error(f"SELECT * FROM {source}")).sqlstate == "42501", source
        await owner.run("REVOKE SELECT ON v FROM eve")
        for source in (f"tidegate.as_of('v', {then})", f"tidegate.changes('v', {then}, {now})"):
            assert (await eve.error(f"SELECT * FROM {source}")).sqlstate == "42501", source
