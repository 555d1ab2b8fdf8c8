"""An environment: one blob root and one consensus store, and everything that lives on them.

`Environment` is what the storeys above use: it begins transactions, and has the parts that commit them (`committer`)
and that answer everything else (`reader`, `leases`, `oracle`, `catalog`). `storage.environment.opening` makes it; in
the background it applies what is committed, keeps the process's lease, and lets maintenance run. Everything survives
``kill -9`` at any moment:

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
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from storage.catalog.oids import OidBlocks
from storage.catalog.store import CatalogStore
from storage.clock import Clock, Randomness
from storage.durable.formats import FormatGate
from storage.environment.background import Background
from storage.environment.committing import Committer
from storage.errors import Determinate, EnvironmentFenced, Indeterminate
from storage.ids import ShardId, new_shard_id
from storage.membership.leases import Leases
from storage.membership.peers import Peers
from storage.reading.outcomes import Outcomes
from storage.reading.reader import ShardReader
from storage.reading.subscribe import SubscribeEvent, subscribe
from storage.shards.indexes.reading.reader import KeyReader
from storage.shards.part_store import PartStore
from storage.stores.blob import Blob
from storage.stores.consensus import Consensus
from storage.stores.counting import OperationCounts
from storage.timestamps.csn import Csn
from storage.timestamps.switching import SwitchingOracle
from storage.transactions.applier import Applier
from storage.transactions.parallel_commit import ParallelCommit
from storage.transactions.shard_handles import ShardHandles
from storage.transactions.txn import Txn
from storage.transactions.txns_cache import TxnsCache
from storage.transactions.txns_shard import TxnsShard
from storage.transactions.txns_state import Prepared
from storage.transactions.xid_blocks import XidBlocks
from storage.upkeep.maintenance import Maintenance
from storage.upkeep.pruning_audit import PruningAudit
from storage.upkeep.retention import Retention
from storage.upkeep.shared_files import SharedFiles
from storage.upkeep.troubles import Troubles


@dataclass(kw_only=True, eq=False)
class Environment:
    """See the module's contract. `id` is the same for all processes of the environment, `process` this one's name."""

    id: str
    process: str
    formats: FormatGate
    blob: Blob
    consensus: Consensus
    clock: Clock
    random: Randomness
    parts: PartStore
    cache: TxnsCache
    handles: ShardHandles
    txns_shard: TxnsShard
    applier: Applier
    staging: ParallelCommit
    xids: XidBlocks
    oids: OidBlocks
    leases: Leases
    retention: Retention
    peers: Peers
    oracle: SwitchingOracle
    reader: ShardReader
    sharing: SharedFiles
    keys: KeyReader
    outcomes: Outcomes
    catalog: CatalogStore
    pruning: PruningAudit
    maintenance: Maintenance
    troubles: Troubles
    committer: Committer
    background: Background
    store_counts: Mapping[str, OperationCounts] = field(default_factory=dict)
    """What was asked of the stores ("blob", "consensus"), where somebody counts."""
    _closers: list[contextlib.AsyncExitStack] = field(default_factory=list)
    _closed: bool = False

    @property
    def deposed(self) -> asyncio.Event:
        """Set once this process has learnt that the others took it for dead: it must stop."""
        return self.leases.deposed

    async def close(self) -> None:
        """Finish: apply and tidy what is committed, give up the lease. Idempotent.

        The stores stay open, unless `on_close` was told of them.
        """
        if self._closed:
            return
        self._closed = True
        await self.background.stop()
        await self.pruning.finished()
        # What cannot be finished now is finished by the next process, as after a crash.
        with contextlib.suppress(Determinate, Indeterminate, EnvironmentFenced):
            await self.applier.apply_all()
            await self.txns_shard.tidy(release=True)
        await self.oracle.close()
        for stack in self._closers:
            await stack.aclose()

    def on_close(self, stack: contextlib.AsyncExitStack) -> None:
        """Close `stack` at the end of `close`."""
        self._closers.append(stack)

    def new_shard_id(self) -> ShardId:
        """An id for a new shard."""
        return new_shard_id(self.random)

    def begin(self, xid: int | None = None) -> Txn:
        """An empty transaction. One with an `xid` can be asked for with `outcomes.status`, and commits at most once."""
        return Txn(self.parts, self.catalog.current().csn, xid)

    def prepared_txn(self, record: Prepared) -> Txn:
        """What a prepared transaction will write, its catalog updates apart. It may be made any number of times; the
        files are the record's, so it must not be abandoned."""
        return Txn.of(self.parts, self.catalog.current().csn, record.writes, record.xid)

    async def fill(self, shard: ShardId, as_of: Csn) -> None:
        """Write the shard's physical upper past `as_of`, for those who read it without the txns shard."""
        await self.reader.snapshot(shard, as_of)
        await self.txns_shard.make_explicit()
        await self.txns_shard.fill(shard, as_of)

    def subscribe(self, shard: ShardId, as_of: Csn, until: Csn | None = None) -> AsyncIterator[SubscribeEvent]:
        """The snapshot at `as_of`, then every later change in CSN order with progress; see
        `storage.reading.subscribe`."""
        return subscribe(self.cache, self.reader, self.leases, shard, as_of, until)
