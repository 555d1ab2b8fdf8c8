"""Giving a transaction the snapshot of a moment in the past, and the present again.

While it looks back, a transaction reads what was committed up to that CSN, with the catalog of then, and writes
nothing (25006). What it reads is kept for it: each table's state gets a hold at the CSN before the table is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapter.store_errors import too_old
from adapter.transactions.pending import Snapshot, State
from adapter.transactions.transaction import Transaction
from planner.errors import ActiveSqlTransaction, InvalidCatalogName, InvalidParameterValue
from storage.errors import AsOfNotReadable
from storage.timestamps.csn import Csn, csn_ms

if TYPE_CHECKING:
    from storage.environment.environment import Environment

SAME_MOMENT_MS = 1
"""How far a moment may be ahead of the clock that is now: a time means the whole of its millisecond."""

_OPEN = (State.NEW, State.PROVISIONAL, State.READING)


async def past_snapshot(env: Environment, csn: Csn, database_oid: int) -> Snapshot:
    """The snapshot of `csn` in a database. Raises 22023 when that is still to come, 72000 when it is kept no more, and
    3D000 when the database was not there yet."""
    await _reached(env, csn)
    try:
        whole = await env.catalog.snapshot_at(csn)
    except AsOfNotReadable as error:
        raise too_old(error) from error
    catalog = whole.databases.get(database_oid)
    if catalog is None:
        raise InvalidCatalogName(f"the database did not exist at CSN {csn}")
    return Snapshot(csn=csn, catalog=catalog)


async def _reached(env: Environment, csn: Csn) -> None:
    """Return when nothing can be committed at or before `csn` any more. Raises 22023 when that is still to come.

    CSNs stand still while nobody commits. So a time that the clock has passed may be above all of them: an empty commit
    brings them up to the clock.
    """
    while csn > await env.oracle.read_ts("user"):
        ahead_ms = csn_ms(csn) - env.clock.now_ms()
        if ahead_ms > SAME_MOMENT_MS:
            raise InvalidParameterValue(f"CSN {csn} is in the future")
        await env.clock.sleep(max(ahead_ms + 1, 0) / 1000)
        await env.txns_shard.advance_to_now(env.oracle)


def look_back(transaction: Transaction, snapshot: Snapshot) -> None:
    """Let the statements from now on read at `snapshot`. Raises 25001 when the transaction has written."""
    if transaction.snapshot is snapshot or transaction.state in (State.FAILED,):
        return
    if transaction.has_writes or transaction.state not in _OPEN:
        raise ActiveSqlTransaction("a transaction that has changed something cannot look back")
    transaction.snapshot, transaction.state = snapshot, State.READING
    transaction.looks_back = True


def look_ahead(transaction: Transaction) -> None:
    """Let the statements from now on read the present, if they did not."""
    if transaction.looks_back and transaction.state in _OPEN:
        transaction.snapshot, transaction.state, transaction.looks_back = None, State.NEW, False
