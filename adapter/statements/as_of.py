"""SELECT ... AS OF: one statement that reads a moment of the past.

The moment is evaluated first, in the present; the statement is then bound with the catalog of then. Its transaction
goes on as it was, unless it has written, for what it wrote has no place in the past (25001).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from adapter.execution.session_state import SessionState
from adapter.execution.statement import Running
from adapter.transactions.past.looking_back import look_back, past_snapshot
from adapter.transactions.past.moments import moment
from adapter.transactions.pending import State
from planner.syntax.parse import Parsed
from storage.catalog.model import CatalogSnapshot
from storage.timestamps.csn import Csn


async def past_catalog(session: SessionState, parsed: Parsed) -> CatalogSnapshot | None:
    """The catalog that `parsed` is prepared with when it says AS OF with a constant; None: that of the present. Raises
    what `past_snapshot` does."""
    if parsed.extension is None or parsed.extension.as_of is None or parsed.extension.writes:
        return None
    (target,) = parsed.extension.as_of.tree.target_list
    constant = target.res_target.val.a_const
    text = constant.sval.sval or str(constant.ival.ival or constant.fval.fval or "")
    if not text:
        return None
    csn = moment(text, session.values.flat["TimeZone"], "AS OF")
    return (await past_snapshot(session.services.env, csn, session.database_oid)).catalog


@asynccontextmanager
async def reading(running: Running, csn: Csn) -> AsyncIterator[None]:
    """Within it, the transaction reads at `csn`. Raises what `past_snapshot` and `look_back` do."""
    transaction, session = running.transaction, running.session
    snapshot = await past_snapshot(running.services.env, csn, session.database_oid)
    before = transaction.snapshot, transaction.state, transaction.looks_back
    look_back(transaction, snapshot)
    try:
        yield
    finally:
        if transaction.state is State.READING:
            transaction.snapshot, transaction.state, transaction.looks_back = before
