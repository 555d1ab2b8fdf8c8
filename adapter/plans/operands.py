"""Operands: what a column is compared with that is no constant, yet has one value while a statement runs.

``ts > now() - interval '1 hour'``, ``d BETWEEN date_trunc('month', now()) AND $1::date + 6``, ``id = $2 * 2``:
an operand without columns, subqueries and volatile functions is worked out once for each execution and is then a
parameter of the query, behind its own. So whatever looks at conditions (which files and row groups may hold rows,
indexes, keys, what a read is validated by, files of external tables, an engine's own pruning) sees a constant, and an
engine's text stays the same from one execution to the next.

SUBTLE: an error in an operand is the statement's, whether there are rows or not. So it is in PostgreSQL, which folds
immutable functions and parameters when it plans (eval_const_expressions), and evaluates stable ones there for its
estimates (estimate_expression_value). What it drops without a look is left where it is: what stands in AND or OR
behind something that no row matters to (``false AND a = 1/0``), branches of CASE, and common tables that nobody reads.

What the local engine alone knows of constants (definitions and names of objects, ``pg_get_viewdef('v'::regclass)``)
is worked out so wherever it stands, but for what stands under a condition: Spark runs the rest.

Dates and timestamps compare with each other (``ts >= $1::date``): the operand is then the column's type too, where that
means the same; else bounds stand beside the comparison that follow from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from adapter.plans.computed.constant_rows import NeedsEngine
from adapter.plans.computed.row_values import TIMES, Given, RowColumns, Value, literal_of
from adapter.plans.conditions import COMPARABLE, FLIPPED, is_compared_by_key
from adapter.plans.predicates import ScanTemplate, scan_templates
from planner.definitions.mutability import is_immutable
from planner.errors import SqlError
from planner.functions.registry import form, operators
from planner.ir import nodes as ir
from planner.ir.array_value import ArrayValue, held_type
from planner.ir.bound import BoundQuery
from planner.ir.physical import element_type
from planner.ir.rewrite import transform, walk
from planner.resolution.session_values import VALUES, acts, session_values
from planner.types import types as t
from planner.types.signature import Kind, Volatility
from planner.types.types import SqlType
from storage.catalog.model import FIRST_USER_OID

_T = TypeVar("_T")

MAX_OPERANDS = 64
"""Operands of one query. Others, of long lists, are left to engines."""

_FIRST_FIELD = 1_000_000_000
"""No field of a query has so high a number."""

_STABLE = (frozenset(VALUES.values()) | {"current_schemas_implicit"}) - {"clock_timestamp", "setting"}
"""The session values that are the same while a statement runs, besides those of settings."""

_COMPOSED = (
    ir.Literal, ir.Param, ir.Cast, ir.BoolOp, ir.IsNull, ir.BooleanTest, ir.Distinct, ir.Case, ir.Let, ir.LetValue,
    ir.Coalesce, ir.MinMax, ir.InList, ir.QuantifiedArray, ir.ArrayConstructor, ir.Subscript, ir.Collate,
)  # fmt: skip
"""What operands consist of, besides calls and session values."""


class Operands(Struct, frozen=True, kw_only=True, eq=False):
    """The operands of the query `source`, and that query with them as parameters, `query`. The first of them is number
    `own` + 1. `templates` are those of `query`."""

    source: BoundQuery
    query: BoundQuery
    templates: tuple[ScanTemplate, ...]
    own: int
    scalars: tuple[ir.Scalar, ...]
    quick: tuple[Value | None, ...]
    """What computes each of them without an engine, where something does."""
    never_change: tuple[bool, ...]
    """Which of them have the same value in every execution."""
    asked: frozenset[str]
    """The session values in them."""
    session_values: frozenset[str]
    """Those that `query` has besides."""
    known: dict[int, ir.Literal]
    """The values of those that never change, by their number from 0, once they have been worked out."""

    def at_once(self, given: Given) -> tuple[ir.Literal, ...] | None:
        """All parameters of `query`; None when it takes more than this to work them out."""
        found = list(given.params[: self.own])
        try:
            for place, value in enumerate(self.quick):
                literal = self.known.get(place)
                if literal is None:
                    if value is None:
                        return None
                    literal = self.literal(place, value((), given))
                found.append(literal)
        except (NeedsEngine, SqlError):
            return None
        return tuple(found)

    def literal(self, place: int, value: Any) -> ir.Literal:
        """The operand with this number and this value, as `RowColumns` has it; kept if it never changes."""
        scalar = self.scalars[place]
        type_ = scalar.type
        if type(value) is Decimal and not value.is_finite():
            raise NeedsEngine  # Not every numeric can be written so.
        if type(value) is int and type_.oid in TIMES:
            value = literal_of(value, type_)
        elif isinstance(value, ArrayValue):
            type_ = held_type(value, type_)
        literal = ir.Literal(value=value, type=type_)
        if self.never_change[place]:
            self.known[place] = literal
        return literal

    def unknown(self) -> BoundQuery:
        """A query of one row, whose columns are those that have to be worked out for this execution."""
        left = [place for place in range(len(self.scalars)) if place not in self.known]
        fields = tuple([ir.Field(id=_FIRST_FIELD + place, name="c", type=self.scalars[place].type) for place in left])
        rel = ir.Project(input=ir.OneRow(), exprs=tuple([self.scalars[place] for place in left]), fields=fields)
        return BoundQuery(rel=rel, param_types=self.source.param_types)

    def with_values(self, params: Sequence[ir.Literal], values: Iterable[Any]) -> tuple[ir.Literal, ...]:
        """All parameters of `query`, with the values of those that `unknown` asks for. Raises NeedsEngine for one that
        cannot stand in a query."""
        new = iter(values)
        known = [self.known.get(place) for place in range(len(self.scalars))]
        found = [self.literal(place, next(new)) if each is None else each for place, each in enumerate(known)]
        return (*params[: self.own], *found)

    def shown(self, scalar: ir.Scalar) -> ir.Scalar:
        """`scalar`, which is of `query`, for people: operands in full, and the value of one that never changes."""

        def operand(node: Any) -> Any | None:
            if not isinstance(node, ir.Param) or node.index <= self.own:
                return None
            place = node.index - self.own - 1
            return self.known.get(place, self.scalars[place])

        return transform(scalar, operand)


def operands_of(query: BoundQuery) -> Operands | None:
    """The operands of `query`; None when it has none. Where it reads nothing, only what the local engine alone knows is
    one."""
    reads = bool(query.relations or query.foreign or query.files)
    found = _Finding(query, conditions=reads)
    if not found.scalars:
        return None
    rel = found.rel(query.rel)
    types = tuple([scalar.type for scalar in found.scalars])
    columns = RowColumns({})
    return Operands(
        source=query,
        query=replace(query, rel=rel, param_types=(*query.param_types, *types)),
        templates=scan_templates(rel),
        own=len(query.param_types),
        scalars=tuple(found.scalars),
        quick=tuple(map(columns.value_of, found.scalars)),
        never_change=tuple(map(_never_changes, found.scalars)),
        asked=session_values(tuple(found.scalars)),
        session_values=session_values(rel),
        known={},
    )


class _Finding:
    """Finds the operands of a query, and puts parameters in their place."""

    def __init__(self, query: BoundQuery, *, conditions: bool) -> None:
        self.scalars: list[ir.Scalar] = []
        self._own = len(query.param_types)
        nodes = list(walk(query.rel))
        read = {node.cte for node in nodes if isinstance(node, ir.CteScan)}
        unread = [node for node in nodes if isinstance(node, ir.CommonTable) and node.id not in read]
        left = {id(node) for table in unread for node in walk(table)}
        self._changes: dict[int, ir.Scalar] = {}
        """What becomes of conditions, by their identity."""
        for node in nodes:
            if not conditions or not isinstance(node, (ir.Filter, ir.Join)) or id(node) in left:
                continue
            if node.condition is not None:
                condition = self._condition(node.condition)
                if condition is not node.condition:
                    self._changes[id(node.condition)] = condition
        self._of_local: dict[int, ir.Scalar] = {}
        """What stands in the place of what the local engine alone knows, by its identity."""
        if not query.system:
            self._find_of_local(nodes, left)

    def rel(self, node: Any) -> Any:
        """`node`, of the query, with parameters for the operands in its conditions."""
        return transform(node, self._within)

    def _within(self, node: Any) -> Any | None:
        known = self._of_local.get(id(node))
        if known is not None:
            return known
        condition = self._changes.pop(id(node), None)
        # There may be subqueries in it.
        return None if condition is None else self.rel(condition)

    def _find_of_local(self, nodes: Sequence[Any], left: set[int]) -> None:
        """Find what the local engine alone knows among `nodes`, but for those in `left` (identities)."""
        found = [node for node in nodes if _is_of_local(node)]
        if not found:
            return
        left = set(left)
        conditional = {id(inner) for node in nodes if isinstance(node, _CONDITIONAL) for inner in walk(node)}
        for node in found:
            never_fails = isinstance(node, ir.Cast) and isinstance(node.arg, ir.Literal)
            if isinstance(node, ir.Call) and node.signature.name in _WITHOUT_FAIL:
                never_fails = all(isinstance(arg, ir.Literal) for arg in node.args)
            if id(node) in left or (id(node) in conditional and not never_fails):
                continue
            scalar = transform(node, _typeof_of_type)
            if not _has_columns(scalar):
                operand = self._operand(scalar)
                if operand is not scalar:
                    self._of_local[id(node)] = operand
                    left |= {id(inner) for inner in walk(node)}

    def _condition(self, scalar: ir.Scalar, *, is_asserted: bool = True) -> ir.Scalar:
        """`scalar` with parameters. With `is_asserted` only rows of which it is true matter, so that what follows from
        it may stand beside it."""
        match scalar:
            case ir.BoolOp(op="not"):
                (arg,) = scalar.args
                return self._changed(scalar, args=(self._condition(arg, is_asserted=False),))
            case ir.BoolOp():
                args = list(scalar.args)
                for place, arg in enumerate(args):
                    if not _has_columns(arg):
                        break  # It may decide, and what comes behind it is not looked at.
                    args[place] = self._condition(arg, is_asserted=is_asserted and scalar.op == "and")
                return self._changed(scalar, args=tuple(args))
            case ir.Call(args=(left, right)) if scalar.signature.name in _COMPARISONS:
                if _has_columns(left) and not _has_columns(right):
                    return self._comparison(scalar, left, right, is_asserted=is_asserted)
                if _has_columns(right) and not _has_columns(left):
                    return self._comparison(scalar, right, left, is_asserted=is_asserted)
                return scalar
            case ir.InList() if _has_columns(scalar.arg):
                return self._changed(scalar, items=self._items(scalar.items))
            case ir.QuantifiedArray() if _has_columns(scalar.arg):
                array = scalar.array
                if isinstance(array, ir.ArrayConstructor) and not _is_plain(array.items):
                    array = self._changed(array, items=self._items(array.items))
                else:
                    array = self._operand(array)
                return self._changed(scalar, array=array)
            case _:
                return scalar

    def _comparison(self, call: ir.Call, rows: ir.Scalar, given: ir.Scalar, *, is_asserted: bool) -> ir.Scalar:
        """The comparison of `rows`, which has columns, and `given`, which has none."""
        target, name = rows.type, call.signature.name
        if target.oid != given.type.oid and {target.oid, given.type.oid} <= TIMES and _has_one_value(given):
            if (target.oid, given.type.oid) in _CONVERTED:
                given = self._operand(ir.Cast(arg=given, type=target))
                return _compared(name if rows is call.args[0] else FLIPPED[name], rows, given)
            if is_asserted:
                near = self._near(name if rows is call.args[0] else FLIPPED[name], rows, given)
                return _all((self._same(call, rows, given), *near))
        return self._same(call, rows, given)

    def _same(self, call: ir.Call, rows: ir.Scalar, given: ir.Scalar) -> ir.Scalar:
        operand = self._operand(given)
        return self._changed(call, args=(rows, operand) if rows is call.args[0] else (operand, rows))

    def _near(self, op: str, rows: ir.Scalar, given: ir.Scalar) -> Iterator[ir.Scalar]:
        """What follows from ``rows op given``, where `given` has a time of day or a zone that `rows` has not: up to a
        day beside it, wherever clocks are put forward or back."""
        day: ir.Scalar = ir.Literal(value=1, type=SqlType(t.INT4))
        if rows.type.oid != t.DATE:
            day = ir.Literal(value=ir.Interval(0, 1, 0), type=SqlType(t.INTERVAL))
        moment = ir.Cast(arg=given, type=rows.type)
        for sign, bound, ops in (("-", ">=", (">", ">=", "=")), ("+", "<=", ("<", "<=", "="))):
            if op in ops:
                yield _compared(bound, rows, self._operand(_call(sign, (moment, day), rows.type)))

    def _changed(self, node: _T, **parts: Any) -> _T:
        """`node` with these `parts`, itself where they are what it has."""
        for name, part in parts.items():
            old = getattr(node, name)
            if part is old or (isinstance(part, tuple) and all(map(_is, part, old))):
                continue
            changed: _T = replace(node, **parts)  # type: ignore[type-var]
            return changed
        return node

    def _items(self, items: tuple[ir.Scalar, ...]) -> tuple[ir.Scalar, ...]:
        if _is_plain(items) or len(items) > MAX_OPERANDS:
            return items
        return tuple(map(self._operand, items))

    def _operand(self, scalar: ir.Scalar) -> ir.Scalar:
        """The parameter that stands for `scalar` if it is an operand, else `scalar`."""
        if isinstance(scalar, (ir.Literal, ir.Param)):
            return scalar
        if isinstance(scalar, ir.Collate):
            return self._changed(scalar, arg=self._operand(scalar.arg))
        if not _has_one_value(scalar):
            return scalar
        if scalar not in self.scalars:
            if len(self.scalars) == MAX_OPERANDS:
                return scalar
            self.scalars.append(scalar)
        return ir.Param(index=self._own + self.scalars.index(scalar) + 1, type=scalar.type)


_CONVERTED = frozenset({(t.TIMESTAMPTZ, t.DATE), (t.TIMESTAMPTZ, t.TIMESTAMP), (t.TIMESTAMP, t.DATE)})
"""The types of a column and of what it is compared with, where that is a value of the column's type as well: a date is
its midnight, and what has no time zone is by the session's."""


