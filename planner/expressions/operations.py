"""What the grammar writes as operators (A_Expr): `a op b`, op ANY and ALL of an array, LIKE, IS DISTINCT FROM, NULLIF,
IN and BETWEEN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import SqlSyntaxError
from planner.expressions.alike_params import with_param
from planner.expressions.bind import bind
from planner.expressions.constant_lists import constant_list
from planner.expressions.extensions.hstore_rows import over_rows
from planner.expressions.record_arrays import compare_with_rows
from planner.expressions.subqueries import compare_row_with_subquery
from planner.functions import of_extensions
from planner.ir.nodes import (
    BoolOp,
    Call,
    Case,
    Distinct,
    InList,
    Literal,
    Param,
    QuantifiedArray,
    RowConstructor,
    Scalar,
)
from planner.ir.rewrite import column_ids, transform
from planner.ir.written import InArray, NullIf
from planner.resolution.casting import coerce, unify
from planner.resolution.coercion import Context, category, common_type
from planner.resolution.operators import (
    BOOLEAN,
    array_operator,
    build_call,
    find_operator,
    make_operator,
    note_operator,
    operator_symbol,
)
from planner.resolution.scope import is_whole_row
from planner.resolution.statement import Handler, Level
from planner.syntax.libpg_query import pb
from planner.syntax.names import strings
from planner.syntax.parse import Tree
from planner.types.signature import Signature
from planner.types.type_names import array_of
from planner.types.types import RECORD, RECORD_ARRAY, UNKNOWN, SqlType, column_type
from planner.types.user_types import attributes


def _a_expr(level: Level, tree: Tree) -> Scalar:
    return _A_EXPR[tree.kind](level, tree)


def _op(level: Level, tree: Tree) -> Scalar:
    names = strings(tree.name)
    if not tree.HasField("lexpr"):
        return _noted(level, tree, make_operator(level, names, None, bind(level, tree.rexpr), tree.location))
    if tree.lexpr.HasField("row_expr") and tree.rexpr.HasField("sub_link"):
        link = tree.rexpr.sub_link
        if link.sub_link_type == pb.EXPR_SUBLINK:
            return compare_row_with_subquery(level, names, tree, link)
    left = bind(level, tree.lexpr)
    right = bind(level, tree.rexpr)
    result = _noted(level, tree, make_operator(level, names, left, right, tree.location))
    return over_rows(level, result, left, tree.location) if isinstance(result, Call) else result


def _noted(level: Level, tree: Tree, result: Scalar) -> Scalar:
    """`result`, after `note_operator`."""
    if level.statement.definition is not None and isinstance(result, Call):
        note_operator(level, tree, result.signature)
    return result


def _op_quantified(level: Level, tree: Tree) -> Scalar:
    left = bind(level, tree.lexpr)
    right = bind(level, tree.rexpr)
    quantifier: Any = "any" if tree.kind == pb.AEXPR_OP_ANY else "all"
    if left.type.oid == RECORD and right.type.oid == RECORD_ARRAY:
        symbol = operator_symbol(level, strings(tree.name), tree.location)
        compared = compare_with_rows(level, symbol, left, right, quantifier, tree.location)
        return level.statement.at(compared, _leftmost(level, left, tree.location))
    arg, signature, array = array_operator(level, strings(tree.name), left, right, tree.location)
    note_operator(level, tree, signature)
    result = QuantifiedArray(arg=arg, operator=signature, quantifier=quantifier, array=array, type=BOOLEAN)
    return level.statement.at(result, _leftmost(level, left, tree.location))


def _leftmost(level: Level, scalar: Scalar, location: int) -> int:
    first = level.statement.location(scalar)
    return min(first, location) if first >= 0 and location >= 0 else location


def _distinct(level: Level, tree: Tree) -> Scalar:
    negated = tree.kind == pb.AEXPR_NOT_DISTINCT
    left, right = bind(level, tree.lexpr), bind(level, tree.rexpr)
    return _is_distinct(level, left, right, negated, tree.location)


def _is_distinct(level: Level, left: Scalar, right: Scalar, negated: bool, location: int) -> Scalar:
    """`left IS [NOT] DISTINCT FROM right`; a NULL constant makes it a null test."""
    statement = level.statement
    if isinstance(left, RowConstructor) and isinstance(right, RowConstructor):
        if len(left.items) != len(right.items):
            raise SqlSyntaxError("unequal number of entries in row expressions", position=statement.position(location))
        parts = tuple(
            _is_distinct(level, a, b, negated, location) for a, b in zip(left.items, right.items, strict=True)
        )
        if len(parts) == 1:
            return parts[0]
        result: Scalar = BoolOp(op="and" if negated else "or", args=parts, type=BOOLEAN)
        if any(is_whole_row(statement, side) for side in (left, right)):
            statement.written_as(result, Distinct(left=left, right=right, negated=negated, type=BOOLEAN))
        return statement.at(result, location)
    signature = find_operator(level, "=", left.type.oid, right.type.oid, location)
    call = build_call(level, signature, [left, right], location)
    result = Distinct(left=call.args[0], right=call.args[1], negated=negated, type=BOOLEAN)
    if call.args[0].type.oid != call.args[1].type.oid:
        written, result = result, _distinct_of_unlike(level, call.args[0], call.args[1], negated, location)
        statement.written_as(result, written)
    return statement.at(result, _leftmost(level, left, location))


def _distinct_of_unlike(level: Level, left: Scalar, right: Scalar, negated: bool, location: int) -> Distinct:
    """The = operator takes two types (int4 = int8, date = timestamp): both sides in their common one."""
    sides, _ = unify(level.statement, [left, right], "IS DISTINCT FROM")
    return Distinct(left=sides[0], right=sides[1], negated=negated, type=BOOLEAN)


def _nullif(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    left, right = bind(level, tree.lexpr), bind(level, tree.rexpr)
    signature = find_operator(level, "=", left.type.oid, right.type.oid, tree.location)
    subject, whole = statement.once(left)
    call = build_call(level, signature, [subject, right], tree.location)
    # The result is the left argument as the = operator takes it; rows stay of their type and are compared by fields.
    is_row = category(left.type.oid) == "C" and left.type.oid != RECORD
    kept = subject if is_row else call.args[0]
    type = kept.type.without_domain()
    equal = make_operator(level, ("=",), subject, right, tree.location) if is_row else call
    result = whole(Case(whens=((equal, Literal(value=None, type=type)),), otherwise=kept, type=type))
    statement.written_as(result, NullIf(args=transform(call.args, lambda node: left if node is subject else None)))
    return statement.at(result, _leftmost(level, left, tree.location))


def _in(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    negated = strings(tree.name)[-1] == "<>"
    left = bind(level, tree.lexpr)
    location = tree.location
    long = constant_list(level, left, tree.rexpr.list.items, negated=negated, location=location)
    if long is not None:
        return statement.at(long, _leftmost(level, left, location))
    items = [bind(level, node) for node in tree.rexpr.list.items]
    tests: list[Scalar] = []
    constants = [item for item in items if not any(True for _ in column_ids(item))]
    if len(constants) > 1 and left.type.oid != RECORD:
        common = common_type([left.type.oid, *(item.type.oid for item in constants)])
        if common is not None and attributes(common) is not None:
            # Rows are compared one by one, but what has no type yet is of theirs.
            items = [
                coerce(statement, item, SqlType(common), Context.IMPLICIT) if item.type.oid == UNKNOWN else item
                for item in items
            ]
        elif common is not None and common != RECORD and array_of(common):
            typed = [coerce(statement, item, column_type(common), Context.IMPLICIT) for item in constants]
            signature = find_operator(level, "=", left.type.oid, common, location)
            first = build_call(level, signature, [left, typed[0]], location)
            alike: dict[SqlType, Scalar] = {}
            found = InList(
                arg=first.args[0],
                items=(first.args[1], *[_operand(level, signature, left, item, location, alike) for item in typed[1:]]),
                equals=first.signature,
                negated=negated,
                type=BOOLEAN,
            )
            form = InArray(
                arg=found.arg,
                items=tuple(typed),
                element=common,
                compared=found.equals.args[1],
                symbol="<>" if negated else "=",
                negated=negated,
            )
            tests.append(statement.written_as(found, form))
            chosen = {id(item) for item in constants}
            items = [item for item in items if id(item) not in chosen]
            if not items:
                note_operator(level, tree, found.equals)
    symbol = "<>" if negated else "="
    tests.extend(make_operator(level, (symbol,), left, item, location) for item in items)
    where = _leftmost(level, left, location)
    if len(tests) == 1:
        if isinstance(tests[0], Call):
            note_operator(level, tree, tests[0].signature)
        return statement.at(tests[0], where)
    return statement.at(BoolOp(op="and" if negated else "or", args=tuple(tests), type=BOOLEAN), where)


def _operand(
    level: Level, signature: Signature, left: Scalar, item: Scalar, location: int, alike: dict[SqlType, Scalar]
) -> Scalar:
    """`item` as the second argument of the operator `signature`. Parameters of one type all become what the first of
    them becomes, which `alike` remembers."""
    if not isinstance(item, Param):
        return build_call(level, signature, [left, item], location).args[1]
    model = alike.get(item.type)
    made = None if model is None else with_param(model, item)
    if made is None:
        made = alike[item.type] = build_call(level, signature, [left, item], location).args[1]
    return made


def _between(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    arg = bind(level, tree.lexpr)
    low, high = (bind(level, node) for node in tree.rexpr.list.items)
    location = tree.location
    kind = tree.kind

    def both(one: Scalar, other: Scalar) -> tuple[Scalar, Scalar]:
        if level.statement.definition is not None and isinstance(one, Call) and isinstance(other, Call):
            made = of_extensions.type_of(other.signature)
            if made is not None and made == of_extensions.type_of(one.signature):
                note_operator(level, tree, one.signature)
        return one, other

    def inside(a: Scalar, b: Scalar) -> Scalar:
        parts = both(make_operator(level, (">=",), arg, a, location), make_operator(level, ("<=",), arg, b, location))
        return BoolOp(op="and", args=parts, type=BOOLEAN)

    def outside(a: Scalar, b: Scalar) -> Scalar:
        parts = both(make_operator(level, ("<",), arg, a, location), make_operator(level, (">",), arg, b, location))
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


_A_EXPR: Mapping[int, Handler] = {
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


HANDLERS: Mapping[str, Handler] = {"a_expr": _a_expr}
