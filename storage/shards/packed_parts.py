"""The parts of large tables, packed: what is known of a file takes some tens of bytes while nobody reads the file.

A `Block` has up to `BLOCK_PARTS` files of rows as compressed bytes, and beside them what tells who needs to look into
it: ids, CSNs and row ids from and to, a `summary`, a part that has all their rows, so that whatever leaves out the
summary (`storage.shards.parts.may_match`) leaves out each of them, and the `bounds` of each, for when parts come in
no useful order and every summary has everything (`storage.shards.block_bounds`). `PartMap` is a map of parts by id,
like `immutables.Map`: blocks, and the *loose* parts as they are, which are those without a file, deletions, and the
newest files. `PackedParts` is the list of a snapshot's insert parts, made of the same blocks.

Invariants (`PartMap.check`): blocks are in the order of their ids and do not overlap; no file of rows that is loose has
an id between those of a block. So a file is packed with its neighbours, and a change opens the block that it is in, and
no other: `set` and `delete` make its parts loose, `packed` packs what is loose once it is much. All of it follows from
the parts and the changes alone, and nothing of it is durable: rollups have the parts one by one.

A table that has no `PACK_FROM` parts stays an `immutables.Map`, and its snapshots have tuples.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from operator import attrgetter
from typing import TypeAlias, overload

import msgspec
import pyarrow as pa
from immutables import Map
from msgspec import Struct

from storage.bounded_map import BoundedMap
from storage.cache_memory import aging, share
from storage.shards.block_bounds import BlockBounds, path_hashes
from storage.shards.partitions.transforms import PartitionField
from storage.shards.parts import ColumnStats, Part, StatValue, comparable_bound, may_match
from storage.shards.pruning import Needed
from storage.shards.set_aside import Aside, read, set_aside
from storage.timestamps.csn import Csn

BLOCK_PARTS = 256
"""Parts of a block. More make fewer summaries, and more work for who wants one part."""

PACK_FROM = 3 * BLOCK_PARTS
"""So many loose files are packed, all but the newest `KEPT_LOOSE`: those that compactions and key runs change next. A
map with so many parts becomes a `PartMap`."""

KEPT_LOOSE = BLOCK_PARTS

SMALLEST_BLOCK = BLOCK_PARTS // 8
"""Fewer parts that are left of a block in a snapshot are loose there."""

OPENED_BYTES = share(256)
"""Bytes of parts kept from blocks that were looked into."""

FEW = 0.25
"""Where no more parts of a block may be wanted than this share, they alone become objects, and are not kept."""

PART_BYTES = 1024
"""About what a part takes of memory, with the statistics of two columns."""

IN_MEMORY = 96
"""Compressed bytes of a part that memory has, on an average of its block. More are set aside
(`storage.shards.set_aside`): the parts of tables with more than a few columns."""

_CODEC = "zstd"

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[Part, ...])
_raw_decoder = msgspec.msgpack.Decoder(tuple[msgspec.Raw, ...])
_part_decoder = msgspec.msgpack.Decoder(Part)
_id = attrgetter("id")
_first = attrgetter("first")


class Block(Struct, frozen=True, kw_only=True, eq=False):
    """Some files of rows of one shard, in the order of their ids."""

    first: int
    last: int
    """Ids."""
    count: int
    oldest: Csn
    newest: Csn
    row_ids: tuple[int, int]
    """The smallest and the largest."""
    held: dict[int, str] | None
    """The key runs that each has, with the fingerprints of their definitions, by the oid of the index; None where these
    are not the same."""
    run_bytes: dict[int, int]
    """The bytes of those."""
    smallest: int
    """Bytes of the smallest."""
    partition: tuple[PartitionField, ...]
    """By what each is known to be of one partition; empty where some are of none, or by something else."""
    summary: Part
    """A part that has the rows of all: their number, their bytes, and what is true of each."""
    bounds: BlockBounds
    size: int
    data: Aside
    """The parts: compressed MessagePack of `size` bytes, in memory where that is little for each."""

    @classmethod
    def of(cls, parts: Sequence[Part]) -> Block:
        """A block of `parts`, of which there are some and each `is_packable`."""
        spans = [part.row_id_bounds for part in parts]
        plain = _encoder.encode(parts)
        data = pa.compress(plain, _CODEC, asbytes=True)
        stats = _common_stats(parts)
        return cls(
            first=parts[0].id,
            last=parts[-1].id,
            count=len(parts),
            oldest=min([part.csn for part in parts]),
            newest=max([part.csn for part in parts]),
            row_ids=(min([low for low, _ in spans]), max([high for _, high in spans])),
            held=_common_runs(parts),
            run_bytes=_run_bytes(parts),
            smallest=min([part.bytes for part in parts]),
            partition=_common_partition(parts),
            summary=Part(
                kind="insert",
                rows=sum([part.rows for part in parts]),
                bytes=sum([part.bytes for part in parts]),
                stats=stats,
            ),
            bounds=BlockBounds.of(parts, stats),
            size=len(plain),
            data=data if len(data) <= IN_MEMORY * len(parts) else set_aside(data),
        )

    def may_have(self, spans: Iterable[tuple[int, int]]) -> bool:
        """Whether the rows of one of its parts may have ids in one of `spans` (first and last)."""
        low, high = self.row_ids
        return any(first <= high and low <= last for first, last in spans)

    def parts(self, *, keep: bool = False) -> tuple[Part, ...]:
        """All of them; `keep` where they are likely to be asked for again soon."""
        found = _opened.get(self)
        if found is not None:
            if keep:
                _opened.touch(self)
            return found
        found = _decoder.decode(self._plain())
        if keep:
            _opened.put(self, found, PART_BYTES * self.count)
        return found

    def where(self, needed: Needed) -> Sequence[Part]:
        """Those that may match (`storage.shards.parts.may_match`)."""
        if not may_match(self.summary, needed):
            return ()
        places = self.bounds.places_left(needed)
        if places is None or len(places) > self.count * FEW:
            return [part for part in self.parts(keep=True) if may_match(part, needed)]
        if not places:
            return ()
        opened = _opened.get(self)
        if opened is not None:
            some = [opened[place] for place in places]
        else:
            raw = _raw_decoder.decode(self._plain())
            some = [_part_decoder.decode(raw[place]) for place in places]
        return [part for part in some if may_match(part, needed)]

    def _plain(self) -> pa.Buffer:
        return pa.decompress(read(self.data), self.size, _CODEC)


_opened: BoundedMap[Block, tuple[Part, ...]] = aging(BoundedMap(max_bytes=OPENED_BYTES))
"""By block, its parts."""


def is_packable(part: Part) -> bool:
    """Whether a part may be in a block: a file of rows."""
    return part.key is not None and part.kind == "insert" and part.rows > 0


def _common_partition(parts: Sequence[Part]) -> tuple[PartitionField, ...]:
    fields = {tuple([value.field for value in part.partition]) for part in parts}
    return fields.pop() if len(fields) == 1 else ()


def run_bytes_of(parts: Sequence[Part]) -> dict[int, int]:
    """The size of the key runs of `parts` by the oid of the index."""
    return parts.run_bytes if isinstance(parts, PackedParts) else _run_bytes(parts)


def _common_runs(parts: Sequence[Part]) -> dict[int, str] | None:
    held = [{index: run.fingerprint for index, run in part.runs.items()} for part in parts]
    return held[0] if all(each == held[0] for each in held) else None


def _run_bytes(parts: Iterable[Part]) -> dict[int, int]:
    found: Counter[int] = Counter()
    for part in parts:
        found.update({index: run.bytes for index, run in part.runs.items()})
    return dict(found)


def _common_stats(parts: Sequence[Part]) -> dict[str, ColumnStats]:
    """The statistics of all rows of `parts`, of the columns that each has."""
    found: dict[str, ColumnStats] = {}
    for name, first in parts[0].stats.items():
        known = [part.stats.get(name) for part in parts]
        stats = [each for each in known if each is not None and each.domain == first.domain]
        if len(stats) < len(parts):
            continue
        nulls = [each.null_count for each in stats if each.null_count is not None]
        # Those without a value have no bounds, and need none.
        bounded = [each for each, part in zip(stats, parts, strict=True) if each.null_count != part.rows]
        found[name] = ColumnStats(
            domain=first.domain,
            min=_outermost(bounded, [each.min for each in bounded], min),
            max=_outermost(bounded, [each.max for each in bounded], max),
            null_count=sum(nulls) if len(nulls) == len(stats) else None,
        )
    return found


def _outermost(
    stats: Sequence[ColumnStats], bounds: Sequence[StatValue], choose: Callable[..., StatValue]
) -> StatValue:
    """The bound that holds for all; None when one is open, or there are none."""
    if not bounds or any(bound is None for bound in bounds):
        return None
    if stats[0].domain in ("int", "float", "str"):
        return choose(bounds)
    return choose(bounds, key=lambda bound: comparable_bound(stats[0], bound))


class PackedParts(Sequence[Part]):
    """The insert parts of a snapshot of a large table: those of `blocks` and of `loose`, each in the order of ids, in
    that order together, and then those `behind`, which were added."""

    __slots__ = ("behind", "blocks", "loose")

    def __init__(self, blocks: tuple[Block, ...], loose: tuple[Part, ...], behind: tuple[Part, ...] = ()) -> None:
        self.blocks = blocks
        self.loose = loose
        self.behind = behind

    def __len__(self) -> int:
        return sum([block.count for block in self.blocks]) + len(self.loose) + len(self.behind)

    def __iter__(self) -> Iterator[Part]:
        for block, loose in pieces(self.blocks, self.loose):
            yield from loose if block is None else merged(block.parts(), loose)
        yield from self.behind

    @overload
    def __getitem__(self, at: int) -> Part: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Part, ...]: ...

    def __getitem__(self, at: int | slice) -> Part | tuple[Part, ...]:
        if isinstance(at, slice):
            return tuple(self)[at]
        left = at + len(self) if at < 0 else at
        if left < 0:
            raise IndexError(at)
        for block, loose in pieces(self.blocks, self.loose):
            count = len(loose) + (0 if block is None else block.count)
            if left < count:
                return loose[left] if block is None else merged(block.parts(keep=True), loose)[left]
            left -= count
        return self.behind[left]

    def __add__(self, more: tuple[Part, ...]) -> PackedParts:
        return PackedParts(self.blocks, self.loose, self.behind + more)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PackedParts) and self.blocks == other.blocks:
            return (*self.loose, *self.behind) == (*other.loose, *other.behind)
        return isinstance(other, PackedParts | tuple) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def rows(self) -> int:
        """How many rows they have together."""
        return sum([block.summary.rows for block in self.blocks]) + sum([p.rows for p in (*self.loose, *self.behind)])

    @property
    def bytes(self) -> int:
        """Their stored size."""
        return sum([block.summary.bytes for block in self.blocks]) + sum([p.bytes for p in (*self.loose, *self.behind)])

    def begins(self, other: PackedParts) -> bool:
        """Whether `other` is these and others behind them."""
        return (
            self.blocks == other.blocks
            and self.loose == other.loose
            and other.behind[: len(self.behind)] == self.behind
        )

    def loose_from(self, start: int) -> tuple[Part, ...]:
        """The parts that are in no block, without the first `start`."""
        return (*self.loose, *self.behind)[start:]

    def with_loose(self, change: Callable[[Part], Part]) -> PackedParts:
        """These with what `change` makes of the loose ones, which keep their ids."""
        return PackedParts(self.blocks, tuple(map(change, self.loose)), tuple(map(change, self.behind)))

    @property
    def run_bytes(self) -> dict[int, int]:
        """The size of their key runs by the oid of the index."""
        found = Counter(_run_bytes((*self.loose, *self.behind)))
        for block in self.blocks:
            found.update(block.run_bytes)
        return dict(found)

    def where(self, needed: Needed) -> tuple[Part, ...]:
        """Those that may match (`storage.shards.parts.may_match`)."""
        found: list[Part] = []
        for block, loose in pieces(self.blocks, self.loose):
            kept = [part for part in loose if may_match(part, needed)]
            found += kept if block is None else merged(block.where(needed), kept)
        found += [part for part in self.behind if may_match(part, needed)]
        return tuple(found)

    def without(self, gone: Collection[Part]) -> tuple[PackedParts, Set[str | None]]:
        """These without the files that the deletions `gone` have, and which of those there were."""
        keys = {part.key for part in gone}
        spans = [part.row_id_bounds for part in gone]
        found: set[str | None] = set()
        blocks: list[Block] = []
        loose: list[Part] = []
        for part in self.loose:
            if part.key in keys and part.key is not None:
                found.add(part.key)
            else:
                loose.append(part)
        for block in self.blocks:
            left: tuple[Part, ...] | None = None
            if block.may_have(spans):
                parts = block.parts()
                left = tuple([part for part in parts if part.key not in keys])
                if len(left) < len(parts):
                    found.update([part.key for part in parts if part.key in keys])
                else:
                    left = None
            if left is None:
                blocks.append(block)
            elif len(left) < SMALLEST_BLOCK:
                loose += left
            else:
                blocks.append(Block.of(left))
        found.update([part.key for part in self.behind if part.key is not None and part.key in keys])
        behind = tuple([part for part in self.behind if part.key is None or part.key not in keys])
        return PackedParts(tuple(blocks), tuple(sorted(loose, key=_id)), behind), found


PartSequence: TypeAlias = tuple[Part, ...] | PackedParts
"""The insert parts of a snapshot."""


def pieces(blocks: Sequence[Block], loose: Sequence[Part]) -> Iterator[tuple[Block | None, Sequence[Part]]]:
    """In the order of ids, each block with the loose parts whose ids are between its own, and the loose parts between
    two blocks."""
    at = 0
    for block in blocks:
        start = bisect_left(loose, block.first, at, key=_id)
        if start > at:
            yield None, loose[at:start]
        at = bisect_right(loose, block.last, start, key=_id)
        yield block, loose[start:at]
    if at < len(loose):
        yield None, loose[at:]


def merged(parts: Sequence[Part], loose: Sequence[Part]) -> Sequence[Part]:
    """Both in the order of ids."""
    return sorted([*parts, *loose], key=_id) if loose else parts


def _joined(before: list[Block], block: Block) -> Block:
    """`block`, with the last of those `before` it, which is taken out there, where the two fit into one."""
    if not before or before[-1].count + block.count > BLOCK_PARTS:
        return block
    return Block.of([*before.pop().parts(), *block.parts()])


class PartMap(Struct, frozen=True, kw_only=True, eq=False):
    """The parts of a shard by id, some of them packed. Every change gives another map, as for `immutables.Map`."""

    loose: Map[int, Part]
    blocks: tuple[Block, ...] = ()
    files: int = 0
    """How many of the loose ones are packable."""
    count: int = 0

    @classmethod
    def of(cls, parts: Iterable[Part]) -> PartMap:
        """A map of `parts`, which come in the order of their ids. What is packed at once is not kept."""
        blocks: list[Block] = []
        loose: dict[int, Part] = {}
        waiting: list[Part] = []
        count = 0
        for part in parts:
            count += 1
            if not is_packable(part):
                loose[part.id] = part
                continue
            waiting.append(part)
            if len(waiting) == KEPT_LOOSE + BLOCK_PARTS:
                blocks.append(Block.of(waiting[:BLOCK_PARTS]))
                del waiting[:BLOCK_PARTS]
        if len(waiting) > KEPT_LOOSE:
            blocks.append(Block.of(waiting[:BLOCK_PARTS]))
            del waiting[:BLOCK_PARTS]
        loose.update([(part.id, part) for part in waiting])
        return cls(loose=Map(loose), blocks=tuple(blocks), files=len(waiting), count=count)

    def __len__(self) -> int:
        return self.count

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and self.get(number) is not None

    def __getitem__(self, number: int) -> Part:
        found = self.get(number)
        if found is None:
            raise KeyError(number)
        return found

    def __iter__(self) -> Iterator[int]:
        return (part.id for part in self.values())

    def get(self, number: int) -> Part | None:
        """The part with this id, or None."""
        found = self.loose.get(number)
        if found is None:
            at = self._block_of(number)
            if at >= 0:
                parts = self.blocks[at].parts(keep=True)
                place = bisect_left(parts, number, key=_id)
                found = parts[place] if parts[place].id == number else None
        return found

    def values(self) -> Iterator[Part]:
        """All parts, in the order of their ids."""
        return self.among(lambda block: True)

    def items(self) -> Iterator[tuple[int, Part]]:
        """All ids and parts, in their order."""
        return ((part.id, part) for part in self.values())

    def among(self, wanted: Callable[[Block], bool]) -> Iterator[Part]:
        """All loose parts and those of the `wanted` blocks, in the order of their ids."""
        for block, loose in pieces(self.blocks, sorted(self.loose.values(), key=_id)):
            yield from loose if block is None or not wanted(block) else merged(block.parts(), loose)

    def visible(self, as_of: Csn) -> tuple[PackedParts, tuple[Part, ...]]:
        """The parts with rows that were written up to `as_of`: inserts and deletes."""
        blocks: list[Block] = []
        loose = [part for part in self.loose.values() if part.csn <= as_of and part.rows]
        for block in self.blocks:
            if block.newest <= as_of:
                blocks.append(block)
            elif block.oldest <= as_of:
                loose += [part for part in block.parts() if part.csn <= as_of]
        loose.sort(key=_id)
        shown = self.blocks if len(blocks) == len(self.blocks) else tuple(blocks)
        inserts = PackedParts(shown, tuple([part for part in loose if part.kind == "insert"]))
        return inserts, tuple([part for part in loose if part.kind == "delete"])

    def set(self, number: int, part: Part) -> PartMap:
        """The map with `part`, whose id is `number`, in the place of what it had there."""
        known = self._opened(number)
        before = known.loose.get(number)
        return PartMap(
            loose=known.loose.set(number, part),
            blocks=known.blocks,
            files=known.files + is_packable(part) - (before is not None and is_packable(before)),
            count=known.count + (before is None),
        )

    def delete(self, number: int) -> PartMap:
        """The map without this part. Raises KeyError when there is none."""
        known = self._opened(number)
        before = known.loose[number]
        return PartMap(
            loose=known.loose.delete(number),
            blocks=known.blocks,
            files=known.files - is_packable(before),
            count=known.count - 1,
        )

    def packed(self) -> PartMap:
        """The map with the oldest loose files in blocks, once there are `PACK_FROM`."""
        if self.files < PACK_FROM:
            return self
        waiting = sorted([part for part in self.loose.values() if is_packable(part)], key=_id)
        blocks: list[Block] = []
        gone: list[Part] = []
        for block, neighbours in pieces(self.blocks, waiting):
            if block is not None:
                blocks.append(_joined(blocks, block))
                continue
            most = len(waiting) - len(gone) - KEPT_LOOSE
            run = neighbours
            if run[-1] is waiting[-1]:
                # The newest, of which whole blocks are packed.
                run = run[: -(-most // BLOCK_PARTS) * BLOCK_PARTS]
            if most > 0:
                gone += run
                size = -(-len(run) // -(-len(run) // BLOCK_PARTS))
                for at in range(0, len(run), size):
                    blocks.append(_joined(blocks, Block.of(run[at : at + size])))
        loose = self.loose.mutate()
        for part in gone:
            del loose[part.id]
        return PartMap(loose=loose.finish(), blocks=tuple(blocks), files=len(waiting) - len(gone), count=self.count)

    def check(self) -> None:
        """Assert every invariant of the module's contract."""
        files = 0
        for number, part in self.loose.items():
            assert number == part.id
            if is_packable(part):
                files += 1
                assert self._block_of(number) < 0
        assert files == self.files
        assert len(self.loose) + sum([block.count for block in self.blocks]) == self.count
        last = -1
        for block in self.blocks:
            parts = block.parts()
            assert all(map(is_packable, parts))
            ids = [part.id for part in parts]
            assert ids == sorted(set(ids))
            assert last < ids[0] == block.first
            assert (ids[-1], len(ids)) == (block.last, block.count)
            last = block.last

    def _block_of(self, number: int) -> int:
        """The place of the block that has the part `number` if one has; -1 when none can."""
        at = bisect_right(self.blocks, number, key=_first) - 1
        return at if at >= 0 and number <= self.blocks[at].last else -1

    def _opened(self, number: int) -> PartMap:
        """The map with the part `number` loose, if there is one, and with it those that it was packed with."""
        at = -1 if number in self.loose else self._block_of(number)
        if at < 0:
            return self
        block = self.blocks[at]
        parts = block.parts()
        if not any(part.id == number for part in parts):
            return self
        return PartMap(
            loose=self.loose.update([(part.id, part) for part in parts]),
            blocks=self.blocks[:at] + self.blocks[at + 1 :],
            files=self.files + block.count,
            count=self.count,
        )


