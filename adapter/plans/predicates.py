"""What a query surely requires of the rows that it reads of each table: simple conditions on single columns.

From a bound query this extracts, for each `Scan`, the conjunction of the conditions ``column op constant`` that a row
must satisfy to matter to the result. It is a superset: conditions that are not simple are left out. Two uses:

- *pruning*: a part that holds no row satisfying the conjunction is not read (`may_match`);
- *validation*: a row that another transaction inserted or deleted since the snapshot can only have changed what was
  read if it satisfies the conjunction (`any_row_matches`).

SUBTLE: a strict condition above an outer join also holds for the nullable side: a row that fails it can only be
missed by turning its partner null-extended, and that row fails the strict condition in turn. `IS NULL` is not strict
and stops there. Window, LIMIT, DISTINCT and aggregation change meaning when rows disappear beneath them, so no
condition passes through them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from planner.ir import nodes as ir
from planner.ir.rewrite import outermost_relations
from planner.types import types as t
from storage.shards.parts import Part, part_may_match
from storage.upkeep.pruning_audit import COMPARE

_INTEGERS = frozenset({t.INT2, t.INT4, t.INT8, t.OID})
_STRINGS = frozenset({t.TEXT, t.VARCHAR, t.NAME})
_COMPARABLE = _INTEGERS | _STRINGS | {
    t.BOOL, t.FLOAT4, t.FLOAT8, t.NUMERIC, t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ, t.UUID, t.BYTEA,
}  # fmt: skip
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED = {
    "=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<",
    "is null": "is not null", "is not null": "is null",
}  # fmt: skip
_STRICT = frozenset(_FLIPPED) | {"in", "is not null"}


class Condition(Struct, frozen=True):
    """`column op operand`: `operand` is a Literal, a Param, a tuple of them (op ``in``) or None (``is null``)."""

    field: int
    op: str
    operand: ir.Literal | ir.Param | tuple[ir.Literal | ir.Param, ...] | None


class Comparison(Struct, frozen=True):
    """A condition with its value, on a physical column."""

    column: str
    op: str
    value: Any


Conjunction: TypeAlias = tuple[Comparison, ...]
"""All of them must hold; empty means every row."""


class ScanTemplate(Struct, frozen=True):
    """One scan of a query: the relation, and conditions whose parameters have no values yet."""

    relation_oid: int
    conditions: tuple[tuple[str, Condition], ...]


def scan_templates(rel: ir.Rel) -> tuple[ScanTemplate, ...]:
    """One template for each scan in `rel`, wherever it stands."""
    return tuple(_scans(rel, ()))


def bind_templates(
    templates: Sequence[ScanTemplate], params: Sequence[ir.Literal]
) -> dict[int, tuple[Conjunction, ...]]:
    """For each relation the conjunctions of its scans, with the parameters' values."""
    found: dict[int, list[Conjunction]] = {}
    for template in templates:
        comparisons: list[Comparison] = []
        for column, condition in template.conditions:
            comparison = _bind(column, condition, params)
            if comparison is not None:
                comparisons.append(comparison)
        found.setdefault(template.relation_oid, []).append(tuple(comparisons))
    return {oid: tuple(conjunctions) for oid, conjunctions in found.items()}


def _bind(column: str, condition: Condition, params: Sequence[ir.Literal]) -> Comparison | None:
    operand = condition.operand
    if operand is None:
        return Comparison(column, condition.op, None)
    if isinstance(operand, tuple):
        values = [_value(item, params) for item in operand]
        if any(value is _UNUSABLE for value in values):
            return None
        return Comparison(column, condition.op, tuple(value for value in values if value is not None))
    value = _value(operand, params)
    return None if value is _UNUSABLE else Comparison(column, condition.op, value)


_UNUSABLE: Any = object()


def _value(operand: ir.Literal | ir.Param, params: Sequence[ir.Literal]) -> Any:
    literal = params[operand.index - 1] if isinstance(operand, ir.Param) else operand
    value = literal.value
    if isinstance(value, float) and math.isnan(value):
        return _UNUSABLE
    if isinstance(value, str) and literal.type.oid not in _STRINGS and literal.type.oid != t.UUID:
        return _UNUSABLE  # infinity
    return value


# ---------------------------------------------------------------- extraction


def _scans(rel: ir.Rel, conditions: tuple[Condition, ...]) -> Iterator[ScanTemplate]:
    match rel:
        case ir.Scan():
            columns = {f.id: f"c{f.origin.attnum}" for f in rel.fields if f.origin is not None and f.id != rel.row_id}
            yield ScanTemplate(
                rel.relation_oid,
                tuple((columns[c.field], c) for c in conditions if c.field in columns),
            )
        case ir.Filter():
            yield from _scans(rel.input, conditions + _conditions(rel.condition))
            yield from _nested(rel.condition)
        case ir.Sort():
            yield from _scans(rel.input, conditions)
            yield from _nested(rel.keys)
        case ir.Project():
            renamed = {f.id: e.id for f, e in zip(rel.fields, rel.exprs, strict=True) if isinstance(e, ir.ColumnRef)}
            below = tuple(replace(c, field=renamed[c.field]) if c.field in renamed else c for c in conditions)
            yield from _scans(rel.input, below)
            yield from _nested(rel.exprs)
        case ir.Join():
            strict = tuple(c for c in conditions if c.op in _STRICT)
            on = _conditions(rel.condition) if rel.condition is not None else ()
            left = conditions if rel.kind in ("cross", "inner", "left") else strict
            right = conditions if rel.kind in ("cross", "inner", "right") else strict
            yield from _scans(rel.left, left + (on if rel.kind in ("inner", "right") else ()))
            yield from _scans(rel.right, right + (on if rel.kind in ("inner", "left") else ()))
            if rel.condition is not None:
                yield from _nested(rel.condition)
        case ir.With():
            for table in rel.tables:
                yield from _scans(table.rel, ())
                if table.step is not None:
                    yield from _scans(table.step, ())
            yield from _scans(rel.body, conditions)
        case _:
            yield from _nested(rel)


