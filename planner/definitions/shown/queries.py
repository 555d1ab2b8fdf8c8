"""A view's query as text, in the form of ruleutils.c (get_query_def): a clause a line, a column a line, every column
qualified.

What is printed is what the stored text is bound as. Line breaks are marked in the texts of parts (`_line`), because
what stands before them loses its blanks when the whole is put together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

from planner.definitions.expression_text import NotPrintable, ObjectNames, with_lines
from planner.definitions.shown.from_items import FromItems
from planner.definitions.shown.names import ShownItem, items_of, unique_name, using_names
from planner.ir import nodes as ir
from planner.ir import written as w
from planner.ir.bound import WithStep
from planner.queries.common_tables import WithQuery
from planner.queries.grammar import new_statement
from planner.queries.query_tail import QueryTail
from planner.queries.relations import bind_in_view, parse_view
from planner.queries.select import SelectQuery
from planner.queries.set_operations import SetQuery
from planner.queries.values import ValuesQuery
from planner.resolution.query import bind_query
from planner.resolution.statement import Analyzed, BindContext, Level, NsItem, QueryNotes, Statement
from planner.syntax.identifiers import quote_identifier
from planner.syntax.libpg_query import pb
from planner.syntax.names import strings
from planner.syntax.parse import Tree

ShownName: TypeAlias = Callable[[str, str], str]
"""How a relation's name is shown, from its schema and its name: qualified where the search path does not find it."""

_IN_LAYOUT = re.compile(r"""('(?:[^']|'')*'|"(?:[^"]|"")*")|\( *\0 *|\( (?=SELECT|VALUES|WITH)| *\0 *| {2,}""")
"""What is quoted, and what lays out a query otherwise."""
STEP = 8
UNNAMED = "?column?"
_LOCKS = {
    pb.LCS_FORKEYSHARE: " FOR KEY SHARE",
    pb.LCS_FORSHARE: " FOR SHARE",
    pb.LCS_FORNOKEYUPDATE: " FOR NO KEY UPDATE",
    pb.LCS_FORUPDATE: " FOR UPDATE",
}
_WAITS = {pb.LockWaitError: " NOWAIT", pb.LockWaitSkip: " SKIP LOCKED"}
_SET_WORDS = {pb.SETOP_UNION: "UNION", pb.SETOP_INTERSECT: "INTERSECT", pb.SETOP_EXCEPT: "EXCEPT"}
_GROUPING_SETS = {
    pb.GROUPING_SET_ROLLUP: "ROLLUP(",
    pb.GROUPING_SET_CUBE: "CUBE(",
    pb.GROUPING_SET_SETS: "GROUPING SETS (",
}


def query_shown(
    definition: str,
    context: BindContext,
    shown: ShownName,
    columns: Sequence[str],
    *,
    pretty: bool = False,
    wrap: int = 0,
    objects: ObjectNames | None = None,
) -> str:
    """The text of the stored query `definition`, without a semicolon. `columns` are the view's own names of its
    columns; `wrap` how long a line may be before the next column begins another (below 0: any length). Raises
    NotPrintable."""
    parsed = parse_view(definition)
    statement = new_statement(parsed, context)
    statement.written, statement.notes, statement.outlined = {}, QueryNotes(), True

    def printed(level: Level) -> str:
        rel = bind_query(level, parsed.tree)
        printer = Queries(statement, shown, pretty=pretty, wrap=wrap, objects=objects)
        return printer.query_of(rel, names=columns)

    text: str = bind_in_view(statement, printed, parsed)
    return with_lines(text)


