"""Expressions: from parse trees to typed scalars.

`bind` takes any expression node in the scope of a `Level`. What depends on where the expression stands (aggregates,
window functions, set-returning functions) is judged by `level.clause`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from postgast import pg_query_pb2 as pb

from planner.binding import Level
from planner.calls import bind_call, finish_row
from planner.casting import (
    coerce,
    coerce_to_target,
    explicit_cast,
    numeric_literal_type,
    resolve_unknown,
    to_boolean,
    unify,
)
from planner.catalog_data import columns
from planner.coercion import Context, common_type
from planner.errors import (
    DatatypeMismatch,
    FeatureNotSupported,
    GroupingError,
    IndeterminateDatatype,
    SqlSyntaxError,
    UndefinedColumn,
    UndefinedObject,
)
from planner.ir import (
    ArrayConstructor,
    ArraySubquery,
    BooleanTest,
    BoolOp,
    Case,
    Cast,
    Coalesce,
    Collate,
    ColumnRef,
    Distinct,
    Exists,
    FieldSelect,
    InList,
    IsNull,
    Literal,
    MinMax,
    QuantifiedArray,
    QuantifiedSubquery,
    RowConstructor,
    Scalar,
    ScalarSubquery,
    SessionValue,
    Subscript,
)
from planner.operators import (
    BOOLEAN,
    array_operator,
    build_call,
    column_type_of_array,
    find_operator,
    make_operator,
)
from planner.parse import Tree, tree_location
from planner.rewrite import column_ids
from planner.scope import column_qualifier, expand_item, resolve, star_items
from planner.type_names import array_of, element_of, format_type, resolve_type_name, subscript_element, type_row
from planner.types import (
    BOOL,
    DATE,
    INT2VECTOR,
    INT4,
    INT8,
    JSONB,
    NAME,
    NUMERIC,
    OIDVECTOR,
    RECORD,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    TIMETZ,
    UNKNOWN,
    SqlType,
    column_type,
)


def bind(level: Level, node: Tree) -> Scalar:
    """The scalar for an expression `Node`. Raises PostgreSQL's errors of analysis."""
    kind = node.WhichOneof("node")
    handler = _HANDLERS.get(kind)
    if handler is None:
        raise FeatureNotSupported(f"{(kind or 'this expression').replace('_', ' ')} is not supported")
    return handler(level, getattr(node, kind))


def bind_clause(level: Level, node: Tree, clause: str) -> Scalar:
    """`bind` with `level.clause` set to the clause that the expression stands in."""
    outer = level.clause
    level.clause = clause
    try:
        return bind(level, node)
    finally:
        level.clause = outer


def strings(items: Any) -> tuple[str, ...]:
    """The texts of a list of String nodes."""
    return tuple(item.string.sval for item in items)


# ---------------------------------------------------------------- leaves


