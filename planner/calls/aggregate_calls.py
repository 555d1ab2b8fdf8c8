"""Calls of aggregates, and GROUPING()."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from planner.calls.decimal_arguments import with_decimals
from planner.calls.overloads import Resolved
from planner.common_errors import Held
from planner.errors import (
    FeatureNotSupported,
    GroupingError,
    InvalidColumnReference,
    InvalidRecursion,
    TooManyArguments,
    WrongObjectType,
)
from planner.expressions.alike import has_own, is_alike
from planner.expressions.bind import bind, bind_clause
from planner.functions import registry
from planner.ir.nodes import AggregateCall, Call, Cast, ColumnRef, RowConstructor, Scalar, SortKey
from planner.ir.physical import ELEMENT_ARRAYS
from planner.ir.rewrite import walk
from planner.resolution.casting import to_boolean
from planner.resolution.operators import check_groupable, check_sortable
from planner.resolution.records import as_row
from planner.resolution.sorting import sort_key, sort_keys
from planner.resolution.statement import Handler, Level
from planner.syntax.parse import Tree
from planner.types.types import INT4, JSON, RECORD_ARRAY, SqlType, is_wide

_ALLOWED_CLAUSES = frozenset({"SELECT", "HAVING", "ORDER BY", "DISTINCT ON", "window"})
"""Clauses in which aggregates may stand; other names of clauses go into the error."""


def aggregate_call(
    level: Level,
    resolved: Resolved,
    tree: Tree,
    within: list[tuple[Tree, Scalar]],
    start_srfs: int,
    name: str,
) -> Scalar:
    """A call of an aggregate: a reference to the column that the query's `Aggregate` will compute. `within` are the
    arguments from WITHIN GROUP; set-returning functions from `start_srfs` on stand in the arguments."""
    statement = level.statement
    signature = resolved.signature
    position = statement.position(tree.location)
    if tree.agg_within_group and not signature.ordered_set:
        raise WrongObjectType(
            f"{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP", position=position
        )
    if not tree.args and not tree.agg_star and not signature.ordered_set and signature.args == ():
        raise WrongObjectType(f"{name}(*) must be used to call a parameterless aggregate function", position=position)
    if len(level.srfs) > start_srfs:
        raise FeatureNotSupported("aggregate function calls cannot contain set-returning function calls",
                                  hint="You might be able to move the set-returning function into a LATERAL FROM item.",
                                  position=statement.position(level.srf_locations[start_srfs]))  # fmt: skip
    args = resolved.args
    order_by: tuple[SortKey, ...]
    strange: list[bool] = []
    if within:
        direct = len(args) - len(within)
        order_by = tuple(sort_key(level, sort, arg) for (sort, _), arg in zip(within, args[direct:], strict=True))
        args = args[:direct]
    else:
        named = [_argument_for(bind(level, node.sort_by.node), args) for node in tree.agg_order]
        sorts = [sort_keys(level, node.sort_by, expr) for node, expr in zip(tree.agg_order, named, strict=True)]
        order_by = tuple(key for keys in sorts for key in keys)
        # A row in ORDER BY stands for its fields, which are no arguments.
        strange = [
            expr not in args and (isinstance(expr, RowConstructor) or any(key.expr not in args for key in keys))
            for expr, keys in zip(named, sorts, strict=True)
        ]
    for key in order_by:
        check_sortable(level, key.expr)
    if tree.agg_distinct:
        for arg in args:
            check_groupable(level, arg)
        if any(strange):
            raise InvalidColumnReference(
                "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
                position=statement.position_of(order_by[0].expr),
            )
        if signature.name == "count":
            args = [as_row(level, arg) for arg in args]
    condition: Scalar | None = None
    if tree.HasField("agg_filter"):
        condition = to_boolean(statement, bind_clause(level, tree.agg_filter, "FILTER"), "FILTER")
    type_ = resolved.type
    if (
        is_wide(type_)
        and not tree.agg_distinct
        and statement.written is None
        and Held.LONG not in statement.context.held
    ):
        decimals = with_decimals(signature.name, args)
        if decimals is not args:
            args, type_ = decimals, registry.result_type(signature, [arg.type for arg in decimals])
    call = AggregateCall(
        signature=signature,
        args=tuple(args),
        type=type_,
        distinct=tree.agg_distinct,
        filter=condition,
        order_by=order_by,
    )
    owner = _aggregate_level(level, call)
    _check_clause(owner, "aggregate functions", tree.location)
    if owner.reads_itself:
        raise InvalidRecursion(
            "aggregate functions are not allowed in a recursive query's recursive term",
            position=statement.position(tree.location),
        )
    field = next((known for existing, known in owner.aggregates if existing == call), None)
    if field is None:
        field = statement.new_field(signature.name, call.type)
        owner.aggregates.append((call, field))
        statement.aggregate_owner[field.id] = owner
    result: Scalar = statement.at(ColumnRef(id=field.id, type=field.type), tree.location)
    return result


def _argument_for(expr: Scalar, args: Sequence[Scalar]) -> Scalar:
    """The argument that is `expr` as the aggregate takes it, which PostgreSQL sorts by then (a varchar as text, say);
    `expr` where there is none."""
    for arg in args:
        given = arg.arg if isinstance(arg, Cast) and not arg.explicit and arg.arg.type == expr.type else arg
        if given == expr or (has_own(expr) and is_alike(given, expr)):
            return arg
    return expr


def rows_as_json(level: Level, arg: Scalar) -> Scalar:
    """`arg`, or, where it is array_agg of rows, the array of their JSON: an array of rows holds their text alone."""
    if not isinstance(arg, ColumnRef) or arg.type.oid != RECORD_ARRAY:
        return arg
    owner = level.statement.aggregate_owner.get(arg.id)
    found = next((call for call, field in owner.aggregates if field.id == arg.id), None) if owner is not None else None
    if owner is None or found is None or not isinstance(found.args[0], RowConstructor):
        return arg
    (to_json,) = [signature for signature in registry.functions("row_to_json") if len(signature.args) == 1]
    array = SqlType(ELEMENT_ARRAYS[JSON])
    row = Call(signature=to_json, args=found.args, type=SqlType(JSON))
    signature = replace(found.signature, args=(JSON,), result=array.oid)
    call = replace(found, signature=signature, args=(row,), type=array)
    field = level.statement.new_field(signature.name, array)
    owner.aggregates.append((call, field))
    level.statement.aggregate_owner[field.id] = owner
    result: Scalar = level.statement.at(ColumnRef(id=field.id, type=array), level.statement.location(arg))
    return result


class _Levels(Struct, frozen=True):
    """The columns that an expression reads, each with how many queries out it belongs to: `columns`, those that hold
    aggregates, `aggregates`, and a window function's, `window`."""

    columns: dict[int, ColumnRef]
    aggregates: dict[int, ColumnRef]
    window: ColumnRef | None


