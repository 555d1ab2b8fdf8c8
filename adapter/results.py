"""What a session gives back for a statement: the contract between adapter and frontend.

The frontend drives a `Session` (adapter.sessions.session), one call at a time::

    session = await server.open_session(startup, notify, terminate)

    async for result in session.execute_simple(text): ...      # simple protocol: a StatementResult per statement

    await session.prepare(name, text, param_oids)              # Parse
    await session.describe_statement(name)                     # Describe S: a StatementDescription, nothing is run
    await session.bind(portal, statement, params, formats)     # Bind; `ir.Literal`s, decoded by the frontend
    await session.describe_portal(portal)                      # Describe P: columns, or None
    await session.execute_portal(portal, max_rows)             # Execute: a StatementResult
    await session.close_statement(name)                        # Close; also close_portal
    await session.sync()                                       # Sync: ends the implicit transaction

    session.transaction_status                                 # "I", "T" or "E"
    session.take_parameter_changes()                           # reportable settings changed since last asked
    session.take_notices()                                     # notices since last asked
    session.cancel()                                           # from elsewhere, on the event loop's thread
    await session.close()

Every call may raise `planner.errors.SqlError`; it has failed the session's transaction by then.

Rows are Arrow record batches whose column i has the physical type of `columns[i].type` (planner.ir.physical), never
Python rows. A `Rows` result is lazy: the frontend pulls batches as fast as the client reads. It must call `aclose()` on
the stream when it stops early, also before the first batch; that fails the statement.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from msgspec import Struct, field

from planner.calls.record_shapes import RecordShape
from planner.ir.nodes import Origin
from planner.types.types import SqlType
from planner.values.text_values import Names

RecordBatch: TypeAlias = Any
"""A pyarrow.RecordBatch (pyarrow ships no type information)."""


class ColumnDescription(Struct, frozen=True, kw_only=True):
    """One column of a result, as RowDescription needs it. `shape` is what is known of records in it."""

    name: str
    type: SqlType
    origin: Origin | None = None
    shape: RecordShape | None = None


class StatementDescription(Struct, frozen=True, kw_only=True):
    """What Describe of a prepared statement answers. `columns` is None for statements that return no rows."""

    param_types: tuple[SqlType, ...]
    columns: tuple[ColumnDescription, ...] | None


class Notice(Struct, frozen=True, kw_only=True):
    """A NoticeResponse: severity is NOTICE, WARNING, INFO, DEBUG or LOG."""

    severity: str
    sqlstate: str
    message: str
    detail: str | None = None
    hint: str | None = None
    where: str | None = None


class Rows(Struct, kw_only=True):
    """Rows to send, then a command tag.

    `tag` makes the tag from the number of rows sent by this execution (`SELECT n`, `FETCH n`, `INSERT 0 n`). When
    `suspended()` is true after the stream ends, more rows remain in the portal (PortalSuspended instead of
    CommandComplete). `binary` is set for FETCH from a BINARY cursor: the simple protocol then sends binary values.
    """

    columns: tuple[ColumnDescription, ...]
    batches: AsyncIterator[RecordBatch]
    tag: Callable[[int], str]
    suspended: Callable[[], bool]
    binary: bool = False


class Command(Struct, frozen=True, kw_only=True):
    """A statement that returns no rows: its command tag."""

    tag: str


class Empty(Struct, frozen=True, kw_only=True):
    """An empty query string."""


class CopyFormat(Struct, frozen=True, kw_only=True):
    """Options of COPY (PostgreSQL, "COPY"). `format` is text, csv, binary, json, or raw: the data is bytes in one
    column, which are no rows. The rest is as the command has it, with its defaults filled in; `force_*` list column
    positions (0-based)."""

    format: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
    header_match: bool = False
    quote: str = '"'
    escape: str = '"'
    force_quote: tuple[int, ...] = ()
    force_not_null: tuple[int, ...] = ()
    force_null: tuple[int, ...] = ()
    encoding: str | None = None
    """The data's, None for the client's."""
    default: str | None = None
    """What stands for a column's default in the data."""
    with_default: tuple[int, ...] = ()
    """The columns that have one."""
    ignores_errors: bool = False
    """Whether a row with a value that its type does not take is left out."""
    columns_named: bool = False
    """Whether COPY says which columns it copies."""


