"""What a query surely requires of the rows that it reads of each table: simple conditions on single columns.

From a bound query this extracts, for each `Scan`, the conjunction of the conditions ``column op constant`` that a row
must satisfy to matter to the result. It is a superset: conditions that are not simple are left out. Two uses:

- *pruning*: a part that holds no row satisfying the conjunction is not read (`storage.shards.parts.may_match`);
- *validation*: a row that another transaction inserted or deleted since the snapshot can only have changed what was
  read if it satisfies the conjunction (`any_row_matches`).

SUBTLE: a strict condition above an outer join also holds for the nullable side: a row that fails it can only be
missed by turning its partner null-extended, and that row fails the strict condition in turn. `IS NULL` is not strict
and stops there. Window, LIMIT, DISTINCT and aggregation change meaning when rows disappear beneath them, so no
condition passes through them.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from adapter.plans.computed.constant_rows import NeedsEngine
from adapter.plans.computed.steps import Step, limits
from adapter.plans.conditions import (
    FLIPPED,
    INTEGERS,
    STRINGS,
    Computed,
    Condition,
    conditions_of,
    exact_conditions,
    step_condition,
)
from planner.errors import SqlError
from planner.ir import nodes as ir
from planner.ir.bound import WITH_ROWS, BoundQuery
from planner.ir.file_rows import FILE_ROWS
from planner.ir.physical import element_type
from planner.ir.rewrite import outermost_relations
from planner.types import types as t
from storage.bounded_map import BoundedMap
from storage.shards.parts import ANY_OF
from storage.upkeep.pruning_audit import COMPARE

_STRICT = frozenset(FLIPPED) | {"in", "like", "is not null"}


class KeyValue(Struct, frozen=True):
    """A value of a column of which only indexes know how its values compare."""

    value: Any


class Comparison(Struct, frozen=True):
    """A condition with its value, on a physical column; or one with `storage.shards.parts.ANY_OF`."""

    column: str
    op: str
    value: Any
    then: Comparison | None = None


MAX_QUERIES = 1000
"""Queries of which the templates are kept."""

Conjunction: TypeAlias = tuple[Comparison, ...]
"""All of them must hold; empty means every row."""


class ScanTemplate(Struct, frozen=True):
    """One scan of a query: the relation, and conditions whose parameters have no values yet."""

    relation_oid: int
    conditions: tuple[Condition, ...]
    columns: Mapping[int, str]
    """The physical columns of the scan's fields."""


_templates: BoundedMap[int, tuple[BoundQuery, tuple[ScanTemplate, ...]]] = BoundedMap(max_entries=MAX_QUERIES)
"""By identity of the query, which an entry keeps alive."""


def scan_templates(rel: ir.Rel) -> tuple[ScanTemplate, ...]:
    """One template for each scan in `rel`, wherever it stands."""
    return tuple(template for template in scans_in(rel, ()) if template.relation_oid > FILE_ROWS)


def templates_of(query: BoundQuery) -> tuple[ScanTemplate, ...]:
    """`scan_templates` of a query that comes with each run of a plan: found out once."""
    known = _templates.get(id(query))
    if known is None:
        known = query, scan_templates(query.rel)
        _templates.put(id(query), known)
    return known[1]


def bind_templates(
    templates: Sequence[ScanTemplate], params: Sequence[ir.Literal]
) -> dict[int, tuple[Conjunction, ...]]:
    """For each relation the conjunctions of its scans, with the parameters' values."""
    found: dict[int, list[Conjunction]] = {}
    for template in templates:
        comparisons: list[Comparison] = []
        for condition in template.conditions:
            comparisons += _bind(condition, template.columns, params)
        found.setdefault(template.relation_oid, []).append(tuple(comparisons))
    return {oid: tuple(conjunctions) for oid, conjunctions in found.items()}


