"""How many rows a query can return at most, and about how many bytes: whether its result may be collected whole.

A collected result passes through the memory of the driver and of one executor task for each partition, so the bound
is taken from what is known for certain (row counts of the pruned parts, constants), not from guesses at selectivity.
Where nothing bounds the rows the answer is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from adapter.engines.common.engine import TableInput
from planner.ir import nodes as ir
from planner.ir.bound import WITH_ROWS, BoundQuery
from planner.ir.nodes import Literal
from planner.ir.physical import element_type
from planner.ir.rewrite import walk
from planner.lowering.rounds import ROUND_ROWS
from planner.types import types
from planner.types.types import SqlType

COLLECT_BYTES = 32 << 20
"""Results that cannot exceed this are collected: two tasks' worth of it fits beside everything else in 1 GB."""

COLLECT_GROUPED_BYTES = 128 << 20
"""The same for results of grouping, which usually have far fewer rows than their input, and come from a shuffle in
partitions of moderate size."""

TEXT_BYTES = 48
"""What a value of a type without fixed length is taken to need."""

RECURSION_ROWS = 100_000
GENERATED_ROWS = 1000
"""Rows taken for a recursive query and for a set-returning function over values: both are bounded by other limits."""


class SizeBound(Struct, frozen=True, kw_only=True):
    """`rows` at most, or None; about `bytes`. `grouped`: the rows come from grouping or removing duplicates."""

    rows: int | None
    bytes: int | None
    grouped: bool

    @property
    def collectable(self) -> bool:
        """Whether the result may be collected whole."""
        if self.bytes is None:
            return False
        return self.bytes <= (COLLECT_GROUPED_BYTES if self.grouped else COLLECT_BYTES)


def size_bound(query: BoundQuery, tables: Mapping[int, TableInput], params: Sequence[Literal]) -> SizeBound:
    """The bound for the result of `query` over `tables`."""
    rows = _Rows(tables, params).of(query.rel)
    if any(isinstance(node, ir.CteScan) and WITH_ROWS < node.cte <= ROUND_ROWS for node in walk(query.rel)):
        rows = RECURSION_ROWS if rows is None else min(rows, RECURSION_ROWS)
    grouped = _is_grouped(query.rel)
    if rows is None:
        return SizeBound(rows=None, bytes=None, grouped=grouped)
    size = rows * row_bytes([field.type for field in query.rel.fields])
    total = sum(table.rows for table in tables.values())
    if not grouped and total and rows >= total:
        # Wide values show in the stored size, which is compressed.
        size = max(size, 2 * sum(table.bytes for table in tables.values()))
    return SizeBound(rows=rows, bytes=size, grouped=grouped)


def row_bytes(columns: Sequence[SqlType]) -> int:
    """About the Arrow bytes of one row."""
    return sum(_FIXED.get(column.oid, TEXT_BYTES) if element_type(column) is None else TEXT_BYTES for column in columns)


_FIXED = {
    types.BOOL: 1,
    types.INT2: 2,
    types.INT4: 4,
    types.INT8: 8,
    types.FLOAT4: 4,
    types.FLOAT8: 8,
    types.DATE: 4,
    types.TIME: 8,
    types.TIMESTAMP: 8,
    types.TIMESTAMPTZ: 8,
    types.INTERVAL: 16,
    types.NUMERIC: 16,
    types.OID: 8,
}


def generates_rows(rel: ir.Rel) -> bool:
    """Whether `rel` makes rows of its own: set-returning functions or recursion anywhere in its FROM tree."""
    match rel:
        case ir.FunctionScan() | ir.ProjectSet():
            return True
        case ir.Join() | ir.SetOperation():
            return generates_rows(rel.left) or generates_rows(rel.right)
        case ir.With():
            return any(table.step is not None or generates_rows(table.rel) for table in rel.tables) or generates_rows(
                rel.body
            )
        case ir.OneRow() | ir.Scan() | ir.SystemScan() | ir.Values() | ir.CteScan():
            return False
        case _:
            return generates_rows(rel.input)


