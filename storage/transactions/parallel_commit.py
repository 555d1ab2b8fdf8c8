"""Parallel commit: the last uploads of a transaction and its record in the txns shard, at the same time.

Theory of operation
-------------------
A transaction with large parts has files to store and a record to append. One after the other they cost the sum of the
two, at the same time only the slower of them. But then a record may be durable while a file is still on its way, and
the process that sends it may die. So the record does not say that the transaction has committed; it says what has to
be true for that::

    Staged(txid="mzxw6...", csn=118..., process="server-4k2p", writes=(Write(shard="s4k...", csn=118..., ...),),
           promised=(PromisedPart(key="parts/s4k.../server-4k2p-7f1....parquet", length=812334, checksum="..."),))

*Promised* are the parts whose upload was not finished when the record was written. The **commit condition**: a
transaction is committed if and only if its record is COMMITTED, or it is STAGED and every promised part is present::

    nothing --append--> STAGED --+-- every promised part is present: committed implicitly --append--> COMMITTED
                                 +-- one of them is prevented: aborted implicitly --------append--> ABORTED

Each step to the right is decided by what is durable and not by who looks, so it makes no difference who writes the
last append down, or when. The *coordinator* (the process whose transaction it is) answers its client as soon as the
commit condition holds; the explicit record follows with one of its later appends. COMMITTED and ABORTED are no records
of their own: a `Resolve` takes the staged record away, and if it committed its writes become pending ones.

**Prevention.** A promised key is only ever written with put-if-absent: by the coordinator with the part, by anybody
else with a tombstone. Whatever comes first decides the key for good, so all who look reach the same *verdict*.

**The coordinator** appends the record while the uploads run, publishes its CSN, then waits for the uploads. All done:
committed. An upload that has certainly failed: aborted, without a tombstone, since nobody but the coordinator would
write that key. Otherwise it asks for the verdict, and so prevents what is missing. It never reports a failure while
the transaction may have been committed: what it cannot find out is `Indeterminate`.

**Everybody else** who reads or writes a named shard at or above the record's CSN is held up by it (`wait_resolved`).
While the coordinator shows signs of life they wait; a coordinator renews its lease while its uploads take long (the
*heartbeat*), and counts as silent after `STAGED_LIMIT_S` without. Then they reach the verdict themselves, and append it
if the record is still the one that they looked at. Other shards, and reads below the CSN, never wait.

What a crash leaves, by where the coordinator died: before the append, files that nobody refers to; after it, a record
that the next one whom it holds up decides: committed when the last file had arrived, aborted when not.

SUBTLE: tombstones are files, and files of a process without a lease are collected. A coordinator that was paused
for long could then find a prevented key free again. So it reports success only while its own clock says that its
lease cannot have ended; later it renews the lease first, which fails when it has been ended.

`tests.simulation.parallel_commit_model` explores all of this exhaustively.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection

from storage.clock import Clock, Randomness
from storage.durable.retries import retried
from storage.errors import Determinate, EnvironmentFenced, Indeterminate, PartPrevented, StorageError, not_stored
from storage.ids import ShardId, new_token
from storage.shards.part_store import TOMBSTONE, PartStore
from storage.shards.writes import PromisedPart
from storage.stores.blob import Blob
from storage.timestamps.csn import Csn
from storage.transactions.txn import SealedTxn
from storage.transactions.txns_shard import CommitResult, Committed, Phase, TxnsShard
from storage.transactions.txns_state import Staged

STAGED_LIMIT_S = 8.0
"""How long the coordinator of a STAGED record may be silent before those whom it holds up resolve it.

