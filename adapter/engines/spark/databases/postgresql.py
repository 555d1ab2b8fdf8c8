"""What tables and columns a PostgreSQL has, by its own catalog."""

from __future__ import annotations

from typing import Any

from planner.syntax.identifiers import quote_identifier

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


def type_of(meta: Any, number: int) -> str:
    """The type of a column of a result, as PostgreSQL writes it."""
    name = str(meta.getColumnTypeName(number))
    name = _SERIAL.get(name, name)
    digits = int(meta.getPrecision(number))
    quoted = quote_identifier(name.removeprefix("_"))
    if name == "numeric" and digits:
        return f"{quoted}({digits},{int(meta.getScale(number))})"
    if name in _WITH_LENGTH and 0 < digits <= _MAX_LENGTH:
        return f"{quoted}({digits})"
    return f"{quoted}[]" if name.startswith("_") else quoted


def table_names(connection: Any, schema: str) -> list[str] | None:
    """The tables and views of `schema`; None where there is none of this name."""
    return _names(connection, _TABLES, schema) if _names(connection, _SCHEMA, schema) else None


def _names(connection: Any, query: str, value: str) -> list[str]:
    statement = connection.prepareStatement(query)
    statement.setString(1, value)
    rows = statement.executeQuery()
    found = []
    while rows.next():
        found.append(str(rows.getString(1)))
    statement.close()
    return found
