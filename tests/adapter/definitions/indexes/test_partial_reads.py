"""Partial indexes are used to read where a query asks for nothing that they lack; the rows are those of the table."""

from __future__ import annotations

import random

import pytest

from adapter.plans.predicates import Comparison, Conjunction, implies
from adapter.sessions.server import Server
from storage.catalog.model import Index
from tests.adapter.definitions.indexes.test_creation import files_of
from tests.adapter.harness import Client

PREDICATES = ("a > 3", "b is null", "b is not null and c", "d = 'x'", "d in ('x', 'y')", "a <= 7 and a <> 5", "not c")
CONDITIONS = (
    "a > 4", "a >= 3", "a < 7", "a = 6", "a in (4, 6)", "a <> 5", "b is null", "b is not null", "b = 2", "c", "not c",
    "d = 'x'", "d in ('x')", "d in ('x', 'z')", "d > 'w'", "a between 4 and 6", "a = null", "d like 'x%'",
)  # fmt: skip


async def plan(client: Client, query: str) -> str:
    """The plan of a query."""
    return "\n".join(row[0] for row in await client.rows(f"explain {query}"))


async def test_random_queries(client: Client) -> None:
    rows = "g, g % 11, nullif(g % 4, 0), g % 3 = 0, (array['x', 'y', 'z', null])[g % 4 + 1]"
    for name in ("t", "plain"):
        await client.run(f"create table {name} (k int, a int, b int, c boolean, d text)")
        await client.run(f"insert into {name} select {rows} from generate_series(1, 20000) g")
    for number, predicate in enumerate(PREDICATES):
        await client.run(f"create index i{number} on t (k) where {predicate}")
    chance = random.Random(5)
    used = set()
    for _ in range(150):
        conditions = " and ".join(chance.sample(CONDITIONS, chance.randint(1, 3)))
        low = chance.randint(1, 19990)
        query = f"select k, a, b, c, d from {{}} where k between {low} and {low + 40} and {conditions} order by k"
        assert await client.rows(query.format("t")) == await client.rows(query.format("plain")), conditions
        text = await plan(client, query.format("t"))
        if "Index Scan" in text:
            used.add(text.split("Index Scan using ")[1].split()[0])
    assert len(used) >= 5


async def test_files_have_runs_of_partial_indexes_that_are_read(server: Server, client: Client) -> None:
    await client.run("create table t (id int, state text); create index open on t (id) where state = 'open'")
    await client.run("create index odd on t ((id % 2)); create index long on t (id) where length(state) > 3")
    await client.run("insert into t select g, case when g % 100 = 0 then 'open' end from generate_series(1, 20000) g")
    (part,) = await files_of(server, "t")
    indexes = [record for record in server.env.catalog.current().all() if isinstance(record, Index)]
    assert [record.name for record in indexes if record.oid in part.runs] == ["open"]
    assert "using open" in await plan(client, "select * from t where id = 700 and state = 'open'")
    assert await client.rows("select * from t where id = 700 and state = 'open'") == [(700, "open")]
    assert "using" not in await plan(client, "select * from t where id = 700")


def conjunction(*comparisons: tuple[str, str, object]) -> Conjunction:
    """Comparisons of columns."""
    return tuple(Comparison(*comparison) for comparison in comparisons)


@pytest.mark.parametrize(
    ("known", "wanted", "follows"),
    [
        ((("a", ">", 5),), (("a", ">", 3),), True),
        ((("a", ">", 5),), (("a", ">=", 5),), True),
        ((("a", ">=", 5),), (("a", ">", 5),), False),
        ((("a", "<", 5),), (("a", "<=", 5), ("a", "<>", 5)), True),
        ((("a", "<", 5),), (("b", "<", 5),), False),
        ((("a", "=", 5),), (("a", "in", (4, 5)),), True),
        ((("a", "in", (4, 5)),), (("a", "in", (3, 4, 5)),), True),
        ((("a", "in", (4, 6)),), (("a", "<", 6),), False),
        ((("a", "in", (4, None)),), (("a", "<", 6),), True),
        ((("a", "=", None),), (("a", "<", 6),), True),
        ((("a", "is null", None),), (("a", "is not null", None),), False),
        ((("a", "<>", 5),), (("a", "is not null", None),), True),
        ((("a", "<>", 5),), (("a", "<>", 6),), False),
        ((("a", ">", "é"),), (("a", ">", "z"),), True),
        ((("a", ">", True),), (("a", ">", 0),), False),
        ((), (("a", ">", 0),), False),
        ((("a", ">", 1),), (), True),
    ],
)
def test_what_comparisons_imply(
    known: tuple[tuple[str, str, object], ...], wanted: tuple[tuple[str, str, object], ...], follows: bool
) -> None:
    assert implies(conjunction(*known), conjunction(*wanted)) is follows
