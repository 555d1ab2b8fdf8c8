"""Statements in bodies of functions as text: besides queries also INSERT, UPDATE, DELETE and MERGE, in the form of
ruleutils.c (get_insert_query_def and its neighbours)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from planner.definitions.columns.noted import given_columns
from planner.definitions.expression_text import NotPrintable, ObjectNames, with_lines
from planner.definitions.shown.queries import STEP, Queries, ShownName
from planner.ir import nodes as ir
from planner.queries.changes.changes import CHANGES, bind_change
from planner.queries.grammar import new_statement
from planner.queries.select import SelectQuery
from planner.resolution.query import bind_query
from planner.resolution.statement import Analyzed, Assigned, BindContext, ChangeNotes, Level, QueryNotes, WithChanges
from planner.syntax.identifiers import quote_identifier
from planner.syntax.libpg_query import pb
from planner.syntax.names import strings
from planner.syntax.parse import Parsed, Tree
from planner.types.operator_classes import is_default_class, named_operator_class

_OVERRIDING = {
    pb.OVERRIDING_SYSTEM_VALUE: "OVERRIDING SYSTEM VALUE",
    pb.OVERRIDING_USER_VALUE: "OVERRIDING USER VALUE",
}


def body_statement_shown(
    parsed: Parsed,
    context: BindContext,
    shown: ShownName,
    *,
    is_return: bool = False,
    returned: bool = False,
    objects: ObjectNames | None = None,
) -> str:
    """The text of a statement in the body of a function, without a semicolon; `returned`: of a RETURN, which was bound
    as a SELECT. With `is_return` only of the value that it gives, for a body that is nothing else. `context` has the
    function's arguments, as parameters. Binding writes into `parsed`. Raises NotPrintable."""
    if context.arguments is None:
        raise NotPrintable
    statement = new_statement(parsed, context)
    statement.written, statement.notes, statement.outlined = {}, QueryNotes(), True
    statement.required.stored = True
    statement.with_changes = WithChanges(bind=bind_change)
    level = Level(statement, None)
    rel: ir.Rel | None = None
    if parsed.kind == "select_stmt":
        rel = bind_query(level, parsed.tree)
    elif parsed.kind in CHANGES:
        CHANGES[parsed.kind](level, parsed.tree)
    else:
        raise NotPrintable
    printer = _Changes(statement, shown, pretty=False, wrap=0, objects=objects)
    printer.function, printer.parameters = context.arguments.function, context.arguments.names
    if rel is None:
        return with_lines(printer.change_of(parsed.kind, parsed.tree, visible=False))
    if is_return:
        return printer.value_of(rel)
    return with_lines(printer.returned(rel) if returned else printer.query_of(rel, visible=False))


