"""Other databases as Spark's JVM meets them: rows for statements, and what tables and columns there are.

Everything here blocks, on a thread of the runtime's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from adapter.engines.spark.databases import others, postgresql
from adapter.engines.spark.databases.connections import connected, options_of
from adapter.engines.spark.databases.others import There
from adapter.lake.databases import Database, RemoteRows
from adapter.lake.jdbc_urls import POSTGRESQL
from planner.dialects.of_engine import dialect_of


class RemoteColumn(Struct, frozen=True, kw_only=True):
    """A column: what it is called here and there, its type as PostgreSQL writes it."""

    name: str
    label: str
    type: str
    not_null: bool


class RemoteTables(Struct, frozen=True, kw_only=True):
    """The tables of a schema, by what they are called here and there. `schema` is its name there, None where there are
    no schemas."""

    schema: str | None
    tables: list[tuple[str, str]]


def frame_of(session: Any, rows: RemoteRows) -> Any:
    """A data frame of the rows, in Spark's types of theirs."""
    jvm = session._jvm
    options = options_of(jvm, rows.database)
    if rows.query is None:

        def labels() -> list[str]:
            with connected(jvm, rows.database) as connection:
                return There(jvm, connection, options["url"]).labels(rows.source)

        return others.frame_of(session, rows, options, labels)
    spark = dialect_of("spark")
    reader = session.read.format("jdbc")
    for name, value in (*options.items(), ("dbtable", f"({rows.query}\n) rows")):
        reader = reader.option(name, value)
    items = [
        f"CAST(c{number} AS {spark.type_name(type)}) AS c{number}" for number, (_, type) in enumerate(rows.columns, 1)
    ]
    return reader.load().selectExpr(*items)


def columns_of(jvm: Any, database: Database, sources: Sequence[str]) -> list[list[RemoteColumn]]:
    """The columns of the FROM items."""
    found = []
    with connected(jvm, database) as connection:
        there = None if database.kind is POSTGRESQL else There(jvm, connection, options_of(jvm, database)["url"])
        for source in sources:
            if there is not None:
                columns = there.columns(source)
                names = _distinct([there.named(label) for label, _, _ in columns], [label for label, _, _ in columns])
                found.append(
                    [
                        RemoteColumn(name=name, label=label, type=type, not_null=not_null)
                        for name, (label, type, not_null) in zip(names, columns, strict=True)
                    ]
                )
                continue
            statement = connection.createStatement()
            # Asked for no rows, so that nothing is computed.
            meta = statement.executeQuery(f"SELECT * FROM {source} LIMIT 0").getMetaData()
            found.append(
                [
                    RemoteColumn(
                        name=str(meta.getColumnLabel(number)),
                        label=str(meta.getColumnLabel(number)),
                        type=postgresql.type_of(meta, number),
                        not_null=meta.isNullable(number) == 0,
                    )
                    for number in range(1, meta.getColumnCount() + 1)
                ]
            )
            statement.close()
    return found


def _distinct(names: list[str], labels: list[str]) -> list[str]:
    """`names`, or `labels` where two of them would be alike."""
    return names if len(set(names)) == len(names) else labels


def tables_of(jvm: Any, database: Database, schema: str) -> RemoteTables | None:
    """The tables and views of `schema`; None where there is none of this name."""
    with connected(jvm, database) as connection:
        if database.kind is POSTGRESQL:
            names = postgresql.table_names(connection, schema)
            return None if names is None else RemoteTables(schema=schema, tables=[(name, name) for name in names])
        there = There(jvm, connection, options_of(jvm, database)["url"])
        found = there.schema(schema)
        if found is None:
            return None
        labels = there.tables(*found)
        names = _distinct([there.named(label) for label in labels], labels)
        return RemoteTables(schema=found[1] or found[0], tables=list(zip(names, labels, strict=True)))
