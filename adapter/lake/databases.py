"""Tables of other databases, which Spark reads by JDBC: what the options of servers and tables mean.

    CREATE SERVER shop FOREIGN DATA WRAPPER lake OPTIONS (url 'jdbc:postgresql://shop.example/shop');
    CREATE FOREIGN TABLE orders (id int, total numeric(12, 2)) SERVER shop OPTIONS (table_name 'orders');

A PostgreSQL casts each column to its type itself, as postgres_fdw has texts of its read; what Spark's JDBC has no exact
counterpart for (dates and times with their infinities, numeric without a precision, uuid, ...) comes as text. Of other
databases Spark has the types that its dialect of them says, and casts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from msgspec import Struct

from adapter.lake.jdbc_urls import POSTGRESQL, Kind, address_of
from adapter.store_errors import sql_error
from planner.errors import (
    FeatureNotSupported,
    InsufficientPrivilege,
    InvalidParameterValue,
    UndefinedFile,
    UndefinedObject,
)
from planner.ir.file_rows import FileTable
from planner.syntax.identifiers import quote_identifier
from planner.syntax.parse import split_and_parse
from planner.types import types as t
from planner.types.type_names import format_type, resolve_type_name
from planner.types.types import SqlType
from planner.types.user_types import is_user_type
from storage.catalog.outside import ForeignServer, Options
from storage.lake.places import Places
from storage.lake.troubles import FileTrouble

SERVER_OPTIONS = frozenset({"url", "driver", "fetch_size"})
TABLE_OPTIONS = frozenset({"schema_name", "table_name", "query"})

_CLASS = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*")
_FETCH_ROWS = 10_000
_MAX_FETCH_ROWS = 1_000_000

UNKNOWN_BYTES = 64 << 20
"""What a table is taken for that nobody has asked for its size."""


class Database(Struct, frozen=True, kw_only=True):
    """Another database, as one role of ours sees it. Its `repr` has no secrets."""

    server: str
    url: str
    kind: Kind
    driver: str | None = None
    user: str | None
    password: str | None
    fetch_rows: int = _FETCH_ROWS

    def __repr__(self) -> str:
        return f"Database(server={self.server!r})"


class RemoteRows:
    """The rows of a table of another database. `query` is what is asked of it, its columns are called ``c1``, ...; None
    where nobody here knows how that is written: then Spark asks for `columns` of the FROM item `source`."""

    files: tuple[()] = ()
    listed = 0

    def __init__(
        self, database: Database, query: str | None, source: str, columns: Sequence[tuple[str, SqlType]], name: str
    ) -> None:
        self.database = database
        self.query = query
        self.source = source
        self.columns = tuple(columns)
        self.name = name

    @property
    def asked(self) -> str:
        """The query that the other database gets, but for the conditions that Spark hands on."""
        if self.query is not None:
            return self.query
        names = ", ".join(self.database.kind.quoted(name) for name, _ in self.columns)
        return f"SELECT {names} FROM {self.source}"


def is_database(server: ForeignServer) -> bool:
    """Whether the tables of `server` are those of another database."""
    return "url" in dict(server.options)


def check_server(options: Options, allowed: Sequence[str], places: Places, *, superuser: bool) -> None:
    """22023, 42501 and 0A000 for options that the server of another database cannot have."""
    given = dict(options)
    address = address_of(given["url"], allowed)
    if "driver" in given and not _CLASS.fullmatch(given["driver"]):
        raise InvalidParameterValue(f'invalid value for option "driver": {given["driver"]}')
    if not address.kind.drivers and "driver" not in given:
        raise InvalidParameterValue(
            'option "driver" is required for this URL', hint="It is the class of the JDBC driver."
        )
    if address.path is not None:
        if address.kind.has_code and not superuser:
            raise InsufficientPrivilege(
                f"must be superuser to create a server for a {address.kind.name} database of this host",
                detail="Such a database can hold code, which runs in Spark's process.",
            )
        _checked_path(address.path, places)
    _fetch_rows(given)


def _checked_path(path: str, places: Places) -> str:
    """`path` with its links resolved. 42501 for one that the operator does not allow."""
    try:
        return places.writable(path)
    except FileTrouble as trouble:
        raise sql_error(trouble) from trouble


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


def database_of(server: ForeignServer, role: int, allowed: Sequence[str], places: Places) -> Database:
    """The database of `server`, as `role` sees it. 42501 and 58P01 for one of this host that it cannot be any more."""
    options = dict(server.options)
    mapping = server.mapping(role) or server.mapping(0)
    known = {} if mapping is None else dict(mapping.options)
    address = address_of(options["url"], allowed)
    url = address.url
    if address.path is not None:
        path = _checked_path(address.path, places)
        if not os.path.exists(path):
            raise UndefinedFile(f'there is no database "{address.path}"')
        url = address.kind.scheme + path
    return Database(
        server=server.name,
        url=url,
        kind=address.kind,
        driver=options.get("driver"),
        user=known.get("user"),
        password=known.get("password"),
        fetch_rows=_fetch_rows(options),
    )


def check_access(database: Database, *, superuser: bool) -> None:
    """42704 and 2F003 as postgres_fdw has them: nobody reads as the operator by the way of a server. Databases of this
    host, whose files the operator has allowed, may know no users."""
    if database.kind.embedded:
        return
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


def remote_source(kind: Kind, options: Options) -> str:
    """The FROM item that a table with these options is."""
    given = dict(options)
    if "query" in given:
        # The line ends a comment at the query's end.
        alias = "source" if kind is POSTGRESQL else kind.quoted("source")
        return f"({given['query'].rstrip().rstrip(';')}\n) {'AS ' if kind is POSTGRESQL else ''}{alias}"
    quoted = quote_identifier if kind is POSTGRESQL else kind.quoted
    names = (given.get("schema_name"), given["table_name"])
    return ".".join(quoted(name) for name in names if name is not None)


def remote_table(
    name: str, database: Database, options: Options, columns: Sequence[tuple[str, SqlType]], *, superuser: bool
) -> FileTable:
    """The rows of a foreign table, as they are asked for. Raises what `check_access` raises."""
    check_access(database, superuser=superuser)
    source = remote_source(database.kind, options)
    query = _in_postgresql(source, columns) if database.kind is POSTGRESQL else None
    rows = RemoteRows(database, query, source, columns, name)
    return FileTable(columns=tuple(columns), bytes=UNKNOWN_BYTES, content=rows, name=name, remote=True)


def _in_postgresql(source: str, columns: Sequence[tuple[str, SqlType]]) -> str:
    items = []
    for number, (column, type) in enumerate(columns, 1):
        value = f"CAST({quote_identifier(column)} AS {format_type(type.oid, type.typmod)})"
        if type.oid == t.TEXT:
            value += ' COLLATE "C"'  # Spark hands conditions on, and compares texts by their bytes.
        items.append(f"{value} AS c{number}")
    return f"SELECT {', '.join(items)} FROM {source}"
