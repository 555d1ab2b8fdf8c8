"""Where tables stand in a SELECT whose change follows from theirs, and which rows a change at each place can reach.

At most places the rows of the SELECT are a sum over the rows of the table: with the delta in its place, the SELECT
gives its change. That is not so of a table that a join may lack (the right side of LEFT JOIN), or that stands in a
subquery of WHERE (EXISTS, IN, op ANY, op ALL): there a row that comes or goes may take away and give back rows of
others. Of such a place the *guard* says which rows these are: those for which the join's condition, or the subquery,
finds a row in the delta. All others are what they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree, split_and_parse, subtrees


class Place(Struct, frozen=True):
    """A table's RangeVar, and what its guard is made of: the JoinExpr that may lack it, or the SubLink that it is in;
    None where the delta can stand in the place of the table."""

    reference: Tree
    guard: Tree | None


def places_of(select: Tree) -> list[Place] | None:
    """The places in FROM, and behind them those in subqueries of WHERE; None when there is something else in FROM than
    tables and joins of them, or a subquery of which there is no guard."""
    found: list[Place] = []
    if not all(_visit(node, None, found) for node in select.from_clause):
        return None
    links = list(_links(select.where_clause))
    if len(links) != sum(1 for _ in _links(select)):
        return None
    for link in links:
        inner = link.subselect.select_stmt
        if link.sub_link_type not in (pb.EXISTS_SUBLINK, pb.ANY_SUBLINK, pb.ALL_SUBLINK) or not _is_filter(inner):
            return None
        if not all(_visit(node, link, found) for node in inner.from_clause):
            return None
    return found


def references_of(select: Tree) -> list[Tree] | None:
    """The RangeVars of FROM in order; None when something else than tables and inner joins of tables is there."""
    found: list[Place] = []
    if not all(_visit(node, None, found) for node in select.from_clause) or any(place.guard for place in found):
        return None
    return [place.reference for place in found]


def _links(tree: Tree) -> Iterator[Tree]:
    return (node for node in subtrees(tree) if node.DESCRIPTOR.name == "SubLink")


def _is_filter(select: Tree) -> bool:
    """Whether a subquery gives a row for each of its tables' rows that passes its conditions. Aggregates are not seen
    here."""
    return (
        select.op == pb.SETOP_NONE
        and bool(select.from_clause)
        and not any((select.group_clause, select.distinct_clause, select.window_clause, select.locking_clause))
        and not any(
            map(select.HasField, ("having_clause", "with_clause", "limit_count", "limit_offset", "into_clause"))
        )
        and not any(_links(select))
    )


def _visit(node: Tree, guard: Tree | None, found: list[Place]) -> bool:
    kind = node.WhichOneof("node")
    if kind == "range_var":
        found.append(Place(node.range_var, guard))
        return True
    if kind != "join_expr":
        return False
    join = node.join_expr
    if join.HasField("alias") or any(_links(join.quals)):
        return False
    if join.jointype == pb.JOIN_INNER:
        return _visit(join.larg, guard, found) and _visit(join.rarg, guard, found)
    if guard is not None or join.using_clause or join.is_natural:
        return False
    if join.jointype == pb.JOIN_LEFT:
        return _visit(join.larg, None, found) and _visit(join.rarg, join, found)
    if join.jointype == pb.JOIN_RIGHT:
        return _visit(join.larg, join, found) and _visit(join.rarg, None, found)
    return False


def add_condition(select: Any, condition: Tree) -> None:
    """Let the SELECT give only rows for which `condition` holds besides."""
    both = pb.Node()
    if select.HasField("where_clause"):
        both.bool_expr.boolop = pb.AND_EXPR
        both.bool_expr.args.add().CopyFrom(select.where_clause)
        both.bool_expr.args.add().CopyFrom(condition)
    else:
        both.CopyFrom(condition)
    select.where_clause.CopyFrom(both)


def guard_condition(guard: Tree) -> Any:
    """That a row is reached by a change at a place with this `guard`, in which the delta stands for the table."""
    condition = pb.Node()
    if guard.DESCRIPTOR.name == "SubLink":
        link = condition
        if guard.sub_link_type != pb.EXISTS_SUBLINK:
            # One more value changes nothing where comparing with it gives what ANY (false) or ALL (true) begins from.
            is_any = guard.sub_link_type == pb.ANY_SUBLINK
            condition.boolean_test.booltesttype = pb.IS_NOT_FALSE if is_any else pb.IS_NOT_TRUE
            link = condition.boolean_test.arg
        link.sub_link.CopyFrom(guard)
        return condition
    (parsed,) = split_and_parse("SELECT EXISTS (SELECT 1)")
    condition.CopyFrom(parsed.tree.target_list[0].res_target.val)
    inner = condition.sub_link.subselect.select_stmt
    inner.from_clause.add().CopyFrom(guard.rarg if guard.jointype == pb.JOIN_LEFT else guard.larg)
    inner.where_clause.CopyFrom(guard.quals)
    return condition
