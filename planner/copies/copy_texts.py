"""COPY between tables and files that hold columns, as SQL over the functions that read files.

    COPY t (a, b) FROM '/lake/a.parquet'   is   INSERT INTO t (a, b) SELECT ... FROM read_parquet('/lake/a.parquet')
    COPY t TO '/lake/a.json'               is   the rows of SELECT row_to_json(...) FROM (TABLE t)

so that Parquet files are read by the engine that suits their size, and checks, keys and defaults are those of INSERT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from planner.definitions.deparse import expression_text, query_text
from planner.errors import FeatureNotSupported, UndefinedColumn
from planner.ir.file_rows import FileTable
from planner.ir.physical import arrow_type, listed
from planner.statements import records as st
from planner.syntax.identifiers import quote_identifier, quote_literal
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Parsed
from planner.types import types as t
from planner.types.type_names import format_type
from planner.types.types import SqlType, type_of_column
from storage.catalog.model import Column, Relation

COPIED = "copied"
"""The alias of a query whose rows are written."""


def load_text(
    statement: st.Copy, schema: str, relation: Relation, columns: Sequence[Column], path: str, table: FileTable
) -> str:
    """The INSERT that is a COPY of `columns` FROM the files at `path`, which hold `table`.

    Raises 42703 when the files lack a column, or hold one that `relation` lacks while COPY names none.
    """
    held: Mapping[str, SqlType] = dict(table.columns)
    for column in columns:
        if column.name not in held:
            raise UndefinedColumn(
                f'column "{column.name}" of table "{relation.name}" is not in "{path}"',
                hint="Name the columns to load after the table.",
            )
    if not statement.columns:
        wanted = {column.name for column in columns}
        for name in held:
            if name not in wanted:
                raise UndefinedColumn(
                    f'"{path}" has a column "{name}", which table "{relation.name}" cannot take',
                    hint="Name the columns to load after the table.",
                )
    names = ", ".join(quote_identifier(column.name) for column in columns)
    items = ", ".join(_item(column, held[column.name]) for column in columns)
    call = f"pg_catalog.read_parquet({quote_literal(path)})"
    text = f"SELECT {items} FROM {call} AS {COPIED}"
    if statement.where is not None:
        condition = expression_text(statement.where.tree)
        text = f"SELECT {names} FROM ({text}) AS {quote_identifier(relation.name)} WHERE {condition}"
    into = f"{quote_identifier(schema)}.{quote_identifier(relation.name)}"
    overriding = " OVERRIDING SYSTEM VALUE" if any(column.identity for column in columns) else ""
    return f"INSERT INTO {into} ({names}){overriding} {text}"


def _item(column: Column, held: SqlType) -> str:
    """A column of files as a value for `column`. A length or precision is left to the assignment, which checks it."""
    name = f"{COPIED}.{quote_identifier(column.name)}"
    type = type_of_column(column)
    if held.oid == type.oid:
        return f"{name} AS {quote_identifier(column.name)}"
    return f"CAST({name} AS {format_type(type.oid, -1)}) AS {quote_identifier(column.name)}"


def rows_text(query: Parsed, columns: Sequence[tuple[str, SqlType]], format: str, partition_by: Sequence[str]) -> str:
    """The query whose rows, in columns that files of `format` hold, are written in place of those of `query`. 0A000 for
    one that changes rows."""
    if query.kind != "select_stmt":
        raise FeatureNotSupported(f"COPY of a statement that changes rows cannot have format {format}")
    node = pb.Node()
    getattr(node, query.kind).CopyFrom(query.tree)
    names = [quote_identifier(f"c{number}") for number in range(1, len(columns) + 1)]
    source = f"({query_text(node)}) AS {COPIED}({', '.join(names)})"
    if format == "parquet":
        items = [
            name if is_held(type) else f"CAST({name} AS pg_catalog.text)"
            for name, (_, type) in zip(names, columns, strict=True)
        ]
        return f"SELECT {', '.join(items)} FROM {source}"
    types = dict(columns)
    by_name = {name: text for (name, _), text in zip(columns, names, strict=True)}
    others = [(name, text) for name, text in by_name.items() if name not in partition_by]
    inside = ", ".join(f"{text} AS {quote_identifier(name)}" for name, text in others)
    parts = [
        by_name[name] if is_held(types[name]) else f"CAST({by_name[name]} AS pg_catalog.text)" for name in partition_by
    ]
    json = "CAST(pg_catalog.row_to_json(row_) AS pg_catalog.text)"
    return f"SELECT {', '.join((json, *parts))} FROM {source}, LATERAL (SELECT {inside}) AS row_"


_HELD = frozenset(
    {
        t.BOOL, t.INT2, t.INT4, t.INT8, t.FLOAT4, t.FLOAT8, t.BYTEA, t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ,
        t.NUMERIC, t.TEXT, t.VARCHAR, t.BPCHAR, t.NAME, t.JSON, t.JSONB, t.UUID,
    }
)  # fmt: skip


def is_held(type: SqlType) -> bool:
    """Whether Parquet files hold values of `type` as engines give them; others are written as texts."""
    if type.oid in _HELD:
        return True
    held = arrow_type(listed(type) if type.dimensioned else type)
    return pa.types.is_list(held) and not pa.types.is_nested(held.value_type)
