"""What a query reads of the past besides its tables: the rows of tidegate.as_of and of tidegate.changes in FROM.

A table as it was is a scan of other parts. Changes are the parts themselves that commits have written: parts of deleted
rows have all their values. Those in memory become one Arrow table that has each row's CSN and diff; those in files are
scanned, by one scan for each commit. All of them are held until the transaction ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from adapter.engines.common.engine import TableInput
from adapter.engines.common.scan_sources import inline_rows, scan_columns
from adapter.store_errors import too_old
from adapter.transactions.transaction import Transaction
from planner.errors import FeatureNotSupported, ObjectNotInPrerequisiteState
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.past_rows import PastTable
from planner.ir.rewrite import transform, walk
from planner.types.types import INT8, SqlType, type_of_column
from storage.catalog.model import CatalogSnapshot, Relation
from storage.errors import AsOfNotReadable, UnknownShard
from storage.shards.parts import Part
from storage.timestamps.csn import Csn

if TYPE_CHECKING:
    from storage.environment.environment import Environment

_NONE: Mapping[int, Any] = MappingProxyType({})


class PastRows(Struct, frozen=True, kw_only=True):
    """A query with all that it reads of the past: `tables` by what its scans read them by, and rows `at_hand`, as Arrow
    tables."""

    query: BoundQuery
    tables: Mapping[int, TableInput] = _NONE
    at_hand: Mapping[int, Any] = _NONE


class _Change(Struct, frozen=True, kw_only=True):
    """Rows that came (`diff` 1) or went (-1) at `csn`: those of `inserts` without the ones that `deletes` name."""

    csn: Csn
    diff: int
    inserts: tuple[Part, ...]
    deletes: tuple[Part, ...] = ()


async def past_rows(env: Environment, transaction: Transaction, query: BoundQuery) -> PastRows:
    """The rows of the past that `query` reads. Raises 72000 for those that are no longer kept, and 55000 for changes of
    a table that has been rewritten with columns of other types."""
    tables: dict[int, TableInput] = {}
    at_hand: dict[int, Any] = {}
    rel = query.rel
    try:
        for id, table in query.past.items():
            if table.since is None:
                tables[id] = await _as_it_was(env, transaction, table)
                continue
            if table.moment is not None:
                if table.changes is None:
                    raise FeatureNotSupported(f'the changes of view "{table.relation.name}" cannot be read here')
                at_hand[id] = await table.changes()
                continue
            changes = await _changes(env, transaction, table, table.since)
            at_hand[id] = await _in_memory(env, table.relation, changes)
            in_files = [each for each in changes if each.deletes or any(part.inline is None for part in each.inserts)]
            scans: dict[int, _Change] = {}
            for change in in_files:
                key = min(query.past) - 1 - len(tables)
                parts = change.inserts if change.deletes else _files_of(change)
                tables[key] = table_input(table.relation, parts, change.deletes)
                scans[key] = change
            if scans:
                rel = _with_scans(rel, id, table.relation, scans)
    except (UnknownShard, AsOfNotReadable) as error:
        raise too_old(error) from error
    return PastRows(query=replace(query, rel=rel), tables=tables, at_hand=at_hand)


def table_input(relation: Relation, inserts: tuple[Part, ...], deletes: tuple[Part, ...]) -> TableInput:
    """`relation` with the rows of these parts."""
    return TableInput(
        relation=relation,
        inserts=inserts,
        deletes=deletes,
        bytes=sum(part.bytes for part in inserts),
        rows=sum(part.rows for part in inserts),
    )


async def _as_it_was(env: Environment, transaction: Transaction, table: PastTable) -> TableInput:
    shard = table.relation.shard
    assert shard is not None
    transaction.held.append(await env.leases.hold((shard,), table.csn))
    snapshot = await env.reader.snapshot(shard, table.csn)
    return table_input(table.relation, tuple(snapshot.inserts), snapshot.deletes)


async def _changes(env: Environment, transaction: Transaction, table: PastTable, since: Csn) -> list[_Change]:
    """What was done to a table, in the order of CSNs."""
    found: list[_Change] = []
    relation, at = await first_of(env, table, since)
    while relation is not None and relation.shard is not None:
        shard = relation.shard
        ends = env.cache.state.forgotten.get(shard)
        is_last = shard == table.relation.shard or ends is None or ends > table.csn
        last = table.csn if is_last or ends is None else Csn(ends - 1)
        transaction.held.append(await env.leases.hold((shard,), at))
        if last > at:
            changes = await env.reader.changes_before_drop(shard, at, last)
            found += [
                _Change(csn=part.csn, diff=-1, inserts=(replace(part, kind="insert"),)) for part in changes.deletes
            ]
            found += [_Change(csn=part.csn, diff=1, inserts=(part,)) for part in changes.inserts]
        if is_last or ends is None:
            break
        # Its rows have been replaced altogether (TRUNCATE).
        snapshot = await env.reader.snapshot(shard, last)
        if snapshot.inserts:
            found.append(_Change(csn=ends, diff=-1, inserts=tuple(snapshot.inserts), deletes=snapshot.deletes))
        relation, at = _of(await _catalog_at(env, table, ends), table), last
        if relation is not None and not _fits(relation, table.relation):
            raise ObjectNotInPrerequisiteState(
                f'table "{table.relation.name}" has been rewritten with columns of other types',
                detail=f"That was at CSN {ends}.",
                hint="Ask for the changes before and after that separately.",
            )
    return _joined(found)


def _joined(changes: list[_Change]) -> list[_Change]:
    """The changes with one for all parts of a commit that its rows came with, or went with."""
    found: dict[tuple[Csn, int], list[Part]] = {}
    whole: list[_Change] = []
    for change in changes:
        if change.deletes:
            whole.append(change)
        else:
            found.setdefault((change.csn, change.diff), []).extend(change.inserts)
    whole += [_Change(csn=csn, diff=diff, inserts=tuple(parts)) for (csn, diff), parts in found.items()]
    return sorted(whole, key=lambda change: (change.csn, change.diff))


async def first_of(env: Environment, table: PastTable, since: Csn) -> tuple[Relation | None, Csn]:
    """The table at `since`, or when it was made after that, and a CSN before which nothing of it has to be read."""
    try:
        relation = _of(await _catalog_at(env, table, since), table)
    except AsOfNotReadable as error:
        raise too_old(error) from error
    if relation is not None:
        return relation, since
    low, high = since, table.csn
    while low + 1 < high:
        middle = Csn((low + high) // 2)
        low, high = (low, middle) if _of(await _catalog_at(env, table, middle), table) else (middle, high)
    return _of(await _catalog_at(env, table, high), table), Csn(high - 1)


async def _catalog_at(env: Environment, table: PastTable, csn: Csn) -> CatalogSnapshot | None:
    whole = await env.catalog.snapshot_at(csn)
    return whole.databases.get(table.then.database)


def _of(catalog: CatalogSnapshot | None, table: PastTable) -> Relation | None:
    record = None if catalog is None else catalog.get(table.relation.oid)
    return record if isinstance(record, Relation) else None


def _fits(before: Relation, after: Relation) -> bool:
    types = {column.attnum: type_of_column(column) for column in after.live_columns()}
    return all(types.get(c.attnum, type_of_column(c)) == type_of_column(c) for c in before.live_columns())


def _files_of(change: _Change) -> tuple[Part, ...]:
    return tuple([part for part in change.inserts if part.inline is None])


def changes_schema(relation: Relation) -> pa.Schema:
    """The columns of the changes of `relation` that are at hand."""
    columns = [(column.name, column.arrow) for column in scan_columns(relation)]
    return pa.schema([("csn", pa.int64()), ("diff", pa.int64()), *columns])


async def _in_memory(env: Environment, relation: Relation, changes: list[_Change]) -> pa.Table:
    """The rows of parts that are in memory, with their CSNs and diffs."""
    columns = scan_columns(relation)
    schema = changes_schema(relation)
    pieces = [schema.empty_table()]
    for change in changes:
        for part in change.inserts if not change.deletes else ():
            if part.inline is None:
                continue
            rows = (await inline_rows(env.reader, columns, part)).remove_column(0)
            leading = [pa.repeat(pa.scalar(value, pa.int64()), part.rows) for value in (change.csn, change.diff)]
            pieces.append(pa.Table.from_arrays([*leading, *rows.columns], schema=schema))
    return pa.concat_tables(pieces).combine_chunks()


def _with_scans(rel: ir.Rel, id: int, relation: Relation, scans: Mapping[int, _Change]) -> ir.Rel:
    """`rel` with the rows of `scans` beside those that are read as `CteScan` of `id`."""
    newest = max([node.id for node in walk(rel) if isinstance(node, ir.Field)], default=0)

    def fresh(fields: tuple[ir.Field, ...]) -> tuple[ir.Field, ...]:
        nonlocal newest
        made = []
        for field in fields:
            newest += 1
            made.append(replace(field, id=newest))
        return tuple(made)

    def one(fields: tuple[ir.Field, ...], key: int, change: _Change) -> ir.Rel:
        columns = zip(fresh(fields[2:]), relation.live_columns(), strict=True)
        read = tuple(
            replace(field, origin=ir.Origin(relation_oid=key, attnum=column.attnum)) for field, column in columns
        )
        leading = tuple(ir.Literal(value=value, type=SqlType(INT8)) for value in (change.csn, change.diff))
        refs = tuple(ir.ColumnRef(id=field.id, type=field.type) for field in read)
        return ir.Project(input=ir.Scan(relation_oid=key, fields=read), exprs=(*leading, *refs), fields=fresh(fields))

    def replaced(node: Any) -> Any:
        if not isinstance(node, ir.CteScan) or node.cte != id:
            return None
        whole: ir.Rel = replace(node, fields=fresh(node.fields))
        left = len(scans)
        for key, change in scans.items():
            left -= 1
            fields = fresh(node.fields) if left else node.fields
            whole = ir.SetOperation(
                op="union", all=True, left=whole, right=one(node.fields, key, change), fields=fields
            )
        return whole

    return transform(rel, replaced)
