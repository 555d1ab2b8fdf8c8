"""What the fields of a query's records are.

A value of type `record` is held as its text, and says nothing of its fields' types; who sends it in binary has to.
`shapes_of` finds them where the query makes the records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from planner.functions.registry import output_columns
from planner.ir import nodes as ir
from planner.ir.physical import ELEMENT_ARRAYS
from planner.ir.rewrite import walk
from planner.types.types import RECORD, WIDE, SqlType, column_type
from planner.types.user_types import attributes

_RECORDS = frozenset({RECORD, ELEMENT_ARRAYS[RECORD]})


class RecordShape(Struct, frozen=True):
    """The types of a record's fields, with the shapes of those that are records (or arrays of records) themselves. The
    types have no modifiers: values have been held against them."""

    fields: tuple[SqlType, ...]
    nested: tuple[RecordShape | None, ...]


def shapes_of(rel: ir.Rel) -> tuple[RecordShape | None, ...]:
    """For each column of `rel` the shape of the records (or of the elements) in it; None where it has no records, or
    none whose fields are known before they are computed."""
    if all(field.type.oid not in _RECORDS for field in rel.fields):
        return (None,) * len(rel.fields)
    shapes = _Shapes(rel)
    return tuple(shapes.of_column(field.id) if field.type.oid in _RECORDS else None for field in rel.fields)


class _Shapes:
    """Follows columns to what computes them."""

    def __init__(self, rel: ir.Rel) -> None:
        self._sources: dict[int, list[Any]] = {}
        tables: dict[int, ir.Rel] = {}
        scans: list[ir.CteScan] = []
        for node in walk(rel):
            match node:
                case ir.Project():
                    self._give(node.fields, node.exprs)
                case ir.Values():
                    for row in node.rows:
                        self._give(node.fields, row)
                case ir.Aggregate():
                    self._give(node.fields, (*node.keys, *node.calls))
                case ir.Window():
                    self._give(node.fields[len(node.input.fields) :], node.calls)
                case ir.FunctionCall():
                    self._give(node.fields, (node,) * len(node.fields))
                case ir.SetOperation():
                    for side in (node.left, node.right):
                        self._give(node.fields, _references(side.fields))
                case ir.CommonTable():
                    tables[node.id] = node.rel
                case ir.CteScan():
                    scans.append(node)
                case ir.Let():
                    self._sources.setdefault(node.id, []).append(node.value)
        for scan in scans:
            if scan.cte in tables:
                self._give(scan.fields, _references(tables[scan.cte].fields))

    def _give(self, fields: Sequence[ir.Field], sources: Sequence[Any]) -> None:
        for field, source in zip(fields, sources, strict=False):
            if field.type.oid in _RECORDS:
                self._sources.setdefault(field.id, []).append(source)

    def of_column(self, column: int, following: frozenset[int] = frozenset()) -> RecordShape | None:
        if column in following:
            return None
        return self._first(self._sources.get(column, ()), following | {column})

    def _first(self, sources: Sequence[Any], following: frozenset[int]) -> RecordShape | None:
        """The shape of the first that has one, unless another has another: nothing is said about those, then."""
        found = {shape for source in sources if (shape := self._of(source, following)) is not None}
        return found.pop() if len(found) == 1 else None

    def _of(self, scalar: Any, following: frozenset[int]) -> RecordShape | None:
        match scalar:
            case ir.RowConstructor():
                nested = tuple(
                    self._of(item, following) if item.type.oid in _RECORDS else None for item in scalar.items
                )
                return RecordShape(tuple(_unmodified(item.type) for item in scalar.items), nested)
            case ir.ColumnRef() | ir.LetValue():
                return self.of_column(scalar.id, following)
            case ir.FieldSelect():
                whole = self._of(scalar.arg, following)
                return None if whole is None else whole.nested[scalar.index]
            case ir.Case():
                results = [result for _, result in scalar.whens]
                return self._first([*results, *([] if scalar.otherwise is None else [scalar.otherwise])], following)
            case ir.Coalesce() | ir.MinMax():
                return self._first(scalar.args, following)
            case ir.ArrayConstructor():
                return self._first(scalar.items, following)
            case ir.ScalarSubquery() | ir.ArraySubquery():
                return self.of_column(scalar.rel.fields[0].id, following)
            case ir.Let():
                return self._of(scalar.body, following)
            case ir.Subscript() | ir.Collate():
                return self._of(scalar.arg, following)
            case ir.Cast() if attributes(scalar.arg.type.oid) is not None:
                fields = tuple(_unmodified(field.type) for field in attributes(scalar.arg.type.oid) or ())
                return RecordShape(fields, (None,) * len(fields))
            case ir.Call() | ir.FunctionCall() | ir.AggregateCall() | ir.WindowCall():
                declared = output_columns(scalar.signature)
                if declared is not None:
                    return RecordShape(tuple(column_type(oid) for _, oid in declared), (None,) * len(declared))
                return self._first([arg for arg in scalar.args if arg.type.oid in _RECORDS], following)
        return None


def _unmodified(type: SqlType) -> SqlType:
    return replace(type, typmod=-1, shape=None if type.shape is None else WIDE)


def _references(fields: Sequence[ir.Field]) -> list[ir.ColumnRef]:
    return [ir.ColumnRef(id=field.id, type=field.type) for field in fields]