class Queries(FromItems):
    """Prints queries."""

    def __init__(
        self, statement: Statement, shown: ShownName, *, pretty: bool, wrap: int, objects: ObjectNames | None
    ) -> None:
        super().__init__(statement, shown, pretty=pretty, objects=objects)
        self.wrap = wrap
        self.taken: list[set[str]] = [{"old", "new"}]
        """The names of the items of each query that is being printed; those of a view's own rows are the first."""

        self.set_operations = 0
        """How many set operations enclose what is being printed: their terms are items of FROM to PostgreSQL."""

    # ------------------------------------------------------------ queries

    def has_items(self) -> bool:
        return self.set_operations > 0 or any(self.taken[1:])

    def subquery(self, rel: ir.Rel) -> str:
        return self.query_of(rel, visible=False)

    def value_of(self, rel: ir.Rel) -> str:
        """The one column of a query without FROM, in one line."""
        query, _ = self._noted(rel)
        if not isinstance(query, SelectQuery):
            raise NotPrintable
        self.levels.append(query.level)
        text = self.expr(query.targets[0].expr, implicit=False)
        self.levels.pop()
        # PostgreSQL has a subquery on the same line.
        return _IN_LAYOUT.sub(lambda found: found[1] or ("(" if found[0].startswith("(") else " "), text).strip()

    def returned(self, rel: ir.Rel) -> str:
        """RETURN, of a query of its value."""
        return self.query_of(rel, names=[UNNAMED], visible=False).replace(" SELECT", " RETURN", 1)

    def query_of(self, rel: ir.Rel, *, names: Sequence[str] = (), visible: bool = True) -> str:
        analyzed, tree = self._noted(rel)
        return self.query(analyzed, tree, names, visible=visible)

    def _noted(self, rel: ir.Rel) -> tuple[Analyzed, Tree]:
        found: Any = rel
        while id(found) not in self.notes.queries:
            if not isinstance(found, (ir.Project, ir.Filter)):
                raise NotPrintable
            found = found.input
        _, analyzed, tree = self.notes.queries[id(found)]
        return analyzed, tree

    def query(self, analyzed: Analyzed, tree: Tree, names: Sequence[str] = (), *, visible: bool = True) -> str:
        """A query; `visible`: the names of its columns matter."""
        outer, self.taken = self.taken, [*self.taken, set()]
        indent = self.indent
        body = analyzed.body if isinstance(analyzed, WithQuery) else analyzed
        self.levels.append(body.level)
        try:
            self.name_items(tree.from_clause)
            text = self.with_clause(tree)
            return text + self._body(body, tree, names, visible=visible)
        finally:
            self.levels.pop()
            self.taken, self.indent = outer, indent

    def _body(self, body: Analyzed, tree: Tree, names: Sequence[str], *, visible: bool) -> str:
        tail: SelectQuery | QueryTail
        order: list[str]
        if isinstance(body, SelectQuery):
            text, tail = self._select(body, tree, names, visible=visible), body
            order = self._order(body)
        elif isinstance(body, ValuesQuery):
            name = quote_identifier(self.new_name("*VALUES*"))
            text, tail = self._values(body, names, name), body.tail
            columns = [f"{name}.{quote_identifier(column)}" for column in body.names]
            order = [f"{columns[index]}{self.direction(*how)}" for index, *how in tail.order]
        else:
            assert isinstance(body, SetQuery)
            self.set_operations += 1
            text, tail = self._set_operation(body.root, tree, names, visible=visible), body.tail
            self.set_operations -= 1
            order = [f"{index + 1}{self.direction(*how)}" for index, *how in body.tail.order]
        if order:
            text += f"{self.line(1)} ORDER BY {', '.join(order)}"
        if tail.offset is not None:
            text += f"{self.line(0)} OFFSET {self.expr(tail.offset, implicit=False)}"
        if tail.ties and tail.count is not None:
            text += f"{self.line(0)} FETCH FIRST ({self.expr(tail.count, implicit=False)}) ROWS WITH TIES"
        elif tail.count is not None:
            text += f"{self.line(0)} LIMIT {self.expr(tail.count, implicit=False)}"
        elif tree.HasField("limit_count"):
            text += f"{self.line(0)} LIMIT ALL"
        return text + "".join([self._lock(node.locking_clause, tree) for node in tree.locking_clause])

    def _order(self, query: SelectQuery) -> list[str]:
        """The items of ORDER BY: a record, which is sorted by its fields, is one."""
        items: list[str] = []
        last: ir.Scalar | None = None
        for item in query.order:
            if item.whole is None or item.whole is not last:
                expr = query.targets[item.index].expr if item.whole is None else item.whole
                items.append(self.sort_item(expr, item.descending, item.nulls_first))
            last = item.whole
        return items

    def line(self, further: int) -> str:
        """The break before a clause, which stands `further` blanks in from the query."""
        return "\0" + " " * (max(self.indent - STEP, 0) + further)

    def name_items(self, from_clause: Sequence[Tree]) -> None:
        found = using_names(from_clause, self.notes)
        of_joins, of_fields, taken = found if found is not None else ({}, {}, set[str]())
        self.using.update(of_joins)
        for tree, item in items_of(from_clause, self.notes):
            # Those of a join with a name are nobody else's.
            apart = set[str]() if tree.DESCRIPTOR.name == "JoinExpr" else taken
            self.call_item(item, self.new_name(item.alias or ""), of_fields, apart)

    def new_name(self, wanted: str) -> str:
        """What an item of the query is called that is `wanted` to have that name."""
        name = unique_name(wanted, {name for names in self.taken for name in names})
        self.taken[-1].add(name)
        return name

    def call_item(
        self, item: NsItem, name: str, merged: Mapping[int, str] | None = None, taken: Collection[str] = ()
    ) -> None:
        shown = self.shown[id(item)] = ShownItem(item, name, merged, taken)
        for place, column in enumerate(item.columns):
            if column.field is not None:
                self.fields[column.field.id] = (shown, place)

    def _lock(self, tree: Tree, select: Tree) -> str:
        named = {node.range_var.relname for node in tree.locked_rels}
        text = ""
        for range_tree, item in items_of(select.from_clause, self.notes):
            if item.joined or range_tree.DESCRIPTOR.name not in ("RangeVar", "RangeSubselect"):
                continue
            if not named or item.alias in named:
                text += f"{self.line(0)}{_LOCKS[tree.strength]} OF {quote_identifier(self.shown[id(item)].name)}"
                text += _WAITS.get(tree.wait_policy, "")
        return text

    # ------------------------------------------------------------ WITH

    def with_clause(self, tree: Tree) -> str:
        if not tree.HasField("with_clause"):
            return ""
        self.indent += STEP
        trees = {node.common_table_expr.ctename: node.common_table_expr for node in tree.with_clause.ctes}
        _, tables = self.notes.tables[id(tree.with_clause)]
        items = [self._common_table(table, trees[table.name]) for table in tables]
        self.indent -= STEP
        recursive = "RECURSIVE " if tree.with_clause.recursive else ""
        return f" WITH {recursive}{', '.join(items)}\0{' ' * self.indent}"

    def _common_table(self, table: ir.CommonTable | WithStep, tree: Tree) -> str:
        columns = self._names(strings(tree.aliascolnames))
        word = {pb.CTEMaterializeAlways: "MATERIALIZED ", pb.CTEMaterializeNever: "NOT MATERIALIZED "}
        line = "\0" + " " * self.indent
        searched = self.notes.searched.get(id(tree))
        if isinstance(table, WithStep):
            body = self.change(tree.ctequery)
        elif searched is not None:
            body = self._recursive(searched.base, searched.step, tree.ctequery.select_stmt)
        elif table.step is not None:
            body = self._recursive(table.rel, self._noted(table.step)[0], tree.ctequery.select_stmt)
        else:
            body = self.query_of(table.rel)
        return (
            f"{quote_identifier(table.name)}{columns} AS {word.get(tree.ctematerialized, '')}({line}{body}{line})"
            f"{self._search(tree)}{self._cycle(tree)}"
        )

    def change(self, node: Tree, *, visible: bool = True) -> str:
        """A statement that changes rows; `visible`: the names of what it returns matter."""
        raise NotPrintable

    def _search(self, tree: Tree) -> str:
        if not tree.HasField("search_clause"):
            return ""
        clause = tree.search_clause
        order = "BREADTH" if clause.search_breadth_first else "DEPTH"
        by = ", ".join(map(quote_identifier, strings(clause.search_col_list)))
        return f" SEARCH {order} FIRST BY {by} SET {quote_identifier(clause.search_seq_column)}"

    def _cycle(self, tree: Tree) -> str:
        if not tree.HasField("cycle_clause"):
            return ""
        clause = tree.cycle_clause
        marks = [self.expr(mark, implicit=False) for mark in self.notes.searched[id(tree)].marks]
        shown = "" if marks == ["true", "false"] else f" TO {marks[0]} DEFAULT {marks[1]}"
        of = ", ".join(map(quote_identifier, strings(clause.cycle_col_list)))
        return (
            f" CYCLE {of} SET {quote_identifier(clause.cycle_mark_column)}{shown} "
            f"USING {quote_identifier(clause.cycle_path_column)}"
        )

    def _recursive(self, base: ir.Rel, step: Analyzed, tree: Tree) -> str:
        outer, self.taken = self.taken, [*self.taken, set()]
        inside = self.with_clause(tree)
        left = self._side_in_parentheses(tree.larg, self.query_of(base))
        line = "\0" + " " * self.indent
        right = self._side_in_parentheses(tree.rarg, self.query(step, tree.rarg, visible=False))
        self.taken = outer
        return f"{inside}{left}{line}UNION{' ALL' if tree.all else ''}{line}{right}"

    # ------------------------------------------------------------ set operations

    def _set_operation(self, node: Any, tree: Tree, names: Sequence[str], *, visible: bool) -> str:
        nested = _is_set_node(node.left) and (tree.larg.op, tree.larg.all) != (tree.op, tree.all)
        text = ""
        if nested:
            self.indent += STEP
            text += "(\0" + " " * self.indent
        text += self._side(node.left, tree.larg, names, visible=visible)
        if nested:
            self.indent -= STEP
        text += "\0" + " " * self.indent + (") " if nested else "")
        text += _SET_WORDS[tree.op] + (" ALL " if tree.all else " ")
        nested = _is_set_node(node.right)
        if nested:
            self.indent += STEP
            text += "("
        text += "\0" + " " * self.indent + self._side(node.right, tree.rarg, names, visible=False)
        if nested:
            self.indent -= STEP
            text += "\0" + " " * self.indent + ")"
        return text

    def _side(self, analyzed: Any, tree: Tree, names: Sequence[str], *, visible: bool) -> str:
        if _is_set_node(analyzed):
            return self._set_operation(analyzed, tree, names, visible=visible)
        return self._side_in_parentheses(tree, self.query(analyzed, tree, names, visible=visible))

    def _side_in_parentheses(self, tree: Tree, text: str) -> str:
        alone = not (
            tree.op != pb.SETOP_NONE
            or tree.sort_clause
            or tree.locking_clause
            or tree.HasField("with_clause")
            or tree.HasField("limit_count")
            or tree.HasField("limit_offset")
        )
        return text if alone else f"({text})"

    # ------------------------------------------------------------ VALUES

    def _values(self, query: ValuesQuery, names: Sequence[str], table: str) -> str:
        self.indent += STEP
        rows = [
            f"({','.join([self.item(item, implicit=False) for item in row])})"
            for row in zip(*query.columns, strict=True)
        ]
        values = f"VALUES {', '.join(rows)}"
        if not names or list(names) == query.names:
            return f" {values}"
        targets = [
            f"{table}.{quote_identifier(own)}" + ("" if own == name else f" AS {quote_identifier(name)}")
            for own, name in zip(query.names, names, strict=True)
        ]
        return f" SELECT {self.wrapped(targets, ' SELECT ')}{self.line(2)} FROM ({values}) {table}"

    # ------------------------------------------------------------ SELECT

    def _select(self, query: SelectQuery, tree: Tree, names: Sequence[str], *, visible: bool) -> str:
        self.indent += STEP
        text = " SELECT"
        if query.distinct and query.distinct_on:
            keys = [self.list_item(query.targets[index].expr) for index in query.distinct_on]
            text += f" DISTINCT ON ({', '.join(keys)})"
        elif query.distinct:
            text += " DISTINCT"
        visible_targets = [target for target in query.targets if not target.junk]
        targets = [
            self.target(target.expr, names[place] if place < len(names) else target.name, visible=visible)
            for place, target in enumerate(visible_targets)
        ]
        if targets:
            text += " "
            text += self.wrapped(targets, text)
        text += self.from_clause(tree.from_clause) + self.where(query.where)
        if tree.group_clause:
            groups = [self._group(query, node) for node in tree.group_clause]
            text += f"{self.line(1)} GROUP BY {'DISTINCT ' if tree.group_distinct else ''}{', '.join(groups)}"
        if query.having is not None:
            text += f"{self.line(0)} HAVING {self.expr(query.having, implicit=False)}"
        if tree.window_clause:
            definitions = query.level.window_definitions
            windows = [
                f"{quote_identifier(name)} AS {self.window(definition)}" for name, definition in definitions.items()
            ]
            text += f"{self.line(1)} WINDOW {', '.join(windows)}"
        return text

    def from_clause(self, from_clause: Sequence[Tree], word: str = "FROM") -> str:
        if not from_clause:
            return ""
        text = f"{self.line(2)} {word} "
        return text + self.wrapped([self.from_item(node) for node in from_clause], text, apart=False)

    def where(self, condition: ir.Scalar | None) -> str:
        return "" if condition is None else f"{self.line(1)} WHERE {self.expr(condition, implicit=False)}"

    def wrapped(self, items: Sequence[str], before: str = "", *, apart: bool = True) -> str:
        """Items of a list, each on a line of its own, or as many on one as `wrap` allows, after `before`; `apart`: one
        of several lines is the last of its line."""
        text, multiline = "", False
        for place, item in enumerate(items):
            begins_line = item.startswith("\0")
            if place:
                text += ", "
                line = len((before + text).rsplit("\0", 1)[-1])
                if self.wrap >= 0 and not begins_line and (line + len(item) > self.wrap or (apart and multiline)):
                    text += self.line(4)
            text += item
            multiline = "\0" in item[1:]
        return text

    def target(self, expr: ir.Scalar, name: str, *, visible: bool) -> str:
        own: str | None = None if visible else UNNAMED
        form = self.form(expr)
        if isinstance(form, w.WholeRow):
            text, own = self.row_in_list(form), None
        elif self.is_column(expr):
            text, own = self.expr(expr, implicit=True), self.column_name(expr)
        else:
            text = self.expr(expr, implicit=True)
        return text if own == name else f"{text} AS {quote_identifier(name)}"

    def _group(self, query: SelectQuery, node: Tree, *, enclosed: bool = False) -> str:
        if node.HasField("grouping_set"):
            tree = node.grouping_set
            if tree.kind == pb.GROUPING_SET_EMPTY:
                return "()"
            # What a set of GROUPING SETS is stands in parentheses.
            listed = tree.kind == pb.GROUPING_SET_SETS
            inner = [self._group(query, item, enclosed=listed) for item in tree.content]
            return f"{_GROUPING_SETS[tree.kind]}{', '.join(inner)})"
        if node.HasField("row_expr") and node.row_expr.row_format == pb.COERCE_IMPLICIT_CAST:
            items = [self._group(query, item) for item in node.row_expr.args]
            return f"({', '.join(items)})"
        index = query.find_target(node, "GROUP BY")
        text = self.list_item(query.targets[index].expr)
        return f"({text})" if enclosed else text


def _is_set_node(analyzed: Any) -> bool:
    """Whether a side of a set operation is another one, without clauses of its own."""
    return hasattr(analyzed, "operation")
