"""Who waits for a key of a consensus store to move: what all its implementations share.

`Watchers` remembers the highest head that it has heard of for each key, from this process's own writes, from
messages and from looks at the store, so that whoever watches a number below it returns at once. A store whose keys
can move without its hearing of them looks at `keys` again and again and reports what it finds; `unseen` tells that
somebody began to watch since the last look, and that it may have missed an earlier move. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio

from storage.errors import StorageError
from storage.stores.consensus import NO_SEQNO, SeqNo


class Watchers:
    """See the module's contract."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[tuple[SeqNo, asyncio.Future[None]]]] = {}
        self._heads: dict[str, SeqNo] = {}
        self.unseen = False
        """Whether somebody has begun to watch since this was last set to False."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def keys(self) -> list[str]:
        """The keys that somebody watches."""
        return list(self._waiting)

    def moved(self, key: str, head: SeqNo) -> None:
        """The head of `key` is `head` or above: wake whom that concerns."""
        if head <= self._heads.get(key, NO_SEQNO):
            return
        self._heads[key] = head
        for seqno, woken in self._waiting.get(key, ()):
            if head > seqno and not woken.done():
                woken.set_result(None)

    def has_moved(self, key: str, seqno: SeqNo) -> bool:
        """Whether the head of `key` is known to be above `seqno`."""
        return self._heads.get(key, NO_SEQNO) > seqno

    async def wait(self, key: str, seqno: SeqNo) -> None:
        """Return once `moved` has been told of a head of `key` above `seqno`."""
        if self.has_moved(key, seqno):
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (seqno, woken)
        self._waiting.setdefault(key, []).append(waiter)
        self.unseen = True
        try:
            await woken
        finally:
            waiting = self._waiting[key]
            waiting.remove(waiter)
            if not waiting:
                del self._waiting[key]

    def fail(self, error: StorageError) -> None:
        """Raise `error` from every `wait`."""
        for waiting in self._waiting.values():
            for _, woken in waiting:
                if not woken.done():
                    woken.set_exception(error)
