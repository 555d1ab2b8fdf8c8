"""Functions of users put into the query that calls them.

A function whose body is one query is that query with its arguments in place of its parameters: an expression where it
selects one without FROM, else a subquery. One that changes something, has several statements, calls itself or whose
arguments may be evaluated once only is left as a call, which whoever runs the query carries out (`Signature.acts`).

The body is bound with columns in place of arguments (constants and parameters apart), which are then replaced in what
comes of it: so no rule of the query around applies to what stands in the body, or the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from planner.calls.overloads import Resolved
from planner.calls.user_functions import record_of, statements_of
from planner.errors import FeatureNotSupported, InvalidFunctionDefinition
from planner.expressions.extensions.hstore_rows import EXPRESSIONS
from planner.functions.own_bodies import FUNCTIONS
from planner.ir.bound import Arguments
from planner.ir.nodes import (
    AggregateCall,
    BoolOp,
    Case,
    Cast,
    ColumnRef,
    Field,
    Filter,
    IsNull,
    Let,
    LetValue,
    Limit,
    Literal,
    OneRow,
    Param,
    Project,
    Rel,
    RowConstructor,
    Scalar,
    ScalarSubquery,
    SessionValue,
)
from planner.ir.rewrite import column_ids, is_volatile, transform, walk
from planner.resolution.casting import coerce_to_target
from planner.resolution.coercion import Context
from planner.resolution.operators import BOOLEAN
from planner.resolution.query import bind_query
from planner.resolution.statement import BindContext, Level, Statement
from planner.syntax.parse import Parsed
from planner.types.type_names import format_type
from planner.types.type_scope import TYPE_SCOPE, types_of
from planner.types.types import INT8, NAME, RECORD, VOID, SqlType
from planner.types.user_types import attributes
from storage.catalog.access import Role
from storage.catalog.routines import Function

SEARCH_PATH = "search_path="


class _Inlined(Struct):
    """A body that has become a query of the caller's."""

    rel: Rel
    volatile: Mapping[int, Scalar]
    """The arguments that are evaluated once, by the columns that stand for them in `rel`."""


def settings_path(record: Function) -> tuple[str, ...] | None:
    """The search path that the function sets for itself, if it does."""
    for setting in record.settings:
        if setting.startswith(SEARCH_PATH):
            names = setting.removeprefix(SEARCH_PATH).split(",")
            return tuple(name.strip().strip('"') for name in names if name.strip().strip('"'))
    return None


def context_of(record: Function, context: BindContext) -> BindContext:
    """`context` as the function's body sees it."""
    path = settings_path(record)
    return context if path is None else replace(context, search_path=path)


def may_be_inlined(record: Function, statements: Sequence[Parsed]) -> bool:
    """Whether the body is one query, for which nothing but the search path is set."""
    if len(statements) != 1 or statements[0].kind != "select_stmt":
        return False
    tree = statements[0].tree
    while tree.HasField("larg"):
        tree = tree.larg
    if tree.HasField("into_clause") or statements[0].tree.locking_clause:
        return False
    with_changes = any(
        not cte.common_table_expr.ctequery.HasField("select_stmt") for cte in statements[0].tree.with_clause.ctes
    )
    return not with_changes and all(setting.startswith(SEARCH_PATH) for setting in record.settings)


def may_lock_rows(record: Function, statements: Sequence[Parsed]) -> bool:
    """Whether PostgreSQL lets the body have FOR UPDATE and its like: a volatile one, and one that it puts into the
    query with the call in FROM (inline_set_returning_function)."""
    if record.volatility == "v":
        return True
    return record.returns_set and not (record.strict or record.security_definer or record.settings or statements[1:])


@contextmanager
def _inside(statement: Statement, record: Function, parsed: Parsed, arguments: Arguments) -> Iterator[None]:
    """`statement` binds the body of `record` for the length of the block."""
    outer = statement.parsed, statement.view_depth, statement.arguments, statement.context, statement.relations
    context = context_of(record, statement.context)
    statement.parsed, statement.view_depth, statement.arguments = parsed, statement.view_depth + 1, arguments
    statement.context, statement.relations = context, set()
    statement.expanding = (*statement.expanding, record.oid)
    owner = record.owner if record.security_definer else None
    try:
        with statement.required.inside_function(owner, stored=record.sql_body is not None):
            if context.search_path == TYPE_SCOPE.get().search_path:
                yield
            else:
                with types_of(context.catalog, context.search_path):
                    yield
    finally:
        statement.read_inside |= statement.relations
        statement.parsed, statement.view_depth, statement.arguments, statement.context, statement.relations = outer
        statement.expanding = statement.expanding[:-1]


