"""Joins with a name, ``(a JOIN b USING (k)) j (...)``, when a table under them gets, loses or renames a column.

Their columns are those of their sides by position, so a list of names has to be kept in step, and one without a list
needs it where a new column would be called as another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeAlias

from planner.definitions.columns.noted import Noted
from planner.syntax.parse import Tree

ColumnNames: TypeAlias = tuple[str | None, str | None]
"""What a column of an item of FROM is called before and after; None where it is not there."""


class NamedJoins:
    """Puts the lists of names of a statement's joins right. `of_relation` has the columns of a relation in FROM, of its
    tree and what they were called."""

    def __init__(self, noted: Noted, of_relation: Callable[[Tree, Sequence[str]], list[ColumnNames]]) -> None:
        self.noted, self.of_relation = noted, of_relation
        self.renamed: dict[int, dict[str, str]] = {}
        """By the identity of their items: what columns of joins are called now, by what they were called."""
        self._known: dict[int, list[ColumnNames]] = {}
        for tree, _ in list(noted.notes.items.values()):
            if tree.DESCRIPTOR.name == "JoinExpr":
                self._joined(tree)

    def _columns(self, node: Tree) -> list[ColumnNames]:
        kind = node.WhichOneof("node")
        tree = getattr(node, kind)
        if kind == "join_expr":
            return self._joined(tree)
        names = [column.name for column in self.noted.notes.items[id(tree)][1].columns]
        reference = tree.relation.range_var if kind == "range_table_sample" else tree
        if reference.DESCRIPTOR.name == "RangeVar":
            return self.of_relation(reference, names)
        return [(name, name) for name in names]

    def _joined(self, tree: Tree) -> list[ColumnNames]:
        if id(tree) in self._known:
            return self._known[id(tree)]
        using = self.noted.notes.joins[id(tree)][2]
        sides = [*self._columns(tree.larg), *self._columns(tree.rarg)]
        columns = [(name, name) for name in using] + [column for column in sides if column[0] not in using]
        if tree.HasField("alias"):
            columns = self._named(tree, columns)
        self._known[id(tree)] = columns
        return columns

    def _named(self, tree: Tree, columns: Sequence[ColumnNames]) -> list[ColumnNames]:
        """The columns of a join with a name, whose sides have `columns`; its list of names is put right."""
        item = self.noted.notes.items[id(tree)][1]
        own, listed = iter([column.name for column in item.columns]), len(tree.alias.colnames)
        found: list[ColumnNames] = []
        for old, new in columns:
            name = None if old is None else next(own)
            fixed = name is not None and sum(each is not None for each, _ in found) < listed
            found.append((name, name if fixed and new is not None else new))
        changes_places = any(None in column for column in found)
        if _are_apart(found) and not (listed and changes_places):
            self.renamed[id(item)] = {old: new for old, new in found if old is not None and new not in (None, old)}
            return found
        # What was there keeps its name, what is new gets one that nothing has.
        taken = {name for name, _ in found if name is not None}
        for place, (name, new) in enumerate(found):
            if new is not None:
                found[place] = (name, name if name is not None else _unlike(new, taken))
                taken.update(each for each in found[place] if each is not None)
        del tree.alias.colnames[:]
        names = [name for _, name in found if name is not None]
        if names != [new for _, new in columns if new is not None]:
            for name in names:
                tree.alias.colnames.add().string.sval = name
        return found


def _are_apart(columns: Sequence[ColumnNames]) -> bool:
    """Whether no column is called as another that was not before."""
    for place, (old, new) in enumerate(columns):
        if new is None or old == new:
            continue
        if any(other == new for index, (_, other) in enumerate(columns) if index != place):
            return False
    return True


def _unlike(name: str, taken: set[str]) -> str:
    return name if name not in taken else next(each for number in count(1) if (each := f"{name}_{number}") not in taken)
