"""Key runs: for one part and one index, the keys in order and where their rows are in the part.

A run has up to two sections, each an array of 64-bit keys and one of 32-bit positions: *by hash* to find equal keys,
*by order* (the prefix of `storage.shards.indexes.keys`, and where prefixes are equal the whole keys, then the
positions) for ranges. Rows that a partial index does not have are in neither. What a run finds are candidates: two
keys may have one hash or one prefix, so whoever reads the row compares the key itself.

A section is stored in *pages* of `PAGE_ENTRIES` entries, each with a checksum in the directory that follows the head,
so that a few keys are found in a run of any length by reading head, directory and a page. Numbers are little-endian::

    0     "TGKEYRUN", version (2), flags (2): 1 by hash, 2 by order, 4 every prefix is the whole key
    12    entries (4), rows of the part (4), bytes of the filter (4)
    24    lowest and highest prefix (8 each; 0 where there is none)
    40    fingerprint of the definition (16), tag of the part (16)
    72    checksum of the filter (16); checksum of the head, with zeros here, and of the directory (16)
    104   zeros
    128   directory: of each page by hash, then of each by order: its first key (8), its checksum (8)
    ...   filter of the hashes
    ...   pages by hash, pages by order: keys (8 each), then positions (4 each), to a multiple of 8

A part's record has the checksum of the head, which leads to all others. A run that belongs to another part or
definition, or that has changed since it was written, raises `CorruptRun`; one of a newer version `NewerFormat`. The
version is in the fingerprint of every definition (`storage.shards.indexes.definition`), so that a run of an older one
is not taken for what is needed, and is made again.
"""

from __future__ import annotations

import hashlib
import heapq
import mmap
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from storage.errors import CorruptData, NewerFormat
from storage.shards.indexes import filters
from storage.shards.indexes.definition import RUN_VERSION, IndexDefinition
from storage.shards.indexes.keys import Ints, Keys, Positions, ascending, hashes, indexed, order, prefixes, values_of
from storage.shards.parts import Part

MAGIC = b"TGKEYRUN"
HEAD_BYTES = 128

PAGE_ENTRIES = 2048
"""Entries of a page, but for the last one of a section."""

PAGE_BYTES = 12 * PAGE_ENTRIES
"""The length of a page that is full."""

MAX_ROWS = (1 << 32) - 1

_HEAD = struct.Struct("<8sHHIIIQQ16s16s16s16s")
_PAGE = struct.Struct("<QQ")
_HASHED, _ORDERED, _EXACT = 1, 2, 4

Found: TypeAlias = tuple[Ints, npt.NDArray[np.int64]]
"""Which of the keys asked for (by number), and the position of a row that may have it."""


class CorruptRun(CorruptData):
    """A key run's bytes are not those that were written for this part and definition."""


class Pages(Struct, frozen=True, kw_only=True):
    """What the directory says of one section: the first key of each page, and its checksum. The pages begin at `start`
    in the run, and have so many `entries` together."""

    firsts: Keys
    checksums: Keys
    start: int
    entries: int

    def holding(self, low: Keys, high: Keys) -> Ints:
        """The numbers of the pages that may have an entry with low[i] <= key <= high[i], for any i; ascending."""
        if len(low) == 1:
            start = max(int(self.firsts.searchsorted(low[0], "left")) - 1, 0)
            return np.arange(start, int(self.firsts.searchsorted(high[0], "right")))
        first = np.maximum(np.searchsorted(self.firsts, low, "left") - 1, 0)
        counts = np.maximum(np.searchsorted(self.firsts, high, "right") - first, 0)
        ends = np.cumsum(counts)
        return np.unique(np.arange(int(counts.sum())) + np.repeat(first - ends + counts, counts))

    def entries_of(self, page: int) -> int:
        """How many entries a page has."""
        return min(PAGE_ENTRIES, self.entries - page * PAGE_ENTRIES)

    def place_of(self, page: int) -> tuple[int, int]:
        """Where a page begins in the run, and its length."""
        return self.start + page * PAGE_BYTES, _padded(12 * self.entries_of(page))

    def page(self, number: int, data: bytes | memoryview, what: str) -> Section:
        """The page `number`, whose bytes are `data`, verified."""
        entries = self.entries_of(number)
        if len(data) != self.place_of(number)[1] or _page_digest(data) != int(self.checksums[number]):
            raise CorruptRun(f"{what} does not match its checksum")
        keys = np.frombuffer(data, "<u8", entries)
        if keys[0] != self.firsts[number]:
            raise CorruptRun(f"{what} has another first key in its directory")
        return Section(keys, np.frombuffer(data, "<u4", entries, 8 * entries))


