"""The files of foreign tables: what the options of servers, user mappings and tables mean, and looking the files up.

Everything that looks at files blocks, and runs on a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from msgspec import Struct

from adapter.access.membership import is_superuser
from adapter.lake.databases import Database, check_server, database_of, is_database, remote_table
from adapter.lake.file_conditions import FilesNeeded
from adapter.lake.file_tables import check_nested_columns, file_table
from adapter.store_errors import sql_error
from planner.errors import InvalidParameterValue, SqlSyntaxError
from planner.files.read_calls import check_csv, file_codec
from planner.ir.file_rows import FileTable, ForeignRead
from planner.ir.physical import arrow_type
from planner.syntax.file_names import table_format
from planner.syntax.options import boolean_value
from planner.types.types import JSON
from storage.bounded_map import BoundedMap
from storage.catalog.model import CatalogSnapshot, Relation
from storage.catalog.outside import ForeignServer, Options
from storage.lake.formats import SUFFIXES, FileFormat
from storage.lake.places import is_url, located
from storage.lake.snapshots.catalogs import IcebergCatalog, metadata_location
from storage.lake.snapshots.listings import SnapshotTables, TableFormat, WhichSnapshot
from storage.lake.snapshots.tables import SnapshotTable
from storage.lake.tables import LakeTable, LakeTables
from storage.lake.troubles import FileTrouble

MAX_PLACES = 64
"""Pairs of a server and of who reads from it whose connections are kept."""

SECRETS = frozenset(
    {
        "access_key_id", "secret_access_key", "session_token", "account_name", "account_key", "sas_key",
        "service_account_key",
    }
)  # fmt: skip
"""Options of user mappings, by the names of the library of object stores."""

STORE_OPTIONS = frozenset(
    {"region", "endpoint", "allow_http", "virtual_hosted_style_request", "skip_signature", "connect_timeout", "timeout"}
)
CATALOG_OPTIONS = frozenset({"catalog", "uri", "warehouse", "catalog_name", "oauth2_server_uri"})
"""Options of servers that have their tables from an Iceberg catalog."""

CATALOG_SECRETS = frozenset({"credential", "token", "user", "password"})
SERVER_OPTIONS = STORE_OPTIONS | CATALOG_OPTIONS | {"path"}
MAPPING_OPTIONS = SECRETS | CATALOG_SECRETS
_CSV_OPTIONS = frozenset({"header", "delimiter", "quote", "escape", "null", "encoding"})
_SNAPSHOT_OPTIONS = frozenset({"snapshot_id", "as_of"})
TABLE_OPTIONS = _CSV_OPTIONS | _SNAPSHOT_OPTIONS | {"path", "table", "format", "hive_partitioning"}
COLUMN_OPTIONS = frozenset({"column_name", "force_null", "force_not_null"})


class Below(Struct, frozen=True):
    """What is below the path of a server: files, and tables that say themselves which files they have."""

    files: LakeTables
    snapshots: SnapshotTables
    catalog: IcebergCatalog | None


class ForeignFiles:
    """Looks at files below the paths of servers. Thread-safe."""

    def __init__(self, operators: LakeTables, urls: Sequence[str] = ()) -> None:
        """`urls`: what those of other databases may begin with that are taken as they are."""
        self._operators = operators
        self._urls = tuple(urls)
        self._lock = threading.Lock()
        self._known: BoundedMap[tuple[tuple[str, str], ...], Below] = BoundedMap(max_entries=MAX_PLACES)

    def below(self, server: ForeignServer, role: int) -> Below:
        """What is below the path of `server`, as `role` sees them. Raises FileTrouble."""
        mapping = server.mapping(role) or server.mapping(0)
        options = dict(server.options)
        root = options.pop("path")
        if mapping is not None:
            options |= dict(mapping.options)
        key = (("path", root), *sorted(options.items()))
        with self._lock:
            known = self._known.get(key)
        if known is None:
            store = {name: value for name, value in options.items() if name not in CATALOG_OPTIONS | CATALOG_SECRETS}
            places = self._operators.places.within(root, store, SECRETS)
            known = Below(LakeTables(places), SnapshotTables(places), catalog_of(options))
            with self._lock:
                self._known.put(key, known)
        elif not is_url(root):
            self._operators.places.check(root)  # Links may lead elsewhere by now.
        return known

    def database(self, server: ForeignServer, role: int) -> Database:
        """The database of `server`, as `role` sees it. Raises what `database_of` raises."""
        return database_of(server, role, self._urls, self._operators.places)

    def check_server(self, options: Options, *, superuser: bool) -> None:
        """Raises 42501 and 42602 for a path that the operator does not allow, and what `check_server` of databases
        raises."""
        if "url" in dict(options):
            check_server(options, self._urls, self._operators.places, superuser=superuser)
            return
        try:
            root = dict(options)["path"]
            store = {name: value for name, value in options if name in STORE_OPTIONS}
            catalog_of(dict(options))
            places = self._operators.places.within(root, store, SECRETS)
            if is_url(root):
                places.check(root)
        except FileTrouble as trouble:
            raise sql_error(trouble) from trouble

    def check_table(self, server: ForeignServer, options: Options, role: int) -> None:
        """Raises 42501 for files that are not below the path of the server, and 22023 for options that do not fit."""
        if format_of_snapshots(options) is None:
            format_of_table(options)
        if "table" in dict(options):
            if "catalog" not in dict(server.options):
                raise InvalidParameterValue(
                    f'server "{server.name}" has no catalog', hint="Say the folder of the table by the option path."
                )
            return
        try:
            self.below(server, role).files.places.check(pattern_of(server, options))
        except FileTrouble as trouble:
            raise sql_error(trouble) from trouble

    def inferred(self, server: ForeignServer, options: Options, role: int) -> FileTable:
        """The columns that the files of a table have. Raises what looking at files raises."""
        try:
            return file_table(self._table(server, options, role))
        except FileTrouble as trouble:
            raise sql_error(trouble) from trouble

    def found(
        self,
        catalog: CatalogSnapshot,
        read: ForeignRead,
        role: int,
        needed: FilesNeeded | None = None,
    ) -> FileTable:
        """The files of a foreign table that `role` reads, as the columns that were declared; `needed` says which have
        to be read. Raises what looking at files raises."""
        relation = catalog.get(read.oid)
        assert isinstance(relation, Relation)
        assert relation.foreign is not None
        server = catalog.get(relation.foreign.server)
        assert isinstance(server, ForeignServer)
        options = relation.foreign.options
        if is_database(server):
            superuser = is_superuser(catalog, role)
            database = self.database(server, role)
            return remote_table(relation.name, database, options, read.columns, superuser=superuser)
        declared = [pa.field(name, pa.json_() if type.oid == JSON else arrow_type(type)) for name, type in read.columns]
        try:
            table = self._table(server, options, role, declared, needed)
        except FileTrouble as trouble:
            error = sql_error(trouble)
            error.where = f'foreign table "{relation.name}"'
            raise error from trouble
        check_nested_columns(table)
        return FileTable(columns=read.columns, bytes=table.bytes, content=table, name=relation.name)

    def _table(
        self,
        server: ForeignServer,
        options: Options,
        role: int,
        declared: Sequence[pa.Field] | None = None,
        needed: FilesNeeded | None = None,
    ) -> LakeTable | SnapshotTable:
        below = self.below(server, role)
        pattern = pattern_of(server, options) if "path" in dict(options) else _location(below, dict(options)["table"])
        snapshots = format_of_snapshots(options)
        if snapshots is not None:
            format, which = snapshots
            wanted = None if needed is None else needed.by_statistics
            return below.snapshots.table(pattern, format, which, declared=declared, wanted=wanted)
        return below.files.table(
            (pattern,),
            format_of_table(options),
            hive=_is_hive(options),
            declared=declared,
            matched=is_matched(options),
            needed=None if needed is None else needed.by_folders,
        )


def pattern_of(server: ForeignServer, options: Options) -> str:
    """The files of a table with these options: its path, below that of the server unless it says all of it."""
    path = dict(options)["path"]
    return path if is_url(path) or path.startswith(("/", "file://")) else joined(server, path)


def joined(server: ForeignServer, path: str) -> str:
    """A path below that of the server."""
    return f"{dict(server.options)['path'].rstrip('/')}/{path}".rstrip("/")


def format_of_table(options: Options) -> FileFormat:
    """How the files of a table with these options are read. Raises 22023 and 0A000."""
    given = dict(options)
    name: Any = table_format(options)
    if name not in SUFFIXES:
        if "format" in given:
            raise InvalidParameterValue(f'invalid value for option "format": "{given["format"]}"')
        raise InvalidParameterValue(
            f'cannot tell the format of "{given.get("path", "")}"',
            hint="Say it: OPTIONS (format 'parquet').",
        )
    of_csv: dict[str, Any] = {key: value for key, value in given.items() if key in _CSV_OPTIONS}
    if of_csv and name != "csv":
        raise InvalidParameterValue(f'option "{next(iter(of_csv))}" is for format "csv" alone')
    for key in ("delimiter", "quote", "escape"):
        if key in of_csv and len(of_csv[key].encode()) != 1:
            raise InvalidParameterValue(f'option "{key}" must be a single one-byte character')
    check_csv(of_csv)
    if "header" in of_csv:
        of_csv["header"] = is_matched(options) or flag(given, "header", default=True)
    if "encoding" in of_csv:
        of_csv["encoding"] = file_codec(of_csv["encoding"])
    return FileFormat(name=name, **of_csv)


def is_matched(options: Options) -> bool:
    """Whether the header of CSV files has to be that of the table."""
    return dict(options).get("header", "").lower() == "match"


def check_column_options(options: Options, of_table: Options) -> None:
    """Raises 22023 for options of a column that the table's files cannot have, and 42601 for no Boolean value."""
    for name, value in options:
        if name == "column_name":
            continue
        if boolean_value(value) is None:
            raise SqlSyntaxError(f"{name} requires a Boolean value")
        if table_format(of_table) != "csv":
            raise InvalidParameterValue(f'option "{name}" is for format "csv" alone')


