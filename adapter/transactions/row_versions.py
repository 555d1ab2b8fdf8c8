"""What became of rows: which row took the place of which.

An UPDATE deletes a row and adds another, with another id. Whoever found the old one at its snapshot and then waited
for its lock has to go on with the new one. So each commit of this server notes, for the rows that it replaced or
deleted, their successors (`RowVersions.committed`), before anybody can see them; and whoever holds the old row or waits
for it in the lock table, holds or waits for the new one from then on.

What another server of the environment committed is not known here, nor what an engine wrote without its rows passing
this process, nor what is long ago: `newest` says so (`UNKNOWN`), and the statement begins again at a newer snapshot
instead. Whether a row is still there at all is told by the shard's own record of deletes, which has everybody's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import structlog
from msgspec import Struct

from adapter.transactions.decided_rows import DELETED, Decided, DecidedRows, Replacement
from adapter.transactions.locks.lock import Owner
from adapter.transactions.locks.lock_table import LockTable
from storage.errors import StorageError
from storage.ids import ShardId
from storage.shards.parts import PROVISIONAL_ROW_ID, ROW_ID, Part
from storage.timestamps.csn import Csn
from storage.transactions.rows_ahead import FIRST_AHEAD, ROWS_AHEAD

if TYPE_CHECKING:
    from storage.environment.environment import Environment
    from storage.transactions.txn import Txn

log = structlog.get_logger(__name__)

MAX_ROWS = 1_000_000
"""Rows whose successors are remembered, 16 bytes each: those of the last seconds or minutes, for statements that began
before."""

MAX_COMMITS = 20_000
"""Commits that they are remembered of."""

UNKNOWN: Final = -2
"""In place of a successor: somebody else knows."""


class CommittedChanges(Struct, frozen=True, kw_only=True):
    """One transaction of a commit: what it replaced, and who has its locks."""

    txn: Txn
    owner: Owner
    replacements: tuple[Replacement, ...]
    decided: Decided | None = None


class _Known(Struct, frozen=True):
    """Rows (ascending) and what took their places at one CSN."""

    old: np.ndarray[Any, Any]
    new: np.ndarray[Any, Any]


class RowVersions:
    """See the module's contract. Belongs to the event loop."""

    def __init__(self, locks: LockTable) -> None:
        self.decided = DecidedRows()
        self._locks = locks
        self._known: dict[Csn, dict[ShardId, list[_Known]]] = {}
        self._rows = 0

    def decide(
        self,
        txn: Txn,
        done: asyncio.Future[Csn],
        replacements: Sequence[Replacement],
        owner: Owner,
        *,
        is_certain: bool = False,
    ) -> Decided | None:
        """Let those who wait for rows of `txn`, which `owner` has locked, follow it; it is in the commit queue."""
        decided = self.decided.decide(txn, done, replacements, is_certain=is_certain)
        if decided is not None:
            owner.is_certain = is_certain
            self._pass_on(owner, replacements)
        return decided

    def make_certain(self, decided: Decided, replacements: Sequence[Replacement], owner: Owner) -> None:
        """Let also those follow it who follow only what is certain."""
        decided.is_certain = owner.is_certain = True
        self._pass_on(owner, replacements)

    def _pass_on(self, owner: Owner, replacements: Sequence[Replacement]) -> None:
        for relation_oid in {replacement.relation_oid for replacement in replacements}:
            self._locks.pass_on(owner, relation_oid)

    async def committed(self, env: Environment, whole: Txn, changes: Iterable[CommittedChanges], csn: Csn) -> None:
        """Note what `whole`, of which `changes` are members, replaced with its commit at `csn`, and move locks.

        Never raises for a failing store: then the successors are unknown."""
        known: dict[ShardId, list[_Known]] = {}
        changes = list(changes)
        group = _Group(env, whole, changes, csn)
        try:
            for change in changes:
                for replacement in change.replacements:
                    rows = await group.translated(change.txn, replacement)
                    known.setdefault(replacement.shard, []).append(rows)
                    if len(rows.new) and (rows.new != DELETED).all():
                        self._locks.follow(replacement.relation_oid, change.owner, rows.old, rows.new)
            for (shard, name), row_id in group.landed.items():
                self.decided.land(shard, name, row_id)
        except (StorageError, ValueError) as error:
            log.warning("rows that a commit replaced are not known", csn=csn, error=str(error))
        finally:
            for change in changes:
                if change.decided is not None:
                    self.decided.forget(change.decided)
        if known:
            self._keep(csn, known)

    def _keep(self, csn: Csn, known: dict[ShardId, list[_Known]]) -> None:
        self._known[csn] = known
        self._rows += _count(known)
        while len(self._known) > 1 and (self._rows > MAX_ROWS or len(self._known) > MAX_COMMITS):
            self._rows -= _count(self._known.pop(next(iter(self._known))))

    async def newest(
        self,
        env: Environment,
        shard: ShardId,
        row_ids: np.ndarray[Any, Any],
        after: Csn,
        until: Csn,
        way: set[int] | None = None,
    ) -> dict[int, int]:
        """For those of `row_ids` (ascending), there at `after`, that are no longer there at `until`: the id of the row
        that is there in their place, or `DELETED`, or `UNKNOWN`. The versions between go into `way`, with both ends."""
        if not len(row_ids):
            return {}
        deletes = (await env.reader.changes(shard, after, until)).deletes
        low, high = int(row_ids[0]), int(row_ids[-1])
        near = [part for part in deletes if part.row_id_bounds[0] <= high and low <= part.row_id_bounds[1]]
        if not near:
            return {}
        taken = np.concatenate([await _ids_of(env, part) for part in near])
        found = {row_id: row_id for row_id in np.intersect1d(row_ids, taken).tolist()}
        if not found:
            return {}
        gone: dict[int, Csn] = {}
        for part in deletes:
            gone.update(dict.fromkeys((await _ids_of(env, part)).tolist(), part.csn))
        for first in found:
            at = first
            while at in gone:
                if way is not None:
                    way.add(at)
                at = self._successor(shard, at, gone[at])
            if way is not None:
                way.add(at)
            found[first] = at
        return found

    def _successor(self, shard: ShardId, row_id: int, csn: Csn) -> int:
        for known in self._known.get(csn, {}).get(shard, ()):
            place = int(np.searchsorted(known.old, row_id))
            if place < len(known.old) and known.old[place] == row_id:
                return int(known.new[place])
        return UNKNOWN


