"""Databases other than PostgreSQL, as their drivers' metadata and Spark's dialects of them tell.

Spark takes the columns that a statement needs, and the conditions on those that it can hand on: integers and decimals,
which every database compares as we do. All else is looked at here, behind a function that Spark does not hand on:
other databases take case or blanks at the end for nothing when they compare texts, and round floats.

Names that a database stores in upper case where they are not quoted are in lower case here, as ours are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from adapter.lake.databases import RemoteRows
from planner.dialects.of_engine import dialect_of
from planner.errors import DatatypeMismatch, FeatureNotSupported, SqlError, UndefinedColumn
from planner.types import types as t
from planner.types.type_names import format_type
from planner.types.types import SqlType

_TABLES = frozenset(
    {
        "TABLE", "BASE TABLE", "VIEW", "MATERIALIZED VIEW", "SYSTEM VERSIONED", "SYNONYM", "PARTITIONED TABLE",
        "EXTERNAL TABLE",
    }
)  # fmt: skip
"""Types of tables, as drivers call them, that are imported."""

_NAMES = {
    "boolean": "boolean", "byte": "smallint", "short": "smallint", "integer": "integer", "long": "bigint",
    "float": "real", "double": "double precision", "string": "text", "binary": "bytea", "date": "date",
    "timestamp": "timestamp with time zone", "timestamp_ntz": "timestamp without time zone",
}  # fmt: skip
"""Spark's types, as JSON has them, by ours."""

_MAX_LENGTH = 10_485_760
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_OF_INTEGERS = {t.INT2: "smallint", t.INT4: "int", t.INT8: "bigint"}
_NUMBERS = (*_INTEGERS, "float", "double", "decimal")
_ZONELESS = "timestamp_ntz"
_WRITTEN = ("boolean", *_NUMBERS, "date", "timestamp_ntz", "time")
"""Types whose texts in Spark are PostgreSQL's."""


def frame_of(session: Any, rows: RemoteRows, options: Mapping[str, str], labels: Callable[[], Sequence[str]]) -> Any:
    """A data frame of the columns c1, ... of the rows, in Spark's types of theirs; `labels` asks which columns the FROM
    item has. Raises 42703, 42804."""
    dialect = session._jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(options["url"])
    quoted = rows.database.kind.quoted
    if str(dialect.quoteIdentifier("x")) != quoted("x"):
        raise FeatureNotSupported(f'Spark cannot name the columns of databases of server "{rows.database.server}"')
    names = [name for name, _ in rows.columns]

    def load(*own: str) -> Any:
        items = ", ".join(f"{quoted(name)} AS {quoted(f'c{number}')}" for number, name in enumerate(names, 1))
        source = f"(SELECT {items} FROM {rows.source}) {quoted('rows_there')}"
        reader = session.read.format("jdbc").option("dbtable", source)
        for name, value in options.items():
            reader = reader.option(name, value)
        return (reader.option("customSchema", ", ".join(own)) if own else reader).load()

    try:
        frame = load()
    except SqlError:
        raise
    except Exception:
        there = labels()
        matching = [_only_like(name, there, rows) for name in names]
        if matching == names:
            raise
        names = matching
        frame = load()
    helds = [field.dataType.simpleString() for field in frame.schema.fields]
    asked = [_asked(held, type, rows) for (_, type), held in zip(rows.columns, helds, strict=True)]
    if asked != helds:
        others = enumerate(zip(helds, asked, strict=True), 1)
        frame = load(*(f"c{number} {read}" for number, (held, read) in others if held != read))
    items = [
        f"{_converted(f'c{number}', held if read == 'timestamp' else read, name, type, rows)} AS c{number}"
        for number, ((name, type), held, read) in enumerate(zip(rows.columns, helds, asked, strict=True), 1)
    ]
    return frame.selectExpr(*items)


def _asked(held: str, type: SqlType, rows: RemoteRows) -> str:
    """The type in which Spark reads a column, which it takes for one of type `held`, as values of `type`."""
    if held == "binary" and type.oid == t.TEXT:
        return "string"  # Some have a text of their own: H2's uuid.
    if held.startswith("time(") or (rows.database.kind.written and held in ("date", "timestamp", _ZONELESS)):
        return "string"  # What drivers give as a LocalTime is not the same in all, nor are dates that are texts.
    # Without a zone Spark goes by the calendar of their instant, which is another one before 1582.
    return "timestamp" if held == _ZONELESS else held


def _only_like(name: str, there: Sequence[str], rows: RemoteRows) -> str:
    """The column of the other database that `name` is: as it is written, else but for its case."""
    if name in there:
        return name
    alike = [label for label in there if label.lower() == name.lower()]
    if len(alike) == 1:
        return alike[0]
    raise UndefinedColumn(
        f'column "{name}" of foreign table "{rows.name}" does not exist in the other database',
        hint=f"There are: {', '.join(there)}." if there else None,
    )


