"""A SERIALIZABLE transaction whose snapshot has become outdated moves on to a newer one, if that makes no difference.

A statement of a block waits for a row, and finds that somebody has changed it since the block's snapshot. PostgreSQL
fails the block. But if nothing that its earlier statements have read has changed since, the block would have been told
the same, had it begun now: so it goes on as if it had. What it has written is held against others since its first
snapshot, as before, when it commits. So of many blocks that meet at one row, none has worked in vain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapter.transactions.transaction import Transaction
from adapter.transactions.validation import has_changed
from storage.errors import AsOfNotReadable, UnknownShard

if TYPE_CHECKING:
    from storage.environment.environment import Environment


async def moved_on(env: Environment, transaction: Transaction) -> bool:
    """Whether `transaction` has a newer snapshot now, at which the statement that runs has to begin again. That must
    not have written anything."""
    snapshot = transaction.snapshot
    if snapshot is None or not transaction.may_move_on:
        return False
    csn = await env.oracle.read_ts("user")
    if env.catalog.current(transaction.locks.owner.database_oid) is not snapshot.catalog:
        return False
    try:
        for read in transaction.reads_before:
            if await has_changed(env, read, csn):
                return False
    except (AsOfNotReadable, UnknownShard):
        return False
    transaction.move_on(csn)
    return True
