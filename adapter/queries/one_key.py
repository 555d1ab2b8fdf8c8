"""Queries that read the rows of one whole key, run without an engine by what was worked out with their plan."""

from __future__ import annotations

from collections.abc import Sequence

from adapter.execution.statement import Running
from adapter.plans.key_reads import KeyRead
from adapter.plans.predicates import ScanTemplate, bind_templates
from adapter.plans.row_values import Given
from adapter.queries.by_index.key_scan import rows_by_key_values
from adapter.results import RecordBatch
from adapter.store_errors import CONCURRENT_DDL, serialization_failure
from adapter.transactions.transaction import UNREAD, NeedsSnapshot, TableRead
from storage.errors import AsOfNotReadable, UnknownShard


async def rows_of_key(running: Running, read: KeyRead, templates: Sequence[ScanTemplate]) -> RecordBatch | None:
    """The result of a query that reads the rows of one key, which is recorded as read; `templates` are the query's.

    None when an engine has to compute it. Raises 40001 when its snapshot cannot be read.
    """
    transaction, relation = running.transaction, read.relation
    if transaction.state in UNREAD:
        raise NeedsSnapshot
    snapshot, shard, params = transaction.snapshot, relation.shard, running.params
    if snapshot is None or snapshot.ahead or shard is None:
        return None
    if not transaction.is_own_table(relation):
        needed = bind_templates(templates, params)[relation.oid]
        transaction.record_read(
            TableRead(relation_oid=relation.oid, shard=shard, as_of=snapshot.csn, conjunctions=needed)
        )
    keys = [read.key(params)]
    try:
        found = await rows_by_key_values(running.services.env, transaction, relation, read.index, keys, read.columns)
    except (UnknownShard, AsOfNotReadable) as error:
        raise serialization_failure(CONCURRENT_DDL) from error
    return read.answer(found, Given(params, transaction.started_at, running.started_at))
