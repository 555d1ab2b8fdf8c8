"""What the items of FROM and their columns are called in a printed query (ruleutils.c, set_rtable_names and
set_relation_column_names): each item has a name that no item of the query, or of one around it, has."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from planner.resolution.statement import NsItem, QueryNotes
from planner.syntax.parse import Tree

_LONGEST = 63  # bytes of a name


class ShownItem:
    """An item of FROM: what it is called, and its columns. `changed`: some are not called as they are without the
    item's list of names."""

    def __init__(self, item: NsItem, name: str) -> None:
        self.item, self.name = item, name
        self.columns = list(_told_apart([column.name for column in item.columns]))


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


def _told_apart(names: Sequence[str]) -> Iterator[str]:
    taken: set[str] = set()
    for name in names:
        found = unique_name(name, taken)
        taken.add(found)
        yield found
