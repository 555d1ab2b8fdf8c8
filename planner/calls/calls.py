"""Function calls in expressions: their arguments, and what they become by the routine's kind.

Aggregates, window functions and set-returning functions stand in expressions as references to columns that the query
computes later; each has its module.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from planner.calls.aggregate_calls import aggregate_call, rows_as_json
from planner.calls.hypothetical_sets import hypothetical_set, is_hypothetical_set
from planner.calls.json_records import json_record
from planner.calls.overloads import Resolved, overloads, resolve_call, written_arguments
from planner.calls.set_returning import row_of_function, set_returning
from planner.calls.user_calls import user_call
from planner.calls.user_functions import constructed, is_user_function
from planner.calls.window_calls import window_call
from planner.errors import FeatureNotSupported, SqlSyntaxError, TooManyArguments, UndefinedFunction, WrongObjectType
from planner.expressions.bind import bind
from planner.expressions.rows import row_before
from planner.functions import registry
from planner.ir.nodes import Call, Cast, Literal, Scalar, SessionValue
from planner.ir.written import FunctionCall
from planner.resolution.records import written_out
from planner.resolution.session_values import session_value
from planner.resolution.statement import Handler, Level
from planner.syntax.later_grammar import JSON_CALLS
from planner.syntax.libpg_query import pb
from planner.syntax.names import strings
from planner.syntax.parse import Tree
from planner.types.derived_oids import FIRST_USER_TYPE
from planner.types.signature import Kind
from planner.types.types import DATE, RECORD, TIMESTAMP, TIMESTAMPTZ, UNKNOWN, SqlType

MAX_ARGUMENTS = 100
"""PostgreSQL's limit of arguments that a call has."""

_MAKES_JSON = frozenset({
    "json_agg", "json_build_array", "json_build_object", "json_object_agg", "jsonb_agg", "jsonb_build_array",
    "jsonb_build_object", "jsonb_object_agg", "row_to_json", "to_json", "to_jsonb",
})  # fmt: skip
"""Those that make JSON of values of any type."""


