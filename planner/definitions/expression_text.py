"""Bound expressions as SQL text, in the form of PostgreSQL's ruleutils.c.

Every operator stands in parentheses, every conversion is said, constants carry their types: the text means the same
whatever the search path and the settings are, and binding it again gives the same text. The *pretty* form leaves out
the parentheses that precedence makes superfluous. CASE takes several lines in both.

What the IR does not tell comes from `Statement.written`; of an expression bound without it the text means the same, and
looks as PostgreSQL's does where no such form was needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from planner.definitions.deparse import literal_text as shown_literal
from planner.functions import of_extensions
from planner.ir import nodes as ir
from planner.ir import written as w
from planner.ir.array_value import ArrayValue, lower_bounds_of
from planner.ir.rewrite import transform
from planner.resolution.coercion import Context, pathway
from planner.syntax.identifiers import quote_identifier, quote_literal
from planner.types import types as t
from planner.types.base_types import base_type
from planner.types.signature import Kind
from planner.types.type_names import array_of, format_type
from planner.types.type_scope import TYPE_SCOPE
from planner.types.types import REG_TYPES, SqlType
from planner.types.user_types import attributes, function_name, kept_field, shown_operator, value_to_keep
from planner.values.output_style import output_settings
from planner.values.text_values import format_text

Written: TypeAlias = Mapping[int, tuple[Any, w.Form]]
"""`Statement.written`."""

ObjectNames: TypeAlias = Callable[[int, int], str]
"""The name of the object that a value stands for, by the oid of its type (regclass and the like) and the value."""

_INDENT = 4
_KEY_WORDS = frozenset({"current_user", "session_user"})
"""Session values that are no calls."""


class NotPrintable(Exception):
    """The expression has no text that means the same: it holds a value of this moment."""


def expression_text(
    expr: ir.Scalar,
    names: Mapping[int, str],
    written: Written | None = None,
    *,
    pretty: bool = False,
    objects: ObjectNames | None = None,
) -> str:
    """The text of `expr`, whose columns are called as `names` has them by id. `written` is the statement's. `objects`
    names what regclass and the like stand for, which are shown by number without it. Raises NotPrintable; without
    `written` a text for people to read is given then."""
    return printed(expr, names, written, pretty=pretty, objects=objects)[0]


def printed(
    expr: ir.Scalar,
    names: Mapping[int, str],
    written: Written | None,
    *,
    pretty: bool = False,
    objects: ObjectNames | None = None,
) -> tuple[str, tuple[int | None, ...]]:
    """`expression_text`, and the columns that it names, in order, by id; None stands for the whole row."""
    printer = Printer(names, written, pretty=pretty, objects=objects)
    text = with_lines(printer.expr(expr, implicit=False))
    return text, tuple(dict.fromkeys(printer.columns))


def with_lines(text: str) -> str:
    """`text` as a printer makes it, with its line breaks; blanks before them go."""
    return _LINE.sub("\n", text)


class Printer:
    """Prints expressions one after another: what a query holds, with its indentation."""

    methods: Mapping[type, Any] = {}
    """How each kind of expression is printed."""

    def __init__(
        self, names: Mapping[int, str], written: Written | None, *, pretty: bool, objects: ObjectNames | None
    ) -> None:
        self.names = names
        self.objects = objects
        self.written = written or {}
        self.exact = written is not None
        self.pretty = pretty
        self.indent = 0
        self.columns: list[int | None] = []

    def form(self, node: Any) -> Any:
        """What is to be printed for `node`: conversions that PostgreSQL has not are looked through."""
        while True:
            known = self.written.get(id(node))
            if known is not None and known[1] is not node:
                node = known[1]
            elif (isinstance(node, ir.Cast) and not node.explicit and _same_type(node)) or isinstance(node, ir.ForEach):
                node = node.arg
            else:
                return node

    # ------------------------------------------------------------ parentheses

    def expr(self, node: Any, *, implicit: bool) -> str:
        """`node`; conversions that nobody wrote are shown with `implicit`, and hidden at its top without."""
        node = self.form(node)
        if isinstance(node, _CONVERSIONS):
            if not node.explicit and not implicit:
                return self._twice_enclosed(node, self.inside(node.arg, node, implicit=False))
            return self._conversion(node)
        for kind, method in self.methods.items():
            if isinstance(node, kind):
                text: str = method(self, node)
                return text
        raise NotPrintable

    def inside(self, node: Any, parent: Any, *, implicit: bool) -> str:
        """`node` as an operand of `parent`, in parentheses where the pretty form needs them."""
        text = self.expr(node, implicit=implicit)
        return f"({text})" if self.pretty and not self._is_simple(node, parent) else text

    def _enclosed(self, text: str) -> str:
        return text if self.pretty else f"({text})"

    def _listed(self, nodes: Sequence[Any]) -> str:
        return ", ".join([self.expr(node, implicit=True) for node in nodes])

    def item(self, node: Any, *, implicit: bool) -> str:
        """`node` as an item of a list in which the name of a row and a star would mean its fields."""
        form = self.form(node)
        return self.row_in_list(form) if isinstance(form, w.WholeRow) else self.expr(node, implicit=implicit)

    def _items(self, nodes: Sequence[Any]) -> str:
        return ", ".join([self.item(node, implicit=True) for node in nodes])

    def _is_simple(self, node: Any, parent: Any) -> bool:
        """Whether `node` needs no parentheses below `parent` in the pretty form (isSimpleNode)."""
        node = self.form(node)
        if isinstance(node, _CONVERSIONS):
            return is_by_function(node) or self._is_simple(node.arg, node)
        if isinstance(node, ir.BoolOp):
            return self._is_simple_logic(node, parent)
        if isinstance(node, ir.FieldSelect):
            return not isinstance(parent, ir.FieldSelect)
        if _is_operator(node) and _is_operator(parent):
            return self._binds_tighter(node, parent)
        if isinstance(node, ir.Distinct) and node.negated:
            return self._is_simple_negation(parent)
        if _is_operator(node) or isinstance(node, (ir.IsNull, ir.BooleanTest, ir.Distinct, w.RecordComparison)):
            return separates(parent) or isinstance(parent, ir.BoolOp)
        return not isinstance(node, (ir.QuantifiedArray, w.InArray, ir.InList, ir.Collate, w.RowComparison, *_SUBPLANS))

    def _is_simple_logic(self, node: ir.BoolOp, parent: Any) -> bool:
        if isinstance(parent, ir.BoolOp):
            return parent.op == "or" or (parent.op == "and" and node.op != "or")
        return separates(parent)

    def _is_simple_negation(self, parent: Any) -> bool:
        """Whether what is printed with NOT before it needs no parentheses below `parent`."""
        return separates(parent) or (isinstance(parent, ir.BoolOp) and parent.op != "not")

    def _binds_tighter(self, node: ir.Call, parent: ir.Call) -> bool:
        """Of + - * / and % alone it is known how they bind."""
        if len(node.args) != 2 or len(parent.args) != 2:
            return False
        own, outer = node.signature.name, parent.signature.name
        if own not in _BINDING or outer not in _BINDING:
            return False
        if _BINDING[own] != _BINDING[outer]:
            return _BINDING[own] > _BINDING[outer]
        return self.form(parent.args[0]) is node

    # ------------------------------------------------------------ leaves and conversions

    def _column(self, node: ir.ColumnRef) -> str:
        self.columns.append(node.id)
        return self.names.get(node.id, f"c{node.id}")

    def _literal(self, node: ir.Literal) -> str:
        if self.objects is not None and node.type.oid in REG_TYPES and isinstance(node.value, int):
            name = self.objects(node.type.oid, node.value).replace("'", "''")
            return f"'{name}'::{quote_identifier(REG_TYPES[node.type.oid])}"
        return literal_text(node) if self.exact else shown_literal(node)

    def _conversion(self, node: ir.Cast | w.Conversion | ir.DomainValue) -> str:
        arg = self.form(node.arg)
        target = format_type(node.type.declared_oid, -1 if _leaves_domain(node, arg) else node.type.declared_typmod)
        if isinstance(arg, ir.Literal):
            plain = arg.type.oid == node.type.oid and arg.type.typmod == -1 and not node.type.domain
            if plain:
                return f"{literal_text(arg, typed=False)}::{target}"
        text = self._twice_enclosed(node, self._enclosed(self.inside(node.arg, node, implicit=False)))
        return f"{text}::{target}"

    def _twice_enclosed(self, node: ir.Cast | w.Conversion | ir.DomainValue, text: str) -> str:
        """`text` of what is converted: the conversion to the type, which is hidden below that to the length, has
        parentheses of its own."""
        twice = self.pretty and node.type.typmod >= 0 and not self._is_simple(node.arg, node) and _is_relabeled(node)
        return f"({text})" if twice else text

    def _session_value(self, node: ir.SessionValue) -> str:
        # How it was written is not known.
        if self.exact:
            raise NotPrintable
        name, _, setting = node.name.partition(":")
        if setting:
            return f"current_setting({quote_literal(setting)}::text)"
        return name.upper() if name in _KEY_WORDS else f"{name}({self._listed(node.args)})"

    def _key_word(self, node: w.KeyWord) -> str:
        return node.text

    def _whole_row(self, node: w.WholeRow) -> str:
        self.columns.append(None)
        return f"{quote_identifier(node.name)}.*"

    def row_in_list(self, node: w.WholeRow) -> str:
        """A row where its name and a star alone would mean its fields."""
        return f"{self._whole_row(node)}::{format_type(node.type)}"

    def _item_column(self, node: w.ItemColumn) -> str:
        return quote_identifier(node.name)

    def is_column(self, node: Any) -> bool:
        """Whether PostgreSQL has a Var for what `node` is printed as."""
        return isinstance(self.form(node), (ir.ColumnRef, w.ItemColumn, w.WholeRow))

    # ------------------------------------------------------------ operators

    def _call(self, node: ir.Call) -> str:
        name = node.signature.name
        if node.signature.kind is not Kind.OPERATOR:
            return f"{quote_identifier(name)}({self._listed([self._under_domain(arg) for arg in node.args])})"
        made = of_extensions.type_of(node.signature)
        if made is not None:
            name = shown_operator(made, name)
        args = [self.inside(self._under_domain(arg), node, implicit=True) for arg in node.args]
        return self._enclosed(f"{args[0]} {name} {args[1]}" if len(args) == 2 else f"{name} {args[0]}")

    def _under_domain(self, node: Any) -> Any:
        """A value of a domain as one of the type under it, which functions see."""
        type = getattr(self.form(node), "type", None)
        if not isinstance(type, SqlType) or not type.domain:
            return node
        return w.Conversion(arg=node, type=type.without_domain(), explicit=False)

    def _logic(self, node: ir.BoolOp) -> str:
        args = [self.inside(arg, node, implicit=False) for arg in node.args]
        return self._enclosed(f"NOT {args[0]}" if node.op == "not" else f" {node.op.upper()} ".join(args))

    def _is_null(self, node: ir.IsNull) -> str:
        arg = self.inside(node.arg, node, implicit=True)
        return self._enclosed(f"{arg} IS {'NOT ' if node.negated else ''}NULL")

    def _boolean_test(self, node: ir.BooleanTest) -> str:
        arg = self.inside(node.arg, node, implicit=False)
        return self._enclosed(f"{arg} IS {'NOT ' if node.negated else ''}{node.test.upper()}")

    def _distinct(self, node: ir.Distinct) -> str:
        left, right = (self.inside(side, node, implicit=True) for side in (node.left, node.right))
        text = self._enclosed(f"{left} IS DISTINCT FROM {right}")
        return self._enclosed(f"NOT {text}") if node.negated else text

    def _quantified(self, node: ir.QuantifiedArray) -> str:
        arg, array = (self.inside(self._under_domain(side), node, implicit=True) for side in (node.arg, node.array))
        given = self.form(node.array)
        if isinstance(given, ir.ScalarSubquery):
            # Alone it would be what gives the values, one a row.
            array += f"::{format_type(given.type.declared_oid, given.type.declared_typmod)}"
        return self._enclosed(
            f"{arg} {_named(node.operator.name, node.operator.args[1])} {node.quantifier.upper()} ({array})"
        )

    def _in_array(self, node: w.InArray) -> str:
        array = f"ARRAY[{self._listed(node.items)}]"
        if node.compared != node.element:
            array = f"{self._enclosed(array)}::{format_type(array_of(node.compared))}"
        arg = self.inside(self._under_domain(node.arg), node, implicit=True)
        symbol = _named(node.symbol, node.compared)
        return self._enclosed(f"{arg} {symbol} {'ALL' if node.negated else 'ANY'} ({array})")

    def _in_list(self, node: ir.InList) -> str:
        arg = self.inside(node.arg, node, implicit=True)
        return self._enclosed(f"{arg} {'NOT ' if node.negated else ''}IN ({self._listed(node.items)})")

    def _row_comparison(self, node: w.RowComparison) -> str:
        # PostgreSQL has these parentheses in the pretty form as well.
        return f"(ROW({self._items(node.left)}) {node.symbol} ROW({self._items(node.right)}))"

    def _record_comparison(self, node: w.RecordComparison) -> str:
        left, right = (self.inside(side, node, implicit=True) for side in (node.left, node.right))
        return self._enclosed(f"{left} {node.symbol} {right}")

    def _collate(self, node: ir.Collate) -> str:
        return self._enclosed(
            f"{self.inside(node.arg, node, implicit=True)} COLLATE {quote_identifier(node.collation)}"
        )

    # ------------------------------------------------------------ functions and the like

    def _coalesce(self, node: ir.Coalesce) -> str:
        return f"COALESCE({self._listed(node.args)})"

    def _min_max(self, node: ir.MinMax) -> str:
        return f"{node.op.upper()}({self._listed(node.args)})"

    def _null_if(self, node: w.NullIf) -> str:
        return f"NULLIF({self._listed(node.args)})"

    def _row(self, node: ir.RowConstructor) -> str:
        return f"ROW({self._items(node.items)})"

    def _row_cast(self, node: w.RowCast) -> str:
        return f"ROW({self._items(node.items)})::{format_type(node.type.declared_oid)}"

    def _array(self, node: ir.ArrayConstructor) -> str:
        text = f"ARRAY[{self._listed(node.items)}]"
        return text if node.items else f"{text}::{format_type(node.type.oid, -1)}"

    def _subscript(self, node: ir.Subscript) -> str:
        arg = self.form(node.arg)
        text = self.expr(node.arg, implicit=True)
        plain = isinstance(arg, ir.FieldSelect) or self.is_column(arg)
        return (text if plain else f"({text})") + self.subscripts(node)

    def subscripts(self, node: ir.Subscript) -> str:
        """What stands behind the array."""
        steps: list[str] = []
        for place, first in enumerate(node.lower):
            bound = "" if first is None else self.expr(first, implicit=False)
            if node.slice:
                last = node.upper[place]
                bound += ":" + ("" if last is None else self.expr(last, implicit=False))
            steps.append(f"[{bound}]")
        return "".join(steps)

    def _field(self, node: ir.FieldSelect) -> str:
        text = self.expr(node.arg, implicit=True)
        plain = isinstance(self.form(node.arg), (ir.Subscript, ir.FieldSelect))
        fields = attributes(node.arg.type.oid) if TYPE_SCOPE.get().stored else None
        name = node.name if fields is None else kept_field(node.arg.type.oid, fields[node.index])
        return f"{text if plain else f'({text})'}.{quote_identifier(name)}"

    def _function(self, node: w.FunctionCall) -> str:
        text = self._sql_syntax(node) if node.sql_syntax else None
        if text is not None:
            return text
        args = [self.expr(self._under_domain(arg), implicit=True) for arg in node.args]
        if node.variadic:
            args[-1] = f"VARIADIC {args[-1]}"
        name = function_name(node.oid, defined=True) if node.oid else quote_identifier(node.name)
        return f"{name}({', '.join(args)})"

    def _sql_syntax(self, node: w.FunctionCall) -> str | None:
        """A call in the syntax that SQL has for it (get_func_sql_syntax); None when there is none."""
        args = [self.expr(arg, implicit=False) for arg in node.args]
        match node.name, len(args):
            case "timezone", 2:
                value, zone = (self.inside(arg, node, implicit=False) for arg in reversed(node.args))
                return f"({value} AT TIME ZONE {zone})"
            case "overlaps", 4:
                return f"(({args[0]}, {args[1]}) OVERLAPS ({args[2]}, {args[3]}))"
            case "extract", 2:
                field = self.form(node.args[0])
                word = field.value if isinstance(field, ir.Literal) else args[0]
                return f"EXTRACT({word} FROM {args[1]})"
            case "overlay", 3 | 4:
                length = f" FOR {args[3]}" if len(args) == 4 else ""
                return f"OVERLAY({args[0]} PLACING {args[1]} FROM {args[2]}{length})"
            case "position", 2:
                return f"POSITION(({args[1]}) IN ({args[0]}))"
            case "substring", 3 if node.args[1].type.oid == t.TEXT:
                return f"SUBSTRING({args[0]} SIMILAR {args[1]} ESCAPE {args[2]})"
            case "substring", 2 | 3 if node.args[1].type.oid != t.TEXT:
                length = f" FOR {args[2]}" if len(args) == 3 else ""
                return f"SUBSTRING({args[0]} FROM {args[1]}{length})"
            case (("btrim" | "ltrim" | "rtrim"), 1 | 2):
                where = {"btrim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}[node.name]
                characters = f" {args[1]}" if len(args) == 2 else ""
                return f"TRIM({where}{characters} FROM {args[0]})"
            case "normalize", 1 | 2:
                return f"NORMALIZE({', '.join([args[0], *self._bare_words(node.args[1:])])})"
            case "is_normalized", 1 | 2:
                value = self.inside(node.args[0], node, implicit=False)
                return f"({' '.join([value, 'IS', *self._bare_words(node.args[1:]), 'NORMALIZED'])})"
            case "pg_collation_for", 1:
                return f"COLLATION FOR ({args[0]})"
            case _:
                return None

    def _bare_words(self, nodes: Sequence[Any]) -> list[str]:
        return [str(form.value) for node in nodes if isinstance(form := self.form(node), ir.Literal)]

    # ------------------------------------------------------------ CASE

    def _case(self, node: ir.Case) -> str:
        return self._case_lines(node, None)

    def _let(self, node: ir.Let) -> str:
        held = ir.LetValue(id=node.id, type=node.value.type)
        body = transform(node.body, lambda part: node.value if part == held else None)
        return self.expr(body, implicit=True)

    def _simple_case(self, node: w.SimpleCase) -> str:
        return self._case_lines(node.case, node.subject)

    def _case_lines(self, node: ir.Case, subject: ir.Scalar | None) -> str:
        margin = "\0" + " " * self.indent
        self.indent += _INDENT
        inner = "\0" + " " * self.indent
        lines = ["CASE" if subject is None else f"CASE {self.expr(subject, implicit=True)}"]
        for when, then in node.whens:
            condition: Any = self.form(when)
            if subject is not None and isinstance(condition, ir.Call):
                condition = condition.args[1]
            test, result = self.expr(condition, implicit=False), self.expr(then, implicit=True)
            lines.append(f"WHEN {test} THEN {result}")
        otherwise = node.otherwise if node.otherwise is not None else ir.Literal(value=None, type=node.type)
        lines.append(f"ELSE {self.expr(otherwise, implicit=True)}")
        self.indent -= _INDENT
        return f"{margin}{inner.join(lines)}{margin}END"

    # ------------------------------------------------------------ what only plans hold

    def _param(self, node: ir.Param) -> str:
        return f"${node.index}"

    def _exists(self, node: ir.Exists) -> str:
        return f"{'NOT ' if node.negated else ''}EXISTS(SubPlan)"

    def _scalar_subquery(self, node: ir.ScalarSubquery) -> str:
        return "(SubPlan)"

    def _array_subquery(self, node: ir.ArraySubquery) -> str:
        return "ARRAY(SubPlan)"

    def _quantified_subquery(self, node: ir.QuantifiedSubquery) -> str:
        row = self._listed(node.args)
        compared = row if len(node.args) == 1 else f"ROW({row})"
        return f"({compared} {node.operators[0].name} {node.quantifier.upper()} (SubPlan))"


def _named(symbol: str, type_oid: int) -> str:
    """The operator that compares values of a type with each other, by its name."""
    record = base_type(type_oid)
    return symbol if record is None else shown_operator(record, symbol)


Printer.methods = {
    ir.ColumnRef: Printer._column,
    ir.Literal: Printer._literal,
    ir.Call: Printer._call,
    ir.BoolOp: Printer._logic,
    ir.IsNull: Printer._is_null,
    ir.BooleanTest: Printer._boolean_test,
    ir.Distinct: Printer._distinct,
    ir.Case: Printer._case,
    ir.Let: Printer._let,
    ir.Coalesce: Printer._coalesce,
    ir.MinMax: Printer._min_max,
    ir.InList: Printer._in_list,
    ir.QuantifiedArray: Printer._quantified,
    ir.ArrayConstructor: Printer._array,
    ir.Subscript: Printer._subscript,
    ir.RowConstructor: Printer._row,
    ir.FieldSelect: Printer._field,
    ir.Collate: Printer._collate,
    ir.SessionValue: Printer._session_value,
    ir.Param: Printer._param,
    ir.Exists: Printer._exists,
    ir.ScalarSubquery: Printer._scalar_subquery,
    ir.ArraySubquery: Printer._array_subquery,
    ir.QuantifiedSubquery: Printer._quantified_subquery,
    w.SimpleCase: Printer._simple_case,
    w.NullIf: Printer._null_if,
    w.InArray: Printer._in_array,
    w.RowComparison: Printer._row_comparison,
    w.RecordComparison: Printer._record_comparison,
    w.RowCast: Printer._row_cast,
    w.WholeRow: Printer._whole_row,
    w.FunctionCall: Printer._function,
    w.KeyWord: Printer._key_word,
    w.ItemColumn: Printer._item_column,
}

_LINE = re.compile(" *\0")
"""Where a line begins: blanks before it go."""

_ANY = Context.EXPLICIT
_CONVERSIONS = (ir.Cast, w.Conversion, ir.DomainValue)
_BINDING = {"+": 0, "-": 0, "*": 1, "/": 1, "%": 1}
_SUBPLANS = (ir.Exists, ir.QuantifiedSubquery)
_WITH_SEPARATORS = (
    ir.Subscript, ir.ArrayConstructor, ir.RowConstructor, ir.Coalesce, ir.MinMax, ir.Case, w.SimpleCase, w.NullIf,
)  # fmt: skip
"""What puts commas, brackets or key words between its parts."""


def _same_type(cast: ir.Cast) -> bool:
    """Whether a cast changes nothing but the shape that a numeric is stored in."""
    same = cast.type.oid == cast.arg.type.oid and cast.type.typmod in (-1, cast.arg.type.typmod)
    return same and cast.type.domain == cast.arg.type.domain


def _is_operator(node: Any) -> bool:
    return isinstance(node, ir.Call) and node.signature.kind is Kind.OPERATOR


def separates(parent: Any) -> bool:
    """Whether `parent` keeps its parts apart, so that they need no parentheses."""
    if isinstance(parent, w.FunctionCall):
        return not parent.sql_syntax
    return isinstance(parent, _WITH_SEPARATORS) or (isinstance(parent, ir.Call) and not _is_operator(parent))


def is_by_function(node: ir.Cast | w.Conversion | ir.DomainValue) -> bool:
    """Whether PostgreSQL converts a value by a function, also one that gives it a length."""
    return node.type.typmod >= 0 or pathway(node.arg.type.oid, node.type.oid, _ANY) == "function"


def _leaves_domain(node: ir.Cast | w.Conversion | ir.DomainValue, arg: Any) -> bool:
    """Whether `arg`, of a domain, becomes a value of the type under it: which has no modifier to PostgreSQL then."""
    inner = getattr(arg, "type", None)
    return isinstance(inner, SqlType) and bool(inner.domain) and inner.without_domain() == node.type


def _is_relabeled(node: ir.Cast | w.Conversion | ir.DomainValue) -> bool:
    """Whether a value gets its new type without a function."""
    source, target = node.arg.type.oid, node.type.oid
    return source != target and pathway(source, target, _ANY) != "function"


def literal_text(literal: ir.Literal, *, typed: bool = True) -> str:
    """A constant with its type, where its text alone would not have it (get_const_expr)."""
    oid, typmod = literal.type.oid, literal.type.typmod
    if literal.value is None:
        return f"NULL::{format_type(oid, typmod)}" if typed else "NULL"
    if oid == t.BOOL:
        return "true" if literal.value else "false"
    if oid in REG_TYPES:
        # By number: the object may get another name.
        return f"'{literal.value}'::{quote_identifier(REG_TYPES[oid])}" if typed else f"'{literal.value}'"
    value = literal.value
    if isinstance(value, ArrayValue) and set(lower_bounds_of(value.dims)) == {1}:
        value = value.nested()
    kept = value_to_keep(value, literal.type)
    if kept is not None:
        return kept
    text = format_text(literal.value, literal.type, output_settings())
    bare = (oid == t.INT4 and text[0] != "-") or (oid == t.NUMERIC and text[0].isdigit() and "." in text)
    if bare and (oid == t.INT4 or typmod < 0):
        return text
    quoted = text if bare else "'" + text.replace("'", "''") + "'"
    return f"{quoted}::{format_type(oid, typmod)}" if typed and oid != t.UNKNOWN else quoted
