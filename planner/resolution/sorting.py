"""SortBy clauses: direction and place of nulls."""

from __future__ import annotations

from planner.errors import FeatureNotSupported
from planner.ir.nodes import Scalar, SortKey
from planner.resolution.casting import resolve_unknown
from planner.resolution.operators import check_sortable
from planner.resolution.records import lack_of, ordered_by
from planner.resolution.statement import Level
from planner.syntax.libpg_query import pb
from planner.syntax.names import strings
from planner.syntax.parse import Tree, tree_location


def sort_direction(level: Level, tree: Tree, expr: Scalar) -> tuple[bool, bool]:
    """(descending, nulls first) of a SortBy clause."""
    if tree.sortby_dir == pb.SORTBY_USING:
        symbol = strings(tree.use_op)[-1]
        if symbol not in ("<", ">"):
            raise FeatureNotSupported(f"ORDER BY USING {symbol} is not supported")
        descending = symbol == ">"
    else:
        descending = tree.sortby_dir == pb.SORTBY_DESC
    check_sortable(level, expr, tree_location(tree.node))
    if tree.sortby_nulls == pb.SORTBY_NULLS_FIRST:
        return descending, True
    if tree.sortby_nulls == pb.SORTBY_NULLS_LAST:
        return descending, False
    return descending, descending


def sort_key(level: Level, tree: Tree, expr: Scalar) -> SortKey:
    """A SortBy clause over an expression that is no record, with the null order said."""
    expr = resolve_unknown(level.statement, expr)
    descending, nulls_first = sort_direction(level, tree, expr)
    return SortKey(expr=expr, descending=descending, nulls_first=nulls_first)


def sort_keys(level: Level, tree: Tree, expr: Scalar) -> tuple[SortKey, ...]:
    """As `sort_key`; for a record one key for each field of it, where NULL is larger than anything else."""
    key = sort_key(level, tree, expr)
    fields = tuple(ordered_by(level, key.expr))
    if fields == (key.expr,):
        return (key,)
    keys = [
        SortKey(expr=resolve_unknown(level.statement, field), descending=key.descending, nulls_first=key.descending)
        for field in fields
    ]
    lack = lack_of(key.expr)
    if lack is not None:
        keys.insert(0, SortKey(expr=lack, descending=key.nulls_first, nulls_first=key.nulls_first))
    return tuple(keys)
