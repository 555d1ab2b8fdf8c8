"""Values for columns: what may be assigned to one, what it gets when nothing is (its default, the next number of an
identity column), and what INSERT and UPDATE may say of generated and identity columns.

A statement proposes rows whose generated columns are NULL; their values follow from the others (`computing`), over rows
at hand or, where an engine makes the rows, on top of its query (`with_computed`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from planner.errors import DatatypeMismatch, GeneratedAlways, InvalidObjectDefinition
from planner.expressions.bind import DEFAULT_CLAUSE, GENERATION_CLAUSE, bind_clause
from planner.ir.bound import BoundQuery
from planner.ir.file_rows import FileTable, ForeignRead
from planner.ir.nodes import (
    RETURNING_ROWS,
    Call,
    ColumnRef,
    CteScan,
    Field,
    Literal,
    Param,
    Project,
    Rel,
    Scalar,
    Scan,
)
from planner.ir.past_rows import PastTable
from planner.ir.rewrite import transform, walk
from planner.queries.relations import bind_in_view, scan_table
from planner.queries.stored_expressions import bind_stored, parse_expression
from planner.resolution.casting import coerce_to_target, with_shape
from planner.resolution.coercion import Context
from planner.resolution.domains import default_of
from planner.resolution.session_values import acts, session_signatures
from planner.resolution.statement import Level, Statement
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree
from planner.types.type_names import format_type
from planner.types.types import INT8, REGCLASS, SqlType, type_of_column
from storage.catalog.model import Column, Relation

_T = TypeVar("_T")


def bound_query(statement: Statement, rel: Rel) -> BoundQuery:
    """`rel` as a query, with what the statement has gathered."""
    inside = statement.with_changes is not None and statement.with_changes.bound_inside
    return BoundQuery(
        rel=rel,
        param_types=() if inside else statement.final_param_types(),
        relations=frozenset(statement.relations | statement.read_inside),
        system=statement.system,
        volatile=statement.volatile,
        locking=statement.locking,
        functions=frozenset(statement.functions),
        files=_files_read(statement.files, rel) if statement.files else {},
        foreign=_files_read(statement.foreign, rel) if statement.foreign else {},
        past=_past_read(statement, rel) if statement.past else {},
    )


_File = TypeVar("_File", FileTable, ForeignRead)


def _files_read(files: Mapping[int, _File], rel: Rel) -> dict[int, _File]:
    scans = {node.cte for node in walk(rel) if isinstance(node, CteScan)}
    return {id: table for id, table in files.items() if id in scans}


def _past_read(statement: Statement, rel: Rel) -> dict[int, PastTable]:
    scans = {node.relation_oid for node in walk(rel) if isinstance(node, Scan)}
    scans |= {node.cte for node in walk(rel) if isinstance(node, CteScan)}
    return {id: table for id, table in statement.past.items() if id in scans}


def assign(statement: Statement, expr: Scalar, column: Column, type: SqlType) -> Scalar:
    """`expr` as a value for `column` (transformAssignedExpr). Raises 42804. The rules of a domain are a matter of the
    row that is written."""
    if isinstance(expr, Param):
        statement.note_domain(expr, type)
    converted = coerce_to_target(statement, expr, type.without_domain(), Context.ASSIGNMENT)
    if converted is None:
        raise DatatypeMismatch(
            f'column "{column.name}" is of type {format_type(type.declared_oid)} but expression is of type '
            f"{format_type(expr.type.declared_oid)}",
            hint="You will need to rewrite or cast the expression.",
            position=statement.position_of(expr),
            routine="transformAssignedExpr",
        )
    return in_shape(statement, converted, type)


def in_shape(statement: Statement, expr: Scalar, type: SqlType) -> Scalar:
    """A numeric in the shape that its column is stored in."""
    held_alike = expr.type.dimensioned == type.dimensioned
    if held_alike and (expr.type.shape == type.shape or (isinstance(expr, Param) and type.typmod < 0)):
        return expr
    return with_shape(statement, expr, type)


def default_value(statement: Statement, column: Column, type: SqlType) -> Scalar:
    """What a column gets when nothing is given for it: its DEFAULT, the next number of an identity column, or NULL. A
    generated column is NULL at first."""
    if column.identity:
        return _next_value(statement, column, type)
    text = default_text(column)
    if text is None:
        return Literal(value=None, type=type)
    parsed, tree = parse_expression(text)

    def bind_default(level: Level) -> Scalar:
        expr = bind_clause(level, tree, DEFAULT_CLAUSE)
        return assign(statement, expr, column, type)

    scalar: Scalar = bind_in_view(statement, bind_default, parsed)
    return scalar


def default_text(column: Column) -> str | None:
    """The DEFAULT of a column, which may be that of its domain."""
    if column.default is not None or column.generated or column.identity:
        return None if column.generated else column.default
    return default_of(column.type_oid)


def _next_value(statement: Statement, column: Column, type: SqlType) -> Scalar:
    """The next number for an identity column."""
    (signature,) = session_signatures("nextval")
    sequence = Literal(value=column.sequence, type=SqlType(REGCLASS))
    statement.volatile = True
    return assign(statement, Call(signature=signature, args=(sequence,), type=SqlType(INT8)), column, type)


# ---------------------------------------------------------------- generated columns


def row_scope(statement: Statement, relation: Relation) -> tuple[Level, Scan]:
    """A level that offers the columns of `relation` and nothing else, and their scan."""
    level = Level(statement, None)
    scan, item = scan_table(level, relation, None, -1)
    level.namespace.append(item)
    level.rtes.append(item)
    return level, scan


def bind_generation(level: Level, tree: Tree, relation: Relation, column: Column) -> Scalar:
    """The value of a generated column over a row of `relation`. Raises 42P17 for other generated columns, 42804 for a
    type that is not the column's by assignment."""
    statement = level.statement
    expr = bind_clause(level, tree, GENERATION_CLAUSE)
    generated = {other.name: other for other in relation.live_columns() if other.generated or other is column}
    for item in level.rtes:
        ids = {known.expr.id: known.name for known in item.columns if isinstance(known.expr, ColumnRef)}
        for node in walk(expr):
            if isinstance(node, ColumnRef) and ids.get(node.id) in generated:
                raise InvalidObjectDefinition(
                    f'cannot use generated column "{ids[node.id]}" in column generation expression',
                    detail="A generated column cannot reference another generated column.",
                    position=statement.position_of(node),
                )
    type_ = type_of_column(column)
    try:
        return assign(statement, expr, column, type_)
    except DatatypeMismatch:
        raise DatatypeMismatch(
            f'column "{column.name}" is of type {format_type(type_.oid)} but default expression is of type '
            f"{format_type(expr.type.oid)}",
            hint="You will need to rewrite or cast the expression.",
        ) from None


