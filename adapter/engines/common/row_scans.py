"""Queries of one small table that sort, group, limit and compute, answered from its rows.

``SELECT kind, count(*) FROM t WHERE n > $1 GROUP BY kind`` over some hundred rows takes an engine most of a
millisecond, nearly all of it on getting to the rows. Here Arrow picks the rows (`adapter.engines.common.lookups`), and
what is made of them is computed with Python's values as for rows that an index has found
(`adapter.plans.row_programs`). What Python's values cannot say exactly as PostgreSQL does is left to an engine, and so
are rows that are many.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
from msgspec import Struct

from adapter.engines.common.lookups import Indexes, Lookup, lookup_of
from adapter.plans.computed.row_values import Given
from adapter.plans.key_reads import program_over
from adapter.plans.row_programs import RowProgram
from planner.ir import nodes as ir
from planner.resolution.session_values import session_values
from storage.catalog.model import Relation
from storage.shards.indexes.reading.found import Found
from storage.shards.parts import ROW_ID

MAX_PICKED = 1000
"""Rows that are computed with here, which takes about half a millisecond. An engine takes as long for as many, and
computes more in a thread."""

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


class RowScan(Struct, frozen=True, kw_only=True, eq=False):
    """What `program` makes of its columns of the rows that `lookup` picks; with `row_ids` their ids come first."""

    lookup: Lookup
    program: RowProgram
    row_ids: bool

    def answer(self, rows: pa.Table, params: Sequence[ir.Literal], indexes: Indexes) -> pa.RecordBatch | None:
        """The result over `rows`; None when an engine has to compute it. Raises the errors of values that do not fit
        their types."""
        if self._are_many(rows.num_rows) and not self.lookup.conditions:
            return None
        picked = self.lookup.answer(rows, params, indexes)
        if picked is None or self._are_many(picked.num_rows):
            return None
        row_ids = np.arange(picked.num_rows)
        if self.row_ids:
            row_ids, picked = picked.column(0).to_numpy(), picked.remove_column(0)
        found = Found(keys=np.empty(0, np.int64), row_ids=row_ids, rows=picked)
        return self.program.answer(found, Given(params, _NEVER, _NEVER))

    def _are_many(self, rows: int) -> bool:
        return rows > MAX_PICKED and bool(self.program.read)


def row_scan_of(rel: ir.Rel, relation: Relation) -> RowScan | None:
    """`rel`, which reads `relation`, as such a query; None when it is more than that."""
    nodes: list[ir.Rel] = []
    at = rel
    while isinstance(at, (ir.Project, ir.Filter, ir.Sort, ir.Limit, ir.Deduplicate, ir.Aggregate)):
        nodes.append(at)
        at = at.input
    if not isinstance(at, ir.Scan) or not rel.fields or session_values(rel):
        return None
    # The filters at the bottom are for Arrow, as far as it knows them.
    bottom: ir.Rel = at
    while nodes and isinstance(node := nodes[-1], ir.Filter) and lookup_of(node) is not None:
        bottom = nodes.pop()
    program = program_over(at, relation, nodes, rel.fields)
    lookup = lookup_of(bottom)
    if program is None or lookup is None:
        return None
    row_ids = any(output.value is None and output.place < 0 for output in program.outputs)
    outputs = [*([ROW_ID] if row_ids else []), *(column.name for column in program.columns)]
    picking = Lookup(relation_oid=lookup.relation_oid, conditions=lookup.conditions, outputs=tuple(outputs))
    return RowScan(lookup=picking, program=program, row_ids=row_ids)
