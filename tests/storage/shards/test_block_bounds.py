"""The bounds of a block's parts as arrays: they leave out no part that may match, and of parts in no order nearly all
others."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pytest

from storage.shards import block_bounds, packed_parts
from storage.shards.links import Link
from storage.shards.packed_parts import Block, PackedParts, PartMap, linked_paths
from storage.shards.partitions.transforms import PartitionField, common_values
from storage.shards.parts import ANY_OF, ColumnStats, Part, may_match, table_stats
from storage.timestamps.csn import Csn

FILES = 20_000
PLACES = 97
"""Of so many parts of the block, some have no value and some a bound that is open."""


class Where(NamedTuple):
    """A condition."""

    column: str
    op: str
    value: Any


def _text(random: random.Random) -> str:
    return "customer-" + "".join(random.choices("aéz€\U0001f600", k=random.randrange(12)))


MAKERS: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "int": (pa.int64(), lambda r: r.choice([r.randrange(1000), r.randrange(-(1 << 63), 1 << 63)])),
    "bool": (pa.bool_(), lambda r: r.random() < 0.5),
    "float": (pa.float64(), lambda r: r.choice([r.gauss(0, 1), r.gauss(0, 1e300), float("inf"), float("nan"), -0.0])),
    "plain float": (pa.float64(), lambda r: r.gauss(0, 1)),
    "text": (pa.string(), _text),
    "long text": (pa.string(), lambda r: _text(r) * r.randrange(1, 12)),
    "bytes": (pa.binary(), lambda r: r.randbytes(r.randrange(80))),
    "decimal": (pa.decimal128(20, 3), lambda r: Decimal(r.randrange(-(10**12), 10**12)).scaleb(-3)),
    "date": (pa.date32(), lambda r: datetime.date.fromordinal(r.randrange(1, 3_000_000))),
    "moment": (
        pa.timestamp("us", tz="UTC"),
        lambda r: datetime.datetime.fromtimestamp(r.randrange(-(10**9), 10**9), datetime.UTC),
    ),
}


@pytest.mark.parametrize("name", MAKERS)
def test_no_part_is_left_out_that_may_match(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_bounds, "WIDEST", 1.0)
    type_, make = MAKERS[name]
    source = random.Random(name)
    field = PartitionField("c1", "bucket", 7)
    for with_buckets in (False, True):
        parts, values = [], []
        for at in range(PLACES):
            held = [make(source)] * source.randrange(1, 3) if with_buckets else [make(source) for _ in range(2)]
            held = [None, *held] if source.random() < 0.2 else held
            held = [None] * len(held) if source.random() < 0.1 else held
            rows = pa.table({"c1": pa.array(held, type_), "c2": pa.array(range(len(held)))})
            partition = (common_values((field,), rows) or ()) if with_buckets else ()
            stats = table_stats(rows)
            parts.append(
                Part(kind="insert", rows=len(held), bytes=1, stats=stats, key=str(at), id=at, partition=partition)
            )
            values += [value for value in held if value is not None]
        block = Block.of(parts)
        wanted = [make(source) for _ in range(8)] + source.sample(values, 8)
        conditions = [Where("c1", op, value) for value in wanted for op in ("=", "<>", "<", "<=", ">", ">=")]
        conditions += [Where("c1", "in", source.sample(wanted, source.randrange(5))) for _ in range(10)]
        conditions += [Where("c1", "=", None), Where("c1", "is null", None), Where("c1", "in", [None])]
        conditions += [Where("c1", "=", "another type"), Where("c9", "=", 1)]
        for number, condition in enumerate(conditions):
            other = conditions[(7 * number) % len(conditions)]
            asked: list[list[list[Where]]] = [[[condition]], [[condition, other]], [[condition], [other]], [[]]]
            for needed in asked:
                _compare(block, needed)
                _compare(block, [[Where("", ANY_OF, needed), Where("c2", ">=", 0)]])


def _compare(block: Block, needed: Any) -> None:
    wanted = [part for part in block.parts() if may_match(part, needed)]
    assert list(block.where(needed)) == wanted, needed
    places = block.bounds.places_left(needed)
    assert places is None or set(places) >= {part.id for part in wanted}, needed


def _shuffled() -> PackedParts:
    """Files of ten values each, of which none has another's, in random order."""
    source = random.Random(3)
    lows = [number * 10 for number in range(FILES)]
    source.shuffle(lows)
    bucket = PartitionField("c3", "bucket", 100)

    def files() -> Any:
        for at, low in enumerate(lows):
            rows = pa.table({"c3": pa.array([low])})
            stats = {
                "c1": ColumnStats(domain="int", min=low, max=low + 9, null_count=0),
                "c2": ColumnStats(domain="str", min=f"name-{low:09}", max=f"name-{low + 9:09}", null_count=0),
                "c3": ColumnStats(domain="int", min=0, max=10 * FILES, null_count=0),
            }
            partition = common_values((bucket,), rows) or ()
            yield Part(
                kind="insert", rows=10, bytes=9, stats=stats, key=str(at), id=at, first_row_id=at, partition=partition
            )

    return PartMap.of(files()).visible(Csn(9))[0]


