"""CREATE TABLE t () WITH (load_from = '/lake/sales') and (definition_from = ...), as CREATE TABLE AS."""

from __future__ import annotations

from planner.errors import FeatureNotSupported, InvalidParameterValue
from planner.statements import records as st
from planner.syntax.file_names import format_of
from planner.syntax.identifiers import quote_literal
from planner.syntax.parse import split_and_parse

FORMATS = ("parquet", "orc", "avro", "csv", "json")
_SOURCES = ("load_from", "definition_from")


def table_of_files(statement: st.CreateTable) -> st.CreateTableAs | None:
    """The statement that makes the table that the files of `statement` describe; None when it names none.

    Raises 22023 for options that do not go together, and 0A000 for columns beside those of the files.
    """
    given = dict(statement.options)
    sources = [name for name in _SOURCES if name in given]
    if not sources:
        return None
    if len(sources) > 1:
        raise InvalidParameterValue("load_from and definition_from cannot be given together")
    (source,) = sources
    if statement.columns or statement.constraints or statement.likes:
        raise FeatureNotSupported(
            f"a table with {source} has the columns of the files",
            hint="Leave the list of columns empty, or COPY the files into a table that is there.",
        )
    path = given[source]
    format = given.get("format", format_of(path)).lower()
    if format not in FORMATS:
        raise InvalidParameterValue(
            f'cannot tell the format of "{path}"',
            hint="Say it: WITH (..., format = 'parquet'), orc, avro, csv or json.",
        )
    (query,) = split_and_parse(f"SELECT * FROM pg_catalog.read_{format}({quote_literal(path)})")
    return st.CreateTableAs(
        name=statement.name,
        query=query,
        if_not_exists=statement.if_not_exists,
        with_data=source == "load_from",
        temporary=statement.temporary,
        unlogged=statement.unlogged,
        on_commit=statement.on_commit,
    )
