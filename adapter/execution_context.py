"""For whom a query runs: what engines and the functions of the system catalogs know of the session.

The execution layer makes an `ExecutionContext` for each query that it gives to an engine. What only sessions know (who
is connected, which cursors are open) it hands over as `SessionFacts`, which this module declares and
`adapter.queries.session_facts` implements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from storage.catalog.model import CatalogSnapshot

Row: TypeAlias = Mapping[str, Any]
"""A row of a system relation: values by column name; a missing column is NULL."""


Purpose: TypeAlias = Literal["", "load", "maintenance"]
"""What a statement reads for, where that says something of its class: to write what it has read, or for upkeep."""


class ExecutionContext(Struct, frozen=True, kw_only=True):
    """Who runs a query and under which catalog. `token` names this execution: engines key cancellation by it, and
    catalog functions find `catalog`, `search_path`, `user` and `database` by it."""

    token: str
    catalog: CatalogSnapshot
    search_path: tuple[str, ...]
    user: str
    database: str
    settings: Mapping[str, str]
    purpose: Purpose = ""
    facts: SessionFacts | None = None
    """What pg_stat_activity, pg_cursors and their like show."""


class SessionFacts(Protocol):
    """What sessions know and the catalog does not."""

    def rows(self, relation: str) -> Sequence[Row]:
        """The rows of pg_settings, pg_stat_activity, pg_cursors, pg_prepared_statements or pg_locks, by column name
        (missing columns are NULL; times as aware datetimes); empty where there is nothing to say."""
        ...

    def relation_size(self, oid: int) -> int:
        """Bytes that the table or index with this oid occupies; 0 for views and for what is stored in no shard."""
        ...

    @property
    def knows_extents(self) -> bool:
        """Whether it is known how large tables and indexes are."""
        ...

    def relation_rows(self, oid: int) -> int | None:
        """How many rows the table or index with this oid has; None where that is not known or has no meaning."""
        ...

    def database_size(self, oid: int) -> int:
        """Bytes that the tables and indexes of the database with this oid occupy."""
        ...

    def setting(self, name: str) -> str | None:
        """The value that SHOW prints for a setting, None when there is none of that name."""
        ...

    def blocking_pids(self, pid: int) -> Sequence[int]:
        """The sessions that the waiting session `pid` waits for; none when it does not wait."""
        ...

    def listening_channels(self) -> Sequence[str]:
        """The channels that the session listens on."""
        ...

    def now_ms(self) -> int:
        """The transaction's time in milliseconds since 1970."""
        ...
