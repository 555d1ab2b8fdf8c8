"""Tables of other databases, which Spark reads by JDBC: what the options of servers and tables mean.

    CREATE SERVER shop FOREIGN DATA WRAPPER lake OPTIONS (url 'jdbc:postgresql://shop.example/shop');
    CREATE FOREIGN TABLE orders (id int, total numeric(12, 2)) SERVER shop OPTIONS (table_name 'orders');

Each column is cast to its type by the other database, as postgres_fdw has texts of its read; what Spark's JDBC has no
exact counterpart for (dates and times with their infinities, numeric without a precision, uuid, ...) comes as text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import parse_qsl

from msgspec import Struct

from planner.errors import (
    FeatureNotSupported,
    InvalidParameterValue,
    UndefinedObject,
)
from planner.ir.file_rows import FileTable, ForeignRead
from planner.syntax.identifiers import quote_identifier
from planner.syntax.parse import split_and_parse
from planner.types import types as t
from planner.types.type_names import format_type, resolve_type_name
from planner.types.types import SqlType
from planner.types.user_types import is_user_type
from storage.catalog.outside import ForeignServer, Options

SERVER_OPTIONS = frozenset({"url", "fetch_size"})
TABLE_OPTIONS = frozenset({"schema_name", "table_name", "query"})

_SCHEME = "jdbc:postgresql:"
_PARAMETERS = frozenset(
    {
        "ApplicationName", "connectTimeout", "currentSchema", "hostRecheckSeconds", "loadBalanceHosts", "loginTimeout",
        "options", "socketTimeout", "ssl", "sslmode", "sslrootcert", "targetServerType", "tcpKeepAlive",
    }
)  # fmt: skip
"""What a URL may say besides the place. Names of classes, of files to write and secrets are not among it."""

_URL = re.compile(r"jdbc:postgresql:(?://)?[^?#\s]*(?:\?([^#\s]*))?")
_FETCH_ROWS = 10_000
_MAX_FETCH_ROWS = 1_000_000

UNKNOWN_BYTES = 64 << 20
"""What a table is taken for that nobody has asked for its size."""


class Database(Struct, frozen=True, kw_only=True):
    """Another database, as one role of ours sees it. Its `repr` has no secrets."""

    server: str
    url: str
    user: str | None
    password: str | None
    fetch_rows: int = _FETCH_ROWS

    def __repr__(self) -> str:
        return f"Database(server={self.server!r})"


class RemoteRows:
    """The rows of a table of another database: `query` is what is asked of it, its columns are called ``c1``, ..."""

    files: tuple[()] = ()
    listed = 0

    def __init__(self, database: Database, query: str, types: Sequence[SqlType]) -> None:
        self.database = database
        self.query = query
        self.types = tuple(types)


def is_database(server: ForeignServer) -> bool:
    """Whether the tables of `server` are those of another database."""
    return "url" in dict(server.options)


def check_server(options: Options) -> None:
    """22023 and 0A000 for options that the server of another database cannot have."""
    given = dict(options)
    url = given["url"]
    if not url.startswith(_SCHEME):
        raise FeatureNotSupported(
            f"foreign servers of this URL are not supported: {url.partition('?')[0]}",
            hint=f"Databases are read that speak PostgreSQL's protocol: {_SCHEME}//host/database.",
        )
    found = _URL.fullmatch(url)
    if found is None:
        raise InvalidParameterValue('invalid value for option "url"')
    for name, _ in parse_qsl(found[1] or "", keep_blank_values=True):
        if name in ("user", "password"):
            raise InvalidParameterValue(
                f'option "url" must not say the {name}', hint="Say it by CREATE USER MAPPING, whose options are secret."
            )
        if name not in _PARAMETERS:
            raise InvalidParameterValue(f'invalid parameter "{name}" in option "url"')
    _fetch_rows(given)


def _fetch_rows(options: dict[str, str]) -> int:
    text = options.get("fetch_size", str(_FETCH_ROWS))
    if not (text.isdecimal() and 0 < int(text) <= _MAX_FETCH_ROWS):
        raise InvalidParameterValue(f'invalid value for integer option "fetch_size": {text}')
    return int(text)


def check_table(options: Options) -> None:
    """22023 for options that a table of another database cannot have."""
    given = dict(options)
    if ("table_name" in given) == ("query" in given):
        raise InvalidParameterValue('either option "table_name" or "query" is required for tables of a database')
    if "query" in given and "schema_name" in given:
        raise InvalidParameterValue('option "schema_name" is for option "table_name" alone')


def database_of(server: ForeignServer, role: int) -> Database:
    """The database of `server`, as `role` sees it."""
    options = dict(server.options)
    mapping = server.mapping(role) or server.mapping(0)
    known = {} if mapping is None else dict(mapping.options)
    return Database(
        server=server.name,
        url=options["url"],
        user=known.get("user"),
        password=known.get("password"),
        fetch_rows=_fetch_rows(options),
    )


def check_access(database: Database, *, superuser: bool) -> None:
    """42704 and 2F003 as postgres_fdw has them: nobody reads as the operator by the way of a server."""
    if database.user is None:
        raise UndefinedObject(
            f'user mapping with the option "user" not found for server "{database.server}"',
            hint="CREATE USER MAPPING FOR ... SERVER ... OPTIONS (user '...', password '...').",
        )
    if database.password is None and not superuser:
        # NOTE: imported here, so that a server listens before it loads what engines need.
        from planner.lowering.engine_errors import named_error

        # sql_routine_exception: prohibited_sql_statement_attempted
        raise named_error(
            "2F003", "password is required", "Non-superusers must provide a password in the user mapping."
        )


def local_type(written: str) -> SqlType:
    """The type of what the other database calls `written`: text where there is no such type here."""
    (parsed,) = split_and_parse(f"SELECT NULL::{written}")
    node = parsed.tree.target_list[0].res_target.val.type_cast.type_name
    try:
        found = resolve_type_name(node, parsed, located=False)
    except (UndefinedObject, FeatureNotSupported):
        return SqlType(t.TEXT)
    return SqlType(t.TEXT) if is_user_type(found.oid) else found


def remote_source(options: Options) -> str:
    """The FROM item that a table with these options is."""
    given = dict(options)
    if "query" in given:
        # The line ends a comment at the query's end.
        return f"({given['query'].rstrip().rstrip(';')}\n) AS source"
    names = (given.get("schema_name"), given["table_name"])
    return ".".join(quote_identifier(name) for name in names if name is not None)


def remote_table(
    name: str, server: ForeignServer, options: Options, read: ForeignRead, role: int, *, superuser: bool
) -> FileTable:
    """The rows of a foreign table that `role` reads, as they are asked for. Raises what `check_access` raises."""
    database = database_of(server, role)
    check_access(database, superuser=superuser)
    items = []
    for number, (column, type) in enumerate(read.columns, 1):
        value = f"CAST({quote_identifier(column)} AS {format_type(type.oid, type.typmod)})"
        if type.oid == t.TEXT:
            value += ' COLLATE "C"'  # Spark hands conditions on, and compares texts by their bytes.
        items.append(f"{value} AS c{number}")
    query = f"SELECT {', '.join(items)} FROM {remote_source(options)}"
    rows = RemoteRows(database, query, [type for _, type in read.columns])
    return FileTable(columns=read.columns, bytes=UNKNOWN_BYTES, content=rows, name=name, remote=True)
