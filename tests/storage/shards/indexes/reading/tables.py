"""Tables in an environment, and what a plain look at all their rows finds, for the tests of readings by key."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cmp_to_key
from typing import Any

import pyarrow as pa

from storage.environment.environment import Environment
from storage.ids import ShardId
from storage.shards.indexes.definition import IndexDefinition, KeyColumn, StoredColumn
from storage.shards.indexes.reading.found import Found
from storage.shards.indexes.reading.ranges import Bound, KeyRange
from storage.shards.indexes.reading.sources import PartList
from storage.shards.parts import ROW_ID, Part, UploadedPart, encode_parquet
from tests.storage.environments import commit
from tests.storage.shards.indexes.key_values import compare

C1 = StoredColumn(name="c1", type=pa.int64())
C2 = StoredColumn(name="c2", type=pa.string())
COLUMNS = (C1, C2)
BY_C1 = IndexDefinition(id=1, columns=(KeyColumn(source=C1),), unique=True)
BY_BOTH = IndexDefinition(id=2, columns=(KeyColumn(source=C2, nulls_first=True), KeyColumn(source=C1, descending=True)))
BY_ORDER = IndexDefinition(id=3, columns=(KeyColumn(source=C2), KeyColumn(source=C1)), hashed=False)
KINDS = {1: ("int8",), 2: ("text", "int8"), 3: ("text", "int8")}
"""Of each index the types of its columns, for `key_values.compare`."""


async def write_file(env: Environment, shard: ShardId, table: pa.Table) -> None:
    """Commit `table` as one Parquet part, however small it is."""
    key = env.parts.new_key(shard)
    await env.blob.put(key, encode_parquet(table))
    txn = env.begin()
    await txn.write_part(shard, UploadedPart(key=key))
    await commit(env, txn)


async def plain_rows(env: Environment, parts: PartList, local: Sequence[Part] = ()) -> dict[int, tuple[Any, ...]]:
    """`COLUMNS` of all rows by row id, from the parts as they are: the truth."""
    live: dict[int, tuple[Any, ...]] = {}
    gone: set[int] = set()
    for part in (*parts.inserts, *parts.deletes, *local):
        table = await env.reader.read_part(part, [ROW_ID, "c1", "c2"])
        ids = table.column(ROW_ID).to_pylist()
        if part.kind == "delete":
            gone.update(ids)
        else:
            live.update(zip(ids, zip(*(table.column(n).to_pylist() for n in ("c1", "c2")), strict=True), strict=True))
    return {row_id: row for row_id, row in live.items() if row_id not in gone}


def key_of(index: IndexDefinition, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The key of a row of `plain_rows`."""
    return (row[0],) if index.id == 1 else (row[1], row[0])


def answer(found: Found) -> list[tuple[int, tuple[Any, ...]]]:
    """Row ids and rows, in order."""
    rows = [tuple(row.values()) for row in found.rows.to_pylist()]
    return list(zip(found.row_ids.tolist(), rows, strict=True))


def looked_up(
    index: IndexDefinition, rows: dict[int, tuple[Any, ...]], keys: Sequence[tuple[Any, ...]], nulls_match: bool
) -> list[tuple[int, int, tuple[Any, ...]]]:
    """What `lookup` has to find: number of the key, row id, row."""
    return [
        (number, row_id, row)
        for number, key in enumerate(keys)
        for row_id, row in sorted(rows.items())
        if key_of(index, row) == key and (nulls_match or None not in key)
    ]


def in_range(
    index: IndexDefinition, rows: dict[int, tuple[Any, ...]], keys: KeyRange, descending: bool
) -> list[tuple[int, tuple[Any, ...]]]:
    """What `range` has to find: row id and row, in order."""
    kinds = KINDS[index.id]
    width = len(keys.equal)

    def within(key: tuple[Any, ...]) -> bool:
        if key[:width] != keys.equal:
            return False
        for bound, sign in ((keys.low, 1), (keys.high, -1)):
            if bound is None:
                continue
            told = _row_compared(key[width:], bound)
            if told is None or told * sign < 0 or (told == 0 and not bound.inclusive):
                return False
        return True

    def compared(one: tuple[int, Any], other: tuple[int, Any]) -> int:
        return compare(kinds, index.columns, key_of(index, one[1]), key_of(index, other[1])) or one[0] - other[0]

    found = [(row_id, row) for row_id, row in rows.items() if within(key_of(index, row))]
    return sorted(found, key=cmp_to_key(compared), reverse=descending)


def _row_compared(key: tuple[Any, ...], bound: Bound) -> int | None:
    """As PostgreSQL compares rows: the first pair that differs decides, and a NULL before that leaves it open."""
    for value, limit in zip(key, bound.values, strict=False):
        if value is None or limit is None:
            return None
        if value != limit:
            return 1 if value > limit else -1
    return 0