def _nested(node: Any) -> Iterator[ScanTemplate]:
    """The scans in relations inside `node`, which itself is not looked at as a relation."""
    for rel in outermost_relations(node):
        yield from _scans(rel, ())


def _conditions(scalar: ir.Scalar) -> tuple[Condition, ...]:
    if isinstance(scalar, ir.BoolOp) and scalar.op == "and":
        return tuple(c for arg in scalar.args for c in _conditions(arg))
    found = _condition(scalar)
    return () if found is None else (found,)


def exact_conditions(scalar: ir.Scalar) -> tuple[Condition, ...] | None:
    """The conditions that `scalar` is the conjunction of; None when it says more than simple conditions can."""
    if isinstance(scalar, ir.BoolOp) and scalar.op == "and":
        parts = [exact_conditions(arg) for arg in scalar.args]
        return None if None in parts else tuple([condition for part in parts if part for condition in part])
    found = _condition(scalar)
    return None if found is None else (found,)


def _condition(scalar: ir.Scalar) -> Condition | None:
    match scalar:
        case ir.ColumnRef() if scalar.type.oid == t.BOOL:
            return Condition(scalar.id, "=", ir.Literal(value=True, type=scalar.type))
        case ir.IsNull():
            column = _column(scalar.arg)
            return (
                None if column is None else Condition(column.id, "is not null" if scalar.negated else "is null", None)
            )
        case ir.Call(args=(left, right)) if scalar.signature.name in _FLIPPED:
            column, operand, op = _column(left), right, scalar.signature.name
            if column is None:
                column, operand, op = _column(right), left, _FLIPPED[op]
            if column is None or not _fits(column, operand):
                return None
            assert isinstance(operand, (ir.Literal, ir.Param))
            return Condition(column.id, op, operand)
        case ir.BoolOp(op="not", args=(inner,)):
            # Both are true of no NULL.
            found = _condition(inner)
            return None if found is None or found.op not in _NEGATED else replace(found, op=_NEGATED[found.op])
        case ir.InList() if not scalar.negated:
            column = _column(scalar.arg)
            if column is None or not all(_fits(column, item) for item in scalar.items):
                return None
            return Condition(column.id, "in", scalar.items)  # type: ignore[arg-type]
        case _:
            return None


def _column(scalar: ir.Scalar) -> ir.ColumnRef | None:
    """The column that `scalar` is, seen through casts that change no value."""
    if isinstance(scalar, ir.ColumnRef):
        return scalar if scalar.type.oid in _COMPARABLE else None
    if isinstance(scalar, ir.Collate):
        return _column(scalar.arg)
    if isinstance(scalar, ir.Cast):
        inner = _column(scalar.arg)
        if inner is None or scalar.type.typmod != -1:
            return None
        if inner.type.oid in _STRINGS and scalar.type.oid in _STRINGS:
            return inner
        if inner.type.oid in (t.INT2, t.INT4) and scalar.type.oid in (t.INT4, t.INT8):
            return inner
    return None


def _fits(column: ir.ColumnRef, operand: ir.Scalar) -> bool:
    if not isinstance(operand, (ir.Literal, ir.Param)):
        return False
    left, right = column.type.oid, operand.type.oid
    return left == right or (left in _INTEGERS and right in _INTEGERS) or (left in _STRINGS and right in _STRINGS)


# ---------------------------------------------------------------- use


def may_match(part: Part, conjunctions: Sequence[Conjunction]) -> bool:
    """False only when no row of `part` satisfies any of `conjunctions`."""
    for conjunction in conjunctions:
        for comparison in conjunction:
            if not part_may_match(part, comparison.column, comparison.op, comparison.value):
                break
        else:
            return True
    return False


def any_row_matches(rows: pa.Table, conjunctions: Sequence[Conjunction]) -> bool:
    """Whether some row (columns ``c<attnum>``) may satisfy one of `conjunctions`; True where it cannot be told."""
    return rows.num_rows > 0 and any(_matches(rows, conjunction) for conjunction in conjunctions)


def _matches(rows: pa.Table, conjunction: Conjunction) -> bool:
    mask: Any = None
    for comparison in conjunction:
        if comparison.column not in rows.column_names:
            continue
        found = _mask(rows.column(comparison.column), comparison)
        if found is None:
            continue
        mask = found if mask is None else pc.and_(mask, found)
    return mask is None or bool(pc.any(mask, min_count=0).as_py())


def _mask(column: pa.ChunkedArray, comparison: Comparison) -> Any | None:
    if comparison.op == "is null":
        return pc.is_null(column)
    if comparison.op == "is not null":
        return pc.is_valid(column)
    try:
        if comparison.op == "in":
            mask = pc.is_in(column, value_set=pa.array(comparison.value, column.type))
        elif comparison.value is None:
            return pc.fill_null(pc.and_(pc.is_null(column), pc.is_valid(column)), False)
        else:
            mask = COMPARE[comparison.op](column, pa.scalar(comparison.value, column.type))
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
    mask = pc.fill_null(mask, False)
    if pa.types.is_floating(column.type):
        # NaN sorts above every number in PostgreSQL; Arrow's comparisons are IEEE's.
        mask = pc.or_(mask, pc.fill_null(pc.is_nan(column), False))
    return mask
