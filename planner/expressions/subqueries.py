"""Subqueries in expressions: scalar, EXISTS, IN, op ANY and ALL, ARRAY(...), and rows compared with one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from planner.errors import DatatypeMismatch, FeatureNotSupported, SqlSyntaxError
from planner.expressions.arrays import array_type
from planner.expressions.bind import WITHOUT_SUBQUERIES, bind
from planner.ir.nodes import (
    ArraySubquery,
    ColumnRef,
    Exists,
    Field,
    Literal,
    Project,
    QuantifiedSubquery,
    Rel,
    RowConstructor,
    Scalar,
    ScalarSubquery,
)
from planner.ir.rewrite import is_volatile
from planner.ir.written import RowOfQuery
from planner.resolution.operators import (
    BOOLEAN,
    build_call,
    find_operator,
    make_operator,
    note_operator,
    operator_symbol,
)
from planner.resolution.query import bind_subquery, cast_columns, single_column
from planner.resolution.statement import Handler, Level
from planner.syntax.libpg_query import pb
from planner.syntax.names import strings
from planner.syntax.parse import Tree
from planner.types.type_names import format_type, nests
from planner.types.types import BOOL, RECORD, SqlType
from planner.types.user_types import attributes


def _sub_link(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    kind = tree.sub_link_type
    if level.clause in WITHOUT_SUBQUERIES:
        place = level.clause.removesuffix("s")
        raise FeatureNotSupported(f"cannot use subquery in {place}", position=statement.position(tree.location))
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
        if nests(field.type.oid):
            # Arrays are put together to one of one more dimension.
            type = replace(field.type, dimensioned=True)
            return statement.at(ArraySubquery(rel=cast_columns(statement, rel, [type]), type=type), tree.location)
        type = array_type(field.type, statement.position(tree.location))
        return statement.at(ArraySubquery(rel=rel, type=type), tree.location)
    if kind in (pb.ANY_SUBLINK, pb.ALL_SUBLINK):
        return _quantified(level, tree, bind_subquery(level, tree.subselect))
    raise FeatureNotSupported("this kind of subquery is not supported", position=statement.position(tree.location))


def _quantified(level: Level, tree: Tree, rel: Rel) -> Scalar:
    statement = level.statement
    location = tree.location
    names = strings(tree.oper_name) or ("=",)
    symbol = operator_symbol(level, names, location)
    symbol = "<>" if symbol == "!=" else symbol
    test = bind(level, tree.testexpr)
    args = test.items if isinstance(test, RowConstructor) and tree.testexpr.HasField("row_expr") else (test,)
    _check_width(level, rel, len(args), location)
    is_of_rows = len(args) > 1 or (attributes(test.type.oid) is not None and len(rel.fields) == 1)
    is_fixed = not any(is_volatile(arg) for arg in args)
    if len(args) > 1 and symbol in ("<", "<=", ">", ">=") and is_fixed:
        return _ordered_rows(level, tree, symbol, args, rel)
    calls = []
    targets = []
    for arg, field in zip(args, rel.fields, strict=True):
        column = ColumnRef(id=field.id, type=field.type)
        signature = find_operator(level, symbol, arg.type.oid, field.type.oid, location)
        call = build_call(level, signature, [arg, column], location)
        if call.type.oid != BOOL:
            raise DatatypeMismatch(
                f"row comparison operator must yield type boolean, not type {format_type(call.type.oid)}",
                position=statement.position(location),
            )
        if len(args) == 1:
            note_operator(level, tree, signature)
        calls.append(call)
        targets.append(call.args[1].type)
    if is_of_rows and symbol not in ("=", "<>"):
        raise FeatureNotSupported(
            f"row comparison {symbol} with a subquery is not supported", position=statement.position(location)
        )
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


def _ordered_rows(level: Level, tree: Tree, symbol: str, args: Sequence[Scalar], rel: Rel) -> Scalar:
    """`(a, b) < ANY (SELECT x, y ...)`: whether TRUE is among what the rows' comparisons give; for ALL, among nothing
    but TRUE."""
    statement, location = level.statement, tree.location
    any_ = tree.sub_link_type == pb.ANY_SUBLINK
    fields = tuple(f"f{number}" for number in range(1, len(args) + 1))
    left = RowConstructor(items=tuple(args), names=fields, type=SqlType(RECORD))
    columns = tuple(ColumnRef(id=field.id, type=field.type) for field in rel.fields)
    right = RowConstructor(items=columns, names=fields, type=SqlType(RECORD))
    test = make_operator(level, (symbol,), left, right, location)
    field = Field(id=statement.new_id(), name="compared", type=BOOLEAN)
    compared = Project(input=rel, exprs=(test,), fields=(field,))
    signature = find_operator(level, "=", BOOL, BOOL, location)
    result = QuantifiedSubquery(
        args=(Literal(value=True, type=BOOLEAN),),
        operators=(signature,),
        quantifier="any" if any_ else "all",
        rel=compared,
        type=BOOLEAN,
    )
    form = RowOfQuery(symbol=symbol, left=tuple(args), rel=rel, quantifier="ANY" if any_ else "ALL")
    return statement.at(statement.written_as(result, form), location)


def compare_row_with_subquery(level: Level, names: tuple[str, ...], tree: Tree, link: Tree) -> Scalar:
    """`(a, b) op (SELECT x, y ...)`: compared with one scalar subquery for each column."""
    left = bind(level, tree.lexpr)
    assert isinstance(left, RowConstructor)
    rel = bind_subquery(level, link.subselect)
    _check_width(level, rel, len(left.items), link.location)
    items = tuple(
        ScalarSubquery(rel=single_column(level.statement, rel, index), type=field.type)
        for index, field in enumerate(rel.fields)
    )
    # As of a row that is written out: compared as SQL says, where a NULL is equal to nothing.
    fields = tuple(f"f{number}" for number in range(1, len(items) + 1))
    right = RowConstructor(items=items, names=fields, type=SqlType(RECORD))
    result = make_operator(level, names, left, right, tree.location)
    return level.statement.written_as(result, RowOfQuery(symbol=names[-1], left=left.items, rel=rel))


def _check_width(level: Level, rel: Rel, width: int, location: int) -> None:
    if len(rel.fields) != width:
        problem = "too many" if len(rel.fields) > width else "too few"
        raise SqlSyntaxError(f"subquery has {problem} columns", position=level.statement.position(location))


HANDLERS: Mapping[str, Handler] = {"sub_link": _sub_link}
