"""Expressions over one row of a table, as its definition has them: CHECK constraints and generated columns.

Their text is bound in a scope that offers the table's columns and nothing else. What comes of it are queries that
compute over rows at hand (`RETURNING_ROWS`) or find rows of the table that break a rule, and the scalars themselves for
whoever evaluates them without an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from msgspec import Struct

from planner.common_errors import missing_parameter
from planner.definitions.deparse import expression_text as deparsed
from planner.definitions.expression_text import NotPrintable, ObjectNames, expression_text, printed
from planner.definitions.mutability import is_written_immutably
from planner.definitions.views import written_out
from planner.errors import InvalidColumnReference, InvalidObjectDefinition, SqlError
from planner.expressions.bind import CHECK_CLAUSE, COPY_CLAUSE, DEFAULT_CLAUSE, POLICY_CLAUSE, bind_clause
from planner.ir.bound import BoundQuery
from planner.ir.domain_faults import DomainFault
from planner.ir.nodes import (
    RETURNING_ROWS,
    BoolOp,
    Case,
    ColumnRef,
    CteScan,
    Distinct,
    DomainValue,
    Field,
    Filter,
    IsNull,
    Limit,
    Literal,
    Project,
    Scalar,
    Scan,
)
from planner.ir.rewrite import column_ids
from planner.queries.changes.column_values import assign, bind_generation, bound_query, computing, row_scope
from planner.queries.grammar import new_statement
from planner.queries.relations import bind_in_view
from planner.queries.stored_expressions import VALUE, bind_stored, parse_expression, with_lists
from planner.resolution.casting import to_boolean
from planner.resolution.domains import domain_rules, domains_over, has_rules, held_against_rules, own_conditions
from planner.resolution.operators import BOOLEAN
from planner.resolution.statement import BindContext, Level, Statement
from planner.syntax.identifiers import quote_identifier
from planner.syntax.parse import Parsed, Tree, split_and_parse, subtrees
from planner.types.type_scope import names_to_keep
from planner.types.types import INT4, INT8, SqlType, type_of_column
from planner.types.user_types import with_arrays_shown
from storage.catalog.model import Column, DomainType, Relation, Schema

DOMAIN_VALUE = "d"
"""`Relation.kind` of what stands for a value of a domain (`value_of`): a row of the one column ``value``."""

WHOLE_ROW = 0
"""What pg_constraint.conkey has for a row as a value."""


class RowConditions(Struct, frozen=True, kw_only=True):
    """Conditions that a row of a table has to meet, each unless it is NULL. `fields` are the table's live columns in
    attnum order, which the conditions refer to. `failing` gives for each row at hand (as `RETURNING_ROWS`) the number
    of the first condition that is false, from 1 on, or 0. `violated` gives the live columns of one row of the table for
    which a condition is false, then the number of the first such one."""

    fields: tuple[Field, ...]
    conditions: tuple[Scalar, ...]
    failing: BoundQuery
    violated: BoundQuery


def bind_conditions(relation: Relation, texts: Sequence[str], context: BindContext) -> RowConditions:
    """The conditions with these texts, which `check_expression` has accepted before."""
    statement = new_statement(parse_expression(texts[0])[0], context)
    level, scan = row_scope(statement, relation)

    def bind(tree: Tree) -> Scalar:
        return with_lists(level, _condition(level, tree))

    return _row_conditions(statement, scan, [bind_stored(statement, text, bind) for text in texts])


class DomainConditions(Struct, frozen=True, kw_only=True):
    """What the domains of a table's columns demand of its rows: `faults[i]` is the error where the i-th condition
    is false. None: it is never false, computing it raises the error."""

    faults: tuple[DomainFault | None, ...]
    conditions: RowConditions


def bind_domains(
    relation: Relation, context: BindContext, attnums: Collection[int] | None = None
) -> DomainConditions | None:
    """The rules of the domains that columns of `relation` (those of `attnums`) are of or made of; None when there are
    none."""
    live = relation.live_columns()
    ruled = [c.attnum for c in live if (attnums is None or c.attnum in attnums) and has_rules(c.type_oid)]
    if not ruled:
        return None
    statement = new_statement(parse_expression("NULL")[0], context)
    _, scan = row_scope(statement, relation)
    faults: list[DomainFault | None] = []
    conditions: list[Scalar] = []
    for column, field in zip(live, scan.fields, strict=True):
        if column.attnum not in ruled:
            continue
        value = ColumnRef(id=field.id, type=field.type.without_domain())
        held = held_against_rules(statement, value, column.type_oid)
        if domains_over(column.type_oid):
            for rule, fault in domain_rules(statement, column.type_oid, value):
                faults.append(fault)
                conditions.append(rule or IsNull(arg=value, negated=True, type=BOOLEAN))
        parts = held.arg if isinstance(held, DomainValue) else held
        if parts is not value:
            faults.append(None)
            conditions.append(Distinct(left=parts, right=value, negated=True, type=BOOLEAN))
    return DomainConditions(faults=tuple(faults), conditions=_row_conditions(statement, scan, conditions))


def bind_breaches(relation: Relation, column: Column, domain: DomainType, context: BindContext) -> BoundQuery:
    """What finds a row of the table whose value in `column` breaks a rule of `domain` itself."""
    statement = new_statement(parse_expression("NULL")[0], context)
    _, scan = row_scope(statement, relation)
    field = next(f for f in scan.fields if f.origin is not None and f.origin.attnum == column.attnum)
    value = ColumnRef(id=field.id, type=field.type.without_domain())
    conditions = [
        condition or IsNull(arg=value, negated=True, type=BOOLEAN)
        for condition in own_conditions(statement, domain, value)
    ]
    return _row_conditions(statement, scan, conditions).violated


def _row_conditions(statement: Statement, scan: Scan, conditions: Sequence[Scalar]) -> RowConditions:
    number = Case(
        whens=tuple(
            (BoolOp(op="not", args=(condition,), type=BOOLEAN), _number(place))
            for place, condition in enumerate(conditions, 1)
        ),
        otherwise=_number(0),
        type=SqlType(INT4),
    )
    return RowConditions(
        fields=scan.fields,
        conditions=tuple(conditions),
        failing=_failing(statement, scan, number),
        violated=_violated(statement, scan, conditions, number),
    )


def _number(value: int) -> Literal:
    return Literal(value=value, type=SqlType(INT4))


def _failing(statement: Statement, scan: Scan, number: Scalar) -> BoundQuery:
    output = statement.new_field("failing", number.type)
    rows = CteScan(cte=RETURNING_ROWS, fields=scan.fields)
    return bound_query(statement, Project(input=rows, exprs=(number,), fields=(output,)))


def _violated(statement: Statement, scan: Scan, conditions: Sequence[Scalar], number: Scalar) -> BoundQuery:
    broken: list[Scalar] = [BoolOp(op="not", args=(condition,), type=BOOLEAN) for condition in conditions]
    condition = broken[0] if len(broken) == 1 else BoolOp(op="or", args=tuple(broken), type=BOOLEAN)
    one = _one_row(Filter(input=scan, condition=condition, fields=scan.fields))
    exprs = (*(ColumnRef(id=field.id, type=field.type) for field in scan.fields), number)
    outputs = (
        *(statement.new_field(field.name, field.type) for field in scan.fields),
        statement.new_field("failing", number.type),
    )
    statement.relations.add(scan.relation_oid)
    return bound_query(statement, Project(input=one, exprs=exprs, fields=outputs))


def bind_null_rows(relation: Relation, column: Column, context: BindContext) -> BoundQuery:
    """A row of the table that has no value in `column`, if there is one."""
    statement = new_statement(parse_expression("NULL")[0], context)
    _, scan = row_scope(statement, relation)
    field = next(f for f in scan.fields if f.origin is not None and f.origin.attnum == column.attnum)
    null = IsNull(arg=ColumnRef(id=field.id, type=field.type), negated=False, type=BOOLEAN)
    statement.relations.add(relation.oid)
    return bound_query(statement, _one_row(Filter(input=scan, condition=null, fields=scan.fields)))


def _one_row(rel: Filter) -> Limit:
    return Limit(input=rel, count=Literal(value=1, type=SqlType(INT8)), offset=None, ties=False, fields=rel.fields)


def _condition(level: Level, tree: Tree) -> Scalar:
    return to_boolean(level.statement, bind_clause(level, tree, CHECK_CLAUSE), "CHECK")


class StoredExpression(Struct, frozen=True, kw_only=True):
    """An expression over a row as the catalog keeps it, and the attnums of the columns that it reads, in its order;
    `WHOLE_ROW` when it reads the row as a value."""

    text: str
    columns: tuple[int, ...]


def value_of(domain: DomainType) -> Relation:
    """A value of the type under `domain` as a row, which its checks read."""
    column = Column(attnum=1, name=VALUE, type_oid=domain.base_oid, typmod=domain.typmod)
    return Relation(
        oid=0, name=domain.name, schema=domain.schema, owner=domain.owner, kind=DOMAIN_VALUE, columns=(column,)
    )


def check_expression(
    relation: Relation, text: str, context: BindContext, written: Parsed | None = None, *, stored: bool = False
) -> StoredExpression:
    """What is kept of a CHECK expression of `relation`. Its errors have positions where `written`, the expression as it
    stands in its statement, is given; `stored` says that the text is one that has been kept before.

    Raises 42703 for other columns, 42804 when it is no condition, 0A000 for subqueries, 42803 for aggregates and the
    like.
    """
    return stored_expression(relation, text, context, written, stored, _condition)


class StoredPolicy(StoredExpression, frozen=True, kw_only=True):
    """A policy's condition as the catalog keeps it; the relations and functions that it names, by oid."""

    depends_on: frozenset[int]


