"""The locks of one session, in the lock table of its server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adapter.transactions.locks.lock import Follows, Owner, Patience
from adapter.transactions.locks.lock_table import LockTable
from adapter.transactions.locks.modes import Mode
from adapter.transactions.locks.tags import Tag
from planner.errors import LockNotAvailable


class SessionLocks:
    """The locks of one session, as its transaction and its statements use them. `patience` tells how long a request
    waits, once one has to."""

    __slots__ = ("_patience", "owner", "table")

    def __init__(self, table: LockTable, owner: Owner, patience: Callable[[], Patience]) -> None:
        self.table = table
        self.owner = owner
        self._patience = patience

    # ------------------------------------------------------------ taking

    async def lock(self, tag: Tag, mode: Mode, *, for_session: bool = False) -> bool:
        """Take a lock; whether it had to be waited for. Raises 55P03, 40P01, 53200."""
        if self.try_lock(tag, mode, for_session=for_session):
            return False
        return await self.table.lock(self.owner, tag, mode, self._patience(), for_session=for_session)

    def try_lock(self, tag: Tag, mode: Mode, *, for_session: bool = False) -> bool:
        """Take a lock if that needs no waiting. Raises 53200."""
        return self.table.try_lock(self.owner, tag, mode, for_session=for_session)

    def would_wait(self, locks: Sequence[tuple[Tag, Mode]]) -> bool:
        """Whether one of these locks would have to be waited for now. None of them is taken."""
        return self.table.would_wait(self.owner, locks)

    async def lock_relation(self, tag: Tag, mode: Mode, name: str, *, nowait: bool) -> bool:
        """Take the lock of the relation `name`; 55P03 with `nowait` when it would have to be waited for."""
        if nowait:
            if not self.try_lock(tag, mode):
                raise LockNotAvailable(f'could not obtain lock on relation "{name}"')
            return False
        return await self.lock(tag, mode)

    async def lock_rows(
        self, relation_oid: int, row_ids: np.ndarray[Any, Any], mode: Mode, *, follows: Follows = Follows.NOBODY
    ) -> bool:
        """Take rows, in the order of their ids (ascending, each once); whether one had to be waited for. Holders
        that have passed them on are not when the request `follows` them."""
        patience, between = self._patience(), self.table.between_workers
        if self.table.in_flight:
            await self.table.moved()
        waited = await self.table.lock_rows(self.owner, relation_oid, row_ids, mode, patience, follows=follows)
        if between is not None:
            waited |= await between.lock_rows(self.owner, relation_oid, row_ids, mode, patience)
        return waited

    async def try_rows(self, relation_oid: int, row_ids: np.ndarray[Any, Any], mode: Mode) -> np.ndarray[Any, Any]:
        """Take those of these rows (ids ascending, each once) that need no waiting; the others."""
        if self.table.in_flight:
            await self.table.moved()
        refused, between = self.table.try_rows(self.owner, relation_oid, row_ids, mode), self.table.between_workers
        if between is None:
            return refused
        elsewhere = await between.try_rows(self.owner, relation_oid, np.setdiff1d(row_ids, refused), mode)
        self.table.give_back(self.owner, relation_oid, elsewhere, mode)
        return np.union1d(refused, elsewhere)

    def unlock(self, tag: Tag, mode: Mode) -> bool:
        """Undo one taking for the session; False when it does not have the lock so."""
        return self.table.unlock(self.owner, tag, mode)

    def unlock_all(self) -> None:
        """Undo all taking for the session."""
        self.table.unlock_all(self.owner)

    # ------------------------------------------------------------ with the transaction

    def savepoint(self) -> None:
        """A savepoint is defined."""
        self.table.mark(self.owner)

    def release_savepoint(self, depth: int) -> None:
        """The savepoint number `depth` (from 1) and all later ones are forgotten."""
        self.table.forget_mark(self.owner, depth)

    def roll_back_to(self, depth: int) -> None:
        """Let go of what was taken since the savepoint number `depth`; 0 is the transaction's begin."""
        self.table.release_since(self.owner, depth)

    def end(self) -> None:
        """The transaction is over."""
        self.owner.transactions += 1
        self.owner.is_awaited, self.owner.is_certain, self.owner.decide = False, False, None
        self.owner.is_overtaken = False
        if self.owner.has_taken:
            self.table.release(self.owner)
        if self.table.between_workers is not None:
            self.table.between_workers.release_rows(self.owner)

    def hand_over(self) -> Owner:
        """Give what the transaction took to a new owner, whom `let_go` releases: its commit goes on by itself."""
        heir = self.table.hand_over(self.owner)
        if self.table.between_workers is not None:
            self.table.between_workers.hand_over_rows(self.owner, heir)
        return heir

    def let_go(self, heir: Owner) -> None:
        """The commit that held on to `heir` is over."""
        heir.decide = None
        self.table.release(heir)
        if self.table.between_workers is not None:
            self.table.between_workers.release_rows(heir)
