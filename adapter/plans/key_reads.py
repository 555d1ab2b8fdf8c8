"""Queries that read the rows of one whole key, worked out once: ``SELECT ... WHERE id = $1``, and what UPDATE and
DELETE read of such rows.

Which key it is, what else has to hold and what is computed follow from the plan alone, so they are kept with it; a run
decodes the key, has it looked up, and computes with Python's values (`adapter.plans.row_values`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from msgspec import Struct

from adapter.plans.constant_rows import NeedsEngine, array_of
from adapter.plans.key_indexes import constraint_index, stored_column
from adapter.plans.predicates import Condition, exact_conditions
from adapter.plans.row_values import INTEGERS, TEXTS, Given, RowColumns, Value
from adapter.results import RecordBatch
from planner.ir import nodes as ir
from planner.ir.physical import arrow_schema
from planner.types import types as t
from planner.types.types import SqlType
from storage.catalog.model import CatalogSnapshot, Constraint, Relation
from storage.shards.indexes.definition import IndexDefinition, StoredColumn
from storage.shards.indexes.reading.found import Found

_KEYS = INTEGERS | TEXTS | {t.UUID, t.BOOL}
_COMPARED = INTEGERS | TEXTS
"""Types whose values compare in Python as in PostgreSQL: texts in C collation by their code points."""

_TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

Test: TypeAlias = Callable[[Sequence[Any], Given], bool]


class Output(Struct, frozen=True, kw_only=True):
    """One column of the result: a stored column as it is, by its place (-1: the row's id), or a computed value."""

    type: SqlType
    place: int = -1
    value: Value | None = None


class KeyRead(Struct, frozen=True, kw_only=True, eq=False):
    """A query of rows of `relation` with one key: the values of `keys`, in the order of `index`.

    `columns` are what is wanted of the rows; those that are computed with are at `read`, in the order in which `tests`
    and `outputs` expect their values. The result has `schema`.
    """

    relation: Relation
    index: IndexDefinition
    constraint: Constraint
    keys: tuple[ir.Literal | ir.Param, ...]
    columns: tuple[StoredColumn, ...]
    read: tuple[int, ...]
    tests: tuple[Test, ...]
    outputs: tuple[Output, ...]
    schema: pa.Schema

    def key(self, params: Sequence[ir.Literal]) -> tuple[Any, ...]:
        """The key that is looked for."""
        return tuple([params[key.index - 1].value if isinstance(key, ir.Param) else key.value for key in self.keys])

    def answer(self, found: Found, given: Given) -> RecordBatch | None:
        """The result over the rows that have the key; None when an engine has to compute it.

        Raises the errors of values that do not fit their types.
        """
        columns, row_ids = found.rows.columns, found.row_ids
        count = len(row_ids)
        values = list(zip(*[columns[place].to_pylist() for place in self.read], strict=True)) or [()] * count
        try:
            if self.tests:
                kept = [n for n, row in enumerate(values) if all(test(row, given) for test in self.tests)]
                if len(kept) < count:
                    at = pa.array(kept, pa.int64())
                    columns, row_ids = [column.take(at) for column in columns], row_ids[kept]
                    values = [values[n] for n in kept]
            arrays = []
            for output in self.outputs:
                if output.value is not None:
                    value = output.value
                    arrays.append(array_of(output.type, [value(row, given) for row in values]))
                elif output.place < 0:
                    arrays.append(pa.array(row_ids, pa.int64()))
                else:
                    arrays.append(columns[output.place])
        except NeedsEngine:
            return None
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def key_read_of(rel: ir.Rel, catalog: CatalogSnapshot) -> KeyRead | None:
    """`rel` as the reading of one key; None when it is more than that."""
    fields = rel.fields
    exprs: Sequence[ir.Scalar] = ()
    conditions: list[Condition] = []
    if isinstance(rel, ir.Project):
        exprs, rel = rel.exprs, rel.input
    while isinstance(rel, ir.Filter):
        found = exact_conditions(rel.condition)
        if found is None:
            return None
        conditions += found
        rel = rel.input
    if not isinstance(rel, ir.Scan) or not conditions or not fields:
        return None
    relation = catalog.get(rel.relation_oid)
    if not isinstance(relation, Relation) or relation.shard is None:
        return None
    attnums = {field.id: field.origin.attnum for field in rel.fields if field.origin is not None}
    types = {field.id: field.type for field in rel.fields}
    chosen = _constraint(catalog, relation, {attnums.get(field) for field in _equal(conditions, types)})
    if chosen is None:
        return None
    equal = {attnums[field]: condition for field, condition in _equal(conditions, types).items() if field in attnums}
    keys = [equal[attnum] for attnum in chosen.columns]
    row = RowColumns(types)
    tests = [_test(condition, types, row) for condition in conditions if not any(condition is key for key in keys)]
    if None in tests:
        return None
    places: dict[int, int] = {}
    outputs = []
    for expr in exprs or [ir.ColumnRef(id=field.id, type=field.type) for field in rel.fields]:
        output = _output(expr, rel, attnums, places, row)
        if output is None:
            return None
        outputs.append(output)
    read = [places.setdefault(attnums[field], len(places)) for field in row.places if field in attnums]
    if len(read) < len(row.places):
        return None
    columns = tuple([stored_column(relation, attnum) for attnum in places])
    schema = arrow_schema(fields)
    if any(o.place >= 0 and columns[o.place].type != field.type for o, field in zip(outputs, schema, strict=True)):
        return None
    return KeyRead(
        relation=relation,
        index=constraint_index(relation, chosen),
        constraint=chosen,
        keys=tuple([key.operand for key in keys]),  # type: ignore[misc]
        columns=columns,
        read=tuple(read),
        tests=tuple([test for test in tests if test is not None]),
        outputs=tuple(outputs),
        schema=schema,
    )


def _equal(conditions: Sequence[Condition], types: Mapping[int, SqlType]) -> dict[int, Condition]:
    """The first condition by field that fixes its value."""
    found: dict[int, Condition] = {}
    for condition in conditions:
        if condition.op == "=" and condition.then is None and isinstance(condition.operand, (ir.Literal, ir.Param)):
            type_ = types.get(condition.field)
            if type_ is not None and type_.oid in _KEYS:
                found.setdefault(condition.field, condition)
    return found


def _constraint(catalog: CatalogSnapshot, relation: Relation, attnums: set[int | None]) -> Constraint | None:
    """The first key of `relation` that has no other columns than `attnums`."""
    for oid in relation.constraints:
        constraint = catalog.get(oid)
        if not isinstance(constraint, Constraint) or constraint.relation != relation.oid:
            continue
        if constraint.kind in "pu" and attnums.issuperset(constraint.columns):
            return constraint
    return None


def _test(condition: Condition, types: Mapping[int, SqlType], row: RowColumns) -> Test | None:
    """What tests `condition`; None when an engine has to."""
    type_ = types.get(condition.field)
    column = row.column(condition.field)
    if column is None or type_ is None:
        return None
    value = column
    if condition.op in ("is null", "is not null"):
        wanted = condition.op == "is null"
        return lambda values, given: (value(values, given) is None) == wanted
    operand = condition.operand
    if condition.op not in _TESTS or condition.then is not None or type_.oid not in _COMPARED:
        return None
    if not isinstance(operand, (ir.Literal, ir.Param)):
        return None
    other, compare = row.value_of(operand), _TESTS[condition.op]
    assert other is not None
    against = other

    def test(values: Sequence[Any], given: Given) -> bool:
        a, b = value(values, given), against(values, given)
        return a is not None and b is not None and compare(a, b)

    return test


def _output(
    expr: ir.Scalar, scan: ir.Scan, attnums: Mapping[int, int], places: dict[int, int], row: RowColumns
) -> Output | None:
    if isinstance(expr, ir.ColumnRef):
        if expr.id == scan.row_id:
            return Output(type=expr.type)
        attnum = attnums.get(expr.id)
        return None if attnum is None else Output(type=expr.type, place=places.setdefault(attnum, len(places)))
    value = row.value_of(expr)
    return None if value is None else Output(type=expr.type, value=value)
