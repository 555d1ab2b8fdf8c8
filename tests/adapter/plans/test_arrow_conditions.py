"""Conditions that Arrow evaluates mean what they mean to an engine, for values of every kind."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from adapter.plans.arrow_conditions import false_rows, vector_of
from adapter.results import Rows
from planner.definitions.index_expressions import bind_row_value
from planner.definitions.row_expressions import bind_conditions
from storage.catalog.model import Relation
from tests.adapter.harness import Client

COLUMNS = {
    "a": ("int", ["null", "0", "1", "-2147483648", "2147483647"]),
    "b": ("bigint", ["null", "0", "1", "-9223372036854775808", "3000000000"]),
    "s": ("smallint", ["null", "0", "-1", "32767"]),
    "t": ("text", ["null", "''", "'a'", "'a '", "'ä'", "'B'"]),
    "v": ("varchar(5)", ["null", "''", "'a'", "'abcde'"]),
    "d": ("date", ["null", "'2020-01-01'", "'infinity'", "'-infinity'", "'1500-01-01'"]),
    "ts": ("timestamp", ["null", "'2020-01-01 00:00:00.000001'", "'infinity'"]),
    "tz": ("timestamptz", ["null", "'2020-01-01 00:00:00+05'", "'-infinity'"]),
    "f": ("float8", ["null", "0", "'-0'", "1.5", "'NaN'", "'Infinity'"]),
    "r": ("real", ["null", "0.1", "'NaN'", "'-Infinity'"]),
    "n": ("numeric(6, 2)", ["null", "0", "1.5", "-9999.99"]),
    "m": ("numeric", ["null", "0", "1.5", "0.001", "123456789012"]),
    "u": ("uuid", ["null", "'00000000-0000-0000-0000-00000000000a'", "'FFFFFFFF-0000-0000-0000-000000000000'"]),
    "o": ("boolean", ["null", "true", "false"]),
}
ALIKE = ["a", "b", "s"], ["t", "v"], ["d"], ["ts"], ["tz"], ["f"], ["r"], ["n"], ["m"], ["u"], ["o"]
AT_ONCE = 2000
"""Code points that are asked for at once."""

BY_ARROW_AT_LEAST = 0.6
"""Of the conditions made here."""


def condition(r: random.Random, depth: int = 2) -> str:
    if depth and r.random() < 0.5:
        inner = [condition(r, depth - 1) for _ in range(r.randint(1, 3))]
        return f"(not {inner[0]})" if len(inner) == 1 else f"({r.choice([' and ', ' or ']).join(inner)})"
    group = r.choice(ALIKE)
    left = r.choice(group)
    values = COLUMNS[left][1]
    match r.randrange(6):
        case 0:
            return f"{left} is {r.choice(['', 'not '])}null"
        case 1:
            return f"{left} {r.choice(['', 'not '])}in ({', '.join(r.choices(values, k=r.randint(1, 3)))})"
        case 2:
            return f"{left} between {r.choice(values)} and {r.choice(values)}"
        case 3 if left in "tv":
            return f"length({left}) {r.choice(['<', '='])} {r.randint(0, 3)}"
        case 4:
            return f"{left} {r.choice(['=', '<>', '<', '<=', '>', '>='])} {r.choice(group)}"
        case _:
            sides = [left, r.choice(values)]
            r.shuffle(sides)
            return f"{sides[0]} {r.choice(['=', '<>', '<', '<=', '>', '>='])} {sides[1]}"


@pytest.mark.parametrize("seed", range(4))
async def test_random_conditions(client: Client, seed: int) -> None:
    r = random.Random(seed)
    await client.run(f"create table t ({', '.join(f'{name} {kind}' for name, (kind, _) in COLUMNS.items())})")
    rows = [f"({', '.join(r.choice(values) for _, values in COLUMNS.values())})" for _ in range(30)]
    await client.run(f"insert into t values {', '.join(rows)}")
    batch = await rows_of(client, "select * from t")
    catalog = client.session.state.services.catalog()
    relation = next(record for record in catalog.all() if isinstance(record, Relation) and record.name == "t")
    by_arrow = 0
    for _ in range(60):
        text = condition(r)
        bound = bind_conditions(relation, (text,), client.session.state.bind_context(catalog))
        vector = vector_of(bound.conditions[0], {field.id: place for place, field in enumerate(bound.fields)})
        if vector is None:
            continue
        by_arrow += 1
        result = vector(batch)
        got = [result.as_py()] * batch.num_rows if isinstance(result, pa.Scalar) else result.to_pylist()
        expected = [value for (value,) in await client.rows(f"select {text} from t")]
        assert got == expected, text
        failed = false_rows(result, batch.num_rows)
        assert (failed is not None) == (False in expected), text
    assert by_arrow > 60 * BY_ARROW_AT_LEAST


async def rows_of(client: Client, text: str) -> pa.RecordBatch:
    """The rows of one query, as they are stored."""
    async for result in client.session.execute_simple(text):
        assert isinstance(result, Rows)
        batches = [batch async for batch in result.batches]
        return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    raise AssertionError("no result")


async def test_the_case_of_every_letter(client: Client) -> None:
    """What an index has under another value than the query computes would not be found."""
    await client.run("create table t (s text)")
    catalog = client.session.state.services.catalog()
    relation = next(record for record in catalog.all() if isinstance(record, Relation) and record.name == "t")
    letter = "'a' || chr(g) || 'X'"
    computed = []
    for name in ("lower", "upper"):
        value = bind_row_value(relation, f"{name}(s)")
        vector = vector_of(value.scalar, {value.fields[0].id: 0})
        assert vector is not None
        computed.append(vector)
    # Beyond these no letter has a case.
    for start in range(1, 0x20000, AT_ONCE):
        rows = await client.rows(
            f"select {letter}, lower({letter}), upper({letter}) "
            f"from generate_series({start}, {start + AT_ONCE - 1}) g where not g between 55296 and 57343"
        )
        texts = pa.record_batch([pa.array([*(text for text, _, _ in rows), None])], names=["s"])
        for place, vector in enumerate(computed, 1):
            assert vector(texts).to_pylist() == [*(row[place] for row in rows), None]
