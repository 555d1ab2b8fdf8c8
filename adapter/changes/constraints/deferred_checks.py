"""Keys that were written under a deferred constraint: they are checked when it becomes immediate, or by the COMMIT."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from adapter.changes.constraints.key_checks import (
    check_referring,
    check_unique,
    check_unreferenced,
    find,
    gone_keys,
    mixed,
    mixed_rows,
)
from adapter.changes.constraints.overlap_checks import check_overlaps
from adapter.changes.constraints.table_keys import ForeignKey, foreign_key
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.plans.key_indexes import constraint_index, index_definition
from adapter.queries.by_index.key_scan import distinct_keys
from adapter.spilling.key_runs import Keys
from storage.catalog.model import Constraint, Index, Relation
from storage.off_loop import computed
from storage.shards.indexes.keys import Ints


async def end_statement(running: Running) -> None:
    """A statement that changes rows is at its end. Outside a block it is all of its transaction, so that what is
    deferred is checked now: after everything that is not."""
    if running.transaction.implicit and running.transaction.pending.deferred.length:
        await check_deferred(running)


async def check_deferred(running: Running, constraints: frozenset[int] | None = None) -> None:
    """Check what was deferred: of `constraints`, or of all."""
    transaction = running.transaction
    due = [held for held in transaction.pending.deferred if constraints is None or held.constraint in constraints]
    if not due:
        return
    catalog = own_catalog(running)
    for held in due:
        constraint = catalog.get(held.constraint)
        if not isinstance(constraint, Constraint):
            continue  # It was dropped meanwhile.
        if constraint.kind in "pu":
            relation = catalog.get(constraint.relation)
            assert isinstance(relation, Relation)
            index = constraint_index(relation, constraint)
            await check_unique(running, relation, constraint, index, [held.keys])
            continue
        if constraint.kind == "x":
            relation, record = catalog.get(constraint.relation), catalog.get(constraint.index or 0)
            assert isinstance(relation, Relation)
            assert isinstance(record, Index)
            index = index_definition(relation, record, running.engines.row_values)
            if record.overlapping:
                await check_overlaps(running, relation, record, index, held.keys)
            else:
                await check_unique(running, relation, record, index, [held.keys])
            continue
        key = foreign_key(catalog, constraint)
        if held.referenced:
            await check_unreferenced(running, key, await gone_keys(running, key, held.keys))
        else:
            await _check_mixed(running, key, held.keys)
            # Only rows that are still there refer to anything.
            once = await computed(len(held.keys[0]), partial(distinct_keys, held.keys))
            found = await find(running, key.child, key.child_index, once)
            await check_referring(running, key, await computed(len(found.keys), partial(_taken, once, found.keys)))
    left = () if constraints is None else transaction.pending.deferred
    transaction.keep_deferred(held for held in left if constraints is None or held.constraint not in constraints)


async def _check_mixed(running: Running, key: ForeignKey, keys: Keys) -> None:
    """23503 when a row that is still there has a key, of `keys`, that MATCH FULL forbids."""
    rows = mixed_rows(key, keys)
    if len(rows):
        index = replace(key.child_index, nulls_not_distinct=True)
        if len((await find(running, key.child, index, _taken(keys, rows))).keys):
            raise mixed(running, key)


def _taken(keys: Keys, numbers: Ints) -> Keys:
    """Those of `keys` that have one of `numbers`, each once."""
    at = pa.array(np.unique(numbers))
    return tuple(column.take(at) for column in keys)