class RunHead(Struct, frozen=True, kw_only=True):
    """What is known of a run without its pages. `low` and `high` bound the prefixes, both inclusive."""

    entries: int
    part_rows: int
    low: int
    high: int
    by_hash: Pages | None
    by_order: Pages | None
    exact: bool
    filter_bytes: int
    filter_checksum: bytes
    checksum: str
    """Of the head itself, and so of everything: it has the others in it."""

    @property
    def filter_start(self) -> int:
        """Where the filter begins: after the directory."""
        return HEAD_BYTES + 16 * sum([len(pages.firsts) for pages in (self.by_hash, self.by_order) if pages])

    @property
    def bytes(self) -> int:
        """The length of the whole run."""
        sections = bool(self.by_hash) + bool(self.by_order)
        return self.filter_start + self.filter_bytes + sections * _section_bytes(self.entries)


class Section:
    """Keys in ascending order and their positions."""

    __slots__ = ("_positions", "items", "keys", "positions")

    def __init__(self, keys: Keys, positions: Positions) -> None:
        self.keys = keys
        self.positions = positions
        # Bisection and single items are several times faster than with numpy.
        self.items: Any = keys.data
        self._positions: Any = positions.data

    def find(self, key: int) -> list[int]:
        """The positions at `key`, ascending as they are stored."""
        keys = self.items
        at = bisect_left(keys, key)
        if at == len(keys) or keys[at] != key:
            return []
        end = at + 1
        if end < len(keys) and keys[end] == key:
            end = bisect_right(keys, key, end)
        return self._positions[at:end].tolist()  # type: ignore[no-any-return]

    def probe(self, wanted: Keys) -> Found:
        """The entries of all keys `wanted`."""
        return self.probe_between(wanted, wanted)

    def probe_between(self, low: Keys, high: Keys) -> Found:
        """The entries with low[i] <= key <= high[i], for every i."""
        first = np.searchsorted(self.keys, low, "left")
        counts = np.searchsorted(self.keys, high, "right") - first
        numbers = np.repeat(np.arange(len(low)), counts)
        ends = np.cumsum(counts)
        at = np.arange(len(numbers)) + np.repeat(first - ends + counts, counts)
        return numbers, self.positions[at].astype(np.int64)

    def between(self, low: int, high: int) -> tuple[int, int]:
        """Where the entries with low <= key <= high begin and end."""
        return bisect_left(self.items, low), bisect_right(self.items, high)

    def entries(self, start: int, stop: int, descending: bool) -> Iterator[tuple[int, int]]:
        """Keys and positions from `start` to `stop`, or from `stop` back to `start`."""
        keys, positions = self.items, self._positions
        for at in range(stop - 1, start - 1, -1) if descending else range(start, stop):
            yield keys[at], positions[at]


