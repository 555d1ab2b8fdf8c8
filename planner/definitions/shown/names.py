"""What the items of FROM and their columns are called in a printed query (ruleutils.c, set_rtable_names and
set_relation_column_names): each item has a name that no item of the query, or of one around it, has."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from planner.ir.nodes import BoolOp, ColumnRef
from planner.ir.rewrite import column_ids
from planner.resolution.statement import NsItem, QueryNotes
from planner.syntax.parse import Tree

_LONGEST = 63  # bytes of a name


class ShownItem:
    """An item of FROM: what it is called, and its columns. `changed`: some are not called as they are without the
    item's list of names."""

    def __init__(
        self, item: NsItem, name: str, merged: Mapping[int, str] | None = None, taken: Collection[str] = ()
    ) -> None:
        """`merged` names columns by their fields; the others are not called as those that are `taken`."""
        self.item, self.name = item, name
        given = [None if merged is None or each.field is None else merged.get(each.field.id) for each in item.columns]
        known = {*taken, *filter(None, given)}
        others = _told_apart([each.name for each, name in zip(item.columns, given, strict=True) if name is None], known)
        self.columns = [next(others) if name is None else name for name in given]


def using_names(
    from_clause: Sequence[Tree], notes: QueryNotes
) -> tuple[dict[int, list[str]], dict[int, str], set[str]] | None:
    """What the columns that USING merges are called where some of them have no qualifier: then each has a name of its
    own in the query (ruleutils.c, set_using_names). By joins; by fields that are merged; and all of them. None where
    that is not needed."""
    joins = [notes.joins[id(tree)] for tree in _joins_of(from_clause) if id(tree) in notes.joins]
    merged_columns = [
        column for tree, _, _ in joins if id(tree) in notes.merged for column in notes.merged[id(tree)][1].columns
    ]
    if all(isinstance(column.expr, ColumnRef) for column in merged_columns):
        return None
    of_joins: dict[int, list[str]] = {}
    of_fields: dict[int, str] = {}
    taken: set[str] = set()
    for tree, condition, using in joins:
        tests = condition.args if isinstance(condition, BoolOp) else (condition,)
        for name, test in zip(using, tests, strict=False):
            merged = set(column_ids(test))
            # As the join around it calls it.
            shown = next((of_fields[id] for id in sorted(merged) if id in of_fields), None)
            shown = unique_name(name, taken) if shown is None else shown
            taken.add(shown)
            of_joins.setdefault(id(tree), []).append(shown)
            of_fields.update(dict.fromkeys(merged, shown))
    return of_joins, of_fields, taken


def _joins_of(from_clause: Sequence[Tree]) -> Iterator[Tree]:
    """The joins of a FROM clause, each before those under it."""
    for node in from_clause:
        if node.HasField("join_expr"):
            yield node.join_expr
            yield from _joins_of((node.join_expr.larg, node.join_expr.rarg))


def items_of(from_clause: Sequence[Tree], notes: QueryNotes) -> Iterator[tuple[Tree, NsItem]]:
    """The items of a FROM clause in the order in which PostgreSQL enters them in its range table."""
    for node in from_clause:
        kind = node.WhichOneof("node")
        tree = getattr(node, kind)
        if kind == "join_expr":
            yield from items_of((tree.larg, tree.rarg), notes)
        if id(tree) in notes.items:
            yield notes.items[id(tree)]


def unique_name(name: str, taken: Collection[str]) -> str:
    """`name`, with a number after it where it is taken."""
    found, number = name, 0
    while found in taken:
        number += 1
        end = f"_{number}"
        found = name.encode()[: _LONGEST - len(end)].decode(errors="ignore") + end
    return found


def _told_apart(names: Sequence[str], known: Collection[str]) -> Iterator[str]:
    taken = set(known)
    for name in names:
        found = unique_name(name, taken)
        taken.add(found)
        yield found
