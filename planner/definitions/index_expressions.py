"""What an index has besides plain columns: keys that are expressions, and the condition of a partial one.

Source of the rules: PostgreSQL's transformIndexStmt, ComputeIndexAttrs and pg_get_indexdef_worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from planner.collations.derivation import Collations
from planner.definitions.expression_text import ObjectNames
from planner.definitions.mutability import is_written_immutably
from planner.definitions.row_expressions import StoredExpression, shown_expression, stored_expression
from planner.errors import FeatureNotSupported, InvalidObjectDefinition
from planner.expressions.bind import INDEX_CLAUSE, PREDICATE_CLAUSE, STATISTICS_CLAUSE, bind_clause
from planner.ir.bound import BoundQuery
from planner.ir.nodes import RETURNING_ROWS, Collate, ColumnRef, CteScan, Field, Project, Scalar
from planner.ir.rewrite import column_ids
from planner.queries.changes.column_values import bound_query, row_scope
from planner.queries.column_names import NO_NAME, column_name
from planner.queries.grammar import new_statement
from planner.queries.stored_expressions import bind_stored, parse_expression, with_lists
from planner.resolution.casting import to_boolean
from planner.resolution.statement import BindContext, Level
from planner.syntax.identifiers import quote_identifier
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Parsed, Tree
from planner.types.operator_classes import column_collation, key_collation
from planner.types.system_relations import BuiltinRelations
from planner.types.types import TEXT, UNKNOWN, SqlType
from storage.catalog.model import CatalogSnapshot, Index, Relation

WITHOUT_NAME = "expr"
"""What a key is called whose expression gives no name."""


class IndexExpression(Struct, frozen=True, kw_only=True):
    """A key that is an expression, as the catalog keeps it. `is_column`: it is a column of the table and nothing more.
    `name` is what the index calls it, `collation` the COLLATE around it, which the text of an index's key has not;
    ``""`` for none."""

    text: str
    columns: tuple[int, ...]
    type: SqlType
    is_column: bool
    name: str
    collation: str


def index_expression(
    relation: Relation, text: str, context: BindContext, written: Parsed | None = None, *, stored: bool = False
) -> IndexExpression:
    """What is kept of the key `text` of an index of `relation`; as `check_expression`. Raises 42P17 for what is not
    immutable."""

    def bind(level: Level, tree: Tree) -> Scalar:
        expr = bind_clause(level, tree, INDEX_CLAUSE)
        if not is_written_immutably(expr, level.statement):
            raise InvalidObjectDefinition("functions in index expression must be marked IMMUTABLE")
        _refuse_functions(level)
        return expr

    return _kept(relation, text, context, written, stored, bind, collation_apart=True)


def _kept(
    relation: Relation,
    text: str,
    context: BindContext,
    written: Parsed | None,
    stored: bool,
    bind: Callable[[Level, Tree], Scalar],
    *,
    collation_apart: bool = False,
) -> IndexExpression:
    collation = ""
    bound: list[Scalar] = []

    def bind_noted(level: Level, tree: Tree) -> Scalar:
        nonlocal collation
        scalar = bind(level, tree)
        if collation_apart and isinstance(scalar, Collate):
            collation = scalar.collation
            while isinstance(scalar, Collate):
                scalar = scalar.arg
        bound.append(scalar)
        return scalar

    kept = stored_expression(relation, text, context, written, stored, bind_noted)
    scalar = bound[-1]
    tree = written.tree if written is not None else parse_expression(text)[1]
    name = column_name(tree)
    return IndexExpression(
        text=kept.text,
        columns=kept.columns,
        # Indexes of constants of no type were made before they were refused.
        type=SqlType(TEXT) if stored and scalar.type.oid == UNKNOWN else scalar.type,
        is_column=isinstance(scalar, ColumnRef) and len(kept.columns) == 1 and kept.columns[0] > 0,
        name=WITHOUT_NAME if name == NO_NAME else name,
        collation=collation,
    )


def statistics_expression(
    relation: Relation, text: str, context: BindContext, written: Parsed | None = None, *, stored: bool = False
) -> IndexExpression:
    """What is kept of the expression `text` of a statistics object of `relation`; as `check_expression`. Nothing is
    computed of it, so that it may be volatile."""

    def bind(level: Level, tree: Tree) -> Scalar:
        return bind_clause(level, tree, STATISTICS_CLAUSE)

    return _kept(relation, text, context, written, stored, bind)


def _refuse_functions(level: Level) -> None:
    """0A000 for functions of users: keys are computed where no catalog is at hand."""
    if level.statement.functions:
        raise FeatureNotSupported("functions of users in indexes are not supported")


def index_predicate(
    relation: Relation, text: str, context: BindContext, written: Parsed | None = None, *, stored: bool = False
) -> StoredExpression:
    """What is kept of the condition of a partial index; as `index_expression`. Raises 42804 when it is none."""

    def bind(level: Level, tree: Tree) -> Scalar:
        expr = to_boolean(level.statement, bind_clause(level, tree, PREDICATE_CLAUSE), "WHERE")
        if not is_written_immutably(expr, level.statement):
            raise InvalidObjectDefinition("functions in index predicate must be marked IMMUTABLE")
        _refuse_functions(level)
        return expr

    return stored_expression(relation, text, context, written, stored, bind)


class RowValue(Struct, frozen=True, kw_only=True):
    """A key or condition of an index, bound to be computed over rows at hand, of which it gets the columns `attnums`.
    `fields` are these columns, which `scalar` refers to; `query` reads them as `RETURNING_ROWS`."""

    attnums: tuple[int, ...]
    fields: tuple[Field, ...]
    scalar: Scalar
    query: BoundQuery


def bind_row_value(relation: Relation, text: str, *, condition: bool = False) -> RowValue:
    """What computes the stored key `text` of an index of `relation`, or, if it is a `condition`, its predicate."""
    statement = new_statement(parse_expression(text)[0], _ANYWHERE)
    level, scan = row_scope(statement, relation)

    def bind(tree: Tree) -> Scalar:
        if condition:
            return with_lists(level, to_boolean(statement, bind_clause(level, tree, PREDICATE_CLAUSE), "WHERE"))
        return bind_clause(level, tree, INDEX_CLAUSE)

    scalar = bind_stored(statement, text, bind)
    used = set(column_ids(scalar))
    # Constants too have as many values as there are rows.
    fields = tuple(field for field in scan.fields if field.id in used) or scan.fields[:1]
    output = statement.new_field("value", scalar.type)
    rows = CteScan(cte=RETURNING_ROWS, fields=fields)
    return RowValue(
        attnums=tuple(field.origin.attnum for field in fields if field.origin is not None),
        fields=fields,
        scalar=scalar,
        query=bound_query(statement, Project(input=rows, exprs=(scalar,), fields=(output,))),
    )


_ANYWHERE = BindContext(
    catalog=CatalogSnapshot.empty(),
    search_path=(),
    settings={},
    user="",
    database="",
    system_relations=BuiltinRelations(),
)
"""Stored expressions mean the same everywhere, and read nothing but a row."""


def expression_collation(relation: Relation, text: str) -> int:
    """The oid of the collation that is derived for the stored key `text` of an index of `relation`, 0 for none."""
    value = bind_row_value(relation, text)
    return Collations(value.query.rel, lambda _: relation).of_value(value.scalar)


def key_collations(relation: Relation, index: Index) -> tuple[int, ...]:
    """The collations that the keys of an index of `relation` have by themselves, as oids, 0 for none."""
    columns = {column.attnum: column for column in relation.columns}
    types = iter(index.expression_types)
    texts = iter(index.expressions)
    plain = not any(column.collation for column in relation.columns)
    found = []
    for attnum, collation in zip(index.columns, index.collations, strict=True):
        if attnum:
            found.append(column_collation(columns[attnum]))
            continue
        own, text = key_collation(next(types)[0]), next(texts)
        # What is bound takes time, and few expressions say COLLATE.
        found.append(own if plain and collation == own else expression_collation(relation, text))
    return tuple(found)


def refuse_whole_rows(columns: Sequence[int]) -> None:
    """0A000 for an expression that reads the row as a value, whose columns may change."""
    if any(attnum <= 0 for attnum in columns):
        raise FeatureNotSupported("index expressions over whole rows are not supported")


def distinct_names(names: Sequence[str]) -> list[str]:
    """`names`, those that come again with numbers behind them (ChooseIndexColumnNames)."""
    found: list[str] = []
    for name in names:
        chosen, number = name, 0
        while chosen in found:
            number += 1
            suffix = str(number)
            chosen = name.encode()[: 63 - len(suffix)].decode(errors="ignore") + suffix
        found.append(chosen)
    return found


def key_texts(
    relation: Relation,
    columns: Sequence[int],
    expressions: Sequence[str],
    context: BindContext,
    *,
    pretty: bool,
    objects: ObjectNames | None = None,
) -> Iterator[str]:
    """The keys of an index of `relation` as pg_get_indexdef shows them: names, and for each 0 among `columns` one of
    the stored `expressions`."""
    names = {column.attnum: quote_identifier(column.name) for column in relation.columns}
    stored = iter(expressions)
    for attnum in columns:
        if attnum:
            yield names[attnum]
            continue
        text = next(stored)
        shown = shown_expression(relation, text, context, pretty=pretty, objects=objects)
        yield f"({shown})" if needs_parentheses(text) else shown


def needs_parentheses(text: str) -> bool:
    """Whether a key that is shown as `text` stands in parentheses: what does not look like a call of a function."""
    _, tree = parse_expression(text)
    kind = tree.WhichOneof("node")
    if kind == "a_expr":
        return bool(tree.a_expr.kind != pb.AEXPR_NULLIF)
    return kind not in ("func_call", "coalesce_expr", "min_max_expr", "sqlvalue_function")
