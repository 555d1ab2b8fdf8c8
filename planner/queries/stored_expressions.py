"""Expressions that the catalog keeps, bound; the checks of domains among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from planner.expressions.bind import CHECK_CLAUSE, POLICY_CLAUSE, bind_clause
from planner.ir.nodes import (
    ArrayConstructor,
    Cast,
    ColumnRef,
    Field,
    InList,
    Literal,
    QuantifiedArray,
    Scalar,
)
from planner.ir.rewrite import transform
from planner.queries.relations import bind_in_view, scan_table
from planner.resolution.casting import to_boolean
from planner.resolution.operators import BOOLEAN, build_call, find_operator
from planner.resolution.statement import Level, NsColumn, NsItem, Statement
from planner.syntax.parse import Parsed, Tree, split_and_parse
from planner.types.types import SqlType, column_type
from storage.catalog.model import DomainType, Relation

_T = TypeVar("_T")

VALUE = "value"
"""What a check calls the value."""


@lru_cache(maxsize=1024)
def parse_expression(text: str) -> tuple[Parsed, Any]:
    """A stored expression's parse tree."""
    parsed = split_and_parse(f"SELECT {text}")[0]
    return parsed, parsed.tree.target_list[0].res_target.val


def bind_stored(statement: Statement, text: str, bind: Callable[[Tree], _T]) -> _T:
    """What `bind` makes of a stored expression: without error positions, its names found as when it was stored."""
    parsed, tree = parse_expression(text)
    outer, statement.reads_stored = statement.reads_stored, True
    try:
        result: _T = bind_in_view(statement, lambda _: bind(tree), parsed)
        return result
    finally:
        statement.reads_stored = outer


def value_scope(statement: Statement, type: SqlType) -> tuple[Level, Field]:
    """A level that offers a value of the type as `VALUE` and nothing else."""
    level = Level(statement, None)
    field = statement.new_field(VALUE, type)
    item = NsItem(alias=None, columns=[NsColumn(VALUE, field=field)], rel_visible=False)
    level.own(field.id, None, VALUE)
    level.namespace.append(item)
    level.rtes.append(item)
    return level, field


def bind_domain_check(statement: Statement, domain: DomainType, text: str, value: Scalar) -> Scalar:
    """The check with this text of `domain`, as a condition on `value`."""
    level, field = value_scope(statement, column_type(domain.base_oid, domain.typmod))

    def bind(tree: Tree) -> Scalar:
        return to_boolean(statement, bind_clause(level, tree, CHECK_CLAUSE), "CHECK")

    condition = bind_stored(statement, text, bind)

    def of_value(node: object) -> Scalar | None:
        return value if isinstance(node, ColumnRef) and node.id == field.id else None

    result: Scalar = transform(condition, of_value)
    return result


def bind_policy(statement: Statement, relation: Relation, text: str, fields: Sequence[Field]) -> Scalar:
    """A policy's expression with this text as a condition on a row of `relation`, whose live columns are `fields`."""
    level = Level(statement, None)
    scan, item = scan_table(level, relation, None, -1)
    level.namespace.append(item)
    level.rtes.append(item)

    def bind(tree: Tree) -> Scalar:
        return to_boolean(statement, bind_clause(level, tree, POLICY_CLAUSE), "POLICY")

    condition = bind_stored(statement, text, bind)
    columns = {own.id: ColumnRef(id=field.id, type=field.type) for own, field in zip(scan.fields, fields, strict=False)}

    def of_row(node: object) -> Scalar | None:
        return columns.get(node.id) if isinstance(node, ColumnRef) else None

    result: Scalar = transform(condition, of_row)
    return result


def with_lists(level: Level, condition: Scalar) -> Scalar:
    """`condition` with comparisons with written-out arrays, as which IN is kept, as IN again: that can be evaluated
    without an engine."""

    def in_list(node: Scalar) -> Scalar | None:
        if not isinstance(node, QuantifiedArray):
            return None
        array, negated = node.array, node.quantifier == "all"
        if node.operator.name != ("<>" if negated else "="):
            return None
        items = array.arg.items if isinstance(array, Cast) and isinstance(array.arg, ArrayConstructor) else ()
        items = array.items if isinstance(array, ArrayConstructor) else items
        if not items or not all(isinstance(item, (Literal, Cast)) for item in items):
            return None
        equals = find_operator(level, "=", node.operator.args[0], node.operator.args[1], -1)
        calls = [build_call(level, equals, [node.arg, item], -1) for item in items]
        return InList(
            arg=calls[0].args[0],
            items=tuple(call.args[1] for call in calls),
            equals=calls[0].signature,
            negated=negated,
            type=BOOLEAN,
        )

    return transform(condition, in_list)
