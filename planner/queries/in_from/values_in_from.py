"""Expressions that stand in FROM as functions do (COALESCE, casts, CURRENT_DATE): one row, of the value itself or of
the fields that it has."""

from __future__ import annotations

from collections.abc import Sequence

from planner.errors import DatatypeMismatch, FeatureNotSupported, SqlSyntaxError
from planner.expressions.rows import field_of
from planner.ir.nodes import Coalesce, ColumnRef, FieldSelect, Literal, OneRow, Project, Rel, Scalar
from planner.resolution.casting import resolve_unknown
from planner.resolution.records import record_fields
from planner.resolution.statement import Level
from planner.syntax.parse import Tree
from planner.types.type_names import format_type
from planner.types.types import INT8, RECORD, UNKNOWN, SqlType
from planner.types.user_types import attributes


def value_in_from(level: Level, label: str, value: Scalar, definitions: Sequence[Tree], *, ordinality: bool) -> Rel:
    """One row, of `value` called `label` or of its fields, and its number with `ordinality`. Raises 42601 for a column
    definition list where there must be none or is none, and 42804 for one of other columns than the value has."""
    statement = level.statement
    value = resolve_unknown(statement, value)
    field = statement.new_field(label, value.type)
    known = _fields(level, value)
    if known is not None:
        statement.record_columns[field.id] = known
    whole = ColumnRef(id=field.id, type=field.type)
    columns: list[tuple[str, SqlType]]
    exprs: list[Scalar]
    if (parts := attributes(value.type.oid)) is not None:
        what = "a column definition list is redundant for a function returning a named composite type"
        _refuse(level, definitions, what)
        columns = [(part.name, part.type) for part in parts]
        exprs = [field_of(whole, index) for index in range(len(parts))]
    elif value.type.oid == RECORD:
        columns = _declared(level, value, known, definitions)
        exprs = [
            FieldSelect(arg=whole, name=name, type=type, index=index)
            for index, ((name, _), (_, type)) in enumerate(zip(known or (), columns, strict=True))
        ]
    else:
        _refuse(level, definitions, 'a column definition list is only allowed for functions returning "record"')
        columns, exprs = [(label, value.type)], [whole]
    if ordinality:
        columns.append(("ordinality", SqlType(INT8)))
        exprs.append(Literal(value=1, type=SqlType(INT8)))
    one = Project(input=OneRow(), exprs=(value,), fields=(field,))
    if exprs == [whole]:
        return one
    fields = tuple([statement.new_field(name, type) for name, type in columns])
    return Project(input=one, exprs=tuple(exprs), fields=fields)


def _fields(level: Level, value: Scalar) -> tuple[tuple[str, SqlType], ...] | None:
    """The names and types of the fields that a row has, if it is one and they are known."""
    if not isinstance(value, Coalesce) or value.type.oid != RECORD:
        return record_fields(level, value)
    found = [_fields(level, arg) for arg in value.args]
    alike = {tuple(type.oid for _, type in each) for each in found if each is not None}
    return found[0] if len(alike) == 1 and None not in found else None


def _refuse(level: Level, definitions: Sequence[Tree], message: str) -> None:
    if definitions:
        raise SqlSyntaxError(message, position=level.statement.position(definitions[0].column_def.location))


def _declared(
    level: Level, value: Scalar, known: Sequence[tuple[str, SqlType]] | None, definitions: Sequence[Tree]
) -> list[tuple[str, SqlType]]:
    """The columns of a column definition list, which have the types of the record's fields."""
    statement = level.statement
    position = statement.position_of(value)
    if not definitions:
        raise SqlSyntaxError('a column definition list is required for functions returning "record"', position=position)
    if known is None:
        raise FeatureNotSupported(
            "a column definition list for a record that is not written out is not supported", position=position
        )
    columns = [(node.column_def.colname, statement.type_named(node.column_def.type_name)) for node in definitions]
    message = "function return row and query-specified return row do not match"
    if len(columns) != len(known):
        count = f"{len(known)} attribute{'' if len(known) == 1 else 's'}"
        raise DatatypeMismatch(message, detail=f"Returned row contains {count}, but query expects {len(columns)}.")
    for number, ((_, wanted), (_, given)) in enumerate(zip(columns, known, strict=True), 1):
        if wanted.oid != given.oid and given.oid != UNKNOWN:
            raise DatatypeMismatch(
                message,
                detail=f"Returned type {format_type(given.oid)} at ordinal position {number}, but query expects "
                f"{format_type(wanted.oid)}.",
            )
    return columns
