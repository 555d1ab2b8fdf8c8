"""Other databases as Spark's JVM meets them: rows for statements, and what tables and columns there are.

The driver comes with Spark's settings (spark.jars, spark.jars.packages). Everything here blocks, on a thread of the
runtime's. No message that is made here names a password, and Spark's own hide URLs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from adapter.lake.databases import Database, RemoteRows
from planner.dialects.of_engine import dialect_of
from planner.errors import ObjectNotInPrerequisiteState, SqlclientUnableToEstablishSqlconnection, SqlError
from planner.lowering.engine_errors import named_error
from planner.syntax.identifiers import quote_identifier

_DRIVER = "org.postgresql.Driver"

_SESSION = "; ".join(
    f"SET {name} = {value}"
    for name, value in (
        ("TimeZone", "'UTC'"), ("DateStyle", "'ISO, YMD'"), ("IntervalStyle", "'postgres'"), ("bytea_output", "'hex'"),
        ("extra_float_digits", "3"),
    )
)  # fmt: skip
"""What a session there is told, so that its texts are those that are read here."""

_SCHEMA = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = ?"
_TABLES = """
SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ? AND c.relkind IN ('r', 'v', 'f', 'm', 'p') AND NOT c.relispartition ORDER BY c.relname
"""
"""What postgres_fdw imports of a schema."""

_SERIAL = {"serial": "int4", "bigserial": "int8", "smallserial": "int2"}
"""The driver's names for columns with a sequence."""

_WITH_LENGTH = ("varchar", "bpchar", "bit", "varbit")
_MAX_LENGTH = 10_485_760


def frame_of(session: Any, rows: RemoteRows) -> Any:
    """A data frame of the rows, in Spark's types of theirs."""
    spark = dialect_of("spark")
    reader = session.read.format("jdbc")
    for name, value in (*_options(rows.database).items(), ("dbtable", f"({rows.query}\n) rows")):
        reader = reader.option(name, value)
    items = [f"CAST(c{number} AS {spark.type_name(type)}) AS c{number}" for number, type in enumerate(rows.types, 1)]
    return reader.load().selectExpr(*items)


def _options(database: Database) -> dict[str, str]:
    options = {
        "url": database.url,
        "driver": _DRIVER,
        "fetchsize": str(database.fetch_rows),
        "sessionInitStatement": _SESSION,
    }
    if database.user is not None:
        options["user"] = database.user
    if database.password is not None:
        options["password"] = database.password
    return options


@contextmanager
def _connected(jvm: Any, database: Database) -> Iterator[Any]:
    """A connection, which nothing is written through. Raises `remote_error`."""
    sources = jvm.org.apache.spark.sql.execution.datasources.jdbc
    dialects = jvm.org.apache.spark.sql.jdbc.JdbcDialects
    try:
        options = sources.JDBCOptions(jvm.PythonUtils.toScalaMap({**_options(database), "dbtable": "none"}))
        connection = dialects.get(database.url).createConnectionFactory(options).apply(-1)
        try:
            connection.setReadOnly(True)
            yield connection
        finally:
            connection.close()
    except SqlError:
        raise
    except Exception as error:
        raise remote_error(error, database) or error from error


def columns_of(jvm: Any, database: Database, sources: Sequence[str]) -> list[list[tuple[str, str, bool]]]:
    """The name, the type as PostgreSQL writes it, and whether it has no NULLs, of each column of the FROM items."""
    found = []
    with _connected(jvm, database) as connection:
        for source in sources:
            statement = connection.createStatement()
            # Asked for no rows, so that nothing is computed.
            meta = statement.executeQuery(f"SELECT * FROM {source} LIMIT 0").getMetaData()
            found.append(
                [
                    (str(meta.getColumnLabel(number)), _type_of(meta, number), meta.isNullable(number) == 0)
                    for number in range(1, meta.getColumnCount() + 1)
                ]
            )
            statement.close()
    return found


def _type_of(meta: Any, number: int) -> str:
    name = str(meta.getColumnTypeName(number))
    name = _SERIAL.get(name, name)
    digits = int(meta.getPrecision(number))
    quoted = quote_identifier(name.removeprefix("_"))
    if name == "numeric" and digits:
        return f"{quoted}({digits},{int(meta.getScale(number))})"
    if name in _WITH_LENGTH and 0 < digits <= _MAX_LENGTH:
        return f"{quoted}({digits})"
    return f"{quoted}[]" if name.startswith("_") else quoted


def table_names(jvm: Any, database: Database, schema: str) -> list[str] | None:
    """The tables and views of `schema`; None where there is none of this name."""
    with _connected(jvm, database) as connection:
        if not _names(connection, _SCHEMA, schema):
            return None
        return _names(connection, _TABLES, schema)


def _names(connection: Any, query: str, value: str) -> list[str]:
    statement = connection.prepareStatement(query)
    statement.setString(1, value)
    rows = statement.executeQuery()
    found = []
    while rows.next():
        found.append(str(rows.getString(1)))
    statement.close()
    return found


def remote_error(error: BaseException, database: Database) -> SqlError | None:
    """What `error` of Spark's tells of the other database; None when it is not about it. As with postgres_fdw the
    SQLSTATE and the message are those of the other side, but for a connection that cannot be made (08001)."""
    exception = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while exception is not None:
        kind = str(exception.getClass().getName())
        message = str(exception.getMessage() or "")
        if _DRIVER in message and kind in ("java.lang.ClassNotFoundException", "java.sql.SQLException"):
            return ObjectNotInPrerequisiteState(
                "Spark has no driver for databases that speak PostgreSQL's protocol",
                hint="Start the server with --spark-conf spark.jars.packages=org.postgresql:postgresql:42.7.7, "
                "or with its jar in spark.jars.",
            )
        if kind.startswith("org.postgresql."):
            state = str(exception.getSQLState() or "HV000")
            words, _, rest = message.partition("\n")
            words = re.sub(r"^(?:ERROR|FATAL): ", "", words)
            if state.startswith(("08", "28", "3D")):
                return SqlclientUnableToEstablishSqlconnection(
                    f'could not connect to server "{database.server}"', detail=f"{words[:1].upper()}{words[1:]}"
                )
            hint = re.search(r"^ *Hint: (.*)$", rest, re.MULTILINE)
            told = named_error(state, words, hint="" if hint is None else hint[1])
            told.where = f'a query of foreign server "{database.server}"'
            return told
        exception = exception.getCause()
    return None
