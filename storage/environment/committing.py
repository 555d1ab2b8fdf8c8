"""Committing a transaction: what one process does between the buffer of a transaction and the answer to its client.

The buffer becomes parts, definitions become a write of the catalog's shard, and one write to the txns shard makes all
of it durable: in one phase, or staged while the last files are still on their way
(`storage.transactions.parallel_commit`). Nothing is copied into the data shards here; that follows in the background.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

import structlog

from storage.catalog.store import CatalogStore
from storage.clock import Clock
from storage.errors import Determinate, Indeterminate, PartPrevented, StoreFull, part_not_stored
from storage.ids import ShardId
from storage.membership.leases import Leases
from storage.shards.part_store import PartStore
from storage.stores.consensus import Consensus
from storage.timestamps.csn import Csn
from storage.timestamps.oracle import Oracle
from storage.transactions.applier import Applier
from storage.transactions.parallel_commit import ParallelCommit
from storage.transactions.shard_handles import ShardHandles
from storage.transactions.txn import SealedTxn, Txn
from storage.transactions.txns_shard import ONE_PHASE, CommitResult, Committed, Phase, TxnsShard, UpperMismatch

log = structlog.get_logger(__name__)

PUBLISH_DELAYS_S = (0.01, 0.05, 0.2, 0.5, 1.0, 2.0)
"""Pauses between attempts to show committed definitions while the store fails; then the next read finds them."""


class Committer:
    """Commits the transactions of one process."""

    def __init__(
        self,
        *,
        txns_shard: TxnsShard,
        staging: ParallelCommit,
        handles: ShardHandles,
        parts: PartStore,
        catalog: CatalogStore,
        oracle: Oracle,
        leases: Leases,
        applier: Applier,
        clock: Clock,
        consensus: Consensus,
    ) -> None:
        self._txns_shard = txns_shard
        self._staging = staging
        self._handles = handles
        self._parts = parts
        self._catalog = catalog
        self._oracle = oracle
        self._leases = leases
        self._applier = applier
        self._clock = clock
        self._consensus = consensus

    async def commit(
        self,
        txn: Txn,
        *,
        ts: Csn,
        validated: Csn | None = None,
        shards: Collection[ShardId] | None = None,
        recorded: Callable[[], None] | None = None,
        phase: Phase = ONE_PHASE,
    ) -> CommitResult:
        """Make `txn` durable at `ts` with one write to the txns shard. Does not apply it. `phase`: of two-phase commit.

        `UpperMismatch`: nothing happened, commit again at the CSN it names or above; nothing is rewritten.
        `validated`: the caller has checked the transaction against every commit below this CSN; the result is
        `UpperMismatch` when one of `shards` (default: those it writes to) was written at or above it since.
        `recorded` is called once the txns shard names the transaction, before its last uploads are waited for.

        Raises CatalogConflict (definitions changed since the snapshot they were worked out from), UnknownShard
        (a table was dropped meanwhile), StoreFull (also while there is little room left and the transaction adds
        data), NotPrepared, PreparedAlready, Determinate (nothing happened), Indeterminate (cannot be known).
        """
        self._leases.check_not_deposed()
        # NOTE: a caller that is cancelled must not leave a commit half finished in this process.
        return await asyncio.shield(self._commit(txn, ts, validated, shards, recorded, phase))

    async def _commit(
        self,
        txn: Txn,
        ts: Csn,
        validated: Csn | None,
        shards: Collection[ShardId] | None,
        recorded: Callable[[], None] | None,
        phase: Phase,
    ) -> CommitResult:
        sealed = await txn.seal()
        if self._consensus.is_low and _adds_data(sealed) and phase.ends is None:
            txn.unseal()
            raise StoreFull("the room that is left is kept for what frees some")
        catalog = None
        if sealed.catalog_updates and phase.prepare is None:
            expected = sealed.catalog_expected
            assert expected is not None
            if self._catalog.is_behind:
                await self._catalog.catch_up()
            catalog = await self._catalog.writes_for(sealed.catalog_updates, expected)
        watched = txn.shards if shards is None else shards
        parts = [part for item in sealed.shards for part in item.parts]
        # The files of a prepared transaction are the environment's, whoever wrote them.
        owners = self._parts.other_owners(sealed.shards) if phase.ends is None else frozenset()
        promised = self._parts.unfinished(parts)
        if promised and (sealed.has_definitions or phase.prepare is not None):
            # Definitions are never staged: a reader of the catalog does not wait for somebody's upload.
            failure = await self._parts.finished(part.key for part in promised)
            if failure is not None:
                txn.unseal()
                raise part_not_stored(failure) from failure
            promised = ()
        if promised:

            async def publish() -> None:
                await self._oracle.apply_write("user", ts, wait=False)
                if recorded is not None:
                    recorded()

            try:
                result = await self._staging.commit_staged(
                    sealed,
                    promised,
                    ts=ts,
                    validated=validated,
                    shards=watched,
                    owners=owners,
                    recorded=publish,
                    known=phase.known,
                )
            except PartPrevented:
                txn.unseal()
                return UpperMismatch(least_committable=self._txns_shard.cache.upper)
            except Determinate:
                txn.unseal()
                raise
        else:
            result = await self._txns_shard.commit_at(
                sealed, ts=ts, catalog=catalog, validated=validated, shards=watched, owners=owners, phase=phase
            )
        if isinstance(result, Committed):
            self._parts.committed(parts)
            if phase.prepare is not None:
                return result
            for item in sealed.shards:
                if item.create:
                    self._handles.created(item.shard)
            if catalog is not None:
                await self._publish_definitions(result.ts)
            self._applier.apply_soon()
        return result

    async def _publish_definitions(self, ts: Csn) -> None:
        """Make the definitions that committed at `ts` visible here.

        NOTE: never raises for a failing store. The commit is durable, and its caller must not hear otherwise.
        """
        for delay in PUBLISH_DELAYS_S:
            try:
                await self._catalog.catch_up()
                await self._oracle.apply_write("catalog", ts)
            except (Determinate, Indeterminate) as error:
                log.warning("definitions are committed but not visible yet", csn=ts, error=str(error))
                await self._clock.sleep(delay)
            else:
                return


def _adds_data(sealed: SealedTxn) -> bool:
    """Whether the store has less room afterwards; who drops something may add what that takes."""
    if any(item.drop for item in sealed.shards):
        return False
    return any(item.parts or item.create for item in sealed.shards)
