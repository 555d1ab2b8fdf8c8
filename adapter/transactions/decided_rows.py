"""Rows of transactions that are decided and not durable yet, for those who wait for them.

A transaction whose commit is in the queue will commit, unless the store, another server or its own reads prevent it:
what it writes is *decided*. Whoever waits for one of its rows need not wait for the disk as well. So its row locks are
passed on (`Lock.passed_on`), and the next in the queue *follows* it: goes on from the version of the row that it will
have committed, and queues behind it. One commit group carries a whole queue of a hot row.

The rule that makes this invisible:

- A statement follows only with what is worked out again from the newest version of a row that its key has found.
- One that is alone in its transaction follows anybody. All that its client hears, it hears after the commit, so nobody
  is shown a row that may never have been.
- One of a READ COMMITTED block follows only those who are *certain* (`Decided.is_certain`): nothing but a failure of
  the store keeps them from committing. Its client hears how many rows it has changed, nothing of what is in them, and
  is told 40001 by the next statement that reads or by COMMIT when the store did fail. So that is bounded by the groups
  that fail. What a block does next waits until those whom it has followed are durable, unless it reads nothing.
- A follower commits in the group of those whom it has followed, or in a later one; when one of them is lost, it is
  refused (40001), runs again, and its own followers with it (`GroupCommitter`). The order of the queue is that of the
  log, so it is never durable before them.
- A follower that has nothing to commit, or fails, has looked at decided rows all the same: it waits until they are
  durable before its client hears of it, and runs again if they are lost (`Transaction.settled`).
- Everybody else sees the holders of a lock that was passed on as they were, and waits for their end.

So a transaction's answer follows the durability of all that it has seen, and of two in real-time order the later one
sees the earlier one, which has been durable before it began: strict serializability is that of the log.

Locks only order. If two follow one transaction to the same row, the commit refuses the second (`validation`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct, field

from adapter.store_errors import CONCURRENT_UPDATE, serialization_failure
from storage.ids import ShardId
from storage.timestamps.csn import Csn
from storage.transactions.rows_ahead import FIRST_AHEAD, MAX_PLACES, ROWS_AHEAD, place_of, rows_named

if TYPE_CHECKING:
    from storage.transactions.txn import Txn

MAX_ROWS = 16
"""Rows of one transaction that are followed: a hot row is changed by small ones."""

DELETED: Final = -1
"""In place of a successor: there is none."""


class Replacement(Struct, frozen=True, kw_only=True):
    """Rows of a table that a transaction replaced or deleted: the row ``old[i]`` by that with the provisional id
    ``first + i``, or by none when `first` is `DELETED`. Own rows of the transaction are among them, and rows of others
    that it has followed, by their names."""

    relation_oid: int
    shard: ShardId
    old: np.ndarray[Any, Any]
    first: int


class Decided(Struct, eq=False, kw_only=True):
    """A transaction in the commit queue. `done`: its commit is durable and visible, or has failed."""

    txn: Txn
    done: asyncio.Future[Csn]
    place: int
    is_certain: bool = False
    """Whether nothing but a failure of the store keeps it, and those whom it follows itself, from committing."""
    is_parked: bool = False
    """Whether it has left the queue for a while."""
    rows: list[tuple[ShardId, int]] = field(default_factory=list)
    """What it has replaced, while that can be followed."""
    landed: dict[tuple[ShardId, int], int] = field(default_factory=dict)
    """The ids that its rows have got, by their names, once they are durable."""

    @property
    def is_durable(self) -> bool:
        """Whether it has committed."""
        return self.done.done() and not self.is_lost

    @property
    def is_lost(self) -> bool:
        """Whether it has failed."""
        return self.done.cancelled() or (self.done.done() and self.done.exception() is not None)


class DecidedRows:
    """See the module's contract. Belongs to the event loop."""

    def __init__(self) -> None:
        self._next: dict[tuple[ShardId, int], tuple[Decided, int]] = {}
        self._at: dict[int, Decided] = {}
        self._place = 0

    def decide(
        self, txn: Txn, done: asyncio.Future[Csn], replacements: Sequence[Replacement], *, is_certain: bool = False
    ) -> Decided | None:
        """Let others follow `txn`, which is in the queue, to the rows that it has replaced; None when they are too
        many. Over with `forget`."""
        if sum(len(each.old) for each in replacements) > MAX_ROWS or len(self._at) >= MAX_PLACES:
            return None
        place = self._place = next(n for n in _after(self._place) if n not in self._at)
        decided = self._at[place] = Decided(txn=txn, done=done, place=place, is_certain=is_certain)
        txn.place = place
        for each in replacements:
            for number, old in enumerate(rows_named(each.old, place).tolist()):
                key = each.shard, old
                if key not in self._next:
                    new = DELETED if each.first == DELETED else each.first + number + place * ROWS_AHEAD
                    self._next[key] = decided, new
                    decided.rows.append(key)
        return decided

    def newest(self, shard: ShardId, row_id: int) -> tuple[int, list[tuple[Decided, int]]]:
        """The decided version of a row, and the way there: whose row, and its name or `DELETED`. The row itself when
        nobody has replaced it."""
        way: list[tuple[Decided, int]] = []
        while (found := self._next.get((shard, row_id))) is not None:
            way.append(found)
            row_id = found[1]
        return row_id, way

    def row(self, shard: ShardId, name: int, followed: Iterable[Decided]) -> Any:
        """The row with this name, of one of those `followed`, as a table of its stored columns; None when it is not at
        hand any more."""
        place, provisional = place_of(name)
        for decided in followed:
            if decided.place == place and not decided.is_lost:
                return decided.txn.rows(shard, [provisional])
        return None

    def land(self, shard: ShardId, name: int, row_id: int) -> None:
        """The row with this name is durable, under an id of its own."""
        decided = self._at.get(place_of(name)[0])
        if decided is None:
            return
        decided.landed[shard, name] = row_id
        found = self._next.pop((shard, name), None)
        if found is not None:
            follower, _ = self._next[shard, row_id] = found
            follower.rows.append((shard, row_id))

    def forget(self, decided: Decided) -> None:
        """It is not followed any more."""
        for key in decided.rows:
            found = self._next.get(key)
            if found is not None and found[0] is decided:
                del self._next[key]
        decided.rows = []
        if self._at.get(decided.place) is decided:
            del self._at[decided.place]


