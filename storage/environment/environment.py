"""An environment: one blob root and one consensus store, and everything that lives on them.

`Environment` is what the storeys above use. It opens (or creates) the environment, hands out transactions,
commits them, and answers reads; a background task applies what is committed, keeps the process's lease, and lets
maintenance run. Everything survives ``kill -9`` at any moment:

- an acknowledged commit is one durable diff of the txns shard; nothing else is needed to recover it;
- committed writes that were not yet copied into their data shards are seen by every reader, which works out
  their effect itself (it follows from the states alone), and are copied by whoever comes next;
- what only a dead process knew (buffers, holds, uploads) is reclaimed once its lease has run out.

Reads: a read at T needs the txns upper past T, the data shard's state, and the writes up to T that the state
lacks. All three are in memory, so a snapshot costs no consensus operation.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any

import pyarrow as pa
import structlog

from storage.catalog.model import CatalogSnapshot
from storage.catalog.oids import OidBlocks
from storage.catalog.store import CatalogStore
from storage.clock import Clock, Randomness
from storage.durable.state import DurableState
from storage.environment.background import APPLY_PAUSE_S, KEEP_ALIVE_S, MAINTENANCE_S, ORPHAN_ROUNDS
from storage.environment.bootstrap import bootstrap
from storage.environment.committing import PUBLISH_DELAYS_S
from storage.environment.identity import identify
from storage.errors import (
    AsOfNotReadable,
    Determinate,
    EnvironmentFenced,
    Indeterminate,
    MissingBlob,
    PartPrevented,
    StorageClosed,
    StorageError,
)
from storage.ids import CATALOG_SHARD, ShardId, new_shard_id, random_text
from storage.membership.leases import Leases, ReadHold
from storage.membership.liveness import Liveness
from storage.membership.peers import Peers
from storage.reading.outcomes import TxidStatus, txid_status
from storage.reading.reader import ShardReader
from storage.reading.subscribe import SubscribeEvent, subscribe
from storage.shards.part_store import PartStore
from storage.shards.parts import Part
from storage.shards.shard import DataShard, ShardChanges, ShardSnapshot
from storage.shards.shard_state import Hold
from storage.stores.blob import Blob
from storage.stores.consensus import Consensus
from storage.timestamps.csn import Csn
from storage.timestamps.hlc import warn_if_ahead
from storage.timestamps.in_process import acquired
from storage.timestamps.switching import SwitchingOracle
from storage.transactions.parallel_commit import ParallelCommit
from storage.transactions.txns import CommitResult, Committed, Txn, Txns, UpperMismatch
from storage.transactions.txns_cache import TxnsCache
from storage.transactions.txns_state import TXNS_KEY, TxnsDiff, TxnsMachine, TxnsState
from storage.transactions.xid_blocks import XidBlocks
from storage.upkeep.maintenance import Maintenance
from storage.upkeep.pruning_audit import SAMPLED_SHARE, PruningAudit
from storage.upkeep.troubles import Troubles

log = structlog.get_logger(__name__)


class Environment:
    """See the module's contract. Made by `open` or `open_local_environment`."""

    def __init__(
        self, blob: Blob, consensus: Consensus, clock: Clock, random: Randomness, process: str, validate: bool
    ) -> None:
        self.blob = blob
        self.consensus = consensus
        self.clock = clock
        self.random = random
        self.process = process
        self.id = ""
        """The environment's own id, the same for all its processes."""
        self.parts = PartStore(blob, clock, random, process)
        self.pruning = PruningAudit(
            lambda part, columns: self.parts.read(part, columns, keep=False), random, 1.0 if validate else SAMPLED_SHARE
        )
        self.oracle: SwitchingOracle
        self._validate = validate
        durable: DurableState[TxnsState, TxnsDiff] = DurableState(
            TXNS_KEY,
            TxnsMachine(),
            consensus=consensus,
            blob=blob,
            clock=clock,
            random=random,
            writer=process,
        )
        self.cache = TxnsCache(durable, consensus, clock, validate=validate)
        self.xids = XidBlocks(
            consensus,
            clock,
            process,
            lambda: self.cache.upper,
            lambda: self.cache.state.leases,
            self.cache.durable.refresh,
        )
        self.oids = OidBlocks(consensus, clock)
        self.troubles = Troubles()
        self.txns = Txns(self.cache, lambda shard: self.reader.open_shard(shard), self._handle, clock, process)
        self.leases = Leases(self)
        self.staging = ParallelCommit(
            txns=self.txns,
            cache=self.cache,
            parts=self.parts,
            blob=blob,
            clock=clock,
            random=random,
            publish=self._publish_staged,
            ensure_lease=self.leases.ensure,
            renew_lease=self.leases.renew,
            process=process,
        )
        self.reader = ShardReader(
            cache=self.cache,
            txns=self.txns,
            staging=self.staging,
            leases=self.leases,
            clock=clock,
            make_handle=self._handle,
            validate=validate,
        )
        self.catalog = CatalogStore(self, self._encode_catalog, self._catalog_last_write)
        self.maintenance = Maintenance(self)
        self._touched: set[ShardId] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._work = asyncio.Event()
        self._liveness: Liveness | None = None
        self._fenced: EnvironmentFenced | None = None
        self.deposed = asyncio.Event()
        """Set once this process has learnt that the others took it for dead: it must stop."""
        self.peers = Peers(self)
        self._closers: list[contextlib.AsyncExitStack] = []
        self._closed = False

    # Opening and closing

    @staticmethod
    async def open(
        *,
        blob: Blob,
        consensus: Consensus,
        clock: Clock,
        random: Randomness,
        process: str,
        shared: bool = False,
        sole: bool = False,
        liveness: Liveness | None = None,
        background: bool = True,
        validate: bool = False,
    ) -> Environment:
        """Open the environment on these stores, creating it on first use.

        `process` names this process for people; a random suffix makes it unique. `shared`: other processes may
        have the environment open at the same time, and timestamps come from the txns shard (otherwise from this
        process). `sole`: the caller guarantees that no other process is alive, so the work of all others is taken
        over at once. `liveness` tells which are dead; without `shared` others may join at any time, and this process
        takes timestamps by itself until then (`storage.membership.peers`). With `background` False nothing runs by
        itself (`apply`, `keep_alive` and maintenance are the caller's). `validate` checks every structure after each
        change. Raises NewerFormat, ForeignEnvironment, CorruptState, and EnvironmentFenced when it took so long that
        others took the process for dead.
        """
        process = f"{process}-{random_text(random)[:8]}"
        env = Environment(blob, consensus, clock, random, process, validate)
        env._liveness = liveness
        env.id = (await identify(consensus, random, blob)).id
        await env.cache.durable.refresh()
        if CATALOG_SHARD not in env.cache.state.registered:
            await bootstrap(env)
        if liveness is not None and not shared:
            shared = not await env.peers.join(liveness)
        else:
            if liveness is not None:
                liveness.announce(env.process)
            await env.keep_alive()
        if sole:
            await env.txns.tidy(expired=[name for name in env.cache.state.leases if name != env.process])
            await env.staging.resolve_overdue()
        floor = Csn(env.cache.upper - 1)
        warn_if_ahead(floor, clock)
        last_write = env.cache.state.registered[CATALOG_SHARD].last_write
        inner = env.peers.shared_oracle if shared else await env.peers.own_oracle()
        env.oracle = SwitchingOracle(inner, env.leases.ensure if liveness is not None else None)
        if shared:
            env.xids.shared = True
        else:
            await env.xids.keep_to_itself()
        try:
            await env.catalog.load(floor, last_write)
        except AsOfNotReadable:
            # Nobody lets go of what a lease keeps; so others have ended it, because this process stood still.
            await env.leases.ensure()
            raise
        if env.cache.state.pending:
            env.apply_soon()  # What a dead process has committed and not applied.
        if background:
            loop = asyncio.get_running_loop()
            env._tasks = [
                loop.create_task(env._apply_loop(), name="storage-apply"),
                loop.create_task(env._keep_alive_loop(), name="storage-keep-alive"),
                loop.create_task(env.cache.follow(), name="storage-follow"),
                loop.create_task(env._follow_loop(), name="storage-catalog"),
                loop.create_task(env._maintenance_loop(), name="storage-maintenance"),
            ]
        return env

    def is_dead(self, process: str) -> bool:
        """Whether `process` has certainly ended, as far as that can be told without waiting for its lease."""
        return self._liveness is not None and self._liveness.is_dead(process)

    async def close(self) -> None:
        """Finish: apply and tidy what is committed, give up the lease. Idempotent.

        Stores that were given to `open` stay open; those of `open_local_environment` are closed.
        """
        if self._closed:
            return
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.pruning.finished()
        # What cannot be finished now is finished by the next process, as after a crash.
        with contextlib.suppress(Determinate, Indeterminate, EnvironmentFenced):
            await self.apply_all()
            await self.txns.tidy(release=True)
        await self.oracle.close()
        for stack in self._closers:
            await stack.aclose()

    def on_close(self, stack: contextlib.AsyncExitStack) -> None:
        """Close `stack` at the end of `close`."""
        self._closers.append(stack)

    # Background work

    def apply_soon(self) -> None:
        """Let the background copy what is committed into its data shards."""
        self._work.set()

    async def _apply_loop(self) -> None:
        while True:
            await self._work.wait()
            await self.clock.sleep(APPLY_PAUSE_S)
            self._work.clear()
            await self._surviving(self.apply_all(), "apply")

    async def _keep_alive_loop(self) -> None:
        while True:
            await self.clock.sleep(KEEP_ALIVE_S)
            await self._surviving(self.keep_alive(), "keep-alive")

    async def _follow_loop(self) -> None:
        """React to what the txns shard brings: definitions of other processes, and processes that join."""
        while True:
            if self._catalog_last_write() > self.catalog.current().csn:
                await self._surviving(self.catch_up_catalog(), "catalog")
            await self._surviving(self.peers.react(), "peers")
            await self.cache.changed()

    async def _maintenance_loop(self) -> None:
        rounds = 0
        while True:
            await self.clock.sleep(MAINTENANCE_S)
            await self._surviving(self.maintenance.run(self._touched), "maintenance")
            rounds += 1
            if rounds % ORPHAN_ROUNDS == 0:
                await self._surviving(self.maintenance.collect_new_orphans(), "orphans")

    async def _surviving(self, work: Coroutine[Any, Any, object], name: str) -> None:
        """Run background work; a failing store is reported and tried again at the next round."""
        try:
            await work
        except EnvironmentFenced as error:
            if self._fenced is None:
                log.error("storage process was deposed", process=self.process, error=str(error))
                self._fenced = error
                self.deposed.set()
        except StorageError as error:
            if isinstance(error, StorageClosed):
                return
            self.troubles.failed(name, error)
            await self.clock.sleep(1.0)
            self._work.set()
        else:
            self.troubles.succeeded(name)

    async def keep_alive(self) -> None:
        """Renew this process's lease and retract what it has applied, in one write."""
        await self.leases.renew()
        await self.xids.settle()

    async def critical_hold(self, shard: ShardId, name: str, at: Csn) -> Hold:
        """Keep `shard` readable at `at` until `release_critical_hold`, across restarts. Renewing moves it.

        Raises AsOfNotReadable when the history there is gone.
        """
        hold = Hold(at=at, reason=name)
        await self.leases.write(shard, f"critical/{name}", hold)
        return hold

    async def release_critical_hold(self, shard: ShardId, name: str) -> None:
        """End the critical hold `name`. Idempotent."""
        await self.leases.write(shard, f"critical/{name}", None)

    # Transactions

    def new_shard_id(self) -> ShardId:
        """An id for a new shard."""
        return new_shard_id(self.random)

    def new_part_key(self, shard: ShardId) -> str:
        """A blob key for a file that somebody else is about to write; protected from garbage collection."""
        return self.parts.new_key(shard)

    def begin(self, xid: int | None = None) -> Txn:
        """An empty transaction. One with an `xid` can be asked for with `txid_status`, and commits at most once."""
        return Txn(self.parts, self.catalog.current().csn, xid)

    async def txid_status(self, xid: int) -> TxidStatus:
        """What became of the transaction `xid`; see `storage.reading.outcomes`."""
        return await txid_status(self, xid)

    async def commit(
        self,
        txn: Txn,
        *,
        ts: Csn,
        validated: Csn | None = None,
        shards: Collection[ShardId] | None = None,
        recorded: Callable[[], None] | None = None,
    ) -> CommitResult:
        """Make `txn` durable at `ts` with one write to the txns shard. Does not apply it.

        `UpperMismatch`: nothing happened, commit again at the CSN it names or above; nothing is rewritten.
        `validated`: the caller has checked the transaction against every commit below this CSN; the result is
        `UpperMismatch` when one of `shards` (default: those it writes to) was written at or above it since.
        `recorded` is called once the txns shard names the transaction, before its last uploads are waited for.

        Raises CatalogConflict (definitions changed since the snapshot they were worked out from), UnknownShard
        (a table was dropped meanwhile), Determinate (nothing happened), Indeterminate (cannot be known).
        """
        if self._fenced is not None:
            raise self._fenced
        # NOTE: a caller that is cancelled must not leave a commit half finished in this process.
        return await asyncio.shield(self._commit(txn, ts, validated, shards, recorded))

    async def _commit(
        self,
        txn: Txn,
        ts: Csn,
        validated: Csn | None,
        shards: Collection[ShardId] | None,
        recorded: Callable[[], None] | None,
    ) -> CommitResult:
        sealed = await txn.seal()
        catalog = None
        if sealed.catalog_updates:
            expected = sealed.catalog_expected
            assert expected is not None
            if self._catalog_last_write() > self.catalog.current().csn:
                await self.catch_up_catalog()
            catalog = await self.catalog.writes_for(sealed.catalog_updates, expected)
        watched = txn.shards if shards is None else shards
        owners = self.parts.other_owners(part for item in sealed.shards for part in item.parts)
        promised = self.parts.unfinished(part for item in sealed.shards for part in item.parts)
        if promised and sealed.has_definitions:
            # Definitions are never staged: a reader of the catalog does not wait for somebody's upload.
            failure = await self.parts.finished(part.key for part in promised)
            if failure is not None:
                txn.unseal()
                raise Determinate(f"a part could not be stored: {failure}") from failure
            promised = ()
        if promised:
            try:
                result = await self.staging.commit(
                    sealed,
                    promised,
                    ts=ts,
                    validated=validated,
                    shards=watched,
                    xids=sealed.xids,
                    owners=owners,
                    recorded=recorded,
                )
            except PartPrevented:
                txn.unseal()
                return UpperMismatch(least_committable=self.cache.upper)
            except Determinate:
                txn.unseal()
                raise
        else:
            result = await self.txns.commit(
                sealed, ts=ts, catalog=catalog, validated=validated, shards=watched, xids=sealed.xids, owners=owners
            )
        if isinstance(result, Committed):
            self.parts.committed(part for item in sealed.shards for part in item.parts)
            for item in sealed.shards:
                if item.create:
                    self.reader.created(item.shard)
            if catalog is not None:
                await self._publish_catalog(result.ts)
            self._work.set()
        return result

    async def _publish_staged(self, ts: Csn) -> None:
        await self.oracle.apply_write("user", ts, wait=False)

    async def _publish_catalog(self, ts: Csn) -> None:
        """Make the definitions that committed at `ts` visible here.

        NOTE: never raises for a failing store. The commit is durable, and its caller must not hear otherwise.
        """
        for delay in PUBLISH_DELAYS_S:
            try:
                await self.catch_up_catalog()
                await self.oracle.apply_write("catalog", ts)
            except (Determinate, Indeterminate) as error:
                log.warning("definitions are committed but not visible yet", csn=ts, error=str(error))
                await self.clock.sleep(delay)
            else:
                return

    def _catalog_last_write(self) -> Csn:
        return self.cache.state.registered[CATALOG_SHARD].last_write

    async def catch_up_catalog(self) -> CatalogSnapshot:
        """Bring `catalog.current` up to everything that this process has seen committed."""
        return await self.catalog.catch_up(self._catalog_last_write())

    async def fill(self, shard: ShardId, as_of: Csn) -> None:
        """Write the shard's physical upper past `as_of`, for those who read it without the txns shard."""
        await self.reader.snapshot(shard, as_of)
        await self.txns.make_explicit()
        await self.txns.fill(shard, as_of)

    async def register(self, shard: ShardId, ts: Csn) -> CommitResult:
        """Put a data shard that exists under the txns shard at `ts`. Idempotent."""
        return await self.txns.register(shard, ts)

    async def unregister(self, shard: ShardId, ts: Csn) -> CommitResult:
        """Take a data shard out of the txns shard at `ts`, everything applied, its data kept. Idempotent."""
        return await self.txns.unregister(shard, ts)

    async def export_txn(self, txn: Txn) -> bytes:
        """`txn` as bytes, for another process of this environment to commit. It must not be used here afterwards.

        What is too large to travel is uploaded first; this process has to live until the other one has committed.
        """
        return await txn.export()

    def import_txn(self, data: bytes) -> Txn:
        """The transaction that another process exported. Raises CorruptState when `data` is not one."""
        return Txn.imported(self.parts, self.catalog.current().csn, data)

    async def apply(self, committed: Committed) -> None:
        """Copy the committed writes into their data shards now. Reads do not need it; restarts profit."""
        await self.txns.apply(committed.shards)

    async def apply_all(self) -> None:
        """Copy all committed writes into their data shards, and write the rollups that have become due."""
        await self.txns.make_explicit()
        touched = list(self.cache.state.pending)
        self._touched.update(touched)
        await self.txns.apply()
        if self.cache.durable.rollup_due():
            await self.cache.durable.roll_up()
        for shard in touched:
            handle = self.reader.known_shard(shard)
            if handle is not None and handle.durable.rollup_due():
                await handle.durable.roll_up()

    async def advance(self, upper: Csn) -> None:
        """Make every CSN below `upper` definite, with an empty commit when there is none."""
        await self.txns.advance(upper)

    async def advance_to_now(self) -> Csn:
        """An empty commit at a fresh CSN: moves every reader on while nothing else is committed."""
        async with acquired(self.oracle, "user") as ts:
            await self.txns.advance(Csn(ts + 1))
            await self.oracle.apply_write("user", ts)
        return ts

    # Reading

    async def snapshot(self, shard: ShardId, as_of: Csn) -> ShardSnapshot:
        """The parts that make up `shard` at `as_of`.

        Waits until every commit up to `as_of` is decided. Raises UnknownShard when the shard is not registered
        (or was dropped at or before `as_of`), AsOfNotReadable when its history there has been folded.
        """
        return await self.reader.snapshot(shard, as_of)

    async def changes(self, shard: ShardId, after: Csn, until: Csn) -> ShardChanges:
        """What was written to `shard` in (`after`, `until`], for the validation of conflicts.

        Raises as `snapshot` does.
        """
        return await self.reader.changes(shard, after, until)

    async def open_shard(self, shard: ShardId) -> DataShard:
        """The handle of `shard`, loaded. Raises UnknownShard when it is neither registered nor dropped."""
        return await self.reader.open_shard(shard)

    def detached_shard(self, shard: ShardId) -> DataShard:
        """A handle of its own for `shard`, registered or not; not loaded."""
        return self._handle(shard)

    def known_shards(self) -> tuple[DataShard, ...]:
        """The handles that are open."""
        return self.reader.known_shards()

    def subscribe(self, shard: ShardId, as_of: Csn, until: Csn | None = None) -> AsyncIterator[SubscribeEvent]:
        """The snapshot at `as_of`, then every later change in CSN order with progress; see
        `storage.reading.subscribe`."""
        return subscribe(self, shard, as_of, until)

    def _handle(self, shard: ShardId) -> DataShard:
        return DataShard(
            shard,
            consensus=self.consensus,
            blob=self.blob,
            clock=self.clock,
            random=self.random,
            writer=self.process,
        )

    async def hold(self, shards: Iterable[ShardId], at: Csn) -> ReadHold:
        """Keep `shards` readable at `at` until the hold is released.

        Costs no write while `at` is at or above what this process's lease protects anyway; below, the hold is
        written into the shards. Raises AsOfNotReadable when the history there is gone.
        """
        return await self.leases.hold(shards, at)

    async def read_part(self, part: Part, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of `part`, with ``_row_id`` when asked; see `storage.shards.parts.read_table`. Cached.

        Raises MissingBlob or CorruptPart when the stored bytes are not what the state recorded, and EnvironmentFenced
        when they are gone because the others deposed this process while it stood still.
        """
        try:
            return await self.parts.read(part, columns)
        except MissingBlob:
            await self.leases.renew()
            raise

    async def verify_parts(self, parts: Iterable[Part]) -> None:
        """Check the files of `parts` against their checksums, once each: for engines that read them by themselves.

        Raises as `read_part` does.
        """
        try:
            await self.parts.verify(parts)
        except MissingBlob:
            await self.leases.renew()
            raise

    async def _encode_catalog(self, kind: str, table: pa.Table) -> Part:
        return await self.parts.encode(kind, CATALOG_SHARD, table)