def _bind(condition: Condition, columns: Mapping[int, str], params: Sequence[ir.Literal]) -> tuple[Comparison, ...]:
    """`condition` with its values; none where one cannot be used."""
    if condition.op == ANY_OF:
        branches = tuple([tuple([c for each in one for c in _bind(each, columns, params)]) for one in condition.any_of])
        return (Comparison("", ANY_OF, branches),) if all(branches) else ()
    column, operand = columns[condition.field], condition.operand
    if condition.step is not None:
        return _bind_step(condition.step, column, condition, params)
    if condition.by_key:
        return (Comparison(column, condition.op, _key_value(operand, params)),)
    if operand is None:
        return (Comparison(column, condition.op, None),)
    if condition.op == "in":
        assert not isinstance(operand, Computed)
        values = (
            _array(operand, params) if not isinstance(operand, tuple) else [_value(item, params) for item in operand]
        )
        if values is None or any(value is _UNUSABLE for value in values):
            return ()
        return (Comparison(column, "in", tuple([value for value in values if value is not None])),)
    assert not isinstance(operand, tuple)
    value = _value(operand, params)
    if value is _UNUSABLE:
        return ()
    if condition.op == "like":
        return bind_pattern(column, value)
    then = () if condition.then is None else _bind(condition.then, columns, params)
    return (Comparison(column, condition.op, value, then[0] if then else None),)


def _bind_step(step: Step, column: str, condition: Condition, params: Sequence[ir.Literal]) -> tuple[Comparison, ...]:
    """What a comparison of a function of `column` requires of the column."""
    operand = condition.operand
    if not isinstance(operand, tuple):
        return _step_comparisons(step, column, condition.op, None if operand is None else _value(operand, params))
    branches = [_step_comparisons(step, column, "=", _value(item, params)) for item in operand]
    return (Comparison("", ANY_OF, tuple(branches)),) if all(branches) else ()


def _step_comparisons(step: Step, column: str, op: str, value: Any) -> tuple[Comparison, ...]:
    if value is None:
        return (Comparison(column, "=", None),)
    found = None if value is _UNUSABLE else limits(step, op, value)
    return () if found is None else tuple([Comparison(column, side, limit) for side, limit in found])


def exact_step(
    scalar: ir.Scalar, columns: Mapping[int, str], params: Sequence[ir.Literal], *, negated: bool
) -> Conjunction | None:
    """The comparisons that a comparison of a function of a column is the conjunction of, as `exact_conjunction`."""
    condition = step_condition(scalar, negated=negated)
    if condition is None or condition.op == "in" or condition.step is None or not condition.step.exact:
        return None
    return _bind(condition, columns, params) or None


def _key_value(operand: object, params: Sequence[ir.Literal]) -> Any:
    if isinstance(operand, tuple):
        values = [_key_value(item, params) for item in operand]
        return tuple([value for value in values if value is not None])
    assert isinstance(operand, (ir.Literal, ir.Param))
    literal = params[operand.index - 1] if isinstance(operand, ir.Param) else operand
    return None if literal.value is None else KeyValue(literal.value)


def fits_decimal(value: Decimal) -> bool:
    """Whether a number has no more whole digits than decimals have: it is neither NaN nor infinite."""
    return value.is_finite() and value.adjusted() < t.MAX_DECIMAL_PRECISION


def bind_operands(condition: Condition, params: Sequence[ir.Literal]) -> Sequence[Any] | None:
    """The values of a condition ``in``, without NULLs; None when they cannot be used."""
    found = _bind(condition, {condition.field: ""}, params)
    return found[0].value if found else None


def _array(operand: ir.Literal | ir.Param, params: Sequence[ir.Literal]) -> list[Any] | None:
    """The elements of an array of one dimension; none of NULL."""
    literal = params[operand.index - 1] if isinstance(operand, ir.Param) else operand
    element = element_type(literal.type)
    if literal.value is None:
        return []
    values = literal.value
    if element is None or not isinstance(values, tuple) or tuple in set(map(type, values)):
        return None
    if element.oid in INTEGERS | STRINGS:
        # There may be thousands of them, and they are what they are.
        return list(values)
    return [_value(ir.Literal(value=value, type=element), params) for value in values]


def bind_pattern(column: str, pattern: Any) -> tuple[Comparison, ...]:
    """What LIKE requires of the beginning of a text, by its bytes."""
    if pattern is None:
        return (Comparison(column, "=", None),)
    prefix = ""
    at = 0
    while at < len(pattern) and pattern[at] not in "%_":
        at += pattern[at] == "\\"
        prefix += pattern[at : at + 1]
        at += 1
    if at > len(pattern):
        # It ends with an escape character, which is an error where it is compared.
        return ()
    if at == len(pattern):
        return (Comparison(column, "=", prefix),)
    if not prefix:
        return (Comparison(column, "is not null", None),)
    above = text_after(prefix)
    least = Comparison(column, ">=", prefix)
    return (least,) if above is None else (least, Comparison(column, "<", above))


