"""What an index has besides plain columns: keys that are expressions, and the condition of a partial one.

Source of the rules: PostgreSQL's transformIndexStmt, ComputeIndexAttrs and pg_get_indexdef_worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from planner.definitions.expression_text import ObjectNames
from planner.definitions.mutability import is_immutable
from planner.definitions.row_expressions import StoredExpression, shown_expression, stored_expression
from planner.errors import FeatureNotSupported, InvalidObjectDefinition
from planner.expressions.bind import INDEX_CLAUSE, PREDICATE_CLAUSE, bind_clause
from planner.ir.nodes import Collate, ColumnRef, Scalar
from planner.queries.changes.column_values import parse_expression
from planner.queries.column_names import NO_NAME, column_name
from planner.resolution.casting import to_boolean
from planner.resolution.statement import BindContext, Level
from planner.syntax.identifiers import quote_identifier
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Parsed, Tree
from planner.types.types import TEXT, UNKNOWN, SqlType
from storage.catalog.model import Relation

WITHOUT_NAME = "expr"
"""What a key is called whose expression gives no name."""


class IndexExpression(Struct, frozen=True, kw_only=True):
    """A key that is an expression, as the catalog keeps it. `is_column`: it is a column of the table and nothing more.
    `name` is what the index calls it."""

    text: str
    columns: tuple[int, ...]
    type: SqlType
    is_column: bool
    name: str


def index_expression(
    relation: Relation, text: str, context: BindContext, written: Parsed | None = None, *, stored: bool = False
) -> IndexExpression:
    """What is kept of the key `text` of an index of `relation`; as `check_expression`. Raises 42P17 for what is not
    immutable."""
    bound: list[Scalar] = []

    def bind(level: Level, tree: Tree) -> Scalar:
        expr = bind_clause(level, tree, INDEX_CLAUSE)
        if not is_immutable(expr):
            raise InvalidObjectDefinition("functions in index expression must be marked IMMUTABLE")
        bound.append(expr)
        return expr

    kept = stored_expression(relation, text, context, written, stored, bind)
    scalar = bound[-1]
    while isinstance(scalar, Collate):
        scalar = scalar.arg
    tree = written.tree if written is not None else parse_expression(text)[1]
    name = column_name(tree)
    return IndexExpression(
        text=kept.text,
        columns=kept.columns,
        type=SqlType(TEXT) if scalar.type.oid == UNKNOWN else scalar.type,
        is_column=isinstance(scalar, ColumnRef) and len(kept.columns) == 1 and kept.columns[0] > 0,
        name=WITHOUT_NAME if name == NO_NAME else name,
    )


def index_predicate(
    relation: Relation, text: str, context: BindContext, written: Parsed | None = None, *, stored: bool = False
) -> StoredExpression:
    """What is kept of the condition of a partial index; as `index_expression`. Raises 42804 when it is none."""

    def bind(level: Level, tree: Tree) -> Scalar:
        expr = to_boolean(level.statement, bind_clause(level, tree, PREDICATE_CLAUSE), "WHERE")
        if not is_immutable(expr):
            raise InvalidObjectDefinition("functions in index predicate must be marked IMMUTABLE")
        return expr

    return stored_expression(relation, text, context, written, stored, bind)


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
