"""Key runs: for one part and one index, the keys in order and where their rows are in the part.

A run has up to two sections, each an array of 64-bit keys and one of 32-bit positions: *by hash* to find equal keys,
*by order* (the prefix of `storage.shards.indexes.keys`, and where prefixes are equal the whole keys, then the
positions) for ranges. Rows that a partial index does not have are in neither. What a run finds are candidates: two
keys may have one hash or one prefix, so whoever reads the row compares the key itself.

The bytes of a run, mapped as they are; numbers are little-endian::

    0     "TGKEYRUN", version (2), flags (2): 1 by hash, 2 by order, 4 every prefix is the whole key
    12    entries (4), rows of the part (4), bytes of the filter (4)
    24    lowest and highest prefix (8 each; 0 where there is none)
    40    fingerprint of the definition (16), tag of the part (16)
    72    checksum of the sections (16); checksum of the head, with zeros here, and of the filter (16)
    104   zeros
    128   filter of the hashes; keys and positions by hash; keys and positions by order; each from a multiple of 8 on

So head and filter are read, and verified, without the rest. A run that belongs to another part or definition, or that
has changed since it was written, raises `CorruptRun`; one of a newer version `NewerFormat`.
"""

from __future__ import annotations

import hashlib
import heapq
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from storage.errors import CorruptData, NewerFormat
from storage.shards.indexes import filters
from storage.shards.indexes.definition import IndexDefinition
from storage.shards.indexes.keys import Ints, Keys, Positions, ascending, hashes, indexed, order, prefixes, values_of
from storage.shards.parts import Part

RUN_VERSION = 1
"""Format of a run. A newer one is refused; the run is then made again from its part."""

MAGIC = b"TGKEYRUN"
HEAD_BYTES = 128
MAX_ROWS = (1 << 32) - 1

_HEAD = struct.Struct("<8sHHIIIQQ16s16s16s16s")
_HASHED, _ORDERED, _EXACT = 1, 2, 4

Found: TypeAlias = tuple[Ints, npt.NDArray[np.int64]]
"""Which of the keys asked for (by number), and the position of a row that may have it."""


class CorruptRun(CorruptData):
    """A key run's bytes are not those that were written for this part and definition."""


class RunHead(Struct, frozen=True, kw_only=True):
    """What is known of a run without its sections. `low` and `high` bound the prefixes, both inclusive."""

    entries: int
    part_rows: int
    low: int
    high: int
    hashed: bool
    ordered: bool
    exact: bool
    filter: bytes
    checksum: str
    """Of the head itself, and so of everything: it has the sections' in it."""
    sections_checksum: bytes

    @property
    def bytes(self) -> int:
        """The length of the whole run."""
        section = 8 * self.entries + _padded(4 * self.entries)
        return HEAD_BYTES + len(self.filter) + section * (self.hashed + self.ordered)

    def may_hold(self, hash_: int) -> bool:
        """Whether a row may have the key of this hash."""
        return self.entries > 0 and (not self.filter or filters.may_hold(self.filter, hash_))


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
        while end < len(keys) and keys[end] == key:
            end += 1
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
    """One run, whose bytes are `data`, in memory or mapped."""

    head: RunHead
    by_hash: Section | None
    by_order: Section | None
    data: bytes | memoryview

    def find(self, hash_: int) -> list[int]:
        """The positions of rows that may have the key of this hash."""
        assert self.by_hash is not None
        return self.by_hash.find(hash_) if self.head.may_hold(hash_) else []

    def probe(self, wanted: Keys) -> Found:
        """The rows that may have one of the keys with the hashes `wanted`."""
        assert self.by_hash is not None
        if not self.head.filter or not self.head.entries:
            return self.by_hash.probe(wanted)
        likely: Ints = np.flatnonzero(filters.may_hold_each(self.head.filter, wanted))
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
    sections: list[bytes] = []
    flags = low = high = 0
    filter_ = b""
    if definition.hashed:
        flags |= _HASHED
        hashed = hashes(values)
        by_hash = ascending(hashed)
        hashed = hashed[by_hash]
        filter_ = filters.build(hashed)
        sections += _section(hashed, places[by_hash])
    if definition.ordered:
        flags |= _ORDERED
        encoded = prefixes(values)
        by_order = order(values, encoded)
        keys = encoded.keys[by_order]
        if len(keys):
            low, high = int(keys[0]), int(keys[-1])
        if encoded.exact.all():
            flags |= _EXACT
        sections += _section(keys, places[by_order])
    body = b"".join(sections)
    fields = (MAGIC, RUN_VERSION, flags, len(places), rows.num_rows, len(filter_), low, high)
    names = (bytes.fromhex(definition.fingerprint), tag, _digest(body))
    unsigned = _HEAD.pack(*fields, *names, bytes(16)).ljust(HEAD_BYTES, b"\0")
    head = _HEAD.pack(*fields, *names, _digest(unsigned, filter_)).ljust(HEAD_BYTES, b"\0")
    return b"".join((head, filter_, body))


