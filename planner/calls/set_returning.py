"""Calls of set-returning functions, and the columns that they and functions in FROM give."""

from __future__ import annotations

from collections.abc import Sequence

from planner.calls.inlining import rows_as_values, unless_null
from planner.calls.overloads import Resolved
from planner.errors import FeatureNotSupported
from planner.functions import registry
from planner.ir.nodes import ColumnRef, Field, FunctionCall, FunctionScan, RowConstructor, Scalar, ScalarSubquery
from planner.resolution.coercion import ANYCOMPATIBLE
from planner.resolution.statement import Level
from planner.types.type_names import element_of
from planner.types.types import ANYELEMENT, RECORD, RECORD_ARRAY, TEXT, VOID, SqlType, column_type

_SET_PLACES = {"window": "window definitions", "": "this context"}
_ALLOWED_CLAUSES = frozenset({"SELECT", "ORDER BY", "DISTINCT ON", "GROUP BY"})


class SetInValues(FeatureNotSupported):
    """A set-returning function in a row of VALUES. Where there is no other row INSERT takes it for a query's."""


def output_fields(level: Level, resolved: Resolved, name: str) -> tuple[Field, ...]:
    """The columns of a function in FROM or of a set-returning one: its OUT columns, or one named after it."""
    statement = level.statement
    out = registry.output_columns(resolved.signature)
    if out is not None and resolved.type.oid == RECORD:
        concrete = _concrete_columns(resolved, out)
        return tuple(statement.new_field(column, type) for column, type in concrete)
    type = resolved.type
    if out is not None and len(out) == 1 and out[0][0]:
        return (statement.new_field(out[0][0], type),)
    return (statement.new_field(name, type),)


def _concrete_columns(resolved: Resolved, out: Sequence[tuple[str, int]]) -> list[tuple[str, SqlType]]:
    element = next((element_of(arg) for arg in resolved.signature.args if element_of(arg)), TEXT)
    return [(name, column_type(element if oid in (ANYELEMENT, ANYCOMPATIBLE) else oid)) for name, oid in out]


def _of_records(resolved: Resolved) -> bool:
    """Whether it gives the elements of an array of records."""
    return any(arg.type.oid == RECORD_ARRAY for arg in resolved.args)


def check_place(level: Level, location: int) -> None:
    """Raises 0A000 where set-returning functions may not stand."""
    position = level.statement.position(location)
    if level.clause not in _ALLOWED_CLAUSES:
        error = SetInValues if level.clause == "VALUES" else FeatureNotSupported
        raise error(
            f"set-returning functions are not allowed in {_SET_PLACES.get(level.clause or '', level.clause)}",
            position=position,
        )
    if level.srf_barrier is not None:
        raise FeatureNotSupported(
            f"set-returning functions are not allowed in {level.srf_barrier}",
            hint="You might be able to move the set-returning function into a LATERAL FROM item.",
            position=position,
        )


def set_returning(level: Level, resolved: Resolved, name: str, location: int, start_srfs: int) -> Scalar:
    """A set-returning function in a select list: a reference to the column that a `ProjectSet` will compute."""
    statement = level.statement
    position = statement.position(location)
    check_place(level, location)
    fields = output_fields(level, resolved, name)
    depth = max((level.srf_depth[index] for index in range(start_srfs, len(level.srfs))), default=-1) + 1
    call = FunctionCall(signature=resolved.signature, args=tuple(resolved.args), fields=fields)
    level.srfs.append(call)
    level.srf_depth.append(depth)
    level.srf_locations.append(location)
    if resolved.type.oid == RECORD and not _of_records(resolved):
        if len(fields) == 1 and fields[0].type.oid == RECORD:
            raise FeatureNotSupported(f"function {name} returning record is only supported in FROM", position=position)
        items = tuple(ColumnRef(id=field.id, type=field.type) for field in fields)
        row = RowConstructor(items=items, names=tuple(field.name for field in fields), type=SqlType(RECORD))
        return statement.at(row, location)
    if resolved.type.oid == VOID:
        raise FeatureNotSupported(f"function {name} is not supported in a select list", position=position)
    return statement.at(ColumnRef(id=fields[0].id, type=fields[0].type), location)


def row_of_function(level: Level, resolved: Resolved, location: int) -> Scalar:
    """A function with several OUT columns outside of FROM: the row that it has there, as a value."""
    statement = level.statement
    fields = output_fields(level, resolved, resolved.signature.name)
    columns = tuple((field.name, field.type) for field in fields)
    call = FunctionCall(signature=resolved.signature, args=tuple(resolved.args), fields=fields)
    scan = FunctionScan(functions=(call,), ordinality=None, fields=fields)
    rel = rows_as_values(statement, scan, columns, SqlType(RECORD))
    statement.record_columns[rel.fields[0].id] = columns
    value: Scalar = ScalarSubquery(rel=rel, type=rel.fields[0].type)
    if resolved.signature.strict:
        value = unless_null(resolved.args, value)
    statement.records[id(value)] = (value, columns)
    return statement.at(value, location)
