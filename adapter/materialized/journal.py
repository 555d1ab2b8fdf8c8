"""The journal of a materialized view: a shard of one row that says what the view's stored rows are.

Each refresh replaces the row in the transaction that writes the rows, so the two never disagree, and of two refreshes
that begin from the same row only one can commit. The *frontier* is the CSN of which the stored rows are: what the
view's query gave there. A view that was never filled, or was copied with its database, has no row.
"""

from __future__ import annotations

import pyarrow as pa
from msgspec import Struct

from storage.bounded_map import BoundedMap
from storage.environment.environment import Environment
from storage.ids import ShardId
from storage.shards.parts import ROW_ID
from storage.timestamps.csn import Csn
from storage.transactions.txn import Txn

JOURNAL_SCHEMA = pa.schema([
    pa.field("c1", pa.int64()),
    pa.field("c2", pa.int64()),
    pa.field("c3", pa.float64()),
    pa.field("c4", pa.int64()),
    pa.field("c5", pa.string()),
    pa.field("c6", pa.string()),
])  # fmt: skip

UNKNOWN = ""
"""`Refresh.inputs` of rows that are of no moment: the transaction had changed what it read."""

_READ_AT = "@"
"""Stands in the last column between `inputs` and `read_at`."""

MAX_KEPT = 1000
"""Journals whose newest row is at hand."""


class Refresh(Struct, frozen=True, kw_only=True):
    """What a refresh left. `at_us` is when it ended (microseconds since 1970), `cost_ms` how long it took, `changes`
    the rows that it wrote and deleted, `how` what it did, and `inputs` which definitions it read (`freshness`).
    `read_at`, when it is not 0, is the CSN at which it read the stored rows of other views; they were of the frontier.
    """

    frontier: Csn
    at_us: int
    cost_ms: float
    changes: int
    how: str
    inputs: str
    read_at: Csn = Csn(0)
    row_id: int = -1


_kept: BoundedMap[ShardId, tuple[Csn, Refresh | None]] = BoundedMap(max_entries=MAX_KEPT)
"""By journal, with the CSN of its last write."""


async def last_refresh(env: Environment, journal: ShardId, as_of: Csn) -> Refresh | None:
    """The refresh whose result is stored at `as_of`. Raises as `ShardReader.snapshot`."""
    last_write = env.reader.last_write(journal)
    known = _kept.get(journal)
    if known is not None and known[0] == last_write <= as_of:
        return known[1]
    snapshot = await env.reader.snapshot(journal, as_of)
    deleted: set[int] = set()
    for part in snapshot.deletes:
        deleted.update((await env.reader.read_part(part, [ROW_ID])).column(ROW_ID).to_pylist())
    found: Refresh | None = None
    for part in snapshot.inserts:
        table = await env.reader.read_part(part, [ROW_ID, *JOURNAL_SCHEMA.names])
        for row in table.to_pylist():
            if row[ROW_ID] not in deleted and (found is None or row[ROW_ID] > found.row_id):
                inputs, _, read_at = row["c6"].partition(_READ_AT)
                found = Refresh(
                    frontier=Csn(row["c1"]), at_us=row["c2"], cost_ms=row["c3"], changes=row["c4"], how=row["c5"],
                    inputs=inputs, read_at=Csn(int(read_at or 0)), row_id=row[ROW_ID],
                )  # fmt: skip
    if last_write <= as_of and env.reader.last_write(journal) == last_write:
        _kept.put(journal, (last_write, found))
    return found


def write_refresh(txn: Txn, journal: ShardId, refresh: Refresh, before: Refresh | None) -> None:
    """Put `refresh` in place of `before`, as part of the transaction."""
    if before is not None:
        txn.delete(journal, _row(before).add_column(0, ROW_ID, pa.array([before.row_id], pa.int64())))
    txn.write(journal, _row(refresh))


def _row(refresh: Refresh) -> pa.Table:
    inputs = f"{refresh.inputs}{_READ_AT}{refresh.read_at}" if refresh.read_at else refresh.inputs
    values = (refresh.frontier, refresh.at_us, refresh.cost_ms, refresh.changes, refresh.how, inputs)
    columns = [pa.array([value], field.type) for value, field in zip(values, JOURNAL_SCHEMA, strict=True)]
    return pa.table(columns, schema=JOURNAL_SCHEMA)
