"""Lookups: queries that pick rows of one small table by simple conditions, answered from its rows.

``SELECT a, b FROM t WHERE id = $1`` is what applications ask most. Over a few thousand rows it takes Arrow some
microseconds; an engine would spend a hundred times that on getting to the rows. Only comparisons that mean the same to
Arrow and to PostgreSQL are taken: not those of floating-point numbers (NaN) and of numeric (scales).

A column that is looked up again by equality gets an index, which lives as long as the table does not change.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from adapter.plans.computed.constant_rows import array_of, constant_value
from adapter.plans.conditions import Computed, Condition, exact_conditions
from planner.ir import nodes as ir
from planner.types import types as t
from planner.types.types import SqlType
from storage.bounded_map import BoundedMap
from storage.cache_memory import aging
from storage.shards.parts import ROW_ID
from storage.upkeep.pruning_audit import COMPARE

_INTEGERS = frozenset({t.INT2, t.INT4, t.INT8})
_COMPARED = _INTEGERS | {t.BOOL, t.TEXT, t.VARCHAR, t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ, t.UUID}
"""Types of columns that are compared here. Texts compare by their bytes."""


_INDEXED = _INTEGERS | {t.TEXT, t.VARCHAR, t.UUID}
"""Types whose values are the same to Python and to PostgreSQL: equal, less and greater at once."""

_TEST: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

MAX_INDEXES = 32
"""Indexes kept; one of 8,192 rows is about a megabyte."""

MAX_TESTED_ONE_BY_ONE = 64
"""So many rows that an index has found are tested for the other conditions in Python; more are faster in Arrow."""

MAX_CONSTANT_LENGTH = 1_000
"""A longer constant is not repeated for every row here: an engine holds it once."""

Index: TypeAlias = Mapping[object, Sequence[int]]
"""By value: where it is, in ascending order."""


class Lookup(Struct, frozen=True, kw_only=True):
    """The rows of `relation_oid` that meet all `conditions` (on a column, by its name and type), and of each the
    `outputs`: columns, by name, and constants."""

    relation_oid: int
    conditions: tuple[tuple[str, SqlType, Condition], ...]
    outputs: tuple[str | ir.Scalar, ...]

    @property
    def is_certain(self) -> bool:
        """Whether it is answered here whatever the parameters are."""
        return not any(isinstance(output, (ir.Cast, ir.Collate)) for output in self.outputs)

    def answer(self, rows: pa.Table, params: Sequence[ir.Literal], indexes: Indexes) -> pa.RecordBatch | None:
        """The answer over `rows`, in their order, under any names; None when a constant is an engine's to compute or to
        repeat.

        Raises the errors of constants that do not fit their types.
        """
        constants: dict[int, Any] = {}
        for place, output in enumerate(self.outputs):
            if not isinstance(output, str):
                is_known, value = constant_value(output, params)
                if not is_known or (isinstance(value, (str, bytes)) and len(value) > MAX_CONSTANT_LENGTH):
                    return None
                constants[place] = value
        picked = self._rows(rows, [output for output in self.outputs if isinstance(output, str)], params, indexes)
        if not constants:
            return picked
        columns = iter(picked.columns)
        arrays = [
            next(columns) if isinstance(output, str) else array_of(output.type, [constants[place]] * picked.num_rows)
            for place, output in enumerate(self.outputs)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=[f"c{place}" for place in range(len(arrays))])

    def _rows(
        self, rows: pa.Table, columns: list[str], params: Sequence[ir.Literal], indexes: Indexes
    ) -> pa.RecordBatch:
        """`columns` of the rows that meet the conditions; some other column where none is wanted."""
        wanted = columns or rows.column_names[:1]
        batches = rows.to_batches()
        if not batches:
            return pa.RecordBatch.from_pylist([], rows.select(wanted).schema)
        # The rows of a small table are one piece.
        (batch,) = batches
        selected = batch.select(wanted)
        positions = self._by_index(rows, batch, params, indexes)
        if positions is not None:
            return _at(selected, positions)
        mask: Any = None
        for column, type_, condition in self.conditions:
            met = _met(batch.column(column), type_, condition, params)
            if met is None:
                return selected.slice(0, 0)
            mask = met if mask is None else pc.and_(mask, met)
        return selected if mask is None else selected.filter(mask)

    def _by_index(
        self, rows: pa.Table, batch: pa.RecordBatch, params: Sequence[ir.Literal], indexes: Indexes
    ) -> Sequence[int] | None:
        """Where the rows are, found by an index; None when no index tells."""
        for chosen in self.conditions:
            column, type_, condition = chosen
            if condition.op != "=" or type_.oid not in _INDEXED:
                continue
            index = indexes.get(rows, column)
            if index is None:
                return None
            found = index.get(_value(condition.operand, params), ())
            rest = [other for other in self.conditions if other is not chosen]
            if rest and len(found) > MAX_TESTED_ONE_BY_ONE:
                return None
            for name, other_type, other in rest:
                if other_type.oid not in _INDEXED or other.op not in _TEST:
                    return None
                value = _value(other.operand, params)
                if value is None:
                    return ()
                held, test = batch.column(name), _TEST[other.op]
                found = [at for at in found if (own := held[at].as_py()) is not None and test(own, value)]
            return found
        return None


class Indexes:
    """Indexes of small tables: by column the positions of each value but NULL. The latest are kept. Belongs to the
    event loop."""

    def __init__(self) -> None:
        self._kept: BoundedMap[tuple[int, str], tuple[pa.Table, Index | None]] = aging(
            BoundedMap(max_entries=MAX_INDEXES)
        )
        """By identity of the rows, which an entry keeps alive. None: looked up once, and not worth an index yet."""

    def get(self, rows: pa.Table, column: str) -> Index | None:
        """The index of `column`, from the second time on that it is asked for."""
        key = (id(rows), column)
        kept = self._kept.get(key)
        if kept is not None and kept[1] is not None:
            self._kept.touch(key)
            return kept[1]
        index: Index | None = None
        if kept is not None:
            made: dict[object, list[int]] = {}
            for position, value in enumerate(rows.column(column).to_pylist()):
                if value is not None:
                    made.setdefault(value, []).append(position)
            index = made
        self._kept.put(key, (rows, index))
        return index


def _at(batch: pa.RecordBatch, positions: Sequence[int]) -> pa.RecordBatch:
    if not positions:
        return batch.slice(0, 0)
    if positions[-1] - positions[0] == len(positions) - 1:
        return batch.slice(positions[0], len(positions))
    return batch.take(pa.array(positions, pa.int32()))


def lookup_of(rel: ir.Rel) -> Lookup | None:
    """`rel` as a lookup, or None when it is more than that."""
    exprs: Sequence[ir.Scalar] | None = None
    conditions: list[Condition] = []
    if isinstance(rel, ir.Project):
        exprs, rel = rel.exprs, rel.input
    while isinstance(rel, ir.Filter):
        found = exact_conditions(rel.condition)
        if found is None:
            return None
        conditions.extend(found)
        rel = rel.input
    if not isinstance(rel, ir.Scan):
        return None
    names = {field.id: _name(rel, field) for field in rel.fields}
    types = {field.id: field.type for field in rel.fields}
    if not all(c.field in types and _can_compare(types[c.field], c) for c in conditions):
        return None
    outputs: list[str | ir.Scalar] = []
    for expr in [ir.ColumnRef(id=field.id, type=field.type) for field in rel.fields] if exprs is None else exprs:
        if isinstance(expr, ir.ColumnRef) and expr.id in names:
            outputs.append(names[expr.id])
        elif _is_constant(expr):
            outputs.append(expr)
        else:
            return None
    return Lookup(
        relation_oid=rel.relation_oid,
        conditions=tuple([(names[c.field], types[c.field], c) for c in conditions]),
        outputs=tuple(outputs),
    )


def _is_constant(expr: ir.Scalar) -> bool:
    while isinstance(expr, (ir.Cast, ir.Collate)):
        expr = expr.arg
    return isinstance(expr, (ir.Literal, ir.Param))


def _name(scan: ir.Scan, field: ir.Field) -> str:
    if field.id == scan.row_id:
        return ROW_ID
    assert field.origin is not None
    return f"c{field.origin.attnum}"


def _can_compare(type_: SqlType, condition: Condition) -> bool:
    if isinstance(condition.operand, Computed):
        return False
    return condition.operand is None or type_.oid in _COMPARED


def _met(column: pa.Array, type_: SqlType, condition: Condition, params: Sequence[ir.Literal]) -> Any | None:
    """In which rows `condition` is true; None when it is in no row."""
    operand = condition.operand
    if operand is None:
        return pc.is_null(column) if condition.op == "is null" else pc.is_valid(column)
    if condition.op == "in":
        values = _items(operand, params)
        return pc.is_in(column, value_set=_items_of(column, type_, values)) if values else None
    value = _value(operand, params)
    return None if value is None else COMPARE[condition.op](column, _scalar(type_, value))


def _items(operand: object, params: Sequence[ir.Literal]) -> list[Any]:
    """The values of a list, or of an array with any number of dimensions; NULL equals nothing."""
    values = [_value(item, params) for item in operand] if isinstance(operand, tuple) else _value(operand, params)
    found: list[Any] = []
    left: list[Any] = [values]
    while left:
        value = left.pop()
        if isinstance(value, (tuple, list)):
            left += value
        elif value is not None:
            found.append(value)
    return found


def _items_of(column: pa.Array, type_: SqlType, values: list[Any]) -> pa.Array:
    """`values` in the type of the column; those that it cannot hold are in no row."""
    if type_.oid in _INTEGERS:
        bound = 1 << column.type.bit_width - 1
        return pa.array([value for value in values if -bound <= value < bound], column.type)
    return array_of(type_, values)


def _value(operand: object, params: Sequence[ir.Literal]) -> object:
    assert isinstance(operand, (ir.Literal, ir.Param))
    return params[operand.index - 1].value if isinstance(operand, ir.Param) else operand.value


def _scalar(type_: SqlType, value: object) -> pa.Scalar:
    if type_.oid in _INTEGERS:
        # Any integer may be compared with a narrower column; Arrow compares in the wider type.
        return pa.scalar(value, pa.int64())
    return array_of(type_, [value])[0]