def _compared(op: str, left: ir.Scalar, right: ir.Scalar) -> ir.Call:
    """The comparison of two scalars of one type."""
    return _call(op, (left, right), SqlType(t.BOOL))


def _call(symbol: str, args: tuple[ir.Scalar, ...], type_: SqlType) -> ir.Call:
    oids = tuple([arg.type.oid for arg in args])
    signature = next(each for each in operators(symbol) if each.args == oids)
    return ir.Call(signature=signature, args=args, type=type_)


def _all(conditions: tuple[ir.Scalar, ...]) -> ir.Scalar:
    return conditions[0] if len(conditions) == 1 else ir.BoolOp(op="and", args=conditions, type=SqlType(t.BOOL))


_COMPARISONS = frozenset(FLIPPED) | {"~~"}


def _is(one: object, other: object) -> bool:
    return one is other


def _is_plain(items: Sequence[ir.Scalar]) -> bool:
    return all(isinstance(item, (ir.Literal, ir.Param)) for item in items)


_CONDITIONAL = (ir.Case, ir.Coalesce, ir.BoolOp)


def _is_of_local(node: object) -> bool:
    """Whether it is a call, or a cast, that only the local engine has."""
    if isinstance(node, ir.Cast):
        return node.arg.type.oid in t.REG_TYPES and node.type.oid in _TEXTS
    if not isinstance(node, ir.Call) or node.signature.kind is not Kind.FUNCTION:
        return False
    known = form(node.signature)
    return known is not None and known.spark is None and known.local is not None


