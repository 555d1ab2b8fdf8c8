"""The relations and columns that a query names, to be called otherwise."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from planner.syntax.parse import Tree, subtrees


def named_relations(tree: Any, tables: frozenset[str] = frozenset()) -> Iterator[Tree]:
    """The RangeVars below `tree` that name relations, and none of the common tables, of which `tables` are in scope."""
    name = tree.DESCRIPTOR.name
    if name == "RangeVar":
        if tree.schemaname or tree.relname not in tables:
            yield tree
        return
    if name == "SelectStmt" and tree.HasField("with_clause"):
        inner = tables
        for cte in tree.with_clause.ctes:
            own = cte.common_table_expr.ctename
            within = inner | {own} if tree.with_clause.recursive else inner
            yield from named_relations(cte.common_table_expr.ctequery, within)
            inner = inner | {own}
        tables = inner
    for descriptor, value in tree.ListFields():
        if descriptor.message_type is not None and descriptor.name != "with_clause":
            for item in value if descriptor.is_repeated else [value]:
                yield from named_relations(item, tables)


def only_like(name: str, names: Iterable[str]) -> str | None:
    """Which of `names` is meant by one that is blind to case: itself, else the only one that is like it."""
    alike = {each for each in names if each.lower() == name.lower()}
    return name if name in alike else alike.pop() if len(alike) == 1 else None


def name_columns(tree: Any, columns: Collection[str]) -> None:
    """Writes names of columns below `tree` as the relations that it reads, which have these `columns`, do."""
    named = {
        node.name if node.DESCRIPTOR.name == "ResTarget" else node.aliasname
        for node in subtrees(tree)
        if node.DESCRIPTOR.name in ("ResTarget", "Alias")
    }
    known = named.union(
        name.string.sval for node in subtrees(tree) if node.DESCRIPTOR.name == "Alias" for name in node.colnames
    )
    for node in subtrees(tree):
        names: Iterable[Any] = ()
        if node.DESCRIPTOR.name == "ColumnRef":
            names = node.fields[-1:]
        elif node.DESCRIPTOR.name == "JoinExpr":
            names = node.using_clause
        for name in names:
            if name.HasField("string") and name.string.sval not in known:
                name.string.sval = only_like(name.string.sval, columns) or name.string.sval
