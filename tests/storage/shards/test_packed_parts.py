"""Packed parts against plain ones, and what they cost: bytes of memory for a file, blocks for a change."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pytest
from immutables import Map

from storage.doubles.clock import SeededRandomness
from storage.environment.environment import Environment
from storage.ids import ShardId, random_text
from storage.shards import packed_parts, set_aside
from storage.shards.packed_parts import Block, PackedParts, PartMap, is_packable, packed
from storage.shards.parts import ROW_ID, ColumnStats, Part, RunRef, inline_part, part_may_match, table_stats
from storage.shards.shard import snapshot_of
from storage.shards.shard_state import Append, Compact, SetRuns, ShardDiff, ShardMachine, ShardState, check
from storage.shards.whole_deletions import deletion_of
from storage.timestamps.csn import Csn
from storage.upkeep.pruning_audit import LeftOut
from tests.storage.environments import SCHEMA, Stores, commit, create

FILES = 20_000
FILES_A_COMMIT = 2_000
MOST_BYTES = 200
"""What a file that is not read may take of memory."""


def file(number: int, random: SeededRandomness, rows: int = 10, columns: int = 2) -> Part:
    """A file of so many columns as a writer describes it: no two have the same key, checksum or bounds."""
    low = number * 10
    more: dict[str, ColumnStats] = {}
    for column in range(3, columns + 1):
        at = random.randrange(10**15)
        more[f"c{column}"] = (
            ColumnStats(domain="int", min=at, max=at + random.randrange(10**12), null_count=random.randrange(rows))
            if column % 2
            else ColumnStats(domain="str", min=random_text(random), max="~" + random_text(random), null_count=0)
        )
    return Part(
        kind="insert",
        rows=rows,
        bytes=9_000_000 + random.randrange(100_000),
        stats={
            "c1": ColumnStats(domain="int", min=low, max=low + 9, null_count=0),
            "c2": ColumnStats(domain="str", min=random_text(random), max="~" + random_text(random), null_count=0),
            **more,
        },
        key=f"parts/s1/test-{random_text(random)}.parquet",
        checksum=random_text(random) + random_text(random),
        fingerprint="0123456789abcdef",
    )


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"BLOCK_PARTS": 4, "PACK_FROM": 12, "KEPT_LOOSE": 4, "SMALLEST_BLOCK": 2}.items():
        monkeypatch.setattr(packed_parts, name, value)


class Where(NamedTuple):
    """A condition."""

    column: str
    op: str
    value: Any


class Model:
    """A shard's state beside the plain parts that it has."""

    def __init__(self, seed: int) -> None:
        self.random = SeededRandomness(seed)
        machine = ShardMachine(ShardId("s1"))
        self.machine = machine
        schema = machine.apply(machine.initial(), ShardDiff((Append(lower=Csn(0), csn=Csn(0), schema=_schema()),)))
        self.state = schema
        self.number = 0

    def step(self) -> None:
        """One change of the state."""
        chance, state = self.random.random(), self.state
        files = [part for _, part in sorted(state.parts.items()) if is_packable(part)]
        if chance < 0.6 or not files:
            self._append([self._new() for _ in range(1 + self.random.randrange(5))])
        elif chance < 0.7:
            gone = files[self.random.randrange(len(files))]
            if gone.key not in state.whole:
                self._append([deletion_of(gone)])
        elif chance < 0.85:
            some = {files[self.random.randrange(len(files))].id for _ in range(1 + self.random.randrange(4))}
            ids = ColumnStats(domain="int", min=min(some), max=max(some), null_count=0)
            new = self._new()
            stats = {ROW_ID: ids, **new.stats}
            added = msgspec.structs.replace(new, csn=Csn(1), first_row_id=-1, has_row_id_column=True, stats=stats)
            self._apply(msgspec.structs.replace(state, since=Csn(state.upper - 1), earliest=Csn(state.upper - 1)))
            self._diff(Compact(removed=tuple(sorted(some)), added=(added,)))
        else:
            part = files[self.random.randrange(len(files))]
            key = f"{part.key}.{self.random.randrange(99)}.keys"
            self._diff(SetRuns(part=part.id, runs={7: RunRef(key=key, bytes=5, fingerprint="f", checksum="")}))

    def _new(self) -> Part:
        self.number += 1
        if self.random.random() < 0.2:
            return inline_part("insert", pa.table({"c1": [self.number], "c2": ["x"]}, schema=SCHEMA))
        return file(self.number, self.random)

    def _append(self, parts: Sequence[Part]) -> None:
        upper = self.state.upper
        self._diff(Append(lower=upper, csn=Csn(upper + self.random.randrange(3)), parts=tuple(parts)))

    def _diff(self, op: Append | Compact | SetRuns) -> None:
        self._apply(self.machine.apply(self.state, ShardDiff((op,))))

    def _apply(self, state: ShardState) -> None:
        self.state = state


def _schema() -> bytes:
    return bytes(SCHEMA.serialize().to_pybytes())


def _plainly(state: ShardState) -> ShardState:
    return msgspec.structs.replace(state, parts=Map({part.id: part for part in state.parts.values()}))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("seed", range(8))
