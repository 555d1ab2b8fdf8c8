"""What CREATE FUNCTION and CREATE PROCEDURE record: parameters, result, options, and the body, checked.

The rules are PostgreSQL's (functioncmds.c, pg_proc.c, functions.c). The text of a string body is kept as it is; that of
a standard body with every name qualified, so that it means the same whatever the search path is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from planner.calls.inlining import as_declared, context_of, mismatch, names_of
from planner.calls.overloads import Resolved, resolve_call, written_arguments
from planner.calls.user_functions import record_of, statements_of
from planner.collations.conflicts import check_stored
from planner.definitions.expression_text import NotPrintable, expression_text
from planner.definitions.views import statement_text, written_out
from planner.errors import (
    DatatypeMismatch,
    FeatureNotSupported,
    InvalidFunctionDefinition,
    InvalidParameterValue,
    SqlError,
    UndefinedFunction,
    UndefinedObject,
    WrongObjectType,
)
from planner.expressions.bind import CALL_CLAUSE, DEFAULT_CLAUSE, bind, bind_clause
from planner.ir.bound import Arguments, BoundChange, BoundQuery, BoundWith
from planner.ir.nodes import Field, Literal, Param, Rel, Scalar
from planner.ir.rewrite import walk
from planner.queries.changes.changes import CHANGES, bind_change
from planner.queries.changes.column_values import bound_query
from planner.queries.grammar import new_statement
from planner.resolution.casting import coerce_to_target
from planner.resolution.coercion import (
    ANYCOMPATIBLE,
    ANYCOMPATIBLENONARRAY,
    ANYENUM,
    ANYNONARRAY,
    POLYMORPHIC,
    Context,
    settled_by,
)
from planner.resolution.query import bind_query, one_row_query
from planner.resolution.statement import BindContext, Level, WithChanges
from planner.statements.routines import CreateRoutine, RoutineOptions, RoutineParameter
from planner.syntax.names import statement_title, strings
from planner.syntax.parse import Parsed, split_and_parse
from planner.types.signature import Kind, Signature
from planner.types.type_names import element_of, format_type, type_row
from planner.types.type_scope import names_to_keep, types_of
from planner.types.types import ANYELEMENT, RECORD, UNKNOWN, VOID, SqlType, column_type, under_domain
from planner.types.user_types import attributes
from storage.catalog.routines import Function, Parameter

_UNSUPPORTED_LANGUAGES = ("c", "internal", "plpgsql")


def declared(create: CreateRoutine, context: BindContext) -> Function:
    """The function or procedure without oid, schema and owner, and without its body. Raises 42P13, 42704, 0A000."""
    options = create.options
    if create.kind == "procedure" and options.refused:
        raise InvalidFunctionDefinition("invalid attribute in procedure definition", position=options.refused[0][1])
    _check_language(create)
    for given, name in ((options.window, "WINDOW"), (options.support, "SUPPORT"), (options.transform, "TRANSFORM")):
        if given:
            raise FeatureNotSupported(f"{name} functions are not supported")
    parameters = _parameters(create, context)
    result = _result(create, parameters)
    if create.options.body is None and create.statements is None:
        raise InvalidFunctionDefinition("no function body specified")
    if create.options.body is not None and create.statements is not None:
        raise InvalidFunctionDefinition("duplicate function body specified")
    if options.link is not None:
        raise InvalidFunctionDefinition('only one AS item needed for language "sql"')
    if options.rows is not None and not create.returns_set:
        raise InvalidParameterValue("ROWS is not applicable when function does not return a set")
    given_types = frozenset(p.type_oid for p in parameters if p.is_input)
    for oid in [result, *(p.type_oid for p in parameters if p.is_output)]:
        if oid in POLYMORPHIC and given_types.isdisjoint(settled_by(oid)):
            *names, last = map(format_type, settled_by(oid))
            either = f"{', '.join(names)}{',' if len(names) > 1 else ''} or {last}"
            raise InvalidFunctionDefinition(
                "cannot determine result data type",
                detail=f"A result of type {format_type(oid)} requires at least one input of type {either}.",
            )
    return Function(
        oid=0,
        name=create.name.name,
        schema=0,
        owner=0,
        kind=create.kind[0],
        parameters=parameters,
        result=result,
        returns_set=create.returns_set,
        volatility=options.volatility or "v",
        strict=bool(options.strict),
        security_definer=bool(options.security_definer),
        leakproof=bool(options.leakproof),
        parallel=options.parallel or "u",
        cost=100.0 if options.cost is None else options.cost,
        rows=(1000.0 if options.rows is None else options.rows) if create.returns_set else 0.0,
    )


def _check_language(create: CreateRoutine) -> None:
    language = create.options.language
    if language is None:
        if create.statements is None:
            raise InvalidFunctionDefinition("no language specified")
        return
    if language in _UNSUPPORTED_LANGUAGES:
        raise FeatureNotSupported(f"{create.kind}s in language {language} are not supported", hint="Use LANGUAGE sql.")
    if language != "sql":
        raise UndefinedObject(
            f'language "{language}" does not exist',
        )


def _parameters(create: CreateRoutine, context: BindContext) -> tuple[Parameter, ...]:
    taken: list[Parameter] = []
    variadic = False
    names_in: set[str] = set()
    names_out: set[str] = set()
    has_default = False
    for given in create.parameters:
        parameter = Parameter(name=given.name, type_oid=given.type.declared_oid, mode=given.mode)
        if given.set_of:
            raise InvalidFunctionDefinition(f"{create.kind}s cannot accept set arguments")
        if parameter.is_input and variadic:
            raise InvalidFunctionDefinition("VARIADIC parameter must be the last input parameter")
        if create.kind == "procedure" and variadic:
            raise InvalidFunctionDefinition("VARIADIC parameter must be the last parameter")
        if parameter.mode == "v":
            variadic = True
            if not element_of(under_domain(parameter.type_oid)) and parameter.type_oid not in _ARRAYS:
                raise InvalidFunctionDefinition("VARIADIC parameter must be an array")
        repeated = (parameter.is_input and given.name in names_in) or (parameter.is_output and given.name in names_out)
        if given.name and repeated:
            raise InvalidFunctionDefinition(f'parameter name "{given.name}" used more than once')
        if given.name:
            names_in |= {given.name} if parameter.is_input else set()
            names_out |= {given.name} if parameter.is_output else set()
        if given.default is not None:
            if not parameter.is_input:
                raise InvalidFunctionDefinition("only input parameters can have default values")
            has_default = True
            parameter = replace(parameter, default=_default(given, context))
        elif parameter.is_input and has_default:
            raise InvalidFunctionDefinition("input parameters after one with a default value must also have defaults")
        elif create.kind == "procedure" and has_default:
            raise InvalidFunctionDefinition("procedure OUT parameters cannot appear after one with a default value")
        taken.append(parameter)
    return tuple(taken)


_OF_STANDARD_BODIES = frozenset({"select_stmt", *CHANGES})

_ARRAYS = (2277, 5078)
"""anyarray and anycompatiblearray."""
_OF_INPUT = POLYMORPHIC - {ANYELEMENT, ANYNONARRAY, ANYENUM, ANYCOMPATIBLE, ANYCOMPATIBLENONARRAY}
"""The polymorphic types that read a constant of no type with an input function, which accepts none (PostgreSQL,
coerce_type)."""


def _default(given: RoutineParameter, context: BindContext) -> str:
    assert given.default is not None
    statement = new_statement(given.default, context)
    statement.written = {}
    expr = bind_clause(Level(statement, None), given.default.tree, DEFAULT_CLAUSE)
    # An argument of a polymorphic type says nothing of it while it is of no type, as in a call.
    open_type = given.type.oid in POLYMORPHIC and expr.type.oid == UNKNOWN
    if open_type and given.type.oid in _OF_INPUT and isinstance(expr, Literal) and expr.value is not None:
        raise FeatureNotSupported(
            f"cannot accept a value of type {format_type(given.type.oid)}", position=statement.position_of(expr)
        )
    converted = expr if open_type else coerce_to_target(statement, expr, given.type, Context.ASSIGNMENT)
    if open_type and given.type.oid == ANYENUM:
        converted = None
    if converted is None:
        raise DatatypeMismatch(
            f"argument of DEFAULT must be type {format_type(given.type.oid)}, not type {format_type(expr.type.oid)}",
            position=statement.position_of(expr),
        )
    try:
        with names_to_keep():
            return expression_text(converted, {}, statement.written)
    except NotPrintable:
        raise FeatureNotSupported("this default value of a parameter is not supported") from None


def _result(create: CreateRoutine, parameters: tuple[Parameter, ...]) -> int:
    """The type of the result. Raises 42P13."""
    outputs = [parameter for parameter in parameters if parameter.is_output]
    if create.kind == "procedure":
        return RECORD if outputs else 0
    is_table = any(parameter.mode == "t" for parameter in parameters)
    required = None
    if outputs:
        required = outputs[0].type_oid if len(outputs) == 1 else RECORD
    if create.result is None:
        if required is None:
            raise InvalidFunctionDefinition("function result type must be specified")
        return required
    if is_table:
        # RETURNS TABLE says record, which is not the type of one column.
        return required or RECORD
    if required is not None and create.result.declared_oid != required:
        raise InvalidFunctionDefinition(
            f"function result type must be {format_type(required)} because of OUT parameters"
        )
    return create.result.declared_oid


# ---------------------------------------------------------------- the body


def with_body(record: Function, create: CreateRoutine, context: BindContext, *, check: bool) -> Function:
    """`record` with the body that `create` has; with `check` that is bound before. Raises 42P13, 42601, 42703, ..."""
    row = type_row(record.result) if record.result else None
    if row is not None and row.type == "p" and record.result not in (RECORD, VOID) and record.result not in POLYMORPHIC:
        raise InvalidFunctionDefinition(f"SQL functions cannot return type {format_type(record.result)}")
    for parameter in record.inputs:
        row = type_row(parameter.type_oid)
        if row is not None and row.type == "p" and parameter.type_oid not in POLYMORPHIC:
            raise InvalidFunctionDefinition(
                f"SQL functions cannot have arguments of type {format_type(parameter.type_oid)}"
            )
    if create.statements is not None:
        return _standard(record, create, create.statements, context)
    record = replace(record, body=create.options.body or "")
    if not check:
        return record
    with _positions_in_body(create.options):
        statements = statements_of(record.body, None)
        if not any(parameter.type_oid in POLYMORPHIC for parameter in record.inputs):
            check_statements(record, statements, context)
    return record


@contextmanager
def _positions_in_body(options: RoutineOptions) -> Iterator[None]:
    """Errors in the body have the position that it has in the statement."""
    try:
        yield
    except SqlError as error:
        if error.position is not None:
            start = options.body_position
            error.position = None if start is None else start + error.position
        raise


def _standard(
    record: Function, create: CreateRoutine, statements: tuple[Parsed, ...], context: BindContext
) -> Function:
    if any(parameter.type_oid in POLYMORPHIC for parameter in record.parameters):
        raise InvalidFunctionDefinition("SQL function with unquoted function body cannot have polymorphic arguments")
    for statement in statements:
        if statement.kind not in _OF_STANDARD_BODIES:
            (alone,) = split_and_parse(statement_text(statement))
            raise FeatureNotSupported(f"{statement_title(alone)} is not yet supported in unquoted SQL function body")
    check_statements(record, statements, context)
    texts: list[str] = []
    depends_on: set[int] = set()
    for statement in statements:
        text, used, keys = written_out(statement, with_arguments(record, context))
        texts.append(text)
        depends_on |= used | keys
    body = standard_body(texts, create.returns, is_return=create.is_return)
    return replace(record, sql_body=body, depends_on=tuple(sorted(depends_on)))


def standard_body(texts: Sequence[str], returns: Sequence[bool], *, is_return: bool) -> str:
    """A standard body as the catalog keeps it, of the texts of its statements, those of them that `returns` says
    being SELECTs of the value of a RETURN. `is_return`: it is nothing but a RETURN."""
    kept = [_as_return(text) if returned else text for text, returned in zip(texts, returns, strict=True)]
    return kept[0] if is_return else "\n".join(["BEGIN ATOMIC", *(f" {text};" for text in kept), "END"])


def _as_return(select: str) -> str:
    (written,) = split_and_parse(select)
    # NOTE: calls of functions are given names, which RETURN has not.
    written.tree.target_list[0].res_target.ClearField("name")
    return f"RETURN {statement_text(written).removeprefix('SELECT ')}"


def with_arguments(record: Function, context: BindContext, values: Sequence[Scalar] | None = None) -> BindContext:
    """`context` for the statements of the function with the arguments `values`; without these they are parameters."""
    if values is None:
        values = [Param(index=place, type=column_type(oid)) for place, oid in enumerate(record.input_types, 1)]
    arguments = Arguments(function=record.name, names=names_of(record), values=tuple(values))
    return replace(context_of(record, context), arguments=arguments)


class BoundCall(Struct, frozen=True, kw_only=True):
    """A CALL: the signature of the procedure with its input types alone, the query of one row for these, and the
    columns of its OUT parameters."""

    signature: Signature
    args: BoundQuery
    fields: tuple[Field, ...]


def bind_call(parsed: Parsed, context: BindContext, declared: Sequence[int] = ()) -> BoundCall:
    """Binds a CALL. Raises 42883, 42809 for a function."""
    statement = new_statement(parsed, context, declared)
    level = Level(statement, None)
    level.clause = CALL_CLAUSE
    tree = parsed.tree.funccall
    args: list[Scalar] = []
    arg_names: list[str | None] = []
    for name, node in written_arguments(statement, tree.args):
        arg_names.append(name)
        args.append(bind(level, node))
    names = strings(tree.funcname)
    position = statement.position(tree.location)
    given = [arg.type.oid for arg in args]
    try:
        resolved = resolve_call(
            level,
            names,
            args,
            tree.location,
            arg_names=arg_names if any(arg_names) else (),
            variadic=tree.func_variadic,
        )
    except UndefinedFunction as error:
        what = error.message.removeprefix("function ")
        raise UndefinedFunction(
            f"procedure {what}",
            hint="No procedure matches the given name and argument types. You might need to add explicit type casts.",
            position=error.position,
        ) from None
    if not isinstance(resolved, Resolved) or resolved.signature.kind is not Kind.PROCEDURE:
        shown = f"{'.'.join(names)}({', '.join(map(format_type, given))})"
        raise WrongObjectType(f"{shown} is not a procedure", hint="To call a function, use SELECT.", position=position)
    record = record_of(context, resolved.signature)
    taken = [arg for arg, parameter in zip(resolved.args, record.parameters, strict=True) if parameter.is_input]
    signature = replace(resolved.signature, args=tuple(arg.type.oid for arg in taken))
    query = one_row_query(statement, taken, [f"p{place}" for place in range(1, len(taken) + 1)])
    columns = resolved.columns or ()
    return BoundCall(
        signature=signature,
        args=bound_query(statement, query),
        fields=tuple(statement.new_field(name, type) for name, type in columns),
    )


def converted(
    query: BoundQuery, context: BindContext, result: SqlType, columns: Sequence[SqlType] | None
) -> BoundQuery:
    """The last query of a function with its columns in the types that its caller was promised. 42P13."""
    (parsed,) = statements_of("SELECT", None)
    statement = new_statement(parsed, context)
    statement.next_id = (
        max((field.id for node in walk(query.rel) for field in getattr(node, "fields", ())), default=0) + 1
    )
    named = None if columns is None else [("", type) for type in columns]
    return replace(query, rel=as_declared(statement, query.rel, result, named))


def check_statements(record: Function, statements: tuple[Parsed, ...], context: BindContext) -> None:
    """Binds the statements of a function, and holds what the last one returns against its result."""
    inner = with_arguments(record, context)
    rel: Rel | None = None
    columns = result_columns(record)
    result = column_type(record.result or VOID)
    with types_of(inner.catalog, inner.search_path):
        for place, parsed in enumerate(statements, 1):
            statement = new_statement(parsed, inner)
            statement.with_changes = WithChanges(bind=bind_change)
            level = Level(statement, None)
            if parsed.kind == "select_stmt":
                rel = bind_query(level, parsed.tree)
                check_stored(rel, parsed.text, statement.relations, inner.catalog)
            elif parsed.kind in CHANGES:
                bound = CHANGES[parsed.kind](level, parsed.tree)
                body = bound.body if isinstance(bound, BoundWith) else bound
                assert isinstance(body, BoundChange)
                rel = None if body.returning is None else body.returning.query.rel
            else:
                rel = None
                if parsed.kind == "call_stmt" and bind_call(parsed, inner).fields:
                    raise FeatureNotSupported(
                        "calling procedures with output arguments is not supported in SQL functions"
                    )
            if place == len(statements) and rel is not None and record.result:
                as_declared(statement, rel, result, columns)
    if rel is None and record.result not in (0, VOID):
        raise mismatch(result, "Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING.")


def result_columns(record: Function) -> tuple[tuple[str, SqlType], ...] | None:
    """The columns of the rows that a function which is not polymorphic returns; None for a value, and for records
    whose columns its callers say."""
    if record.result == RECORD and record.outputs:
        return tuple((parameter.name, column_type(parameter.type_oid)) for parameter in record.outputs)
    fields = attributes(under_domain(record.result))
    return None if fields is None else tuple((field.name, field.type) for field in fields)