def policy_expression(relation: Relation, written: Parsed, context: BindContext) -> StoredPolicy:
    """What is kept of the expression of a policy on `relation`, which may have subqueries. Raises 42703, 42804 for what
    is no condition, 42803 for aggregates and the like, 42P02 for parameters."""
    statement = new_statement(written, context)
    statement.written, statement.outlined = {}, True
    level, scan = row_scope(statement, relation)

    def bind(_: Level) -> Scalar:
        return to_boolean(statement, bind_clause(level, written.tree, POLICY_CLAUSE), "POLICY")

    try:
        expr = bind_in_view(statement, bind, written)
    except SqlError as error:
        # PostgreSQL gives no positions here.
        error.position = None
        raise
    if statement.param_types:
        raise missing_parameter(min(statement.param_types))
    live = {field.id: field.origin.attnum for field in scan.fields if field.origin is not None}
    columns = tuple(dict.fromkeys(live[id] for id in column_ids(expr) if id in live))
    if not has_subquery(written.tree):
        try:
            with names_to_keep():
                text = printed(expr, _names(scan, relation), statement.written)[0]
            return StoredPolicy(text=text, columns=columns, depends_on=frozenset(statement.functions))
        except NotPrintable:
            pass
    schema = context.catalog.get(relation.schema)
    assert isinstance(schema, Schema)
    table = f"{quote_identifier(schema.name)}.{quote_identifier(relation.name)}"
    (query,) = split_and_parse(f"SELECT 1 FROM {table} WHERE {deparsed(written.tree)}")
    text, used, keys = written_out(query, context)
    (stored,) = split_and_parse(text)
    return StoredPolicy(
        text=deparsed(stored.tree.where_clause), columns=columns, depends_on=frozenset((used | keys) - {relation.oid})
    )


