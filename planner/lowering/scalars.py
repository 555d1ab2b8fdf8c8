"""Scalar expressions to SQL text.

Every expression is printed so that its engine type is the physical type of its `SqlType`; parentheses always enclose
what has an operator. Conditions are three-valued as in SQL; `condition` is for places where NULL counts as false.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from planner.dialects.comparison_keys import AS_IT_IS, OPERATORS, equality_key, order_key
from planner.dialects.quoting import quoted
from planner.errors import InternalError
from planner.functions.defaults import DEFAULTS, VARIADIC_ARRAYS
from planner.functions.engines.spark import portable
from planner.functions.forms.form import NOT_CONSTANT, CallSite, Form
from planner.functions.registry import form, output_columns
from planner.ir import nodes as ir
from planner.ir.physical import element_type
from planner.lowering.casts import cast_sql
from planner.lowering.context import Context, is_simple
from planner.lowering.protocols import RelationLowering
from planner.lowering.templates import fill
from planner.lowering.text_output import json_object, json_template, output_template, text_template
from planner.types import types
from planner.types.signature import Kind, Signature
from planner.types.types import REG_TYPES, SqlType

_CONVERSION = re.compile(r"\{(text|cast|json|pretty|element_text):(\d+)\}")

BOOLEAN = SqlType(types.BOOL)
CONSTANTS_BESIDE = frozenset({
    types.INT2, types.INT4, types.INT8, types.FLOAT8, types.TEXT, types.VARCHAR, types.BPCHAR, types.DATE,
    types.TIMESTAMP, types.TIMESTAMPTZ, types.UUID,
})  # fmt: skip
"""Types whose constants can be columns of a scan. numeric is not among them: a literal's scale is part of its type."""

MAX_CHARS_BESIDE = 1_000
"""Longer constants are part of the text: what is computed of them is computed for every row."""

MAX_ITEMS_BESIDE = 16
"""Longer lists are part of the text: the engine looks constants up faster than columns."""