def read_head(fingerprint: str, tag: bytes, data: bytes | memoryview, what: str) -> RunHead:
    """The head and filter of the run whose first bytes are `data`, verified. `what` names it in errors."""
    if len(data) < HEAD_BYTES or data[:8] != MAGIC:
        raise CorruptRun(f"{what} is no key run")
    _, version, flags, entries, part_rows, filter_size, low, high, made_for, tagged, sections, checksum = (
        _HEAD.unpack_from(data)
    )
    if version > RUN_VERSION:
        raise NewerFormat(
            f"{what} has format {version}, but this version of Tidegate reads key runs up to {RUN_VERSION}; "
            "upgrade Tidegate"
        )
    filter_ = bytes(data[HEAD_BYTES : HEAD_BYTES + filter_size])
    unsigned = bytes(data[: _HEAD.size - 16]) + bytes(16) + bytes(data[_HEAD.size : HEAD_BYTES])
    if len(filter_) != filter_size or _digest(unsigned, filter_) != checksum:
        raise CorruptRun(f"{what} does not match its checksum")
    if tagged != tag:
        raise CorruptRun(f"{what} was made for another part")
    if made_for.hex() != fingerprint:
        raise CorruptRun(f"{what} was made for another definition")
    return RunHead(
        entries=entries,
        part_rows=part_rows,
        low=low,
        high=high,
        hashed=bool(flags & _HASHED),
        ordered=bool(flags & _ORDERED),
        exact=bool(flags & _EXACT),
        filter=filter_,
        checksum=checksum.hex(),
        sections_checksum=sections,
    )


def decode(fingerprint: str, tag: bytes, data: bytes | memoryview, what: str, *, trusted: bool = False) -> KeyRun:
    """The run whose bytes are `data`, which it keeps. `trusted`: they are what this process has just made."""
    head = read_head(fingerprint, tag, data, what)
    if len(data) != head.bytes:
        raise CorruptRun(f"{what} has {len(data)} bytes, expected {head.bytes}")
    start = HEAD_BYTES + len(head.filter)
    if not trusted and _digest(memoryview(data)[start:]) != head.sections_checksum:
        raise CorruptRun(f"{what} does not match its checksum")
    found: list[Section] = []
    for _ in range(head.hashed + head.ordered):
        keys = np.frombuffer(data, "<u8", head.entries, start)
        start += 8 * head.entries
        positions = np.frombuffer(data, "<u4", head.entries, start)
        start += _padded(4 * head.entries)
        found.append(Section(keys, positions))
    return KeyRun(
        head=head,
        by_hash=found[0] if head.hashed else None,
        by_order=found[-1] if head.ordered else None,
        data=data,
    )


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


def _section(keys: Keys, positions: Ints) -> list[bytes]:
    size = 4 * len(positions)
    return [keys.astype("<u8").tobytes(), positions.astype("<u4").tobytes(), bytes(_padded(size) - size)]


def _padded(size: int) -> int:
    return -(-size // 8) * 8


def _digest(*pieces: bytes | memoryview) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        digest.update(piece)
    return digest.digest()