def names_of(record: Function) -> tuple[str, ...]:
    """What the body calls its arguments."""
    return tuple(parameter.name for parameter in record.inputs)


def _inline(level: Level, resolved: Resolved, columns: Sequence[tuple[str, SqlType]] | None) -> _Inlined | None:
    """The body of a function as a query; None when it has to be carried out. `columns` are those that its rows are to
    have, where its result is a row."""
    statement = level.statement
    record = record_of(statement.context, resolved.signature)
    if record.oid not in FUNCTIONS:
        statement.functions.add(record.oid)
    expression = _expression(level, resolved)
    if expression is not None:
        if expression.type.oid == RECORD:
            raise FeatureNotSupported(f"function {record.name} of a record in FROM is not supported")
        fields = (statement.new_field(record.name, expression.type),)
        return _Inlined(Project(input=OneRow(), exprs=(expression,), fields=fields), {})
    if record.oid in statement.expanding or record.native or statement.is_shown:
        return None
    statements = statements_of(record.body, record.sql_body)
    if not may_be_inlined(record, statements):
        return None
    stand_ins: dict[int, Scalar] = {}
    values: list[Scalar] = []
    for arg in resolved.args:
        if isinstance(arg, (Literal, Param)):
            values.append(arg)
            continue
        field = statement.new_field("argument", arg.type)
        stand_ins[field.id] = arg
        values.append(ColumnRef(id=field.id, type=arg.type))
    parsed = statements[0]
    arguments = Arguments(function=record.name, names=names_of(record), values=tuple(values))
    rel, locking = _body(statement, record, parsed, arguments, resolved.type, columns)
    if locking is not None and not may_lock_rows(record, statements):
        # It is carried out, which raises what has to be raised.
        return None
    statement.locking = statement.locking or locking
    for node in walk(rel):
        # An engine would take an aggregate of nothing but the caller's columns for one of the caller's.
        if isinstance(node, AggregateCall):
            ids = set(column_ids(node))
            if ids and ids <= stand_ins.keys() and any(list(column_ids(stand_ins[id])) for id in ids):
                return None
        # Neither engine has a LIMIT that is not the same for all rows of the caller.
        if isinstance(node, Limit) and not stand_ins.keys().isdisjoint(column_ids((node.count, node.offset))):
            raise FeatureNotSupported(f"LIMIT by a computed argument of function {record.name} is not supported")
    if record.security_definer:
        rel = _as_owner(statement, record, rel)
    used = list(column_ids(rel))
    once = {id: arg for id, arg in stand_ins.items() if is_volatile(arg) and (record.strict or used.count(id) != 1)}
    again = {id: arg for id, arg in stand_ins.items() if id not in once}
    return _Inlined(_replaced(rel, again), once)


def _body(
    statement: Statement, record: Function, parsed: Parsed, arguments: Arguments, result: SqlType,
    columns: Sequence[tuple[str, SqlType]] | None,
) -> tuple[Rel, str | None]:  # fmt: skip
    """The body as a query, and the first clause in it that locks rows."""
    outside, statement.locking = statement.locking, None
    try:
        with _inside(statement, record, parsed, arguments):
            rel = bind_query(Level(statement, None), parsed.tree)
            return as_declared(statement, rel, result, columns), statement.locking
    finally:
        statement.locking = outside


def _replaced(node: Any, values: Mapping[int, Scalar]) -> Any:
    if not values:
        return node
    return transform(node, lambda part: values.get(part.id) if isinstance(part, ColumnRef) else None)


def _as_owner(statement: Statement, record: Function, rel: Rel) -> Rel:
    """`rel` with the function's owner as the current user."""
    owner = statement.context.catalog.get(record.owner)
    name = Literal(value=owner.name if isinstance(owner, Role) else "postgres", type=SqlType(NAME))

    def named(node: object) -> Literal | None:
        return name if isinstance(node, SessionValue) and node.name == "current_user" else None

    result: Rel = transform(rel, named)
    return result


# ---------------------------------------------------------------- what comes of the last statement