def test_of_files_in_no_order_few_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = _shuffled()
    blocks = len(shown.blocks)
    assert blocks > 70
    counts = {"blocks": 0, "parts": 0}
    decompress, decoder = pa.decompress, packed_parts._part_decoder

    def opened(*args: Any) -> Any:
        counts["blocks"] += 1
        return decompress(*args)

    class Decoder:
        def decode(self, data: msgspec.Raw) -> Part:
            counts["parts"] += 1
            return decoder.decode(data)

    monkeypatch.setattr(pa, "decompress", opened)
    monkeypatch.setattr(packed_parts, "_part_decoder", Decoder())
    middle, most = FILES * 5, 10 * FILES
    cases = [
        ([[Where("c1", "=", middle + 5)]], 1, 3),
        ([[Where("c2", "=", f"name-{middle + 5:09}")]], 1, 3),
        ([[Where("c1", ">", middle + 5), Where("c1", "<", middle + 95)]], 10, 14),
        ([[Where("c1", "in", range(5, most, most // 10))]], 10, 14),
        ([[Where("", ANY_OF, [[Where("c1", "<", 25)], [Where("c2", ">=", f"name-{most - 15:09}")]])]], 5, 9),
        ([[Where("c1", "<", 15)], [Where("c1", "=", middle)]], 3, 6),
    ]
    for needed, found, parts in cases:
        packed_parts._opened.clear()
        counts.update(blocks=0, parts=0)
        kept = [part for part in shown.where(needed) if part.id <= shown.blocks[-1].last]
        assert found - 3 <= len(kept) <= found
        assert counts["parts"] <= parts, needed
        assert counts["blocks"] <= counts["parts"], needed
    # A bucket of a hundred: bounds say nothing, and a block is looked into for the few that have it.
    counts.update(blocks=0, parts=0)
    kept = list(shown.where([[Where("c3", "=", middle)]]))
    assert FILES / 150 < len(kept) < FILES / 70
    assert counts["parts"] <= len(kept)
    assert sum([block.bounds.bytes for block in shown.blocks]) <= 18 * FILES


def test_columns_that_tell_nothing_have_no_arrays() -> None:
    def stats(at: int) -> dict[str, ColumnStats]:
        bounds = {f"c{column}": (0, 99) for column in range(20)}
        bounds.update({f"c{column}": (at, at + column) for column in range(20, 30)})
        return {
            name: ColumnStats(domain="int", min=low, max=high, null_count=0) for name, (low, high) in bounds.items()
        }

    parts = [
        Part(kind="insert", rows=1, bytes=1, key=str(at), id=at, first_row_id=at, stats=stats(at)) for at in range(200)
    ]
    assert set(Block.of(parts).bounds.columns) == {f"c{at}" for at in range(20, 20 + block_bounds.MAX_COLUMNS)}


def test_which_files_of_others_there_are_is_known_by_their_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [
        Part(
            kind="insert", rows=1, bytes=1, stats={}, key=str(at), id=at, first_row_id=at,
            link=Link(path=f"/lake/year=2024/file-{at}.parquet", names={}) if at % 10 else None,
        )
        for at in range(5000)
    ]  # fmt: skip
    shown = PartMap.of(parts).visible(Csn(9))[0]
    opened: list[int] = []
    real = Block.parts

    def counted(self: Block, **kept: bool) -> tuple[Part, ...]:
        opened.append(self.first)
        return real(self, **kept)

    monkeypatch.setattr(Block, "parts", counted)
    assert linked_paths(shown, [f"/lake/year=2025/file-{at}.parquet" for at in range(5000)]) == set()
    assert not opened
    there = {f"/lake/year=2024/file-{at}.parquet" for at in (3, 4, 4999)}
    assert linked_paths(shown, [*there, "/lake/year=2024/file-10.parquet"]) == there
    assert len(opened) == 1
    assert linked_paths(tuple(parts[:20]), there) == {f"/lake/year=2024/file-{at}.parquet" for at in (3, 4)}
    assert sum([block.bounds.bytes for block in shown.blocks]) <= 4 * 5000