def is_ordered(rel: ir.Rel) -> bool:
    """Whether the rows of `rel` come in an order that its text asks for."""
    match rel:
        case ir.Sort():
            return True
        case ir.With():
            return is_ordered(rel.body)
        case ir.Project() | ir.ProjectSet() | ir.Filter() | ir.Limit() | ir.LockRows():
            return is_ordered(rel.input)
        case ir.Deduplicate():
            return bool(rel.order_by)
        case _:
            return False


def _is_grouped(rel: ir.Rel) -> bool:
    match rel:
        case ir.Aggregate() | ir.Deduplicate():
            return True
        case ir.SetOperation():
            return not rel.all
        case ir.With():
            return _is_grouped(rel.body)
        case ir.Project() | ir.Filter() | ir.Sort() | ir.Limit() | ir.Window():
            return _is_grouped(rel.input)
        case _:
            return False


class _Rows:
    """Upper bounds of row counts, node by node."""

    def __init__(self, tables: Mapping[int, TableInput], params: Sequence[Literal]) -> None:
        self._tables = tables
        self._params = params
        self._common: dict[int, int | None] = {}

    def of(self, rel: ir.Rel) -> int | None:
        match rel:
            case ir.OneRow():
                return 1
            case ir.Scan():
                scanned = self._tables.get(rel.relation_oid)
                return None if scanned is None else scanned.rows
            case ir.Values():
                return len(rel.rows)
            case ir.FunctionScan():
                return _greatest([self._function(call) for call in rel.functions])
            case ir.ProjectSet():
                return _times(self.of(rel.input), _greatest([self._function(call) for call in rel.functions]))
            case ir.Join():
                return self._join(rel)
            case ir.Aggregate():
                return self._aggregate(rel)
            case ir.Limit():
                return self._limit(rel)
            case ir.SetOperation():
                left, right = self.of(rel.left), self.of(rel.right)
                if rel.op == "union":
                    return None if left is None or right is None else left + right
                return left
            case ir.With():
                for table in rel.tables:
                    self._common[table.id] = RECURSION_ROWS if table.step is not None else self.of(table.rel)
                return self.of(rel.body)
            case ir.CteScan():
                return self._common.get(rel.cte)
            case ir.SystemScan():
                return None
            case _:
                return self.of(rel.input)

    def _join(self, rel: ir.Join) -> int | None:
        left, right = self.of(rel.left), self.of(rel.right)
        if left is None or right is None:
            return None
        product = left * right
        match rel.kind:
            case "left":
                return max(product, left)
            case "right":
                return max(product, right)
            case "full":
                return max(product, left + right)
            case _:
                return product

    def _aggregate(self, rel: ir.Aggregate) -> int | None:
        sets = 1 if rel.grouping_sets is None else len(rel.grouping_sets)
        if not rel.keys:
            return sets
        return _times(self.of(rel.input), sets)

    def _limit(self, rel: ir.Limit) -> int | None:
        below = self.of(rel.input)
        count = self._constant(rel.count) if rel.count is not None and not rel.ties else None
        if count is None:
            return below
        return count if below is None else min(below, count)

    def _function(self, call: ir.FunctionCall) -> int | None:
        if call.signature.name == "generate_series":
            bounds = [self._constant(arg) for arg in call.args]
            if len(bounds) == 2 and bounds[0] is not None and bounds[1] is not None:
                return max(0, bounds[1] - bounds[0] + 1)
            if len(bounds) == 3 and bounds[0] is not None and bounds[1] is not None and bounds[2]:
                return max(0, (bounds[1] - bounds[0]) // bounds[2] + 1)
            return None
        return GENERATED_ROWS

    def _constant(self, expr: ir.Scalar) -> int | None:
        while isinstance(expr, ir.Cast):
            expr = expr.arg
        if isinstance(expr, ir.Param):
            expr = self._params[expr.index - 1]
        if isinstance(expr, ir.Literal) and isinstance(expr.value, int) and not isinstance(expr.value, bool):
            return expr.value
        return None


def _times(rows: int | None, factor: int | None) -> int | None:
    return None if rows is None or factor is None else rows * factor


def _greatest(bounds: Sequence[int | None]) -> int | None:
    known = [bound for bound in bounds if bound is not None]
    return max(known, default=0) if len(known) == len(bounds) else None