class KeyRun(Struct, frozen=True, kw_only=True):
    """A run, or so much of one as is needed: then it has some pages of its sections, and no filter. `mapped`: the file
    that its sections are in, if they are in one."""

    head: RunHead
    by_hash: Section | None
    by_order: Section | None
    filter: bytes = b""
    mapped: mmap.mmap | None = None

    @property
    def nbytes(self) -> int:
        """Memory, or space in a file, that it takes."""
        sections = [section for section in (self.by_hash, self.by_order) if section is not None]
        return len(self.filter) + sum([section.keys.nbytes + section.positions.nbytes for section in sections])

    def may_hold(self, hash_: int) -> bool:
        """Whether a row may have the key of this hash."""
        return self.head.entries > 0 and (not self.filter or filters.may_hold(self.filter, hash_))

    def find(self, hash_: int) -> list[int]:
        """The positions of rows that may have the key of this hash."""
        assert self.by_hash is not None
        return self.by_hash.find(hash_) if self.may_hold(hash_) else []

    def probe(self, wanted: Keys) -> Found:
        """The rows that may have one of the keys with the hashes `wanted`."""
        assert self.by_hash is not None
        if not self.filter or not self.head.entries:
            return self.by_hash.probe(wanted)
        likely: Ints = np.flatnonzero(filters.may_hold_each(self.filter, wanted))
        numbers, positions = self.by_hash.probe(wanted[likely])
        return likely[numbers], positions

    def between(self, low: int, high: int) -> list[int]:
        """The positions of rows whose prefix is from `low` to `high`, in the order of the keys."""
        assert self.by_order is not None
        start, stop = self.by_order.between(low, high)
        positions: list[int] = self.by_order.positions[start:stop].tolist()
        return positions

    def probe_between(self, low: Keys, high: Keys) -> Found:
        """The rows whose prefix is from low[i] to high[i], for every i."""
        assert self.by_order is not None
        return self.by_order.probe_between(low, high)


def part_tag(part: Part) -> bytes:
    """What tells `part` from every other: 16 bytes that a run of it carries."""
    source = part.inline if part.inline is not None else repr((part.key, part.bytes, part.checksum)).encode()
    return hashlib.blake2b(source, digest_size=16).digest()


def build(definition: IndexDefinition, rows: pa.Table, tag: bytes) -> bytes:
    """The run of a part whose rows are `rows`: the inputs of `definition`, in their types."""
    if rows.num_rows > MAX_ROWS:
        raise ValueError(f"a part of {rows.num_rows} rows has positions of more than 32 bits")
    places, arrays = indexed(definition, rows)
    values = values_of(definition.columns, arrays)
    by_hash = by_order = None
    filter_ = b""
    exact = False
    if definition.hashed:
        hashed = hashes(values)
        ascending_ = ascending(hashed)
        by_hash = Section(hashed[ascending_], places[ascending_].astype("<u4"))
        filter_ = filters.build(by_hash.keys)
    if definition.ordered:
        encoded = prefixes(values)
        ordered = order(values, encoded)
        by_order = Section(encoded.keys[ordered], places[ordered].astype("<u4"))
        exact = bool(encoded.exact.all())
    return _encoded(definition, tag, rows.num_rows, by_hash, by_order, filter_, exact)


def encode(definition: IndexDefinition, run: KeyRun, tag: bytes) -> bytes:
    """The bytes of the whole `run` of a part: those that `build` gives."""
    return _encoded(definition, tag, run.head.part_rows, run.by_hash, run.by_order, run.filter, run.head.exact)


