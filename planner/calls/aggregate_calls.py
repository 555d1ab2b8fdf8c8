"""Calls of aggregates, and GROUPING()."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from planner.calls.overloads import Resolved
from planner.errors import FeatureNotSupported, GroupingError, InvalidColumnReference, SqlSyntaxError, WrongObjectType
from planner.expressions.bind import bind, bind_clause
from planner.functions import registry
from planner.ir.nodes import AggregateCall, Call, ColumnRef, RowConstructor, Scalar, SortKey
from planner.ir.physical import ELEMENT_ARRAYS
from planner.ir.rewrite import walk
from planner.resolution.casting import to_boolean
from planner.resolution.coercion import RECORDARRAY
from planner.resolution.operators import check_groupable, check_sortable
from planner.resolution.sorting import sort_key
from planner.resolution.statement import Handler, Level
from planner.syntax.parse import Tree
from planner.types.types import INT4, JSON, SqlType

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
    if signature.ordered_set and not tree.agg_within_group:
        raise WrongObjectType(f"WITHIN GROUP is required for ordered-set aggregate {name}", position=position)
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
    if within:
        direct = len(args) - len(within)
        order_by = tuple(sort_key(level, sort, arg) for (sort, _), arg in zip(within, args[direct:], strict=True))
        args = args[:direct]
    else:
        order_by = tuple(sort_key(level, node.sort_by, bind(level, node.sort_by.node)) for node in tree.agg_order)
    for key in order_by:
        check_sortable(level, key.expr)
    if tree.agg_distinct:
        for arg in args:
            check_groupable(level, arg)
        if any(key.expr not in args for key in order_by):
            raise InvalidColumnReference(
                "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
                position=statement.position_of(order_by[0].expr),
            )
    condition: Scalar | None = None
    if tree.HasField("agg_filter"):
        condition = to_boolean(statement, bind_clause(level, tree.agg_filter, "FILTER"), "FILTER")
    call = AggregateCall(
        signature=signature,
        args=tuple(args),
        type=resolved.type,
        distinct=tree.agg_distinct,
        filter=condition,
        order_by=order_by,
    )
    owner = _aggregate_level(level, call)
    forbidden = owner.clause
    if forbidden is not None and forbidden not in _ALLOWED_CLAUSES:
        raise GroupingError(f"aggregate functions are not allowed in {forbidden}", position=position)
    field = next((known for existing, known in owner.aggregates if existing == call), None)
    if field is None:
        field = statement.new_field(signature.name, call.type)
        owner.aggregates.append((call, field))
        statement.aggregate_owner[field.id] = owner
    result: Scalar = statement.at(ColumnRef(id=field.id, type=field.type), tree.location)
    return result


def rows_as_json(level: Level, arg: Scalar) -> Scalar:
    """`arg`, or, where it is array_agg of rows, the array of their JSON: an array of rows holds their text alone."""
    if not isinstance(arg, ColumnRef) or arg.type.oid != RECORDARRAY:
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


def _aggregate_level(level: Level, call: AggregateCall) -> Level:
    """The query level that an aggregate belongs to: the innermost whose columns it reads. Raises 42803 when it holds
    an aggregate or window function of that level."""
    statement = level.statement
    around: list[Level] = []
    current: Level | None = level
    while current is not None:
        around.append(current)
        current = current.parent
    best: int | None = None
    nested: dict[int, ColumnRef] = {}
    windows: ColumnRef | None = None
    for part in walk((call.args, call.order_by, call.filter)):
        if not isinstance(part, ColumnRef):
            continue
        owner = statement.owner.get(part.id) or statement.aggregate_owner.get(part.id)
        if part.id in statement.window_ids:
            windows = windows or part
        if owner is None or owner not in around:
            continue
        depth = around.index(owner)
        best = depth if best is None else min(best, depth)
        if part.id in statement.aggregate_owner:
            nested.setdefault(depth, part)
    depth = best or 0
    if windows is not None:
        raise GroupingError(
            "aggregate function calls cannot contain window function calls", position=statement.position_of(windows)
        )
    if depth in nested:
        raise GroupingError("aggregate function calls cannot be nested", position=statement.position_of(nested[depth]))
    return around[depth]


def _grouping(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    if len(tree.args) > 31:
        raise SqlSyntaxError("GROUPING must have fewer than 32 arguments", position=statement.position(tree.location))
    if level.clause not in _ALLOWED_CLAUSES:
        raise GroupingError(
            f"grouping operations are not allowed in {level.clause}", position=statement.position(tree.location)
        )
    args = tuple(bind(level, node) for node in tree.args)
    field = statement.new_field("grouping", SqlType(INT4))
    statement.aggregate_owner[field.id] = level
    level.grouping_refs.append((args, field, tree.location))
    return statement.at(ColumnRef(id=field.id, type=field.type), tree.location)


HANDLERS: Mapping[str, Handler] = {"grouping_func": _grouping}
