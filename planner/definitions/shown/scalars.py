"""Expressions of queries as text: columns with what qualifies them, aggregates, window functions, subqueries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from planner.calls.window_calls import PendingWindow
from planner.definitions.expression_text import NotPrintable, ObjectNames, Printer, is_by_function, separates
from planner.definitions.shown.names import ShownItem
from planner.ir import nodes as ir
from planner.ir import written as w
from planner.queries.windows import WindowSpec
from planner.resolution.statement import Level, Statement
from planner.syntax.identifiers import quote_identifier
from planner.syntax.parse import Tree
from planner.types.signature import Kind
from planner.types.type_names import format_type
from planner.types.types import RECORD

_NON_DEFAULT, _BETWEEN = 0x00001, 0x00010
_MODES = {"rows": "ROWS", "range": "RANGE", "groups": "GROUPS"}
_BOUNDS = {
    "unbounded_preceding": "UNBOUNDED PRECEDING",
    "unbounded_following": "UNBOUNDED FOLLOWING",
    "current_row": "CURRENT ROW",
}
_SUBQUERIES = (ir.Exists, ir.ScalarSubquery, ir.ArraySubquery, ir.QuantifiedSubquery, w.RowOfQuery)
_EXCLUDED = {"current_row": " EXCLUDE CURRENT ROW", "group": " EXCLUDE GROUP", "ties": " EXCLUDE TIES"}


class QueryScalars(Printer):
    """Prints what stands in the clauses of queries."""

    def __init__(self, statement: Statement, *, pretty: bool, objects: ObjectNames | None) -> None:
        super().__init__({}, statement.written, pretty=pretty, objects=objects)
        assert statement.notes is not None
        self.statement, self.notes = statement, statement.notes
        self.fields: dict[int, tuple[ShownItem, int]] = {}
        """The columns of items of FROM by their fields: the item, and which of its columns."""
        self.shown: dict[int, ShownItem] = {}
        """The items of FROM by their identity."""
        self.using: dict[int, list[str]] = {}
        """What columns that USING merges are called, by the identity of their joins, where that had to be changed."""
        self.parameters: Sequence[str] = ()
        """What the arguments of the function are called whose body is printed; empty where one has no name."""
        self.function = ""
        self.qualified = True
        """Whether what a column is of stands before it."""
        self.levels: list[Level] = []
        """The queries that are being printed, outermost first."""

    @abstractmethod
    def subquery(self, rel: ir.Rel) -> str:
        """The text of the query that became `rel`."""

    @abstractmethod
    def has_items(self) -> bool:
        """Whether a query that is being printed has something in FROM."""

    # ------------------------------------------------------------ columns

    def _param(self, node: ir.Param) -> str:
        name = self.parameters[node.index - 1] if node.index <= len(self.parameters) else ""
        if not name:
            return f"${node.index}"
        # Beside items of FROM, whose columns may have its name, the function's name is before it.
        shown = quote_identifier(name)
        return f"{quote_identifier(self.function)}.{shown}" if self.has_items() else shown

    def is_column(self, node: Any) -> bool:
        form = self.form(node)
        if isinstance(form, ir.ColumnRef):
            return form.id in self.fields
        return isinstance(form, (w.ItemColumn, w.WholeRow))

    def column_name(self, node: Any) -> str | None:
        """The name, without what qualifies it, of what `is_column`; None for a row."""
        form = self.form(node)
        if isinstance(form, ir.ColumnRef):
            shown, place = self.fields[form.id]
            return shown.columns[place]
        return self._merged_name(form) if isinstance(form, w.ItemColumn) else None

    def _column(self, node: ir.ColumnRef) -> str:
        found = self.fields.get(node.id)
        if found is not None:
            shown, place = found
            column = quote_identifier(shown.columns[place])
            return f"{quote_identifier(shown.name)}.{column}" if self.qualified else column
        return self._computed(node.id)

    def _item_column(self, node: w.ItemColumn) -> str:
        shown, name = self.shown.get(id(node.item)), quote_identifier(self._merged_name(node))
        return name if shown is None or not self.qualified else f"{quote_identifier(shown.name)}.{name}"

    def _merged_name(self, node: w.ItemColumn) -> str:
        for tree, item in self.notes.merged.values():
            names = self.using.get(id(tree))
            if item is node.item and names is not None:
                return names[[column.name for column in item.columns].index(node.name)]
        return node.name

    def _whole_row(self, node: w.WholeRow) -> str:
        found = self.fields.get(node.first) if node.first is not None else None
        return f"{quote_identifier(node.name if found is None else found[0].name)}.*"

    def row_in_list(self, node: w.WholeRow) -> str:
        found = self.fields.get(node.first) if node.first is not None else None
        item = None if found is None else found[0].item
        if item is not None and item.row_type:
            return f"{self._whole_row(node)}::{format_type(item.row_type)}"
        of_table = item is not None and item.relation_oid and item.relation_name
        if not of_table or item is None:
            return f"{self._whole_row(node)}::{format_type(RECORD)}"
        return f"{self._whole_row(node)}::{self.row_type(item.schema or '', item.relation_name or '')}"

    @abstractmethod
    def row_type(self, schema: str, name: str) -> str:
        """What the row type of a relation is called."""

    # ------------------------------------------------------------ what a query computes besides

    def _computed(self, id: int) -> str:
        owner = self.statement.aggregate_owner.get(id)
        if owner is not None:
            for call, field in owner.aggregates:
                if field.id == id:
                    return self._aggregate(call)
            for args, field, _, _ in owner.grouping_refs:
                if field.id == id:
                    return f"GROUPING({self._listed(args)})"
        for level in reversed(self.levels):
            for pending, field in level.windows:
                if field.id == id:
                    return self._window_call(level, pending)
            for rows in level.srfs:
                if any(field.id == id for field in rows.fields):
                    return self._rows_of_function(rows)
        raise NotPrintable

    def _rows_of_function(self, call: ir.FunctionCall) -> str:
        return f"{quote_identifier(call.signature.name)}({self._listed(call.args)})"

    def _aggregate(self, call: ir.AggregateCall) -> str:
        text = quote_identifier(call.signature.name)
        if call.signature.ordered_set:
            text += f"({self._listed(call.args)}) WITHIN GROUP (ORDER BY {self._sorted(call.order_by)}"
        else:
            text += f"({'DISTINCT ' if call.distinct else ''}{self._listed(call.args) or '*'}"
            if call.order_by:
                text += f" ORDER BY {self._sorted(call.order_by)}"
        if call.filter is not None:
            text += f") FILTER (WHERE {self.expr(call.filter, implicit=False)}"
        return f"{text})"

    def _sorted(self, keys: Iterable[ir.SortKey]) -> str:
        return ", ".join([self.sort_item(key.expr, key.descending, key.nulls_first) for key in keys])

    def sort_item(self, expr: ir.Scalar, descending: bool, nulls_first: bool) -> str:
        """An item of ORDER BY."""
        return self.list_item(expr) + self.direction(descending, nulls_first)

    def direction(self, descending: bool, nulls_first: bool) -> str:
        """What follows an item of ORDER BY."""
        if descending:
            return " DESC" if nulls_first else " DESC NULLS LAST"
        return " NULLS FIRST" if nulls_first else ""

    def list_item(self, expr: ir.Scalar) -> str:
        """An item of GROUP BY, ORDER BY and the like: constants with their types, which would be numbers of columns,
        and calls in parentheses (get_rule_sortgroupclause)."""
        form = self.form(expr)
        if isinstance(form, ir.Literal):
            return self._typed_constant(form)
        text = self.expr(expr, implicit=True)
        if self.is_column(expr):
            return text
        return f"({text})" if self.pretty or self.is_call(form) else text

    def _typed_constant(self, literal: ir.Literal) -> str:
        text = self.expr(literal, implicit=True)
        return text if "::" in text else f"{text}::{format_type(literal.type.oid, -1)}"

    def is_call(self, form: Any) -> bool:
        """Whether PostgreSQL has a function, an aggregate or the like for what is printed as `form`."""
        if isinstance(form, ir.ColumnRef):
            return True
        if isinstance(form, w.FunctionCall):
            return True
        if isinstance(form, (ir.Cast, w.Conversion)):
            return is_by_function(form)
        return isinstance(form, ir.Call) and form.signature.kind is not Kind.OPERATOR

    # ------------------------------------------------------------ windows

    def _window_call(self, level: Level, pending: PendingWindow) -> str:
        text = f"{quote_identifier(pending.signature.name)}("
        aggregate = pending.signature.kind is Kind.AGGREGATE
        text += self._listed(pending.args) or ("*" if aggregate else "")
        if pending.filter is not None:
            text += f") FILTER (WHERE {self.expr(pending.filter, implicit=False)}"
        return f"{text}) OVER {self._over(level, pending.definition)}"

    def _over(self, level: Level, tree: Tree) -> str:
        if tree.name:
            return quote_identifier(tree.name)
        spec: WindowSpec = self.notes.windows[id(tree)][1]
        for name, other in level.window_definitions.items():
            named: WindowSpec = self.notes.windows[id(other)][1]
            if other.refname == tree.refname and named == spec:
                return quote_identifier(name)
        return self.window(tree)

    def window(self, tree: Tree) -> str:
        """A definition of a window."""
        spec: WindowSpec = self.notes.windows[id(tree)][1]
        parts: list[str] = []
        if tree.refname:
            parts.append(quote_identifier(tree.refname))
        elif spec.partition:
            parts.append(f"PARTITION BY {', '.join([self.list_item(expr) for expr in spec.partition])}")
        if tree.order_clause:
            parts.append(f"ORDER BY {self._sorted(spec.order)}")
        if tree.frame_options & _NON_DEFAULT:
            parts.append(self._frame(spec.frame, between=bool(tree.frame_options & _BETWEEN)))
        return f"({' '.join(parts)})"

    def _frame(self, frame: ir.Frame, *, between: bool) -> str:
        start = self._bound(frame.start)
        bounds = f"BETWEEN {start} AND {self._bound(frame.end)}" if between else start
        return f"{_MODES[frame.mode]} {bounds}{_EXCLUDED.get(frame.exclude, '')}"

    def _bound(self, bound: ir.FrameBound) -> str:
        if bound.offset is None:
            return _BOUNDS[bound.kind]
        word = "PRECEDING" if bound.kind == "offset_preceding" else "FOLLOWING"
        return f"{self.expr(bound.offset, implicit=False)} {word}"

    # ------------------------------------------------------------ subqueries

    def _is_simple(self, node: Any, parent: Any) -> bool:
        form = self.form(node)
        if isinstance(form, ir.Exists) and form.negated:
            return self._is_simple_negation(parent)
        if isinstance(form, _SUBQUERIES):
            return separates(parent) or isinstance(parent, ir.BoolOp)
        return super()._is_simple(node, parent)

    def _exists(self, node: ir.Exists) -> str:
        text = f"(EXISTS ({self.subquery(node.rel)}))"
        return self._enclosed(f"NOT {text}") if node.negated else text

    def _scalar_subquery(self, node: ir.ScalarSubquery) -> str:
        return f"({self.subquery(node.rel)})"

    def _array_subquery(self, node: ir.ArraySubquery) -> str:
        return f"ARRAY({self.subquery(node.rel)})"

    def _quantified_subquery(self, node: ir.QuantifiedSubquery) -> str:
        word = node.quantifier.upper()
        return self._with_query(node.args, node.operators[0].name, word, node.rel)

    def _row_of_query(self, node: w.RowOfQuery) -> str:
        return self._with_query(node.left, node.symbol, node.quantifier, node.rel)

    def _with_query(self, args: Sequence[ir.Scalar], symbol: str, quantifier: str, rel: ir.Rel) -> str:
        left = self._listed(args)
        if len(args) > 1:
            left = f"({left})"
        if quantifier == "ANY" and symbol == "=":
            words = "IN"
        else:
            words = f"{symbol} {quantifier}".strip()
        return f"({left} {words} ({self.subquery(rel)}))"


METHODS: Mapping[type, Any] = {
    **Printer.methods,
    ir.ColumnRef: QueryScalars._column,
    ir.Param: QueryScalars._param,
    ir.Exists: QueryScalars._exists,
    ir.ScalarSubquery: QueryScalars._scalar_subquery,
    ir.ArraySubquery: QueryScalars._array_subquery,
    ir.QuantifiedSubquery: QueryScalars._quantified_subquery,
    ir.FunctionCall: QueryScalars._rows_of_function,
    w.RowOfQuery: QueryScalars._row_of_query,
    w.ItemColumn: QueryScalars._item_column,
    w.WholeRow: QueryScalars._whole_row,
}
QueryScalars.methods = METHODS