def _bind_call(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    names = strings(tree.funcname)
    if tree.agg_within_group and is_hypothetical_set(names):
        return hypothetical_set(level, tree, names[-1])
    args: list[Scalar] = []
    arg_names: list[str | None] = []
    start_srfs = len(level.srfs)
    populated = json_record(level, tree)
    if populated is not None:
        _refuse_aggregate_syntax(level, ".".join(names), tree)
        return populated
    for name, node in written_arguments(statement, tree.args):
        arg_names.append(name)
        args.append(bind(level, node))
    return _call(level, tree, args, arg_names, start_srfs)


def field_function(level: Level, name: str, value: Scalar, written: Tree, step: int, location: int) -> Scalar | None:
    """`name(value)`, which is `written` as a step behind a row; None where no function of that name takes it."""
    if not overloads(level, (name,), location):
        return None
    tree = pb.FuncCall(location=location)
    tree.funcname.add().string.sval = name
    tree.args.add().CopyFrom(row_before(written, step))
    try:
        found = _call(level, tree, [value], [None], len(level.srfs))
    except UndefinedFunction:
        return None
    if level.statement.definition is not None and level.statement.view_depth == 0:
        level.statement.definition.field_calls.append((written, step, tree))
    return found


def _call(level: Level, tree: Tree, args: list[Scalar], arg_names: list[str | None], start_srfs: int) -> Scalar:
    """The call `tree` of what is called so and takes `args`."""
    statement = level.statement
    location = tree.location
    names = strings(tree.funcname)
    windowed = tree.HasField("over")
    order: list[tuple[Tree, Scalar]] = []
    if tree.agg_within_group:
        order = [(node.sort_by, bind(level, node.sort_by.node)) for node in tree.agg_order]
        if any(arg_names):
            raise SqlSyntaxError(
                "positional argument cannot follow named argument", position=statement.position_of(order[0][1])
            )
        args.extend(expr for _, expr in order)
        arg_names.extend(None for _ in order)
    if names[-1] in ("array_to_json", "to_json", "to_jsonb"):
        args = [rows_as_json(level, arg) for arg in args]
    if names[-1] in _MAKES_JSON and statement.written is None and not tree.agg_distinct:
        args = [written_out(level, arg) for arg in args]
    counted = 0
    """The arguments that nobody wrote."""
    if names[-1] == "age" and len(args) == 1 and args[0].type.oid in _AGES:
        args.insert(0, _today(args[0].type))
        arg_names.insert(0, None)
        counted = 1
    if len(args) > MAX_ARGUMENTS:
        raise TooManyArguments(
            f"cannot pass more than {MAX_ARGUMENTS} arguments to a function", position=statement.position(location)
        )
    resolved = resolve_call(
        level,
        names,
        args,
        location,
        arg_names=arg_names if any(arg_names) else (),
        variadic=tree.func_variadic,
        ordered=len(tree.agg_order) > 1 and not tree.agg_within_group,
        within=tree.agg_within_group,
    )
    name_text = ".".join(names)
    if not isinstance(resolved, Resolved):
        _refuse_aggregate_syntax(level, name_text, tree)
        return resolved
    if is_user_function(resolved.signature):
        _refuse_aggregate_syntax(level, name_text, tree)
        return user_call(level, resolved, tree, start_srfs)
    kind = resolved.signature.kind
    if kind is Kind.AGGREGATE:
        if windowed and not tree.agg_within_group:
            return window_call(level, resolved, tree, name_text, start_srfs)
        if windowed:
            raise FeatureNotSupported(
                f"OVER is not supported for ordered-set aggregate {names[-1]}", position=statement.position(location)
            )
        return aggregate_call(level, resolved, tree, order, start_srfs, name_text)
    if kind is Kind.WINDOW:
        if not windowed:
            raise WrongObjectType(
                f"window function {name_text} requires an OVER clause", position=statement.position(location)
            )
        return window_call(level, resolved, tree, name_text, start_srfs)
    _refuse_aggregate_syntax(level, name_text, tree)
    made = constructed(resolved.signature) if resolved.type.oid > FIRST_USER_TYPE else 0
    if made and statement.definition is not None and statement.view_depth == 0:
        statement.definition.functions.append((tree, made))
    value: Scalar | None = session_value(resolved.signature, tuple(resolved.args), resolved.type)
    if resolved.signature.oid in _OF_UNKNOWN and isinstance(args[0], Literal) and args[0].type.oid == UNKNOWN:
        value = Literal(value=_OF_UNKNOWN[resolved.signature.oid], type=resolved.type)
    if value is None and kind is Kind.SET_RETURNING:
        result = set_returning(level, resolved, names[-1], location, start_srfs)
        return result if statement.written is None else statement.written_as(result, written_call(resolved, tree))
    result = _plain_call(level, resolved, location) if value is None else statement.at(value, location)
    if statement.written is None:
        return result
    form = written_call(resolved, tree, left_out=counted, oid=made)
    special = value is not None or resolved.type.oid == RECORD
    if special or counted or form.sql_syntax or form.variadic or made:
        statement.written_as(result, form)
    return result


def written_call(resolved: Resolved, tree: Tree, *, left_out: int = 0, oid: int = 0) -> FunctionCall:
    """How a call is printed, without its first `left_out` arguments; `oid` is that of a function of a user."""
    return FunctionCall(
        name=resolved.signature.name,
        args=tuple(resolved.args[left_out:]),
        variadic=tree.func_variadic,
        sql_syntax=tree.funcformat == pb.COERCE_SQL_SYNTAX,
        oid=oid,
    )


_OF_UNKNOWN = {1619: UNKNOWN, 3162: None}
"""What pg_typeof and pg_collation_for (by their oids) say of a constant whose type is unknown."""
"""The one function of any type that tells a literal without a type from a text."""

_AGES = frozenset({DATE, TIMESTAMP, TIMESTAMPTZ, UNKNOWN})


def _today(type: SqlType) -> Scalar:
    """The midnight that age(x) counts from, in the type that it has for x of `type`."""
    date = Cast(arg=SessionValue(name="now", type=SqlType(TIMESTAMPTZ)), type=SqlType(DATE), explicit=True)
    target = SqlType(TIMESTAMP if type.oid == TIMESTAMP else TIMESTAMPTZ)
    return Cast(arg=date, type=target, explicit=True)


def _plain_call(level: Level, resolved: Resolved, location: int) -> Scalar:
    """A call of an ordinary function. One with several OUT columns gives a record whose fields are known."""
    if resolved.type.oid == RECORD and registry.output_columns(resolved.signature) is not None:
        return row_of_function(level, resolved, location)
    call = Call(signature=resolved.signature, args=tuple(resolved.args), type=resolved.type)
    result: Scalar = level.statement.at(call, location)
    return result


def _refuse_aggregate_syntax(level: Level, name: str, tree: Tree) -> None:
    position = level.statement.position(tree.location)
    if tree.agg_star:
        raise WrongObjectType(f"{name}(*) specified, but {name} is not an aggregate function", position=position)
    if tree.agg_distinct:
        raise WrongObjectType(f"DISTINCT specified, but {name} is not an aggregate function", position=position)
    if tree.agg_within_group:
        raise WrongObjectType(f"WITHIN GROUP specified, but {name} is not an aggregate function", position=position)
    if tree.agg_order:
        raise WrongObjectType(f"ORDER BY specified, but {name} is not an aggregate function", position=position)
    if tree.HasField("agg_filter"):
        raise WrongObjectType(f"FILTER specified, but {name} is not an aggregate function", position=position)
    if tree.HasField("over"):
        raise WrongObjectType(
            f"OVER specified, but {name} is not a window function nor an aggregate function", position=position
        )


def _bind_json_call(name: str, level: Level, tree: Tree) -> Scalar:
    """The call of `name` that an expression `tree` of a later grammar is."""
    of_value = tree.expr.DESCRIPTOR.name == "JsonValueExpr"
    words = [field.name for field, _ in tree.ListFields() if field.name not in ("expr", "location")]
    if words or (of_value and tree.expr.format.format_type != pb.JS_FORMAT_DEFAULT):
        raise FeatureNotSupported(f"{name}() with words behind its argument is not supported")
    call = pb.FuncCall(location=tree.location)
    call.funcname.add().string.sval = name
    call.args.add().CopyFrom(tree.expr.raw_expr if of_value else tree.expr)
    return _bind_call(level, call)


HANDLERS: Mapping[str, Handler] = {
    "func_call": _bind_call,
    **{kind: partial(_bind_json_call, name) for kind, name in JSON_CALLS.items()},
}
