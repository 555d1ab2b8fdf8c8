"""A view's query in the layout of PostgreSQL's pg_get_viewdef: a clause a line, a column a line.

Expressions are printed as they were written, by libpg_query; subqueries inside them stay on their line. For queries
that `definitions.shown` does not print.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from planner.definitions.deparse import expression_text, query_text
from planner.queries.column_names import column_name
from planner.syntax.identifiers import quote_identifier
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree, split_and_parse

ShownName: TypeAlias = Callable[[str, str], str]
"""How a relation's name is shown, from its schema and its name: qualified where the search path does not find it."""

_SET_WORDS = {pb.SETOP_UNION: "UNION", pb.SETOP_INTERSECT: "INTERSECT", pb.SETOP_EXCEPT: "EXCEPT"}
_JOIN_WORDS = {pb.JOIN_INNER: "JOIN", pb.JOIN_LEFT: "LEFT JOIN", pb.JOIN_RIGHT: "RIGHT JOIN", pb.JOIN_FULL: "FULL JOIN"}


def layout(definition: str, shown: ShownName, columns: Sequence[str] = ()) -> str:
    """The text of the query `definition`, which has been checked before, with line breaks; no semicolon. `columns` are
    the view's own names of its columns."""
    (parsed,) = split_and_parse(definition)
    first = parsed.tree
    while first.HasField("larg"):
        first = first.larg
    if len(first.target_list) == len(columns):
        for node, name in zip(first.target_list, columns, strict=True):
            node.res_target.name = name
    return _Layout(shown).query(parsed.tree, 0)


def _search(table: Tree) -> str:
    if not table.HasField("search_clause"):
        return ""
    clause = table.search_clause
    order = "BREADTH" if clause.search_breadth_first else "DEPTH"
    return f" SEARCH {order} FIRST BY {_names(clause.search_col_list)} SET {quote_identifier(clause.search_seq_column)}"


def _cycle(table: Tree) -> str:
    if not table.HasField("cycle_clause"):
        return ""
    clause = table.cycle_clause
    marks = tuple([_constant(mark) for mark in (clause.cycle_mark_value, clause.cycle_mark_default)])
    shown = "" if marks == ("true", "false") else f" TO {marks[0]} DEFAULT {marks[1]}"
    return (
        f" CYCLE {_names(clause.cycle_col_list)} SET {quote_identifier(clause.cycle_mark_column)}{shown} "
        f"USING {quote_identifier(clause.cycle_path_column)}"
    )


def _names(nodes: Sequence[Tree]) -> str:
    return ", ".join([quote_identifier(node.string.sval) for node in nodes])


def _constant(node: Tree) -> str:
    """A constant with its type, as PostgreSQL prints those of text."""
    text = expression_text(node)
    return f"{text}::text" if node.HasField("a_const") and node.a_const.HasField("sval") else text