def _encoded(
    definition: IndexDefinition,
    tag: bytes,
    part_rows: int,
    by_hash: Section | None,
    by_order: Section | None,
    filter_: bytes,
    exact: bool,
) -> bytes:
    flags = _EXACT * exact
    low = high = entries = 0
    directory: list[bytes] = []
    body: list[bytes] = []
    for section, flag in ((by_hash, _HASHED), (by_order, _ORDERED)):
        if section is None:
            continue
        flags |= flag
        entries = len(section.keys)
        for start in range(0, entries, PAGE_ENTRIES):
            keys = section.keys[start : start + PAGE_ENTRIES].astype("<u8").tobytes()
            positions = section.positions[start : start + PAGE_ENTRIES].astype("<u4").tobytes()
            page = _to_8(keys + positions)
            directory.append(_PAGE.pack(int(section.keys[start]), _page_digest(page)))
            body.append(page)
    if by_order is not None and entries:
        low, high = int(by_order.keys[0]), int(by_order.keys[-1])
    fields = (MAGIC, RUN_VERSION, flags, entries, part_rows, len(filter_), low, high)
    names = (bytes.fromhex(definition.fingerprint), tag, _digest(filter_))
    unsigned = _HEAD.pack(*fields, *names, bytes(16)).ljust(HEAD_BYTES, b"\0")
    head = _HEAD.pack(*fields, *names, _digest(unsigned, *directory)).ljust(HEAD_BYTES, b"\0")
    return b"".join((head, *directory, filter_, *body))