def text_after(prefix: str) -> str | None:
    """The least text that is above all that begin with `prefix`, by its code points; None: there is none."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1]) + 1
        if 0xD800 <= code <= 0xDFFF:
            code = 0xE000
        if code <= sys.maxunicode:
            return prefix[: end - 1] + chr(code)
    return None


_UNUSABLE: Any = object()


def _value(operand: ir.Literal | ir.Param | Computed, params: Sequence[ir.Literal]) -> Any:
    if isinstance(operand, Computed):
        try:
            return operand.compute(params)
        except (NeedsEngine, SqlError):
            return _UNUSABLE
    literal = params[operand.index - 1] if isinstance(operand, ir.Param) else operand
    value = literal.value
    if isinstance(value, float) and math.isnan(value):
        return _UNUSABLE
    if isinstance(value, Decimal) and not fits_decimal(value):
        return _UNUSABLE
    if isinstance(value, str) and literal.type.oid not in STRINGS and literal.type.oid != t.UUID:
        return _UNUSABLE  # infinity
    if isinstance(value, int) and literal.type.oid in (t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ):
        return _UNUSABLE  # A year that Python does not have.
    return value


# ---------------------------------------------------------------- extraction


def scans_in(rel: ir.Rel, conditions: tuple[Condition, ...]) -> Iterator[ScanTemplate]:
    """`scan_templates`, and those of rows of files: their id is in place of the oid, their names in that of columns."""
    match rel:
        case ir.Scan():
            columns = {f.id: f"c{f.origin.attnum}" for f in rel.fields if f.origin is not None and f.id != rel.row_id}
            yield ScanTemplate(
                rel.relation_oid, tuple(_renamed(conditions, {field: field for field in columns}, keep=False)), columns
            )
        case ir.CteScan() if WITH_ROWS < rel.cte <= FILE_ROWS:
            columns = {field.id: field.name for field in rel.fields}
            yield ScanTemplate(
                rel.cte, tuple(_renamed(conditions, {field: field for field in columns}, keep=False)), columns
            )
        case ir.Filter():
            yield from scans_in(rel.input, conditions + conditions_of(rel.condition))
            yield from _nested(rel.condition)
        case ir.Sort():
            yield from scans_in(rel.input, conditions)
            yield from _nested(rel.keys)
        case ir.Project():
            renamed = {f.id: e.id for f, e in zip(rel.fields, rel.exprs, strict=True) if isinstance(e, ir.ColumnRef)}
            yield from scans_in(rel.input, tuple(_renamed(conditions, renamed, keep=True)))
            yield from _nested(rel.exprs)
        case ir.Join():
            strict = tuple(_strict(conditions))
            on = conditions_of(rel.condition) if rel.condition is not None else ()
            left = conditions if rel.kind in ("cross", "inner", "left") else strict
            right = conditions if rel.kind in ("cross", "inner", "right") else strict
            yield from scans_in(rel.left, left + (on if rel.kind in ("inner", "right") else ()))
            yield from scans_in(rel.right, right + (on if rel.kind in ("inner", "left") else ()))
            if rel.condition is not None:
                yield from _nested(rel.condition)
        case ir.With():
            for table in rel.tables:
                yield from scans_in(table.rel, ())
                if table.step is not None:
                    yield from scans_in(table.step, ())
            yield from scans_in(rel.body, conditions)
        case _:
            yield from _nested(rel)


def _strict(conditions: Iterable[Condition]) -> Iterator[Condition]:
    """What `conditions` say that no NULL meets."""
    for condition in conditions:
        if condition.op == ANY_OF:
            branches = tuple([tuple(_strict(branch)) for branch in condition.any_of])
            if all(branches):
                yield replace(condition, any_of=branches)
        elif condition.op in _STRICT:
            yield condition


def _renamed(conditions: Iterable[Condition], names: Mapping[int, int], *, keep: bool) -> Iterator[Condition]:
    """`conditions` on the fields that `names` gives; `keep`: those on other fields as they are."""
    for condition in conditions:
        if condition.op == ANY_OF:
            branches = tuple([tuple(_renamed(branch, names, keep=keep)) for branch in condition.any_of])
            if all(branches):
                yield replace(condition, any_of=branches)
        elif condition.field in names:
            then = None if condition.then is None else next(_renamed((condition.then,), names, keep=False), None)
            yield replace(condition, field=names[condition.field], then=then)
        elif keep:
            yield condition


def _nested(node: Any) -> Iterator[ScanTemplate]:
    """The scans in relations inside `node`, which itself is not looked at as a relation."""
    for rel in outermost_relations(node):
        yield from scans_in(rel, ())


def exact_conjunction(
    scalar: ir.Scalar, columns: Mapping[int, str], params: Sequence[ir.Literal] = ()
) -> Conjunction | None:
    """The comparisons that `scalar` is the conjunction of; None when it says more than they can. `columns` are the
    physical columns of its fields."""
    conditions = exact_conditions(scalar)
    if conditions is None:
        return None
    bound = [_bind(condition, columns, params) for condition in conditions]
    return tuple([found[0] for found in bound]) if all(len(found) == 1 for found in bound) else None


def implies(known: Conjunction, wanted: Conjunction) -> bool:
    """Whether all of `wanted` hold where all of `known` do. False where that is not seen."""
    return all(any(_implies(given, each) for given in known if given.column == each.column) for each in wanted)


def _implies(given: Comparison, wanted: Comparison) -> bool:
    if given == wanted:
        return True
    if given.op == "is null" or wanted.op == "is null" or wanted.then is not None:
        return False
    if wanted.op == "is not null":
        return True
    if given.op in ("=", "in"):
        values = given.value if given.op == "in" else (given.value,)
        return all(value is None or _meets(value, wanted) for value in values)
    if given.value is None or wanted.op == "in" or not _alike(given.value, wanted.value):
        return given.value is None
    at, limit = given.value, wanted.value
    if isinstance(at, str):
        at, limit = at.encode(), limit.encode()
    upwards = given.op in (">", ">=")
    if given.op == "<>":
        return False
    beyond = bool(at > limit if upwards else at < limit)
    if wanted.op == "<>":
        return beyond or (at == limit and given.op in ("<", ">"))
    if wanted.op == "=" or (wanted.op in (">", ">=")) != upwards:
        return False
    return beyond or (at == limit and (wanted.op in ("<=", ">=") or given.op in ("<", ">")))


def _meets(value: Any, wanted: Comparison) -> bool:
    """Whether a column that has this value meets `wanted`."""
    if wanted.op == "in":
        return any(type(value) is type(item) and value == item for item in wanted.value)
    if not _alike(value, wanted.value):
        return False
    limit = wanted.value
    if isinstance(value, str):
        value, limit = value.encode(), limit.encode()
    return bool(_HOLDS[wanted.op](value, limit))


def _alike(one: Any, other: Any) -> bool:
    """Whether two values compare here as they do in their column."""
    return type(one) is type(other) and isinstance(one, (int, str, Decimal, date, datetime))


_HOLDS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


# ---------------------------------------------------------------- use


def any_row_matches(rows: pa.Table, conjunctions: Sequence[Conjunction]) -> bool:
    """Whether some row (columns ``c<attnum>``) may satisfy one of `conjunctions`; True where it cannot be told."""
    return rows.num_rows > 0 and any(_matches(rows, conjunction) for conjunction in conjunctions)


def _matches(rows: pa.Table, conjunction: Conjunction) -> bool:
    mask = mask_of(rows, conjunction)
    return mask is None or bool(pc.any(mask, min_count=0).as_py())


def mask_of(rows: pa.Table, conjunction: Conjunction) -> Any | None:
    """Which rows satisfy `conjunction`, as far as their columns tell; None where nothing is told."""
    mask: Any = None
    for comparison in conjunction:
        if comparison.op == ANY_OF:
            found = mask_of_any(rows, comparison.value)
        elif comparison.column in rows.column_names:
            found = _mask(rows.column(comparison.column), comparison)
        else:
            continue
        if found is None:
            continue
        mask = found if mask is None else pc.and_(mask, found)
    return mask


def mask_of_any(rows: pa.Table, conjunctions: Sequence[Conjunction]) -> Any | None:
    """Which rows satisfy one of `conjunctions`, as far as their columns tell; None where nothing is told."""
    masks: list[Any] = [mask_of(rows, conjunction) for conjunction in conjunctions]
    return None if not masks or any(mask is None for mask in masks) else functools.reduce(pc.or_, masks)


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
