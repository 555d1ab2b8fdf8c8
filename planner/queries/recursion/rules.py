"""What WITH RECURSIVE may look like: PostgreSQL's rules on where a common table may refer to itself
(checkWellFormedRecursion in its parse_cte.c), checked on the parse tree before anything of it is bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from planner.errors import FeatureNotSupported, InvalidRecursion
from planner.resolution.statement import Statement
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree, subtrees, tree_location

_ALLOWED = ""
_NULLED_SIDES = {pb.JOIN_LEFT: ("rarg",), pb.JOIN_RIGHT: ("larg",), pb.JOIN_FULL: ("larg", "rarg")}


def refers_to_itself(cte: Tree) -> bool:
    """Whether the query of a common table names the table itself."""
    return any(True for _ in _references(cte.ctequery, cte.ctename, _ALLOWED, frozenset()))


def in_dependency_order(statement: Statement, ctes: list[Any]) -> list[Any]:
    """WITH RECURSIVE allows forward references: those that need nothing unbound come first. Raises 0A000 for tables
    that need each other."""
    names = [cte.ctename for cte in ctes]
    needs = {cte.ctename: _named(cte.ctequery, names) - {cte.ctename} for cte in ctes}
    done: list[Any] = []
    waiting = list(ctes)
    while waiting:
        bound = {cte.ctename for cte in done}
        ready = next((cte for cte in waiting if not needs[cte.ctename] - bound), None)
        if ready is None:
            raise FeatureNotSupported(
                "mutual recursion between WITH items is not implemented",
                position=statement.position(waiting[0].location),
            )
        done.append(ready)
        waiting.remove(ready)
    return done


def check_recursion(statement: Statement, tree: Tree) -> None:
    """Raises 42P19 for a recursive common table of another form than `term UNION [ALL] term`, and for one that refers
    to itself where its rows so far cannot stand; 0A000 for ORDER BY, LIMIT, OFFSET and locks of the whole UNION."""
    select, name = tree.ctequery.select_stmt, tree.ctename
    if select.op != pb.SETOP_UNION:
        raise InvalidRecursion(
            f'recursive query "{name}" does not have the form non-recursive-term UNION [ALL] recursive-term',
            position=statement.position(tree.location),
        )
    found = 0
    for reference, place in _of_union(select, name):
        found += place == _ALLOWED
        if place != _ALLOWED or found > 1:
            raise InvalidRecursion(
                f'recursive reference to query "{name}" must not appear {place or "more than once"}',
                position=statement.position(reference.location),
            )
    for clause, nodes in (
        ("ORDER BY", [item.sort_by.node for item in select.sort_clause]),
        ("OFFSET", [select.limit_offset] if select.HasField("limit_offset") else []),
        ("LIMIT", [select.limit_count] if select.HasField("limit_count") else []),
    ):
        if nodes:
            raise FeatureNotSupported(
                f"{clause} in a recursive query is not implemented",
                position=statement.position(min(tree_location(node) for node in nodes)),
            )
    if select.locking_clause:
        raise FeatureNotSupported("FOR UPDATE/SHARE in a recursive query is not implemented")


def _of_union(select: Tree, name: str) -> Iterator[tuple[Tree, str]]:
    """The references that the two terms of a UNION and its WITH make to `name`, each with the place that forbids it."""
    yield from _references(select.larg, name, "within its non-recursive term", frozenset())
    yield from _references(select.rarg, name, _ALLOWED, frozenset())
    if select.HasField("with_clause"):
        yield from _all(select.with_clause.ctes, name, "within a subquery", frozenset())


def _all(nodes: Iterable[Tree], name: str, place: str, hidden: frozenset[str]) -> Iterator[tuple[Tree, str]]:
    for node in nodes:
        yield from _references(node, name, place, hidden)


def _references(node: Tree, name: str, place: str, hidden: frozenset[str]) -> Iterator[tuple[Tree, str]]:
    """The references to the common table `name` in a parse tree, from left to right, each with where it stands if that
    is forbidden. `hidden` are the names that tables of inner WITH clauses have taken."""
    kind = node.DESCRIPTOR.name
    if kind == "RangeVar":
        if node.relname == name and not node.schemaname and name not in hidden:
            yield node, place
    elif kind == "SelectStmt":
        yield from _of_select(node, name, place, hidden)
    elif kind == "JoinExpr" and node.jointype in _NULLED_SIDES:
        nulled = _NULLED_SIDES[node.jointype]
        for side in ("larg", "rarg"):
            yield from _references(
                getattr(node, side), name, place or "within an outer join" if side in nulled else place, hidden
            )
        yield from _references(node.quals, name, place, hidden)
    elif kind == "SubLink":
        yield from _references(node.subselect, name, place or "within a subquery", hidden)
        yield from _references(node.testexpr, name, place, hidden)
    else:
        yield from _all(_children(node), name, place, hidden)


def _of_select(select: Tree, name: str, place: str, hidden: frozenset[str]) -> Iterator[tuple[Tree, str]]:
    if select.HasField("with_clause"):
        tables = select.with_clause.ctes
        names = [node.common_table_expr.ctename for node in tables]
        for index, table in enumerate(tables):
            seen = names if select.with_clause.recursive else names[:index]
            yield from _references(table, name, place, hidden | frozenset(seen))
        hidden = hidden | frozenset(names)
    left = right = place
    if select.op == pb.SETOP_INTERSECT and select.all:
        left = right = place or "within INTERSECT"
    elif select.op == pb.SETOP_EXCEPT:
        left, right = place or ("within EXCEPT" if select.all else _ALLOWED), place or "within EXCEPT"
    for descriptor, value in select.ListFields():
        if descriptor.message_type is None or descriptor.name == "with_clause":
            continue
        if descriptor.name in ("larg", "rarg"):
            yield from _references(value, name, left if descriptor.name == "larg" else right, hidden)
        else:
            yield from _all(value if descriptor.is_repeated else (value,), name, place, hidden)


def _children(node: Tree) -> Iterator[Tree]:
    for descriptor, value in node.ListFields():
        if descriptor.message_type is not None:
            yield from value if descriptor.is_repeated else (value,)


def _named(node: Tree, names: Sequence[str]) -> set[str]:
    """Which of `names` a parse tree refers to."""
    plain = {tree.relname for tree in subtrees(node) if tree.DESCRIPTOR.name == "RangeVar" and not tree.schemaname}
    return {
        name for name in names
        if name in plain and any(True for _ in _references(node, name, _ALLOWED, frozenset()))
    }  # fmt: skip
