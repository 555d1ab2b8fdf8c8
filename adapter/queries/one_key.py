"""Queries of rows that an index finds by keys or a range of them, run without an engine by what was worked out with
their plan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from adapter.execution.statement import Running, given_to
from adapter.plans.computed.constant_rows import NeedsEngine
from adapter.plans.computed.row_values import Given
from adapter.plans.key_reads import MAX_ROWS, KeyRead
from adapter.plans.predicates import ScanTemplate, bind_templates
from adapter.queries.by_index.key_scan import few_rows_in_range, rows_by_key_values, visible_parts
from adapter.results import RecordBatch
from adapter.store_errors import CONCURRENT_DDL, serialization_failure
from adapter.transactions.commit_request import TableRead
from adapter.transactions.pending import UNREAD
from adapter.transactions.transaction import NeedsSnapshot
from planner.ir.nodes import Literal
from storage.catalog.temporary import FIRST_TEMPORARY_OID
from storage.errors import AsOfNotReadable, UnknownShard
from storage.shards.indexes.definition import StoredColumn
from storage.shards.indexes.reading.found import Found
from storage.shards.indexes.reading.reader import KeyReader
from storage.shards.indexes.reading.sources import PartList
from storage.shards.indexes.scalar_keys import plain, plain_scalar
from storage.shards.parts import ROW_ID


async def rows_of_key(
    running: Running, read: KeyRead, templates: Sequence[ScanTemplate], params: tuple[Literal, ...]
) -> RecordBatch | None:
    """The result of a query that reads rows by keys, which is recorded as read; `templates` and `params` are the
    query's.

    None when an engine has to compute it. Raises 40001 when its snapshot cannot be read.
    """
    transaction, relation = running.transaction, read.relation
    if transaction.state in UNREAD:
        raise NeedsSnapshot
    snapshot, shard = transaction.snapshot, relation.shard
    if snapshot is None or snapshot.ahead or shard is None:
        return None
    given = given_to(running, params)
    try:
        found = await _found(running, read, given)
    except NeedsEngine:
        return None
    except (UnknownShard, AsOfNotReadable) as error:
        raise serialization_failure(CONCURRENT_DDL) from error
    if found is None:
        return None
    if relation.oid < FIRST_TEMPORARY_OID:
        oid, index = running.session.database_oid, read.access.record.oid
        running.services.activity.found(oid, relation.oid, index, len(found.row_ids))
    if not transaction.is_own_table(relation):
        needed = bind_templates(templates, params)[relation.oid]
        transaction.record_read(
            TableRead(relation_oid=relation.oid, shard=shard, as_of=snapshot.csn, conjunctions=needed)
        )
    return read.program.answer(found, given)


async def is_found_by_key(running: Running, read: KeyRead, params: tuple[Literal, ...]) -> bool:
    """Whether `rows_of_key` would look the rows up, as far as that is known before any is read: for EXPLAIN."""
    transaction, relation, access = running.transaction, read.relation, read.access
    if transaction.state in UNREAD:
        raise NeedsSnapshot
    if transaction.snapshot is None or transaction.snapshot.ahead:
        return False
    given = given_to(running, params)
    try:
        if access.whole:
            access.keys(given)
            return True
        keys, limit = access.range(given), read.limit(given)
        if keys is None or (limit is not None and limit <= MAX_ROWS):
            return True
        env = running.services.env
        parts, local = await visible_parts(env, transaction, relation)
        return await env.keys.count(parts, access.index, keys, local=local) <= MAX_ROWS
    except NeedsEngine:
        return False
    except (UnknownShard, AsOfNotReadable) as error:
        raise serialization_failure(CONCURRENT_DDL) from error


async def _found(running: Running, read: KeyRead, given: Given) -> Found | None:
    """The rows; None when they are too many. Raises NeedsEngine."""
    env, transaction, relation, access = running.services.env, running.transaction, read.relation, read.access
    columns = read.program.columns
    if access.whole:
        return await rows_by_key_values(env, transaction, relation, access.index, access.keys(given), columns)
    keys = access.range(given)
    if keys is None:
        return await rows_by_key_values(env, transaction, relation, access.index, (), columns)
    return await few_rows_in_range(
        env, transaction, relation, access.index, keys, columns,
        descending=access.backward, limit=read.limit(given), most=MAX_ROWS,
    )  # fmt: skip


def found_at_once(reader: KeyReader, parts: PartList, read: KeyRead, given: Given) -> Found | None:
    """The rows among `parts`; None when they have to be waited for, or are too many. Raises NeedsEngine."""
    access, columns = read.access, read.program.columns
    if access.whole:
        return reader.lookup_now(parts, access.index, access.keys(given), columns)
    keys, limit = access.range(given), read.limit(given)
    if keys is None:
        return reader.lookup_now(parts, access.index, (), columns)
    if limit is None or limit > MAX_ROWS:
        count = reader.count_now(parts, access.index, keys)
        if count is None or count > MAX_ROWS:
            return None
        limit = None
    return reader.range_now(parts, access.index, keys, columns, descending=access.backward, limit=limit)


def over_rows_of_key(
    running: Running, read: KeyRead, params: tuple[Literal, ...], rows: pa.Table
) -> RecordBatch | None:
    """The result of a query of one whole key over `rows` (in `scan_schema`) instead of what that key finds: over those
    that have it. None when an engine has to compute it."""
    access, given, wanted = read.access, given_to(running, params), read.program.columns
    if any(rows.schema.field(column.name).type != column.type for column in wanted):
        return None
    try:
        keys = access.keys(given)
    except NeedsEngine:
        return None
    kept: list[int] = []
    columns = access.index.columns
    values = [rows.column(column.source.name) for column in columns if isinstance(column.source, StoredColumn)]
    for key in keys:
        whole = [plain(column, value) for column, value in zip(columns, key, strict=True)]
        kept += [
            at
            for at in range(rows.num_rows)
            if [plain_scalar(column, each[at]) for column, each in zip(columns, values, strict=True)] == whole
        ]
    at = pa.array(kept, pa.int64())
    arrays = [rows.column(column.name).take(at).combine_chunks() for column in wanted]
    batch = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in wanted])
    row_ids = rows.column(ROW_ID).to_numpy()[kept]
    return read.program.answer(Found(keys=np.zeros(len(kept), np.int64), row_ids=row_ids, rows=batch), given)
