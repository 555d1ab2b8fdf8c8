"""The checks of domains, bound where a value is held against them."""

from __future__ import annotations

from planner.expressions.bind import CHECK_CLAUSE, bind_clause
from planner.ir.nodes import ColumnRef, Field, Scalar
from planner.ir.rewrite import transform
from planner.queries.changes.column_values import bind_stored
from planner.resolution.casting import to_boolean
from planner.resolution.statement import Level, NsColumn, NsItem, Statement
from planner.syntax.parse import Tree
from planner.types.types import SqlType, column_type
from storage.catalog.model import DomainType

VALUE = "value"
"""What a check calls the value."""


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
