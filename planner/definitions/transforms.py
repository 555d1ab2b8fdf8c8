"""A whole table's rows anew: for ALTER COLUMN TYPE, with what makes a column's new values of the old row (USING, or the
column itself), and for a column that is added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from planner.errors import DatatypeMismatch, SqlError
from planner.expressions.bind import TRANSFORM_CLAUSE, bind_clause
from planner.ir.bound import BoundQuery
from planner.ir.nodes import ColumnRef, Literal, Project, Scalar, Scan
from planner.queries.changes.column_values import (
    bind_generation,
    bound_query,
    default_text,
    default_value,
    in_shape,
    row_scope,
)
from planner.queries.grammar import new_statement
from planner.queries.relations import scan_table
from planner.queries.stored_expressions import bind_stored, parse_expression
from planner.resolution.casting import coerce_to_target, finish_row
from planner.resolution.coercion import Context
from planner.resolution.statement import BindContext, Level, Statement
from planner.syntax.identifiers import quote_identifier
from planner.syntax.parse import Parsed
from planner.types.type_names import format_type
from planner.types.types import SqlType, type_of_column
from storage.catalog.model import Column, Relation


class ColumnChange(Struct, frozen=True, kw_only=True):
    """A column's new type. `written` is its USING expression as it stands in the statement, if it has one."""

    type: SqlType
    written: Parsed | None = None


def rewritten_rows(
    relation: Relation,
    attnums: Sequence[int],
    changes: Mapping[int, ColumnChange],
    parsed: Parsed,
    context: BindContext,
) -> BoundQuery:
    """The columns `attnums` of every row of `relation`, in that order, those in `changes` with their new types.

    `parsed` is the statement. Raises the binder's errors for USING, 42804 for values that are not assigned to the type
    by themselves.
    """
    level, scan = _over(relation, parsed, context)
    statement = level.statement
    statement.relations.add(relation.oid)
    fields = dict(zip((column.attnum for column in relation.live_columns()), scan.fields, strict=True))
    computed = {column.attnum for column in relation.live_columns() if column.generated}
    exprs = []
    for attnum in attnums:
        column: Scalar = ColumnRef(id=fields[attnum].id, type=fields[attnum].type)
        change, generated = changes.get(attnum), attnum in computed
        exprs.append(column if change is None else _changed(level, column, fields[attnum].name, change, generated))
    names = [fields[attnum].name for attnum in attnums]
    outputs = tuple(statement.new_field(name, expr.type) for name, expr in zip(names, exprs, strict=True))
    return bound_query(statement, Project(input=scan, exprs=tuple(exprs), fields=outputs))


def check_using(relation: Relation, written: Parsed, context: BindContext) -> None:
    """Raises what binding a USING of ALTER COLUMN TYPE raises, which is said before what is wrong with the column."""
    level, _ = _over(relation, written, context)
    bind_clause(level, written.tree, TRANSFORM_CLAUSE)


def _over(relation: Relation, parsed: Parsed, context: BindContext) -> tuple[Level, Scan]:
    """Where an expression of `parsed` over the rows of `relation` is bound, and what reads these."""
    level = Level(new_statement(parsed, context), None)
    scan, item = scan_table(level, relation, None, -1)
    level.namespace.append(item)
    level.rtes.append(item)
    return level, scan


def _changed(level: Level, expr: Scalar, name: str, change: ColumnChange, generated: bool) -> Scalar:
    statement = level.statement
    if change.written is not None:
        statement.parsed = change.written
        expr = finish_row(statement, bind_clause(level, change.written.tree, TRANSFORM_CLAUSE))
    converted = _assigned(statement, expr, change.type)
    if converted is not None:
        return converted
    type_name = format_type(change.type.oid)
    if change.written is not None:
        raise DatatypeMismatch(
            f'result of USING clause for column "{name}" cannot be cast automatically to type {type_name}',
            hint="You might need to add an explicit cast.",
        )
    target = f"{quote_identifier(name)}::{format_type(change.type.oid, change.type.typmod)}"
    raise DatatypeMismatch(
        f'column "{name}" cannot be cast automatically to type {type_name}',
        hint=None if generated else f'You might need to specify "USING {target}".',
    )


def _assigned(statement: Statement, expr: Scalar, type: SqlType) -> Scalar | None:
    try:
        converted = coerce_to_target(statement, expr, type, Context.ASSIGNMENT)
    except SqlError as error:
        # PostgreSQL converts without knowing the text.
        error.position = None
        raise
    return None if converted is None else in_shape(statement, converted, type)


def rows_with_column(relation: Relation, column: Column, context: BindContext) -> BoundQuery:
    """The rows of `relation` with the value that each gets in the new `column` as one more: what it is generated as,
    its default, or NULL."""
    statement = new_statement(parse_expression("NULL")[0], context)
    level, scan = row_scope(statement, relation)
    statement.relations.add(relation.oid)
    type_ = type_of_column(column)
    if column.generated:
        added: Scalar = bind_stored(
            statement, column.default or "", lambda tree: bind_generation(level, tree, relation, column)
        )
    elif default_text(column) is None or column.sequence is not None:
        added = Literal(value=None, type=type_)
    else:
        added = default_value(statement, column, type_)
    exprs = (*(ColumnRef(id=field.id, type=field.type) for field in scan.fields), added)
    names = [*(field.name for field in scan.fields), column.name]
    outputs = tuple(statement.new_field(name, expr.type) for name, expr in zip(names, exprs, strict=True))
    return bound_query(statement, Project(input=scan, exprs=exprs, fields=outputs))