def format_of_snapshots(options: Options) -> tuple[TableFormat, WhichSnapshot] | None:
    """The format of a table that says itself which files it has, and which state of it is read; None for files. Raises
    22023."""
    given = dict(options)
    name: Any = given.get("format", "iceberg" if "table" in given else "").lower()
    if "table" in given and (name != "iceberg" or "path" in given):
        raise InvalidParameterValue('option "table" is for format "iceberg" alone, and instead of "path"')
    if name not in ("iceberg", "delta"):
        for key in _SNAPSHOT_OPTIONS & given.keys():
            raise InvalidParameterValue(f'option "{key}" is for the formats "iceberg" and "delta" alone')
        return None
    for key in (_CSV_OPTIONS | {"hive_partitioning"}) & given.keys():
        raise InvalidParameterValue(f'option "{key}" is not for format "{name}"')
    number, as_of = given.get("snapshot_id"), given.get("as_of")
    if number is not None and as_of is not None:
        raise InvalidParameterValue('options "snapshot_id" and "as_of" exclude each other')
    if number is not None and not (number.isdecimal() and int(number) < 2**63):
        raise InvalidParameterValue(f'invalid value for option "snapshot_id": {number}')
    return name, WhichSnapshot(
        number=None if number is None else int(number), as_of=None if as_of is None else _moment(as_of)
    )