def as_declared(statement: Statement, rel: Rel, result: SqlType, columns: Sequence[tuple[str, SqlType]] | None) -> Rel:
    """The rows of a function's last statement in the types that it declares (check_sql_fn_retval): `columns` where its
    result is a row of known columns, else one of type `result`. Raises 42P13."""
    if result.oid == VOID:
        return rel
    if columns is None:
        if result.oid == RECORD:
            return rel
        if len(rel.fields) != 1:
            raise mismatch(result, "Final statement must return exactly one column.")
        wanted: Sequence[SqlType] = [result]
    else:
        if len(rel.fields) == 1 and rel.fields[0].type.oid == result.oid and attributes(result.oid) is not None:
            return rel
        wanted = [type for _, type in columns]
    return _in_types(statement, rel, result, wanted, is_row=columns is not None)


def _in_types(statement: Statement, rel: Rel, result: SqlType, wanted: Sequence[SqlType], *, is_row: bool) -> Rel:
    exprs: list[Scalar] = []
    for place, field in enumerate(rel.fields, 1):
        if place > len(wanted):
            raise mismatch(result, "Final statement returns too many columns.")
        target = wanted[place - 1]
        expr = coerce_to_target(statement, ColumnRef(id=field.id, type=field.type), target, Context.ASSIGNMENT)
        if expr is None:
            actual = format_type(field.type.oid)
            raise mismatch(
                result,
                f"Final statement returns {actual} instead of {format_type(target.oid)} at column {place}."
                if is_row
                else f"Actual return type is {actual}.",
            )
        if expr.type.domain and not target.domain:
            expr = Cast(arg=expr, type=expr.type.without_domain(), explicit=True)
        if target.typmod < 0 <= expr.type.typmod:
            expr = Cast(arg=expr, type=SqlType(target.oid, -1, expr.type.shape), explicit=True)
        exprs.append(expr)
    if len(rel.fields) < len(wanted):
        raise mismatch(result, "Final statement returns too few columns.")
    if all(isinstance(expr, ColumnRef) for expr in exprs):
        return rel
    fields = tuple(statement.new_field(field.name, expr.type) for field, expr in zip(rel.fields, exprs, strict=True))
    if isinstance(rel, Project):
        inner = {field.id: expr for field, expr in zip(rel.fields, rel.exprs, strict=True)}
        if not any(is_volatile(expr) for expr in rel.exprs):
            return Project(input=rel.input, exprs=tuple(_replaced(expr, inner) for expr in exprs), fields=fields)
    return Project(input=rel, exprs=tuple(exprs), fields=fields)


def mismatch(result: SqlType, detail: str) -> InvalidFunctionDefinition:
    """42P13 for a body that does not give what its function declares."""
    return InvalidFunctionDefinition(
        f"return type mismatch in function declared to return {format_type(result.declared_oid)}", detail=detail
    )


# ---------------------------------------------------------------- in expressions


def _expression(level: Level, resolved: Resolved) -> Scalar | None:
    """What a function of an extension that is an expression over rows is; None for other functions."""
    record = record_of(level.statement.context, resolved.signature)
    if not record.native or record.body not in EXPRESSIONS:
        return None
    return EXPRESSIONS[record.body](level, resolved.given, resolved.args, resolved.type)


def inlined_value(level: Level, resolved: Resolved) -> Scalar | None:
    """The value of a call; None when it has to be carried out."""
    statement = level.statement
    expression = _expression(level, resolved)
    if expression is not None:
        statement.functions.add(resolved.signature.oid)
        return expression
    inlined = _inline(level, resolved, resolved.columns)
    if inlined is None or resolved.type.oid == VOID:
        return None
    value = _value(statement, inlined.rel, resolved)
    if value is None:
        return None
    if inlined.volatile and not isinstance(inlined.rel, Project):
        return None
    lets: list[tuple[int, Scalar]] = []
    stand_ins: dict[int, Scalar] = {}
    args: list[Scalar] = []
    for arg in resolved.args:
        id = next((id for id, known in inlined.volatile.items() if known is arg), None)
        if id is None:
            args.append(arg)
            continue
        let = statement.next_id
        statement.next_id = let + 1
        lets.append((let, arg))
        stand_ins[id] = LetValue(id=let, type=arg.type)
        args.append(stand_ins[id])
    value = _replaced(value, stand_ins)
    if resolved.signature.strict:
        value = unless_null(args, value)
    for let, arg in lets:
        value = Let(id=let, value=arg, body=value, type=value.type)
    return value