class Scalars:
    """The scalar half of a lowering; `relations` lowers the subqueries."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.relations: RelationLowering

    def sql(self, expr: ir.Scalar) -> str:
        """The expression's SQL."""
        return _HANDLERS[expr.__class__](self, expr)

    def typed(self, expr: ir.Scalar, type: SqlType) -> str:
        """The expression's SQL in the physical type of `type`, which differs from its own at most in numeric shape."""
        if isinstance(expr, ir.Literal) and expr.type.shape != type.shape:
            return self.ctx.dialect.literal(expr.value, type)
        sql = self.sql(expr)
        own = expr.type
        if own.shape != type.shape and (own.shape is None or type.shape is None or _differs(own, type)):
            return self.ctx.dialect.cast(sql, type)
        return sql

    def key(self, sql: str, type: SqlType) -> str:
        """What PostgreSQL orders values of `type` by: bpchar without trailing blanks, interval as a duration."""
        return self._keyed(order_key(type, self.ctx.engine), sql)

    def same(self, sql: str, type: SqlType) -> str:
        """What equal values of exactly `type` have in common."""
        return self._keyed(equality_key(type, self.ctx.engine), sql)

    def _comparable(self, sql: str, type: SqlType) -> str:
        """What a value of `type` has in common with equal ones that may have another modifier."""
        return self.same(sql, type.without_typmod())

    def compares_as_it_is(self, type: SqlType) -> bool:
        """Whether equal values of `type` are the same to the engine."""
        return equality_key(type, self.ctx.engine) == AS_IT_IS

    def _keyed(self, template: str, sql: str) -> str:
        if template == AS_IT_IS:
            return sql
        return fill(self.ctx, self.ctx.python(template) if template.startswith("tg_") else template, [sql])

    def condition(self, expr: ir.Scalar) -> str:
        """The expression where only true matters (WHERE, ON, FILTER): IN (subquery) may become a semi-join."""
        if isinstance(expr, ir.BoolOp) and expr.op in ("and", "or"):
            joiner = " AND " if expr.op == "and" else " OR "
            return f"({joiner.join([self.condition(arg) for arg in expr.args])})"
        if isinstance(expr, ir.QuantifiedSubquery):
            return self._quantified_subquery(expr, exact=False)
        if isinstance(expr, ir.BoolOp) and expr.op == "not" and isinstance(expr.args[0], ir.QuantifiedSubquery):
            return self.condition(_negated(expr.args[0])) if _negatable(expr.args[0]) else self.sql(expr)
        if isinstance(expr, ir.Exists):
            return self._exists(expr)
        return self.sql(expr)

    def conjuncts(self, expr: ir.Scalar) -> list[str]:
        """The conditions that `expr` is the AND of."""
        if isinstance(expr, ir.BoolOp) and expr.op == "and":
            return [sql for arg in expr.args for sql in self.conjuncts(arg)]
        return [self.condition(expr)]

    def call(self, signature: Signature, args: Sequence[str], arg_types: Sequence[SqlType], type: SqlType) -> str:
        """A call with arguments that are SQL already."""
        constants = (NOT_CONSTANT,) * len(args)
        return self.apply(signature, args, CallSite(
            engine=self.ctx.engine, arg_types=tuple(arg_types), type=type, constants=constants,
            settings=self.ctx.settings,
        ))  # fmt: skip

    # ------------------------------------------------------------ leaves

    def _literal(self, expr: ir.Literal) -> str:
        return self._constant(expr.value, expr.type)

    def _param(self, expr: ir.Param) -> str:
        if self.ctx.params is None:
            return self.ctx.dialect.null(expr.type)
        return self._constant(self.ctx.value(expr), expr.type)

    def _constant(self, value: object, type: SqlType) -> str:
        """A literal. The name of a catalog object, as a parameter of a reg* type has it, is looked up by the engine."""
        if isinstance(value, str) and type.oid in REG_TYPES:
            token = self.ctx.dialect.string(self.ctx.settings.token)
            return f"tg_{REG_TYPES[type.oid]}_in({token}, {self.ctx.dialect.string(value)})"
        return self.ctx.dialect.literal(value, type)

    def _column(self, expr: ir.ColumnRef) -> str:
        try:
            return self.ctx.columns[expr.id]
        except KeyError:
            raise InternalError(f"column {expr.id} is not in scope") from None

    def _session_value(self, expr: ir.SessionValue) -> str:
        if self.ctx.params is None:
            return self.ctx.dialect.null(expr.type)
        raise InternalError(f"session value {expr.name} was not substituted")

    # ------------------------------------------------------------ calls

    def _call(self, expr: ir.Call) -> str:
        constants: tuple[object, ...] = (NOT_CONSTANT, NOT_CONSTANT)
        if expr.type.oid == types.RECORD and output_columns(expr.signature) is not None:
            raise self.ctx.unsupported(f"function {expr.signature.name} outside of FROM")
        compares = expr.signature.kind is Kind.OPERATOR and expr.signature.name in OPERATORS
        args = self._beside_column(*expr.args) if compares else None
        if args is None:
            constants = tuple([self.constant(arg) for arg in expr.args])
            args = [self.sql(arg) for arg in expr.args]
        site = CallSite(
            engine=self.ctx.engine, arg_types=tuple([arg.type for arg in expr.args]), type=expr.type,
            constants=constants, settings=self.ctx.settings, subquery=any("SELECT" in arg for arg in args),
        )  # fmt: skip
        return self.apply(expr.signature, args, site, expr.args)

    def _beside_column(self, left: ir.Scalar, right: ir.Scalar) -> list[str] | None:
        """Both sides of a comparison of a scanned column with a constant that the column's source can hold, so that the
        text, and the engine's plan for it, is the same for every constant. None for others.

        SUBTLE: where an outer join puts NULLs in place of the scan's row, the constant is NULL too. That is right only
        for what gives NULL whenever the column is NULL: not for IS DISTINCT FROM.
        """
        if not self.ctx.scans:
            return None
        for constant, column in ((left, right), (right, left)):
            if isinstance(constant, (ir.Literal, ir.Param)) and isinstance(column, (ir.ColumnRef, ir.Cast)):
                sql = self.sql(column)
                held = self._beside(sql, (constant,))
                if held is None:
                    return None
                return [*held, sql] if constant is left else [sql, *held]
        return None

    def _beside(self, column: str, constants: Sequence[ir.Scalar]) -> list[str] | None:
        """The columns of the source of `column` that hold `constants`; None when it can hold none, or not all."""
        given = [constant for constant in constants if isinstance(constant, (ir.Literal, ir.Param))]
        if len(given) < len(constants) or not all(_can_stand_beside(constant) for constant in given):
            return None
        return self.ctx.beside(column, given)

    def constant(self, expr: ir.Scalar) -> object:
        """The value of a literal or of a bound parameter; `NOT_CONSTANT` for everything else."""
        if isinstance(expr, ir.Literal):
            return expr.value
        if isinstance(expr, ir.Param) and self.ctx.params is not None:
            return self.ctx.value(expr)
        if isinstance(expr, ir.Cast) and expr.arg.type.shape is None and expr.type.oid in (types.TEXT, types.VARCHAR):
            inner = self.constant(expr.arg)
            return inner if isinstance(inner, str) and expr.type.typmod < 0 else NOT_CONSTANT
        return NOT_CONSTANT

    def template(self, signature: Signature, site: CallSite) -> str:
        """The template by which this engine says a routine; FeatureNotSupported when it cannot."""
        given: Form | None = form(signature)
        chosen = None if given is None else given.local if self.ctx.local else given.spark
        template = chosen(site) if callable(chosen) else chosen
        if template is None and given is not None and not self.ctx.local:
            template = self._in_python(signature, given, site)
        if template is None:
            raise self.ctx.unsupported(f"{signature.kind.value.replace('_', '-')} {signature.name}")
        return template

    def _in_python(self, signature: Signature, given: Form, site: CallSite) -> str | None:
        """Spark's template that calls the local engine's functions, where it can. Spark allows them in no lambda."""
        if signature.kind not in (Kind.FUNCTION, Kind.OPERATOR, Kind.SET_RETURNING):
            return None
        chosen = given.local
        local = chosen(replace(site, engine="local")) if callable(chosen) else chosen
        return None if local is None else portable(local)

    def apply(self, signature: Signature, args: Sequence[str], site: CallSite, exprs: Sequence[ir.Scalar] = ()) -> str:
        args, site = self._complete(signature, args, site)
        template = self.template(signature, site)
        if "{t}" in template:
            template = template.replace("{t}", self.ctx.dialect.type_name(site.type))
        if "{token}" in template:
            template = template.replace("{token}", quoted(self.ctx.dialect.string(site.settings.token)))
        template, args = self.expand(template, args, site.arg_types, exprs)
        return fill(self.ctx, template, args)

    def _complete(self, signature: Signature, args: Sequence[str], site: CallSite) -> tuple[Sequence[str], CallSite]:
        """Arguments with those left out filled in by their defaults, and those of a VARIADIC array put into one."""
        if signature.variadic and signature.oid in VARIADIC_ARRAYS:
            first, array_oid = VARIADIC_ARRAYS[signature.oid]
            if len(args) > first and site.arg_types[first].oid != array_oid:
                array = SqlType(array_oid)
                items = self.ctx.dialect.cast(self.ctx.dialect.array(args[first:]), array)
                values = site.constants[first:]
                constant = NOT_CONSTANT if NOT_CONSTANT in values else values
                return [*args[:first], items], replace(
                    site, arg_types=(*site.arg_types[:first], array), constants=(*site.constants[:first], constant)
                )
        given = DEFAULTS.get(signature.oid)
        if given is None or len(args) >= given[0]:
            return args, site
        missing = given[1][len(args) - given[0] :]
        return [*args, *[self.ctx.dialect.literal(value, type) for value, type in missing]], replace(
            site,
            arg_types=(*site.arg_types, *[type for _, type in missing]),
            constants=(*site.constants, *[value for value, _ in missing]),
        )

    def expand(
        self, template: str, args: Sequence[str], types_: Sequence[SqlType], exprs: Sequence[ir.Scalar] = ()
    ) -> tuple[str, list[str]]:
        """Resolves the marks that convert an argument: ``{text:i}`` by its output function,
        ``{cast:i}`` by a cast to text, ``{json:i}`` to JSON, ``{pretty:i}`` to JSON with line breaks,
        ``{element_text:i}`` (the element ``e`` of array i as text). `exprs` are the arguments, where they are known:
        the members of a row have their names from there."""
        extended = list(args)

        def converted(match: re.Match[str]) -> str:
            index = int(match[2])
            if match[1] == "element_text":
                element = element_type(types_[index])
                assert element is not None
                return fill(self.ctx, output_template(self.ctx, element), ["e"])
            if match[1] in ("json", "pretty"):
                pretty = match[1] == "pretty"
                if index < len(exprs) and isinstance(exprs[index], ir.RowConstructor):
                    extended.append(self.json(exprs[index], pretty=pretty))
                else:
                    made = json_template(self.ctx, types_[index], pretty=pretty)
                    extended.append(fill(self.ctx, made, [args[index]]))
                return f"{{{len(extended) - 1}}}"
            maker = {"text": output_template, "cast": text_template}[match[1]]
            extended.append(fill(self.ctx, maker(self.ctx, types_[index]), [args[index]]))
            return f"{{{len(extended) - 1}}}"

        return _CONVERSION.sub(converted, template), extended

    def json(self, expr: ir.Scalar, *, pretty: bool = False) -> str:
        """The expression as JSON text; SQL NULL stays NULL."""
        if not isinstance(expr, ir.RowConstructor):
            return fill(self.ctx, json_template(self.ctx, expr.type, pretty=pretty), [self.sql(expr)])
        members = [(name, self.json(item)) for name, item in zip(expr.names, expr.items, strict=True)]
        return self._unless_absent(expr, json_object(self.ctx, members, pretty=pretty))

    def _unless_absent(self, expr: ir.RowConstructor, text: str) -> str:
        """`text`, or NULL where the row is what an outer join puts in place of a missing one."""
        if not expr.nullable or not expr.items:
            return text
        present = " OR ".join([f"{self.sql(item)} IS NOT NULL" for item in expr.items])
        return f"CASE WHEN {present} THEN {text} END"

    def _cast(self, expr: ir.Cast) -> str:
        arg = expr.arg
        if isinstance(arg, ir.Literal) and arg.value is None:
            return self.ctx.dialect.null(expr.type)
        return cast_sql(self.ctx, self.sql(arg), arg.type, expr.type, explicit=expr.explicit)

    # ------------------------------------------------------------ logic

    def _bool_op(self, expr: ir.BoolOp) -> str:
        if expr.op == "not":
            return f"(NOT {self.sql(expr.args[0])})"
        joiner = " AND " if expr.op == "and" else " OR "
        return f"({joiner.join([self.sql(arg) for arg in expr.args])})"

    def _is_null(self, expr: ir.IsNull) -> str:
        return f"({self.sql(expr.arg)} IS {'NOT ' if expr.negated else ''}NULL)"

    def _boolean_test(self, expr: ir.BooleanTest) -> str:
        word = "NULL" if expr.test == "unknown" else expr.test.upper()
        return f"({self.sql(expr.arg)} IS {'NOT ' if expr.negated else ''}{word})"

    def _distinct(self, expr: ir.Distinct) -> str:
        left = self._comparable(self.sql(expr.left), expr.left.type)
        right = self._comparable(self.sql(expr.right), expr.right.type)
        if self.ctx.local:
            return f"({left} IS {'NOT ' if expr.negated else ''}DISTINCT FROM {right})"
        return f"({left} <=> {right})" if expr.negated else f"(NOT ({left} <=> {right}))"

    def _case(self, expr: ir.Case) -> str:
        whens = "".join(
            [f" WHEN {self.sql(condition)} THEN {self.typed(value, expr.type)}" for condition, value in expr.whens]
        )
        otherwise = (
            self.ctx.dialect.null(expr.type) if expr.otherwise is None else self.typed(expr.otherwise, expr.type)
        )
        return f"CASE{whens} ELSE {otherwise} END"

    def _coalesce(self, expr: ir.Coalesce) -> str:
        return f"coalesce({', '.join([self.typed(arg, expr.type) for arg in expr.args])})"

    def _min_max(self, expr: ir.MinMax) -> str:
        args = [self.typed(arg, expr.type) for arg in expr.args]
        if len(args) == 1:
            return args[0]
        if self.key("x", expr.type) == "x":
            return f"{expr.op}({', '.join(args)})"
        result = args[0]
        sign = ">=" if expr.op == "greatest" else "<="
        left, right = self.key("{0}", expr.type), self.key("{1}", expr.type)
        for arg in args[1:]:
            body = f"CASE WHEN {{1}} IS NULL OR {left} {sign} {right} THEN {{0}} ELSE {{1}} END"
            result = fill(self.ctx, body, [result, arg])
        return result

    def _in_list(self, expr: ir.InList) -> str:
        same = expr.equals.args[0] == expr.equals.args[1] or set(expr.equals.args) <= {
            types.INT2, types.INT4, types.INT8, types.TEXT, types.NAME
        }  # fmt: skip
        word = "NOT IN" if expr.negated else "IN"
        if same:
            arg = self.sql(expr.arg)
            held = self._beside(arg, expr.items) if len(expr.items) <= MAX_ITEMS_BESIDE else None
            sqls = held or [self.sql(item) for item in expr.items]
            items = [self._comparable(sql, item.type) for sql, item in zip(sqls, expr.items, strict=True)]
            return f"({self._comparable(arg, expr.arg.type)} {word} ({', '.join(items)}))"
        arg = self.sql(expr.arg)
        tests = [
            self.call(expr.equals, [arg, self.sql(item)], [expr.arg.type, item.type], BOOLEAN) for item in expr.items
        ]
        return f"({'NOT ' if expr.negated else ''}({' OR '.join(tests)}))"

    # ------------------------------------------------------------ arrays and rows

    def _quantified_array(self, expr: ir.QuantifiedArray) -> str:
        element = element_type(expr.array.type)
        assert element is not None
        items = self._array_items(expr.array)
        arg = self.sql(expr.arg)
        if items is not None and items and is_simple(arg):
            tests = [
                self.call(expr.operator, [arg, self.sql(item)], [expr.arg.type, item.type], BOOLEAN) for item in items
            ]
            return f"({(' OR ' if expr.quantifier == 'any' else ' AND ').join(tests)})"
        array = self.sql(expr.array)
        if self.ctx.local and "SELECT" in arg:
            # A lambda cannot hold a subquery.
            name = self.ctx.variable()
            body = self._any_of(expr, f"{name}.a0", f"{name}.a1", element)
            return self.ctx.dialect.let(f"{{'a0': {arg}, 'a1': {array}}}", name, body)
        return self._any_of(expr, arg, array, element)

    def _any_of(self, expr: ir.QuantifiedArray, arg: str, array: str, element: SqlType) -> str:
        name = self.ctx.variable()
        test = self.call(expr.operator, [arg, name], [expr.arg.type, element], BOOLEAN)
        if not self.ctx.local:
            return f"{'exists' if expr.quantifier == 'any' else 'forall'}({array}, {name} -> {test})"
        decisive, other = ("TRUE", "FALSE") if expr.quantifier == "any" else ("FALSE", "TRUE")
        tests_sql = f"list_transform({array}, lambda {name}: {test})"
        return fill(
            self.ctx,
            f"CASE WHEN {{0}} IS NULL THEN NULL WHEN list_contains({{0}}, {decisive}) THEN {decisive} "
            f"WHEN len({{0}}) > len(list_filter({{0}}, lambda {name}: {name} IS NOT NULL)) THEN NULL ELSE {other} END",
            [tests_sql],
        )

    def _array_items(self, expr: ir.Scalar) -> Sequence[ir.Scalar] | None:
        if isinstance(expr, ir.ArrayConstructor):
            return expr.items
        if isinstance(expr, ir.Cast) and isinstance(expr.arg, ir.ArrayConstructor):
            element = element_type(expr.type)
            if element is None or any(element_type(item.type) is not None for item in expr.arg.items):
                return None
            return [ir.Cast(arg=item, type=element, explicit=expr.explicit) for item in expr.arg.items]
        if isinstance(expr, (ir.Literal, ir.Param)):
            value = self.constant(expr)
            element = element_type(expr.type)
            if isinstance(value, (tuple, list)) and element is not None:
                if any(isinstance(item, (tuple, list)) for item in value):
                    return None
                return [ir.Literal(value=item, type=element) for item in value]
        return None

    def _array(self, expr: ir.ArrayConstructor) -> str:
        element = element_type(expr.type)
        assert element is not None
        if any(element_type(item.type) is not None and item.type.oid == expr.type.oid for item in expr.items):
            raise self.ctx.unsupported("a multidimensional array")
        items = self.ctx.dialect.array([self.typed(item, element) for item in expr.items])
        return self.ctx.dialect.cast(items, expr.type)

    def _subscript(self, expr: ir.Subscript) -> str:
        zero_based = expr.arg.type.oid in (types.INT2VECTOR, types.OIDVECTOR, types.NAME)
        array = self.sql(expr.arg)
        if expr.slice:
            return self._slice(array, expr)
        assert expr.index is not None
        index = self.sql(expr.index)
        constant = self.constant(expr.index)
        if self.ctx.local:
            position = f"{index} + 1" if zero_based else index
            if isinstance(constant, int) and constant + zero_based >= 1:
                return f"({array})[{position}]"
            return fill(
                self.ctx,
                f"CASE WHEN {{1}} >= {0 if zero_based else 1} THEN ({{0}})[{{1}}{' + 1' if zero_based else ''}] END",
                [array, index],
            )
        return f"get({array}, {index if zero_based else index + ' - 1'})"

    def _slice(self, array: str, expr: ir.Subscript) -> str:
        lower = "1" if expr.index is None else f"greatest({self.sql(expr.index)}, 1)"
        if self.ctx.local:
            upper = f"len({array})" if expr.upper is None else self.sql(expr.upper)
            return fill(
                self.ctx,
                f"CASE WHEN {{2}} < {{1}} THEN CAST([] AS {self.ctx.dialect.type_name(expr.type)}) ELSE"
                " list_slice({0}, {1}, {2}) END",
                [array, lower, upper],
            )
        upper = f"size({array})" if expr.upper is None else self.sql(expr.upper)
        return fill(self.ctx, "slice({0}, {1}, greatest({2} - {1} + 1, 0))", [array, lower, upper])

    def _row(self, expr: ir.RowConstructor) -> str:
        from planner.lowering.text_output import record_text

        text = record_text(self.ctx, [(self.sql(item), item.type) for item in expr.items])
        return self._unless_absent(expr, text)

    def _field(self, expr: ir.FieldSelect) -> str:
        if isinstance(expr.arg, ir.RowConstructor) and expr.name in expr.arg.names:
            return self.typed(expr.arg.items[expr.arg.names.index(expr.name)], expr.type)
        if not self.ctx.local:
            raise self.ctx.unsupported("selecting a field of a composite value")
        text = f"tg_record_field({self.sql(expr.arg)}, {expr.index})"
        return cast_sql(self.ctx, text, SqlType(types.TEXT), expr.type, explicit=True)

    # ------------------------------------------------------------ subqueries

    def _scalar_subquery(self, expr: ir.ScalarSubquery) -> str:
        return f"({self.relations.subquery(expr.rel)})"

    def _exists(self, expr: ir.Exists) -> str:
        return f"({'NOT ' if expr.negated else ''}EXISTS ({self.relations.subquery(expr.rel)}))"

    def _quantified_subquery(self, expr: ir.QuantifiedSubquery, exact: bool = True) -> str:
        names = [operator.name for operator in expr.operators]
        fields = expr.rel.fields
        key = self._comparable if set(names) <= {"=", "<>"} else self.key
        args = [key(self.sql(arg), arg.type) for arg in expr.args]
        alias = self.ctx.alias()
        inner = f"({self.relations.subquery(expr.rel)}) AS {alias}"
        columns = [key(f"{alias}.c{field.id}", field.type) for field in fields]
        left = args[0] if len(args) == 1 else f"({', '.join(args)})"
        membership = (expr.quantifier == "any" and all(name == "=" for name in names)) or (
            expr.quantifier == "all" and all(name == "<>" for name in names)
        )
        if membership and (self.ctx.local or not exact):
            word = "IN" if expr.quantifier == "any" else "NOT IN"
            return f"({left} {word} (SELECT {', '.join(columns)} FROM {inner}))"
        if self.ctx.local and len(args) == 1 and names[0] in ("=", "<>", "<", ">", "<=", ">="):
            return f"({left} {names[0]} {expr.quantifier.upper()} (SELECT {columns[0]} FROM {inner}))"
        return self._collected_subquery(expr, inner, alias)

    def _collected_subquery(self, expr: ir.QuantifiedSubquery, inner: str, alias: str) -> str:
        """The three-valued answer from three counts: a scalar subquery over the comparison of each row."""
        fields = expr.rel.fields
        tests = [
            self.call(operator, [self.sql(arg), f"{alias}.c{field.id}"], [arg.type, field.type], BOOLEAN)
            for operator, arg, field in zip(expr.operators, expr.args, fields, strict=True)
        ]
        any_ = expr.quantifier == "any"
        row_joiner = " OR " if len(tests) > 1 and all(operator.name == "<>" for operator in expr.operators) else " AND "
        test = f"({row_joiner.join(tests)})"
        decisive = "TRUE" if any_ else "FALSE"
        if self.ctx.local:
            return (
                f"(SELECT CASE WHEN coalesce(bool_or({test} IS {decisive}), FALSE) THEN {decisive} "
                f"WHEN coalesce(bool_or({test} IS NULL), FALSE) THEN NULL ELSE {'FALSE' if any_ else 'TRUE'} END "
                f"FROM {inner})"
            )
        negation = "" if any_ else "NOT "
        found = f"EXISTS (SELECT 1 FROM {inner} WHERE {negation}{test})"
        unknown = f"EXISTS (SELECT 1 FROM {inner} WHERE {test} IS NULL)"
        return f"CASE WHEN {found} THEN {decisive} WHEN {unknown} THEN NULL ELSE {'FALSE' if any_ else 'TRUE'} END"

    def _array_subquery(self, expr: ir.ArraySubquery) -> str:
        column = expr.rel.fields[0]
        alias = self.ctx.alias()
        sql = self.relations.subquery(expr.rel)
        empty = self.ctx.dialect.cast(self.ctx.dialect.array([]), expr.type)
        if self.ctx.local:
            return f"(SELECT coalesce(list({alias}.c{column.id}), {empty}) FROM ({sql}) AS {alias})"
        name = self.ctx.variable()
        collected = f"collect_list(named_struct('v', {alias}.c{column.id}))"
        return f"(SELECT transform({collected}, {name} -> {name}.v) FROM ({sql}) AS {alias})"


