"""Ranges among keys that begin alike: what is found, and that not all of them are read."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from storage.shards.indexes.definition import IndexDefinition, KeyColumn
from storage.shards.indexes.reading import ranges
from storage.shards.indexes.reading.found import Gathered
from storage.shards.indexes.reading.ranges import Bound, KeyRange
from tests.storage.environments import SCHEMA, Stores, create, insert
from tests.storage.shards.indexes.reading.tables import (
    BY_BOTH,
    BY_ORDER,
    C2,
    COLUMNS,
    answer,
    in_range,
    key_of,
    plain_rows,
    write_file,
)

PREFIX = "https://example.com/"
DESCENDING = IndexDefinition(id=2, columns=(KeyColumn(source=C2, descending=True),))


@pytest.mark.parametrize("seed", range(6))
async def test_the_rows_are_those_of_a_sort(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(ranges, "MANY_TIES", seed % 3)
    chance = random.Random(seed)
    stores = Stores()
    env = await stores.open()
    shard = await create(env)

    def some(count: int) -> list[tuple[int, str | None]]:
        texts = [f"{PREFIX}{chance.randrange(40):03}" for _ in range(count)]
        return [(chance.randrange(30), None if chance.random() < 0.1 else text) for text in texts]

    for size in (150, 200, 90):
        numbers, texts = zip(*some(size), strict=True)
        await write_file(env, shard, pa.table({"c1": numbers, "c2": texts}, schema=SCHEMA))
    await insert(env, shard, *some(20))
    parts = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    truth = await plain_rows(env, parts)
    for _ in range(60):
        index = chance.choice([BY_BOTH, BY_ORDER])
        text = f"{PREFIX}{chance.randrange(40):03}"
        ends = [
            Bound((f"{PREFIX}{chance.randrange(40):03}", *([chance.randrange(30)] if chance.random() < 0.3 else [])))
            for _ in range(2)
        ]
        if index is BY_BOTH:
            ends = [Bound(end.values[:1], chance.random() < 0.5) for end in ends]
        keys = chance.choice(
            [
                KeyRange(low=ends[0]),
                KeyRange(high=ends[0]),
                KeyRange(low=ends[0], high=ends[1]),
                KeyRange(equal=(text,)),
                KeyRange(equal=(text,), low=Bound((chance.randrange(30),), False)),
                KeyRange(),
            ]
        )
        descending, limit = chance.random() < 0.5, chance.choice([None, 1, 3, 25, 300])
        found = await env.keys.range(parts, index, keys, COLUMNS, descending=descending, limit=limit)
        wanted = in_range(index, truth, keys, descending)
        assert [key_of(index, row) for _, row in answer(found)] == [key_of(index, row) for _, row in wanted][:limit]
        assert set(answer(found)) <= set(wanted)
        assert len(set(found.row_ids.tolist())) == len(found.row_ids)
    await env.close()


async def test_few_rows_are_read_of_many_that_begin_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = Stores()
    env = await stores.open()
    shard = await create(env)
    texts = [f"{PREFIX}{number:06}" for number in range(50_000)]
    random.Random(1).shuffle(texts)
    for half in (texts[:25_000], texts[25_000:]):
        await write_file(env, shard, pa.table({"c1": range(25_000), "c2": half}, schema=SCHEMA))
    parts = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    read = 0
    reading = Gathered.read

    def counted(self: Gathered, part: object, group: object, positions: object, keys: object) -> None:
        nonlocal read
        read += len(positions)  # type: ignore[arg-type]
        reading(self, part, group, positions, keys)  # type: ignore[arg-type]

    monkeypatch.setattr(Gathered, "read", counted)
    for index in (BY_ORDER, DESCENDING):
        forward = index is BY_ORDER
        for keys, descending, limit, first in (
            (KeyRange(low=Bound((f"{PREFIX}031234",))), not forward, 5, 31_234),
            (KeyRange(high=Bound((f"{PREFIX}031234",), False)), forward, 5, 31_233),
            (KeyRange(low=Bound((f"{PREFIX}04000",)), high=Bound((f"{PREFIX}040010",))), not forward, None, 40_000),
            (KeyRange(), forward, 3, 49_999),
        ):
            read = 0
            found = await env.keys.range(parts, index, keys, COLUMNS, descending=descending, limit=limit)
            assert answer(found)[0][1][1] == f"{PREFIX}{first:06}"
            assert len(found.row_ids) == (limit or 11)
            assert read <= 200
            assert await env.keys.count(parts, index, keys) in range(len(found.row_ids), 50_001)
    assert await env.keys.count(parts, BY_ORDER, KeyRange(equal=(f"{PREFIX}000007",))) == 1
    await env.close()