def has_subquery(tree: Tree) -> bool:
    """Whether there is a query in an expression."""
    return any(node.DESCRIPTOR.name == "SubLink" for node in subtrees(tree))


def generation_expression(
    relation: Relation,
    column: Column,
    context: BindContext,
    written: Parsed | None = None,
    *,
    stored: bool = False,
) -> StoredExpression:
    """What is kept of the expression of a generated `column` (its `default`); as `check_expression`. Raises 42P17 also
    for what is not immutable."""

    def bind(level: Level, tree: Tree) -> Scalar:
        expr = bind_generation(level, tree, relation, column)
        if not is_written_immutably(expr, level.statement):
            raise InvalidObjectDefinition("generation expression is not immutable")
        return expr

    return stored_expression(relation, column.default or "", context, written, stored, bind)


def stored_expression(
    relation: Relation,
    text: str,
    context: BindContext,
    written: Parsed | None,
    stored: bool,
    bind: Callable[[Level, Tree], Scalar],
) -> StoredExpression:
    """What is kept of an expression that `bind` binds over a row of `relation`; as `check_expression`."""
    parsed, tree = (written, written.tree) if written is not None else parse_expression(text)
    statement = new_statement(parsed, context)
    statement.written = {}
    level, scan = row_scope(statement, relation)
    if written is not None:
        expr = bind(level, tree)
    elif stored:
        expr = bind_stored(statement, text, lambda tree: bind(level, tree))
    else:
        expr = bind_in_view(statement, lambda _: bind(level, tree), parsed)
    attnums: dict[int | None, int] = {None: WHOLE_ROW}
    attnums.update((field.id, field.origin.attnum) for field in scan.fields if field.origin is not None)
    try:
        with names_to_keep():
            kept, columns = printed(expr, _names(scan, relation), statement.written)
    except NotPrintable:
        kept, columns = text, tuple(dict.fromkeys(column_ids(expr)))
    return StoredExpression(text=kept, columns=tuple(attnums[id] for id in columns))


