"""Constants that PostgreSQL works out when it plans a statement, and whose failure is the statement's (eval_const_
expressions): ``SELECT 1/0 FROM t`` fails also when there are no rows, ``CASE WHEN false THEN 1/0 END`` does not.

Engines compute such parts when they come to them. So the parts that might fail are found here, with PostgreSQL's rules
of what is never come to, and run by themselves before the statement, once for each plan. What no part of a query asks
for (an unused column of a subquery, the select list of EXISTS) is left out, as PostgreSQL does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any

from adapter.plans.computed.constant_rows import NeedsEngine
from adapter.plans.computed.row_values import constant_of
from planner.definitions.mutability import computes_immutably, computes_stably
from planner.errors import SqlError
from planner.ir import nodes as ir
from planner.ir.bound import BoundDelete, BoundInsert, BoundMerge, BoundQuery, BoundStatement, BoundUpdate
from planner.ir.rewrite import RELATIONS, children, transform, walk
from planner.types import types as t
from planner.types.signature import COMPARISONS
from planner.types.types import SqlType, is_wide

_INT4, _BOOL = SqlType(t.INT4), SqlType(t.BOOL)

_FIRST_FIELD = 1_000_000_000
"""No field of a part has so high a number."""

MAX_PARTS = 100
"""Parts of a statement that are run by themselves; those after them fail when they are come to."""

_TEXTS = frozenset({t.TEXT, t.VARCHAR, t.BPCHAR, t.NAME})
_NEVER_FAIL = frozenset({*COMPARISONS, "lower", "upper", "length", "left", "right", "btrim", "ltrim", "rtrim", "md5"})
"""Functions and operators whose values of constants are always there."""


class FoldedConstants:
    """The constant parts of one plan, as a `query` of one row. Belongs to the event loop."""

    def __init__(self, query: BoundQuery) -> None:
        self.query = query
        self.are_fine = False
        """Whether they have been worked out: so they are from then on."""


def folded_constants(statement: BoundStatement) -> FoldedConstants | None:
    """The parts of `statement` that are to be worked out before it; None when there are none."""
    parts = tuple(_parts(statement, params=False))[:MAX_PARTS]
    if not parts:
        return None
    return FoldedConstants(one_row([_is_there(part) for part in parts]))


def one_row(exprs: Sequence[ir.Scalar]) -> BoundQuery:
    """The query whose one row is the values of `exprs`, which have no columns."""
    fields = tuple([ir.Field(id=_FIRST_FIELD + n, name="c", type=expr.type) for n, expr in enumerate(exprs)])
    return BoundQuery(rel=ir.Project(input=ir.OneRow(), exprs=tuple(exprs), fields=fields))


def constant_parts(query: BoundQuery) -> list[tuple[ir.Scalar, ir.Scalar]]:
    """The parts of `query` that have one value while it runs and are come to, whether they might fail or not: each as
    it stands there, and as an expression by itself. What makes one row is made anyway and has none."""
    found = _Folding(params=False, stable=True)
    if not _is_one_row(query.rel):
        found.query(query.rel)
    return found.constants


def folds_parameters(statement: BoundStatement) -> bool:
    """Whether a statement would have such parts if its parameters were constants."""
    return next(iter(_parts(statement, params=True)), None) is not None


def _is_there(part: ir.Scalar) -> ir.Scalar:
    """A number, for which `part` has to be known."""
    null = ir.IsNull(arg=part, negated=False, type=_BOOL)
    return ir.Case(
        whens=((null, ir.Literal(value=0, type=_INT4)),), otherwise=ir.Literal(value=1, type=_INT4), type=_INT4
    )


def _parts(statement: BoundStatement, *, params: bool) -> Iterable[ir.Scalar]:
    found = _Folding(params=params)
    queries: list[BoundQuery | None] = []
    match statement:
        case BoundQuery():
            queries = [statement]
        case BoundInsert():
            conflict = statement.on_conflict
            queries = [statement.source, None if conflict is None else conflict.update]
        case BoundUpdate() | BoundDelete() | BoundMerge():
            queries = [statement.read]
    returning = getattr(statement, "returning", None)
    for query in (*queries, None if returning is None else returning.query):
        if query is not None and not _is_one_row(query.rel):
            found.query(query.rel)
    return found.parts


def _is_one_row(rel: ir.Rel) -> bool:
    """Whether the one row is made, whatever is in it."""
    return isinstance(rel, ir.OneRow | ir.Values) or (
        isinstance(rel, ir.Project) and isinstance(rel.input, ir.OneRow | ir.Values)
    )


_OF_ROWS = (ir.ColumnRef, ir.LetValue, ir.SessionValue)


class _Is(Enum):
    """What is known of a part."""

    CONSTANT = 1
    """It has one value."""
    LITERAL = 2
    """So it has, and no work is left."""
    VARIABLE = 3


class _Folding:
    """Goes through a query from its top, with the columns that are asked for so far. With `params`, parameters count
    as constants, with `stable` what depends on the session's settings and the catalog."""

    def __init__(self, *, params: bool, stable: bool = False) -> None:
        self.parts: list[ir.Scalar] = []
        """Those that might fail."""
        self.constants: list[tuple[ir.Scalar, ir.Scalar]] = []
        """With `stable` all: as they stand in the query, and by themselves."""
        self._params = params
        self._stable = stable
        self._computes = computes_stably if stable else computes_immutably
        self._asked: set[int] = set()
        self._lets: dict[int, ir.Scalar | None] = {}
        self._tables: dict[int, ir.CommonTable] = {}

    # ------------------------------------------------------------ relations

    def query(self, rel: ir.Rel) -> None:
        """All columns of `rel` are asked for."""
        self._ask(rel)
        self._relation(rel)

    def _ask(self, rel: ir.Rel) -> None:
        self._asked.update([field.id for field in rel.fields])

    def _relation(self, rel: ir.Rel) -> None:
        match rel:
            case ir.Project():
                self._whole([e for e, field in zip(rel.exprs, rel.fields, strict=True) if field.id in self._asked])
            case ir.Values():
                for row in rel.rows:
                    self._whole([e for e, field in zip(row, rel.fields, strict=True) if field.id in self._asked])
            case ir.Aggregate():
                self._whole(rel.keys)
                self._calls(rel.calls, rel.fields[len(rel.keys) :])
            case ir.Window():
                self._calls(rel.calls, rel.fields[len(rel.input.fields) :])
            case ir.SetOperation():
                places = [n for n, field in enumerate(rel.fields) if field.id in self._asked]
                for side in (rel.left, rel.right):
                    self._asked.update([side.fields[n].id for n in places] if rel.all and rel.op == "union" else ())
                    if not (rel.all and rel.op == "union"):
                        self._ask(side)
                    self._relation(side)
                return
            case ir.Deduplicate(on=()):
                self._ask(rel.input)
            case ir.With():
                self._tables.update({table.id: table for table in rel.tables})
                self._relation(rel.body)
                return
            case ir.CteScan():
                table = self._tables.pop(rel.cte, None)
                if table is not None:
                    self.query(table.rel)
                    if table.step is not None:
                        self.query(table.step)
                return
            case _:
                self._whole([part for part in children(rel) if type(part) not in RELATIONS])
        for part in children(rel):
            if type(part) in RELATIONS:
                self._relation(part)

    def _calls(self, calls: Sequence[ir.AggregateCall | ir.WindowCall], fields: Sequence[ir.Field]) -> None:
        for call, field in zip(calls, fields, strict=False):
            if field.id in self._asked:
                self._whole(children(call))

    # -------------------------------------------------------------- scalars

    def _whole(self, exprs: Iterable[Any]) -> None:
        """Notes the constant parts of expressions."""
        for expr in exprs:
            self._note(expr, self._visit(expr))

    def _visit(self, expr: Any) -> _Is:
        """What `expr` is. The constant parts of one that is variable are noted."""
        match expr:
            case ir.Literal():
                return _Is.LITERAL
            case ir.Param():
                return _Is.LITERAL if self._params else _Is.VARIABLE
            case ir.ColumnRef():
                self._asked.add(expr.id)
                return _Is.VARIABLE
            case ir.LetValue():
                return _Is.VARIABLE if self._lets.get(expr.id) is None else _Is.LITERAL
            case ir.Let():
                known = self._visit(expr.value)
                self._lets[expr.id] = None if known is _Is.VARIABLE else expr.value
                if known is not _Is.CONSTANT:
                    return self._visit(expr.body)
                body = self._visit(expr.body)
                if body is _Is.VARIABLE:
                    self._note(expr.value, known)
                return body if body is _Is.VARIABLE else _Is.CONSTANT
            case ir.Case():
                return self._case(expr)
            case ir.Coalesce():
                return self._first(expr.args, lambda value: value is not None)
            case ir.BoolOp(op="and" | "or"):
                decisive = expr.op == "or"
                return self._first(expr.args, lambda value: value is decisive)
            case ir.Exists() | ir.ScalarSubquery() | ir.ArraySubquery() | ir.QuantifiedSubquery():
                self._whole(expr.args if isinstance(expr, ir.QuantifiedSubquery) else ())
                if not isinstance(expr, ir.Exists):
                    self._ask(expr.rel)
                self._relation(expr.rel)
                return _Is.VARIABLE
            case ir.SessionValue() | ir.DomainValue() | ir.ForEach() | ir.AggregateCall() | ir.WindowCall():
                parts = (expr.arg,) if isinstance(expr, ir.DomainValue | ir.ForEach) else tuple(children(expr))
                self._whole(parts)
                return _Is.VARIABLE
        return self._composed(expr)

    def _composed(self, expr: Any) -> _Is:
        """What an expression is of which all parts are always computed."""
        parts = tuple(children(expr))
        known = [self._visit(part) for part in parts]
        if _Is.VARIABLE in known or not self._is_folded(expr):
            for part, what in zip(parts, known, strict=True):
                self._note(part, what)
            return _Is.VARIABLE
        fails = isinstance(expr, ir.Call) if self._params else _may_fail(expr)
        return _Is.CONSTANT if fails or _Is.CONSTANT in known else _Is.LITERAL

    def _is_folded(self, expr: Any) -> bool:
        """Whether an expression over constants is one: not a row, which stays what it is, nor what is no expression."""
        return hasattr(expr, "type") and not isinstance(expr, ir.RowConstructor) and self._computes(expr)

    def _case(self, expr: ir.Case) -> _Is:
        """A constant condition that is false takes its branch away, one that is true the rest."""
        parts: list[tuple[ir.Scalar, _Is]] = []
        for condition, result in expr.whens:
            known = self._visit(condition)
            parts.append((condition, known))
            if known is _Is.VARIABLE:
                parts.append((result, self._visit(result)))
                continue
            is_known, value = self._value(condition)
            if is_known and value is not True:
                continue
            if is_known:
                parts.append((result, self._visit(result)))
            return self._together(parts)
        if expr.otherwise is not None:
            parts.append((expr.otherwise, self._visit(expr.otherwise)))
        return self._together(parts)

    def _first(self, args: Sequence[ir.Scalar], is_decisive: Callable[[object], bool]) -> _Is:
        """Those after a constant that decides are never come to."""
        parts: list[tuple[ir.Scalar, _Is]] = []
        for arg in args:
            known = self._visit(arg)
            parts.append((arg, known))
            if known is not _Is.VARIABLE:
                is_known, value = self._value(arg)
                if not is_known or is_decisive(value):
                    break
        return self._together(parts)

    def _together(self, parts: Sequence[tuple[ir.Scalar, _Is]]) -> _Is:
        """What it is that has these parts: those that are to be worked out are noted one by one."""
        for part, known in parts:
            self._note(part, known)
        return _Is.VARIABLE if any(known is _Is.VARIABLE for _, known in parts) else _Is.LITERAL

    def _value(self, expr: ir.Scalar) -> tuple[bool, object]:
        """Whether the value of a constant is known without an engine, and it."""
        compute = None if any(isinstance(node, ir.Param) for node in walk(expr)) else constant_of(self._closed(expr))
        if compute is None:
            return False, None
        try:
            return True, compute(())
        except (NeedsEngine, SqlError):
            return False, None

    def _closed(self, expr: ir.Scalar) -> ir.Scalar:
        """`expr` with the values that enclosing `Let`s name."""

        def value(node: Any) -> Any | None:
            known = self._lets.get(node.id) if isinstance(node, ir.LetValue) else None
            return None if known is None else self._closed(known)

        return transform(expr, value)

    def _note(self, expr: ir.Scalar, known: _Is) -> None:
        """`expr` is to be worked out, if an engine is needed for it: not where columns stand in a branch of it that is
        never come to."""
        if isinstance(expr, ir.Literal) or not (known is _Is.CONSTANT or (known is _Is.LITERAL and self._stable)):
            return
        part = self._closed(expr)
        if any(isinstance(node, _OF_ROWS) or type(node) in RELATIONS for node in walk(part)):
            return
        if self._stable:
            self.constants.append((expr, part))
            return
        if part not in self.parts and not self._value(part)[0]:
            self.parts.append(part)


def _may_fail(expr: Any) -> bool:
    """Whether working `expr` out might fail, when its parts are there."""
    match expr:
        case ir.Call():
            name = expr.signature.name
            if name == "||":
                return not all(arg.type.oid in _TEXTS for arg in expr.args)
            return name not in _NEVER_FAIL
        case ir.Cast():
            return _may_not_convert(expr.arg.type, expr.type)
        case ir.Subscript() | ir.SubscriptAssignment() | ir.QuantifiedArray():
            return True
    return False


def _may_not_convert(source: SqlType, target: SqlType) -> bool:
    if target.oid in _TEXTS:
        return False
    if source.oid == target.oid:
        return target.typmod not in (-1, source.typmod)
    return not (target.oid == t.NUMERIC and is_wide(target) and source.oid in (t.INT2, t.INT4, t.INT8, t.NUMERIC))