def _negatable(expr: ir.QuantifiedSubquery) -> bool:
    return len(expr.operators) == 1 and expr.quantifier == "any" and expr.operators[0].name == "="


def _can_stand_beside(constant: ir.Literal | ir.Param) -> bool:
    """Whether a column of a scan may hold `constant`. The answer is the same for all values of a parameter."""
    if isinstance(constant, ir.Param):
        # Nothing is computed of the other types: see `Scalars.key`.
        return constant.type.oid in CONSTANTS_BESIDE and constant.type.oid != types.BPCHAR
    long = isinstance(constant.value, str) and len(constant.value) > MAX_CHARS_BESIDE
    return constant.type.oid in CONSTANTS_BESIDE and not long


def _negated(expr: ir.QuantifiedSubquery) -> ir.Scalar:
    from msgspec.structs import replace

    from planner.functions.registry import operators

    equals = expr.operators[0]
    unequal = next((candidate for candidate in operators("<>") if candidate.args == equals.args), None) or replace(
        equals, name="<>"
    )
    return replace(expr, operators=(unequal,), quantifier="all")


def _differs(own: SqlType, wanted: SqlType) -> bool:
    assert own.shape is not None
    assert wanted.shape is not None
    return (own.shape.precision, own.shape.scale) != (wanted.shape.precision, wanted.shape.scale)