async def durable(followed: Iterable[Decided]) -> None:
    """Return when all those `followed` are durable. Raises 40001 when one of them is lost."""
    for decided in followed:
        if not decided.done.done():
            await asyncio.wait((decided.done,))
        if decided.is_lost:
            raise serialization_failure(CONCURRENT_UPDATE)


def names_landed(followed: Iterable[Decided]) -> dict[ShardId, dict[int, int]]:
    """By shard, the ids that rows of those `followed` have got, by their names."""
    names: dict[ShardId, dict[int, int]] = {}
    for decided in followed:
        for (shard, name), row_id in decided.landed.items():
            names.setdefault(shard, {})[name] = row_id
    return names


def settled(replacements: Sequence[Replacement], names: dict[ShardId, dict[int, int]]) -> tuple[Replacement, ...]:
    """`replacements` with the rows of others that have landed by their own ids."""
    found = []
    for each in replacements:
        ids = names.get(each.shard)
        if ids and (each.old >= FIRST_AHEAD).any():
            old = np.array([ids.get(row_id, row_id) for row_id in each.old.tolist()], np.int64)
            each = Replacement(relation_oid=each.relation_oid, shard=each.shard, old=old, first=each.first)
        found.append(each)
    return tuple(found)


def _after(place: int) -> Iterable[int]:
    """All places, beginning behind `place`: a name is not used again soon."""
    yield from range(place + 1, MAX_PLACES + 1)
    yield from range(1, place + 1)
