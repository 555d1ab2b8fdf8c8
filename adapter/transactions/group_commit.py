"""Group commit: the transactions that wait at one moment share one CSN and one compare-and-set.

Sessions hand over a `CommitRequest` and wait: for 40001 when it may not commit, for 40003 when nobody can tell whether
it did, and otherwise for its CSN.

Theory of operation. One task (`_run`) takes requests from the head of a queue, a group at a time, and brings each group
through the same steps; a request is in one of these states::

    queued ----> taken ----> validated ----> durable ----> visible
    |    ^                   |
    |    +- parked           +-> refused (40001)
    +-> withdrawn

*Validated*: each request is compared with everything committed after its snapshot and up to `until`, the newest CSN
that this process knows of, and with the members of the group before it (`validation.conflict`). What conflicts is
refused, and the others are not disturbed. The store is not asked.

*Durable*: the accepted requests are merged into one storage transaction, which one compare-and-set on the txns shard
commits. That compare-and-set is the commit. It names every shard that the group wrote or read, the catalog among them,
and is refused when somebody else has written to one of them after `until`. Then the group is validated anew, up to
`MAX_ROUNDS` times. So what was validated still holds at the moment of the commit, however many processes share the
environment, and a commit costs one write and no question.

*Visible*: the oracle publishes the CSN, and then the requests are answered.

What holds throughout:

- Requests commit in the order of the queue. One with definitions is the last of its group: those before it were
  planned with the catalog that they are validated with, and those after it are validated with the new one.
- A request that follows others (`adapter.transactions.decided_rows`) commits with them or after them, and is refused
  when one of them has been. Whoever follows it then is refused in turn.
- A request that a prepared transaction could not commit after (`adapter.transactions.two_phase`) is parked until one of
  those has ended; if it is to be prepared, it is refused. What prepares a transaction, or ends a prepared one, is a
  group of its own.
- A request can be withdrawn while it is queued or parked, unless blocks may follow it. Once it is taken, the
  compare-and-set alone decides, and a caller that is cancelled waits for that: no client is told of a failure that did
  not happen.
- A transaction whose files are still being uploaded is a group of its own and *staged*: its record, which says that it
  commits when its files are complete, is written first. As soon as the record is durable the task goes on to the next
  group, while the uploads end in a task of their own. Until then it is undecided, and a request that read or changed
  one of its tables cannot be validated: it is parked, and comes back to the head of the queue when the outcome is
  known. Definitions are never staged.
- An answer may come early. `synchronous_visibility = off`: when the commit is durable. `synchronous_commit = off`:
  once nothing can refuse the request any more, which is at once when it only adds rows and no definition waits, and
  otherwise when its group has been validated. What was answered is *promised*: failures of the store do not count,
  the group is tried until it is durable. Only a process that is alone promises anything, since another one could commit
  in between; before it lets others in, it waits for its promises (`_keep_promises`). A promised transaction has an xid,
  by which an attempt whose answer was lost is known from one that failed.

What a crash leaves: before the compare-and-set, nothing but files that upkeep removes; after it, the commit, whether or
not a client was told. Promises that were not durable yet are lost, and everything that came after them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import structlog
from msgspec import Struct, field

from adapter.store_errors import (
    CONCURRENT_UPDATE,
    READ_WRITE_DEPENDENCIES,
    commit_error,
    serialization_failure,
)
from adapter.transactions.claims import broken
from adapter.transactions.commit_request import AFTER_ALL, CommitRequest, InFlight, PreparedGuard, Waiting
from adapter.transactions.decided_rows import Decided
from adapter.transactions.group_changes import NONE_ACCEPTED, Accepted
from adapter.transactions.row_versions import CommittedChanges, RowVersions
from adapter.transactions.validation import conflict, followed
from planner.common_errors import shut_down
from planner.errors import (
    InsufficientResources,
    SqlError,
)
from storage.catalog.model import CatalogSnapshot
from storage.errors import (
    AsOfNotReadable,
    CatalogConflict,
    Determinate,
    Indeterminate,
    StorageClosed,
    StorageError,
    UnknownShard,
)
from storage.ids import CATALOG_SHARD, ShardId
from storage.shards.parts import INLINE_LIMIT_BYTES
from storage.timestamps.csn import Csn
from storage.transactions.txns_shard import CommitResult, Phase, UpperMismatch
from storage.transactions.txns_state import Staged

if TYPE_CHECKING:
    from storage.environment.environment import Environment
    from storage.transactions.txn import Txn

log = structlog.get_logger(__name__)

_T = TypeVar("_T")

MAX_GROUP = 256
"""Transactions in one group: bounds the size of one state diff and the latency of its members."""

MAX_GROUP_BYTES = 2 * 1024 * 1024
"""Buffered rows in one group, beyond its first member: all of them travel inline in one state diff."""

MAX_WAITING = 4096
"""Commits that may wait; each holds its session, so this is above any sensible number of connections."""

MAX_ROUNDS = 100
"""How often a group is validated anew because other processes keep committing before it."""

RETRY_S = 0.5
"""Pause before a group that was answered is written again after a failure of the store."""


class GroupCommitter(Struct, eq=False):
    """The committer of one server process. `start` it, `close` it; `commit` from any session."""

    env: Environment
    versions: RowVersions | None = None
    """Who wants to know what became of rows."""
    prepared: PreparedGuard | None = None
    _queue: deque[Waiting] = field(default_factory=deque)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None
    _side_tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _closed: bool = False
    _defining: int = 0
    """Requests with definitions that are not over."""
    _promised: set[asyncio.Future[Csn]] = field(default_factory=set)
    """Commits that were answered and are not durable."""
    in_flight: list[InFlight] = field(default_factory=list)
    groups: int = 0
    retries: int = 0
    committed: int = 0

    def start(self) -> None:
        """Begin to serve."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="group-commit")
        self.env.peers.before_sharing.append(self._keep_promises)

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
        waiting = await self._enqueue(request)
        return await self._outcome(waiting, waiting.done)

    async def commit_relaxed(self, request: CommitRequest, *, durable: bool) -> asyncio.Future[Csn]:
        """Commit `request`, and return before everybody sees it: when it is `durable`, or even earlier.

        The result is done when everybody does. A request for an early answer has to have an xid. Raises as `commit`.
        """
        waiting = await self._enqueue(request)
        waiting.answered_durable = durable
        waiting.early = asyncio.get_running_loop().create_future()
        # What fails is told to the client as long as it waits, and to the log afterwards.
        waiting.done.add_done_callback(lambda done: done.cancelled() or done.exception())
        waiting.done.add_done_callback(lambda _: waiting.answer())
        if not durable and self._cannot_fail(waiting):
            self._promise(waiting)
        await self._outcome(waiting, waiting.early)
        if waiting.done.done():
            waiting.done.result()
        return waiting.done

    async def check_locked(self, request: CommitRequest) -> None:
        """Raise 40001 when another server has changed rows that a transaction has locked which writes nothing. On one
        server its locks have seen to it."""
        if self.env.peers.alone:
            return
        until = await self.env.oracle.read_ts("user")
        try:
            failure = await broken(self.env, request.claims, request.txn, until, (), None)
        except (AsOfNotReadable, UnknownShard):
            failure = serialization_failure(CONCURRENT_UPDATE)
        if failure is not None:
            raise failure

    async def _enqueue(self, request: CommitRequest) -> Waiting:
        if self._closed:
            raise shut_down()
        if len(self._queue) >= MAX_WAITING:
            raise InsufficientResources("too many commits are waiting")
        waiting = Waiting(request, asyncio.get_running_loop().create_future())
        if request.defines:
            self._defining += 1
            waiting.done.add_done_callback(self._defined)
        try:
            await self._upload(waiting)
        except BaseException:
            waiting.done.cancel()
            raise
        self._queue.append(waiting)
        self._arrived.set()
        self._let_follow(waiting)
        return waiting

    def _let_follow(self, waiting: Waiting) -> None:
        """Let those who wait for rows that `waiting` has changed follow it (`adapter.transactions.decided_rows`)."""
        request, versions = waiting.request, self.versions
        if versions is None or request.owner is None or not request.replacements:
            return
        if waiting.staged or request.defines or request.txn.buffered_bytes > INLINE_LIMIT_BYTES:
            return
        if request.owner.is_awaited:
            self._decide(waiting)
        else:
            # Most have nobody behind them.
            request.owner.decide = partial(self._decide, waiting)

    def _decide(self, waiting: Waiting) -> None:
        request, versions = waiting.request, self.versions
        if versions is None or request.owner is None or waiting.done.done():
            return
        decided = versions.decide(
            request.txn, waiting.done, request.replacements, request.owner, is_certain=self._is_certain(waiting)
        )
        if decided is not None:
            waiting.decided = decided
            decided.is_parked = waiting.parked is not None
            waiting.done.add_done_callback(lambda _: versions.decided.forget(decided))

    def _is_certain(self, waiting: Waiting) -> bool:
        """Whether nothing but a failure of the store keeps `waiting` from committing: it has been validated, or there
        is nothing in it that others could break who do not wait for its locks."""
        request = waiting.request
        if not self.env.peers.alone or any(not each.is_certain or each.is_lost for each in request.follows):
            return False
        return waiting.is_valid or (not request.reads and not request.claims)

    def _defined(self, _: asyncio.Future[Csn]) -> None:
        self._defining -= 1

    async def _outcome(self, waiting: Waiting, answer: asyncio.Future[_T]) -> _T:
        """Wait for `answer`; a cancelled caller withdraws what has not been taken yet."""
        while True:
            try:
                return await asyncio.shield(answer)
            except asyncio.CancelledError:
                if not waiting.is_fixed and not waiting.answered:
                    if waiting in self._queue:
                        self._queue.remove(waiting)
                    elif waiting.parked is not None:
                        waiting.parked.cancel()
                    waiting.done.cancel()
                    raise
                if answer.cancelled():
                    raise

    def decided_after(self, as_of: Csn) -> tuple[Txn, ...]:
        """The transactions that will commit, unless the store or another process prevents it, and that a snapshot at
        `as_of` does not hold: READ UNCOMMITTED sees them."""
        written = [txn for group in self.in_flight if group.ts > as_of for txn in group.members]
        return (*written, *(waiting.request.txn for waiting in self._queue if waiting.answered))

    async def moved(self) -> None:
        """Return when who holds rows that durable commits have replaced holds the new ones."""
        durable = self.env.cache.upper
        for group in [group for group in self.in_flight if group.ts < durable]:
            await group.noted.wait()

    # ------------------------------------------------------------ early answers

    def _cannot_fail(self, waiting: Waiting) -> bool:
        """Whether nothing that commits before `waiting` can make it conflict: it only adds rows, and no definition
        waits that could change their table."""
        request = waiting.request
        if request.reads or request.claims or any(request.txn.deletes_from(shard) for shard in request.txn.shards):
            return False
        return self._may_promise(waiting) and not self._defining

    def _may_promise(self, waiting: Waiting) -> bool:
        if waiting.request.txn.xid is None:
            return False  # An attempt whose answer was lost could not be told from one that failed.
        if self.env.cache.state.prepared:
            return False
        return self.env.peers.alone and not waiting.staged and not waiting.request.defines and not self._closed

    def _promise(self, waiting: Waiting) -> None:
        self._promised.add(waiting.done)
        waiting.done.add_done_callback(self._promised.discard)
        waiting.answer()

    async def _keep_promises(self) -> None:
        """Return when all that was answered is durable. Nobody else is answered early meanwhile."""
        if self._promised:
            await asyncio.wait(self._promised)

    # ------------------------------------------------------------ groups

    async def _run(self) -> None:
        while True:
            if not self._queue:
                if self._closed and not self._side_tasks:
                    return
                self._arrived.clear()
                await self._arrived.wait()
                continue
            group = self._take()
            if not group:
                continue
            if not group[0].staged:
                await self._finish(group, _nothing)
                # Nor does what a large transaction wrote stay here until the next one comes.
                del group
                continue
            # The next group may go as soon as the record is durable; the uploads hold nobody up.
            recorded = asyncio.Event()
            self._keep(asyncio.get_running_loop().create_task(self._finish(group, recorded.set), name="staged-commit"))
            del group
            await recorded.wait()

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._side_tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._side_tasks.discard(task)
        self._arrived.set()

    async def _finish(self, group: list[Waiting], recorded: Callable[[], None]) -> None:
        try:
            await self._commit_group(group, recorded)
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must learn of it
            failure = commit_error(error)
            for waiting in group:
                if not waiting.done.done():
                    waiting.done.set_exception(failure)
        finally:
            recorded()

    async def _upload(self, waiting: Waiting) -> None:
        """Begin to upload what does not go inline; definitions wait here until it is there."""
        txn = waiting.request.txn
        if txn.buffered_bytes <= INLINE_LIMIT_BYTES and not txn.has_files:
            return
        try:
            sealed = await txn.seal()
            unfinished = self.env.parts.unfinished(part for item in sealed.shards for part in item.parts)
            if unfinished and sealed.has_definitions:
                failure = await self.env.parts.finished(part.key for part in unfinished)
                if failure is not None:
                    raise failure
            waiting.staged = bool(unfinished) and not sealed.has_definitions
        except StorageError as error:
            raise commit_error(error) from error

    def _take(self) -> list[Waiting]:
        group: list[Waiting] = []
        size = 0
        while self._queue and len(group) < MAX_GROUP:
            waiting = self._queue[0]
            undecided = self._undecided(waiting.request)
            if undecided is not None:
                self._queue.popleft()
                self._park(waiting, self.env.staging.wait_resolved(undecided))
                continue
            if waiting.request.follows and (ahead := waiting.parked_ahead):
                self._queue.popleft()
                self._park(waiting, asyncio.wait(ahead))
                continue
            size += waiting.request.txn.buffered_bytes
            phase = waiting.request.prepare is not None or waiting.request.ends is not None
            if group and (waiting.staged or phase or size > MAX_GROUP_BYTES):
                break
            self._queue.popleft()
            waiting.taken = True
            group.append(waiting)
            if waiting.staged or phase or waiting.request.defines:
                break
        return group

    def _undecided(self, request: CommitRequest) -> Staged | None:
        """A transaction whose outcome has to be known before `request` can be validated."""
        cache = self.env.cache
        if not cache.state.staged:
            return None
        changed = {shard for shard in request.txn.shards - request.created if request.txn.deletes_from(shard)}
        needed = {read.shard for read in request.reads} | {claim.shard for claim in request.claims} | changed
        return next((record for shard in needed if (record := cache.undecided(shard)) is not None), None)

    def _park(self, waiting: Waiting, resolved: Awaitable[object]) -> None:
        """Put `waiting` back at the head of the queue, before those who follow it, once something is `resolved`."""

        async def come_back() -> None:
            try:
                await resolved
            except StorageError as error:
                waiting.done.set_exception(commit_error(error))
                return
            waiting.parked = None
            if waiting.decided is not None:
                waiting.decided.is_parked = False
            self._queue.appendleft(waiting)
            self._arrived.set()

        waiting.taken = False
        waiting.parked = asyncio.get_running_loop().create_task(come_back())
        if waiting.decided is not None:
            waiting.decided.is_parked = True
        self._keep(waiting.parked)

    async def _commit_group(self, group: list[Waiting], recorded: Callable[[], None]) -> None:
        """Validate and commit; again from the start when another process committed in between."""
        flying = InFlight(AFTER_ALL, _answered(group))
        self.in_flight.append(flying)
        try:
            await self._commit_in_rounds(group, recorded, flying)
        finally:
            self.in_flight.remove(flying)
            flying.noted.set()

    async def _commit_in_rounds(self, group: list[Waiting], recorded: Callable[[], None], flying: InFlight) -> None:
        env = self.env
        for _ in range(MAX_ROUNDS):
            flying.ts, flying.members = AFTER_ALL, _answered(group)
            # NOTE: everything this process knows of, without asking the store. What others committed since is found
            # by the commit's compare-and-set: it refuses when one of the shards was written after `until`.
            await env.catalog.catch_up()
            state, catalog = env.cache.state, env.catalog.current()
            until, known = Csn(state.upper - 1), state.prepares
            group = await self._validate(group, until, catalog, known)
            if not group:
                return
            merged = self._merged(group, catalog)
            for waiting in group:
                waiting.is_valid = True
                if waiting.decided is not None:
                    self._make_certain(waiting, waiting.decided)
                if not waiting.answered_durable and self._may_promise(waiting):
                    self._promise(waiting)
            ts = await env.oracle.write_ts("user")
            flying.ts, flying.members = ts, tuple(waiting.request.txn for waiting in group)
            try:
                ts, result = await self._write(group, merged, ts, Csn(until + 1), recorded, known)
            except (CatalogConflict, UnknownShard):
                self.retries += 1
                env.oracle.abandon_write("user", ts)
                continue
            except BaseException:
                env.oracle.abandon_write("user", ts)
                raise
            if isinstance(result, UpperMismatch):
                self.retries += 1
                env.oracle.abandon_write("user", ts)
                env.oracle.observe(Csn(result.least_committable - 1))
                continue
            for waiting in [waiting for waiting in group if waiting.early is not None]:
                waiting.answer()
            await self._note_versions(group, merged, ts)
            flying.noted.set()
            await env.oracle.apply_write("user", ts)
            self.groups += 1
            self.committed += len(group)
            for waiting in group:
                waiting.done.set_result(ts)
            return
        for waiting in group:
            waiting.done.set_exception(serialization_failure(CONCURRENT_UPDATE))

    def _make_certain(self, waiting: Waiting, decided: Decided) -> None:
        """It is validated: blocks may follow it, too."""
        owner, versions = waiting.request.owner, self.versions
        if not decided.is_certain and owner is not None and versions is not None and self._is_certain(waiting):
            versions.make_certain(decided, waiting.request.replacements, owner)

    async def _note_versions(self, group: list[Waiting], merged: Txn, ts: Csn) -> None:
        """Let those who wait for rows know their new ids. Before the rows can be seen: who sees them may lock them."""
        changed = [
            CommittedChanges(
                txn=request.txn, owner=request.owner, replacements=request.replacements, decided=waiting.decided
            )
            for waiting in group
            if (request := waiting.request).replacements and request.owner is not None
        ]
        if changed and self.versions is not None:
            await self.versions.committed(self.env, merged, changed, ts)

    def _merged(self, group: list[Waiting], catalog: CatalogSnapshot) -> Txn:
        """What `group` commits. A single transaction without definitions is committed as it is, and so not sealed again
        after `_upload`."""
        updates = group[-1].request.catalog_updates
        if len(group) == 1 and not updates:
            return group[0].request.txn
        merged = self.env.begin()
        for waiting in group:
            merged.merge(waiting.request.txn)
        if updates:
            merged.update_catalog(updates, expected=catalog.csn)
        return merged

    async def _write(
        self,
        group: list[Waiting],
        merged: Txn,
        ts: Csn,
        validated: Csn,
        recorded: Callable[[], None],
        known: int,
    ) -> tuple[Csn, CommitResult]:
        """Make `merged` durable; the CSN, and what came of it. What was answered is tried until it is."""
        env, shards, request = self.env, _shards(group), group[0].request
        # Nothing that has committed since it was prepared can be in the way of a second phase.
        checked = validated if request.ends is None else None
        phase = Phase(prepare=request.prepare, ends=request.ends, known=known if request.ends is None else None)
        while True:
            try:
                return ts, await env.committer.commit(
                    merged, ts=ts, validated=checked, shards=shards, recorded=recorded, phase=phase
                )
            except (CatalogConflict, StorageClosed):
                raise
            except (Determinate, Indeterminate) as error:
                if self._closed or not any(waiting.answered for waiting in group):
                    raise
                # NOTE: the same transactions, with their ids: an attempt whose answer was lost is not repeated.
                log.warning("commits that were answered are not durable yet", error=str(error))
                env.oracle.abandon_write("user", ts)
                await env.clock.sleep(RETRY_S)
                ts = await env.oracle.write_ts("user")

    async def _validate(self, group: list[Waiting], until: Csn, catalog: CatalogSnapshot, known: int) -> list[Waiting]:
        accepted: list[Waiting] = []
        earlier = Accepted() if len(group) > 1 else NONE_ACCEPTED
        for waiting in group:
            failure: SqlError | None
            if waiting.request.follows:
                if ahead := waiting.parked_ahead:
                    self._park(waiting, asyncio.wait(ahead))
                    continue
                request = followed(waiting.request, earlier)
                if request is None:
                    waiting.done.set_exception(serialization_failure(CONCURRENT_UPDATE))
                    continue
                waiting.request = request
            if waiting.request.ends is not None:
                return group
            failure = await conflict(self.env, catalog, waiting.request, until, earlier)
            if failure is None and known and await self._waits_for_prepared(waiting, catalog, until):
                if waiting.request.prepare is None:
                    continue
                # Who ends the other may be waiting for this one.
                failure = serialization_failure(READ_WRITE_DEPENDENCIES)
            if failure is None:
                accepted.append(waiting)
                if waiting is not group[-1]:
                    earlier.add(waiting.request)
            else:
                waiting.done.set_exception(failure)
        return accepted

    async def _waits_for_prepared(self, waiting: Waiting, catalog: CatalogSnapshot, until: Csn) -> bool:
        """Whether a prepared transaction could not commit after `waiting`; that is parked until one ends, unless it
        is to be prepared itself."""
        prepared = self.prepared
        if prepared is None or not self.env.cache.state.prepared:
            return False
        one_ends = prepared.one_ends
        if not await prepared.exclude(waiting.request, catalog, until):
            return False
        if waiting.request.prepare is None:
            self._park(waiting, one_ends.wait())
        return True


def _answered(group: list[Waiting]) -> tuple[Txn, ...]:
    return tuple(waiting.request.txn for waiting in group if waiting.early is not None and waiting.answered)


def _nothing() -> None:
    """Nobody waits for the record of a group."""


def _shards(group: list[Waiting]) -> set[ShardId]:
    """What the group wrote and read: nobody else may have written there since it was validated."""
    shards: set[ShardId] = set()
    for waiting in group:
        shards |= waiting.request.txn.shards
        shards |= {read.shard for read in waiting.request.reads}
        shards |= {claim.shard for claim in waiting.request.claims}
        if waiting.request.catalog_reads or waiting.request.catalog_updates:
            shards.add(CATALOG_SHARD)
    return shards
