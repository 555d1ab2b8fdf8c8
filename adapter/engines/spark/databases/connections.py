"""Connections to other databases from Spark's JVM: which driver makes them, and what they are told.

The driver comes with Spark's settings (spark.jars, spark.jars.packages) or is on its class path. A class that a
server's options name is looked at before it is loaded: what is no JDBC driver is refused, and nothing of it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from adapter.engines.spark.databases.errors import driver_missing, remote_error
from adapter.lake.databases import Database
from adapter.lake.jdbc_urls import POSTGRESQL
from planner.errors import InvalidParameterValue, SqlError

_POSTGRESQL_SESSION = "; ".join(
    f"SET {name} = {value}"
    for name, value in (
        ("TimeZone", "'UTC'"), ("DateStyle", "'ISO, YMD'"), ("IntervalStyle", "'postgres'"), ("bytea_output", "'hex'"),
        ("extra_float_digits", "3"),
    )
)  # fmt: skip
"""What a session of a PostgreSQL is told, so that its texts are those that are read here."""

_OF_MARIADB = "org.mariadb."
_CONNECT_MS = "15000"


def options_of(jvm: Any, database: Database) -> dict[str, str]:
    """Spark's options for the database. 55000 without a driver for it, 22023 for a class that is none."""
    kind = database.kind
    driver = _driver(jvm, database)
    options = {
        "url": _url(database, driver),
        "driver": driver,
        "fetchsize": str(database.fetch_rows),
        **dict(kind.properties),
    }
    session = _POSTGRESQL_SESSION if kind is POSTGRESQL else kind.session
    if session is not None:
        options["sessionInitStatement"] = session
    if kind is not POSTGRESQL:
        options["preferTimestampNTZ"] = "true"
    if kind.name in ("MySQL", "MariaDB") and "connecttimeout=" not in database.url.lower():
        options["connectTimeout"] = _CONNECT_MS
    if database.user is not None:
        options["user"] = database.user
    if database.password is not None:
        options["password"] = database.password
    return options


def _url(database: Database, driver: str) -> str:
    """Spark knows MariaDB by the URL of MySQL, which its driver has to be told."""
    url = database.url
    if database.kind.name in ("MySQL", "MariaDB") and driver.startswith(_OF_MARIADB):
        url = "jdbc:mysql:" + url.partition(":")[2].partition(":")[2]
        url += ("&" if "?" in url else "?") + "permitMysqlScheme=true"
    return url


def _driver(jvm: Any, database: Database) -> str:
    names = (database.driver,) if database.driver is not None else database.kind.drivers
    utils = jvm.org.apache.spark.util.Utils
    for name in names:
        if not utils.classIsLoadable(name):
            continue
        # Not initialised.
        found = utils.classForName(name, False, False)
        if not jvm.java.lang.Class.forName("java.sql.Driver").isAssignableFrom(found):
            raise InvalidParameterValue(f'invalid value for option "driver": class {name} is no JDBC driver')
        return name
    raise driver_missing(database, names)


@contextmanager
def connected(jvm: Any, database: Database) -> Iterator[Any]:
    """A connection, which nothing is written through. Raises `remote_error`."""
    sources = jvm.org.apache.spark.sql.execution.datasources.jdbc
    dialects = jvm.org.apache.spark.sql.jdbc.JdbcDialects
    try:
        told = options_of(jvm, database)
        options = sources.JDBCOptions(jvm.PythonUtils.toScalaMap({**told, "dbtable": "none"}))
        connection = dialects.get(told["url"]).createConnectionFactory(options).apply(-1)
        try:
            if not connection.isReadOnly():
                connection.setReadOnly(True)
            yield connection
        finally:
            connection.close()
    except SqlError:
        raise
    except Exception as error:
        raise remote_error(error, database) or error from error
