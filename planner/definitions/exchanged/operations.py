"""The functions, operators and casts that have a counterpart in Spark's and Trino's SQL which surely means the same.

What is not here is refused by its name. Arithmetic that is an error in PostgreSQL (an overflow, a division by zero) is
one in Spark in ANSI mode, which is its default since version 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from planner.definitions.exchanged.dialects import FLOATS, TEXTS, WHOLE, Dialect, digits, not_vouched
from planner.ir import nodes as ir
from planner.types import types as t
from planner.types.signature import COMPARISONS, Kind, Signature
from planner.types.type_names import format_type
from planner.types.types import MAX_DECIMAL_PRECISION, SqlType

_Args: TypeAlias = Sequence[str]
_COMPARABLE = frozenset({t.BOOL, t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ})
GROUPABLE = WHOLE | TEXTS | _COMPARABLE | {t.NUMERIC}
"""Types whose values are the same, and in the same order, everywhere: floats are not, for NaN and -0."""


def called(signature: Signature) -> str:
    """How messages name a function or operator."""
    args = ", ".join(format_type(oid, -1) for oid in signature.args)
    return f"{'operator' if signature.kind is Kind.OPERATOR else 'function'} {signature.name}({args})"


def check_groupable(type: SqlType, what: str) -> None:
    """0A000 for a type by whose values nothing can be told apart or sorted; `what` does it."""
    if type.oid not in GROUPABLE or type.domain:
        raise not_vouched(f"{what} of type {format_type(type.declared_oid, type.typmod)}")
    if type.oid == t.NUMERIC:
        digits(type)


def compared(dialect: Dialect, name: str, left: SqlType, right: SqlType, a: str, b: str, what: str) -> str:
    """A comparison of two values. Raises 0A000."""
    if left.oid in FLOATS and left.oid == right.oid:
        return f"({a} {name} {b})" if dialect.is_spark else _floats_of_trino(name, a, b)
    same = left.oid == right.oid and left.oid in _COMPARABLE
    if not (same or (left.oid in WHOLE and right.oid in WHOLE) or (left.oid in TEXTS and right.oid in TEXTS)):
        if left.oid != t.NUMERIC or right.oid != t.NUMERIC:
            raise not_vouched(what)
        (p1, s1), (p2, s2) = digits(left), digits(right)
        if max(p1 - s1, p2 - s2) + max(s1, s2) > MAX_DECIMAL_PRECISION:
            raise not_vouched(f"{what} of so many digits")
    return f"({a} {name} {b})"


def _floats_of_trino(name: str, a: str, b: str) -> str:
    """NaN is equal to itself and greater than all others in PostgreSQL and Spark, and nothing in Trino."""
    equal = f"({a} = {b} OR (is_nan({a}) AND is_nan({b})))"

    def less(one: str, other: str) -> str:
        return f"({one} < {other} OR (is_nan({other}) AND NOT is_nan({one})))"

    texts = {
        "=": equal, "<>": f"(NOT {equal})", "<": less(a, b), ">": less(b, a), "<=": f"(NOT {less(b, a)})",
        ">=": f"(NOT {less(a, b)})",
    }  # fmt: skip
    return texts[name]


def call_text(dialect: Dialect, node: ir.Call, args: _Args) -> str:
    """A call of a function or an operator. Raises 0A000."""
    signature = node.signature
    types = [arg.type for arg in node.args]
    oids = tuple(type.oid for type in types)
    if any(type.domain for type in types):
        raise not_vouched(called(signature))
    if signature.kind is Kind.OPERATOR:
        if signature.name in COMPARISONS and len(args) == 2:
            return compared(dialect, signature.name, types[0], types[1], args[0], args[1], called(signature))
        return _operation(dialect, node, oids, args)
    return _function(dialect, node, oids, args)


def _operation(dialect: Dialect, node: ir.Call, oids: tuple[int, ...], args: _Args) -> str:
    name, type = node.signature.name, node.type
    match name, oids:
        case "-", (oid,) if oid in WHOLE | FLOATS:
            return f"(-{args[0]})"
        case "-", (t.NUMERIC,):
            digits(type)
            return f"(-{args[0]})"
        case "+" | "-" | "*", (one, other) if one in WHOLE and other in WHOLE:
            return f"({args[0]} {name} {args[1]})"
        case "+" | "-" | "*" | "/", (one, other) if one in FLOATS and one == other:
            return f"({args[0]} {name} {args[1]})"
        case "/", (one, other) if one in WHOLE and other in WHOLE:
            if dialect.is_spark:
                return f"CAST({args[0]} DIV {args[1]} AS {dialect.type(type)})"
            return f"({args[0]} / {args[1]})"
        case "%", (one, other) if one in WHOLE and other in WHOLE:
            return f"({args[0]} % {args[1]})"
        case "+" | "-" | "*", (t.NUMERIC, t.NUMERIC):
            (p1, s1), (p2, s2) = digits(node.args[0].type), digits(node.args[1].type)
            most = p1 + p2 + 1 if name == "*" else max(p1 - s1, p2 - s2) + max(s1, s2) + 1
            if most > MAX_DECIMAL_PRECISION:
                raise not_vouched(f"{called(node.signature)} of so many digits")
            return f"CAST(({args[0]} {name} {args[1]}) AS {dialect.type(type)})"
        case "||", (one, other) if one in TEXTS and other in TEXTS:
            return f"({args[0]} || {args[1]})"
        case "~~" | "!~~", (one, _) if one in TEXTS:
            pattern = node.args[1]
            if isinstance(pattern, ir.Literal) and isinstance(pattern.value, str) and "\\" not in pattern.value:
                return f"({args[0]} {'NOT ' if name == '!~~' else ''}LIKE {args[1]})"
            raise not_vouched("LIKE of a pattern that is no constant, or has a backslash,")
        case "+" | "-", (t.DATE, t.INT4):
            if dialect.is_spark:
                return f"{'date_add' if name == '+' else 'date_sub'}({args[0]}, {args[1]})"
            return f"date_add('day', {'-' if name == '-' else ''}({args[1]}), {args[0]})"
        case "-", (t.DATE, t.DATE):
            if dialect.is_spark:
                return f"datediff({args[0]}, {args[1]})"
            return f"CAST(date_diff('day', {args[1]}, {args[0]}) AS INTEGER)"
        case _:
            raise not_vouched(called(node.signature))


def _function(dialect: Dialect, node: ir.Call, oids: tuple[int, ...], args: _Args) -> str:
    name, type = node.signature.name, node.type
    match name, oids:
        case "abs", (oid,) if oid in WHOLE | FLOATS:
            return f"abs({args[0]})"
        case "abs", (t.NUMERIC,):
            return f"CAST(abs({args[0]}) AS {dialect.type(type)})"
        case "round" | "floor" | "ceil" | "ceiling", (t.NUMERIC, *more):
            return _rounded(dialect, node, args[0], "round" if more else name)
        case "length" | "char_length" | "character_length", (oid,) if oid in TEXTS:
            return f"CAST(length({args[0]}) AS {dialect.type(type)})"
        case "replace", (one, _, _) if one in TEXTS and _constant(node.args[1]) not in (None, ""):
            return f"replace({args[0]}, {args[1]}, {args[2]})"
        case "substr" | "substring", (one, *_) if one in TEXTS and _counts(node.args[1:]):
            return f"{'substring' if dialect.is_spark else 'substr'}({', '.join(args)})"
        case "extract" | "date_part", (_, oid) if oid in (t.DATE, t.TIMESTAMP):
            field = str(_constant(node.args[0])).lower()
            function = _FIELDS.get(field)
            if function is not None and (oid == t.TIMESTAMP or field not in ("hour", "minute")):
                return f"CAST({function}({args[1]}) AS {dialect.type(type)})"
            raise not_vouched(f"{name} of {field}")
        case _:
            raise not_vouched(called(node.signature))


_FIELDS = {name: name for name in ("year", "quarter", "month", "day", "hour", "minute")}


def _constant(node: ir.Scalar) -> object:
    return node.value if isinstance(node, ir.Literal) else None


def _counts(nodes: Sequence[ir.Scalar]) -> bool:
    """Whether these are a place from 1 on and a length, as constants."""
    values = [_constant(node) for node in nodes]
    return all(isinstance(value, int) and value >= 0 for value in values) and values[0] != 0


def _rounded(dialect: Dialect, node: ir.Call, arg: str, name: str) -> str:
    """ROUND, FLOOR and CEIL of a numeric; a cast to fewer digits rounds half away from zero in all three."""
    digits(node.args[0].type)
    if name == "round":
        places = _constant(node.args[1]) if len(node.args) == 2 else 0
        if not isinstance(places, int) or places < 0:
            raise not_vouched("round to places that are no constant, or before the point,")
        inner = arg
    else:
        inner = f"{'floor' if name == 'floor' else 'ceil'}({arg})"
    return f"CAST({inner} AS {dialect.type(node.type)})"


def cast_text(dialect: Dialect, source: SqlType, target: SqlType, arg: str) -> str:
    """A conversion. Raises 0A000."""
    what = f"a cast from {format_type(source.oid, source.typmod)} to {format_type(target.oid, target.typmod)}"
    if source.domain or target.domain:
        raise not_vouched(what)
    one, other = source.oid, target.oid
    cast = f"CAST({arg} AS {{}})"
    if one in TEXTS and other in TEXTS:
        if target.typmod in (-1, source.typmod):
            return arg
    elif one == other and one != t.NUMERIC and source.typmod == target.typmod:
        return arg
    elif (one in WHOLE and other in WHOLE) or (one, other) in _CASTS:
        if (one, other) not in _NARROWING:
            return cast.format(dialect.type(target))
    elif one in WHOLE and other == t.NUMERIC:
        precision, scale = digits(target)
        if precision - scale >= _DIGITS[one] or target.typmod != -1:
            return cast.format(dialect.type(target))
    elif one == other == t.NUMERIC:
        digits(source)
        return cast.format(dialect.type(target))
    elif one == t.NUMERIC and other in (t.INT4, t.INT8):
        precision, scale = digits(source)
        if scale == 0:
            return cast.format(dialect.type(target))
        whole = min(precision - scale + 1, MAX_DECIMAL_PRECISION)
        return f"CAST(CAST({arg} AS DECIMAL({whole}, 0)) AS {dialect.type(target)})"
    raise not_vouched(what)


_DIGITS = {t.INT2: 5, t.INT4: 10, t.INT8: 19}
_NARROWING = {(t.INT4, t.INT2), (t.INT8, t.INT2)}
_CASTS = {
    (t.INT2, t.TEXT), (t.INT4, t.TEXT), (t.INT8, t.TEXT), (t.BOOL, t.TEXT), (t.DATE, t.TEXT),
    (t.INT2, t.FLOAT8), (t.INT4, t.FLOAT8), (t.INT8, t.FLOAT8), (t.FLOAT4, t.FLOAT8), (t.DATE, t.TIMESTAMP),
    (t.BOOL, t.INT4),
}  # fmt: skip

_Summed: TypeAlias = Callable[[Dialect, str, SqlType], str]


def aggregate_text(
    dialect: Dialect, signature: Signature, types: Sequence[SqlType], type: SqlType, args: _Args, *, distinct: bool
) -> str:
    """A call of an aggregate, without FILTER and OVER. Raises 0A000."""
    name, oids = signature.name, tuple(each.oid for each in types)
    what = f"aggregate {called(signature).removeprefix('function ')}"
    if any(each.domain for each in types):
        raise not_vouched(what)
    if distinct:
        for each in types:
            check_groupable(each, f"{name}(DISTINCT) over values")
    word = "DISTINCT " if distinct else ""
    if name == "count":
        return f"count({word}{args[0]})" if args else "count(*)"
    if name in ("min", "max") and oids[0] in GROUPABLE - {t.BOOL}:
        check_groupable(types[0], name)
        return f"{name}({word}{args[0]})"
    if name in ("bool_and", "bool_or", "every"):
        return f"{_BOOLEAN[name]}({args[0]})"
    match name, oids:
        case "sum", (t.INT2 | t.INT4,):
            return f"sum({word}{args[0]})"
        case "sum", (t.INT8,):
            return f"CAST(sum({word}CAST({args[0]} AS DECIMAL(19, 0))) AS {dialect.type(type)})"
        case "sum", (t.NUMERIC,):
            digits(types[0])
            return f"CAST(sum({word}{args[0]}) AS {dialect.type(type)})"
        case "sum" | "avg", (t.FLOAT8,) if not distinct:
            return f"{name}({args[0]})"
        case _:
            raise not_vouched(what)


_BOOLEAN: Mapping[str, str] = {"bool_and": "bool_and", "every": "bool_and", "bool_or": "bool_or"}
RANKING = frozenset({"row_number", "rank", "dense_rank"})
"""Window functions without arguments, of an order."""