def _levels(around: list[Level], node: object) -> _Levels:
    statement = around[0].statement
    columns: dict[int, ColumnRef] = {}
    aggregates: dict[int, ColumnRef] = {}
    window: ColumnRef | None = None
    for part in walk(node):
        if not isinstance(part, ColumnRef):
            continue
        owner = statement.owner.get(part.id) or statement.aggregate_owner.get(part.id)
        if statement.window_owner.get(part.id) is around[0]:
            window = window or part
        if owner is None or owner not in around:
            continue
        depth = around.index(owner)
        columns.setdefault(depth, part)
        if part.id in statement.aggregate_owner:
            aggregates.setdefault(depth, part)
    return _Levels(columns, aggregates, window)


def _and_around(level: Level) -> list[Level]:
    around: list[Level] = []
    current: Level | None = level
    while current is not None:
        around.append(current)
        current = current.parent
    return around


def _aggregate_level(level: Level, call: AggregateCall) -> Level:
    """The query level that an aggregate belongs to: the innermost whose columns it aggregates. Raises 42803 when it
    holds an aggregate or window function of that level, or direct arguments of a query further in
    (check_agg_arguments)."""
    statement = level.statement
    around = _and_around(level)
    ordered_set = call.signature.ordered_set
    aggregated = _levels(around, (() if ordered_set else call.args, call.order_by, call.filter))
    direct = _levels(around, call.args if ordered_set else ())
    depth = min(aggregated.columns, default=0)
    window = aggregated.window or direct.window
    if window is not None:
        raise GroupingError(
            "aggregate function calls cannot contain window function calls", position=statement.position_of(window)
        )
    nested = aggregated.aggregates.get(depth)
    if nested is not None:
        raise GroupingError("aggregate function calls cannot be nested", position=statement.position_of(nested))
    nearest = min(direct.columns, default=depth)
    if nearest < depth:
        raise GroupingError(
            "outer-level aggregate cannot contain a lower-level variable in its direct arguments",
            position=statement.position_of(direct.columns[nearest]),
        )
    nested = direct.aggregates.get(depth)
    if nested is not None:
        raise GroupingError("aggregate function calls cannot be nested", position=statement.position_of(nested))
    return around[depth]


def _check_clause(owner: Level, what: str, location: int) -> None:
    if owner.clause is not None and owner.clause not in _ALLOWED_CLAUSES:
        raise GroupingError(f"{what} are not allowed in {owner.clause}", position=owner.statement.position(location))


def _grouping(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    if len(tree.args) > 31:
        raise TooManyArguments("GROUPING must have fewer than 32 arguments", position=statement.position(tree.location))
    args = tuple(bind(level, node) for node in tree.args)
    around = _and_around(level)
    owner = around[min(_levels(around, args).columns, default=0)]
    _check_clause(owner, "grouping operations", tree.location)
    field = statement.new_field("grouping", SqlType(INT4))
    statement.aggregate_owner[field.id] = owner
    owner.grouping_refs.append((args, field, tree.location, owner is level))
    return statement.at(ColumnRef(id=field.id, type=field.type), tree.location)


HANDLERS: Mapping[str, Handler] = {"grouping_func": _grouping}
