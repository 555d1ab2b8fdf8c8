"""What became of a transaction, for a client that did not hear: read back from the txns shard.

A transaction that commits with an xid leaves its outcome in the txns shard, with the commit itself. What is not there
has not committed; whether it still can is told by who drew the xid (`storage.transactions.xids`): a process that is
alive may yet commit it, one without a lease never.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from storage.errors import SnapshotTooOld
from storage.membership.leases import Leases
from storage.membership.watch import LeaseWatch
from storage.timestamps.csn import Csn
from storage.transactions.parallel_commit import ParallelCommit
from storage.transactions.txns_shard import TxnsShard
from storage.transactions.txns_state import TxnsState
from storage.transactions.xid_blocks import XidBlocks, pg_snapshot
from storage.transactions.xids import PgSnapshot

UNDECIDED = Csn(2**63 - 1)
"""In place of the CSN of a commit that is yet to come."""

TxidStatus: TypeAlias = Literal["committed", "aborted", "in progress", "unknown"]


class Outcomes:
    """What one process can tell of the environment's transactions by their xids."""

    def __init__(
        self,
        *,
        txns_shard: TxnsShard,
        staging: ParallelCommit,
        xids: XidBlocks,
        leases: Leases,
        watch: LeaseWatch,
        process: str,
    ) -> None:
        self._txns_shard = txns_shard
        self._cache = txns_shard.cache
        self._staging = staging
        self._xids = xids
        self._leases = leases
        self._watch = watch
        self._process = process

    async def status(self, xid: int) -> TxidStatus:
        """The outcome of `xid`. For a transaction of this process the caller has to know whether it still runs.

        ``in progress``: it runs in another process, or ran in one that may still be alive. ``unknown``: its outcome
        has been forgotten (after `MAX_OUTCOMES` more commits), or nobody knows who drew the xid. Raises ValueError for
        an xid that nobody has drawn yet.
        """
        if await self._has_committed(xid):
            return "committed"
        if any(record.xid == xid for record in self._cache.state.prepared.values()):
            return "in progress"
        block = await self._xids.block_of(xid)
        if block is None:
            return "unknown"
        if block.process == self._process:
            # NOTE: an attempt whose answer was lost may still be on its way. After one more write to the txns shard
            # it comes too late.
            await self._leases.keep_alive()
        elif block.process in self._cache.state.leases:
            if self._watch.is_dead(block.process):
                await self._txns_shard.tidy(expired=[block.process])
            elif not await self._xids.is_over(xid, block.process):
                return "in progress"
        if await self._has_committed(xid):
            return "committed"
        return "aborted" if _remembered(self._cache.state, block.csn) else "unknown"

    async def _has_committed(self, xid: int) -> bool:
        await self._cache.durable.refresh()
        while True:
            record = next((r for r in self._cache.state.staged.values() if xid in r.xids), None)
            if record is None:
                return xid in self._cache.state.outcomes
            if record.txid in self._cache.implicit:
                return True
            await self._staging.wait_resolved(record)

    async def current_snapshot(self, csn: Csn) -> PgSnapshot:
        """PostgreSQL's form of a snapshot at `csn`, right for the transactions of all processes. See
        `storage.transactions.xid_blocks`.

        Raises SnapshotTooOld when so much has committed since that it cannot be told any more.
        """
        while True:
            look = await self._xids.look()
            if self._xids.shared:
                await self._cache.durable.refresh()
            state = self._cache.state
            undecided = [
                record
                for record in state.staged.values()
                if record.xids and record.csn <= csn and record.txid not in self._cache.implicit
            ]
            if not undecided:
                break
            await self._staging.wait_resolved(undecided[0])
        if state.forgotten_outcome > csn:
            raise SnapshotTooOld(f"the transactions that committed after {csn} are not all remembered")
        committed = dict(state.outcomes)
        for record in state.staged.values():
            # NOTE: also one whose process is gone. It has not ended: whoever resolves it may yet find it committed.
            if record.csn > csn or record.txid in self._cache.implicit:
                committed.update(dict.fromkeys(record.xids, record.csn))
        # One that is prepared runs on, also without the process that drew its xid.
        committed.update((record.xid, UNDECIDED) for record in state.prepared.values())
        return pg_snapshot(look, csn, committed, {*state.leases, self._process})

    def committed_at(self, xid: int) -> Csn | None:
        """The CSN that `xid` committed at, as far as it is known here and remembered."""
        found = self._cache.state.outcomes.get(xid)
        if found is not None:
            return found
        records = (record for record in self._cache.state.staged.values() if record.txid in self._cache.implicit)
        return next((record.csn for record in records if xid in record.xids), None)


def _remembered(state: TxnsState, csn: int) -> bool:
    """Whether the outcome of a commit at `csn` or above would still be there."""
    return state.forgotten_outcome < csn or not state.forgotten_outcome