def shown_expression(
    relation: Relation | None,
    text: str,
    context: BindContext,
    column: Column | None = None,
    *,
    pretty: bool,
    objects: ObjectNames | None,
) -> str:
    """A stored expression (over the columns of `relation`, if any; the value of `column`, if that is given) as it is
    shown: without superfluous parentheses when `pretty`, with `objects` called by their names."""
    text = with_arrays_shown(text)
    statement = new_statement(parse_expression(text)[0], context)
    statement.written = {}
    level, names = Level(statement, None), {}
    if relation is not None:
        level, scan = row_scope(statement, relation)
        names = _names(scan, relation)

    def bind(tree: Tree) -> Scalar:
        if relation is not None and column is not None and column.generated:
            return bind_generation(level, tree, relation, column)
        if column is not None:
            expr = bind_clause(level, tree, DEFAULT_CLAUSE)
            return assign(statement, expr, column, type_of_column(column))
        return bind_clause(level, tree, POLICY_CLAUSE if has_subquery(tree) else CHECK_CLAUSE)

    try:
        expr = bind_stored(statement, text, bind)
        return expression_text(expr, names, statement.written, pretty=pretty, objects=objects)
    except NotPrintable:
        return text


def filtering_query(relation: Relation, written: Parsed, context: BindContext) -> tuple[BoundQuery, list[int]]:
    """Whether each row of `relation` at hand satisfies the condition of a COPY ... WHERE, and the columns (attnums)
    that it reads. Raises 42804 when it is none, 42P10 for generated columns, which rows do not have yet, and 0A000 for
    subqueries."""
    statement = new_statement(written, context)
    level, scan = row_scope(statement, relation)
    condition = to_boolean(statement, bind_clause(level, written.tree, COPY_CLAUSE), "WHERE")
    used = set(column_ids(condition))
    for column, field in zip(relation.live_columns(), scan.fields, strict=True):
        if column.generated and field.id in used:
            raise InvalidColumnReference(
                "generated columns are not supported in COPY FROM WHERE conditions",
                detail=f'Column "{column.name}" is a generated column.',
            )
    rows = CteScan(cte=RETURNING_ROWS, fields=scan.fields)
    output = statement.new_field("satisfied", BOOLEAN)
    live = relation.live_columns()
    read = [column.attnum for column, field in zip(live, scan.fields, strict=True) if field.id in used]
    return bound_query(statement, Project(input=rows, exprs=(condition,), fields=(output,))), read


def computing_query(relation: Relation, context: BindContext) -> BoundQuery | None:
    """What gives rows of `relation` at hand with their generated columns; None when it has none."""
    if not any(column.generated for column in relation.live_columns()):
        return None
    statement = new_statement(parse_expression("NULL")[0], context)
    computed = computing(statement, relation)
    return None if computed is None else bound_query(statement, computed)


def _names(scan: Scan, relation: Relation) -> dict[int, str]:
    if relation.kind == DOMAIN_VALUE:
        return {field.id: "VALUE" for field in scan.fields}
    return {field.id: quote_identifier(field.name) for field in scan.fields}