def test_packed_parts_are_what_plain_ones_are(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Model(seed), Model(seed)
    blocks = 0
    for number in range(120):
        one.step()
        with monkeypatch.context() as plain:
            plain.setattr(packed_parts, "PACK_FROM", 1 << 60)
            other.step()
        check(one.state)
        assert isinstance(other.state.parts, Map)
        assert dict(one.state.parts.items()) == dict(other.state.parts.items())
        assert len(one.state.parts) == len(other.state.parts)
        assert one.state.garbage == other.state.garbage
        assert one.state.whole == other.state.whole
        blocks += len(one.state.parts.blocks) if isinstance(one.state.parts, PartMap) else 0
        for as_of in {one.state.since, Csn(one.state.upper - 1)}:
            found, wanted = snapshot_of(one.state, as_of), snapshot_of(other.state, as_of)
            assert found == msgspec.structs.replace(wanted, inserts=found.inserts)
            assert tuple(found.inserts) == wanted.inserts
            assert (found.rows, found.bytes) == (wanted.rows, wanted.bytes)
            if number % 10 == 9:
                _compare_lists(found.inserts, wanted.inserts, one.random, other.random)
        data = one.machine.encode_state(one.state)
        assert data == other.machine.encode_state(other.state)
        again = one.machine.decode_state(data)
        check(again)
        assert dict(again.parts.items()) == dict(other.state.parts.items())
        for id in [part.id for part in other.state.parts.values()][::7]:
            assert one.state.parts[id] == other.state.parts[id]
        assert one.state.parts.get(one.state.next_part_id) is None
    assert blocks > 300


def _compare_lists(found: Any, wanted: Any, one: SeededRandomness, other: SeededRandomness) -> None:
    if not isinstance(found, PackedParts) or not wanted:
        return
    low = 10 * one.randrange(300)
    assert low == 10 * other.randrange(300)
    for op, value in (("=", low), ("<", low), (">=", low), ("<>", low), ("in", [low, low + 90]), ("is null", None)):
        test = partial(part_may_match, column="c1", op=op, value=value)
        kept = tuple(filter(test, wanted))
        assert found.where([[Where("c1", op, value)]]) == kept
        left = LeftOut(found, kept)
        assert list(left) == [part for part in wanted if not test(part)]
        assert [left[at] for at in range(len(left))] == list(left)
    assert [found[at] for at in range(len(found))] == list(wanted)
    assert (found[-1], found[2:5]) == (wanted[-1], wanted[2:5])
    with pytest.raises(IndexError):
        found[len(wanted)]


@pytest.mark.parametrize(
    "values",
    [
        (pa.array([1, 2, None]), pa.array([None, None, None], pa.int64())),
        (pa.array([1.5, 2.5]), pa.array([float("nan"), 0.5])),
        (pa.array(["a", "z"]), pa.array(["ä", "€" * 100])),
        (pa.array([b"\x00", b"\xff"]), pa.array([b"\xff" * 80, b"m"])),
        (pa.array(["9", "10"]).cast(pa.decimal128(9, 2)), pa.array(["-1", "2"]).cast(pa.decimal128(9, 2))),
        (pa.array([1, 2]), pa.array(["1", "2"])),
    ],
    ids=["nulls", "nan", "text", "bytes", "decimal", "types"],
)
def test_a_summary_rules_out_what_each_of_its_parts_does(values: tuple[pa.Array, ...]) -> None:
    parts = [
        Part(kind="insert", rows=len(each), bytes=1, stats=table_stats(pa.table({"c1": each})), key=str(at), id=at)
        for at, each in enumerate(values)
    ]
    parts = [msgspec.structs.replace(part, first_row_id=part.id * 10) for part in parts]
    summary = Block.of(parts).summary
    wanted = [value for each in values for value in each.to_pylist() if value is not None]
    for op in ("=", "<>", "<", "<=", ">", ">=", "is null", "is not null"):
        for value in wanted:
            if any(part_may_match(part, "c1", op, value) for part in parts):
                assert part_may_match(summary, "c1", op, value), (op, value)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """How many blocks were made and how many looked into."""
    counts = {"made": 0, "decoded": 0}
    compress, decompress = pa.compress, pa.decompress

    def counted(name: str, real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return real(*args, **kwargs)

        return call

    monkeypatch.setattr(pa, "compress", counted("made", compress))
    monkeypatch.setattr(pa, "decompress", counted("decoded", decompress))
    packed_parts._opened.clear()
    yield counts
    packed_parts._opened.clear()


async def _fill(env: Environment, shard: ShardId, files: int) -> None:
    random = SeededRandomness(5)
    for first in range(0, files, FILES_A_COMMIT):
        txn = env.begin()
        for number in range(first, min(first + FILES_A_COMMIT, files)):
            await txn.write_part(shard, file(number, random))
        await commit(env, txn)
        await env.applier.apply_all()
    await _one_more(env, shard, files)


async def _one_more(env: Environment, shard: ShardId, number: int) -> None:
    txn = env.begin()
    await txn.write_part(shard, file(number, SeededRandomness(number)))
    await commit(env, txn)
    await env.applier.apply_all()


def _stored_bytes(stores: Stores) -> int:
    consensus: Any = stores.consensus
    blob: Any = stores.blob
    diffs = [len(each.data) for diffs in consensus.inner._diffs.values() for each in diffs]
    return sum(diffs) + sum(len(data) for data, _ in blob.inner._objects.values())


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A scratch folder in which blocks are set aside."""
    set_aside.use_scratch(tmp_path)
    yield tmp_path
    set_aside.use_scratch(None)


@pytest.mark.usefixtures("scratch")
@pytest.mark.parametrize("columns", [2, 16, 100])
def test_a_file_of_a_block_takes_few_bytes_however_many_columns_it_has(columns: int) -> None:
    random = SeededRandomness(5)
    parts = [
        msgspec.structs.replace(file(at, random, columns=columns), id=at, first_row_id=at * 10)
        for at in range(packed_parts.BLOCK_PARTS)
    ]
    known = Block.of(parts)
    gc.collect()
    tracemalloc.start()
    try:
        block = Block.of(parts)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken / len(parts) < MOST_BYTES, taken / len(parts)
    assert block.parts() == known.parts() == tuple(parts)


def test_bytes_that_are_set_aside_stay_while_they_are_needed(scratch: Path) -> None:
    data = [bytes([at]) * 1_000_000 for at in range(20)]
    pieces = [set_aside.set_aside(each) for each in data]
    assert all(isinstance(each, set_aside.Piece) for each in pieces)
    assert len({id(each.file) for each in pieces if isinstance(each, set_aside.Piece)}) == 3
    assert not list(scratch.iterdir())
    del data[:9], pieces[:9]
    assert [set_aside.read(each) for each in pieces] == data
    set_aside.use_scratch(scratch / "gone")
    assert set_aside.set_aside(b"memory has it") == b"memory has it"


@pytest.mark.usefixtures("scratch")
async def test_a_file_that_is_not_read_takes_few_bytes() -> None:
    stores = Stores()
    env = await stores.open()
    shard = await create(env, (0, "a"))
    env.reader._validate = False
    await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    gc.collect()
    tracemalloc.start()
    try:
        stored, before = _stored_bytes(stores), tracemalloc.get_traced_memory()[0]
        await _fill(env, shard, FILES)
        snapshot = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
        assert len(snapshot.inserts) == FILES + 2
        gc.collect()
        writer = tracemalloc.get_traced_memory()[0] - before - (_stored_bytes(stores) - stored)
        # Another server that reads them has the same.
        before = tracemalloc.get_traced_memory()[0]
        other = await stores.open("other")
        other.reader._validate = False
        theirs = await other.reader.snapshot(shard, await other.oracle.read_ts("user"))
        assert len(theirs.inserts) == FILES + 2
        gc.collect()
        reader = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert writer / FILES < MOST_BYTES, writer / FILES
    assert reader / FILES < MOST_BYTES, reader / FILES
    await other.close()
    await env.close()


async def test_a_commit_and_a_pruned_read_open_one_block_at_most(opened: dict[str, int]) -> None:
    env = await Stores().open()
    shard = await create(env)
    env.reader._validate = False
    await _fill(env, shard, FILES)
    snapshot = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    assert isinstance(snapshot.inserts, PackedParts)

    opened.update(made=0, decoded=0)
    (found,) = snapshot.inserts.where([[Where("c1", "=", FILES * 5)]])
    assert found.stats["c1"].min == FILES * 5
    left = LeftOut(snapshot.inserts, (found,))
    assert len(left) == FILES
    assert left[0].id == snapshot.inserts[0].id
    assert opened == {"made": 0, "decoded": 2}

    for number in range(1, 2 * packed_parts.BLOCK_PARTS + 1):
        opened.update(made=0, decoded=0)
        await _one_more(env, shard, FILES + number)
        after = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
        assert len(after.inserts) == FILES + 1 + number
        # Once for what is committed and once for what has been applied, when there is enough for a new block.
        assert opened["made"] <= 2
        assert opened["decoded"] <= 2
    await env.close()


def test_only_the_block_of_a_part_that_changes_is_made_anew(opened: dict[str, int]) -> None:
    random = SeededRandomness(5)
    parts: Any = Map(
        {at: msgspec.structs.replace(file(at, random), id=at, first_row_id=at * 10) for at in range(FILES)}
    )
    parts = packed(parts)
    opened.update(made=0, decoded=0)
    for number in range(5_000, 5_200):
        run = RunRef(key=f"{number}.keys", bytes=1, fingerprint="f", checksum="")
        parts = packed(parts.set(number, msgspec.structs.replace(parts[number], runs={1: run})))
    assert opened["made"] <= 4
    assert parts[5_100].runs[1].key == "5100.keys"
    opened.update(made=0)
    gone: Any = packed(parts.delete(10_000))
    assert opened["made"] <= 4
    assert gone.get(10_000) is None
    assert parts[10_000].id == 10_000
    gone.check()