PartsById: TypeAlias = Map[int, Part] | PartMap
"""The parts of a shard by id."""


def packed(parts: PartsById) -> PartsById:
    """`parts`, packed once there are `PACK_FROM`."""
    if isinstance(parts, PartMap):
        return parts.packed()
    return parts if len(parts) < PACK_FROM else PartMap.of(sorted(parts.values(), key=_id))


def of_stored(stored: Sequence[msgspec.Raw]) -> PartsById:
    """The map of the parts that a rollup has, in the order of their ids. Raises msgspec.ValidationError."""
    parts = map(_part_decoder.decode, stored)
    return PartMap.of(parts) if len(stored) >= PACK_FROM else Map({part.id: part for part in parts})


def stored(parts: PartsById) -> tuple[msgspec.Raw, ...]:
    """`parts` for a rollup, in the order of their ids. None is kept."""
    if not isinstance(parts, PartMap):
        return tuple([msgspec.Raw(_encoder.encode(parts[number])) for number in sorted(parts)])
    return tuple([msgspec.Raw(_encoder.encode(part)) for part in parts.values()])


def linked_paths(parts: PartSequence, paths: Collection[str]) -> set[str]:
    """Those of `paths` that `parts` are links to. Costs what `paths` are in number, and a look at each block."""
    wanted, blocks = frozenset(paths), list[Block]()
    looked_at: Iterable[Part] = parts
    if isinstance(parts, PackedParts):
        hashes = path_hashes(wanted)
        blocks = [block for block in parts.blocks if block.bounds.may_link(hashes)]
        looked_at = parts.loose_from(0)
    found = [part.link.path for part in looked_at if part.link is not None]
    found += [part.link.path for block in blocks for part in block.parts() if part.link is not None]
    return set(wanted.intersection(found))


def loose_parts(parts: PartsById) -> Iterable[Part]:
    """The parts that are not packed, in no order: all inline parts and all deletions are among them."""
    return parts.loose.values() if isinstance(parts, PartMap) else parts.values()
