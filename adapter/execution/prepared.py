"""The prepared statements of a session: those of the protocol's Parse and those of SQL's PREPARE, in one namespace.

They are not transactional, and outlive transactions. How they are made, described and bound is in
`adapter.statements.prepare`. A statement is bound again whenever it is used, so it follows the catalog; when its result
columns change behind the client's back, using it is an error (`check_unchanged`).
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from adapter.results import ColumnDescription
from planner.errors import DuplicatePreparedStatement, FeatureNotSupported, InvalidSqlStatementName
from planner.syntax.parse import Parsed
from planner.types.types import SqlType
from storage.catalog.model import CatalogSnapshot


class PreparedStatement(Struct, kw_only=True):
    """A statement as prepared. `parsed` is None for an empty one. `columns` is what it was described with, which must
    not change behind the client's back."""

    name: str
    text: str
    parsed: Parsed | None
    declared: tuple[int, ...]
    param_types: tuple[SqlType, ...]
    param_oids: tuple[int, ...]
    """Of `param_types`."""
    columns: tuple[ColumnDescription, ...] | None
    from_sql: bool
    prepared_at: datetime
    past: CatalogSnapshot | None = None
    """The catalog of the moment that it reads, where its text says which."""


class PreparedStatements:
    """A session's prepared statements, by name; that of the empty name is the protocol's unnamed one."""

    def __init__(self) -> None:
        self.by_name: dict[str, PreparedStatement] = {}

    def named(self) -> list[PreparedStatement]:
        """Every named statement, for pg_prepared_statements."""
        return [statement for name, statement in self.by_name.items() if name]

    def require(self, name: str) -> PreparedStatement:
        """The statement called `name`. Raises 26000."""
        statement = self.by_name.get(name)
        if statement is None:
            if not name:
                raise InvalidSqlStatementName("unnamed prepared statement does not exist")
            raise InvalidSqlStatementName(
                f'prepared statement "{name}" does not exist', routine="FetchPreparedStatement"
            )
        return statement

    def check_free(self, name: str) -> None:
        """Raise 42P05 when there is a statement called `name`; the unnamed one may be replaced."""
        if name and name in self.by_name:
            raise DuplicatePreparedStatement(f'prepared statement "{name}" already exists')

    def keep(self, statement: PreparedStatement) -> None:
        """Add `statement`, in place of one of its name."""
        self.by_name[statement.name] = statement

    def forget(self, name: str) -> None:
        """Drop a statement, if it is there."""
        self.by_name.pop(name, None)

    def forget_all(self) -> None:
        """DEALLOCATE ALL."""
        self.by_name.clear()


def check_unchanged(
    promised: tuple[ColumnDescription, ...] | None, columns: tuple[ColumnDescription, ...] | None
) -> None:
    """0A000 when a statement's result is not what its client was told. Drivers react to PostgreSQL's routine name,
    RevalidateCachedQuery, by preparing again."""
    if columns is not promised and _shape(columns) != _shape(promised):
        raise FeatureNotSupported("cached plan must not change result type", routine="RevalidateCachedQuery")


def _shape(columns: tuple[ColumnDescription, ...] | None) -> object:
    if columns is None:
        return None
    return [(column.name, column.type.oid, column.type.typmod) for column in columns]