def catalog_of(options: Mapping[str, str]) -> IcebergCatalog | None:
    """The catalog that a server with these options, and those of a user mapping, has its tables from. Raises 22023."""
    kind: Any = options.get("catalog")
    if kind is None:
        for name in CATALOG_OPTIONS & options.keys():
            raise InvalidParameterValue(f'option "{name}" is for servers with the option "catalog"')
        return None
    if kind not in ("rest", "postgresql"):
        raise InvalidParameterValue(f'invalid value for option "catalog": {kind}', hint="It is rest or postgresql.")
    uri = options.get("uri", "")
    if not uri.startswith(("http://", "https://") if kind == "rest" else ("postgresql://", "postgres://")):
        raise InvalidParameterValue(f'invalid value for option "uri": {uri}')
    given = {name: options.get(name) for name in ("warehouse", "credential", "token", "user", "password")}
    return IcebergCatalog(
        kind=kind, uri=uri, name=options.get("catalog_name"), token_uri=options.get("oauth2_server_uri"), **given
    )


def _location(below: Below, table: str) -> str:
    """The metadata file of a table of the catalog. Raises FileTrouble."""
    namespace, _, name = table.rpartition(".")
    assert below.catalog is not None
    return located(metadata_location(below.catalog, namespace, name))


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidParameterValue(
            f'invalid value for option "as_of": {text}', hint="Write it as 2026-01-31 12:00:00+00."
        ) from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _is_hive(options: Options) -> bool:
    return flag(dict(options), "hive_partitioning", default=True)


def flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """The value of a boolean option. Raises 22023."""
    if name not in options:
        return default
    value = boolean_value(options[name])
    if value is None:
        raise InvalidParameterValue(f'invalid value for boolean option "{name}": {options[name]}')
    return value
