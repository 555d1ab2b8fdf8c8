"""Which keys a conflict target means: by columns, expressions and the condition of partial indexes.

Source of the rules: PostgreSQL's infer_arbiter_indexes. Expressions are compared as they are bound, over the same row.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from planner.common_errors import unknown_column
from planner.errors import InvalidColumnReference
from planner.expressions.bind import INDEX_CLAUSE, PREDICATE_CLAUSE, bind_clause
from planner.ir.bound import ConditionalKey
from planner.ir.nodes import Collate, ColumnRef, Param, Scalar
from planner.ir.rewrite import transform, walk
from planner.queries.changes.column_values import row_scope
from planner.queries.changes.implication import implied, plain_cast
from planner.queries.changes.targets import ChangeTarget, note_item, through_views
from planner.queries.stored_expressions import bind_stored, with_lists
from planner.resolution.casting import to_boolean
from planner.resolution.statement import Level, Statement
from planner.syntax.libpg_query import pb
from planner.syntax.names import strings
from planner.syntax.parse import Tree
from planner.types.operator_classes import are_alike, named_operator_class
from planner.types.table_indexes import index_of_constraint
from planner.types.type_names import check_collation, collation_oid
from storage.catalog.model import Constraint, Index, Relation

_DEFAULT_ORDERS = (pb.SORTBY_DEFAULT, pb.SORTBY_NULLS_DEFAULT)
_DEFAULT_COLLATION, _C_COLLATION = 100, 950


class Inferred(Struct, frozen=True, kw_only=True):
    """The keys that a conflict target means: `keys` whatever the parameters are, `conditional` for some of them."""

    keys: list[Constraint | Index]
    conditional: list[ConditionalKey]


class _Element(Struct, frozen=True, kw_only=True):
    """One element of a conflict target: a column (its attnum) or an expression, compared in the order that the
    collation and the operator class say where they are given (their oids, or 0)."""

    attnum: int = 0
    expression: Scalar | None = None
    collation: int = 0
    operator_class: int = 0


def inferred(
    statement: Statement, target: ChangeTarget, infer: Tree, unique: Sequence[Constraint | Index], alias: str | None
) -> Inferred:
    """Those of the `unique` keys that the conflict target `infer` means, in a statement that gives the table the name
    `alias`. Raises 42703, 42704, 42P10 and what binding raises."""
    level, scan = row_scope(statement, target.relation)
    named = Level(statement, None)
    named.takes_parameters = True
    """Where the names of the statement are found, which through a view are not those of the table."""
    item, _ = through_views(level, target.views, level.namespace[0])
    item.alias = alias or target.named.name
    named.namespace.append(item)
    named.rtes.append(item)
    note_item(named, infer, item)
    elements: list[_Element] = []
    by_field = {field.id: field.origin.attnum for field in scan.fields if field.origin is not None}
    for node in infer.index_elems:
        element = node.index_elem
        for what, order in (("ASC/DESC", element.ordering), ("NULLS FIRST/LAST", element.nulls_ordering)):
            if order not in _DEFAULT_ORDERS:
                raise InvalidColumnReference(
                    f"{what} is not allowed in ON CONFLICT clause", position=statement.position(infer.location)
                )
        if element.name:
            columns = item.by_name.get(element.name)
            if not columns:
                raise unknown_column(element.name, statement.position(infer.location))
            bound = columns[0].expr
        else:
            bound = bind_clause(named, element.expr, INDEX_CLAUSE)
        scalar = _plain(bound)
        if statement.notes is not None:
            statement.notes.change(infer).elements.append((element, bound))
        attnum = by_field.get(scalar.id, 0) if isinstance(scalar, ColumnRef) else 0
        elements.append(
            _Element(
                attnum=attnum,
                expression=None if attnum else scalar,
                collation=_collation(statement, element, infer),
                operator_class=named_operator_class(strings(element.opclass)) if element.opclass else 0,
            )
        )
    given: list[Scalar] = []
    if infer.HasField("where_clause"):
        given = [_condition(named, infer.where_clause)]
        if statement.notes is not None:
            statement.notes.change(infer).where = given[0]
    keys: list[Constraint | Index] = []
    conditional: list[ConditionalKey] = []
    for key in unique:
        if not _matches(statement, level, target.relation, key, elements):
            continue
        predicate = None if isinstance(key, Constraint) else key.predicate
        if predicate is None:
            keys.append(key)
            continue
        wanted = bind_stored(statement, predicate, lambda tree: _condition(level, tree))
        if implied(wanted, given):
            keys.append(key)
        elif any(isinstance(node, Param) for node in walk(tuple(given))):
            conditional.append(ConditionalKey(oid=key.oid, predicate=wanted, given=given[0]))
    return Inferred(keys=keys, conditional=conditional)


def _collation(statement: Statement, element: Tree, infer: Tree) -> int:
    if not element.collation:
        return 0
    check_collation(strings(element.collation), statement.position(infer.location))
    return collation_oid(strings(element.collation)[-1])


def _matches(
    statement: Statement, level: Level, relation: Relation, key: Constraint | Index, elements: Sequence[_Element]
) -> bool:
    """Whether `elements` are the keys of `key`, but for its condition."""
    if {attnum for attnum in key.columns if attnum} != {element.attnum for element in elements if element.attnum}:
        return False
    index = index_of_constraint(relation, key) if isinstance(key, Constraint) else key
    own = [
        _plain(bind_stored(statement, text, lambda tree: bind_clause(level, tree, INDEX_CLAUSE)))
        for text in index.expressions
    ]
    expressions = [element.expression for element in elements if element.expression is not None]
    if any(expression not in own for expression in expressions) or any(kept not in expressions for kept in own):
        return False
    rest = iter(own)
    keys: list[int | Scalar] = [attnum or next(rest) for attnum in index.columns]
    return all(_orders_alike(element, index, keys) for element in elements)


def _orders_alike(element: _Element, index: Index, keys: Sequence[int | Scalar]) -> bool:
    """Whether one of the `keys` of `index` that `element` is has the collation and the operator class that it says.

    All texts are kept in the order of "C", and earlier versions did not record a column's own collation: a key of the
    default one may be meant by either.
    """
    wanted = element.attnum or element.expression
    for key, own_class, own_collation in zip(keys, index.operator_classes, index.collations, strict=True):
        if key != wanted or (element.operator_class and not are_alike(element.operator_class, own_class)):
            continue
        meant = (own_collation, _C_COLLATION) if own_collation == _DEFAULT_COLLATION else (own_collation,)
        if not element.collation or element.collation in meant:
            return True
    return False


def _condition(level: Level, tree: Tree) -> Scalar:
    return with_lists(level, to_boolean(level.statement, bind_clause(level, tree, PREDICATE_CLAUSE), "WHERE"))


def _plain(scalar: Scalar) -> Scalar:
    """`scalar` without what says how its values are sorted, and who has written its casts."""
    while isinstance(scalar, Collate):
        scalar = scalar.arg
    return transform(scalar, plain_cast)
