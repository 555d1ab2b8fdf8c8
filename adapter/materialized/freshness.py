"""Whether the stored rows of a materialized view are what its query gives at a transaction's snapshot.

They are when nothing that the query reads was written to since the frontier, and when the definitions that it goes
through are those that the refresh went through. For a view that is refreshed ``on commit`` a statement reads the stored
rows then, and otherwise binds the view's query in their place, so that it is always exact.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from adapter.materialized.journal import UNKNOWN, last_refresh
from adapter.transactions.commit_request import TableRead
from storage.bounded_map import BoundedMap
from storage.catalog.model import CatalogRecord, CatalogSnapshot, Relation
from storage.catalog.routines import Function
from storage.errors import AsOfNotReadable, UnknownShard
from storage.ids import ShardId
from storage.timestamps.csn import Csn

if TYPE_CHECKING:
    from adapter.transactions.transaction import Transaction
    from storage.environment.environment import Environment

MAX_CATALOGS = 8
"""Catalogs whose views are kept: of each database that is in use the newest, and some that transactions still have."""

_kept: BoundedMap[int, tuple[CatalogSnapshot, tuple[Relation, ...]]] = BoundedMap(max_entries=MAX_CATALOGS)
_digests: BoundedMap[int, tuple[CatalogSnapshot, str]] = BoundedMap(max_entries=1000)


def views_on_commit(catalog: CatalogSnapshot) -> tuple[Relation, ...]:
    """The materialized views of the catalog that are refreshed on commit."""
    known = _kept.get(id(catalog))
    if known is not None and known[0] is catalog:
        return known[1]
    views = tuple(view for view in materialized_views(catalog) if view.materialized.refresh == "on commit")  # type: ignore[union-attr]
    _kept.put(id(catalog), (catalog, views))
    return views


def materialized_views(catalog: CatalogSnapshot) -> Iterator[Relation]:
    """The materialized views of the catalog."""
    return (r for r in catalog.all() if isinstance(r, Relation) and r.materialized is not None)


def inputs_of(catalog: CatalogSnapshot, view: Relation) -> tuple[Relation, ...]:
    """The relations whose stored rows decide what the view's query gives: tables, and materialized views that show what
    their last refresh left. One that is refreshed on commit shows what those give that it reads, which are among them.
    """
    found = []
    for oid in view.depends_on:
        record = catalog.get(oid)
        if isinstance(record, Relation) and record.shard is not None:
            how = record.materialized
            if how is None or how.refresh != "on commit":
                found.append(record)
    return tuple(found)


def digest_of_inputs(catalog: CatalogSnapshot, view: Relation) -> str:
    """What tells the definitions that the view's query goes through, and the shards of the tables, apart from any that
    there were or will be under the same names."""
    known = _digests.get(view.oid)
    if known is not None and known[0] is catalog:
        return known[1]
    seen: list[object] = [view.definition]
    for oid in sorted(view.depends_on):
        match catalog.get(oid):
            case Relation() as record:
                columns = [(c.attnum, c.type_oid, c.typmod, c.missing) for c in record.live_columns()]
                is_exact = record.materialized is not None and record.materialized.refresh == "on commit"
                seen.append((oid, record.definition, record.shard, is_exact, columns))
            case Function() as record:
                seen.append((oid, record.body, record.sql_body))
            case record:
                seen.append((oid, repr(record)))
    digest = hashlib.sha256(repr(seen).encode()).hexdigest()[:32]
    _digests.put(view.oid, (catalog, digest))
    return digest


async def why_stale(env: Environment, transaction: Transaction, catalog: CatalogSnapshot, view: Relation) -> str | None:
    """Why the stored rows of `view` may not be what its query gives at the transaction's snapshot; None: they are."""
    how, snapshot = view.materialized, transaction.snapshot
    assert how is not None
    if snapshot is None:
        return "there is no snapshot yet"
    if snapshot.ahead:
        return "rows are read that are not durable yet"
    shards = {record.shard for record in inputs_of(catalog, view)}
    written = transaction.created_shards
    if transaction.txn is not None:
        written = written | transaction.txn.shards
    if not written.isdisjoint({*shards, view.shard, how.journal}):
        return "the transaction has changed what it reads"
    return await _why_stale_at(env, catalog, view, snapshot.csn)


async def _why_stale_at(env: Environment, catalog: CatalogSnapshot, view: Relation, csn: Csn) -> str | None:
    """See `why_stale`: of what is committed at `csn`."""
    inputs, how = inputs_of(catalog, view), view.materialized
    assert how is not None
    if has_row_security(catalog, inputs):
        return "a table that it reads has row-level security"
    try:
        found = await last_refresh(env, how.journal, csn)
        if found is None:
            return "it was not refreshed yet"
        if found.inputs == UNKNOWN or found.inputs != digest_of_inputs(catalog, view):
            return "definitions have changed since its last refresh"
        for record in inputs:
            assert record.shard is not None
            if await has_changed(env, record.shard, found.frontier, csn):
                return f"{record.name} has changed since its last refresh"
    except (AsOfNotReadable, UnknownShard):
        return "the history since its last refresh is not kept"
    return None


def has_row_security(catalog: CatalogSnapshot, tables: Iterable[Relation]) -> bool:
    """Whether policies, which may change and look at who asks, decide which rows of the tables there are."""
    return any(catalog.policies.of(table.oid).enabled for table in tables)


async def has_changed(env: Environment, shard: ShardId, after: Csn, until: Csn) -> bool:
    """Whether anything was written to `shard` in (`after`, `until`]."""
    if until <= after:
        return until < after
    return not (await env.reader.changes(shard, after, until)).is_empty


def record_inputs(
    transaction: Transaction, catalog: CatalogSnapshot, records: Iterable[CatalogRecord], expanded: frozenset[int]
) -> None:
    """Remember the tables behind the stored rows of views refreshed on commit as read, as they would be if the queries
    were run: a serializable transaction that relies on such rows must not commit when the tables have changed."""
    snapshot = transaction.snapshot
    for view in records:
        if not isinstance(view, Relation) or view.materialized is None or view.oid in expanded:
            continue
        if view.materialized.refresh != "on commit" or snapshot is None:
            continue
        for table in inputs_of(catalog, view):
            assert table.shard is not None
            read = TableRead(relation_oid=table.oid, shard=table.shard, as_of=snapshot.csn, conjunctions=((),))
            transaction.record_read(read)


async def stale_views(
    env: Environment, transaction: Transaction, catalog: CatalogSnapshot, among: Iterable[Relation] | None = None
) -> frozenset[int]:
    """The views refreshed on commit (by oid), of all or `among` these, that have to be computed at the transaction's
    snapshot."""
    return frozenset([
        view.oid
        for view in (views_on_commit(catalog) if among is None else among)
        if view.materialized is not None
        and view.materialized.populated
        and await why_stale(env, transaction, catalog, view) is not None
    ])  # fmt: skip


async def stale_views_at(env: Environment, catalog: CatalogSnapshot, csn: Csn) -> frozenset[int]:
    """The views refreshed on commit (by oid) that have to be computed at `csn`, whose catalog is `catalog`."""
    return frozenset([
        view.oid
        for view in views_on_commit(catalog)
        if view.materialized is not None
        and view.materialized.populated
        and await _why_stale_at(env, catalog, view, csn) is not None
    ])  # fmt: skip