def _value(statement: Statement, rel: Rel, resolved: Resolved) -> Scalar | None:
    """The first row of `rel` as a value; None for a record whose columns nobody knows."""
    is_simple = isinstance(rel, Project) and isinstance(rel.input, OneRow)
    if resolved.type.oid == RECORD and resolved.columns is None:
        resolved.columns = tuple((f"f{place}", field.type) for place, field in enumerate(rel.fields, 1))
    if resolved.columns is None or is_row_itself(rel, resolved.type):
        if len(rel.fields) != 1:
            return None
        if is_simple:
            assert isinstance(rel, Project)
            return rel.exprs[0]
        return ScalarSubquery(rel=_first(rel), type=rel.fields[0].type)
    if is_simple and isinstance(rel, Project):
        return _row(statement, rel.exprs, resolved.columns, resolved.type)
    values = rows_as_values(statement, _first(rel), resolved.columns, resolved.type)
    if resolved.type.oid == RECORD:
        statement.record_columns[values.fields[0].id] = resolved.columns
    return ScalarSubquery(rel=values, type=values.fields[0].type)


def is_row_itself(rel: Rel, result: SqlType) -> bool:
    """Whether the only column of a query has the whole rows of a function that returns rows of the type `result`."""
    return len(rel.fields) == 1 and rel.fields[0].type.oid == result.oid


def rows_as_values(statement: Statement, rel: Rel, columns: Sequence[tuple[str, SqlType]], result: SqlType) -> Rel:
    """The rows of `rel`, whose columns are `columns`, as values of the type `result` in one column."""
    if is_row_itself(rel, result):
        return rel
    row = _row(statement, [ColumnRef(id=field.id, type=field.type) for field in rel.fields], columns, result)
    return Project(input=rel, exprs=(row,), fields=(statement.new_field("row", row.type),))


def _row(
    statement: Statement, items: Sequence[Scalar], columns: Sequence[tuple[str, SqlType]], result: SqlType
) -> Scalar:
    names = tuple(name for name, _ in columns)
    row: Scalar = RowConstructor(items=tuple(items), names=names, type=SqlType(RECORD))
    if result.oid == RECORD:
        return row
    converted = coerce_to_target(statement, row, result, Context.EXPLICIT)
    assert converted is not None
    return converted


def _first(rel: Rel) -> Rel:
    if isinstance(rel, Limit) and isinstance(rel.count, Literal) and rel.count.value == 1:
        return rel
    return Limit(input=rel, count=Literal(value=1, type=SqlType(INT8)), offset=None, ties=False, fields=rel.fields)


def _null_tests(args: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """The conditions of which one is true when an argument is NULL."""
    return tuple(
        IsNull(arg=arg, negated=False, type=BOOLEAN)
        for arg in args
        if not (isinstance(arg, Literal) and arg.value is not None) and not isinstance(arg, RowConstructor)
    )


def _any(tests: Sequence[Scalar]) -> Scalar:
    return tests[0] if len(tests) == 1 else BoolOp(op="or", args=tuple(tests), type=BOOLEAN)


def unless_null(args: Sequence[Scalar], value: Scalar) -> Scalar:
    """What a strict function gives for `args`, for others than NULL `value`."""
    if any(isinstance(arg, Literal) and arg.value is None for arg in args):
        return Literal(value=None, type=value.type)
    tests = _null_tests(args)
    if not tests:
        return value
    null = Literal(value=None, type=value.type)
    return Case(whens=((_any(tests), null),), otherwise=value, type=value.type)


# ---------------------------------------------------------------- in FROM


def inlined_rows(level: Level, resolved: Resolved, columns: Sequence[tuple[str, SqlType]] | None) -> Rel | None:
    """The rows of a call in FROM; None when it has to be carried out. `columns` are those of a row."""
    inlined = _inline(level, resolved, columns)
    if inlined is None or inlined.volatile or resolved.type.oid == VOID:
        return None
    rel = inlined.rel
    if resolved.signature.strict:
        tests = _null_tests(resolved.args)
        if any(isinstance(arg, Literal) and arg.value is None for arg in resolved.args):
            rel = Filter(input=rel, condition=Literal(value=False, type=BOOLEAN), fields=rel.fields)
        elif tests:
            condition = BoolOp(op="not", args=(_any(tests),), type=BOOLEAN)
            rel = Filter(input=rel, condition=condition, fields=rel.fields)
    return rel


def fields_named(statement: Statement, rel: Rel, names: Sequence[str]) -> Rel:
    """`rel` with columns of its own called `names`."""
    fields: tuple[Field, ...] = tuple(
        statement.new_field(name, field.type) for name, field in zip(names, rel.fields, strict=True)
    )
    exprs = tuple(ColumnRef(id=field.id, type=field.type) for field in rel.fields)
    return Project(input=rel, exprs=exprs, fields=fields)
