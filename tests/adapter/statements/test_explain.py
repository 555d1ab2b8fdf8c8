"""EXPLAIN: the plan, the engine and why, the snapshot, and what is read and pruned."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from tests.adapter.harness import Client


async def test_text(client: Client) -> None:
    await client.run("create table t (a int, b text)")
    await client.run("insert into t values (1, 'x')")
    await client.run("insert into t values (50, 'y')")
    lines = [row[0] for row in await client.rows("explain select b from t where a = 50 order by b limit 1")]
    assert lines[:6] == [
        "Limit",
        "  Count: 1",
        "  ->  Sort",
        "        Sort Key: b",
        "        ->  Seq Scan on t",
        "              Filter: (a = 50)",
    ]
    assert lines[6] == "Engine: local (engine = local)"
    assert lines[7].startswith("Snapshot: CSN ")
    assert lines[8].startswith("Parts of t: 1 of 2 read, 1 pruned, 0 with deletes, ")
    assert lines[9] == "Expected: local 1 ms, spark 5.3 s"


async def test_json(client: Client) -> None:
    await client.run("create table t (a int); insert into t values (1), (2)")
    (plan,) = json.loads(await client.value("explain (format json, verbose) select count(*) from t"))
    assert plan["Engine"] == "local"
    assert plan["Plan"]["Node Type"] == "Aggregate"
    assert plan["Plan"]["Plans"][0]["Relation Name"] == "t"
    assert plan["Tables"][0]["Parts Read"] == 1


async def test_common_tables_are_called_by_name(client: Client) -> None:
    text = (
        "explain with recursive r(n) as (select 1 union all select n + 1 from r where n < 3), s as materialized "
        "(select n from r) select * from s"
    )
    lines = [row[0] for row in await client.rows(text)]
    assert lines[:7] == [
        "CTE Scan on s",
        "  CTE r",
        "    ->  Recursive Union",
        "        ->  Result",
        "        ->  CTE Scan on r",
        "              Filter: (n < 3)",
        "  CTE s",
    ]


async def test_constants_need_no_engine(client: Client) -> None:
    lines = [row[0] for row in await client.rows("explain select 1")]
    assert lines[:2] == ["Result", "Engine: none (its rows are constants)"]


async def test_analyze_runs_and_explain_does_not(client: Client) -> None:
    await client.run("create table t (a int); create sequence s")
    await client.rows("explain insert into t values (1)")
    await client.rows("explain select nextval('s')")
    assert await client.value("select count(*) from t") == 0
    assert await client.value("select nextval('s')") == 1
    lines = [row[0] for row in await client.rows("explain analyze insert into t select g from generate_series(1, 3) g")]
    assert lines[0] == "Insert on t (actual rows=3)"
    assert lines[-1].startswith("Execution Time: ")
    assert await client.value("select count(*) from t") == 3


async def test_structured_formats(client: Client) -> None:
    """Laid out as PostgreSQL does."""
    await client.run("create table t (a int, b text)")
    query = "select a, count(*) from t where b > '<x' group by a"
    ((yaml,),) = await client.rows(f"explain (format yaml, verbose) {query}")
    assert yaml.startswith('- Plan: \n    Node Type: "Aggregate"\n    Output: \n      - "a"\n      - "count"\n')
    assert '    Plans: \n      - Node Type: "Seq Scan"\n        Output: \n' in yaml
    ((given,),) = await client.rows(f"explain (format xml, analyze, summary off) {query}")
    root = ElementTree.fromstring(given)
    assert root.tag == "{http://www.postgresql.org/2009/explain}explain"
    names = [element.tag.split("}")[1] for element in root.iter()]
    assert names[:4] == ["explain", "Query", "Plan", "Node-Type"]
    assert names[names.index("Plans") :][:3] == ["Plans", "Plan", "Node-Type"]
    assert "(b &gt; '&lt;x'::text)" in given


async def test_refusals(client: Client) -> None:
    assert (await client.error("explain select * from nope")).sqlstate == "42P01"


async def test_a_small_table_that_is_read_by_key_says_so(client: Client) -> None:
    """What is shown is what is done: rows of few are looked up as those of many are."""
    await client.run("create table t (id int primary key, k int, code text); create index t_k on t (k)")
    await client.run("insert into t select g, g % 5, 'code' || g from generate_series(1, 40) g")
    by_key = ["Index Scan using t_pkey on t", "  Index Cond: (id = 7)", "Engine: none (it reads by a key)"]
    shown = {
        "select code from t where id = 7": by_key,
        "select code from t where id = 7 and code > 'a'": [
            *by_key[:2],
            "  Filter: (code > 'a'::text)",
            by_key[2],
        ],
        "update t set code = 'x' where id = 7": [
            "Update on t",
            "  ->  Index Scan using t_pkey on t",
            "        Index Cond: (id = 7)",
        ],
        "delete from t where id = 7": ["Delete on t", "  ->  Index Scan using t_pkey on t"],
        "select id from t where id in (3, 4)": [
            "Index Scan using t_pkey on t",
            "  Index Cond: (id = ANY ('{3,4}'::integer[]))",
        ],
        "select id from t where id between 5 and 30": [
            "Index Scan using t_pkey on t",
            "  Index Cond: ((id >= 5) AND (id <= 30))",
        ],
        "select id from t where k = 3": ["Index Scan using t_k on t", "  Index Cond: (k = 3)"],
        "select id from t order by id limit 3": ["Limit", "  Count: 3", "  ->  Index Scan using t_pkey on t"],
        "select id from t where code = 'code3'": ["Seq Scan on t", "  Filter: (code = 'code3'::text)"],
    }
    for query, expected in shown.items():
        lines = [row[0] for row in await client.rows(f"explain {query}")]
        assert lines[: len(expected)] == expected, query
    await client.run("prepare p (int) as select code from t where id = $1")
    lines = [row[0] for row in await client.rows("explain execute p (7)")]
    assert lines[0] == by_key[0]
    await client.run("set enable_indexscan = off")
    lines = [row[0] for row in await client.rows("explain select code from t where id = 7")]
    assert lines[0] == "Seq Scan on t"