_HANDLERS: dict[type, Callable[[Scalars, Any], str]] = {
    ir.Literal: Scalars._literal,
    ir.Param: Scalars._param,
    ir.ColumnRef: Scalars._column,
    ir.SessionValue: Scalars._session_value,
    ir.Call: Scalars._call,
    ir.Cast: Scalars._cast,
    ir.BoolOp: Scalars._bool_op,
    ir.IsNull: Scalars._is_null,
    ir.BooleanTest: Scalars._boolean_test,
    ir.Distinct: Scalars._distinct,
    ir.Case: Scalars._case,
    ir.Coalesce: Scalars._coalesce,
    ir.MinMax: Scalars._min_max,
    ir.InList: Scalars._in_list,
    ir.QuantifiedArray: Scalars._quantified_array,
    ir.ArrayConstructor: Scalars._array,
    ir.Subscript: Scalars._subscript,
    ir.RowConstructor: Scalars._row,
    ir.FieldSelect: Scalars._field,
    ir.ScalarSubquery: Scalars._scalar_subquery,
    ir.Exists: Scalars._exists,
    ir.QuantifiedSubquery: Scalars._quantified_subquery,
    ir.ArraySubquery: Scalars._array_subquery,
    ir.Collate: lambda scalars, expr: scalars.sql(expr.arg),
}
