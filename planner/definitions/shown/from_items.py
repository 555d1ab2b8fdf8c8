"""FROM as text (ruleutils.c, get_from_clause_item)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from planner.calls.user_calls import UserRows
from planner.definitions.deparse import expression_text
from planner.definitions.expression_text import NotPrintable, ObjectNames
from planner.definitions.shown.names import ShownItem
from planner.definitions.shown.scalars import QueryScalars
from planner.definitions.views import NO_COMMON_COLUMN
from planner.ir import nodes as ir
from planner.ir import written as w
from planner.ir.rewrite import column_ids
from planner.queries.in_from.merged import MERGED
from planner.resolution.statement import Level, Statement
from planner.syntax.identifiers import quote_identifier
from planner.syntax.libpg_query import pb
from planner.syntax.names import strings
from planner.syntax.parse import Tree
from planner.types.signature import Kind
from planner.types.type_names import format_type

_JOIN_WORDS = {pb.JOIN_INNER: "JOIN", pb.JOIN_LEFT: "LEFT JOIN", pb.JOIN_RIGHT: "RIGHT JOIN", pb.JOIN_FULL: "FULL JOIN"}


class FromItems(QueryScalars):
    """Prints what stands in FROM."""

    def __init__(
        self, statement: Statement, relation: Callable[[str, str], str], *, pretty: bool, objects: ObjectNames | None
    ) -> None:
        super().__init__(statement, pretty=pretty, objects=objects)
        self.relation = relation

    @abstractmethod
    def query_of(self, rel: ir.Rel, *, names: Sequence[str] = (), visible: bool = True) -> str:
        """The text of the query that became `rel`, which calls its columns `names`, if these are given; `visible`: the
        names of its columns matter."""

    def row_type(self, schema: str, name: str) -> str:
        return self.relation(schema, name)

    def from_item(self, node: Tree) -> str:
        """An item of FROM."""
        kind = node.WhichOneof("node")
        tree = getattr(node, kind)
        if kind == "join_expr":
            return self._join(tree)
        shown = self.shown[id(self.notes.items[id(tree)][1])]
        if kind == "range_subselect":
            rel = shown.item.rel
            assert rel is not None
            lateral = "LATERAL " if tree.lateral else ""
            given = bool(tree.alias.colnames)
            return f"{lateral}({self.query_of(rel)}) {quote_identifier(shown.name)}{self._columns(shown, given)}"
        if kind == "range_function":
            return self._functions(tree, shown)
        if kind == "range_table_sample":
            plain = self._relation(tree.relation.range_var, shown)
            method = tree.method[len(tree.method) - 1].string.sval
            return f"{plain}{self._sample(tree, method)}"
        return self._relation(tree, shown)

    def _names(self, names: Sequence[str]) -> str:
        """Names of columns in parentheses, if there are any."""
        return f"({', '.join([quote_identifier(name) for name in names])})" if names else ""

    def _columns(self, shown: ShownItem, printed: bool) -> str:
        """The list of names of an item's columns, which is `printed` in any case where the names were changed."""
        own = [
            column.field.name if column.field is not None and shown.item.relation_oid else column.name
            for column in shown.item.columns
        ]
        changed = shown.columns != own
        return self._names(shown.columns) if printed or changed else ""

    def _relation(self, tree: Tree, shown: ShownItem) -> str:
        item = shown.item
        if item.relation_oid:
            name = self.relation(tree.schemaname, tree.relname)
            if name == quote_identifier(tree.relname) and self._is_hidden(tree.relname):
                name = f"{quote_identifier(tree.schemaname)}.{name}"
        else:
            name = quote_identifier(tree.relname)
        only = "" if tree.inh else "ONLY "
        columns = self._columns(shown, bool(tree.alias.colnames) and not item.relation_oid)
        alias = tree.HasField("alias") or columns or shown.name != tree.relname
        return f"{only}{name}{f' {quote_identifier(shown.name)}' if alias else ''}{columns}"

    def _is_hidden(self, name: str) -> bool:
        """Whether a common table in scope has the name."""
        level: Level | None = self.levels[-1]
        while level is not None:
            if name in level.ctes:
                return True
            level = level.parent
        return False

    def _sample(self, tree: Tree, method: str) -> str:
        arguments = ", ".join([expression_text(arg) for arg in tree.args])
        again = f" REPEATABLE ({expression_text(tree.repeatable)})" if tree.HasField("repeatable") else ""
        return f" TABLESAMPLE {quote_identifier(method)} ({arguments}){again}"

    # ------------------------------------------------------------ functions

    def _functions(self, tree: Tree, shown: ShownItem) -> str:
        found = self.notes.functions[id(tree)][1]
        lists: list[Sequence[Tree]] = []
        for node in tree.functions:
            items = node.list.items
            listed = items[1].list.items if len(items) > 1 and items[1].HasField("list") else ()
            # unnest() of several arrays is as many calls.
            args = len(items[0].func_call.args) if len(found) > len(tree.functions) else 1
            several = args if args > 1 and strings(items[0].func_call.funcname)[-1] == "unnest" else 1
            lists += [listed] * several
        own_list = tree.coldeflist or (lists[0] if len(tree.functions) == 1 else ())
        unnests = len(found) > 1 and all(
            isinstance(each, ir.FunctionCall) and each.signature.name == "unnest" for each in found
        )
        if len(found) == 1 and not (own_list and tree.ordinality):
            text = self._call(found[0])
        elif unnests:
            text = f"UNNEST({', '.join([self._listed(each.args) for each in found])})"
        else:
            calls = [
                self._call(each) + (f" AS {self._definitions(listed)}" if listed else "")
                for each, listed in zip(found, lists, strict=True)
            ]
            text = f"ROWS FROM({', '.join(calls)})"
        if tree.ordinality:
            text += " WITH ORDINALITY"
        columns = self._definitions(own_list) if own_list and not tree.ordinality else self._names(shown.columns)
        lateral = "LATERAL " if tree.lateral or self._reads_beside(found) else ""
        return f"{lateral}{text} {quote_identifier(shown.name)}{columns}"

    def _reads_beside(self, found: Sequence[Any]) -> bool:
        """Whether functions read columns of the FROM that they stand in."""
        parts = tuple([_arguments(each) for each in found])
        return any(self.statement.owner.get(id) is self.levels[-1] for id in column_ids(parts))

    def _definitions(self, nodes: Sequence[Tree]) -> str:
        columns = []
        for node in nodes:
            type = self.statement.type_named(node.column_def.type_name)
            shown = format_type(type.declared_oid, type.declared_typmod)
            columns.append(f"{quote_identifier(node.column_def.colname)} {shown}")
        return f"({', '.join(columns)})"

    def _call(self, found: Any) -> str:
        if isinstance(found, ir.FunctionCall):
            return self.expr(found, implicit=True)
        if isinstance(found, UserRows):
            if found.written is None:
                raise NotPrintable
            return self.expr(found.written, implicit=True)
        _, scalar = found
        if self._looks_like_call(scalar):
            return self.expr(scalar, implicit=True)
        type = format_type(scalar.type.declared_oid, scalar.type.declared_typmod)
        return f"CAST({self.expr(scalar, implicit=False)} AS {type})"

    def _looks_like_call(self, scalar: ir.Scalar) -> bool:
        """Whether the grammar takes what is printed for a call (looks_like_function)."""
        form = self.form(scalar)
        if isinstance(form, ir.Call):
            return form.signature.kind is not Kind.OPERATOR
        return isinstance(form, (w.FunctionCall, w.KeyWord, w.NullIf, ir.Coalesce, ir.MinMax))

    # ------------------------------------------------------------ joins

    def _join(self, tree: Tree) -> str:
        named = tree.HasField("alias")
        _, condition, using = self.notes.joins[id(tree)]
        word = _JOIN_WORDS[tree.jointype]
        if tree.jointype == pb.JOIN_INNER and condition is None:
            word = "CROSS JOIN"
        left = self.from_item(tree.larg)
        line = "\0" + " " * (max(self.indent - 8, 0) + 4)
        right = self.from_item(tree.rarg)
        joined = tree.rarg.HasField("join_expr") and not tree.rarg.join_expr.HasField("alias")
        if joined and self.pretty:
            right = f"({right})"
        text = f"{left}{line} {word} {right}"
        if using:
            text += f" USING {self._names(self.using.get(id(tree), using))}"
            if tree.HasField("join_using_alias") and not tree.join_using_alias.aliasname.startswith(MERGED):
                text += f" AS {quote_identifier(tree.join_using_alias.aliasname)}"
        elif condition is not None and expression_text(tree.quals) != NO_COMMON_COLUMN:
            on = self.expr(condition, implicit=False)
            text += f" ON {on}" if self.pretty else f" ON ({on})"
        elif tree.jointype != pb.JOIN_INNER:
            text += " ON TRUE"
        if named or not self.pretty:
            text = f"({text})"
        if not named:
            return text
        shown = self.shown[id(self.notes.items[id(tree)][1])]
        columns = self._columns(shown, bool(tree.alias.colnames))
        return f"{text} {quote_identifier(shown.name)}{columns}"


def _arguments(found: Any) -> Any:
    if isinstance(found, UserRows):
        return () if found.written is None else found.written.args
    return found.args if isinstance(found, ir.FunctionCall) else found[1]
