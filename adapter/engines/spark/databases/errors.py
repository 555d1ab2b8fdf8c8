"""What exceptions of Spark's and of drivers tell of another database, as errors of ours.

No message that is made here names a password, and Spark's own hide URLs.
"""

from __future__ import annotations

import re
from typing import Any

from adapter.lake.databases import Database
from adapter.lake.jdbc_urls import POSTGRESQL
from planner.errors import (
    FeatureNotSupported,
    InsufficientPrivilege,
    ObjectNotInPrerequisiteState,
    SqlclientUnableToEstablishSqlconnection,
    SqlError,
)
from planner.lowering.engine_errors import named_error

_OWN_STATES = {
    # Derby.
    "42X05": "42P01", "42Y07": "3F000", "42X04": "42703", "42X01": "42601", "08004": "28000", "04501": "28000",
    "42500": "42501", "42502": "42501", "42504": "42501", "42505": "42501", "42506": "42501", "42507": "42501",
    "42508": "42501", "XJ004": "3D000", "XJ040": "08001", "XSDB6": "55006", "22011": "22011",
    # ODBC's, as MySQL, H2 and SQL Server have them.
    "42S02": "42P01", "42S22": "42703", "S0002": "42P01",
}  # fmt: skip
"""What PostgreSQL says where databases have SQLSTATEs of their own."""

_CODES = {
    "MySQL": {
        1044: "42501", 1045: "28000", 1049: "3D000", 1054: "42703", 1064: "42601", 1142: "42501", 1143: "42501",
        1146: "42P01", 1227: "42501", 1370: "42501", 1698: "28000",
    },
    "Oracle": {904: "42703", 942: "42P01", 1017: "28000", 1031: "42501", 1476: "22012", 12154: "08001", 17002: "08001"},
    "SQL Server": {207: "42703", 208: "42P01", 229: "42501", 4060: "3D000", 8134: "22012", 18456: "28000"},
    "H2": {90013: "3D000", 90067: "08001", 90096: "42501", 90149: "3D000"},
}  # fmt: skip
"""The same by the numbers of vendors, which say more."""
_CODES["MariaDB"] = _CODES["MySQL"]

_SQLITE = (("no such table", "42P01"), ("no such column", "42703"), ("syntax error", "42601"), ("CANTOPEN", "58P01"))

_UNREAD = re.compile(r"\[UNRECOGNIZED_SQL_TYPE\][^:]*: ?(.*), id: ")
_STATE = re.compile(r"(?:0[0-9A-Z]|2[0-9A-Z]|3[0-9BDF]|4[0-4]|5[3-8])[0-9A-Z]{3}")
"""SQLSTATEs of classes that PostgreSQL has too."""


def driver_missing(database: Database, names: tuple[str, ...]) -> SqlError:
    """55000 for a driver that Spark does not have."""
    package = None if database.driver is not None else database.kind.package
    setting = "its package in --spark-packages"
    if package is not None:
        setting = f"--spark-packages {package}"
    return ObjectNotInPrerequisiteState(
        f"Spark has no JDBC driver {' or '.join(names)}",
        hint=f"Start the server with {setting}, or its jar in spark.jars.",
    )


def remote_error(error: BaseException, database: Database) -> SqlError | None:
    """What `error` of Spark's tells of the other database; None when it is not about it. As with postgres_fdw the
    SQLSTATE and the message are those of the other side, but for a connection that cannot be made (08001), or is
    refused by a database other than PostgreSQL (42501)."""
    exception = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while exception is not None:
        kind = str(exception.getClass().getName())
        message = str(exception.getMessage() or "")
        drivers = (database.driver,) if database.driver is not None else database.kind.drivers
        if kind in ("java.lang.ClassNotFoundException", "java.sql.SQLException") and any(
            driver in message for driver in drivers if driver is not None
        ):
            return driver_missing(database, tuple(driver for driver in drivers if driver is not None))
        if kind.startswith("org.postgresql."):
            return _of_postgresql(exception, message, database)
        if database.kind is not POSTGRESQL and _is_sql_exception(exception):
            return _of_others(exception, message, database)
        exception = exception.getCause()
    return None


def _is_sql_exception(exception: Any) -> bool:
    found = exception.getClass()
    while found is not None:
        if str(found.getName()) == "java.sql.SQLException":
            return True
        found = found.getSuperclass()
    return False


def _of_postgresql(exception: Any, message: str, database: Database) -> SqlError:
    state = str(exception.getSQLState() or "HV000")
    words, _, rest = message.partition("\n")
    words = re.sub(r"^(?:ERROR|FATAL): ", "", words)
    if state.startswith(("08", "28", "3D")):
        return SqlclientUnableToEstablishSqlconnection(
            f'could not connect to server "{database.server}"', detail=f"{words[:1].upper()}{words[1:]}"
        )
    hint = re.search(r"^ *Hint: (.*)$", rest, re.MULTILINE)
    return _there(named_error(state, words, hint="" if hint is None else hint[1]), database)


def _there(error: SqlError, database: Database) -> SqlError:
    error.where = f'a query of foreign server "{database.server}"'
    return error


def _of_others(exception: Any, message: str, database: Database) -> SqlError:
    unread = _UNREAD.search(message)
    if unread is not None:
        return FeatureNotSupported(
            f'columns of type {unread[1]} of server "{database.server}" cannot be read',
            hint="Name the other columns in CREATE FOREIGN TABLE, or a query that casts this one.",
        )
    state = _state(exception, message, database)
    words = re.sub(r"^(?:\(conn=\d+\) |ERROR: )", "", message.strip().partition("\n")[0])
    if state.startswith("28"):
        return InsufficientPrivilege(
            f'server "{database.server}" refuses the connection', detail=f"{words[:1].upper()}{words[1:]}"
        )
    if state.startswith(("08", "3D")):
        return SqlclientUnableToEstablishSqlconnection(
            f'could not connect to server "{database.server}"', detail=f"{words[:1].upper()}{words[1:]}"
        )
    return _there(named_error(state, words or "the other database failed"), database)


def _state(exception: Any, message: str, database: Database) -> str:
    code = int(exception.getErrorCode())
    found = _CODES.get(database.kind.name, {}).get(code)
    if found is not None:
        return found
    if database.kind.name == "SQLite":
        return next((state for words, state in _SQLITE if words in message), "HV000")
    state = str(exception.getSQLState() or "")
    if state in _OWN_STATES:
        return _OWN_STATES[state]
    return state if _STATE.fullmatch(state) else "HV000"
