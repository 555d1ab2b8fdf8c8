"""The queries of views that other engines have defined, as ours.

A view has its query in one dialect or in several. The first one that can be translated is taken: one that is
PostgreSQL's, or close to it, before Spark's and Trino's. What cannot be is refused by name, never guessed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from planner.definitions.deparse import query_text
from planner.definitions.exchanged.references import name_columns
from planner.errors import DatatypeMismatch, FeatureNotSupported, SqlError, UndefinedParameter
from planner.queries.grammar import new_statement
from planner.resolution.coercion import Context, can_coerce, category
from planner.resolution.query import bind_query
from planner.resolution.statement import BindContext, Level
from planner.syntax.dialects.names import POSTGRES
from planner.syntax.dialects.reading import DIALECTS, read_query
from planner.syntax.identifiers import quote_identifier
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree, split_and_parse
from planner.types.type_names import format_type
from planner.types.types import DATE, SqlType

_BEFORE_OTHERS = (POSTGRES, "postgresql", "duckdb", "spark", "trino")


def translations(texts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The texts (dialect, text) whose dialects are known, the best first."""
    known = {dialect.lower(): text for dialect, text in texts}
    order = [name for name in (*_BEFORE_OTHERS, *sorted(DIALECTS)) if name in known]
    return [(name, known[name]) for name in dict.fromkeys(order)]


def is_postgres(dialect: str) -> bool:
    """Whether a text of the dialect is taken as it is."""
    return dialect in (POSTGRES, "postgresql")


def query_of(dialect: str, text: str) -> Tree:
    """The `Node` of the query `text`. Raises 42601 and 0A000."""
    written = text if is_postgres(dialect) else read_query(text, dialect)
    parsed = split_and_parse(written)
    if len(parsed) != 1 or parsed[0].kind != "select_stmt":
        raise FeatureNotSupported("the text is not one query")
    node = pb.Node()
    node.select_stmt.CopyFrom(parsed[0].tree)
    if node.select_stmt.HasField("into_clause") or node.select_stmt.locking_clause:
        raise FeatureNotSupported("the text is not one query")
    return node


def query_with(
    query: Tree, names: Collection[str], columns: Sequence[tuple[str, SqlType]], context: BindContext, *, trusted: bool
) -> str:
    """The text of `query`, which names relations as they are called here, with the types of `columns`; the columns of
    these relations are `names`. A query that is not `trusted` calls functions that others have chosen: none of them
    may do anything.

    Raises what binding raises, 42804 for a query of other columns, and 0A000.
    """
    name_columns(query, names)
    text = query_text(query)
    (parsed,) = split_and_parse(text)
    statement = new_statement(parsed, context)
    statement.outlined = True
    found = [field.type for field in bind_query(Level(statement, None), parsed.tree).fields]
    if statement.param_types:
        raise UndefinedParameter("there is no parameter $1")
    if statement.volatile and not trusted:
        raise FeatureNotSupported("a view of others cannot call volatile functions")
    if len(found) != len(columns):
        raise DatatypeMismatch(f"the query has {len(found)} columns, and the view {len(columns)}")
    if all(_same(one, other) for one, (_, other) in zip(found, columns, strict=True)):
        return text
    for one, (name, other) in zip(found, columns, strict=True):
        if not _converts(one, other):
            of, to = (format_type(type.oid, type.typmod) for type in (one, other))
            raise DatatypeMismatch(f'column "{name}" of the view is of type {to}, and of the query of type {of}')
    labels = [f"c{place}" for place in range(1, len(columns) + 1)]
    casts = ", ".join(
        f"{label}::{format_type(type.oid, type.typmod)} AS {quote_identifier(name)}"
        for label, (name, type) in zip(labels, columns, strict=True)
    )
    return f"SELECT {casts} FROM ({text}) AS of_view({', '.join(labels)})"


def _same(one: SqlType, other: SqlType) -> bool:
    return (one.oid, one.typmod, one.domain) == (other.oid, other.typmod, other.domain)


def _converts(one: SqlType, other: SqlType) -> bool:
    """Whether values only change their width: others would be of another query than was meant."""
    if one.oid == other.oid:
        return True
    return category(one.oid) == category(other.oid) and other.oid != DATE and _assigned(one, other)


def _assigned(one: SqlType, other: SqlType) -> bool:
    return can_coerce(one.oid, other.oid, Context.ASSIGNMENT)


def reason(error: SqlError) -> str:
    """What is wrong, as a whole sentence."""
    said = error.message if error.detail is None else f"{error.message}: {error.detail}"
    return said[:1].upper() + said[1:].rstrip(".") + "."