def _count(known: dict[ShardId, list[_Known]]) -> int:
    return sum(len(rows.old) for several in known.values() for rows in several)


class _Group:
    """The members of one commit, and which of their rows others of them have replaced in turn."""

    def __init__(self, env: Environment, whole: Txn, changes: Sequence[CommittedChanges], csn: Csn) -> None:
        self._env, self._whole, self._csn = env, whole, csn
        self._next: dict[tuple[ShardId, int], tuple[Txn, int]] = {}
        """By the name of a row that was followed: whose row is in its place, with its provisional id or `DELETED`."""
        self.landed: dict[tuple[ShardId, int], int] = {}
        """The ids of the rows that are left, by their names."""
        for change in changes:
            for each in change.replacements:
                for number in np.flatnonzero(each.old >= FIRST_AHEAD).tolist():
                    new = DELETED if each.first == DELETED else each.first + number
                    self._next[each.shard, int(each.old[number])] = change.txn, new

    async def translated(self, txn: Txn, replacement: Replacement) -> _Known:
        """The rows of `replacement` that were there before, by the ids that they have after the commit."""
        old, first, shard = replacement.old, replacement.first, replacement.shard
        new = np.full(len(old), DELETED, np.int64) if first == DELETED else np.arange(first, first + len(old))
        here = old < FIRST_AHEAD
        old, new = old[here], new[here]
        if first != DELETED or (old >= PROVISIONAL_ROW_ID).any():
            parts = await _parts_of(self._env, shard, self._csn)
            old = self._whole.committed_row_ids(txn, shard, old, parts)
            if first != DELETED and txn.place:
                new = np.array([self._last(txn, shard, row_id, parts) for row_id in new.tolist()], np.int64)
            elif first != DELETED:
                new = self._whole.committed_row_ids(txn, shard, new, parts)
        order = np.argsort(old)
        return _Known(old[order], new[order])

    def _last(self, txn: Txn, shard: ShardId, row_id: int, parts: Sequence[Part]) -> int:
        """The id of the row that is there in the end for the new row `row_id` of `txn`."""
        while (following := self._next.get((shard, row_id + txn.place * ROWS_AHEAD))) is not None:
            txn, row_id = following
            if row_id == DELETED:
                return DELETED
        found = int(self._whole.committed_row_ids(txn, shard, np.array([row_id], np.int64), parts)[0])
        if txn.place:
            self.landed[shard, row_id + txn.place * ROWS_AHEAD] = found
        return found


async def _parts_of(env: Environment, shard: ShardId, csn: Csn) -> Sequence[Part]:
    """The insert parts that came with the commit at `csn`."""
    return (await env.reader.changes(shard, Csn(csn - 1), csn)).inserts


async def _ids_of(env: Environment, part: Part) -> np.ndarray[Any, Any]:
    ids: np.ndarray[Any, Any] = (await env.reader.read_part(part, [ROW_ID])).column(ROW_ID).to_numpy()
    return ids
