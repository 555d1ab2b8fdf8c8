"""What became of a transaction, for a client that did not hear: read back from the txns shard.

A transaction that commits with an xid leaves its outcome in the txns shard, with the commit itself. What is not there
has not committed; whether it still can is told by who drew the xid (`storage.transactions.xids`): a process that is
alive may yet commit it, one without a lease never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from storage.errors import SnapshotTooOld
from storage.timestamps.csn import Csn
from storage.transactions.xid_blocks import pg_snapshot
from storage.transactions.xids import PgSnapshot

if TYPE_CHECKING:
    from storage.environment.environment import Environment
    from storage.transactions.txns_state import TxnsState

TxidStatus: TypeAlias = Literal["committed", "aborted", "in progress", "unknown"]


async def txid_status(env: Environment, xid: int) -> TxidStatus:
    """The outcome of `xid`. For a transaction of this process the caller has to know whether it still runs.

    ``in progress``: it runs in another process, or ran in one that may still be alive. ``unknown``: its outcome has
    been forgotten (after `MAX_OUTCOMES` more commits), or nobody knows who drew the xid. Raises ValueError for an xid
    that nobody has drawn yet.
    """
    if await _committed(env, xid):
        return "committed"
    block = await env.xids.block_of(xid)
    if block is None:
        return "unknown"
    if block.process == env.process:
        # NOTE: an attempt whose answer was lost may still be on its way. After one more write to the txns shard it
        # comes too late.
        await env.keep_alive()
    elif block.process in env.cache.state.leases:
        if env.is_dead(block.process):
            await env.txns.tidy(expired=[block.process])
        elif not await env.xids.is_over(xid, block.process):
            return "in progress"
    if await _committed(env, xid):
        return "committed"
    return "aborted" if _remembered(env.cache.state, block.csn) else "unknown"


async def _committed(env: Environment, xid: int) -> bool:
    await env.cache.durable.refresh()
    while True:
        record = next((r for r in env.cache.state.staged.values() if xid in r.xids), None)
        if record is None:
            return xid in env.cache.state.outcomes
        if record.txid in env.cache.implicit:
            return True
        await env.staging.wait_resolved(record)


def _remembered(state: TxnsState, csn: int) -> bool:
    """Whether the outcome of a commit at `csn` or above would still be there."""
    return state.forgotten_outcome < csn or not state.forgotten_outcome


async def current_snapshot(env: Environment, csn: Csn) -> PgSnapshot:
    """PostgreSQL's form of a snapshot at `csn`, right for the transactions of all processes. See
    `storage.transactions.xid_blocks`.

    Raises SnapshotTooOld when so much has committed since that it cannot be told any more.
    """
    while True:
        look = await env.xids.look()
        if env.xids.shared:
            await env.cache.durable.refresh()
        state = env.cache.state
        undecided = [
            record
            for record in state.staged.values()
            if record.xids and record.csn <= csn and record.txid not in env.cache.implicit
        ]
        if not undecided:
            break
        await env.staging.wait_resolved(undecided[0])
    if state.forgotten_outcome > csn:
        raise SnapshotTooOld(f"the transactions that committed after {csn} are not all remembered")
    committed = dict(state.outcomes)
    for record in state.staged.values():
        # NOTE: also one whose process is gone. It has not ended: whoever resolves it may yet find it committed.
        if record.csn > csn or record.txid in env.cache.implicit:
            committed.update(dict.fromkeys(record.xids, record.csn))
    return pg_snapshot(look, csn, committed, {*state.leases, env.process})


def committed_at(env: Environment, xid: int) -> Csn | None:
    """The CSN that `xid` committed at, as far as it is known here and remembered."""
    found = env.cache.state.outcomes.get(xid)
    if found is not None:
        return found
    records = (record for record in env.cache.state.staged.values() if record.txid in env.cache.implicit)
    return next((record.csn for record in records if xid in record.xids), None)