def _constant(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    which = tree.WhichOneof("val")
    if which == "sval":
        literal = Literal(value=tree.sval.sval, type=SqlType(UNKNOWN))
    elif which == "ival":
        literal = Literal(value=tree.ival.ival, type=SqlType(INT4))
    elif which == "fval":
        literal = _number(level, tree.fval.fval, tree.location)
    elif which == "boolval":
        literal = Literal(value=tree.boolval.boolval, type=BOOLEAN)
    elif which == "bsval":
        raise FeatureNotSupported("bit string constants are not supported", position=statement.position(tree.location))
    else:
        literal = Literal(value=None, type=SqlType(UNKNOWN))
    return statement.at(literal, tree.location)


def _number(level: Level, text: str, location: int) -> Literal:
    plain = text.replace("_", "").lower()
    if plain[:2] in ("0x", "0o", "0b") or plain.lstrip("+-").isdigit():
        whole = int(plain, 0) if plain[:1] == "0" and plain[1:2].isalpha() else int(plain)
        if -(2**31) <= whole < 2**31:
            return Literal(value=whole, type=SqlType(INT4))
        if -(2**63) <= whole < 2**63:
            return Literal(value=whole, type=SqlType(INT8))
        plain = str(whole)
    value = Decimal(plain)
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and 0 < exponent < 200:
        value = Decimal(format(value, "f"))
    return Literal(value=value, type=numeric_literal_type(value, level.statement.position(location)))


def _param(level: Level, tree: Tree) -> Scalar:
    return level.statement.param(tree.number, tree.location)


def _column(level: Level, tree: Tree) -> Scalar:
    last = tree.fields[len(tree.fields) - 1]
    if last.HasField("a_star"):
        if len(tree.fields) == 1:
            raise SqlSyntaxError("row expansion via \"*\" is not supported here",
                                 position=level.statement.position(tree.location))  # fmt: skip
        item = star_items(level, strings(list(tree.fields)[:-1]), tree.location)
        columns_ = expand_item(level, item, tree.location)
        row = RowConstructor(
            items=tuple(expr for _, expr in columns_), names=tuple(name for name, _ in columns_), type=SqlType(RECORD)
        )
        return level.statement.at(row, tree.location)
    parts = strings(tree.fields)
    if len(parts) == 1 and level.statement.definition is not None and level.statement.view_depth == 0:
        alias = column_qualifier(level, parts[0])
        if alias is not None:
            level.statement.definition.unqualified.append((tree, alias))
    return resolve(level, parts, tree.location)


# ---------------------------------------------------------------- operators


def _a_expr(level: Level, tree: Tree) -> Scalar:
    return _A_EXPR[tree.kind](level, tree)


def _op(level: Level, tree: Tree) -> Scalar:
    names = strings(tree.name)
    if not tree.HasField("lexpr"):
        return make_operator(level, names, None, bind(level, tree.rexpr), tree.location)
    if tree.lexpr.HasField("row_expr") and tree.rexpr.HasField("sub_link"):
        link = tree.rexpr.sub_link
        if link.sub_link_type == pb.EXPR_SUBLINK:
            return _row_equals_subquery(level, names, tree, link)
    left = bind(level, tree.lexpr)
    right = bind(level, tree.rexpr)
    return make_operator(level, names, left, right, tree.location)


def _row_equals_subquery(level: Level, names: tuple[str, ...], tree: Tree, link: Tree) -> Scalar:
    """`(a, b) op (SELECT x, y ...)`: compared with one scalar subquery for each column."""
    from planner.query import bind_subquery, single_column

    left = bind(level, tree.lexpr)
    assert isinstance(left, RowConstructor)
    rel = bind_subquery(level, link.subselect)
    if len(rel.fields) != len(left.items):
        problem = "too many" if len(rel.fields) > len(left.items) else "too few"
        raise SqlSyntaxError(f"subquery has {problem} columns", position=level.statement.position(link.location))
    items = tuple(
        ScalarSubquery(rel=single_column(level.statement, rel, index), type=field.type)
        for index, field in enumerate(rel.fields)
    )
    right = RowConstructor(items=items, names=tuple(field.name for field in rel.fields), type=SqlType(RECORD))
    return make_operator(level, names, left, right, tree.location)


def _op_quantified(level: Level, tree: Tree) -> Scalar:
    left = bind(level, tree.lexpr)
    right = bind(level, tree.rexpr)
    arg, signature, array = array_operator(level, strings(tree.name), left, right, tree.location)
    quantifier: Any = "any" if tree.kind == pb.AEXPR_OP_ANY else "all"
    result = QuantifiedArray(arg=arg, operator=signature, quantifier=quantifier, array=array, type=BOOLEAN)
    return level.statement.at(result, _leftmost(level, left, tree.location))


def _leftmost(level: Level, scalar: Scalar, location: int) -> int:
    first = level.statement.location(scalar)
    return min(first, location) if first >= 0 and location >= 0 else location


def _distinct(level: Level, tree: Tree) -> Scalar:
    negated = tree.kind == pb.AEXPR_NOT_DISTINCT
    left, right = bind(level, tree.lexpr), bind(level, tree.rexpr)
    return distinct(level, left, right, negated, tree.location)


def distinct(level: Level, left: Scalar, right: Scalar, negated: bool, location: int) -> Scalar:
    """`left IS [NOT] DISTINCT FROM right`; a NULL constant makes it a null test."""
    statement = level.statement
    if isinstance(left, RowConstructor) and isinstance(right, RowConstructor):
        if len(left.items) != len(right.items):
            raise SqlSyntaxError("unequal number of entries in row expressions", position=statement.position(location))
        parts = tuple(distinct(level, a, b, negated, location) for a, b in zip(left.items, right.items, strict=True))
        if len(parts) == 1:
            return parts[0]
        return statement.at(BoolOp(op="and" if negated else "or", args=parts, type=BOOLEAN), location)
    signature = find_operator(level, "=", left.type.oid, right.type.oid, location)
    call = build_call(level, signature, [left, right], location)
    result = Distinct(left=call.args[0], right=call.args[1], negated=negated, type=BOOLEAN)
    if call.args[0].type.oid != call.args[1].type.oid:
        result = _distinct_of_unlike(level, call.args[0], call.args[1], negated, location)
    return statement.at(result, _leftmost(level, left, location))


def _distinct_of_unlike(level: Level, left: Scalar, right: Scalar, negated: bool, location: int) -> Distinct:
    """The = operator takes two types (int4 = int8, date = timestamp): both sides in their common one."""
    sides, _ = unify(level.statement, [left, right], "IS DISTINCT FROM")
    return Distinct(left=sides[0], right=sides[1], negated=negated, type=BOOLEAN)


def _nullif(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    left, right = bind(level, tree.lexpr), bind(level, tree.rexpr)
    signature = find_operator(level, "=", left.type.oid, right.type.oid, tree.location)
    call = build_call(level, signature, [left, right], tree.location)
    # The result is the left argument as the = operator takes it.
    kept = call.args[0]
    result = Case(whens=((call, Literal(value=None, type=kept.type)),), otherwise=kept, type=kept.type)
    return statement.at(result, _leftmost(level, left, tree.location))


def _in(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    negated = strings(tree.name)[-1] == "<>"
    left = bind(level, tree.lexpr)
    items = [bind(level, node) for node in tree.rexpr.list.items]
    location = tree.location
    tests: list[Scalar] = []
    constants = [item for item in items if not any(True for _ in column_ids(item))]
    rows = isinstance(left, RowConstructor)
    if not rows and len(constants) > 1:
        common = common_type([left.type.oid, *(item.type.oid for item in constants)])
        if common is not None and common != RECORD and array_of(common):
            typed = [coerce(statement, item, column_type(common), Context.IMPLICIT) for item in constants]
            symbol_left = left.type.oid
            signature = find_operator(level, "=", symbol_left, common, location)
            calls = [build_call(level, signature, [left, item], location) for item in typed]
            equals = calls[0].signature
            tests.append(
                InList(
                    arg=calls[0].args[0],
                    items=tuple(call.args[1] for call in calls),
                    equals=equals,
                    negated=negated,
                    type=BOOLEAN,
                )
            )
            chosen = {id(item) for item in constants}
            items = [item for item in items if id(item) not in chosen]
    symbol = "<>" if negated else "="
    tests.extend(make_operator(level, (symbol,), left, item, location) for item in items)
    where = _leftmost(level, left, location)
    if len(tests) == 1:
        return statement.at(tests[0], where)
    return statement.at(BoolOp(op="and" if negated else "or", args=tuple(tests), type=BOOLEAN), where)


def _between(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    arg = bind(level, tree.lexpr)
    low, high = (bind(level, node) for node in tree.rexpr.list.items)
    location = tree.location
    kind = tree.kind

    def inside(a: Scalar, b: Scalar) -> Scalar:
        parts = (make_operator(level, (">=",), arg, a, location), make_operator(level, ("<=",), arg, b, location))
        return BoolOp(op="and", args=parts, type=BOOLEAN)

    def outside(a: Scalar, b: Scalar) -> Scalar:
        parts = (make_operator(level, ("<",), arg, a, location), make_operator(level, (">",), arg, b, location))
        return BoolOp(op="or", args=parts, type=BOOLEAN)

    if kind == pb.AEXPR_BETWEEN:
        result = inside(low, high)
    elif kind == pb.AEXPR_NOT_BETWEEN:
        result = outside(low, high)
    elif kind == pb.AEXPR_BETWEEN_SYM:
        result = BoolOp(op="or", args=(inside(low, high), inside(high, low)), type=BOOLEAN)
    else:
        result = BoolOp(op="and", args=(outside(low, high), outside(high, low)), type=BOOLEAN)
    return statement.at(result, _leftmost(level, arg, location))


_A_EXPR: dict[int, Callable[[Level, Tree], Scalar]] = {
    pb.AEXPR_OP: _op,
    pb.AEXPR_OP_ANY: _op_quantified,
    pb.AEXPR_OP_ALL: _op_quantified,
    pb.AEXPR_DISTINCT: _distinct,
    pb.AEXPR_NOT_DISTINCT: _distinct,
    pb.AEXPR_NULLIF: _nullif,
    pb.AEXPR_IN: _in,
    pb.AEXPR_LIKE: _op,
    pb.AEXPR_ILIKE: _op,
    pb.AEXPR_SIMILAR: _op,
    pb.AEXPR_BETWEEN: _between,
    pb.AEXPR_NOT_BETWEEN: _between,
    pb.AEXPR_BETWEEN_SYM: _between,
    pb.AEXPR_NOT_BETWEEN_SYM: _between,
}


def _bool_expr(level: Level, tree: Tree) -> Scalar:
    names = {pb.AND_EXPR: "AND", pb.OR_EXPR: "OR", pb.NOT_EXPR: "NOT"}
    name = names[tree.boolop]
    args = tuple(to_boolean(level.statement, bind(level, node), name) for node in tree.args)
    op: Any = name.lower()
    first = level.statement.location(args[0])
    where = min(first, tree.location) if first >= 0 and op != "not" else tree.location
    return level.statement.at(BoolOp(op=op, args=args, type=BOOLEAN), where)


def _null_test(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    negated = tree.nulltesttype == pb.IS_NOT_NULL
    arg = bind(level, tree.arg)
    where = statement.location(arg)
    if isinstance(arg, RowConstructor):
        if not arg.items:
            return Literal(value=True, type=BOOLEAN)
        items = (resolve_unknown(statement, item) if isinstance(item, Literal) else item for item in arg.items)
        parts = tuple(IsNull(arg=item, negated=negated, type=BOOLEAN) for item in items)
        if len(parts) == 1:
            return statement.at(parts[0], where)
        return statement.at(BoolOp(op="and", args=parts, type=BOOLEAN), where)
    if isinstance(arg, Literal):
        arg = resolve_unknown(statement, arg)
    return statement.at(IsNull(arg=arg, negated=negated, type=BOOLEAN), where)


_TESTS: dict[int, tuple[str, bool, str]] = {
    pb.IS_TRUE: ("true", False, "IS TRUE"),
    pb.IS_NOT_TRUE: ("true", True, "IS NOT TRUE"),
    pb.IS_FALSE: ("false", False, "IS FALSE"),
    pb.IS_NOT_FALSE: ("false", True, "IS NOT FALSE"),
    pb.IS_UNKNOWN: ("unknown", False, "IS UNKNOWN"),
    pb.IS_NOT_UNKNOWN: ("unknown", True, "IS NOT UNKNOWN"),
}


def _boolean_test(level: Level, tree: Tree) -> Scalar:
    test, negated, name = _TESTS[tree.booltesttype]
    arg = to_boolean(level.statement, bind(level, tree.arg), name)
    kind: Any = test
    result = BooleanTest(arg=arg, test=kind, negated=negated, type=BOOLEAN)
    return level.statement.at(result, level.statement.location(arg))


# ---------------------------------------------------------------- conditionals


class _Barrier:
    """Inside it set-returning functions are refused, naming the construct."""

    def __init__(self, level: Level, construct: str) -> None:
        self.level, self.construct = level, construct

    def __enter__(self) -> None:
        self.outer = self.level.srf_barrier
        self.level.srf_barrier = self.construct

    def __exit__(self, *args: object) -> None:
        self.level.srf_barrier = self.outer


def _case(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    with _Barrier(level, "CASE"):
        subject = resolve_unknown(statement, bind(level, tree.arg)) if tree.HasField("arg") else None
        conditions: list[Scalar] = []
        results: list[Scalar] = []
        for node in tree.args:
            when = node.case_when
            condition = bind(level, when.expr)
            if subject is not None:
                condition = make_operator(level, ("=",), subject, condition, when.location)
            conditions.append(to_boolean(statement, condition, "CASE/WHEN"))
            results.append(finish_row(level, bind(level, when.result)))
        if tree.HasField("defresult"):
            otherwise: Scalar = finish_row(level, bind(level, tree.defresult))
        else:
            otherwise = Literal(value=None, type=SqlType(UNKNOWN))
    values, type = unify(statement, [otherwise, *results], "CASE")
    whens = tuple(zip(conditions, values[1:], strict=True))
    result = Case(whens=whens, otherwise=values[0] if tree.HasField("defresult") else None, type=type)
    return statement.at(result, tree.location)


def _coalesce(level: Level, tree: Tree) -> Scalar:
    with _Barrier(level, "COALESCE"):
        args = [bind(level, node) for node in tree.args]
    values, type = unify(level.statement, args, "COALESCE")
    return level.statement.at(Coalesce(args=tuple(values), type=type), tree.location)


def _min_max(level: Level, tree: Tree) -> Scalar:
    op: Any = "greatest" if tree.op == pb.IS_GREATEST else "least"
    values, type = unify(level.statement, [bind(level, node) for node in tree.args], op.upper())
    return level.statement.at(MinMax(op=op, args=tuple(values), type=type), tree.location)


# ---------------------------------------------------------------- arrays, rows, indirection


def _array(level: Level, tree: Tree) -> Scalar:
    return array_constructor(level, tree, None)


def array_constructor(level: Level, tree: Tree, target: SqlType | None) -> Scalar:
    """ARRAY[...], under a cast to `target` when it is not None."""
    statement = level.statement
    position = statement.position(tree.location)
    element = element_of(target.oid) if target is not None else 0
    items: list[Scalar] = []
    nested = False
    for node in tree.elements:
        if node.HasField("a_array_expr"):
            item = array_constructor(level, node.a_array_expr, target)
            nested = True
        else:
            item = bind(level, node)
            nested = nested or bool(element_of(item.type.oid))
        items.append(item)
    if target is not None and element:
        inner = target if nested else _element_type(target)
        converted = []
        for item in items:
            cast = coerce_to_target(statement, item, inner, Context.EXPLICIT)
            if cast is None:
                from planner.errors import CannotCoerce

                raise CannotCoerce(
                    f"cannot cast type {format_type(item.type.oid)} to {format_type(inner.oid)}",
                    position=statement.position_of(item),
                )
            converted.append(cast)
        result = ArrayConstructor(items=tuple(converted), type=target)
        return statement.at(result, tree.location)
    if not items:
        raise IndeterminateDatatype(
            "cannot determine type of empty array",
            hint="Explicitly cast to the desired type, for example ARRAY[]::integer[].",
            position=position,
        )
    values, type = unify(statement, items, "ARRAY")
    if element_of(type.oid):
        array_type = type
    else:
        oid = array_of(type.oid)
        if not oid:
            from planner.errors import UndefinedObject as Undefined

            raise Undefined(f"could not find array type for data type {format_type(type.oid)}", position=position)
        array_type = SqlType(oid, type.typmod, type.shape)
    return statement.at(ArrayConstructor(items=tuple(values), type=array_type), tree.location)


def _element_type(array: SqlType) -> SqlType:
    """The type of an array type's elements."""
    element = subscript_element(array.oid)
    return SqlType(element, array.typmod, array.shape if element == NUMERIC else None)


def _row(level: Level, tree: Tree) -> Scalar:
    items: list[Scalar] = []
    for node in tree.args:
        expanded = _expand_star(level, node)
        if expanded is not None:
            items.extend(expr for _, expr in expanded)
        else:
            items.append(bind(level, node))
    names = tuple(f"f{index}" for index in range(1, len(items) + 1))
    result = RowConstructor(items=tuple(items), names=names, type=SqlType(RECORD))
    return level.statement.at(result, tree.location)


def _expand_star(level: Level, node: Tree) -> list[tuple[str, Scalar]] | None:
    if not node.HasField("column_ref"):
        return None
    fields = node.column_ref.fields
    if len(fields) < 2 or not fields[len(fields) - 1].HasField("a_star"):
        return None
    item = star_items(level, strings(list(fields)[:-1]), node.column_ref.location)
    return expand_item(level, item, node.column_ref.location)


def record_fields(level: Level, scalar: Scalar) -> tuple[tuple[str, SqlType], ...] | None:
    """The names and types of a record's fields, where the binder knows them."""
    if isinstance(scalar, RowConstructor):
        return tuple((name, item.type) for name, item in zip(scalar.names, scalar.items, strict=True))
    if isinstance(scalar, ColumnRef):
        return level.statement.record_columns.get(scalar.id)
    known = level.statement.records.get(id(scalar))
    if known is not None:
        return known[1]
    if isinstance(scalar, ScalarSubquery):
        return level.statement.record_columns.get(scalar.rel.fields[0].id)
    return None


def select_field(level: Level, scalar: Scalar, name: str, location: int) -> Scalar:
    """`(scalar).name`. Raises 42703 and 42809."""
    statement = level.statement
    fields = record_fields(level, scalar)
    if fields is None:
        if scalar.type.oid == RECORD:
            raise UndefinedColumn(
                f'could not identify column "{name}" in record data type', position=statement.position(location)
            )
        raise _not_composite(level, scalar, name, location)
    for index, (field, type) in enumerate(fields):
        if field == name:
            if isinstance(scalar, RowConstructor):
                return resolve_unknown(statement, scalar.items[index])
            select = FieldSelect(arg=scalar, name=name, type=type, index=index)
            return statement.at(select, location)
    raise UndefinedColumn(
        f'could not identify column "{name}" in record data type', position=statement.position(location)
    )


def _not_composite(level: Level, scalar: Scalar, name: str, location: int) -> Exception:
    from planner.errors import WrongObjectType

    return WrongObjectType(
        f"column notation .{name} applied to type {format_type(scalar.type.oid)}, which is not a composite type",
        position=level.statement.position(location),
    )


def _indirection(level: Level, tree: Tree) -> Scalar:
    scalar = bind(level, tree.arg)
    location = level.statement.location(scalar)
    return apply_indirection(level, scalar, list(tree.indirection), location)


def apply_indirection(level: Level, scalar: Scalar, steps: list[Any], location: int) -> Scalar:
    """Subscripts and field selections after an expression, in order."""
    index = 0
    while index < len(steps):
        step = steps[index]
        if step.HasField("a_indices"):
            end = index
            while end < len(steps) and steps[end].HasField("a_indices"):
                end += 1
            scalar = _subscripts(level, scalar, [item.a_indices for item in steps[index:end]], location)
            index = end
            continue
        if step.HasField("a_star"):
            raise FeatureNotSupported(
                'row expansion via "*" is not supported here', position=level.statement.position(location)
            )
        scalar = select_field(level, scalar, step.string.sval, location)
        index += 1
    return scalar


def _subscripts(level: Level, scalar: Scalar, indices: list[Any], location: int) -> Scalar:
    statement = level.statement
    oid = scalar.type.oid
    if oid == JSONB:
        return _json_subscripts(level, scalar, indices, location)
    element = subscript_element(oid)
    row = type_row(oid)
    if not element or row is None or (row.category != "A" and oid != NAME):
        raise DatatypeMismatch(
            f"cannot subscript type {format_type(oid)} because it does not support subscripting",
            position=statement.position_of(scalar),
        )
    sliced = any(item.is_slice for item in indices)
    array_type = scalar.type
    if sliced and oid in (INT2VECTOR, OIDVECTOR):
        array_type = SqlType(array_of(element))
    element_type = SqlType(element, scalar.type.typmod, scalar.type.shape if element == NUMERIC else None)
    for position, item in enumerate(indices):
        lower = _index(level, item.lidx) if item.HasField("lidx") else None
        upper = _index(level, item.uidx) if item.HasField("uidx") else None
        if sliced:
            if not item.is_slice:
                lower, upper = Literal(value=1, type=SqlType(INT4)), upper
            scalar = Subscript(arg=scalar, index=lower, upper=upper, slice=True, type=array_type)
        else:
            last = position == len(indices) - 1
            scalar = Subscript(
                arg=scalar, index=upper, upper=None, slice=False, type=element_type if last else array_type
            )
    return statement.at(scalar, location)


def _index(level: Level, node: Tree) -> Scalar:
    statement = level.statement
    expr = bind(level, node)
    converted = coerce_to_target(statement, expr, SqlType(INT4), Context.ASSIGNMENT)
    if converted is None:
        raise DatatypeMismatch("array subscript must have type integer", position=statement.position_of(expr))
    return converted


def _json_subscripts(level: Level, scalar: Scalar, indices: list[Any], location: int) -> Scalar:
    for item in indices:
        if item.is_slice:
            raise DatatypeMismatch(
                "jsonb subscript does not support slices", position=level.statement.position(location)
            )
        key = bind(level, item.uidx)
        key = resolve_unknown(level.statement, key)
        if key.type.oid != INT4:
            key = coerce(level.statement, key, SqlType(TEXT), Context.IMPLICIT)
        scalar = make_operator(level, ("->",), scalar, key, location)
    return scalar


# ---------------------------------------------------------------- casts, collations


def _type_cast(level: Level, tree: Tree) -> Scalar:
    target = resolve_type_name(tree.type_name, level.statement.parsed)
    location = tree.location if tree.location >= 0 else tree.type_name.location
    if tree.arg.HasField("a_array_expr") and element_of(target.oid):
        inner = array_constructor(level, tree.arg.a_array_expr, target)
        return explicit_cast(level.statement, inner, target, location)
    arg = bind(level, tree.arg)
    return explicit_cast(level.statement, finish_row(level, arg), target, location)


_COLLATABLE = "S"


def _collate(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    arg = bind(level, tree.arg)
    names = strings(tree.collname)
    known = columns("pg_collation")["collname"]
    if names[-1] not in known or (len(names) > 1 and names[-2] != "pg_catalog"):
        raise UndefinedObject(
            f'collation "{".".join(names)}" for encoding "UTF8" does not exist',
            position=statement.position(tree.location),
        )
    row = type_row(arg.type.oid)
    if arg.type.oid != UNKNOWN and (row is None or not row.collation):
        raise DatatypeMismatch(
            f"collations are not supported by type {format_type(arg.type.oid)}",
            position=statement.position(tree.location),
        )
    result = Collate(arg=arg, collation=names[-1], type=arg.type)
    return statement.at(result, statement.location(arg))


# ---------------------------------------------------------------- values of the session


def _sql_value(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    name, type = _SQL_VALUES[tree.op]
    source = SqlType(TIMESTAMPTZ) if name == "now" else type
    value: Scalar = SessionValue(name=name, type=source)
    if name == "now":
        precision = tree.typmod if tree.op in _WITH_PRECISION and tree.typmod >= 0 else -1
        target = SqlType(type.oid, min(precision, 6))
        if target != source:
            value = Cast(arg=value, type=target, explicit=True)
    return statement.at(value, tree.location)


_WITH_PRECISION = {
    pb.SVFOP_CURRENT_TIME_N,
    pb.SVFOP_CURRENT_TIMESTAMP_N,
    pb.SVFOP_LOCALTIME_N,
    pb.SVFOP_LOCALTIMESTAMP_N,
}
_SQL_VALUES: dict[int, tuple[str, SqlType]] = {
    pb.SVFOP_CURRENT_DATE: ("now", SqlType(DATE)),
    pb.SVFOP_CURRENT_TIME: ("now", SqlType(TIMETZ)),
    pb.SVFOP_CURRENT_TIME_N: ("now", SqlType(TIMETZ)),
    pb.SVFOP_CURRENT_TIMESTAMP: ("now", SqlType(TIMESTAMPTZ)),
    pb.SVFOP_CURRENT_TIMESTAMP_N: ("now", SqlType(TIMESTAMPTZ)),
    pb.SVFOP_LOCALTIME: ("now", SqlType(TIME)),
    pb.SVFOP_LOCALTIME_N: ("now", SqlType(TIME)),
    pb.SVFOP_LOCALTIMESTAMP: ("now", SqlType(TIMESTAMP)),
    pb.SVFOP_LOCALTIMESTAMP_N: ("now", SqlType(TIMESTAMP)),
    pb.SVFOP_CURRENT_ROLE: ("current_user", SqlType(NAME)),
    pb.SVFOP_CURRENT_USER: ("current_user", SqlType(NAME)),
    pb.SVFOP_USER: ("current_user", SqlType(NAME)),
    pb.SVFOP_SESSION_USER: ("session_user", SqlType(NAME)),
    pb.SVFOP_CURRENT_CATALOG: ("current_database", SqlType(NAME)),
    pb.SVFOP_CURRENT_SCHEMA: ("current_schema", SqlType(NAME)),
}


# ---------------------------------------------------------------- subqueries


def _sub_link(level: Level, tree: Tree) -> Scalar:
    from planner.query import bind_subquery

    statement = level.statement
    kind = tree.sub_link_type
    if kind == pb.EXISTS_SUBLINK:
        rel = bind_subquery(level, tree.subselect)
        return statement.at(Exists(rel=rel, negated=False, type=BOOLEAN), tree.location)
    if kind in (pb.EXPR_SUBLINK, pb.ARRAY_SUBLINK):
        rel = bind_subquery(level, tree.subselect)
        if len(rel.fields) != 1:
            raise SqlSyntaxError("subquery must return only one column", position=statement.position(tree.location))
        field = rel.fields[0]
        if kind == pb.EXPR_SUBLINK:
            return statement.at(ScalarSubquery(rel=rel, type=field.type), tree.location)
        if element_of(field.type.oid):
            raise FeatureNotSupported(
                "multidimensional arrays from subqueries are not supported", position=statement.position(tree.location)
            )
        oid = array_of(field.type.oid)
        if not oid:
            raise UndefinedObject(
                f"could not find array type for data type {format_type(field.type.oid)}",
                position=statement.position(tree.location),
            )
        type = SqlType(oid, field.type.typmod, field.type.shape)
        return statement.at(ArraySubquery(rel=rel, type=type), tree.location)
    if kind in (pb.ANY_SUBLINK, pb.ALL_SUBLINK):
        return _quantified(level, tree, bind_subquery(level, tree.subselect))
    raise FeatureNotSupported("this kind of subquery is not supported", position=statement.position(tree.location))


def _quantified(level: Level, tree: Tree, rel: Any) -> Scalar:
    from planner.query import cast_columns

    statement = level.statement
    location = tree.location
    names = strings(tree.oper_name) or ("=",)
    symbol = "<>" if names[-1] == "!=" else names[-1]
    test = bind(level, tree.testexpr)
    args = test.items if isinstance(test, RowConstructor) else (test,)
    if len(args) != len(rel.fields):
        problem = "too many" if len(rel.fields) > len(args) else "too few"
        raise SqlSyntaxError(f"subquery has {problem} columns", position=statement.position(location))
    if len(args) > 1 and symbol not in ("=", "<>"):
        raise FeatureNotSupported(
            f"row comparison {symbol} with a subquery is not supported", position=statement.position(location)
        )
    calls = []
    targets = []
    for arg, field in zip(args, rel.fields, strict=True):
        column = ColumnRef(id=field.id, type=field.type)
        signature = find_operator(level, symbol, arg.type.oid, field.type.oid, location)
        call = build_call(level, signature, [arg, column], location)
        if call.type.oid != BOOL:
            raise DatatypeMismatch(
                f"operator {symbol} must return type boolean, not type {format_type(call.type.oid)}",
                position=statement.position(location),
            )
        calls.append(call)
        targets.append(call.args[1].type)
    quantifier: Any = "any" if tree.sub_link_type == pb.ANY_SUBLINK else "all"
    result = QuantifiedSubquery(
        args=tuple(call.args[0] for call in calls),
        operators=tuple(call.signature for call in calls),
        quantifier=quantifier,
        rel=cast_columns(statement, rel, targets),
        type=BOOLEAN,
    )
    first = statement.location(args[0]) if args else -1
    return statement.at(result, first if first >= 0 else location)


# ---------------------------------------------------------------- the rest


def _grouping(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    if len(tree.args) > 31:
        raise SqlSyntaxError("GROUPING must have fewer than 32 arguments", position=statement.position(tree.location))
    if level.clause not in ("SELECT", "HAVING", "ORDER BY", "DISTINCT ON", "window"):
        raise GroupingError(
            f"grouping operations are not allowed in {level.clause}", position=statement.position(tree.location)
        )
    args = tuple(bind(level, node) for node in tree.args)
    field = statement.new_field("grouping", SqlType(INT4))
    statement.aggregate_owner[field.id] = level
    level.grouping_refs.append((args, field, tree.location))
    return statement.at(ColumnRef(id=field.id, type=field.type), tree.location)


def _default(level: Level, tree: Tree) -> Scalar:
    raise SqlSyntaxError("DEFAULT is not allowed in this context", position=level.statement.position(tree.location))


def _xml(level: Level, tree: Tree) -> Scalar:
    raise FeatureNotSupported("XML functions are not supported", position=level.statement.position(tree.location))


def _cursor(level: Level, tree: Tree) -> Scalar:
    raise FeatureNotSupported("WHERE CURRENT OF is not supported")


def sort_direction(level: Level, tree: Tree, expr: Scalar) -> tuple[bool, bool]:
    """(descending, nulls first) of a SortBy clause."""
    from planner.operators import check_sortable

    if tree.sortby_dir == pb.SORTBY_USING:
        symbol = strings(tree.use_op)[-1]
        if symbol not in ("<", ">"):
            raise FeatureNotSupported(f"ORDER BY USING {symbol} is not supported")
        descending = symbol == ">"
    else:
        descending = tree.sortby_dir == pb.SORTBY_DESC
    check_sortable(level, expr, tree_location(tree.node))
    if tree.sortby_nulls == pb.SORTBY_NULLS_FIRST:
        return descending, True
    if tree.sortby_nulls == pb.SORTBY_NULLS_LAST:
        return descending, False
    return descending, descending


def rename(scalar: Scalar, type: SqlType) -> Scalar:
    """The same scalar said to be of `type` (of the same representation)."""
    return replace(scalar, type=type)


_HANDLERS: dict[str, Callable[[Level, Tree], Scalar]] = {
    "a_const": _constant,
    "column_ref": _column,
    "param_ref": _param,
    "a_expr": _a_expr,
    "bool_expr": _bool_expr,
    "null_test": _null_test,
    "boolean_test": _boolean_test,
    "case_expr": _case,
    "coalesce_expr": _coalesce,
    "min_max_expr": _min_max,
    "a_array_expr": _array,
    "row_expr": _row,
    "a_indirection": _indirection,
    "type_cast": _type_cast,
    "collate_clause": _collate,
    "sqlvalue_function": _sql_value,
    "sub_link": _sub_link,
    "func_call": bind_call,
    "grouping_func": _grouping,
    "set_to_default": _default,
    "xml_expr": _xml,
    "xml_serialize": _xml,
    "current_of_expr": _cursor,
}

__all__ = ["bind", "bind_clause", "column_type_of_array", "sort_direction", "strings"]