def computing(statement: Statement, relation: Relation) -> Project | None:
    """What gives the rows of `relation` at hand (`RETURNING_ROWS`) with their generated columns; None when it has
    none."""
    live = relation.live_columns()
    if not any(column.generated for column in live):
        return None
    level, scan = row_scope(statement, relation)
    exprs: list[Scalar] = []
    for column, field in zip(live, scan.fields, strict=True):
        expr: Scalar = ColumnRef(id=field.id, type=field.type)
        if column.generated:
            expr = _bound(level, relation, column)
        exprs.append(expr)
    fields = tuple(statement.new_field(field.name, field.type) for field in scan.fields)
    return Project(input=CteScan(cte=RETURNING_ROWS, fields=scan.fields), exprs=tuple(exprs), fields=fields)


def _bound(level: Level, relation: Relation, column: Column) -> Scalar:
    return bind_stored(
        level.statement, column.default or "", lambda tree: bind_generation(level, tree, relation, column)
    )


def with_computed(rel: Rel, computed: Project, first: int = 0) -> Project:
    """`rel`, of whose columns those from `first` on are proposed rows, with their generated columns as `computed` (of
    `computing`) has them. Both belong to one statement."""
    given = {field.id: rel.fields[first + place] for place, field in enumerate(computed.input.fields)}
    others = rel.fields[first + len(given) :]

    def of_proposed(node: object) -> ColumnRef | None:
        if isinstance(node, ColumnRef) and node.id in given:
            return ColumnRef(id=given[node.id].id, type=node.type)
        return None

    before, after = (
        tuple(ColumnRef(id=field.id, type=field.type) for field in kept) for kept in (rel.fields[:first], others)
    )
    fields: tuple[Field, ...] = (*rel.fields[:first], *computed.fields, *others)
    return Project(input=rel, exprs=(*before, *transform(computed.exprs, of_proposed), *after), fields=fields)


def without_acting_columns(rows: Project) -> Project:
    """`rows`, which are inserted, without a query in between that calls functions which act on the session: they stand
    in the outermost select list, like nextval() of a DEFAULT."""
    inner = rows.input
    if not isinstance(inner, Project):
        return rows
    calls = (node for node in walk(inner.exprs) if isinstance(node, Call))
    if not any(acts(node.signature) for node in calls):
        return rows
    given = {field.id: expr for field, expr in zip(inner.fields, inner.exprs, strict=True)}
    taken = Counter(node.id for node in walk(rows.exprs) if isinstance(node, ColumnRef))
    if any(taken[id] > 1 for id in given):
        return rows
    exprs = transform(rows.exprs, lambda node: given.get(node.id) if isinstance(node, ColumnRef) else None)
    return replace(rows, input=inner.input, exprs=exprs)


def refuse_values(live: Sequence[Column], given: set[int], override: int) -> None:
    """428C9 when an INSERT gives a value to a generated column, or to an identity column that is always the next
    number, unless `override` (an OverridingKind) says which one counts. `given` are places among the live columns."""
    for place in sorted(given):
        column = live[place]
        if column.generated:
            raise GeneratedAlways(
                f'cannot insert a non-DEFAULT value into column "{column.name}"',
                detail=f'Column "{column.name}" is a generated column.',
            )
        if column.identity == "a" and override not in (pb.OVERRIDING_USER_VALUE, pb.OVERRIDING_SYSTEM_VALUE):
            raise GeneratedAlways(
                f'cannot insert a non-DEFAULT value into column "{column.name}"',
                detail=f'Column "{column.name}" is an identity column defined as GENERATED ALWAYS.',
                hint="Use OVERRIDING SYSTEM VALUE to override.",
            )


def refuse_updates(live: Sequence[Column], given: set[int]) -> None:
    """428C9 when an UPDATE gives a value to a generated column or an identity column that is always the next number.
    `given` are places among the live columns."""
    for place in sorted(given):
        column = live[place]
        if column.generated or column.identity == "a":
            kind = "a generated column" if column.generated else "an identity column defined as GENERATED ALWAYS"
            raise GeneratedAlways(
                f'column "{column.name}" can only be updated to DEFAULT',
                detail=f'Column "{column.name}" is {kind}.',
            )
