"""Parallel commit: the last uploads of a transaction and its record in the txns shard, at the same time.

The record is STAGED: it names the *promised parts*, those whose upload was not finished when it was written.

- **Commit condition**: a transaction is committed if and only if its record is COMMITTED, or it is STAGED and every
  promised part is present. In the second case it is committed *implicitly*: the coordinator answers, and the record
  becomes COMMITTED with a later append, off the client's path.
- A promised part's key is written with put-if-absent, by the coordinator with the part, by anybody else with a
  tombstone (*prevention*). Whatever comes first decides the key for ever, so all observers reach the same verdict.
- **Status resolution**: whoever is held up by a record whose coordinator looks dead prevents what is missing. One
  part prevented: ABORTED. All present: COMMITTED. The verdict is appended only if the record is still the one that
  was looked at.
- The coordinator never reports a failure after its transaction may have been committed: it resolves it first, and
  what it cannot find out is `Indeterminate`.

SUBTLE: tombstones are files, and files of a process without a lease are collected. A coordinator that was paused
for long could then find a prevented key free again. So it reports success only while its own clock says that its
lease cannot have ended; later it renews the lease first, which fails when it has been ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from storage.blob import Blob
from storage.clock import Clock, Randomness
from storage.csn import Csn
from storage.errors import Determinate, Indeterminate, PartPrevented
from storage.ids import ShardId, new_token
from storage.part_store import TOMBSTONE, PartStore
from storage.txn import SealedTxn
from storage.txns import CommitResult, Committed, Txns
from storage.txns_cache import TxnsCache
from storage.txns_state import PromisedPart, Staged

STAGED_LIMIT_S = 10.0
"""How long a STAGED record may hold others up before they resolve it. Uploads of one part take less."""

CLOCK_STEP_S = 0.001
"""A rest of a wait below this counts as over: a clock may be unable to tell it from nothing."""

RESOLVE_DELAYS_S = (0.01, 0.05, 0.2, 0.5, 1.0)
"""Pauses between attempts to reach a verdict while the store fails."""


class ParallelCommit:
    """Coordinates this process's staged transactions and resolves those of others."""

    def __init__(
        self,
        *,
        txns: Txns,
        cache: TxnsCache,
        parts: PartStore,
        blob: Blob,
        clock: Clock,
        random: Randomness,
        publish: Callable[[Csn], Awaitable[None]],
        ensure_lease: Callable[[], Awaitable[None]],
    ) -> None:
        self._txns = txns
        self._cache = cache
        self._parts = parts
        self._blob = blob
        self._clock = clock
        self._random = random
        self._publish = publish
        self._ensure_lease = ensure_lease
        self._first_seen: dict[str, float] = {}
        self._resolving: dict[str, asyncio.Task[None]] = {}

    async def commit(
        self,
        sealed: SealedTxn,
        promised: tuple[PromisedPart, ...],
        *,
        ts: Csn,
        validated: Csn | None,
        shards: Collection[ShardId],
        xids: tuple[int, ...],
        owners: frozenset[str] = frozenset(),
        recorded: Callable[[], None] | None = None,
    ) -> CommitResult:
        """Commit `sealed`, whose parts `promised` are being uploaded, at `ts`.

        Results and errors as of `Environment.commit`; `PartPrevented` when another process has aborted it, and
        Determinate when an upload failed and it has been aborted for that. `recorded` is called once the record is
        durable.
        """
        txid = new_token(self._random)
        try:
            result = await self._txns.commit(
                sealed,
                ts=ts,
                validated=validated,
                shards=shards,
                xids=xids,
                promised=promised,
                txid=txid,
                owners=owners,
            )
        except Indeterminate:
            # The record may be there. With one part prevented it cannot be committed, whether it is or not.
            if await self._settle(promised):
                raise
            raise Determinate("the transaction was not recorded, and has been aborted") from None
        if not isinstance(result, Committed):
            return result
        # Other shards may be read past this CSN at once; those named here wait for the outcome.
        await self._publish(ts)
        if recorded is not None:
            recorded()
        failure = await self._parts.finished(part.key for part in promised)
        if failure is None:
            await self._ensure_lease()
            if txid in self._cache.state.staged:
                self._cache.implicit.add(txid)
                self._cache.wake()
            return result
        # A part that is certainly not there needs no tombstone: only its coordinator, this process, would write it.
        committed = not isinstance(failure, Determinate) and await self._settle(promised)
        record = self._cache.state.staged.get(txid)
        if record is not None:
            await self._txns.resolve(record, committed)
        if committed:
            return result
        if isinstance(failure, PartPrevented):
            raise failure
        raise Determinate(f"a part could not be stored, and the transaction has been aborted: {failure}") from failure

    async def _settle(self, promised: tuple[PromisedPart, ...]) -> bool:
        """The verdict, in spite of a store that fails now and then; Indeterminate when it fails for long."""
        for delay in RESOLVE_DELAYS_S:
            try:
                return await self.verdict(promised)
            except (Determinate, Indeterminate):
                await self._clock.sleep(delay)
        try:
            return await self.verdict(promised)
        except Determinate as error:
            raise Indeterminate(f"the outcome of a staged transaction cannot be found out: {error}") from error

    async def verdict(self, promised: tuple[PromisedPart, ...]) -> bool:
        """Decide every promised part, preventing the missing ones. True: all are present, for ever."""
        for part in promised:
            if await self._blob.put_if_absent(part.key, TOMBSTONE):
                return False
            # Something is there, durably. A tombstone is shorter than any part.
            if await self._blob.size(part.key) != part.length:
                return False
        return True

    async def wait_resolved(self, record: Staged) -> None:
        """Return when something about `record` has changed; resolve it oneself when its coordinator looks dead."""
        waited = self._clock.monotonic() - self._seen(record)
        left = STAGED_LIMIT_S - waited
        if left < CLOCK_STEP_S or record.process not in self._cache.state.leases:
            await self.resolve(record)
            return
        changed = asyncio.ensure_future(self._cache.changed())
        pause = asyncio.ensure_future(self._clock.sleep(left))
        try:
            await asyncio.wait({changed, pause}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            pause.cancel()

    def _seen(self, record: Staged) -> float:
        """When this process first saw `record` (monotonic)."""
        if len(self._first_seen) > 2 * len(self._cache.state.staged) + 16:
            self._first_seen = {t: at for t, at in self._first_seen.items() if t in self._cache.state.staged}
        return self._first_seen.setdefault(record.txid, self._clock.monotonic())

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
            await self._txns.make_explicit()
            return
        await self._txns.resolve(record, await self.verdict(record.promised))

    async def resolve_overdue(self) -> int:
        """Resolve every record that has been staged for too long or whose process is gone. Returns how many."""
        await self._txns.make_explicit()
        now = self._clock.monotonic()
        resolved = 0
        for record in list(self._cache.state.staged.values()):
            overdue = now - self._seen(record) >= STAGED_LIMIT_S
            if overdue or record.process not in self._cache.state.leases:
                await self.resolve(record)
                resolved += 1
        return resolved