def _converted(column: str, held: str, name: str, type: SqlType, rows: RemoteRows) -> str:
    """`column` of Spark's type `held` as a value of `type`, in Spark's SQL."""
    wanted = dialect_of("spark").type_name(type)
    base = held.partition("(")[0]
    exact = base in _INTEGERS or base == "decimal"
    value = column if exact and rows.database.kind.compares else f"array_max(array({column}))"
    if type.oid == t.TEXT:
        if base == "string":
            return value
        if base == "timestamp":
            return f"concat(CAST({value} AS STRING), '+00')"
        if base in _WRITTEN:
            return f"CAST({value} AS STRING)"
    elif held == wanted.lower():
        return value
    elif type.oid == t.BYTEA:
        pass
    elif base in ("string", "boolean") or (type.oid == t.BOOL and base in _INTEGERS):
        return f"CAST({value} AS {wanted})"
    elif base in _NUMBERS and type.oid != t.BOOL:
        if type.oid in _OF_INTEGERS:
            # As PostgreSQL rounds: halves of floats to the even number.
            rounded = f"rint({value})" if base in ("float", "double") else f"round({value})"
            return f"CAST({value if base in _INTEGERS else rounded} AS {wanted})"
        return f"CAST({value} AS {wanted})"
    raise DatatypeMismatch(
        f'column "{name}" of foreign table "{rows.name}" cannot be read as '
        f"{format_type(type.oid, type.typmod)}: it is of Spark's type {held}"
    )


class There:
    """What is asked of a connection. Names are as the other database has them."""

    def __init__(self, jvm: Any, connection: Any, url: str) -> None:
        self._jvm = jvm
        self._connection = connection
        self._url = url
        self._meta = connection.getMetaData()
        self.folds = bool(self._meta.storesUpperCaseIdentifiers())

    def named(self, label: str) -> str:
        """What a table or a column is called here."""
        return label.lower() if self.folds and label == label.upper() else label

    def labels(self, source: str) -> list[str]:
        """The columns of a FROM item."""
        statement = self._connection.createStatement()
        meta = statement.executeQuery(f"SELECT * FROM {source} WHERE 1 = 0").getMetaData()
        found = [str(meta.getColumnLabel(number)) for number in range(1, meta.getColumnCount() + 1)]
        statement.close()
        return found

    def columns(self, source: str) -> list[tuple[str, str, bool]]:
        """The name, the type as we write it, and whether it has no NULLs, of each column of a FROM item. 0A000 for
        types that Spark does not read."""
        dialect = self._jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(self._url)
        utils = self._jvm.org.apache.spark.sql.execution.datasources.jdbc.JdbcUtils
        statement = self._connection.createStatement()
        rows = statement.executeQuery(f"SELECT * FROM {source} WHERE 1 = 0")
        found = json.loads(utils.getSchema(self._connection, rows, dialect, False, True, False).json())
        statement.close()
        return [(field["name"], _own_type(field), not field["nullable"]) for field in found["fields"]]

    def schema(self, name: str) -> tuple[str | None, str | None] | None:
        """The catalog and the schema that `name` means; a catalog where the database has no schemas."""
        schemas = self._column(self._meta.getSchemas(), "TABLE_SCHEM")
        if schemas:
            found = _like(name, schemas)
            return None if found is None else (None, found)
        catalogs = self._column(self._meta.getCatalogs(), "TABLE_CAT")
        if catalogs:
            found = _like(name, catalogs)
            return None if found is None else (found, None)
        return (None, None) if name in ("main", "public") else None

    def tables(self, catalog: str | None, schema: str | None) -> list[str]:
        """The tables and views there."""
        rows = self._meta.getTables(catalog, schema, "%", None)
        found = []
        while rows.next():
            # The schema that is asked for is a pattern.
            if schema is not None and str(rows.getString("TABLE_SCHEM")) != schema:
                continue
            if str(rows.getString("TABLE_TYPE")).upper() in _TABLES:
                found.append(str(rows.getString("TABLE_NAME")))
        rows.close()
        return sorted(found)

    def _column(self, rows: Any, name: str) -> list[str]:
        found = []
        while rows.next():
            value = rows.getString(name)
            if value is not None:
                found.append(str(value))
        rows.close()
        return found


def _like(name: str, names: Sequence[str]) -> str | None:
    if name in names:
        return name
    alike = [each for each in names if each.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _own_type(field: Mapping[str, Any]) -> str:
    """The type of a column in Spark's JSON, as ours is written; text where there is none."""
    written = field["metadata"].get("__CHAR_VARCHAR_TYPE_STRING", field["type"])
    if not isinstance(written, str):
        return "text"
    base, _, rest = written.partition("(")
    if base == "decimal":
        digits, _, scale = rest.rstrip(")").partition(",")
        return f"numeric({digits},{scale or 0})"
    if base in ("char", "varchar") and 0 < int(rest.rstrip(")")) <= _MAX_LENGTH:
        return f"{base}({rest}"
    if base == "time":
        return "time"
    return _NAMES.get(base, "text")
