"""The row locks of one table: who has which rows, at a cost that fits few rows and millions.

Two forms. A row has an *entry*, a `Lock` of its own, when somebody waits for it, when several owners share it, or when
its only owner has few rows; an entry names all the holders of its row. The rows of an owner that has many are in a
bitmap (`bulk`) and get an entry only when somebody else comes for one of them. So a lock that nobody contends for costs
a byte or two, and looking for a conflict costs one look-up and one bitmap test for each owner of many rows.

Every row that an owner has taken is also in its open `Segment`, which is what undoes it.

Who wants a row in a mode that no holder excludes has it at once, also where others wait for a stronger one: only those
who have to wait are in the queue (heapam's README.tuplock). So a session that shares a row and comes back for more of
it does not wait behind those who wait for it.

*Escalation.* An owner of more than `MAX_ROWS` claims every row (`Tag.every_row`): it has all that nobody else has at
that moment, and waits for the rest. While it waits, those others may take further rows, since it waits for them;
newcomers wait for the claim to end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from msgspec import Struct

from adapter.transactions.locks import tags
from adapter.transactions.locks.lock import Follows, Lock, Owner, Request
from adapter.transactions.locks.modes import CONFLICTS, Mode, modes_of
from adapter.transactions.locks.row_sets import RowSet
from adapter.transactions.locks.tags import Tag

MAX_ROWS = 4_000_000
"""Rows of one table that an owner is listed with before it claims all of them: 32 MiB if no two are neighbours."""


class _Claim(Struct, eq=False):
    """An owner that has every row in `mode`, but those that `others` had when it began and still have."""

    mode: Mode
    others: frozenset[Owner]


class RowLocks:
    """See the module's contract. `wake` is called for each waiting request that is granted, once it holds."""

    def __init__(self, relation_oid: int, wake: Callable[[Request], None]) -> None:
        self.relation_oid = relation_oid
        self.entries: dict[int, Lock] = {}
        self.bulk: dict[Owner, dict[Mode, RowSet]] = {}
        self.claims: dict[Owner, _Claim] = {}
        self._wake = wake

    @property
    def is_free(self) -> bool:
        """Whether nobody has or wants a row."""
        return not self.entries and not self.bulk and not self.claims

    # ------------------------------------------------------------ taking

    def take(self, owner: Owner, row_id: int, mode: Mode, follows: Follows = Follows.NOBODY) -> Lock | Tag | None:
        """Let `owner` have the row, also after others who have passed it on and whom it `follows`; None when it has it.

        Otherwise what it has to wait for: the row's entry, or the end of a claim (by its tag), after which it asks
        again.
        """
        if self.claims:
            for claimant, claim in self.claims.items():
                if claimant is not owner and CONFLICTS[mode] >> claim.mode & 1 and owner not in claim.others:
                    return tags.every_row(self.relation_oid)
            own = self.claims.get(owner)
            if own is not None and own.mode >= mode and row_id not in self.entries and not self._in_bulk(row_id):
                return None
        lock = self.entries.get(row_id)
        if lock is None:
            lock = self._entry_of_bulk(row_id, owner)
        if lock is None:
            sets = self.bulk.get(owner)
            if sets is None:
                self.entries[row_id] = lock = Lock(tags.row(self.relation_oid, row_id))
                lock.add(owner, mode)
                self._note(owner, row_id, mode)
            elif not any(held >= mode and row_id in rows for held, rows in sets.items()):
                self._note(owner, row_id, mode)
            return None
        if lock.holders.get(owner, 0) >> mode:
            return None  # In this mode or in a stronger one.
        if lock.excludes(owner, mode, follows):
            return lock
        lock.add(owner, mode)
        self._note(owner, row_id, mode)
        return None

    def take_free(self, owner: Owner, row_ids: np.ndarray[Any, Any], mode: Mode) -> int:
        """Let `owner` have the rows before the first that somebody else has or wants; how many those are.

        `row_ids` ascend. All of them are free when the result is their number.
        """
        if any(claimant is not owner for claimant in self.claims):
            return 0
        first = len(row_ids)
        for other, sets in self.bulk.items():
            if other is owner:
                continue
            for rows in sets.values():
                common = rows.common(row_ids)
                if len(common):
                    first = min(first, int(np.searchsorted(row_ids, common[0])))
        for row_id in self._entries_of(row_ids):
            lock = self.entries[row_id]
            if lock.queue or any(holder is not owner for holder in lock.holders):
                first = min(first, int(np.searchsorted(row_ids, row_id)))
                break
        taken = row_ids[:first]
        if len(taken):
            self._fold(owner)
            sets = self.bulk[owner]
            for held, rows in sets.items():
                if held >= mode:
                    taken = np.setdiff1d(taken, rows.common(taken), assume_unique=True)
            if len(taken):
                sets.setdefault(mode, RowSet()).update(taken)
                self._segment(owner, mode).update(taken)
        return first

    def seize(self, owner: Owner, row_ids: np.ndarray[Any, Any], mode: Mode) -> None:
        """Let `owner` have rows (ids ascend), whoever else has them."""
        self._fold(owner)
        self.bulk[owner].setdefault(mode, RowSet()).update(row_ids)
        self._segment(owner, mode).update(row_ids)
        for row_id in self._entries_of(row_ids):
            lock = self.entries[row_id]
            if not lock.holders.get(owner, 0) >> mode & 1:
                lock.add(owner, mode)

    def granted(self, request: Request) -> None:
        """Note that the owner of a waiting request has its row now."""
        lock = request.lock
        lock.add(request.owner, request.mode)
        assert isinstance(lock.tag.item, int)
        self._note(request.owner, lock.tag.item, request.mode)

    def _segment(self, owner: Owner, mode: Mode) -> RowSet:
        return owner.segments[-1].rows.setdefault((self.relation_oid, mode), RowSet())

    def _note(self, owner: Owner, row_id: int, mode: Mode) -> None:
        rows = self._segment(owner, mode)
        rows.add(row_id)
        sets = self.bulk.get(owner)
        if sets is not None:
            sets.setdefault(mode, RowSet()).add(row_id)
        elif rows.is_large:
            self._fold(owner)

    def _fold(self, owner: Owner) -> None:
        """Let `owner` be listed with its rows instead of having entries for them."""
        if owner in self.bulk:
            return
        sets = self.bulk[owner] = {}
        for segment in owner.segments:
            for (relation_oid, mode), rows in segment.rows.items():
                if relation_oid != self.relation_oid:
                    continue
                sets.setdefault(mode, RowSet()).update(rows)
                for row_id in rows:
                    lock = self.entries.get(row_id)
                    if lock is not None and not lock.queue and len(lock.holders) == 1:
                        del self.entries[row_id]

    def _entries_of(self, row_ids: np.ndarray[Any, Any]) -> list[int]:
        """Those of `row_ids` (ascending, each once) that have entries, ascending."""
        if not self.entries:
            return []
        named = np.fromiter(self.entries, np.int64, len(self.entries))
        found: list[int] = np.intersect1d(named, row_ids, assume_unique=True).tolist()
        return found

    def _in_bulk(self, row_id: int) -> bool:
        return any(row_id in rows for sets in self.bulk.values() for rows in sets.values())

    def _entry_of_bulk(self, row_id: int, taker: Owner) -> Lock | None:
        """An entry for a row that owners of many rows have, `taker` not alone; None when there are none."""
        holders = [(owner, mode) for owner, sets in self.bulk.items() for mode, rows in sets.items() if row_id in rows]
        if all(owner is taker for owner, _ in holders):
            return None
        lock = self.entries[row_id] = Lock(tags.row(self.relation_oid, row_id))
        for owner, mode in holders:
            lock.add(owner, mode)
        return lock

    def holders_of(self, row_id: int) -> list[Owner]:
        """Who has taken this row, or all rows."""
        lock = self.entries.get(row_id)
        if lock is not None:
            return [*lock.holders, *self.claims]
        listed = [owner for owner, sets in self.bulk.items() if any(row_id in rows for rows in sets.values())]
        return [*listed, *self.claims]

    # ------------------------------------------------------------ escalation

    def claim(self, owner: Owner, mode: Mode) -> None:
        """Let `owner` have every row that nobody else has. It must hold `tags.every_row`."""
        held = {other for lock in self.entries.values() for other in lock.holders}
        self.claims[owner] = _Claim(mode, frozenset((held | set(self.bulk)) - {owner}))

    def first_excluding(self, owner: Owner, mode: Mode) -> Lock | None:
        """A row that keeps `owner` from having all of them; None when there is none."""
        for lock in self.entries.values():
            if lock.excludes(owner, mode):
                return lock
        for other, sets in self.bulk.items():
            if other is not owner:
                for held, rows in sets.items():
                    row_id = next(iter(rows), None)
                    if CONFLICTS[mode] >> held & 1 and row_id is not None:
                        return self._entry_of_bulk(row_id, owner)
        return None

    def claim_settled(self, owner: Owner) -> None:
        """`owner` has waited for all others: nobody passes it any more."""
        self.claims[owner].others = frozenset()

    # ------------------------------------------------------------ letting go

    def release(self, owner: Owner, mode: Mode, rows: RowSet) -> None:
        """`owner` has no longer taken `rows` in `mode`."""
        sets = self.bulk.get(owner)
        if sets is not None:
            sets[mode].subtract(rows)
            if not len(sets[mode]):
                del sets[mode]
            if not sets:
                del self.bulk[owner]
        named = [row_id for row_id in self.entries if row_id in rows] if len(rows) > len(self.entries) else list(rows)
        for row_id in named:
            lock = self.entries.get(row_id)
            if lock is not None and lock.holders.get(owner, 0) >> mode & 1:
                lock.remove(owner, mode)
                self._go_on(lock, row_id)

    def pass_on(self, owner: Owner, row_id: int) -> None:
        """Let those who follow have a row that `owner` holds."""
        lock = self.entries.get(row_id)
        if lock is not None and owner in lock.holders:
            lock.passed_on.add(owner)
            self._go_on(lock, row_id)

    def _go_on(self, lock: Lock, row_id: int) -> None:
        for request in lock.next_granted():
            self.granted(request)
            self._wake(request)
        listed = not lock.queue and len(lock.holders) == 1 and next(iter(lock.holders)) in self.bulk
        if (lock.is_free or listed) and self.entries.get(row_id) is lock:
            del self.entries[row_id]

    def withdrawn(self, lock: Lock) -> None:
        """Somebody waits for `lock`, one of the entries, no longer."""
        assert isinstance(lock.tag.item, int)
        self._go_on(lock, lock.tag.item)

    def hand_over(self, owner: Owner, heir: Owner) -> None:
        """`heir` has what `owner` had."""
        for lock in self.entries.values():
            for mode in modes_of(lock.holders.get(owner, 0)):
                lock.remove(owner, mode)
                lock.add(heir, mode)
        if owner in self.bulk:
            self.bulk[heir] = self.bulk.pop(owner)
        if owner in self.claims:
            self.claims[heir] = self.claims.pop(owner)

    def lower_claim(self, owner: Owner, mode: Mode | None) -> None:
        """`owner` has every row in `mode` only, from now on; None: it has not."""
        claim = self.claims.get(owner)
        if claim is not None and mode is None:
            del self.claims[owner]
        elif claim is not None and mode is not None:
            claim.mode = mode

    # ------------------------------------------------------------ rows that become other rows

    def follow(self, owner: Owner, old: np.ndarray[Any, Any], new: np.ndarray[Any, Any]) -> None:
        """Rows have got other ids: who holds an old one or waits for it, now holds or waits for the new one. Rows that
        only `owner` has are left as they are."""
        moved: set[int] = set()
        for row_id in self._entries_of(old):
            lock = self.entries[row_id]
            if lock.queue or any(holder is not owner for holder in lock.holders):
                moved.add(row_id)
        for other, sets in self.bulk.items():
            if other is not owner:
                moved.update(row_id for rows in sets.values() for row_id in rows.common(old).tolist())
        for row_id in moved:
            self._move(row_id, int(new[np.searchsorted(old, row_id)]))

    def _move(self, old: int, new: int) -> None:
        lock = self.entries.pop(old, None)
        if lock is not None:
            lock.tag = tags.row(self.relation_oid, new)
            newcomers = self.entries.get(new)
            if newcomers is not None:
                lock.absorb(newcomers)
            self.entries[new] = lock
        for owner, mode in self._having(old, lock):
            self._follow(owner, mode, old, new)

    def _having(self, row_id: int, lock: Lock | None) -> Iterator[tuple[Owner, Mode]]:
        if lock is not None:
            yield from [(owner, mode) for owner, held in lock.holders.items() for mode in modes_of(held)]
            return
        for owner, sets in list(self.bulk.items()):
            for mode, rows in list(sets.items()):
                if row_id in rows:
                    yield owner, mode

    def _follow(self, owner: Owner, mode: Mode, old: int, new: int) -> None:
        for segment in owner.segments:
            rows = segment.rows.get((self.relation_oid, mode))
            if rows is not None and old in rows:
                rows.discard(old)
                rows.add(new)
        bulk = self.bulk.get(owner, {}).get(mode)
        if bulk is not None and old in bulk:
            bulk.discard(old)
            bulk.add(new)