NOTE: less than the `KEEP_ALIVE_S` of `storage.environment.background`. A process that lives but has given a record up,
because it cannot reach the blob store for example, keeps its lease; others take the record over between two of its
renewals."""

HEARTBEAT_S = 3.0
"""How often a coordinator whose uploads are not finished says that it lives: a few times within `STAGED_LIMIT_S`."""

CLOCK_STEP_S = 0.001
"""A rest of a wait below this counts as over: a clock may be unable to tell it from nothing."""

RESOLVE_DELAYS_S = (0.01, 0.05, 0.2, 0.5, 1.0)
"""Pauses between attempts to reach a verdict while the store fails."""


class ParallelCommit:
    """Coordinates this process's staged transactions and resolves those of others."""

    def __init__(
        self,
        *,
        txns_shard: TxnsShard,
        parts: PartStore,
        blob: Blob,
        clock: Clock,
        random: Randomness,
        ensure_lease: Callable[[], Awaitable[None]],
        renew_lease: Callable[[], Awaitable[None]],
        process: str,
    ) -> None:
        self._txns_shard = txns_shard
        self._cache = txns_shard.cache
        self._parts = parts
        self._blob = blob
        self._clock = clock
        self._random = random
        self._ensure_lease = ensure_lease
        self._renew_lease = renew_lease
        self._process = process
        self._coordinated: set[str] = set()
        """Transactions whose uploads and outcome this process looks after now."""
        self._heard: dict[str, tuple[int | None, float]] = {}
        """By staged transaction, the beat of its coordinator's lease and when it was first seen (monotonic)."""
        self._resolving: dict[str, asyncio.Task[None]] = {}

    async def commit_staged(
        self,
        sealed: SealedTxn,
        promised: tuple[PromisedPart, ...],
        *,
        ts: Csn,
        validated: Csn | None,
        shards: Collection[ShardId],
        owners: frozenset[str],
        recorded: Callable[[], Awaitable[None]],
        known: int | None = None,
    ) -> CommitResult:
        """Commit `sealed`, whose parts `promised` are being uploaded, at `ts`.

        Results and errors as of `TxnsShard.commit_at`; `PartPrevented` when another process has aborted it, and
        Determinate when an upload failed and it has been aborted for that. `known`: see `Phase`. `recorded` is awaited
        once the record is durable: other shards may be read past `ts` at once, and those named in the record wait for
        its outcome.
        """
        txid = new_token(self._random)
        self._coordinated.add(txid)
        try:
            append = self._txns_shard.commit_at(
                sealed,
                ts=ts,
                validated=validated,
                shards=shards,
                promised=promised,
                txid=txid,
                owners=owners,
                phase=Phase(known=known),
            )
            result = await self._appended(append, promised)
            if isinstance(result, Committed):
                await recorded()
                await self._finish(txid, promised)
            return result
        finally:
            # A record that is left is resolved by whoever meets it first, this process included.
            self._coordinated.discard(txid)

    async def _appended(self, append: Awaitable[CommitResult], promised: tuple[PromisedPart, ...]) -> CommitResult:
        """What came of appending a record. Determinate when that is not known, and the transaction is aborted."""
        try:
            return await append
        except Indeterminate:
            # The record may be there. With one part prevented it cannot be committed, whether it is or not.
            if await self._settle(promised):
                raise
            raise Determinate("the transaction was not recorded, and has been aborted") from None

    async def _finish(self, txid: str, promised: tuple[PromisedPart, ...]) -> None:
        """Return once the recorded transaction `txid` is committed. Raises as `commit_staged` does."""
        failure = await self._uploaded(promised)
        # A part that is certainly not there needs no tombstone: only its coordinator, this process, would write it.
        if failure is None or (not isinstance(failure, Determinate) and await self._settle(promised)):
            await self._assure_committed(txid)
            return
        record = self._cache.state.staged.get(txid)
        if record is not None:
            # The verdict stands; what cannot be written now is written by whoever meets the record.
            with contextlib.suppress(Determinate, Indeterminate):
                await self._txns_shard.resolve(record, False)
        if isinstance(failure, PartPrevented):
            raise failure
        raise not_stored("a part could not be stored, and the transaction has been aborted", failure) from failure

    async def _uploaded(self, promised: tuple[PromisedPart, ...]) -> StorageError | None:
        """Wait for the uploads, with a heartbeat meanwhile; the first failure, or None when all are stored."""
        beating = asyncio.ensure_future(self._beat())
        try:
            return await self._parts.finished(part.key for part in promised)
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        while True:
            await self._clock.sleep(HEARTBEAT_S)
            # Who cannot say that it lives may be taken for dead; what comes of it is found out afterwards.
            with contextlib.suppress(Determinate, Indeterminate, EnvironmentFenced):
                await self._renew_lease()

    async def _assure_committed(self, txid: str) -> None:
        """All parts of `txid` are stored: note that it is committed. Indeterminate when that cannot be made sure of."""
        try:
            await self._ensure_lease()
        except (Determinate, Indeterminate, EnvironmentFenced) as error:
            raise Indeterminate(
                f"everything is stored, but this process cannot tell whether it still had its lease by then: {error}"
            ) from error
        if txid in self._cache.state.staged:
            self._cache.implicit.add(txid)
            self._cache.wake()

    async def _settle(self, promised: tuple[PromisedPart, ...]) -> bool:
        """The verdict, in spite of a store that fails now and then; Indeterminate when it fails for long."""
        try:
            return await retried(lambda: self.verdict(promised), self._clock, RESOLVE_DELAYS_S)
        except Determinate as error:
            raise Indeterminate(f"the outcome of a staged transaction cannot be found out: {error}") from error

    async def verdict(self, promised: tuple[PromisedPart, ...]) -> bool:
        """Decide every promised part, preventing the missing ones. Returns whether all are present; that is final."""
        for part in promised:
            if await self._blob.put_if_absent(part.key, TOMBSTONE):
                return False
            # Something is there, durably. A tombstone is shorter than any part.
            if await self._blob.size(part.key) != part.length:
                return False
        return True

    async def wait_resolved(self, record: Staged) -> None:
        """Return when something in the txns shard has changed, or once `record` is resolved here: its coordinator was
        silent for too long."""
        left = STAGED_LIMIT_S - self._silent_s(record)
        if left < CLOCK_STEP_S:
            await self.resolve(record)
            return
        changed = asyncio.ensure_future(self._cache.changed())
        pause = asyncio.ensure_future(self._clock.sleep(left))
        try:
            await asyncio.wait({changed, pause}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            pause.cancel()

    def _silent_s(self, record: Staged) -> float:
        """For how many seconds the coordinator of `record` has shown no sign of life. `STAGED_LIMIT_S` when it will not
        show any more: its lease is gone, or it is this process and has given the record up."""
        if record.process == self._process:
            return 0.0 if record.txid in self._coordinated else STAGED_LIMIT_S
        lease = self._cache.state.leases.get(record.process)
        if lease is None:
            return STAGED_LIMIT_S
        now = self._clock.monotonic()
        if len(self._heard) > 2 * len(self._cache.state.staged) + 16:
            self._heard = {txid: heard for txid, heard in self._heard.items() if txid in self._cache.state.staged}
        beat, at = self._heard.get(record.txid, (None, now))
        if beat != lease.beats:
            at = now
        self._heard[record.txid] = (lease.beats, at)
        return now - at

    async def resolve(self, record: Staged) -> None:
        """Find out what became of `record` and write it down. Several callers share one attempt."""
        task = self._resolving.get(record.txid)
        if task is None or task.done():
            task = asyncio.get_running_loop().create_task(self._resolve(record))
            self._resolving[record.txid] = task
            task.add_done_callback(lambda _: self._resolving.pop(record.txid, None))
        await asyncio.shield(task)

    async def _resolve(self, record: Staged) -> None:
        if record.txid in self._cache.implicit:
            await self._txns_shard.make_explicit()
            return
        await self._txns_shard.resolve(record, await self.verdict(record.promised))

    async def resolve_overdue(self) -> int:
        """Resolve every record whose coordinator is silent for too long or gone. Returns how many."""
        await self._txns_shard.make_explicit()
        overdue = [
            record
            for record in self._cache.state.staged.values()
            if self._silent_s(record) >= STAGED_LIMIT_S and record.txid not in self._cache.implicit
        ]
        for record in sorted(overdue, key=lambda record: record.csn):
            await self.resolve(record)
        return len(overdue)
