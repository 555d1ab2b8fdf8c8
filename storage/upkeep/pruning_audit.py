"""A sampled audit of pruning: a part that a read left out held no row that the read asked for.

Pruning goes by statistics. Wrong ones (of a damaged file, of an engine that writes them wrongly, of a mistake of ours)
would lose rows without a word, so now and then a part that was left out is read after all. In tests every one is, and
a finding is an error; in a server a sample is read in the background, and a finding is logged and counted.

Conditions are evaluated exactly, in PostgreSQL's order (NaN above every number); one that cannot be evaluated on a
part's rows finds nothing.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterator, Sequence, Set
from functools import partial
from typing import Any, overload

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from storage.clock import Randomness
from storage.errors import CorruptPart, StorageError
from storage.shards.packed_parts import Block, PackedParts, merged, pieces
from storage.shards.parts import ANY_OF, Part
from storage.shards.pruning import Condition, Needed, columns_of

log = structlog.get_logger(__name__)

SAMPLED_SHARE = 0.001
"""The share of the parts left out that a server reads."""

COMPARE: dict[str, Any] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
"""Arrow's comparisons by operator: NULL where a side is NULL."""
_ABOVE = frozenset({">", ">=", "<>"})
"""The comparisons with a number that NaN satisfies."""


class PruningAudit:
    """See the module's contract. With a `share` of 1 every part is looked at, before the read goes on."""

    def __init__(
        self, read: Callable[[Part, Sequence[str]], Awaitable[pa.Table]], random: Randomness, share: float
    ) -> None:
        self.share = share
        self.audited = 0
        """Parts that were read although a read had left them out."""
        self.faults = 0
        """Those of them that held a matching row."""
        self._read = read
        self._random = random
        self._running: set[asyncio.Task[None]] = set()

    async def left_out(self, parts: Sequence[Part], conjunctions: Needed) -> None:
        """A read whose rows must satisfy one of `conjunctions` has left `parts` out.

        Raises CorruptPart for a part with a matching row if all are audited.
        """
        if self.share >= 1:
            for part in parts:
                await self._audit(part, conjunctions)
        elif parts and self._random.random() < self.share * len(parts):
            part = parts[self._random.randrange(len(parts))]
            task = asyncio.get_running_loop().create_task(self._audit_aside(part, conjunctions))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def finished(self) -> None:
        """Return once every audit that runs in the background is over."""
        if self._running:
            await asyncio.wait(set(self._running))

    async def _audit_aside(self, part: Part, conjunctions: Needed) -> None:
        try:
            await self._audit(part, conjunctions)
        except StorageError as error:
            # A part that has been collected meanwhile tells nothing.
            level = logging.ERROR if isinstance(error, CorruptPart) else logging.DEBUG
            log.log(level, "pruning audit", part=part.key, error=str(error))

    async def _audit(self, part: Part, conjunctions: Needed) -> None:
        wanted = columns_of(conjunctions)
        columns = [name for name in part.columns if name in wanted]
        if not columns:
            return
        rows = await self._read(part, columns)
        self.audited += 1
        for conjunction in conjunctions:
            if rows_match(rows, conjunction):
                self.faults += 1
                rows_with = " and ".join(f"{c.column} {c.op} {c.value!r}" for c in conjunction)
                raise CorruptPart(
                    f"the statistics of part {part.key or part.id} are wrong: it was left out of a read, and holds a "
                    f"row with {rows_with}; check the environment with tidegate admin fsck"
                )


def rows_match(rows: pa.Table, conjunction: Sequence[Condition]) -> bool:
    """Whether some row certainly satisfies all of `conjunction`."""
    mask = _mask_of_all(rows, conjunction)
    return mask is not None and bool(pc.any(mask, min_count=0).as_py())


def _mask_of_all(rows: pa.Table, conjunction: Sequence[Condition]) -> Any | None:
    """Which rows certainly satisfy all of `conjunction`; None when that cannot be told."""
    every: Any = None
    for condition in conjunction:
        if condition.op == ANY_OF:
            branches = [_mask_of_all(rows, branch) for branch in condition.value]
            told = [branch for branch in branches if branch is not None]
            mask = functools.reduce(pc.or_, told) if told else None
        elif condition.column in rows.column_names:
            mask = _mask(rows.column(condition.column), condition.op, condition.value)
        else:
            return None
        if mask is None:
            return None
        every = mask if every is None else pc.and_(every, mask)
    return every


def _mask(column: pa.ChunkedArray, op: str, value: Any) -> Any | None:
    """Which rows satisfy the condition; None when that cannot be told."""
    if op == "is null":
        return pc.is_null(column)
    if op == "is not null":
        return pc.is_valid(column)
    if value is None or op not in {*COMPARE, "in"}:
        return None
    try:
        if op == "in":
            known = [item for item in value if item is not None]
            return pc.fill_null(pc.is_in(column, value_set=pa.array(known, column.type)), False)
        wanted = pa.scalar(value, column.type)
        mask = pc.fill_null(COMPARE[op](column, wanted), False)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
    if pa.types.is_floating(column.type):
        nans = pc.fill_null(pc.is_nan(column), False)
        if math.isnan(value):
            return _nan_mask(column, nans, op)
        mask = pc.or_(mask, nans) if op in _ABOVE else pc.and_(mask, pc.invert(nans))
    return mask


def _nan_mask(column: pa.ChunkedArray, nans: Any, op: str) -> Any | None:
    """The rows that compare so with NaN, which equals itself and is above every number."""
    match op:
        case "=" | ">=":
            return nans
        case "<=":
            return pc.is_valid(column)
        case "<" | "<>":
            return pc.and_(pc.is_valid(column), pc.invert(nans))
        case _:
            return None


class LeftOut(Sequence[Part]):
    """Those of `parts` that are not among `kept`, which have the same order. Who wants one of them opens one block."""

    __slots__ = ("_behind", "_ids", "_kept", "_parts")

    def __init__(self, parts: PackedParts, kept: Sequence[Part]) -> None:
        self._parts = parts
        self._kept = len(kept)
        behind = set(map(id, parts.behind))
        self._ids = [part.id for part in kept if id(part) not in behind]
        """Of those that were kept and are not behind."""
        found = set(map(id, kept))
        self._behind = [part for part in parts.behind if id(part) not in found]

    def __len__(self) -> int:
        return len(self._parts) - self._kept

    def __iter__(self) -> Iterator[Part]:
        for count, parts in self._pieces():
            if count:
                yield from parts()

    @overload
    def __getitem__(self, at: int) -> Part: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Part, ...]: ...

    def __getitem__(self, at: int | slice) -> Part | tuple[Part, ...]:
        if isinstance(at, slice):
            return tuple(self)[at]
        left = at
        for count, parts in self._pieces():
            if left < count:
                return parts()[left]
            left -= count
        raise IndexError(at)

    def _pieces(self) -> Iterator[tuple[int, Callable[[], Sequence[Part]]]]:
        """How many of them there are between two ids, and what gives these."""
        at = 0
        for block, loose in pieces(self._parts.blocks, self._parts.loose):
            last = loose[-1].id if block is None else block.last
            end = bisect_right(self._ids, last, at)
            kept = frozenset(self._ids[at:end])
            count = len(loose) + (0 if block is None else block.count) - len(kept)
            yield count, partial(_others, block, loose, kept)
            at = end
        yield len(self._behind), lambda: self._behind


def _others(block: Block | None, loose: Sequence[Part], kept: Set[int]) -> Sequence[Part]:
    parts = loose if block is None else merged(block.parts(keep=True), loose)
    return [part for part in parts if part.id not in kept]
