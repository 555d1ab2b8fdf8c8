"""Group commit: the transactions that wait at one moment share one CSN and one compare-and-set.

Sessions hand over a `CommitRequest` and wait. One task takes what waits, validates each request against everything
committed since its snapshot and against the members of the group before it, merges the accepted ones into one storage
transaction and commits that. A request that fails validation gets 40001; the others are not disturbed.

Order inside a group is the order of arrival. A request that changes the catalog closes its group, so the others of
the group were planned with the catalog that holds for them.

A request can be withdrawn while it waits. Once it is taken its outcome is decided by the commit alone, and a cancel
waits for it: a client is never told of a failure that did not happen. An indeterminate outcome is 40003.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from adapter.transactions import CommitRequest
from adapter.validation import conflict
from planner.errors import (
    AdminShutdown,
    DiskFull,
    InsufficientResources,
    IoError,
    SerializationFailure,
    SqlError,
    StatementCompletionUnknown,
)
from storage.csn import Csn
from storage.errors import CatalogConflict, Determinate, Indeterminate, StorageError, StoreFull, UnknownShard
from storage.ids import CATALOG_SHARD, ShardId
from storage.txns import UpperMismatch

if TYPE_CHECKING:
    from storage.environment import Environment

log = structlog.get_logger(__name__)

MAX_GROUP = 256
"""Transactions in one group: bounds the size of one state diff and the latency of its members."""

MAX_WAITING = 4096
"""Commits that may wait; each holds its session, so this is above any sensible number of connections."""


MAX_ROUNDS = 100
"""How often a group is validated anew because other processes keep committing before it."""

RETRY_HINT = "The transaction might succeed if retried."


@dataclass(slots=True, eq=False)
class _Waiting:
    request: CommitRequest
    done: asyncio.Future[Csn]
    taken: bool = False


@dataclass(slots=True, eq=False)
class GroupCommitter:
    """The committer of one server process. `start` it, `close` it; `commit` from any session."""

    env: Environment
    _queue: deque[_Waiting] = field(default_factory=deque)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None
    _closed: bool = False
    groups: int = 0
    committed: int = 0

    def start(self) -> None:
        """Begin to serve."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="group-commit")

    async def close(self) -> None:
        """Commit what waits, then stop."""
        self._closed = True
        self._arrived.set()
        if self._task is not None:
            await self._task

    async def commit(self, request: CommitRequest) -> Csn:
        """The CSN at which `request` committed; everybody sees it when this returns.

        Raises 40001 when it may not commit, 40003 when nobody can tell whether it did. Cancelling withdraws the
        request if it still waits; otherwise the cancellation is swallowed and the outcome returned.
        """
        if self._closed:
            raise AdminShutdown("terminating connection due to administrator command", fatal=True)
        if len(self._queue) >= MAX_WAITING:
            raise InsufficientResources("too many commits are waiting")
        waiting = _Waiting(request, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self._arrived.set()
        while True:
            try:
                return await asyncio.shield(waiting.done)
            except asyncio.CancelledError:
                if not waiting.taken and waiting in self._queue:
                    self._queue.remove(waiting)
                    raise
                if waiting.done.cancelled():
                    raise

    async def _run(self) -> None:
        while True:
            if not self._queue:
                if self._closed:
                    return
                self._arrived.clear()
                await self._arrived.wait()
                continue
            group = self._take()
            try:
                await self._commit_group(group)
            except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must learn of it
                failure = _as_sql_error(error)
                for waiting in group:
                    if not waiting.done.done():
                        waiting.done.set_exception(failure)

    def _take(self) -> list[_Waiting]:
        group: list[_Waiting] = []
        while self._queue and len(group) < MAX_GROUP:
            waiting = self._queue.popleft()
            waiting.taken = True
            group.append(waiting)
            if waiting.request.catalog_updates:
                break
        return group

    async def _commit_group(self, group: list[_Waiting]) -> None:
        """Validate and commit; again from the start when another process committed in between."""
        env = self.env
        for _ in range(MAX_ROUNDS):
            # NOTE: everything this process knows of, without asking the store. What others committed since is found
            # by the commit's compare-and-set: it refuses when one of the shards was written after `until`.
            await env.catch_up_catalog()
            until = Csn(env.cache.upper - 1)
            group = await self._validate(group, until)
            if not group:
                return
            merged = env.begin()
            for waiting in group:
                merged.merge(waiting.request.txn)
            updates = group[-1].request.catalog_updates
            if updates:
                merged.update_catalog(updates, expected=env.catalog.current().csn)
            ts = await env.oracle.write_ts("user")
            try:
                result = await env.commit(merged, ts=ts, validated=Csn(until + 1), shards=_shards(group))
            except (CatalogConflict, UnknownShard):
                env.oracle.abandon_write("user", ts)
                continue
            except BaseException:
                env.oracle.abandon_write("user", ts)
                raise
            if isinstance(result, UpperMismatch):
                env.oracle.abandon_write("user", ts)
                env.oracle.observe(Csn(result.least_committable - 1))
                continue
            await env.oracle.apply_write("user", ts)
            self.groups += 1
            self.committed += len(group)
            for waiting in group:
                waiting.done.set_result(ts)
            return
        for waiting in group:
            waiting.done.set_exception(
                SerializationFailure("could not serialize access due to concurrent update", hint=RETRY_HINT)
            )

    async def _validate(self, group: list[_Waiting], until: Csn) -> list[_Waiting]:
        accepted: list[_Waiting] = []
        for waiting in group:
            earlier = [member.request for member in accepted]
            reason = await conflict(self.env, waiting.request, until, earlier)
            if reason is None:
                accepted.append(waiting)
            else:
                waiting.done.set_exception(SerializationFailure(reason, hint=RETRY_HINT))
        return accepted


def _shards(group: list[_Waiting]) -> set[ShardId]:
    """What the group wrote and read: nobody else may have written there since it was validated."""
    shards: set[ShardId] = {CATALOG_SHARD} if any(waiting.request.catalog_reads for waiting in group) else set()
    for waiting in group:
        shards |= waiting.request.txn.shards
        shards |= {read.shard for read in waiting.request.reads}
    return shards


def _as_sql_error(error: Exception) -> SqlError:
    match error:
        case SqlError():
            return error
        case Indeterminate():
            return StatementCompletionUnknown(f"the outcome of the commit is not known: {error}")
        case StoreFull():
            return DiskFull(f"could not write to the store: {error}")
        case Determinate():
            return IoError(f"could not write to the store: {error}")
        case StorageError():
            return IoError(str(error))
        case _:
            log.error("group commit failed", exc_info=error)
            return StatementCompletionUnknown("the outcome of the commit is not known")
