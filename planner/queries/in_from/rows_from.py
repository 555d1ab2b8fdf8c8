"""WITH ORDINALITY and ROWS FROM of functions of users: the rows of each are numbered, and joined by their numbers."""

from __future__ import annotations

from collections.abc import Sequence

from planner.calls.user_calls import UserRows
from planner.expressions.rows import field_of
from planner.functions import registry
from planner.ir.nodes import (
    Coalesce,
    ColumnRef,
    Field,
    Frame,
    FrameBound,
    FunctionCall,
    FunctionScan,
    Join,
    OneRow,
    Project,
    Rel,
    Scalar,
    Window,
    WindowCall,
)
from planner.resolution.operators import build_call, find_operator
from planner.resolution.statement import Level, Statement
from planner.types.types import INT8, SqlType
from planner.types.user_types import attributes

_NUMBER = SqlType(INT8)
_WHOLE = Frame(mode="range", start=FrameBound(kind="unbounded_preceding"), end=FrameBound(kind="unbounded_following"))


def side_by_side(
    level: Level, found: Sequence[FunctionCall | UserRows | tuple[str, Scalar]], *, ordinality: bool
) -> Rel:
    """The rows of the functions, the nth of each beside the nth of the others; as many as the longest gives."""
    statement = level.statement
    rel, number = _numbered(statement, _rows(statement, found[0]))
    fields = list(rel.fields[:-1])
    for each in found[1:]:
        other, its_number = _numbered(statement, _rows(statement, each))
        equal = find_operator(level, "=", INT8, INT8, -1)
        rel = Join(
            kind="full",
            lateral=False,
            left=rel,
            right=other,
            condition=build_call(level, equal, [number, its_number], -1),
            fields=(*rel.fields, *other.fields),
        )
        fields += other.fields[:-1]
        whole = statement.new_field("ordinality", _NUMBER)
        refs: list[Scalar] = [ColumnRef(id=field.id, type=field.type) for field in fields]
        fresh = [statement.new_field(field.name, field.type) for field in fields]
        rel = Project(
            input=rel,
            exprs=(*refs, Coalesce(args=(number, its_number), type=_NUMBER)),
            fields=(*fresh, whole),
        )
        fields, number = fresh, ColumnRef(id=whole.id, type=_NUMBER)
    shown = [*fields, *rel.fields[-1:]] if ordinality else fields
    exprs = tuple([ColumnRef(id=field.id, type=field.type) for field in shown])
    return Project(
        input=rel, exprs=exprs, fields=tuple([statement.new_field(field.name, field.type) for field in shown])
    )


def with_attributes(statement: Statement, scan: FunctionScan) -> Rel:
    """`scan` with the attributes of a function's result as columns, where that is of a composite type."""
    if not any(attributes(field.type.oid) for call in scan.functions for field in call.fields):
        return scan
    exprs: list[Scalar] = []
    fields: list[Field] = []
    for field in scan.fields:
        value = ColumnRef(id=field.id, type=field.type)
        parts = attributes(field.type.oid)
        exprs += [value] if parts is None else [field_of(value, index) for index in range(len(parts))]
        fields += [statement.new_field(part.name, part.type) for part in ([field] if parts is None else parts)]
    return Project(input=scan, exprs=tuple(exprs), fields=tuple(fields))


def _rows(statement: Statement, found: FunctionCall | UserRows | tuple[str, Scalar]) -> Rel:
    if isinstance(found, UserRows):
        return found.rel
    if isinstance(found, FunctionCall):
        return with_attributes(statement, FunctionScan(functions=(found,), ordinality=None, fields=found.fields))
    name, scalar = found
    return Project(input=OneRow(), exprs=(scalar,), fields=(statement.new_field(name, scalar.type),))


def _numbered(statement: Statement, rel: Rel) -> tuple[Rel, ColumnRef]:
    """`rel` with the numbers of its rows in a further column."""
    (signature,) = registry.window_functions("row_number")
    field: Field = statement.new_field("ordinality", _NUMBER)
    call = WindowCall(signature=signature, args=(), type=_NUMBER, partition_by=(), order_by=(), frame=_WHOLE)
    window = Window(input=rel, calls=(call,), fields=(*rel.fields, field), in_order=True)
    return window, ColumnRef(id=field.id, type=_NUMBER)
