"""Expressions that indexes are over, as columns of their table: ``lower(name) = $1`` is then a condition on a column.

To find rows by an index over expressions, a query is looked at with each of these in the place of the same expression
of it. The columns are the scan's, with attnums from `FIRST_ATTNUM` on, which no column of a table has; nothing is ever
read of them, and no query that runs has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from planner.definitions.expression_text import expression_text
from planner.definitions.index_expressions import RowValue
from planner.ir import nodes as ir
from planner.ir.rewrite import transform, walk

FIRST_ATTNUM = 1 << 20
"""Tables have 1,600 columns at most."""


class ExpressionColumn(Struct, frozen=True, kw_only=True):
    """An expression over a row, as the column `attnum`. `name` is how it is shown."""

    attnum: int
    value: RowValue
    name: str

    @staticmethod
    def of(place: int, value: RowValue) -> ExpressionColumn:
        """The expression `value`, the one at `place` among those of its table."""
        names = {field.id: field.name for field in value.fields}
        return ExpressionColumn(attnum=FIRST_ATTNUM + place, value=value, name=expression_text(value.scalar, names))


def with_expressions(rel: ir.Rel, relation_oid: int, columns: Sequence[ExpressionColumn]) -> ir.Rel:
    """`rel`, whose scans of a relation have `columns` too, and which refers to these instead of computing them."""
    scans: dict[int, ir.Scan] = {}
    computed: list[tuple[ir.Scalar, ir.ColumnRef]] = []
    for scan in walk(rel):
        if not isinstance(scan, ir.Scan) or scan.relation_oid != relation_oid or id(scan) in scans:
            continue
        held = {field.origin.attnum: field.id for field in scan.fields if field.origin is not None}
        fields = []
        for column in columns:
            scalar = _on(column.value, held)
            if scalar is not None:
                # Ids of other columns are positive.
                id_ = -1 - len(computed)
                origin = ir.Origin(relation_oid=relation_oid, attnum=column.attnum)
                fields.append(ir.Field(id=id_, name=column.name, type=scalar.type, origin=origin))
                computed.append((scalar, ir.ColumnRef(id=id_, type=scalar.type)))
        scans[id(scan)] = replace(scan, fields=(*fields, *scan.fields))

    def replaced(node: Any) -> Any:
        if isinstance(node, ir.Scan):
            return scans.get(id(node))
        for scalar, ref in computed:
            if type(node) is type(scalar) and node == scalar:
                return ref
        return None

    return transform(rel, replaced) if computed else rel


def _on(value: RowValue, held: Mapping[int, int]) -> ir.Scalar | None:
    """The expression on the columns that a scan has, by attnum; None when it lacks one."""
    if not set(value.attnums) <= held.keys():
        return None
    ids = {field.id: held[attnum] for field, attnum in zip(value.fields, value.attnums, strict=True)}
    return transform(
        value.scalar,
        lambda node: ir.ColumnRef(id=ids[node.id], type=node.type) if isinstance(node, ir.ColumnRef) else None,
    )
