"""DELETE of whole parts: a file of which every row is sure to be deleted, going by its statistics, is deleted as it is.

Nothing of it is read or written (`storage.shards.whole_deletions`): to delete a partition costs what its files are in
number. The table is locked against other writers then, as where an engine deletes by itself.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from msgspec.structs import replace

from adapter.changes.constraints.target import Target
from adapter.changes.sure_conditions import SureCondition, sure_condition, surely_holds
from adapter.execution.statement import Running
from adapter.queries.prepared_read import PreparedRead
from adapter.transactions.snapshots import ResolvedTables
from planner.ir import nodes as ir
from planner.ir.rewrite import outermost_relations
from storage.catalog.temporary import FIRST_TEMPORARY_OID
from storage.off_loop import computed
from storage.shards.parts import PROVISIONAL_ROW_ID, ROW_ID, Part
from storage.shards.whole_deletions import WHOLE_FORMAT

MIN_ROWS = 5_000
"""Files that have fewer rows all together are read: a table is not locked for them."""

MAX_DELETED_ROWS = 1_000_000
"""Of so many deletions it is found out which files they hit; of more they may hit all that their ids span."""


def changes_unseen(target: Target) -> bool:
    """Whether rows of `target` that go need not pass this process: those that others refer to do, since what refers to
    them may have to follow, row by row."""
    return bool(target.names) and (target.keys is None or not target.keys.referenced)


async def whole_parts(
    running: Running, read: PreparedRead, target: Target
) -> tuple[tuple[Part, ...], PreparedRead | None]:
    """The parts of `target` all of whose rows `read`, which finds what a DELETE deletes, is sure to find; and the read
    of the others that may have such rows, None where there are none."""
    oid = target.relation.oid
    table = read.resolved.inputs.get(oid)
    if table is None or oid >= FIRST_TEMPORARY_OID or read.engine is None or read.paths:
        return (), read
    condition = _condition(read, oid)
    if condition is None:
        return (), read
    found = [
        part
        for part in table.inserts
        if part.key is not None
        and part.id >= 0
        and part.row_id_bounds[1] < PROVISIONAL_ROW_ID
        and surely_holds(condition, part)
    ]
    if sum(part.rows for part in found) < MIN_ROWS:
        return (), read
    if table.deletes:
        found = await _untouched(running, found, table.deletes)
    # NOTE: while servers of an earlier version may be at work, the rows are read as they are by those.
    if not found or not await running.services.env.formats.allows(WHOLE_FORMAT):
        return (), read
    gone = {part.id for part in found}
    left = [part for part in table.inserts if part.id not in gone or part.id < 0]
    return tuple(found), _of_parts(read, oid, tuple(left))


def _condition(read: PreparedRead, oid: int) -> SureCondition | None:
    """What a row must meet to be found; None where conditions on single columns do not say all of it."""
    rel, filters = read.query.rel, list[ir.Scalar]()
    while not isinstance(rel, ir.Scan):
        if isinstance(rel, ir.Project) and not filters and not any(outermost_relations(rel.exprs)):
            rel = rel.input
        elif isinstance(rel, ir.Filter):
            filters.append(rel.condition)
            rel = rel.input
        else:
            return None
    if rel.relation_oid != oid:
        return None
    columns = {f.id: f"c{f.origin.attnum}" for f in rel.fields if f.origin is not None and f.id != rel.row_id}
    return sure_condition(filters, columns, read.params)


async def _untouched(running: Running, parts: list[Part], deletes: tuple[Part, ...]) -> list[Part]:
    """Those of `parts` of which nothing is deleted yet."""
    if sum(part.rows for part in deletes) > MAX_DELETED_ROWS:
        spans = [part.row_id_bounds for part in deletes]
        return [part for part in parts if not any(_overlap(part.row_id_bounds, span) for span in spans)]
    reader = running.services.env.reader
    arrays = [np.asarray((await reader.read_part(part, [ROW_ID])).column(0)) for part in deletes]
    ids = await computed(sum(map(len, arrays)), lambda: np.sort(np.concatenate(arrays)))
    kept: list[Part] = []
    for part in parts:
        low, high = part.row_id_bounds
        if np.searchsorted(ids, low, "left") == np.searchsorted(ids, high, "right"):
            kept.append(part)
    return kept


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _of_parts(read: PreparedRead, oid: int, kept: tuple[Part, ...]) -> PreparedRead | None:
    """`read` with these parts of the table."""
    table = read.resolved.inputs[oid]
    if not kept:
        return None
    assert read.engine is not None
    left = replace(table, inserts=kept, bytes=sum(p.bytes for p in kept), rows=sum(p.rows for p in kept))
    inputs = {**read.resolved.inputs, oid: left}
    resolved = ResolvedTables(inputs=inputs, total_parts=read.resolved.total_parts, needed=read.resolved.needed)
    stream = partial(read.engine.execute, read.query, inputs, read.params, read.context, extra=read.at_hand)
    return replace(read, resolved=resolved, stream=stream)