class CopyProgress(Struct, kw_only=True):
    """How far a COPY is, for pg_stat_progress_copy: who moves bytes and rows counts them here. `type` is FILE or PIPE;
    `relation` 0 is a query; a total of 0 is not known."""

    command: str = ""
    type: str = "PIPE"
    relation: int = 0
    started_at: datetime | None = None
    """When its statement began."""
    bytes_processed: int = 0
    bytes_total: int = 0
    tuples_processed: int = 0
    tuples_excluded: int = 0


class RewriteProgress(Struct, kw_only=True):
    """How far VACUUM (FULL) is with a table, for pg_stat_progress_cluster. `bytes_total` are those of the files to
    rewrite, `bytes_read` and `rows_read` of the groups of them that were taken up."""

    relation: int
    started_at: datetime | None
    """When its statement began."""
    phase: str = "initializing"
    bytes_total: int = 0
    bytes_read: int = 0
    rows_read: int = 0
    rows_written: int = 0


class CopyOut(Struct, kw_only=True):
    """COPY ... TO STDOUT: the frontend formats the batches. The tag is `COPY n`; `count` says at the end what n is when
    the batches have other rows. Those of a `live` one are sent as they come: nobody knows when the next one does."""

    columns: tuple[ColumnDescription, ...]
    format: CopyFormat
    batches: AsyncIterator[RecordBatch]
    count: Callable[[], int] | None = None
    live: bool = False
    progress: CopyProgress = field(default_factory=CopyProgress)


class SkippedRow(Struct, frozen=True, kw_only=True):
    """A row of COPY FROM that is left out, for `text` in `column` is no value of its type."""

    line: int
    column: str
    text: str


class CopyIn(Struct, kw_only=True):
    """COPY ... FROM STDIN: the frontend decodes the client's bytes into record batches with physical types of
    `columns` and feeds them to `write`; then calls `finish` for the row count (tag `COPY n`), or `abort` with the
    reason.

    `write` applies back-pressure: it returns when the next batch may come. A batch has a boolean column more, called
    ``default N``, for the column N (from 0) in which some rows have the mark that stands for its default. Rows that are
    left out are told to `skip`, which raises 22P02 when they become too many.
    """

    relation_name: str
    columns: tuple[ColumnDescription, ...]
    format: CopyFormat
    write: Callable[[RecordBatch], Awaitable[None]]
    finish: Callable[[], Awaitable[int]]
    abort: Callable[[BaseException | None], Awaitable[None]]
    skip: Callable[[Sequence[SkippedRow]], None] | None = None
    progress: CopyProgress = field(default_factory=CopyProgress)
    names: Names | None = None
    """Finds what a value of regclass and its like names."""


StatementResult: TypeAlias = Rows | Command | Empty | CopyOut | CopyIn


class TlsFacts(Struct, frozen=True, kw_only=True):
    """What pg_stat_ssl shows of an encrypted connection; the last three when the client has a certificate."""

    version: str
    cipher: str
    bits: int
    client_dn: str | None = None
    client_serial: int | None = None
    issuer_dn: str | None = None


class StartupParameters(Struct, frozen=True, kw_only=True):
    """What a client said at start-up: `settings` are all other parameters (options already split into name and
    value). `remote_address` is the client's IP address and port, with a colon between them, `server_address` those that
    it has connected to; None on a Unix socket."""

    user: str
    database: str
    settings: tuple[tuple[str, str], ...]
    remote_address: str | None
    server_address: str | None = None
    tls: TlsFacts | None = None
