"""What each dialect's types are in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping

SPARK = ("spark", "databricks", "hive")

_SAME: Mapping[str, str] = {
    "BOOLEAN": "boolean",
    "SMALLINT": "smallint",
    "INT": "integer",
    "BIGINT": "bigint",
    "DOUBLE": "double precision",
    "DATE": "date",
    "TEXT": "text",
    "UUID": "uuid",
    "TIMESTAMPTZ": "timestamp with time zone",
    "TIMESTAMPLTZ": "timestamp with time zone",
    "TIMESTAMPNTZ": "timestamp without time zone",
}

_OF_SPARK: Mapping[str, str] = {
    "TIMESTAMP": "timestamp with time zone",
    "TINYINT": "smallint",
    "FLOAT": "real",
    "BINARY": "bytea",
    "DECIMAL": "numeric(10, 0)",
}
_OF: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(SPARK, _OF_SPARK),
    "duckdb": {
        "TINYINT": "smallint",
        "FLOAT": "real",
        "VARBINARY": "bytea",
        "DECIMAL": "numeric(18, 3)",
        "TIME": "time without time zone",
    },
    "trino": {
        "TIMESTAMP": "timestamp(3) without time zone",
        "TINYINT": "smallint",
        "FLOAT": "real",
        "VARBINARY": "bytea",
        "DECIMAL": "numeric(38, 0)",
    },
    "mysql": {
        "TINYINT": "smallint",
        "FLOAT": "real",
        "DATETIME": "timestamp(0) without time zone",
        "TIMESTAMPTZ": "timestamp(0) with time zone",
        "DECIMAL": "numeric(10, 0)",
        "CHAR": "text",
        "LONGTEXT": "text",
        "MEDIUMTEXT": "text",
    },
    "snowflake": {
        "TIMESTAMP": "timestamp without time zone",
        "TINYINT": "numeric(38, 0)",
        "SMALLINT": "numeric(38, 0)",
        "INT": "numeric(38, 0)",
        "BIGINT": "numeric(38, 0)",
        "FLOAT": "double precision",
        "DATETIME": "timestamp without time zone",
        "BINARY": "bytea",
        "VARBINARY": "bytea",
        "DECIMAL": "numeric(38, 0)",
    },
    "bigquery": {
        "FLOAT": "double precision",
        "TIMESTAMP": "timestamp without time zone",
        "BINARY": "bytea",
        "DECIMAL": "numeric(38, 9)",
    },
    "tsql": {
        "UTINYINT": "smallint",
        "FLOAT": "double precision",
        "REAL": "real",
        "DATETIME2": "timestamp without time zone",
        "DECIMAL": "numeric(18, 0)",
    },
}
_OF_HIVE: Mapping[str, str] = {"TIMESTAMP": "timestamp without time zone"}

_LENGTHS: Mapping[str, str] = {
    "DECIMAL": "numeric",
    "VARCHAR": "varchar",
    "NVARCHAR": "varchar",
    "CHAR": "char",
    "NCHAR": "char",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPNTZ": "timestamp",
    "DATETIME": "timestamp",
    "DATETIME2": "timestamp",
    "TIMESTAMPTZ": "timestamptz",
}
_UNPADDED: Mapping[str, str] = {"mysql": "VARCHAR", "snowflake": "VARCHAR", "trino": ""}
"""What a text of a fixed length is where its values are not filled up with blanks; empty where the blanks count, which
they do not in PostgreSQL."""

MAX_DIGITS = 6
"""Digits of seconds that a timestamp of PostgreSQL has."""


def type_name(dialect: str, name: str, parameters: tuple[str, ...]) -> str | None:
    """PostgreSQL's type for a dialect's, which sqlglot calls `name`; None when nobody has vouched for it."""
    if parameters:
        if name in ("CHAR", "NCHAR") and dialect in _UNPADDED:
            name = _UNPADDED[dialect]
        known = _LENGTHS.get(name)
        if known is not None and known.startswith("timestamp") and int(parameters[0]) > MAX_DIGITS:
            return None
        return None if known is None else f"{known}({', '.join(parameters)})"
    if name in ("VARCHAR", "NVARCHAR"):
        return None if dialect == "tsql" else "text"
    of = {**_OF[dialect], **(_OF_HIVE if dialect == "hive" else {})}
    return of.get(name) or _SAME.get(name)