class _Changes(Queries):
    def change(self, node: Tree, *, visible: bool = True) -> str:
        kind = node.WhichOneof("node")
        return self.change_of(kind, getattr(node, kind), visible=visible)

    def change_of(self, kind: str, tree: Tree, *, visible: bool) -> str:
        """A statement of this kind that changes rows; `visible`: the names of what it returns matter."""
        noted = self.notes.change(tree)
        method = _METHODS.get(kind)
        if noted.level is None or method is None:
            raise NotPrintable
        outer, self.taken = self.taken, [*self.taken, set()]
        indent = self.indent
        self.levels.append(noted.level)
        try:
            name = self.new_name(_alias(tree.relation) or tree.relation.relname)
            self._call_items(noted, name)
            text = method(self, tree, noted, name)
            return text + self._returning(tree, noted, name, visible=visible)
        finally:
            self.levels.pop()
            self.taken, self.indent = outer, indent

    def _call_items(self, noted: ChangeNotes, name: str) -> None:
        for item in noted.items:
            self.call_item(item, name)

    def _table(self, tree: Tree, name: str, word: str = "") -> str:
        """The table that is changed: its name, and what else it is called, after `word`."""
        only = "" if tree.inh else "ONLY "
        alias = _alias(tree) is not None or name != tree.relname
        return f"{only}{self.relation(tree.schemaname, tree.relname)}" + (
            f" {word}{quote_identifier(name)}" if alias else ""
        )

    def _returning(self, tree: Tree, noted: ChangeNotes, name: str, *, visible: bool) -> str:
        if noted.returning is None:
            return ""
        level, targets = noted.returning
        self._call_items(self.notes.change(tree.returning_clause), name)
        self.levels.append(level)
        shown = [self.target(expr, called, visible=visible) for called, expr in targets]
        self.levels.pop()
        return f"{self.line(1)} RETURNING {self.wrapped(shown)}"

    # ------------------------------------------------------------ DELETE, UPDATE

    def _delete(self, tree: Tree, noted: ChangeNotes, name: str) -> str:
        self.name_items(tree.using_clause)
        text = self.with_clause(tree)
        self.indent += STEP
        text += f" DELETE FROM {self._table(tree.relation, name)}"
        return text + self.from_clause(tree.using_clause, "USING") + self.where(noted.where)

    def _update(self, tree: Tree, noted: ChangeNotes, name: str) -> str:
        self.name_items(tree.from_clause)
        text = self.with_clause(tree)
        self.indent += STEP
        text += f" UPDATE {self._table(tree.relation, name)} SET {self._set_list(noted.assigned)}"
        return text + self.from_clause(tree.from_clause) + self.where(noted.where)

    def _set_list(self, assigned: Sequence[Assigned]) -> str:
        return ", ".join([self._set_item(item) for item in assigned])

    def _set_item(self, item: Assigned) -> str:
        columns = ", ".join([self._column_set(name, tree) for name, tree in item.columns])
        if item.of_query:
            assert isinstance(item.value, ir.ScalarSubquery)
            return f"({columns}) = ({self.subquery(item.value.rel)})"
        return f"{columns} = {self.expr(item.value, implicit=False)}"

    def _column_set(self, name: str, tree: Tree | None) -> str:
        """A column, or the part of it, that is given a value."""
        text = quote_identifier(name)
        part = None if tree is None else self.notes.parts.get(id(tree))
        for step in () if part is None else part.steps:
            text += f".{quote_identifier(step)}" if isinstance(step, str) else self.subscripts(step)
        return text

    # ------------------------------------------------------------ INSERT

    def _insert(self, tree: Tree, noted: ChangeNotes, name: str) -> str:
        conflict = self.notes.change(tree.on_conflict_clause) if tree.HasField("on_conflict_clause") else None
        selects = noted.query is not None and noted.query[1] is tree.select_stmt.select_stmt
        if selects:
            self.new_name("*SELECT*")
        elif len(noted.rows) > 1:
            self.new_name("*VALUES*")
        if conflict is not None and conflict.excluded is not None:
            self.call_item(conflict.excluded, self.new_name("excluded"))
        text = self.with_clause(tree)
        self.indent += STEP
        text += f" INSERT INTO {self._table(tree.relation, name, 'AS ')} "
        text += "".join([f"{part} " for part in self._column_list(given_columns(tree, noted), tree.override)])
        if noted.query is not None:
            query, select = noted.query
            if select is tree.select_stmt.select_stmt:
                text += self.query(query, select, visible=False)
            else:
                text += f"{self.line(2)}VALUES ({', '.join(self._values_with_sets(query, tree))})"
        elif len(noted.rows) > 1:
            rows = [f"({self._values_row(row, ',')})" for row in noted.rows]
            text += f"VALUES {', '.join(rows)}"
        elif noted.rows:
            text += f"{self.line(2)}VALUES ({self._values_row(noted.rows[0], ', ')})"
        else:
            text += "DEFAULT VALUES"
        return text + ("" if conflict is None else self._conflict(conflict, name))

    def _values_with_sets(self, query: Analyzed, tree: Tree) -> Iterator[str]:
        """The values of a row of VALUES that calls functions which give sets: they were bound as `query`."""
        assert isinstance(query, SelectQuery)
        targets = iter(query.targets)
        self.levels.append(query.level)
        for item in tree.select_stmt.select_stmt.values_lists[0].list.items:
            yield "DEFAULT" if item.HasField("set_to_default") else self.item(next(targets).expr, implicit=False)
        self.levels.pop()

    def _column_list(self, given: Sequence[tuple[str, Tree | None]], override: int) -> list[str]:
        """What stands between INSERT and its values."""
        columns = [self._column_set(*column) for column in given]
        parts = [f"({', '.join(columns)})"] if columns else []
        return parts + ([_OVERRIDING[override]] if override in _OVERRIDING else [])

    def _values_row(self, row: Sequence[ir.Scalar], comma: str) -> str:
        return comma.join([self.item(value, implicit=False) for value in row])

    def _conflict(self, conflict: ChangeNotes, name: str) -> str:
        tree, text = conflict.tree, " ON CONFLICT"
        self._call_items(conflict, name)
        if tree.infer.conname:
            text += f" ON CONSTRAINT {quote_identifier(tree.infer.conname)}"
        elif tree.HasField("infer"):
            text += self._conflict_target(self.notes.change(tree.infer), name)
        if tree.action != pb.ONCONFLICT_UPDATE:
            return f"{text} DO NOTHING"
        if conflict.level is None:
            raise NotPrintable
        self.levels.append(conflict.level)
        text += f" DO UPDATE SET {self._set_list(conflict.assigned)}{self.where(conflict.where)}"
        self.levels.pop()
        return text

    def _conflict_target(self, target: ChangeNotes, name: str) -> str:
        self._call_items(target, name)
        self.qualified = False
        text = f"({', '.join([self._element(*element) for element in target.elements])}){self.where(target.where)}"
        self.qualified = True
        return text

    def _element(self, tree: Tree, expr: ir.Scalar) -> str:
        if tree.name:
            text = quote_identifier(tree.name)
        else:
            text = self.expr(expr, implicit=False)
            text = text if self.is_column(expr) or self.is_call(expr) else f"({text})"
        if tree.collation:
            text += f" COLLATE {quote_identifier(strings(tree.collation)[-1])}"
        if tree.opclass and not is_default_class(named_operator_class(strings(tree.opclass)), expr.type.oid, "btree"):
            text += f" {quote_identifier(strings(tree.opclass)[-1])}"
        return text

    # ------------------------------------------------------------ MERGE

    def _merge(self, tree: Tree, noted: ChangeNotes, name: str) -> str:
        self.name_items([tree.source_relation])
        text = self.with_clause(tree)
        self.indent += STEP
        text += f" MERGE INTO {self._table(tree.relation, name)}{self.from_clause([tree.source_relation], 'USING')}"
        text += f"{self.line(2)} ON {self.expr(noted.where, implicit=False)}"
        return text + "".join([self._when(node.merge_when_clause) for node in tree.merge_when_clauses])

    def _when(self, tree: Tree) -> str:
        noted = self.notes.change(tree)
        text = f"{self.line(2)} WHEN {'' if tree.match_kind == pb.MERGE_WHEN_MATCHED else 'NOT '}MATCHED"
        if noted.where is not None:
            text += f"{self.line(3)} AND {self.expr(noted.where, implicit=False)}"
        text += f"{self.line(3)} THEN "
        if tree.command_type == pb.CMD_UPDATE:
            return f"{text}UPDATE SET {self._set_list(noted.assigned)}"
        if tree.command_type != pb.CMD_INSERT:
            return text + ("DELETE" if tree.command_type == pb.CMD_DELETE else "DO NOTHING")
        (row,) = noted.rows
        text += " ".join(["INSERT", *self._column_list(noted.columns[: len(row)], tree.override)])
        return text + (f"{self.line(4)} VALUES ({self._values_row(row, ', ')})" if row else " DEFAULT VALUES")


def _alias(tree: Tree) -> str | None:
    return tree.alias.aliasname if tree.HasField("alias") else None


_METHODS: Mapping[str, Callable[[_Changes, Tree, ChangeNotes, str], str]] = {
    "insert_stmt": _Changes._insert,
    "update_stmt": _Changes._update,
    "delete_stmt": _Changes._delete,
    "merge_stmt": _Changes._merge,
}
