"""What is read before the calls of a select list are carried out: for each row the arguments of the calls, the
conditions under which they stand, subqueries and columns; and the list over these values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from adapter.plans.plan_cache import has_acting_calls
from adapter.queries.acting.calls import (
    SUBQUERIES,
    Conditional,
    ReadRows,
    Subquery,
    acts_under_condition,
    with_let_value,
)
from planner.ir import nodes as ir
from planner.ir.rewrite import column_ids, is_volatile, transform, walk
from planner.resolution.session_values import acts
from planner.types.types import BOOL, SqlType

Guard = Callable[[ir.Scalar], ir.Scalar]
"""Of what stands under conditions: makes an expression that is NULL where they say no, and not evaluated then."""


def _unguarded(expr: ir.Scalar) -> ir.Scalar:
    return expr


class Templates:
    """A select list split into what is read first and what is made of it, row by row.

    Invariant: an expression of `exprs` refers to fields of `inner` alone.
    """

    def __init__(self, rel: ir.Project, first_id: int) -> None:
        self._exprs: list[ir.Scalar] = []
        self._fields: list[ir.Field] = []
        self._first_id = first_id
        rewritten = self._rewriter(_unguarded)
        self.exprs = [
            transform(expr, rewritten) if has_acting_calls(expr) else self._column(expr, field.name)
            for expr, field in zip(rel.exprs, rel.fields, strict=True)
        ]
        """The select list over the fields of `inner`."""
        self.inner = ir.Project(input=rel.input, exprs=tuple(self._exprs), fields=tuple(self._fields))
        """Reads what the calls need."""
        self.next_id = first_id + len(self._fields)
        """From here on ids are free."""

    def filled(self, row: Sequence[Any]) -> tuple[ir.Scalar, ...]:
        """The select list of one row of `inner`."""
        literals = {
            field.id: ir.Literal(value=value, type=field.type) for field, value in zip(self._fields, row, strict=True)
        }
        return transform(
            tuple(self.exprs), lambda node: literals.get(node.id) if isinstance(node, ir.ColumnRef) else None
        )

    def reading_once(self, read_rows: ReadRows) -> ReadRows:
        """`read_rows` that reads a subquery of the list which depends on no row once, when it is first needed."""
        fixed = {
            id(node.rel)
            for node in walk(tuple(self.exprs))
            if isinstance(node, SUBQUERIES) and not outer_columns(node.rel)
        }
        known: dict[int, Sequence[Sequence[Any]]] = {}

        async def read(rel: ir.Rel) -> Sequence[Sequence[Any]]:
            if id(rel) not in fixed:
                return await read_rows(rel)
            if id(rel) not in known:
                known[id(rel)] = await read_rows(rel)
            return known[id(rel)]

        return read

    def _column(self, expr: ir.Scalar, name: str) -> ir.ColumnRef:
        field = ir.Field(id=self._first_id + len(self._fields), name=name, type=expr.type)
        self._exprs.append(expr)
        self._fields.append(field)
        return ir.ColumnRef(id=field.id, type=field.type)

    def _rewriter(self, guard: Guard) -> Callable[[Any], Any]:
        def rewritten(node: Any) -> Any:
            if isinstance(node, ir.Call) and acts(node.signature):
                return replace(node, args=tuple([self._known(arg, guard, "argument") for arg in node.args]))
            if isinstance(node, SUBQUERIES):
                return self._subquery(node, guard)
            if isinstance(node, (ir.Case, ir.Coalesce, ir.BoolOp, ir.Let)) and acts_under_condition(node):
                return self._conditional(node, guard)
            return self._column(node, "column") if isinstance(node, ir.ColumnRef) else None

        return rewritten

    def _known(self, expr: ir.Scalar, guard: Guard, name: str) -> ir.Scalar:
        """`expr` over what is read, read as a whole where it does not act itself."""
        if isinstance(expr, ir.Literal):
            return expr
        if _is_readable(expr):
            return self._column(guard(expr), name)
        # What the call inside gives is known once that has been carried out.
        return transform(expr, self._rewriter(guard))

    def _subquery(self, node: Subquery, guard: Guard) -> ir.Scalar:
        if _is_readable(node):
            return self._column(guard(node), "subquery")
        expr = _of_each_row(node)
        if expr is not None:
            return transform(expr, self._rewriter(guard))
        outer = outer_columns(node)

        def column(part: Any) -> Any:
            return self._column(part, "column") if isinstance(part, ir.ColumnRef) and part.id in outer else None

        return transform(node, column)

    def _conditional(self, node: Conditional, guard: Guard) -> ir.Scalar:
        match node:
            case ir.Case():
                whens = []
                for condition, result in node.whens:
                    test = self._known(condition, guard, "condition")
                    whens.append((test, transform(result, self._rewriter(_where(condition, guard)))))
                    guard = _where_not(condition, guard)
                otherwise = None if node.otherwise is None else transform(node.otherwise, self._rewriter(guard))
                return replace(node, whens=tuple(whens), otherwise=otherwise)
            case ir.Coalesce():
                args = []
                for arg in node.args:
                    args.append(self._known(arg, guard, "argument"))
                    absent = ir.IsNull(arg=arg, negated=False, type=SqlType(BOOL))
                    guard = _where(absent, guard)
                return replace(node, args=tuple(args))
            case ir.BoolOp():
                args = []
                for arg in node.args:
                    args.append(self._known(arg, guard, "condition"))
                    guard = _where_not(arg, guard) if node.op == "or" else _where(arg, guard, or_unknown=True)
                return replace(node, args=tuple(args))
            case ir.Let():
                if _is_readable(node.value) and not is_volatile(node.value):
                    return transform(with_let_value(node, node.value), self._rewriter(guard))
                return replace(
                    node,
                    value=self._known(node.value, guard, "value"),
                    body=transform(node.body, self._rewriter(guard)),
                )


def _is_readable(expr: ir.Scalar) -> bool:
    """Whether an expression can be read beforehand: nothing in it acts or stands for what is not known yet."""
    return not has_acting_calls(expr) and _has_no_let_value(expr)


def _has_no_let_value(expr: ir.Scalar) -> bool:
    bound = {part.id for part in walk(expr) if isinstance(part, ir.Let)}
    return all(part.id in bound for part in walk(expr) if isinstance(part, ir.LetValue))


def _guards(condition: ir.Scalar) -> bool:
    """Whether a condition is the same whenever it is evaluated."""
    return _is_readable(condition) and not is_volatile(condition)


def _where(condition: ir.Scalar, guard: Guard, *, or_unknown: bool = False) -> Guard:
    """`guard` and `condition`; with `or_unknown`, unless that is false."""
    if not _guards(condition):
        return guard
    if or_unknown:
        return _where_not(ir.BoolOp(op="not", args=(condition,), type=SqlType(BOOL)), guard)
    return lambda expr: guard(ir.Case(whens=((condition, expr),), otherwise=None, type=expr.type))


def _where_not(condition: ir.Scalar, guard: Guard) -> Guard:
    """`guard`, and `condition` is false or NULL."""
    if not _guards(condition):
        return guard

    def guarded(expr: ir.Scalar) -> ir.Scalar:
        nothing = ir.Literal(value=None, type=expr.type)
        return guard(ir.Case(whens=((condition, nothing),), otherwise=expr, type=expr.type))

    return guarded


def outer_columns(node: Any) -> frozenset[int]:
    """The ids of the columns of a query around `node` that it refers to."""
    own = {field.id for part in walk(node) for field in getattr(part, "fields", ())}
    return frozenset(column_ids(node)) - own


def _of_each_row(subquery: ir.Scalar) -> ir.Scalar | None:
    """The expression of `(SELECT expression)` without FROM that depends on the row; None for any other subquery."""
    rel = subquery.rel if isinstance(subquery, ir.ScalarSubquery) else None
    if not isinstance(rel, ir.Project) or not isinstance(rel.input, ir.OneRow):
        return None
    (expr,) = rel.exprs
    return expr if any(isinstance(node, ir.ColumnRef) for node in walk(expr)) else None