class _Layout:
    def __init__(self, shown: ShownName) -> None:
        self.shown = shown

    def query(self, tree: Tree, indent: int) -> str:
        """A SELECT whose lines are `indent` blanks further right; the first one begins without them."""
        parts: list[str] = []
        if tree.HasField("with_clause"):
            parts.append(self._with(tree.with_clause, indent))
        if tree.op != pb.SETOP_NONE:
            parts.append(self._set_operation(tree, indent))
        elif tree.values_lists:
            rows = [",".join([expression_text(item) for item in row.list.items]) for row in tree.values_lists]
            parts.append(" VALUES " + ", ".join([f"({row})" for row in rows]))
        else:
            parts.append(self._select(tree, indent))
        margin = "\n" + " " * indent
        if tree.sort_clause:
            parts.append(f"{margin}  ORDER BY {', '.join([_sort(item.sort_by) for item in tree.sort_clause])}")
        parts.append(self._limit(tree, margin))
        parts.extend(_locking(locking, margin) for locking in tree.locking_clause)
        return "".join(parts)

    # ------------------------------------------------------------ clauses

    def _with(self, tree: Tree, indent: int) -> str:
        margin = " " * indent
        items: list[str] = []
        for node in tree.ctes:
            table = node.common_table_expr
            columns = ", ".join([quote_identifier(name.string.sval) for name in table.aliascolnames])
            word = {pb.CTEMaterializeAlways: "MATERIALIZED ", pb.CTEMaterializeNever: "NOT MATERIALIZED "}
            body = self.query(table.ctequery.select_stmt, indent + 8)
            items.append(
                f"{quote_identifier(table.ctename)}{f'({columns})' if columns else ''} AS "
                f"{word.get(table.ctematerialized, '')}(\n{margin}        {body}\n{margin}        )"
                f"{_search(table)}{_cycle(table)}"
            )
        return f" WITH {'RECURSIVE ' if tree.recursive else ''}{', '.join(items)}\n{margin}"

    def _set_operation(self, tree: Tree, indent: int) -> str:
        word = _SET_WORDS[tree.op] + (" ALL" if tree.all else "")
        margin = " " * indent
        return f"{self._side(tree.larg, tree, indent)}\n{margin}{word}\n{margin}{self._side(tree.rarg, tree, indent)}"

    def _side(self, side: Tree, parent: Tree, indent: int) -> str:
        """A side of a set operation, in parentheses where it would read differently without them."""
        own = bool(side.sort_clause) or side.HasField("limit_count") or side.HasField("limit_offset")
        same = side.op == pb.SETOP_NONE or (side.op, side.all) == (parent.op, parent.all)
        text = self.query(side, indent)
        return f"({text})" if own or side.HasField("with_clause") or not same else text

    def _select(self, tree: Tree, indent: int) -> str:
        margin = "\n" + " " * indent
        distinct = ""
        if tree.distinct_clause:
            keys = [expression_text(node) for node in tree.distinct_clause if node.WhichOneof("node") is not None]
            distinct = f"DISTINCT ON ({', '.join(keys)}) " if keys else "DISTINCT "
        targets = f",{margin}    ".join([_target(node.res_target) for node in tree.target_list])
        parts = [f" SELECT {distinct}{targets}".rstrip()]
        if tree.from_clause:
            items = [self._from_item(node, indent) for node in tree.from_clause]
            parts.append(f"{margin}   FROM " + f",{margin}    ".join(items))
        if tree.HasField("where_clause"):
            parts.append(f"{margin}  WHERE {expression_text(tree.where_clause)}")
        if tree.group_clause:
            parts.append(f"{margin}  GROUP BY {_after(tree, 'group_clause', 'GROUP BY ')}")
        if tree.HasField("having_clause"):
            parts.append(f"{margin} HAVING {expression_text(tree.having_clause)}")
        if tree.window_clause:
            parts.append(f"{margin}  WINDOW {_after(tree, 'window_clause', 'WINDOW ')}")
        return "".join(parts)

    def _limit(self, tree: Tree, margin: str) -> str:
        text = ""
        if tree.HasField("limit_offset"):
            text += f"{margin} OFFSET {expression_text(tree.limit_offset)}"
        if tree.HasField("limit_count"):
            count = expression_text(tree.limit_count)
            if tree.limit_option == pb.LIMIT_OPTION_WITH_TIES:
                text += f"{margin} FETCH FIRST {count} ROWS WITH TIES"
            else:
                text += f"{margin} LIMIT {'ALL' if count == 'NULL' else count}"
        return text

    # ------------------------------------------------------------ FROM

    def _from_item(self, node: Tree, indent: int) -> str:
        kind = node.WhichOneof("node")
        item = getattr(node, kind)
        if kind == "range_var":
            name = self.shown(item.schemaname, item.relname) if item.schemaname else quote_identifier(item.relname)
            own = item.alias.aliasname == item.relname and not item.alias.colnames
            return name if own else name + _alias(item)
        if kind == "range_table_sample":
            arguments = ", ".join([expression_text(arg) for arg in item.args])
            again = f" REPEATABLE ({expression_text(item.repeatable)})" if item.HasField("repeatable") else ""
            method = quote_identifier(item.method[-1].string.sval)
            return f"{self._from_item(item.relation, indent)} TABLESAMPLE {method} ({arguments}){again}"
        if kind == "range_subselect":
            lateral = "LATERAL " if item.lateral else ""
            return f"{lateral}({self.query(item.subquery.select_stmt, indent + 8)}){_alias(item)}"
        if kind == "join_expr":
            return self._join(item, indent)
        return _item_text(node)

    def _join(self, join: Tree, indent: int) -> str:
        left, right = self._from_item(join.larg, indent), self._from_item(join.rarg, indent)
        if join.rarg.HasField("join_expr") and not join.rarg.join_expr.HasField("alias"):
            right = f"({right})"
        word = _JOIN_WORDS[join.jointype]
        condition = ""
        if join.using_clause:
            names = ", ".join([quote_identifier(name.string.sval) for name in join.using_clause])
            condition = f" USING ({names})"
            if join.HasField("join_using_alias"):
                condition += f" AS {quote_identifier(join.join_using_alias.aliasname)}"
        elif join.HasField("quals"):
            condition = f" ON {expression_text(join.quals)}"
        else:
            word = "CROSS JOIN"
        text = f"{left}\n{' ' * indent}     {word} {right}{condition}"
        return f"({text}){_alias(join)}" if join.HasField("alias") else text


def _target(target: Tree) -> str:
    name = target.name or column_name(target.val)
    plain = target.val.HasField("column_ref") and column_name(target.val) == name
    text = expression_text(target.val)
    return text if plain else f"{text} AS {quote_identifier(name)}"


def _alias(item: Tree) -> str:
    if not item.HasField("alias"):
        return ""
    columns = ", ".join([quote_identifier(name.string.sval) for name in item.alias.colnames])
    return f" {quote_identifier(item.alias.aliasname)}{f'({columns})' if columns else ''}"


def _sort(item: Tree) -> str:
    text = expression_text(item.node)
    if item.sortby_dir == pb.SORTBY_DESC:
        text += " DESC"
    if item.sortby_nulls != pb.SORTBY_NULLS_DEFAULT:
        text += " NULLS FIRST" if item.sortby_nulls == pb.SORTBY_NULLS_FIRST else " NULLS LAST"
    return text


def _after(tree: Tree, clause: str, word: str) -> str:
    """A clause's text without its word, by printing a query that has nothing else."""
    node = pb.Node()
    select = node.select_stmt
    select.target_list.add().res_target.val.a_const.ival.ival = 1
    getattr(select, clause).extend(getattr(tree, clause))
    if clause == "group_clause":
        select.group_distinct = tree.group_distinct
    return query_text(node).split(word, 1)[1]


def _item_text(item: Tree) -> str:
    """An item of FROM without layout of its own: a function."""
    node = pb.Node()
    select = node.select_stmt
    select.target_list.add().res_target.val.a_const.ival.ival = 1
    select.from_clause.add().CopyFrom(item)
    return query_text(node).split(" FROM ", 1)[1].replace(") AS ", ") ", 1)


def _locking(item: Tree, margin: str) -> str:
    node = pb.Node()
    select = node.select_stmt
    select.target_list.add().res_target.val.a_const.ival.ival = 1
    select.locking_clause.add().CopyFrom(item)
    return f"{margin} {query_text(node).removeprefix('SELECT 1 ')}"
