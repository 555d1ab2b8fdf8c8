"""Truth values, and expressions that choose one of their arguments: AND, IS NULL, CASE, COALESCE, IN (list);
values of domains, which are errors unless they keep to rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from planner.dialects.error_text import error_text
from planner.ir import nodes as ir
from planner.ir.domain_faults import DomainFault
from planner.lowering.fragments.context import Context, Hoisted
from planner.lowering.fragments.decided import can_raise, folded, is_constant
from planner.lowering.fragments.fragment import Fragment, listed, made, simple
from planner.lowering.fragments.templates import MAX_REPEATED, fill, let
from planner.lowering.scalars.comparison_runs import as_lists, compares_keys
from planner.lowering.scalars.routines import call
from planner.lowering.scalars.scalars import Handler, Scalars
from planner.lowering.scalars.scan_constants import held_beside
from planner.types.types import BOOL, SqlType
from planner.types.user_types import attributes
from planner.values.geometry.shapes import EQUALS

BOOLEAN = SqlType(BOOL)


def _bool_op(scalars: Scalars, expr: ir.BoolOp) -> Fragment:
    decided = folded(expr, scalars.ctx.decided)
    if not isinstance(decided, ir.BoolOp):
        return scalars.lower(decided)
    expr = decided
    if expr.op == "not":
        arg = scalars.lower(expr.args[0])
        return made(f"(NOT {arg})", arg)
    operands = as_lists(expr.op, expr.args)
    args = [scalars.lower(operand) for operand in operands]
    word = expr.op.upper()
    lazy = scalars.ctx.dialect.lazy_logic
    groups: list[list[Fragment]] = [[]]
    for index, (arg, operand) in enumerate(zip(args, operands, strict=True)):
        if index and not lazy and can_raise(operand):
            groups.append([])
        groups[-1].append(arg)
    # PostgreSQL does not come to an operand that might raise an error when what stands before it decides.
    settled = "NOT {0} THEN FALSE" if expr.op == "and" else "{0} THEN TRUE"
    result = _joined(groups[-1], word)
    for group in reversed(groups[:-1]):
        template = f"CASE WHEN {settled} ELSE ({{0}} {word} {{1}}) END"
        result = fill(scalars.ctx, template, [_joined(group, word), result])
    return result


def _joined(args: list[Fragment], word: str) -> Fragment:
    return args[0] if len(args) == 1 else made(f"({listed(args, f' {word} ')})", *args)


def _is_null(scalars: Scalars, expr: ir.IsNull) -> Fragment:
    arg = scalars.lower(expr.arg)
    return made(f"({arg} IS {'NOT ' if expr.negated else ''}NULL)", arg)


def _boolean_test(scalars: Scalars, expr: ir.BooleanTest) -> Fragment:
    arg = scalars.lower(expr.arg)
    word = "NULL" if expr.test == "unknown" else expr.test.upper()
    return made(f"({arg} IS {'NOT ' if expr.negated else ''}{word})", arg)


def _distinct(scalars: Scalars, expr: ir.Distinct) -> Fragment:
    equals = EQUALS.get(expr.left.type.oid)
    if equals is not None:
        # Shapes are equal to what is near.
        same = scalars.ctx.dialect.python("tg_geometry_2_boolean", f"'{equals}'", "{0}", "{1}")
        null = "{0} IS NULL AND {1} IS NULL"
        template = (
            f"({'' if expr.negated else 'NOT '}CASE WHEN {{0}} IS NULL OR {{1}} IS NULL THEN {null} ELSE {same} END)"
        )
        return fill(scalars.ctx, template, [scalars.lower(expr.left), scalars.lower(expr.right)])
    sides = (expr.left.type, expr.right.type)
    left = scalars.comparable_as(scalars.lower(expr.left), expr.left.type, sides)
    right = scalars.comparable_as(scalars.lower(expr.right), expr.right.type, sides)
    return made(scalars.ctx.dialect.distinct(left.sql, right.sql, negated=expr.negated), left, right)


def _case(scalars: Scalars, expr: ir.Case) -> Fragment:
    ctx = scalars.ctx
    ctx.cases += 1
    whens = [(_when(scalars, condition), scalars.typed(value, expr.type)) for condition, value in expr.whens]
    otherwise = scalars.null(expr.type) if expr.otherwise is None else scalars.typed(expr.otherwise, expr.type)
    ctx.cases -= 1
    branches = "".join([f" WHEN {condition} THEN {value}" for condition, value in whens])
    return made(f"CASE{branches} ELSE {otherwise} END", otherwise, *[part for when in whens for part in when])


def _when(scalars: Scalars, condition: ir.Scalar) -> Fragment:
    """A condition of a CASE. DuckDB decides constant ones while it plans, and raises their errors also where another
    CASE around never comes to them."""
    when = scalars.lower(condition)
    late = scalars.ctx.dialect.late_constant
    if late is not None and scalars.ctx.cases > 1 and is_constant(condition) and can_raise(condition):
        return replace(made(late.format(when), when), volatile=True)
    return when


def _let(scalars: Scalars, expr: ir.Let) -> Fragment:
    ctx = scalars.ctx
    value = scalars.lower(expr.value)
    if not value.volatile:
        # It became a constant since it was bound.
        ctx.held[expr.id] = value
        return scalars.lower(expr.body)
    name = ctx.variable()
    ctx.held[expr.id] = simple(name)
    hoisted = Hoisted(ctx.variable())
    outer, ctx.hoisted = ctx.hoisted, hoisted
    result = let(ctx, value, name, scalars.lower(expr.body))
    ctx.hoisted = outer
    if not hoisted.fragments:
        return result
    members = [(f"a{index}", fragment.sql) for index, fragment in enumerate(hoisted.fragments)]
    return let(ctx, made(ctx.dialect.struct(members), *hoisted.fragments), hoisted.name, result)


def _let_value(scalars: Scalars, expr: ir.LetValue) -> Fragment:
    return scalars.ctx.held[expr.id]


def _coalesce(scalars: Scalars, expr: ir.Coalesce) -> Fragment:
    args = [scalars.typed(arg, expr.type) for arg in expr.args]
    return made(f"coalesce({listed(args)})", *args)


def _min_max(scalars: Scalars, expr: ir.MinMax) -> Fragment:
    args = [scalars.typed(arg, expr.type) for arg in expr.args]
    if len(args) == 1:
        return args[0]
    is_row = attributes(expr.type.oid) is not None
    if not is_row and scalars.orders_as_is(expr.type):
        return made(f"{expr.op}({listed(args)})", *args)
    result = args[0]
    sign = ">=" if expr.op == "greatest" else "<="
    key = scalars.row_key if is_row else scalars.key
    left, right = key(simple("{0}"), expr.type), key(simple("{1}"), expr.type)
    for arg in args[1:]:
        body = f"CASE WHEN {{1}} IS NULL OR {left} {sign} {right} THEN {{0}} ELSE {{1}} END"
        result = fill(scalars.ctx, body, [result, arg])
    return result


def among(scalars: Scalars, arg: ir.Scalar, constants: Sequence[ir.Scalar], *, negated: bool) -> Fragment:
    """`arg [NOT] IN (constants)`, of types whose keys compare."""
    lowered = scalars.lower(arg)
    values = held_beside(scalars, lowered, constants) or [scalars.lower(item) for item in constants]
    sides = [arg.type, *[item.type for item in constants]]
    items = [scalars.comparable_as(value, item.type, sides) for value, item in zip(values, constants, strict=True)]
    key = scalars.comparable_as(lowered, arg.type, sides)
    word = "NOT IN" if negated else "IN"
    if key.volatile:
        # An engine may compare the list's items one by one, each with another value.
        places = ", ".join([f"{{{number}}}" for number in range(1, len(items) + 1)])
        return fill(scalars.ctx, f"({{0}} {word} ({places}))", [key, *items], repeats=0)
    return made(f"({key} {word} ({listed(items)}))", key, *items)


def _in_list(scalars: Scalars, expr: ir.InList) -> Fragment:
    if compares_keys(expr.equals):
        return among(scalars, expr.arg, expr.items, negated=expr.negated)
    arg = scalars.lower(expr.arg)
    # One test for each item, all of the same argument.
    values = [scalars.lower(item) for item in expr.items]
    tests = [
        call(scalars, expr.equals, [simple("{0}"), simple(f"{{{number}}}")], [expr.arg.type, item.type], BOOLEAN)
        for number, item in enumerate(expr.items, 1)
    ]
    return fill(scalars.ctx, f"({'NOT ' if expr.negated else ''}({listed(tests, ' OR ')}))", [arg, *values])


def _domain_value(scalars: Scalars, expr: ir.DomainValue) -> Fragment:
    value = scalars.typed(expr.arg, expr.type)
    if not expr.rules:
        return value
    ctx = scalars.ctx
    if value.simple or not (value.volatile or value.subquery or len(value.sql) > MAX_REPEATED):
        return _held_against(scalars, expr, value)
    name = ctx.variable()
    body = _held_against(scalars, expr, simple(name))
    if body.python and not ctx.dialect.python_in_lambdas and not value.volatile and not value.subquery:
        return _held_against(scalars, expr, value)
    return let(ctx, value, name, body)


def _held_against(scalars: Scalars, expr: ir.DomainValue, value: Fragment) -> Fragment:
    """`value`, or the error of the first rule that it breaks."""
    scalars.ctx.held[expr.id] = value
    whens = []
    parts = [value]
    for rule, fault in expr.rules:
        if rule is None:
            whens.append(f"WHEN {value} IS NULL THEN {_error(scalars.ctx, '23502', fault)}")
        else:
            condition = scalars.lower(rule)
            parts.append(condition)
            whens.append(f"WHEN NOT {condition} THEN {_error(scalars.ctx, '23514', fault)}")
    return replace(made(f"CASE {' '.join(whens)} ELSE {value} END", *parts), may_raise=True)


def _error(ctx: Context, sqlstate: str, fault: DomainFault) -> str:
    facts = {"schema": fault.schema, "datatype": fault.datatype, "constraint": fault.constraint}
    return ctx.dialect.error(ctx.dialect.string(error_text(sqlstate, fault.message, **facts)))


def _for_each(scalars: Scalars, expr: ir.ForEach) -> Fragment:
    ctx = scalars.ctx
    array = scalars.lower(expr.arg)
    name = ctx.variable()
    ctx.held[expr.id] = simple(name)
    body = scalars.lower(expr.body)
    if body.python and not ctx.dialect.python_in_lambdas:
        raise ctx.unsupported("this check of the elements of an array")
    if not expr.arg.type.dimensioned:
        return made(ctx.dialect.transform(array.sql, name, body.sql), array, body)
    items = ctx.dialect.transform("({0}).items", name, "{1}")
    template = f"CASE WHEN {{0}} IS NOT NULL THEN {ctx.dialect.dimensioned(items, '({0}).dims')} END"
    return fill(ctx, template, [array, body])


HANDLERS: Mapping[type, Handler] = {
    ir.BoolOp: _bool_op,
    ir.IsNull: _is_null,
    ir.BooleanTest: _boolean_test,
    ir.Distinct: _distinct,
    ir.Case: _case,
    ir.Let: _let,
    ir.DomainValue: _domain_value,
    ir.ForEach: _for_each,
    ir.LetValue: _let_value,
    ir.Coalesce: _coalesce,
    ir.MinMax: _min_max,
    ir.InList: _in_list,
}
