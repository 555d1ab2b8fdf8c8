"""Scalar expressions to SQL: the dispatch over their kinds, and what all kinds use.

Every expression is printed so that its engine type is the physical type of its `SqlType`; parentheses always enclose
what has an operator. Conditions are three-valued as in SQL; `condition` is for places where NULL counts as false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from planner.dialects.comparison_keys import AS_IT_IS, equality_key, order_key, row_order_key
from planner.errors import FeatureNotSupported
from planner.functions.forms.form import NOT_CONSTANT
from planner.ir import nodes as ir
from planner.ir.rewrite import column_ids
from planner.lowering.fragments.context import Context
from planner.lowering.fragments.decided import folded
from planner.lowering.fragments.fragment import Fragment, OrderKey, column, made
from planner.lowering.fragments.templates import calls_python, fill
from planner.lowering.scalars.comparison_runs import as_lists
from planner.types import types
from planner.types.types import SqlType, is_wide
from planner.types.user_types import attributes


class Subqueries(Protocol):
    """What scalars need of the part of the lowering that prints SELECTs, whose scalars they are."""

    def subquery(self, rel: ir.Rel) -> Fragment:
        """A node as a SELECT whose columns are ``c<id>``, in the order of its fields."""

    def order_keys(self, keys: Sequence[ir.SortKey]) -> list[OrderKey]:
        """ORDER BY keys with their null order, without those that order nothing."""


class Scalars:
    """The scalar half of a lowering. `handlers` prints each kind of expression, `conditions` those kinds that can be
    printed more simply where only true matters."""

    relations: Subqueries
    """The other half, which sets it."""

    def __init__(self, ctx: Context, handlers: Handlers, conditions: Handlers) -> None:
        self.ctx = ctx
        self._handlers = handlers
        self._conditions = conditions

    def lower(self, expr: ir.Scalar) -> Fragment:
        """The expression's SQL."""
        fragment = self.ctx.fits(self._handlers[expr.__class__](self, expr))
        if fragment.subquery and self.ctx.hoisted is not None:
            return self.ctx.hoisted.take(fragment)
        return fragment

    def condition(self, expr: ir.Scalar) -> Fragment:
        """The expression where only true matters (WHERE, ON, FILTER): IN (subquery) may become a semi-join."""
        handler = self._conditions.get(expr.__class__)
        return self.lower(expr) if handler is None else handler(self, expr)

    def conjuncts(self, expr: ir.Scalar) -> list[Fragment]:
        """The conditions that `expr` is the AND of."""
        expr = folded(expr, self.ctx.decided)
        if isinstance(expr, ir.BoolOp) and expr.op == "and":
            return [fragment for arg in as_lists("and", expr.args) for fragment in self.conjuncts(arg)]
        return [self.condition(expr)]

    def calls_python(self, expr: ir.Scalar) -> bool:
        """Whether the SQL of `expr`, which has no subqueries, calls a function in Python. Nothing is noted of it."""
        ctx = self.ctx
        columns = {id: column("t", f"c{id}") for id in column_ids(expr)}
        trial = Context(ctx.engine, frozenset(), ctx.params, ctx.settings, columns=columns, held=dict(ctx.held))
        try:
            return Scalars(trial, self._handlers, self._conditions).lower(expr).python
        except FeatureNotSupported:
            return False

    def typed(self, expr: ir.Scalar, type: SqlType) -> Fragment:
        """The expression's SQL in the physical type of `type`, which differs from its own at most in numeric shape."""
        if isinstance(expr, ir.Literal) and expr.type.shape != type.shape:
            return self.literal(expr.value, type)
        fragment = self.lower(expr)
        own = expr.type
        if own.shape != type.shape and (own.shape is None or type.shape is None or _differs(own, type)):
            dialect = self.ctx.dialect
            sql = dialect.shown(fragment.sql, own) if is_wide(type) else dialect.cast(fragment.sql, type)
            return made(sql, fragment)
        return fragment

    def literal(self, value: object, type: SqlType) -> Fragment:
        """A literal of the physical type of `type`."""
        plain = value is None or (not isinstance(value, (tuple, list, bytes)) and type.oid != types.INTERVAL)
        sql = self.ctx.beside(value, type) or self.ctx.dialect.literal(value, type)
        self.ctx.literal_chars += len(sql)
        return Fragment(sql, simple=plain)

    def null(self, type: SqlType) -> Fragment:
        """A NULL of the physical type of `type`."""
        return self.literal(None, type)

    def constant(self, expr: ir.Scalar) -> object:
        """The value of a literal or of a bound parameter; `NOT_CONSTANT` for everything else. A collation changes none:
        all text is ordered by bytes."""
        while isinstance(expr, ir.Collate):
            expr = expr.arg
        if isinstance(expr, ir.Literal):
            return expr.value
        if isinstance(expr, ir.Param) and self.ctx.params is not None:
            return self.ctx.value(expr)
        if isinstance(expr, ir.Cast) and expr.arg.type.shape is None and expr.type.oid in (types.TEXT, types.VARCHAR):
            inner = self.constant(expr.arg)
            return inner if isinstance(inner, str) and expr.type.typmod < 0 else NOT_CONSTANT
        return NOT_CONSTANT

    def key(self, value: Fragment, type: SqlType) -> Fragment:
        """What PostgreSQL orders values of `type` by: bpchar without trailing blanks, interval as a duration."""
        return self._keyed(order_key(type, self.ctx.dialect), value)

    def row_key(self, value: Fragment, type: SqlType) -> Fragment:
        """What PostgreSQL orders rows of the composite `type` by."""
        return self._keyed(row_order_key(attributes(type.oid) or (), self.ctx.dialect), value)

    def same(self, value: Fragment, type: SqlType) -> Fragment:
        """What equal values of exactly `type` have in common."""
        return self._keyed(equality_key(type, self.ctx.dialect), value)

    def comparable(self, value: Fragment, type: SqlType) -> Fragment:
        """What a value of `type` has in common with equal ones that may have another modifier."""
        return self.same(value, type.without_typmod())

    def comparable_as(self, value: Fragment, type: SqlType, others: Sequence[SqlType]) -> Fragment:
        """`comparable` with values of `others`, which differ from `type` at most in their modifiers and shapes."""
        return self.comparable(*self._beside_wide(value, type, others))

    def key_as(self, value: Fragment, type: SqlType, others: Sequence[SqlType]) -> Fragment:
        """`key` of a value that is ordered among values of `others`."""
        return self.key(*self._beside_wide(value, type, others))

    def _beside_wide(self, value: Fragment, type: SqlType, others: Sequence[SqlType]) -> tuple[Fragment, SqlType]:
        """A value, as a wide numeric if there is one among those that it is compared with."""
        if type.oid != types.NUMERIC or is_wide(type) or not any(is_wide(other) for other in others):
            return value, type
        wide = SqlType(types.NUMERIC, -1, types.WIDE)
        return made(self.ctx.dialect.shown(value.sql, type), value), wide

    def orders_as_is(self, type: SqlType) -> bool:
        """Whether the engine orders values of `type` as PostgreSQL does, so that `key` changes nothing."""
        return order_key(type, self.ctx.dialect) == AS_IT_IS

    def compares_as_is(self, type: SqlType) -> bool:
        """Whether equal values of `type` are the same to the engine, so that `same` changes nothing."""
        return equality_key(type, self.ctx.dialect) == AS_IT_IS

    def _keyed(self, template: str, value: Fragment) -> Fragment:
        if template == AS_IT_IS:
            return value
        in_python = calls_python(template, self.ctx.dialect)
        return fill(self.ctx, self.ctx.python(template) if in_python else template, [value])

    def ordering(self, keys: Sequence[ir.SortKey]) -> tuple[str, list[Fragment]]:
        """The ORDER BY list of an aggregate or a window, and what it is made of; empty when nothing orders."""
        ordered = self.relations.order_keys(keys)
        return ", ".join(map(str, ordered)), [key.key for key in ordered]


Handler: TypeAlias = Callable[[Scalars, Any], Fragment]
Handlers: TypeAlias = Mapping[type, Handler]
"""By class of expression: what prints it."""


def _differs(own: SqlType, wanted: SqlType) -> bool:
    assert own.shape is not None
    assert wanted.shape is not None
    return (own.shape.precision, own.shape.scale) != (wanted.shape.precision, wanted.shape.scale)
