"""Joins of a few rows to a large table: the few are read first, and their values are the keys of the others.

`adapter.plans.join_keys` says which values of which other side a scan needs. That side is run as a query of its own,
when it is little beside the table; then the table is read by index, and the join itself sees few rows on both sides.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import pyarrow as pa
from msgspec.structs import replace

from adapter.plans.computed.constant_rows import array_of
from adapter.plans.index_paths import IndexPath
from adapter.plans.join_keys import KeySource, ScanKeys, scan_keys
from adapter.plans.key_indexes import UsableIndex
from adapter.plans.predicates import Comparison, Conjunction, ScanTemplate, bind_templates
from adapter.queries.by_index.key_scan import distinct_keys, rows_by_keys, visible_parts
from adapter.queries.by_index.table_rows import Paths, TableRows, as_table, is_within
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.types.types import type_of_column
from storage.bounded_map import BoundedMap
from storage.shards.indexes.reading.estimates import Estimate
from storage.shards.indexes.reading.found import Found

MAX_QUERIES = 500
"""Queries of which it is known where keys for their scans come from."""

Keys: TypeAlias = tuple[pa.Array, ...]
KeysOf: TypeAlias = Callable[[BoundQuery, int], Awaitable[Keys | None]]
"""Runs a query for its rows, by columns; None when it is too much beside a table of so many rows, or there are too many
rows. Where nothing is to be read: empty columns."""

_known: BoundedMap[tuple[int, int], tuple[BoundQuery, list[ScanKeys], dict[object, BoundQuery]]] = BoundedMap(
    max_entries=MAX_QUERIES
)
"""By identity of the query, which an entry keeps alive, and relation; with the queries that give the keys."""


async def rows_of_partners(
    rows: TableRows,
    query: BoundQuery,
    templates: Sequence[ScanTemplate],
    params: Sequence[ir.Literal],
    keys_of: KeysOf,
    *,
    read: bool,
) -> tuple[Paths, pa.Table | None] | None:
    """The paths to the rows of a table that `query` needs, and those rows if they are to be `read`; None when one of
    its scans needs others than those with partners among few rows."""
    oid = rows.relation.oid
    known = _known.get((id(query), oid))
    if known is None:
        known = query, scan_keys(query.rel, oid), {}
        _known.put((id(query), oid), known)
    _, scans, queries = known
    if not any(scan.sources for scan in scans):
        return None
    conjunctions = _conjunctions(templates, params)
    left = rows.budget
    paths: list[IndexPath] = []
    found: list[Found] = []
    for number, scan in enumerate(scans):
        conjunction = conjunctions.get(_name(scan.scan), ())
        direct = await rows.path(conjunction, left)
        if direct is not None:
            path, cost = direct
            if read:
                found += await rows.found((path,))
        else:
            for place, source in enumerate(scan.sources):
                partners = _Partners(rows, scan, source, conjunction)
                taken = await partners.find(query, queries, (number, place), keys_of, left, read)
                if taken is not None:
                    break
            else:
                return None
            path, cost, more = taken
            found += more
        left = Estimate(rows=left.rows - cost.rows, unread=left.unread - cost.unread)
        paths.append(path)
    return tuple(paths), as_table(rows.relation, found, is_distinct=False) if read else None


def _conjunctions(templates: Sequence[ScanTemplate], params: Sequence[ir.Literal]) -> dict[object, Conjunction]:
    found: dict[object, Conjunction] = {}
    for template in templates:
        ((_, (conjunction,)),) = bind_templates([template], params).items()
        found[frozenset(template.columns)] = conjunction
    return found


def _name(scan: ir.Scan) -> object:
    """What tells a scan from all others: the ids of its fields."""
    return frozenset([field.id for field in scan.fields if field.id != scan.row_id])


class _Partners:
    """One source of keys for one scan."""

    def __init__(self, rows: TableRows, scan: ScanKeys, source: KeySource, conjunction: Conjunction) -> None:
        self._rows = rows
        self._source = source
        self._places: dict[str, int] = {}
        for place, field in enumerate(source.fields):
            column = scan.column(field)
            if column is not None:
                self._places.setdefault(column, place)
        self._fixed: dict[str, Comparison] = {
            comparison.column: comparison
            for comparison in conjunction
            if comparison.op == "=" and comparison.value is not None and comparison.column not in self._places
        }

    def _index(self) -> UsableIndex | None:
        """The index whose whole key is known; a unique one if there is any."""
        candidates = []
        for index in self._rows.indexes:
            names = index.names
            whole = all(name in self._places or name in self._fixed for name in names)
            if whole and index.record.predicate is None and index.record.valid and not self._fixed.keys() >= set(names):
                candidates.append(index)
        return max(candidates, key=lambda index: (index.record.unique, len(index.definition.columns)), default=None)

    async def find(
        self,
        query: BoundQuery,
        queries: dict[object, BoundQuery],
        name: tuple[int, int],
        keys_of: KeysOf,
        left: Estimate,
        read: bool,
    ) -> tuple[IndexPath, Estimate, list[Found]] | None:
        """The path, its cost, and the rows if they are to be `read`; None when there is none, or it costs too much."""
        index, rows = self._index(), self._rows
        if index is None:
            return None
        names = [column or "" for column in index.names]
        asked = [self._places[column] for column in names if column in self._places]
        inner = queries.get((*name, *asked))
        if inner is None:
            inner = replace(query, rel=self._source.query(asked), locking=None)
            queries[(*name, *asked)] = inner
        keys = await keys_of(inner, rows.table.rows)
        if keys is None:
            return None
        partners = {column: self._source.exprs[self._places[column]] for column in names if column in self._places}
        path = IndexPath(
            index=index, keys=(), ranges=(), conditions=frozenset(self._fixed).intersection(names), partners=partners
        )
        if not read:
            return path, Estimate(rows=0, unread=0), []
        by_column = dict(zip(partners, distinct_keys(keys), strict=True))
        count = len(next(iter(by_column.values())))
        if not count:
            return path, Estimate(rows=0, unread=0), []
        wanted = [by_column[column] if column in by_column else self._constant(column, count) for column in names]
        parts, local = await visible_parts(rows.env, rows.transaction, rows.relation)
        cost = await rows.env.keys.estimate(parts, index.definition, keys=wanted, local=local)
        if not is_within(cost, left):
            return None
        found = await rows_by_keys(
            rows.env, rows.transaction, rows.relation, index.definition, wanted, rows.columns, newest=False
        )
        return path, cost, [found]

    def _constant(self, column: str, count: int) -> pa.Array:
        known = next(c for c in self._rows.relation.columns if f"c{c.attnum}" == column)
        value = array_of(type_of_column(known), [self._fixed[column].value])
        return pa.repeat(value[0], count)
