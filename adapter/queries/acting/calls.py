"""Calls of functions that act on the session, carried out where they stand in an expression whose columns are known.

What stands under a condition (a branch of CASE, a later argument of COALESCE, what is behind AND and OR) is carried out
only when the conditions before it say so, as PostgreSQL evaluates expressions (chapter 4.2.14).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec.structs import replace

from adapter.execution.statement import Running
from adapter.plans.computed.constant_rows import constant_value
from adapter.plans.plan_cache import has_acting_calls
from adapter.procedures.bodies import call_function
from adapter.procedures.rows import constant_rows
from adapter.queries.acting.session_functions import ACTIONS, is_setting, session_value
from planner.errors import FeatureNotSupported
from planner.ir import nodes as ir
from planner.ir.rewrite import transform, walk
from planner.resolution.session_values import acts
from planner.types import types as t

if TYPE_CHECKING:
    from planner.lowering.fragments.decided import Decided

_T = TypeVar("_T")

MAX_ROWS = 100_000
"""Rows of one such query: they are held in memory, each as Python values."""

ReadRows: TypeAlias = Callable[[ir.Rel], Awaitable[Sequence[Sequence[Any]]]]
"""Runs a part of a query and returns its rows as `ir.Literal` has values; at most `MAX_ROWS` + 1 of them."""

Subquery: TypeAlias = ir.ScalarSubquery | ir.Exists | ir.QuantifiedSubquery | ir.ArraySubquery
SUBQUERIES = (ir.ScalarSubquery, ir.Exists, ir.QuantifiedSubquery, ir.ArraySubquery)

Conditional: TypeAlias = ir.Case | ir.Coalesce | ir.BoolOp | ir.Let


def acts_under_condition(node: object) -> bool:
    """Whether `node` is an expression in which a call is carried out only if something before it says so."""
    match node:
        case ir.Case(whens=whens, otherwise=otherwise):
            return has_acting_calls((whens[0][1], whens[1:], () if otherwise is None else otherwise))
        case ir.Coalesce(args=args) | ir.BoolOp(args=args):
            return has_acting_calls(args[1:])
        case ir.Let(body=body):
            return any(acts_under_condition(part) for part in walk(body))
        case _:
            return False


async def carry_out_calls(running: Running, node: _T, read_rows: ReadRows) -> _T:
    """`node` with each acting call in it carried out, and each setting in it read, in the order in which they stand.
    Not those of an AND or OR that a constant decides, which PostgreSQL folds away while it plans. `read_rows` works out
    conditions and subqueries. Raises what the calls raise."""
    known: Decided = {}
    node = transform(node, lambda inner: _decided(inner, known))
    found: list[ir.Call | ir.SessionValue | Conditional | Subquery] = []

    def note(inner: Any) -> Any:
        if isinstance(inner, ir.Call):
            here = acts(inner.signature)
        elif isinstance(inner, ir.SessionValue):
            here = is_setting(inner.name)
        else:
            here = has_acting_calls(inner) if isinstance(inner, SUBQUERIES) else acts_under_condition(inner)
        if here:
            found.append(inner)
        return inner if here else None

    transform(node, note)
    results: dict[int, ir.Scalar] = {}
    for each in found:
        match each:
            case ir.Call():
                results[id(each)] = ir.Literal(value=await _carry_out(running, each, read_rows), type=each.type)
            case ir.SessionValue():
                results[id(each)] = await session_value(running, each.name)
            case ir.Case() | ir.Coalesce() | ir.BoolOp() | ir.Let():
                results[id(each)] = await _conditional(running, each, read_rows)
            case _:
                results[id(each)] = await _over_rows(running, each, read_rows)
    return transform(node, lambda inner: results.get(id(inner)))


def _decided(node: object, known: Decided) -> ir.Scalar | None:
    if not isinstance(node, ir.BoolOp) or not has_acting_calls(node):
        return None
    # A server that starts does not load the lowering.
    from planner.lowering.fragments.decided import folded

    result = folded(node, known)
    return None if result is node else result


async def _conditional(running: Running, node: Conditional, read_rows: ReadRows) -> ir.Scalar:
    """What stands for `node` once as much of it as counts has been carried out."""

    async def value(expr: ir.Scalar) -> Any:
        return await value_after_calls(running, expr, read_rows)

    match node:
        case ir.Case():
            for condition, result in node.whens:
                if await value(condition) is True:
                    return await carry_out_calls(running, result, read_rows)
            if node.otherwise is not None:
                return await carry_out_calls(running, node.otherwise, read_rows)
            return ir.Literal(value=None, type=node.type)
        case ir.Coalesce():
            for arg in node.args:
                found = await value(arg)
                if found is not None:
                    return ir.Literal(value=found, type=arg.type)
            return ir.Literal(value=None, type=node.type)
        case ir.BoolOp():
            decisive, unknown = node.op == "or", False
            for arg in node.args:
                found = await value(arg)
                if found is decisive:
                    return ir.Literal(value=decisive, type=node.type)
                unknown = unknown or found is None
            return ir.Literal(value=None if unknown else not decisive, type=node.type)
        case ir.Let():
            known = ir.Literal(value=await value(node.value), type=node.value.type)
            return await carry_out_calls(running, with_let_value(node, known), read_rows)


def with_let_value(node: ir.Let, value: ir.Scalar) -> ir.Scalar:
    """The body of `node` with `value` in the places of its value."""
    return transform(node.body, lambda part: value if isinstance(part, ir.LetValue) and part.id == node.id else None)


async def _over_rows(running: Running, node: Subquery, read_rows: ReadRows) -> ir.Scalar:
    """A subquery over the rows that its own calls made."""
    if isinstance(node, ir.Exists) and isinstance(node.rel, ir.Project):
        # What is in the list of EXISTS is not evaluated.
        node = replace(node, rel=node.rel.input)
    if has_acting_calls(node.rel):
        rows = await read_rows(node.rel)
        require_few(rows)
        node = replace(node, rel=constant_rows(node.rel.fields, rows))
    if isinstance(node, ir.QuantifiedSubquery):
        node = replace(node, args=await carry_out_calls(running, node.args, read_rows))
    return node


def require_few(rows: Sequence[object]) -> None:
    """0A000 for more than `MAX_ROWS`."""
    if len(rows) > MAX_ROWS:
        raise FeatureNotSupported(f"functions that act on the session are not supported for more than {MAX_ROWS} rows")


async def value_after_calls(running: Running, expr: ir.Scalar, read_rows: ReadRows) -> Any:
    """The value of an expression whose columns are known, as `ir.Literal` has it, once its calls are carried out."""
    expr = await carry_out_calls(running, expr, read_rows)
    known, value = constant_value(expr, running.params)
    if known:
        return value
    inside = [field.id for part in walk(expr) for field in getattr(part, "fields", ())]
    field = ir.Field(id=max(inside, default=0) + 1, name="value", type=expr.type)
    ((value,),) = await read_rows(ir.Project(input=ir.OneRow(), exprs=(expr,), fields=(field,)))
    return value


async def _argument(running: Running, arg: ir.Scalar, read_rows: ReadRows) -> Any:
    if isinstance(arg, ir.Cast) and arg.type.oid == t.REGCLASS:
        # The function itself looks for what a text names.
        known, value = constant_value(arg.arg, running.params)
        if known:
            return value
    return await value_after_calls(running, arg, read_rows)


async def _carry_out(running: Running, call: ir.Call, read_rows: ReadRows) -> Any:
    name = call.signature.name
    handler: Callable[..., Any] | None = ACTIONS.get(name)
    if call.signature.acts:
        handler = partial(call_function, signature=call.signature)
    if handler is None:
        raise FeatureNotSupported(f"function {name}() is not supported")
    args = [await _argument(running, arg, read_rows) for arg in call.args]
    if call.signature.strict and any(arg is None for arg in args):
        return None
    result = handler(running, *args)
    return await result if isinstance(result, Awaitable) else result
