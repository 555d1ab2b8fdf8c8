"""Expressions of a published view's query, in one of the two dialects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from planner.definitions.exchanged.dialects import FLOATS, Dialect, not_vouched
from planner.definitions.exchanged.operations import (
    RANKING,
    aggregate_text,
    call_text,
    called,
    cast_text,
    check_groupable,
    compared,
)
from planner.ir import nodes as ir
from planner.types import types as t
from planner.types.types import SqlType

Columns: TypeAlias = Mapping[int, str]
"""What a column is called, or computed as, by its id."""

_BOUNDS: Mapping[str, str] = {
    "unbounded_preceding": "UNBOUNDED PRECEDING", "current_row": "CURRENT ROW",
    "unbounded_following": "UNBOUNDED FOLLOWING",
}  # fmt: skip
_WORDS: Mapping[type, str] = {
    ir.SessionValue: "what depends on the session or the time", ir.MinMax: "GREATEST and LEAST",
    ir.ArrayConstructor: "ARRAY[...]", ir.QuantifiedArray: "ANY and ALL of an array", ir.Subscript: "a subscript",
    ir.RowConstructor: "ROW(...)", ir.FieldSelect: "a field of a composite value", ir.Collate: "COLLATE",
    ir.ArraySubquery: "ARRAY(subquery)", ir.DomainValue: "a value of a domain", ir.ForEach: "a cast of arrays",
}  # fmt: skip


class Expressions:
    """Writes expressions; `query` writes a subquery whose outer columns are given."""

    def __init__(self, dialect: Dialect, query: Callable[[ir.Rel, Columns], str]) -> None:
        self._dialect = dialect
        self._query = query

    def text(self, node: ir.Scalar, columns: Columns) -> str:
        """The text of an expression. Raises 0A000."""

        def of(each: ir.Scalar) -> str:
            return self.text(each, columns)

        match node:
            case ir.ColumnRef():
                if node.id not in columns:
                    # Spark knows it in conditions alone, and then from one query to the next.
                    raise not_vouched("a subquery that refers to an outer query, but for EXISTS and IN in a condition,")
                return columns[node.id]
            case ir.Literal():
                return self._dialect.constant(node.value, node.type)
            case ir.Call():
                return call_text(self._dialect, node, [of(arg) for arg in node.args])
            case ir.Cast():
                return cast_text(self._dialect, node.arg.type, node.type, of(node.arg))
            case ir.BoolOp(op="not"):
                return f"(NOT {of(node.args[0])})"
            case ir.BoolOp():
                return "(" + f" {node.op.upper()} ".join(map(of, node.args)) + ")"
            case ir.IsNull():
                return f"({of(node.arg)} IS {'NOT ' if node.negated else ''}NULL)"
            case ir.BooleanTest():
                return self._boolean_test(node, of(node.arg))
            case ir.Distinct():
                check_groupable(node.left.type, "IS DISTINCT FROM")
                check_groupable(node.right.type, "IS DISTINCT FROM")
                a, b = of(node.left), of(node.right)
                if self._dialect.is_spark:
                    return f"({a} <=> {b})" if node.negated else f"(NOT ({a} <=> {b}))"
                return f"({a} IS {'NOT ' if node.negated else ''}DISTINCT FROM {b})"
            case ir.Case():
                whens = "".join(f" WHEN {of(when)} THEN {of(then)}" for when, then in node.whens)
                other = "" if node.otherwise is None else f" ELSE {of(node.otherwise)}"
                return f"CASE{whens}{other} END"
            case ir.Coalesce():
                return f"coalesce({', '.join(map(of, node.args))})"
            case ir.InList():
                return self._in_list(node, columns)
            case ir.Exists():
                return f"({'NOT ' if node.negated else ''}EXISTS ({self._query(node.rel, columns)}))"
            case ir.ScalarSubquery():
                return f"({self._query(node.rel, {})})"
            case ir.QuantifiedSubquery():
                # Elsewhere Spark has false for NULL.
                raise not_vouched("IN (subquery) anywhere but in a condition, below AND and OR alone,")
            case _:
                raise not_vouched(_WORDS.get(type(node), type(node).__name__))

    def condition(self, node: ir.Scalar, columns: Columns) -> str:
        """The text of a condition that rows have to fulfil, for which NULL is as good as false. Raises 0A000."""
        match node:
            case ir.BoolOp(op="and" | "or"):
                return "(" + f" {node.op.upper()} ".join(self.condition(arg, columns) for arg in node.args) + ")"
            case ir.QuantifiedSubquery():
                return self._in_subquery(node, columns)
            case ir.BoolOp(op="not", args=(ir.QuantifiedSubquery(quantifier="any") as arg,)):
                return self._in_subquery(arg, columns, negated=True)
            case _:
                return self.text(node, columns)

    def _boolean_test(self, node: ir.BooleanTest, arg: str) -> str:
        texts = {
            "true": f"coalesce({arg}, FALSE)",
            "false": f"coalesce((NOT {arg}), FALSE)",
            "unknown": f"({arg} IS NULL)",
        }
        return f"(NOT {texts[node.test]})" if node.negated else texts[node.test]

    def _in_list(self, node: ir.InList, columns: Columns) -> str:
        arg = self.text(node.arg, columns)
        items = [self.text(item, columns) for item in node.items]
        types = [item.type for item in node.items]
        for type, item in zip(types, items, strict=True):
            compared(self._dialect, "=", node.arg.type, type, arg, item, called(node.equals))
        if node.arg.type.oid in FLOATS:
            raise not_vouched(called(node.equals))
        return f"({arg} {'NOT ' if node.negated else ''}IN ({', '.join(items)}))"

    def _in_subquery(self, node: ir.QuantifiedSubquery, columns: Columns, *, negated: bool = False) -> str:
        words = {("any", "="): "NOT IN" if negated else "IN", ("all", "<>"): "NOT IN"}
        word = words.get((node.quantifier, node.operators[0].name))
        if word is None or len(node.args) != 1:
            raise not_vouched(f"{node.quantifier.upper()} of a subquery by {called(node.operators[0])}")
        check_groupable(node.args[0].type, word)
        check_groupable(node.rel.fields[0].type, word)
        arg = self.text(node.args[0], columns)
        compared(self._dialect, "=", node.args[0].type, node.rel.fields[0].type, arg, arg, called(node.operators[0]))
        return f"({arg} {word} ({self._query(node.rel, columns)}))"

    def aggregate(self, node: ir.AggregateCall, columns: Columns) -> str:
        """A call of an aggregate. Raises 0A000."""
        if node.order_by:
            raise not_vouched(f"ORDER BY in aggregate {node.signature.name}")
        text = self._aggregate(node, columns, distinct=node.distinct)
        if node.filter is None:
            return text
        return _followed(text, f"FILTER (WHERE {self.text(node.filter, columns)})")

    def _aggregate(self, node: ir.AggregateCall | ir.WindowCall, columns: Columns, *, distinct: bool = False) -> str:
        types = [arg.type for arg in node.args]
        args = [self.text(arg, columns) for arg in node.args]
        return aggregate_text(self._dialect, node.signature, types, node.type, args, distinct=distinct)

    def window(self, node: ir.WindowCall, columns: Columns) -> str:
        """A call of a window function. Raises 0A000."""
        name = node.signature.name
        if node.filter is not None:
            raise not_vouched(f"FILTER of window function {name}")
        for key in node.partition_by:
            check_groupable(key.type, "PARTITION BY values")
        parts = []
        if node.partition_by:
            parts.append("PARTITION BY " + ", ".join(self.text(key, columns) for key in node.partition_by))
        if node.order_by:
            parts.append("ORDER BY " + ", ".join(self.key(key, columns) for key in node.order_by))
        if name in RANKING and not node.args:
            if not node.order_by:
                raise not_vouched(f"{name} without an order")
            return f"CAST({name}() OVER ({' '.join(parts)}) AS {self._dialect.type(SqlType(t.INT8))})"
        if name in ("lag", "lead") and len(node.args) <= 2 and node.order_by:
            offset = node.args[1] if len(node.args) == 2 else ir.Literal(value=1, type=SqlType(t.INT4))
            if isinstance(offset, ir.Literal) and isinstance(offset.value, int) and offset.value >= 0:
                return f"{name}({self.text(node.args[0], columns)}, {offset.value}) OVER ({' '.join(parts)})"
        if node.signature.kind.value != "aggregate":
            raise not_vouched(f"window {called(node.signature)}")
        frame = node.frame
        ends = [_BOUNDS.get(frame.start.kind), _BOUNDS.get(frame.end.kind)]
        for place, bound in enumerate((frame.start, frame.end)):
            rows = bound.offset
            if isinstance(rows, ir.Literal) and isinstance(rows.value, int) and frame.mode == "rows":
                ends[place] = f"{rows.value} {bound.kind.removeprefix('offset_').upper()}"
        if frame.exclude != "no_others" or frame.mode == "groups" or None in ends:
            raise not_vouched("a window's frame with GROUPS, EXCLUDE, or an offset that is no number of rows,")
        if node.order_by:
            parts.append(f"{frame.mode.upper()} BETWEEN {ends[0]} AND {ends[1]}")
        elif frame.mode == "rows" and frame.end.kind != "unbounded_following":
            raise not_vouched("a window's frame of rows without an order")
        return _followed(self._aggregate(node, columns), f"OVER ({' '.join(parts)})")

    def key(self, key: ir.SortKey, columns: Columns) -> str:
        """An item of ORDER BY. Raises 0A000."""
        check_groupable(key.expr.type, "ORDER BY values")
        text = self.text(key.expr, columns)
        return f"{text} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _followed(call: str, clause: str) -> str:
    """A call of an aggregate, that may be inside a cast, with a clause behind it."""
    if not call.startswith("CAST("):
        return f"{call} {clause}"
    inner, _, end = call.removeprefix("CAST(").rpartition(" AS ")
    return f"CAST({inner} {clause} AS {end}"