_WITHOUT_FAIL = frozenset({f"to_{name}" for name in t.REG_TYPES.values()})
"""Functions that find an object by its name, or none."""

_TEXTS = frozenset({t.TEXT, t.VARCHAR, t.NAME})


def _typeof_of_type(node: object) -> ir.Scalar | None:
    """pg_typeof of a column, which says nothing of its values, as that of a NULL."""
    if not isinstance(node, ir.Call) or node.signature.name != "pg_typeof" or node.signature.oid >= FIRST_USER_OID:
        return None
    (arg,) = node.args
    return replace(node, args=(ir.Literal(value=None, type=arg.type),)) if isinstance(arg, ir.ColumnRef) else None


def _never_changes(scalar: ir.Scalar) -> bool:
    return is_immutable(scalar) and not any(isinstance(node, ir.Param) for node in walk(scalar))


def _has_columns(scalar: ir.Scalar) -> bool:
    return any(isinstance(node, ir.ColumnRef) for node in walk(scalar))


def _has_one_value(scalar: ir.Scalar) -> bool:
    """Whether `scalar` has no columns and the same value as long as a statement runs, of a type that conditions are
    looked at for."""
    element = element_type(scalar.type)
    compared = scalar.type if element is None else element
    if compared.oid not in COMPARABLE and compared.oid not in t.REG_TYPES and not is_compared_by_key(compared):
        return False
    return all(map(_is_stable, walk(scalar)))


def _is_stable(node: object) -> bool:
    match node:
        case ir.SessionValue():
            return node.name in _STABLE or node.name.startswith(("setting:", "setting_or_null:"))
        case ir.Call():
            signature = node.signature
            return (
                signature.volatility is not Volatility.VOLATILE
                and signature.oid < FIRST_USER_OID
                and not acts(signature)
            )
        case _:
            return isinstance(node, _COMPOSED)
