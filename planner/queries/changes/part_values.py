"""SET of a part of a column: ``a[2] = ...``, ``a[2:3] = ...`` (PostgreSQL's transformAssignmentIndirection)."""

from __future__ import annotations

from planner.errors import DatatypeMismatch, FeatureNotSupported
from planner.expressions.arrays import element_type
from planner.expressions.indirection import subscript_index
from planner.ir.nodes import ArrayConstructor, Scalar, SubscriptAssignment
from planner.queries.changes.column_values import in_shape
from planner.resolution.casting import coerce_to_target
from planner.resolution.coercion import Context
from planner.resolution.statement import Level
from planner.syntax.parse import Tree
from planner.types.type_names import format_type, type_row
from planner.types.types import JSONB, SqlType
from storage.catalog.model import Column


def part_type(named: Tree, type: SqlType) -> SqlType:
    """The type of the part of a column of `type` that `named` (a ResTarget) means."""
    return type if any(step.a_indices.is_slice for step in named.indirection) else element_type(type)


def assign_part(
    level: Level, named: Tree, column: Column, type: SqlType, before: Scalar, value: Scalar | None
) -> Scalar:
    """The whole of `column`, which was `before`, with the part that `named` (a ResTarget) means replaced by `value`
    (None: DEFAULT). Raises 42804, 0A000."""
    statement = level.statement
    position = statement.position(named.location)
    steps = list(named.indirection)
    if value is None:
        raise FeatureNotSupported("cannot set an array element to DEFAULT", position=position)
    element = element_type(type)
    row = type_row(type.oid)
    is_array = row is not None and row.category == "A" and bool(element.oid)
    if type.oid == JSONB:
        raise FeatureNotSupported("assigning to a part of a jsonb column is not supported", position=position)
    field = next((step.string.sval for step in steps if step.HasField("string")), None)
    if field is not None:
        whole = format_type(element.oid if is_array and len(steps) > 1 else type.oid)
        raise DatatypeMismatch(
            f'cannot assign to field "{field}" of column "{column.name}" because its type {whole} is not a composite '
            "type",
            position=position,
        )
    if not is_array:
        raise DatatypeMismatch(
            f"cannot subscript type {format_type(type.oid)} because it does not support subscripting", position=position
        )
    if len(steps) > 1:
        raise FeatureNotSupported("multidimensional arrays are not supported", position=position)
    indices = steps[0].a_indices
    sliced = bool(indices.is_slice)
    wanted = type if sliced else element
    converted = coerce_to_target(statement, value, wanted, Context.ASSIGNMENT)
    if converted is None:
        raise DatatypeMismatch(
            f'subscripted assignment to "{column.name}" requires type {format_type(wanted.oid)} but expression is of '
            f"type {format_type(value.type.oid)}",
            hint="You will need to rewrite or cast the expression.",
            position=position,
        )
    items = in_shape(statement, converted, wanted)
    lower = subscript_index(level, indices.lidx) if indices.HasField("lidx") else None
    upper = subscript_index(level, indices.uidx) if indices.HasField("uidx") else None
    if not sliced:
        lower, upper = upper, None
        items = ArrayConstructor(items=(items,), type=type)
    return SubscriptAssignment(arg=before, lower=lower, upper=upper, slice=sliced, items=items, type=type)
