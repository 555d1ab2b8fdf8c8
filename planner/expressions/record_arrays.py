"""A row compared with each row of an array: `(a, b) = ANY (ARRAY(SELECT (x, y) ...))`, `(a, b) <> ALL (ARRAY[...])`.

Rows are compared as PostgreSQL compares records: NULL fields are equal to each other and to nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.errors import DatatypeMismatch, FeatureNotSupported
from planner.functions import registry
from planner.ir.nodes import (
    ArrayConstructor,
    ArraySubquery,
    BoolOp,
    Cast,
    ColumnRef,
    Distinct,
    Exists,
    FieldSelect,
    Filter,
    Project,
    QuantifiedArray,
    Rel,
    RowConstructor,
    Scalar,
)
from planner.ir.physical import ELEMENT_ARRAYS
from planner.resolution.casting import resolve_unknown
from planner.resolution.operators import BOOLEAN
from planner.resolution.records import may_look_different, record_fields
from planner.resolution.statement import Level
from planner.types.type_names import format_type
from planner.types.types import RECORD, TEXT, SqlType


def compare_with_rows(level: Level, symbol: str, left: Scalar, array: Scalar, quantifier: str, location: int) -> Scalar:
    """`left symbol ANY|ALL (array)` for a row and an array of rows. Raises 0A000 for other operators, and for rows of
    which the fields are not known."""
    position = level.statement.position(location)
    if symbol == "!=":
        symbol = "<>"
    if symbol not in ("=", "<>"):
        raise FeatureNotSupported(f"record comparison {symbol} with an array is not supported", position=position)
    # x = ALL is no x that differs, x <> ALL no x that is equal.
    wants_equal = (symbol == "=") == (quantifier == "any")
    if not isinstance(left, RowConstructor) or left.nullable:
        raise FeatureNotSupported("only a row can be compared with an array of rows", position=position)
    row: RowConstructor = left

    def test(fields: Sequence[Scalar]) -> Scalar:
        return _test(row.items, [resolve_unknown(level.statement, field) for field in fields], equal=wants_equal)

    found: Scalar | None = None
    if isinstance(array, ArraySubquery):
        found = _in_subquery(level, array.rel, test, negated=quantifier == "all")
    elif isinstance(array, ArrayConstructor):
        found = _in_constructor(array, test, negated=quantifier == "all")
    elif not may_look_different(row.items):
        found = _in_texts(row, array, negated=quantifier == "all")
    if found is None:
        raise FeatureNotSupported("comparison of a row with this array is not supported", position=position)
    return found


def _test(left: Sequence[Scalar], right: Sequence[Scalar], *, equal: bool) -> Scalar:
    for number, (a, b) in enumerate(zip(left, right, strict=False), 1):
        if a.type.oid != b.type.oid:
            raise DatatypeMismatch(
                f"cannot compare dissimilar column types {format_type(a.type.oid)} and {format_type(b.type.oid)} at "
                f"record column {number}"
            )
    if len(left) != len(right):
        raise DatatypeMismatch("cannot compare record types with different numbers of columns")
    parts = tuple(Distinct(left=a, right=b, negated=equal, type=BOOLEAN) for a, b in zip(left, right, strict=True))
    return parts[0] if len(parts) == 1 else BoolOp(op="and" if equal else "or", args=parts, type=BOOLEAN)


def _in_subquery(level: Level, rel: Rel, test: Callable[[Sequence[Scalar]], Scalar], *, negated: bool) -> Scalar | None:
    field = rel.fields[0]
    if isinstance(rel, Project) and isinstance(rel.exprs[0], RowConstructor):
        row = rel.exprs[0]
        if row.nullable:
            return None
        fields = tuple(
            level.statement.new_field(name, item.type) for name, item in zip(row.names, row.items, strict=True)
        )
        rel = Project(input=rel.input, exprs=row.items, fields=fields)
        columns: list[Scalar] = [ColumnRef(id=item.id, type=item.type) for item in fields]
    else:
        record = ColumnRef(id=field.id, type=field.type)
        known = record_fields(level, record)
        if known is None:
            return None
        columns = [
            FieldSelect(arg=record, name=name, type=type, index=index) for index, (name, type) in enumerate(known)
        ]
    return Exists(rel=Filter(input=rel, condition=test(columns), fields=rel.fields), negated=negated, type=BOOLEAN)


def _in_texts(row: RowConstructor, array: Scalar, *, negated: bool) -> Scalar:
    """Rows that look alike when they are equal, and only then, by how they look."""
    (equal,) = [signature for signature in registry.operators("=") if signature.args == (TEXT, TEXT)]
    result = QuantifiedArray(
        arg=Cast(arg=row, type=SqlType(TEXT)),
        operator=equal,
        quantifier="any",
        array=Cast(arg=array, type=SqlType(ELEMENT_ARRAYS[TEXT])),
        type=BOOLEAN,
    )
    return BoolOp(op="not", args=(result,), type=BOOLEAN) if negated else result


def _in_constructor(
    array: ArrayConstructor, test: Callable[[Sequence[Scalar]], Scalar], *, negated: bool
) -> Scalar | None:
    tests = []
    for item in array.items:
        if not isinstance(item, RowConstructor) or item.type.oid != RECORD or item.nullable:
            return None
        tests.append(test(item.items))
    found = tests[0] if len(tests) == 1 else BoolOp(op="or", args=tuple(tests), type=BOOLEAN)
    return BoolOp(op="not", args=(found,), type=BOOLEAN) if negated else found
