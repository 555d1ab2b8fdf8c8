"""What a query needs only the first rows of: ORDER BY ... LIMIT over one table, and min() and max().

Where a table is read for nothing but its first rows in some order, an index in that order finds them without reading
the others. Sorting them again, cutting off the rest and aggregating are left to the query itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from adapter.plans.computed.constant_rows import constant_value
from adapter.plans.conditions import has_order_of_keys
from planner.ir import nodes as ir
from planner.ir.rewrite import transform, walk
from planner.types import types as t

MAX_NODES = 2_000
"""Nodes of a query that are looked at, on the event loop: longer ones have lists of constants or conditions, whose
computing takes longer than reading a table for its first rows."""


class Order(Struct, frozen=True):
    """By a physical column. `nulls_first` None: rows in which it is NULL do not matter."""

    column: str
    descending: bool
    nulls_first: bool | None


class FirstRows(Struct, frozen=True, kw_only=True):
    """The first `count` rows (None: one) after `offset` of `scan`, in the order of `keys`, of those that meet all
    `conditions`, which are on its fields."""

    scan: ir.Scan
    keys: tuple[Order, ...]
    conditions: tuple[ir.Scalar, ...]
    count: ir.Scalar | None = None
    offset: ir.Scalar | None = None

    def rows(self, params: Sequence[ir.Literal]) -> int | None:
        """How many rows that is from the very first on; None when it is not known, or all."""
        total = 1 if self.count is None else 0
        for expr in (self.count, self.offset):
            if expr is not None:
                is_known, value = constant_value(expr, params)
                if not is_known or (value is None and expr is self.count) or (value or 0) < 0:
                    return None
                total += value or 0
        return total


def first_rows(rel: ir.Rel, relation_oid: int) -> tuple[FirstRows, ...]:
    """What `rel` needs of the relation when that is nothing but first rows of its only scan; else nothing, also where
    it has more than `MAX_NODES`."""
    nodes = list(islice(walk(rel), MAX_NODES + 1))
    if len(nodes) > MAX_NODES:
        return ()
    found: tuple[FirstRows, ...] = ()
    scans = 0
    for node in nodes:
        if isinstance(node, ir.Scan) and node.relation_oid == relation_oid:
            scans += 1
        elif isinstance(node, ir.Limit) and isinstance(node.input, ir.Sort) and not node.ties:
            found = _limited(node, node.input, relation_oid) or found
        elif isinstance(node, ir.Aggregate):
            found = _extremes(node, relation_oid) or found
    return found if scans == 1 else ()


def in_order(sort: ir.Sort) -> FirstRows | None:
    """The first row in the order of `sort`, where that is of stored columns of one scan."""
    base = _base(sort.input)
    if base is None:
        return None
    keys = []
    for key in sort.keys:
        column = base.column(key.expr)
        if column is None:
            return None
        keys.append(Order(column, key.descending, key.nulls_first))
    return FirstRows(scan=base.scan, keys=tuple(keys), conditions=base.conditions)


def _limited(limit: ir.Limit, sort: ir.Sort, relation_oid: int) -> tuple[FirstRows, ...]:
    found = None if limit.count is None else in_order(sort)
    if found is None or found.scan.relation_oid != relation_oid:
        return ()
    return (replace(found, count=limit.count, offset=limit.offset),)


def _extremes(aggregate: ir.Aggregate, relation_oid: int) -> tuple[FirstRows, ...]:
    if aggregate.keys or aggregate.grouping_sets is not None or aggregate.groupings or not aggregate.calls:
        return ()
    base = _base(aggregate.input)
    if base is None or base.scan.relation_oid != relation_oid:
        return ()
    found = []
    for call in aggregate.calls:
        if call.signature.name not in ("min", "max") or len(call.args) != 1 or call.filter is not None:
            return ()
        column = base.column(call.args[0])
        if column is None:
            return ()
        order = Order(column, call.signature.name == "max", None)
        found.append(FirstRows(scan=base.scan, keys=(order,), conditions=base.conditions))
    return tuple(found)


class _Base(Struct, frozen=True, kw_only=True):
    """Rows of a scan that meet `conditions`. `names`: by id of a field above, that of the scan's field which it is."""

    scan: ir.Scan
    names: dict[int, int]
    conditions: tuple[ir.Scalar, ...] = ()

    def column(self, expr: ir.Scalar) -> str | None:
        """The physical column that `expr` is, through casts between texts, if an index has its order."""
        while isinstance(expr, ir.Collate) or (
            isinstance(expr, ir.Cast)
            and expr.type.typmod == -1
            and {expr.type.oid, expr.arg.type.oid} <= {t.TEXT, t.VARCHAR}
        ):
            expr = expr.arg
        if not isinstance(expr, ir.ColumnRef) or expr.id not in self.names:
            return None
        wanted = self.names[expr.id]
        for field in self.scan.fields:
            if field.id == wanted and field.origin is not None and has_order_of_keys(field.type):
                return f"c{field.origin.attnum}"
        return None


def _base(rel: ir.Rel) -> _Base | None:
    match rel:
        case ir.Scan():
            return _Base(scan=rel, names={field.id: field.id for field in rel.fields})
        case ir.Filter():
            below = _base(rel.input)
            condition = None if below is None else _renamed(rel.condition, below.names)
            if below is None or condition is None:
                return None
            return _Base(scan=below.scan, names=below.names, conditions=(*below.conditions, condition))
        case ir.Project():
            below = _base(rel.input)
            if below is None:
                return None
            names = {
                field.id: below.names[expr.id]
                for field, expr in zip(rel.fields, rel.exprs, strict=True)
                if isinstance(expr, ir.ColumnRef) and expr.id in below.names
            }
            return _Base(scan=below.scan, names=names, conditions=below.conditions)
        case _:
            return None


def _renamed(condition: ir.Scalar, names: dict[int, int]) -> ir.Scalar | None:
    """`condition` on the fields of the scan; None when it is on anything else."""
    refs = [node for node in walk(condition) if isinstance(node, ir.ColumnRef)]
    if not all(ref.id in names for ref in refs):
        return None
    if all(names[ref.id] == ref.id for ref in refs):
        return condition
    return transform(
        condition,
        lambda node: ir.ColumnRef(id=names[node.id], type=node.type) if isinstance(node, ir.ColumnRef) else None,
    )