def first_bytes(definition: IndexDefinition, rows: int) -> int:
    """How long head and directory of the run of a part of so many rows are at most."""
    return HEAD_BYTES + 16 * -(-rows // PAGE_ENTRIES) * (definition.hashed + definition.ordered)


def version_of(data: bytes | memoryview) -> int:
    """The version of the run whose first bytes are `data`; 0 when they are of no run."""
    return int.from_bytes(data[8:10], "little") if data[:8] == MAGIC else 0


def read_head(fingerprint: str, tag: bytes, data: bytes | memoryview, what: str) -> RunHead:
    """Head and directory of the run whose first bytes are `data`, verified. `what` names it in errors."""
    if len(data) < HEAD_BYTES or data[:8] != MAGIC:
        raise CorruptRun(f"{what} is no key run")
    _, version, flags, entries, part_rows, filter_size, low, high, made_for, tagged, filter_checksum, checksum = (
        _HEAD.unpack_from(data)
    )
    if version > RUN_VERSION:
        raise NewerFormat(
            f"{what} has format {version}, but this version of Tidegate reads key runs up to {RUN_VERSION}; "
            "upgrade Tidegate"
        )
    pages = -(-entries // PAGE_ENTRIES)
    sections = bool(flags & _HASHED) + bool(flags & _ORDERED)
    directory = bytes(data[HEAD_BYTES : HEAD_BYTES + 16 * pages * sections])
    unsigned = bytes(data[: _HEAD.size - 16]) + bytes(16) + bytes(data[_HEAD.size : HEAD_BYTES])
    if version < RUN_VERSION:
        raise CorruptRun(f"{what} has the older format {version}")
    if _digest(unsigned, directory) != checksum:
        raise CorruptRun(f"{what} does not match its checksum")
    if tagged != tag:
        raise CorruptRun(f"{what} was made for another part")
    if made_for.hex() != fingerprint:
        raise CorruptRun(f"{what} was made for another definition")
    start = HEAD_BYTES + len(directory) + filter_size
    told = np.frombuffer(directory, "<u8").reshape(-1, 2)
    found: list[Pages | None] = []
    for flag in (_HASHED, _ORDERED):
        if flags & flag:
            own, told = told[:pages], told[pages:]
            found.append(Pages(firsts=own[:, 0].copy(), checksums=own[:, 1], start=start, entries=entries))
            start += _section_bytes(entries)
        else:
            found.append(None)
    return RunHead(
        entries=entries,
        part_rows=part_rows,
        low=low,
        high=high,
        by_hash=found[0],
        by_order=found[1],
        exact=bool(flags & _EXACT),
        filter_bytes=filter_size,
        filter_checksum=filter_checksum,
        checksum=checksum.hex(),
    )


def read_filter(head: RunHead, data: bytes | memoryview, what: str) -> bytes:
    """The filter of the run with this `head`, whose first bytes are `data`, verified."""
    found = bytes(data[head.filter_start : head.filter_start + head.filter_bytes])
    if len(found) != head.filter_bytes or _digest(found) != head.filter_checksum:
        raise CorruptRun(f"{what} does not match its checksum")
    return found


def decode(fingerprint: str, tag: bytes, data: bytes | memoryview, what: str) -> KeyRun:
    """The run whose bytes are `data`, all of it verified."""
    head = read_head(fingerprint, tag, data, what)
    if len(data) != head.bytes:
        raise CorruptRun(f"{what} has {len(data)} bytes, expected {head.bytes}")
    view = memoryview(data)
    sections: list[Section | None] = []
    for pages in (head.by_hash, head.by_order):
        if pages is None:
            sections.append(None)
            continue
        read = []
        for number in range(len(pages.firsts)):
            start, length = pages.place_of(number)
            read.append(pages.page(number, view[start : start + length], what))
        sections.append(joined(read))
    return KeyRun(head=head, by_hash=sections[0], by_order=sections[1], filter=read_filter(head, data, what))


def joined(pages: Sequence[Section]) -> Section:
    """The entries of some pages of one section, which are in their order."""
    if len(pages) == 1:
        return pages[0]
    keys = [page.keys for page in pages] or [np.empty(0, np.uint64)]
    positions = [page.positions for page in pages] or [np.empty(0, np.uint32)]
    return Section(np.concatenate(keys), np.concatenate(positions))


def in_file(run: KeyRun, write: Callable[[bytes], mmap.mmap]) -> KeyRun:
    """`run`, with its sections in the file that `write` makes of some bytes, and maps."""
    held = [section for section in (run.by_hash, run.by_order) if section is not None]
    if not run.head.entries:
        return run
    mapped = write(b"".join([piece for s in held for piece in (s.keys.tobytes(), _to_8(s.positions.tobytes()))]))
    entries, start = run.head.entries, 0
    sections: list[Section | None] = []
    for section in (run.by_hash, run.by_order):
        if section is None:
            sections.append(None)
            continue
        keys = np.frombuffer(mapped, np.uint64, entries, start)
        sections.append(Section(keys, np.frombuffer(mapped, np.uint32, entries, start + 8 * entries)))
        start += 8 * entries + _padded(4 * entries)
    return KeyRun(head=run.head, by_hash=sections[0], by_order=sections[1], filter=run.filter, mapped=mapped)


def check(run: KeyRun) -> None:
    """Raise `CorruptRun` unless every section has keys in order, and each of its part's rows once at most."""
    for section in (run.by_hash, run.by_order):
        if section is None:
            continue
        if (section.keys[1:] < section.keys[:-1]).any():
            raise CorruptRun("its keys are not in order")
        positions = np.unique(section.positions)
        if len(positions) < len(section.positions) or (len(positions) and positions[-1] >= run.head.part_rows):
            raise CorruptRun("its positions are not those of rows")


def merged(sections: Sequence[tuple[Section, int, int]], *, descending: bool = False) -> Iterator[tuple[int, int, int]]:
    """The entries of several sections, each from its start to its stop, in the order of the keys: key, number of the
    section, position. Lazy: what is not asked for is not looked at."""

    def numbered(number: int, entries: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
        return ((key, number, position) for key, position in entries)

    streams = [
        numbered(number, section.entries(start, stop, descending))
        for number, (section, start, stop) in enumerate(sections)
    ]
    return heapq.merge(*streams, key=lambda entry: entry[0], reverse=descending)


def _section_bytes(entries: int) -> int:
    """How long the pages of a section are together."""
    full, rest = divmod(entries, PAGE_ENTRIES)
    return full * PAGE_BYTES + _padded(12 * rest)


def _to_8(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def _padded(size: int) -> int:
    return -(-size // 8) * 8


def _digest(*pieces: bytes | memoryview) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def _page_digest(page: bytes | memoryview) -> int:
    return int.from_bytes(hashlib.blake2b(page, digest_size=8).digest(), "little")
