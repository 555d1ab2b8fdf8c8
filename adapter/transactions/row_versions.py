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

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import structlog
from msgspec import Struct

from adapter.transactions.locks.lock import Owner
from adapter.transactions.locks.lock_table import LockTable
from storage.errors import StorageError
from storage.ids import ShardId
from storage.shards.parts import PROVISIONAL_ROW_ID, ROW_ID, Part
from storage.timestamps.csn import Csn

if TYPE_CHECKING:
    from storage.environment.environment import Environment
    from storage.transactions.txn import Txn

log = structlog.get_logger(__name__)

MAX_ROWS = 1_000_000
"""Rows whose successors are remembered, 16 bytes each: those of the last seconds or minutes, for statements that began
before."""

MAX_COMMITS = 20_000
"""Commits that they are remembered of."""

DELETED: Final = -1
"""In place of a successor: there is none."""

UNKNOWN: Final = -2
"""In place of a successor: somebody else knows."""


class Replacement(Struct, frozen=True, kw_only=True):
    """Rows of a table that a transaction replaced or deleted: the row ``old[i]`` by that with the provisional id
    ``first + i``, or by none when `first` is `DELETED`. Own rows of the transaction are among them."""

    relation_oid: int
    shard: ShardId
    old: np.ndarray[Any, Any]
    first: int


class CommittedChanges(Struct, frozen=True, kw_only=True):
    """One transaction of a commit: what it replaced, and who has its locks."""

    txn: Txn
    owner: Owner
    replacements: tuple[Replacement, ...]


class _Known(Struct, frozen=True):
    """Rows (ascending) and what took their places at one CSN."""

    old: np.ndarray[Any, Any]
    new: np.ndarray[Any, Any]


class RowVersions:
    """See the module's contract. Belongs to the event loop."""

    def __init__(self, locks: LockTable) -> None:
        self._locks = locks
        self._known: dict[Csn, dict[ShardId, list[_Known]]] = {}
        self._rows = 0

    async def committed(self, env: Environment, whole: Txn, changes: Iterable[CommittedChanges], csn: Csn) -> None:
        """Note what `whole`, of which `changes` are members, replaced with its commit at `csn`, and move locks.

        Never raises for a failing store: then the successors are unknown."""
        known: dict[ShardId, list[_Known]] = {}
        try:
            for change in changes:
                for replacement in change.replacements:
                    rows = await _translated(env, whole, change.txn, replacement, csn)
                    known.setdefault(replacement.shard, []).append(rows)
                    if replacement.first != DELETED:
                        self._locks.follow(replacement.relation_oid, change.owner, rows.old, rows.new)
        except (StorageError, ValueError) as error:
            log.warning("rows that a commit replaced are not known", csn=csn, error=str(error))
        if known:
            self._keep(csn, known)

    def _keep(self, csn: Csn, known: dict[ShardId, list[_Known]]) -> None:
        self._known[csn] = known
        self._rows += _count(known)
        while len(self._known) > 1 and (self._rows > MAX_ROWS or len(self._known) > MAX_COMMITS):
            self._rows -= _count(self._known.pop(next(iter(self._known))))

    async def newest(
        self, env: Environment, shard: ShardId, row_ids: np.ndarray[Any, Any], after: Csn, until: Csn
    ) -> dict[int, int]:
        """For those of `row_ids` (ascending), there at `after`, that are no longer there at `until`: the id of the row
        that is there in their place, or `DELETED`, or `UNKNOWN`."""
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
                at = self._successor(shard, at, gone[at])
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


async def _translated(env: Environment, whole: Txn, txn: Txn, replacement: Replacement, csn: Csn) -> _Known:
    """The rows of `replacement` by the ids that they have after the commit."""
    old, first = replacement.old, replacement.first
    new = np.full(len(old), DELETED, np.int64) if first == DELETED else np.arange(first, first + len(old))
    if first != DELETED or (old >= PROVISIONAL_ROW_ID).any():
        parts = await _parts_of(env, replacement.shard, csn)
        old = whole.committed_row_ids(txn, replacement.shard, old, parts)
        if first != DELETED:
            new = whole.committed_row_ids(txn, replacement.shard, new, parts)
    order = np.argsort(old)
    return _Known(old[order], new[order])


async def _parts_of(env: Environment, shard: ShardId, csn: Csn) -> Sequence[Part]:
    """The insert parts that came with the commit at `csn`."""
    return (await env.reader.changes(shard, Csn(csn - 1), csn)).inserts


async def _ids_of(env: Environment, part: Part) -> np.ndarray[Any, Any]:
    ids: np.ndarray[Any, Any] = (await env.reader.read_part(part, [ROW_ID])).column(ROW_ID).to_numpy()
    return ids
